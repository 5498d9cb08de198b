"""What explains everything that follows: nobody waits, a first wait passes or blocks, the ends run different turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from warplint.machine import Execution
from warplint.machine.outcome import Outcome
from warplint.source import Span
from warplint.threads.facts import Roles
from warplint_rules.mbarrier._cause import WAITS, Cause, arrives_on, first_arrivals, rank_of, sites_of


def unwaited_causes(execution: Execution, outcome: Outcome) -> Iterator[Cause]:
    """Asynchronous operations complete phases that nobody ever waits for: the wait is missing."""
    for record in outcome.barriers.values():
        completed = {arrival.how for phase in record.phases for arrival in phase}
        if record.waits or not completed & {"copy", "commit"}:
            continue
        if any(other.waits for other in outcome.barriers.values() if other.key[1:] == record.key[1:]):  # type: ignore[index]
            continue  # the same word of another CTA is waited for there
        if sites_of(execution.roles, record, WAITS):
            continue  # its array is waited for; that this word is not has another reason
        users = ("tcgen05.mma", "wgmma.mma_async") if "copy" in completed else ("tcgen05.ld", "tcgen05.cp")
        use = next(execution.roles.of(*users), None)
        made = tuple(dict.fromkeys(arrival.span for arrival in record.phases[0]))
        span = use.op.span if use is not None else _racing(outcome, made)
        if span is not None:
            yield Cause("async-data-used-before-wait", span, outcome, record, None, "no-wait", made)


def _racing(outcome: Outcome, copies: Sequence[Span]) -> Span | None:
    """An ordinary access that nothing orders with one of the copies."""
    for hazard in outcome.hazards:
        for one, other in ((hazard.first, hazard.second), (hazard.second, hazard.first)):
            if one.span in copies and other.span not in copies:
                return other.span
    return None


def start_causes(execution: Execution, outcome: Outcome) -> Iterator[Cause]:
    """First waits that pass on a fresh barrier though the operation they are for has not even begun."""
    passing = [(record, wait) for record in outcome.barriers.values() for wait in record.waits[:64] if wait.phase < 0]
    for record, wait in passing:
        if record.transaction:
            yield Cause("mbarrier-wrong-initial-phase", wait.span, outcome, record, wait, "passes",
                        first_arrivals(record))  # fmt: skip
            return
    for record, wait in passing:
        for other, counter in passing:
            both = arrives_on(execution.roles, record, counter.who) and arrives_on(execution.roles, other, wait.who)
            mine, theirs = (rank_of(outcome, execution.roles, who) for who in (wait.who, counter.who))
            if both and other is not record and mine < theirs:
                yield Cause("mbarrier-wrong-initial-phase", wait.span, outcome, record, wait, "passes",
                            (counter.span, *first_arrivals(record)))  # fmt: skip
                return


def trip_causes(execution: Execution, outcome: Outcome) -> Iterator[Cause]:
    """The two ends of a transaction barrier stand in loops with different constant trip counts."""
    for record in outcome.barriers.values():
        if not record.transaction or not record.waits:
            continue
        sites = {arrival.span for phase in record.phases for arrival in phase if arrival.expect and arrival.count}
        waits = {wait.span for wait in record.waits}
        made, used = (_turns(execution.roles, spans) for spans in (sites, waits))
        if made is not None and used is not None and made[0] != used[0]:
            wait = record.waits[-1]
            yield Cause("producer-consumer-trip-mismatch", wait.span, outcome, record, wait, "loops", tuple(sorted(
                sites, key=lambda span: span.start)), {"made": made, "used": used})  # fmt: skip
            return


def _turns(roles: Roles, spans: set[Span]) -> tuple[int, Span] | None:
    """Turns of the innermost loop around a single site, when constant; None with several sites or no such loop."""
    if len(spans) != 1:
        return None
    for event in roles.events:
        if event.op.span in spans and event.loops and event.loops[-1].trips is not None:
            return event.loops[-1].trips, event.loops[-1].span
    return None


def repeated_causes(execution: Execution, outcome: Outcome) -> Iterator[Cause]:
    """A wait that passes again on the phase it has already seen: its parity was not flipped."""
    for record in outcome.barriers.values():
        last: dict[tuple[int, int, Span], int] = {}
        for wait in record.waits:
            key = (wait.who.cta, wait.who.threads, wait.span)
            if not wait.blocked and last.get(key) == wait.phase:
                yield Cause("mbarrier-phase-error", wait.span, outcome, record, wait, "repeats", first_arrivals(record))
                return
            last[key] = wait.phase
