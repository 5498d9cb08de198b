"""The four tables as Markdown, for issues and notes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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
    user,
    where,
    words,
)
from warplint_reports.report import visible


def render(protocols: Iterable[Protocol]) -> str:
    """All kernels, ending in a newline."""
    return "\n".join("\n".join(_kernel(one)) + "\n" for one in protocols)


def cell(text: str) -> str:
    """Text that a table cell shows as it is."""
    out = visible(text)
    for char in "\\`*_{}[]<>#|~":
        out = out.replace(char, f"\\{char}")
    return out.replace("\n", " ")


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    yield "| " + " | ".join(heads) + " |"
    yield "|" + " --- |" * len(heads)
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def _many(texts: Iterable[str]) -> str:
    return "<br>".join(cell(text) for text in texts)


def _more(word: str, texts: tuple[str, ...]) -> str:
    return f", {word} {', '.join(texts)}" if texts else ""


def _kernel(one: Protocol) -> Iterator[str]:
    yield f"## {cell(one.kernel)}"
    yield ""
    yield f"{cell(one.path)}:{one.line}" + "".join(f"; {cell(name)}: {cell(value)}" for name, value in one.facts)
    yield ""
    for reason, line in one.incomplete:
        yield f"- incomplete: {f'line {line}: ' if line else ''}{cell(reason)}"
    if one.unexecuted:
        yield f"Not executed: {cell(one.unexecuted)}."
        return
    yield f"The execution with {cell(one.scenario)}."
    yield ""
    if one.deadlock is not None:
        yield from _deadlock(one.deadlock)
    total = cluster_size(one)
    yield "### Roles"
    yield ""
    yield from _table(
        ("role", "threads", "guards", "registers", "operations"),
        (
            (
                cell(role.name),
                cell(", ".join(text for text in (role.threads, ctas(role.ctas, total)) if text)),
                _many(role.guards),
                _many(f"{each.registers} (line {each.line})" for each in role.registers),
                _many(
                    f"{each.op} {each.times}x ({lines(each.lines)})"
                    + (f", {each.threads}" if each.threads != role.threads else "")
                    for each in role.operations
                ),
            )
            for role in one.roles
        ),
    )
    yield ""
    yield "### Storage"
    yield ""
    yield from _table(
        ("name", "where", "size", "stages", "written by", "read by"),
        (
            (
                buffer.name,
                cell(", ".join(text for text in (where(buffer), ctas(buffer.ctas, total)) if text)),
                cell(f"{size(buffer)} {'columns' if buffer.space == 'tensor' else 'bytes'}"),
                str(len(buffer.starts)),
                _many(map(user, buffer.writers)),
                _many(map(user, buffer.readers)),
            )
            for buffer in one.storage
        ),
    )
    yield ""
    yield "### Hand-off"
    yield ""
    yield from _table(
        ("barrier", "words", "shape", "from", "to", "hands over", "phases", "unfinished"),
        (
            (
                cell(row.name),
                cell(words(row)),
                cell(shape(row)),
                _many(
                    f"{each.role}: {producer(each, row.kind)}{_more('after', each.before)}" for each in row.producers
                ),
                _many(f"{each.role}: {consumer(each, row.kind)}{_more('then', each.after)}" for each in row.consumers),
                cell(", ".join(row.carries)),
                cell(phases(row)),
                _many(row.left),
            )
            for row in one.handoffs
        ),
    )
    yield ""
    yield "### Lifetime"
    yield ""
    yield from _table(
        ("name", "begins", "first use", "last use", "reused after", "ends", "ordered by", "not ordered"),
        (
            (
                row.name,
                cell(row.begins),
                cell(row.first_use),
                cell(row.last_use),
                _many(row.reuse),
                cell(row.ends),
                cell(row.release),
                _many(row.hazards),
            )
            for row in one.lifetimes
        ),
    )


def _deadlock(one: Deadlock) -> Iterator[str]:
    yield "### Hangs" if one.established else "### Blocks in this execution, which is not established"
    yield ""
    yield cell(one.summary)
    yield ""
    if one.cycle:
        for number, step in enumerate(one.cycle, 1):
            yield f"{number}. {cell(step)}"
        yield ""
    yield from _table(
        ("who", "line", "waits for", "has", "needs"),
        ((cell(row.who), str(row.line), cell(row.what), cell(row.has), _many(row.needs)) for row in one.waiting),
    )
    yield ""
