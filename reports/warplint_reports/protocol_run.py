"""The executed protocol for a terminal: what each role did in order, with loops folded, and the phases of each barrier.

A loop is recognised by its lines: rounds that execute the same lines are told as the first two and the last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence

from msgspec import Struct

from warplint.tables import Phase, Run, Step, Word
from warplint_reports.protocol_text import Paint, _wrapped, deadlock, head, painter
from warplint_reports.protocol_words import lines, size, title, where
from warplint_reports.report import visible

MAX_PERIOD = 96
"""Longest round of a loop, in steps (or folded loops), that is recognised."""
MAX_PASSES = 400
LEAST = 3
"""Rounds that are worth folding."""
SHORT = 12
"""Steps of a round up to which two rounds are printed before the gap."""
ROWS = 120
"""Lines printed for one role unless another limit is asked for."""


class Loop(Struct, frozen=True):
    """Rounds of a loop, each a sequence of steps and loops."""

    rounds: list[tuple[Step | Loop, ...]]


def render(runs: Iterable[Run], *, color: bool = False, limit: int = ROWS, fold: bool = True) -> str:
    """All kernels, ending in a newline. `limit` bounds the lines of each role."""
    paint = painter(color)
    return "\n".join("\n".join(_kernel(run, paint, limit, fold)) + "\n" for run in runs)


def _kernel(run: Run, paint: Paint, limit: int, fold: bool) -> Iterator[str]:
    yield from head(run.kernel, title(run), run.facts, run.incomplete, run.unexecuted, paint)
    if run.unexecuted:
        return
    yield paint(f"  executed with {visible(run.scenario)}", "dim")
    if not run.finished:
        yield paint("  the execution was stopped by a bound", "warn")
    if run.storage:
        names = "; ".join(f"{b.name} = {where(b)} ({size(b)})" for b in run.storage)
        yield from _wrapped(names, "  ", "    ")
    if run.deadlock is not None:
        yield ""
        yield from deadlock(run.deadlock, paint)
    seen: dict[tuple[str, str], tuple[int, list[Hashable]]] = {}
    for agent in run.agents:
        for cta in agent.ctas:
            yield ""
            steps = [step for step in run.steps if step.cta == cta and int(step.mask, 16) & int(agent.mask, 16)]
            marks: list[Hashable] = [_mark(step) for step in steps]
            where_ = f", CTA {cta}" if len({c for a in run.agents for c in a.ctas}) > 1 else ""
            # What most of its steps are executed by goes without saying.
            count = Counter(step.threads for step in steps if not int(step.mask, 16) & ~int(agent.mask, 16))
            usual = count.most_common(1)[0][0] if count else agent.threads
            by = f"; steps are of {usual} unless others are named" if usual != agent.threads else ""
            yield f"{paint(visible(agent.name), 'name')}  {agent.threads}{where_}{by}"
            before = seen.setdefault((agent.name, agent.mask), (cta, marks))
            if before[0] != cta and before[1] == marks:
                yield f"    the same {len(steps)} steps as in CTA {before[0]}"
                continue
            yield from _steps(steps, usual, paint, limit, fold)
    if run.cut:
        yield f"  {run.cut} more steps are not given"
    if run.words:
        yield ""
        yield paint("Barriers", "head")
        for word in run.words:
            yield from _word(word, limit)


# ---------------------------------------------------------------------------------------------------- steps
def _mark(item: Step | Loop) -> Hashable:
    if isinstance(item, Step):
        return (item.line, item.op, item.mask, item.blocked)
    return ("loop", tuple(_mark(inner) for inner in item.rounds[0]))


def folded(steps: Sequence[Step]) -> list[Step | Loop]:
    """Repetitions of the same lines become loops, inner ones first."""
    items: list[Step | Loop] = list(steps)
    numbers: dict[Hashable, int] = {}
    period, passes = 1, 0
    while period <= min(MAX_PERIOD, len(items) // LEAST) and passes < MAX_PASSES:
        passes += 1
        marks = [numbers.setdefault(_mark(item), len(numbers)) for item in items]
        made = _once(items, marks, period)
        if made is None:
            period += 1
        else:
            # The loop around it may have a shorter period now.
            items, period = made, 1
    return items


def _once(items: list[Step | Loop], marks: list[int], period: int) -> list[Step | Loop] | None:
    """Fold all repetitions of exactly this period; None when there are none."""
    made: list[Step | Loop] = []
    at, changed = 0, False
    while at < len(items):
        rounds = 1
        while (
            at + (rounds + 1) * period <= len(items)
            and marks[at : at + period] == marks[at + rounds * period : at + (rounds + 1) * period]
        ):
            rounds += 1
        if rounds >= LEAST:
            made.append(Loop([tuple(items[at + n * period : at + (n + 1) * period]) for n in range(rounds)]))
            at += rounds * period
            changed = True
        else:
            made.append(items[at])
            at += 1
    return made if changed else None


def _steps(steps: list[Step], usual: str, paint: Paint, limit: int, fold: bool) -> Iterator[str]:
    if not steps:
        yield "    nothing"
        return
    width = max(len(str(step.line)) for step in steps)
    count = len(str(steps[-1].number))
    shown = 0
    rows = _rows(folded(steps) if fold else list(steps), 0, fold)
    for item, depth, alike in rows:
        if shown >= limit:
            left = 1 + sum(1 for _ in rows)
            yield paint(f"    ... {left} more lines (--limit)", "dim")
            return
        shown += 1
        indent = "  " * depth
        if isinstance(item, str):
            yield paint(f"{'':>{count + 4}}{'':>{width + 2}}{indent}{item}", "dim")
            continue
        tail = "" if item.threads == usual else f"  [{item.threads}]"
        if alike:
            tail += f"  and {len(alike)} more like it ({lines(alike)})"
        if item.blocked:
            tail += paint("  BLOCKED", "bad")
        elif item.passed >= 0:
            tail += paint(f"  (blocked until #{item.passed})", "dim")
        number = paint(f"#{item.number:<{count}}", "dim")
        yield f"  {number}  {item.line:>{width}}  {indent}{visible(item.text)}{tail}"


def _rows(items: Iterable[Step | Loop], depth: int, fold: bool) -> Iterator[tuple[Step | str, int, list[int]]]:
    """Lines to print with their depth; steps in a row that say the same are one, with the lines of the others."""
    waiting: Step | None = None
    alike: list[int] = []
    for item in items:
        if isinstance(item, Step) and waiting is not None and fold and _alike(waiting, item):
            alike.append(item.line)
            continue
        if waiting is not None:
            yield waiting, depth, alike
            waiting, alike = None, []
        if isinstance(item, Step):
            waiting = item
            continue
        rounds = item.rounds
        yield f"{len(rounds)} rounds:", depth, []
        first = 2 if len(rounds[0]) <= SHORT and len(rounds) > 3 else 1
        for each in rounds[:first]:
            yield from _rows(each, depth + 1, fold)
        left = len(rounds) - first - 1
        yield f"... {left} more round{'s' if left > 1 else ''}, then the last:", depth, []
        yield from _rows(rounds[-1], depth + 1, fold)
    if waiting is not None:
        yield waiting, depth, alike


def _alike(one: Step, two: Step) -> bool:
    return (one.text, one.threads, one.op) == (two.text, two.threads, two.op) and not two.blocked and two.passed < 0


# -------------------------------------------------------------------------------------------------- barriers
def _word(word: Word, limit: int) -> Iterator[str]:
    yield f"  {word.barrier}  {visible(word.label)}, count {word.count}"
    for row in word.phases[:limit]:
        yield from _wrapped(f"{_numbers(row)}  {_told(row)}", "      ", "        ")
    left = len(word.phases) - limit + word.cut
    if left > 0:
        yield f"      ... {left} more rows (--limit)"
    if not word.phases:
        yield "      never used"


def _numbers(row: Phase) -> str:
    return f"phase {row.number}" if row.number == row.last else f"phases {row.number}-{row.last}"


def _told(row: Phase) -> str:
    parts = []
    grouped: dict[tuple[str, str], list[tuple[int, int, int]]] = {}
    for each in row.arrivals:
        grouped.setdefault((each.how, each.role), []).append((each.line, each.count, each.bytes))
    for (how, role), places in grouped.items():
        count, total = sum(p[1] for p in places), sum(p[2] for p in places)
        amount = ", ".join(
            text for text in (f"{count} arrival{'s' if count != 1 else ''}" if count else "", f"{total} bytes" if total
                              else "") if text
        )  # fmt: skip
        parts.append(f"{how}{f' {amount}' if amount else ''} by {role} ({lines(p[0] for p in places)})")
    text = "; ".join(parts) or "nobody arrived"
    if not row.completed:
        text += f"; NOT complete{f', misses {row.missing}' if row.missing else ''}"
    if row.waited:
        by_role: dict[str, list[int]] = {}
        for role, line in row.waited:
            by_role.setdefault(role, []).append(line)
        text += "; waited for by " + ", ".join(f"{role} ({lines(found)})" for role, found in by_role.items())
    elif row.completed:
        text += "; nobody waited"
    return text
