"""Who is left waiting and why, and waits that pass on a stale phase."""

from __future__ import annotations

from collections.abc import Iterator

from warplint.machine import Execution
from warplint.machine.barriers import Arrival
from warplint.machine.memory import Order
from warplint.machine.outcome import BarrierRecord, BlockedRecord, Outcome, WaitRecord
from warplint.source import Span
from warplint.threads.facts import Event, Roles
from warplint_rules.mbarrier._cause import (
    ARRIVALS,
    LAGGING,
    WAITS,
    Cause,
    blocked_threads,
    last_wait,
    mbarrier_of,
    rank_of,
    record_of,
    sites_of,
    too_small,
)


def stranded_causes(execution: Execution, outcome: Outcome) -> Iterator[Cause]:
    """Waits for a phase whose arrivals would come from threads that have left the kernel."""
    present = blocked_threads(outcome)
    for blocked in outcome.blocked:
        record = record_of(outcome, blocked)
        if record is None:
            continue
        if record.phases:
            arrived: dict[int, int] = {}
            for arrival in (arrival for phase in record.phases for arrival in phase):
                arrived[arrival.cta] = arrived.get(arrival.cta, 0) | arrival.threads
            left = not any(threads & present.get(cta, 0) for cta, threads in arrived.items())
            producers = tuple(dict.fromkeys(arrival.span for arrival in record.phases[-1]))
        else:
            # Nothing came in at all: those who would arrive may have run no turn.
            sites = sites_of(execution.roles, record, ARRIVALS)
            left = bool(sites) and not any(e.reach.threads & present.get(record.cta, 0) for e in sites)
            producers = tuple(dict.fromkeys(event.op.span for event in sites))
        if left:
            yield Cause("producer-consumer-trip-mismatch", blocked.span, outcome, record, blocked, "blocked", producers)


def cycle_causes(execution: Execution, outcome: Outcome) -> Iterator[Cause]:
    waits = [(b, r) for b in outcome.blocked if (r := record_of(outcome, b)) is not None]
    fresh = [(b, r) for b, r in waits if not r.phases and b.phase == 0]
    drifted = [(b, r) for b, r in waits if _repeats(b, r)]
    if drifted:
        blocked, record = drifted[0]
        yield Cause("mbarrier-phase-error", blocked.span, outcome, record, blocked, "repeats")
        return
    for record in outcome.barriers.values():
        for wait in record.waits:
            if wait.late:
                small = too_small(record, wait)
                yield (
                    small(outcome) if small else Cause("mbarrier-phase-error", wait.span, outcome, record, wait, "late")
                )
                return
    if fresh and len(fresh) == len(waits):
        # Who has passed the barrier before waits for its second use: that is not the first wait of anybody.
        first = [(b, r) for b, r in fresh if not _passed(b, r)] or fresh
        blocked, record = max(
            first, key=lambda pair: (rank_of(outcome, execution.roles, pair[0].who), -pair[0].span.start)
        )
        if rank_of(outcome, execution.roles, blocked.who) > min(
            (rank_of(outcome, execution.roles, b.who) for b, _ in fresh), default=0
        ):
            yield Cause("mbarrier-wrong-initial-phase", blocked.span, outcome, record, blocked, "blocks",
                        tuple(b.span for b, _ in fresh if b is not blocked))  # fmt: skip
            return
    started = [(b, r) for b, r in waits if r.phases]
    if started and len(started) == len(waits):
        blocked, record = started[0]
        yield Cause("mbarrier-phase-error", blocked.span, outcome, record, blocked, "drift",
                    tuple(b.span for b, _ in started[1:]))  # fmt: skip


def _passed(blocked: BlockedRecord, record: BarrierRecord) -> bool:
    """The same threads have waited for this barrier before, and gone on."""
    return any(
        not w.blocked and w.who.cta == blocked.who.cta and w.who.threads & blocked.who.threads for w in record.waits
    )


def _repeats(blocked: BlockedRecord, record: BarrierRecord) -> bool:
    """The same threads passed this barrier with the same parity just before: the parity was not flipped."""
    mine = [w for w in record.waits if not w.blocked and w.who.cta == blocked.who.cta
            and w.who.threads & blocked.who.threads]  # fmt: skip
    return bool(mine) and mine[-1].parity == blocked.parity and mine[-1].span == blocked.span


def stale_causes(execution: Execution, outcome: Outcome) -> Iterator[Cause]:
    """Reads or writes of storage whose asynchronous operation the wait before them did not really wait for."""
    for hazard in outcome.hazards:
        if hazard.order is not Order.INCOMPLETE or not hazard.first.done:
            continue
        for key, _ in hazard.first.done:
            record = mbarrier_of(outcome, key)
            if record is None:
                continue
            wait = last_wait(record, hazard)
            if wait is None or wait.span.start > hazard.second.span.start:
                continue  # a wait behind the use is none for it
            rule = "mbarrier-wrong-initial-phase" if wait.phase < 0 else "mbarrier-phase-error"
            yield Cause(rule, wait.span, outcome, record, wait, "passes", (hazard.second.span, hazard.first.span),
                        {"hazard": hazard})  # fmt: skip
            return
    if any(hazard.order in (Order.UNJOINED, Order.INCOMPLETE) for hazard in outcome.hazards):
        return  # the hazard says what goes wrong today; that a wait may lag as well follows from it
    overtaken: dict[tuple[str, Span | None], Cause] = {}
    for record in outcome.barriers.values():
        for wait in record.waits:
            if wait.late and not wait.blocked:
                kind = "idle" if _idle(execution.roles, wait) else "latent"
                cause = _lagging(outcome, record, wait, kind)
                overtaken.setdefault((cause.kind, wait.span if cause.kind in LAGGING else None), cause)
    yield from sorted(overtaken.values(), key=lambda cause: cause.kind == "idle")


def _lagging(outcome: Outcome, record: BarrierRecord, wait: WaitRecord, kind: str) -> Cause:
    """Why a wait may be overtaken by the next phase."""
    if small := too_small(record, wait):
        return small(outcome)
    leader = None if kind == "idle" else _leader(outcome, record, wait)
    if leader is None:
        return Cause("mbarrier-phase-error", wait.span, outcome, record, wait, kind)
    return Cause("arrive-before-group-joined", leader.span, outcome, record, wait, "lags", (wait.span,),
                 {"arrival": leader})  # fmt: skip


_ALONE = ("elect.sync", "setmaxnreg", "prefetch")
"""Operations that pass no data and that nobody waits for."""


def _idle(roles: Roles, wait: WaitRecord) -> bool:
    """The threads only wait: in the innermost loop around the wait (without one, behind it) they touch no shared
    memory, arrive nowhere and run no operation but waits, so that nobody gets wrong data when they are overtaken.
    """
    mine = [event for event in roles.of(*WAITS) if event.op.span == wait.span]
    if not mine:
        return False
    for site in (*roles.events, *roles.accesses):
        if not site.reach.threads & wait.who.threads:
            continue
        name = site.name if isinstance(site, Event) else ""
        if name.startswith((*WAITS, *_ALONE)):
            continue
        if any(loop in site.loops for event in mine for loop in event.loops[-1:]):
            return False
        if any(not event.loops and site.order > event.order for event in mine):
            return False
    return True


def _leader(outcome: Outcome, record: BarrierRecord, wait: WaitRecord) -> Arrival | None:
    """An arrival by one thread on behalf of a group of which the waiter is a member: what let the group be
    overtaken.
    """
    for other in outcome.barriers.values():
        if other is record:
            continue
        for phase in (*other.phases, other.current):
            for arrival in phase:
                mine = arrival.how == "arrive" and arrival.cta == wait.who.cta
                if mine and arrival.threads & (arrival.threads - 1) == 0 and not arrival.threads & wait.who.threads:
                    same = [w for w in record.waits if w.who.threads & arrival.threads and w.span == wait.span]
                    if same:
                        return arrival
    return None


def left_over_causes(execution: Execution, outcome: Outcome) -> Iterator[Cause]:
    """Phases with bytes that nobody waited for: the producer ran further than the consumer."""
    for left in outcome.leftovers:
        if left.kind != "transaction-phase":
            continue
        for record in outcome.barriers.values():
            if record.label != left.detail and left.span not in {a.span for phase in record.phases for a in phase}:
                continue
            waited = [w for w in record.waits if not w.blocked]
            if waited and record.unwaited > 0:
                yield Cause("producer-consumer-trip-mismatch", waited[-1].span, outcome, record, waited[-1], "left",
                            tuple(dict.fromkeys(a.span for a in record.phases[-1])))  # fmt: skip
                return
