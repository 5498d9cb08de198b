"""The four tables of a kernel's protocol for a terminal: roles, storage, hand-off, lifetime, and why it hangs."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator

from warplint.tables import Deadlock, Protocol
from warplint_reports.protocol_words import (
    cluster_size,
    consumer,
    ctas,
    lines,
    phases,
    producer,
    shape,
    size,
    title,
    user,
    where,
    words,
)
from warplint_reports.report import visible

WIDTH = 110
_STYLE = {"head": "1", "name": "36", "bad": "1;31", "dim": "2", "warn": "33"}
Paint = Callable[[str, str], str]


def painter(color: bool) -> Paint:
    """Adds ANSI escapes when `color`."""
    return (lambda text, style: f"\x1b[{_STYLE[style]}m{text}\x1b[0m") if color else lambda text, style: text


def render(protocols: Iterable[Protocol], *, color: bool = False) -> str:
    """All kernels, ending in a newline."""
    paint = painter(color)
    return "\n".join("\n".join(_kernel(one, paint)) + "\n" for one in protocols)


def _kernel(one: Protocol, paint: Paint) -> Iterator[str]:
    yield from head(one.kernel, title(one), one.facts, one.incomplete, one.unexecuted, paint)
    if one.unexecuted:
        return
    others = [name for name in one.scenarios if not name.startswith(one.scenario)]
    blocking = sum(name.endswith("(blocks)") for name in others)
    told = f" ({blocking} of them block{'s' if blocking == 1 else ''})" if blocking else ""
    more = f"; {len(others)} more with --scenario{told}" if others else ""
    yield paint(f"  shown: the execution with {visible(one.scenario)}{more}", "dim")
    if one.deadlock is not None:
        yield ""
        yield from deadlock(one.deadlock, paint)
    for rows in (_roles, _storage, _handoffs, _lifetimes):
        yield ""
        yield from rows(one, paint)


def head(
    name: str,
    text: str,
    facts: tuple[tuple[str, str], ...],
    incomplete: tuple[tuple[str, int], ...],
    unexecuted: str,
    paint: Paint,
) -> Iterator[str]:
    """Name, place, launch facts, and what could not be established."""
    yield paint(visible(name), "head") + visible(text[len(name) :])
    for key, value in facts:
        yield paint(f"  {key}: {visible(value)}", "dim")
    for reason, line in incomplete:
        place = f"line {line}: " if line else ""
        yield paint(f"  incomplete: {place}{visible(reason)}", "warn")
    if unexecuted:
        yield f"  not executed: {visible(unexecuted)}"


def deadlock(one: Deadlock, paint: Paint) -> Iterator[str]:
    """Who waits for what at the end."""
    if one.established:
        yield paint("Hangs", "bad")
    else:
        yield paint("Blocks in this execution, which is not established (see incomplete, and the sizes tried)", "warn")
    yield from _wrapped(f"{one.summary}", "  ", "  ")
    if one.cycle:
        yield "  the cycle of waits:"
        for number, step in enumerate(one.cycle, 1):
            yield from _wrapped(f"{number}. {step}", "    ", "       ")
    yield "  blocked:"
    for row in one.waiting:
        yield from _wrapped(f"line {row.line}: {row.who} waits for {row.what}", "    ", "      ")
        if row.has:
            yield from _wrapped(f"it has: {row.has}", "        ", "          ")
        for need in row.needs:
            yield from _wrapped(f"needs: {need}", "        ", "          ")


def _wrapped(text: str, first: str, then: str) -> list[str]:
    return textwrap.wrap(
        visible(text), WIDTH, initial_indent=first, subsequent_indent=then, break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def columns(rows: list[tuple[str, ...]], indent: str, limits: tuple[int, ...]) -> Iterator[str]:
    """Rows as aligned columns; the last column is wrapped, a column that is too long pushes the rest on."""
    widths = [min(max((len(row[i]) for row in rows), default=0), limits[i]) for i in range(len(limits))]
    for row in rows:
        text = indent
        for cell, width in zip(row[: len(limits)], widths, strict=True):
            text += f"{visible(cell):<{width}}  "
        rest = " " * len(indent + "  ".join(" " * width for width in widths) + "  ")
        wrapped = _wrapped(row[-1], "", "") or [""]
        if len(row) > len(limits):
            room = max(WIDTH - len(rest), 40)
            wrapped = textwrap.wrap(visible(row[-1]), room, break_long_words=False, break_on_hyphens=False) or [""]
            yield (text + wrapped[0]).rstrip()
            for extra in wrapped[1:]:
                yield rest + extra
        else:
            yield text.rstrip()


def _roles(one: Protocol, paint: Paint) -> Iterator[str]:
    yield paint("Roles", "head")
    total = cluster_size(one)
    for role in one.roles:
        only = ctas(role.ctas, total)
        yield f"  {paint(visible(role.name), 'name')}  {role.threads}{f', {only}' if only else ''}"
        for guard in role.guards:
            yield from _wrapped(f"under {guard}", "      ", "        ")
        for registers in role.registers:
            yield f"      setmaxnreg {registers.registers} (line {registers.line})"
        rows = [
            (doing.op, f"{doing.times}x", doing.threads if doing.threads != role.threads else "", lines(doing.lines))
            for doing in role.operations
        ]
        yield from columns(rows, "      ", (36, 6, 36))


def _storage(one: Protocol, paint: Paint) -> Iterator[str]:
    yield paint("Storage", "head")
    if not one.storage:
        yield "  none whose address is known"
        return
    total = cluster_size(one)
    for buffer in one.storage:
        unit = "columns" if buffer.space == "tensor" else "bytes"
        stages = f", {len(buffer.starts)} stages" if len(buffer.starts) > 1 else ""
        only = ctas(buffer.ctas, total)
        only = f", {only}" if only else ""
        amount = f": {size(buffer)} {unit}" if buffer.starts else ""
        yield f"  {paint(buffer.name, 'name')}  {visible(where(buffer))}{amount}{stages}{only}"
        for verb, users in (("written", buffer.writers), ("read", buffer.readers)):
            for index, each in enumerate(users):
                yield from _wrapped(f"{verb if not index else '':<8}{user(each)}".rstrip(), "      ", " " * 14)
            if not users:
                yield f"      {verb:<8}by nobody that is known"
    marks = {buffer.size_is for buffer in one.storage}
    said = {"inferred": "~ from the distance of the stages or the expected bytes", "at most": "<= at most, stages are "
            "further apart than what is expected", "at least": ">= only the start is known"}  # fmt: skip
    told = [text for mark, text in said.items() if mark in marks]
    if told:
        yield paint(f"  ({'; '.join(told)})", "dim")


def _handoffs(one: Protocol, paint: Paint) -> Iterator[str]:
    yield paint("Hand-off", "head")
    if not one.handoffs:
        yield "  no barrier was used"
    total = cluster_size(one)
    unused = [row for row in one.handoffs if not row.producers and not row.consumers]
    for row in one.handoffs:
        if row in unused:
            continue
        only = ctas(row.ctas, total) if row.kind != "cluster barrier" else ""
        about = ", ".join(text for text in (words(row), shape(row), only) if text)
        yield from _wrapped(f"{row.name}  {about}".rstrip(), "  ", "      ")
        for each in row.producers:
            yield from _wrapped(f"from {each.role}: {producer(each, row.kind)}", "      ", "          ")
            if each.before:
                yield from _wrapped(f"after {', '.join(each.before)}", "          ", "            ")
        for each in row.consumers:
            yield from _wrapped(f"to   {each.role}: {consumer(each, row.kind)}", "      ", "          ")
            if each.after:
                yield from _wrapped(f"then {', '.join(each.after)}", "          ", "            ")
        if not row.producers:
            yield paint("      nobody arrives", "bad")
        if not row.consumers:
            yield "      nobody waits"
        if row.carries:
            yield f"      hands over {', '.join(row.carries)}"
        done = phases(row)
        if done:
            yield f"      phases completed: {done}"
        for left in row.left:
            yield from _wrapped(f"unfinished: {left}", "      ", "        ")
    if unused:
        told = "; ".join(f"{row.name} ({words(row)}, init {lines(row.init_lines)})" for row in unused)
        yield from _wrapped(f"initialised and never used: {told}", "  ", "    ")


def _lifetimes(one: Protocol, paint: Paint) -> Iterator[str]:
    yield paint("Lifetime", "head")
    alike: dict[tuple[str, str], list[str]] = {}
    for row in one.lifetimes:
        if row.name.startswith("B"):
            if row.first_use != "never used":
                alike.setdefault((row.release, row.ends), []).append(row.name)
            continue
        yield f"  {paint(row.name, 'name')}"
        facts = [("begins", row.begins), ("first use", row.first_use), ("last use", row.last_use)]
        if row.reuse:
            facts.append(("reused after", ", ".join(row.reuse)))
        facts.append(("ends", row.ends))
        if row.release:
            facts.append(("ordered by", row.release))
        for name, text in facts:
            if text != "with the block":
                yield from _wrapped(f"{name:<14}{text}", "      ", " " * 20)
        for hazard in row.hazards:
            yield from _wrapped(f"{'not ordered':<14}{hazard}", "      ", " " * 20)
    for (release, ends), names in alike.items():
        over = "" if ends == "with the block" else f"; {ends}"
        told = release or "used only by the thread that initialises"
        yield from _wrapped(f"{', '.join(names)}  {told}{over}", "  ", "      ")
