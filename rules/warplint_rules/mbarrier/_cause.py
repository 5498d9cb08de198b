"""What a cause is, and what several of those who look for one need: the places that use a barrier, who waits."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from msgspec import Struct, field

from warplint.machine.barriers import Arrival
from warplint.machine.memory import Hazard
from warplint.machine.outcome import BarrierRecord, BlockedRecord, Outcome, Party, WaitRecord
from warplint.program import ir
from warplint.source import Span
from warplint.threads.facts import Event, Pointer, Roles

ARRIVALS = ("mbarrier.arrive*", "tcgen05.commit", "cp.async.mbarrier.arrive")
WAITS = ("mbarrier.try_wait", "mbarrier.test_wait")
NAMING = ("mbarrier.arrive*", "mbarrier.expect_tx", *WAITS, "tcgen05.commit", "cp.async.mbarrier.arrive")
"""Operations that use barriers; an init names every word of an array by itself."""
COPIES = ("cp.async.bulk.g2s", "cp.async.bulk.s2s", "cp.async.bulk.tensor.load", "multicast.cluster", "st.async",
          "red.async", "clusterlaunchcontrol.try_cancel")  # fmt: skip
LAGGING = ("latent", "idle")
"""Waits that may be overtaken by the next phase: of threads that go on to do something, of threads that only wait."""


class Cause(Struct, frozen=True):
    """What is wrong, as facts for the rule of that name."""

    rule: str
    span: Span
    """The primary place."""
    outcome: Outcome
    record: BarrierRecord | None = None
    wait: WaitRecord | BlockedRecord | None = None
    kind: str = ""
    """A finer distinction inside the rule."""
    others: tuple[Span, ...] = ()
    detail: dict[str, object] = field(default_factory=dict)


def record_of(outcome: Outcome, blocked: BlockedRecord) -> BarrierRecord | None:
    """The mbarrier that a blocked agent waits for; None at another object."""
    return outcome.barriers.get(blocked.target) if blocked.what == "mbarrier" else None


def blocked_threads(outcome: Outcome) -> dict[int, int]:
    """CTA -> threads that are blocked."""
    present: dict[int, int] = {}
    for blocked in outcome.blocked:
        present[blocked.who.cta] = present.get(blocked.who.cta, 0) | blocked.who.threads
    return present


def spans_of(arrivals: list[Arrival]) -> tuple[Span, ...]:
    """The places of arrivals, each once."""
    return tuple(dict.fromkeys(a.span for a in arrivals if a.count))


def first_arrivals(record: BarrierRecord) -> tuple[Span, ...]:
    """The places that complete the first phase."""
    return tuple(dict.fromkeys(arrival.span for phase in record.phases[:1] for arrival in phase if arrival.count))


def mbarrier_of(outcome: Outcome, key: Hashable) -> BarrierRecord | None:
    """The mbarrier of a component of a clock."""
    return outcome.barriers.get(key[1]) if isinstance(key, tuple) and len(key) == 2 and key[0] == "mbar" else None


def last_wait(record: BarrierRecord, hazard: Hazard) -> WaitRecord | None:
    """The last wait of the later access's threads on the barrier."""
    second = hazard.second
    mine = [w for w in record.waits if w.who.cta == second.cta and w.who.threads & second.threads]
    return mine[-1] if mine else None


def rank_of(outcome: Outcome, roles: Roles, who: Party) -> int:
    """How much of a producer a role is: 2 issues copies, 1 issues MMAs, 0 arrives only."""
    rank = 0
    for event in roles.events:
        if event.reach.threads & who.threads:
            if event.name in COPIES:
                return 2
            if event.name in ("tcgen05.mma", "tcgen05.commit"):
                rank = 1
    return rank


def too_small(record: BarrierRecord, wait: WaitRecord) -> Callable[[Outcome], Cause] | None:
    """Two phases were completed by different threads at the same sites: one turn brings more arrivals than the count.

    That is a barrier which counts the threads of one CTA, or of one role, where those of two arrive.
    """
    if wait.phase < 0 or len(record.phases) < wait.phase + 2:
        return None
    first, second = ([a for a in phase if a.count] for phase in record.phases[wait.phase : wait.phase + 2])
    if not first or {a.span for a in first} != {a.span for a in second}:
        return None
    if any(a.cta == b.cta and a.threads & b.threads for a in first for b in second):
        return None
    arrivals = [*first, *second]
    return lambda outcome: Cause(
        "mbarrier-arrival-count-mismatch", record.init, outcome, record, wait, "small",
        tuple(dict.fromkeys([*(a.span for a in arrivals), wait.span])), {"arrivals": arrivals},
    )  # fmt: skip


def sites_of(roles: Roles, record: BarrierRecord, names: tuple[str, ...], whole: bool = False) -> list[Event]:
    """Static sites that may name the barrier: its variable, and its array where one variable holds several.

    With `whole`, any word of the array will do: a stage that is never advanced names the first one only.

    A pool of shared memory holds all barriers; `pool[stage + 3]` names the array that begins at word 3 and ends
    where the next one begins, whatever the stage is.
    """
    assert isinstance(record.key, tuple)
    _, base, offset = record.key
    named = [(event, place) for event in roles.of(*NAMING) if isinstance(place := event.values.get("barrier"), Pointer)]
    starts = sorted({_start(event) for event, place in named if place.symbol is base})
    found = []
    for event in roles.of(*names):
        place = event.values.get("barrier")
        if isinstance(place, Pointer):
            if place.symbol is not base:
                continue
            constant = getattr(place.offset, "constant", None)
            if constant is not None and (constant == offset or not whole):
                if constant != offset:
                    continue
            elif isinstance(offset, int):
                first = _start(event)
                end = next((start for start in starts if start > first), None)
                if not first <= offset or (end is not None and offset >= end):
                    continue
        found.append(event)
    return found


def _start(event: Event) -> int:
    """Byte offset of a barrier operand with all variables in it taken as zero: where the array begins."""
    stack: list[tuple[ir.Expr, int]] = [(event.op.operands["barrier"], 1)]
    total = 0
    for _ in range(64):
        if not stack:
            break
        node, factor = stack.pop()
        match node:
            case ir.Const(value=value):
                total += value * factor
            case ir.Address(offset=inner) | ir.Cast(arg=inner):
                stack.append((inner, factor))
            case ir.Binary(op="+", left=left, right=right):
                stack += [(left, factor), (right, factor)]
            case ir.Binary(op="*", left=left, right=ir.Const(value=value)):
                stack.append((left, factor * value))
            case ir.Binary(op="*", left=ir.Const(value=value), right=right):
                stack.append((right, factor * value))
            case ir.Binary(op="<<", left=left, right=ir.Const(value=value)) if 0 <= value < 32:
                stack.append((left, factor << value))
    return total


def arrives_on(roles: Roles, record: BarrierRecord, who: Party) -> bool:
    """Threads of a party take part in completing the barrier's phases, or would if they came that far."""
    return any(event.reach.threads & who.threads for event in sites_of(roles, record, ARRIVALS))


def loop_of(roles: Roles, span: Span) -> Span | None:
    """The test of the innermost loop around an operation."""
    for event in roles.events:
        if event.op.span == span and event.loops:
            return event.loops[-1].span
    return None
