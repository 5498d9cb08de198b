"""Why a hand-off through mbarriers fails: one cause for each execution, named by the earliest thing that is wrong.

An execution that goes wrong shows many symptoms: every role that depends on the first one blocks as well. What is
looked for, in this order, is what no other symptom explains:

1. a phase that got more arrivals than its count, or bytes that do not add up: the barrier itself is wrong;
2. a blocked wait whose phase has some of its arrivals while nobody who could still arrive is left: the count is wrong;
3. a blocked wait whose arrivals come from threads that have left the kernel: the two ends run different numbers of
   turns;
4. waits that block each other although no phase was ever completed: an initial phase is wrong;
5. waits that block each other later, or a wait that passes on a stale phase: a parity does not follow the uses of
   its slot.

Where nothing of this is established, the blocked state itself is reported as a deadlock, with everybody in it.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from warplint.machine import Execution
from warplint.machine.barriers import Arrival
from warplint.machine.memory import Hazard, Order
from warplint.machine.outcome import Outcome, Party
from warplint.memo import remembered
from warplint.source import Span
from warplint.threads.facts import Known
from warplint_rules._executed import at, established, party
from warplint_rules.mbarrier._beginnings import repeated_causes, start_causes, trip_causes, unwaited_causes
from warplint_rules.mbarrier._cause import LAGGING, Cause, last_wait, mbarrier_of, record_of
from warplint_rules.mbarrier._counting import count_causes, over_arrivals
from warplint_rules.mbarrier._stranded import cycle_causes, left_over_causes, stale_causes, stranded_causes
from warplint_rules.named_barrier._stuck import stuck


@remembered(8)
def causes(execution: Execution) -> tuple[Cause, ...]:
    """The causes that the executions show, each rule and place once; those of a blocked execution come first."""
    found: dict[tuple[str, Span], Cause] = {}
    for outcome in execution.outcomes:
        if established(outcome) and _counted(execution, outcome) and not _lost(outcome):
            for cause in _outcome(execution, outcome):
                # A count that is wrong is wrong at its initialisation, wherever other scenarios show it.
                counted = cause.record is not None and cause.rule == "mbarrier-arrival-count-mismatch"
                found.setdefault((cause.rule, cause.record.init if counted and cause.record else cause.span), cause)
    # Waiters that take part come before those that only wait: the finding speaks for the worst of them.
    latent = sorted((c for c in found.values() if c.kind in LAGGING), key=lambda c: LAGGING.index(c.kind))
    chosen = [cause for cause in found.values() if cause.kind not in LAGGING]
    if latent and not chosen:
        # One habit of the kernel, one finding: the other places are related ones.
        chosen = [replace(latent[0], others=tuple(c.span for c in latent[1:] if c.span != latent[0].span))]
    unwaited = [cause for cause in chosen if cause.kind == "no-wait"]
    if unwaited:
        chosen = unwaited  # who never waits runs ahead of everybody: what goes wrong then is the consequence
    if any(cause.rule != "protocol-deadlock" for cause in chosen):
        chosen = [cause for cause in chosen if cause.rule != "protocol-deadlock"]
    return tuple(chosen)


def _lost(outcome: Outcome) -> bool:
    """A barrier was used that nobody initialised: what the others show is a consequence."""
    return any(fault.kind == "uninitialised" for fault in outcome.faults)


def _counted(execution: Execution, outcome: Outcome) -> bool:
    """The counts of all barriers stand in the source; one that the launch passes in was only tried with some number."""
    known = {
        event.op.span for event in execution.roles.of("mbarrier.init") if isinstance(event.values.get("count"), Known)
    }
    return all(record.init in known for record in outcome.barriers.values())


def _outcome(execution: Execution, outcome: Outcome) -> Iterator[Cause]:
    own = list(count_causes(execution, outcome))
    if own:
        # One that waited for nothing arrives where its peer does not: its first wait is the cause.
        early = list(start_causes(execution, outcome)) if own[0].kind == "peer" else []
        yield from (early or own)[:1]
        return
    broken = bool(outcome.blocked) or any(h.order in (Order.UNJOINED, Order.INCOMPLETE) for h in outcome.hazards)
    broken = broken or any(record.faults for record in outcome.barriers.values())
    late = any(wait.late for record in outcome.barriers.values() for wait in record.waits)
    if broken or late:
        for look in (start_causes, repeated_causes, unwaited_causes, trip_causes):
            found = list(look(execution, outcome))
            if found:
                yield found[0]
                return
    overs = list(over_arrivals(outcome))
    if overs:
        yield from overs[:1]
        return
    if outcome.blocked:
        found = list(stranded_causes(execution, outcome)) or list(cycle_causes(execution, outcome))
        if found:
            yield found[0]
            return
        first = outcome.blocked[0]
        if not stuck(execution):
            yield Cause("protocol-deadlock", first.span, outcome, record_of(outcome, first), first,
                        others=tuple(b.span for b in outcome.blocked[1:]))  # fmt: skip
        return
    passed = list(stale_causes(execution, outcome))
    yield from passed
    if not passed:
        yield from left_over_causes(execution, outcome)


def arrival_for(outcome: Outcome, hazard: Hazard) -> Arrival | None:
    """An arrival by some threads of the first access's group that the second access's threads waited for."""
    first, second = hazard.first, hazard.second
    group = first.threads
    for record in outcome.barriers.values():
        waited = any(w.who.threads & second.threads and w.who.cta == second.cta for w in record.waits)
        if not waited:
            continue
        for phase in (*record.phases, record.current):
            for arrival in phase:
                # One thread for all, or one of each warp: some of the group do not arrive themselves.
                some = group & ~arrival.threads
                mine = arrival.cta == first.cta and arrival.threads & group
                if arrival.how == "arrive" and some and mine and arrival.span.start > first.span.start:
                    return arrival
    return None


def described(execution: Execution, arrivals: list[Arrival]) -> str:
    """Who arrives from where: "1 from line 40 by thread 0, 128 from line 52 by warps 0-3"."""
    texts = [
        f"{a.count} from line {at(execution, a.span)} by {party(execution, Party(a.cta, a.threads))}"
        for a in arrivals
        if a.count
    ]
    return ", ".join(dict.fromkeys(texts)) or "none"


def waiter(execution: Execution, cause: Cause) -> str:
    """Who waits: "Warps 0-3 (line 40) wait"."""
    wait = cause.wait
    if wait is None:
        return "The waiters wait"
    who = party(execution, wait.who)
    return f"{who[:1].upper()}{who[1:]} (line {at(execution, wait.span)}) wait"


def release_before(outcome: Outcome, hazard: Hazard) -> Arrival | None:
    """An arrival by the reading threads that stands before their read and that the writer has waited for."""
    first, second = hazard.first, hazard.second
    for record in outcome.barriers.values():
        if not any(w.who.threads & second.threads and w.who.cta == second.cta for w in record.waits):
            continue
        for phase in (*record.phases, record.current):
            for arrival in phase:
                mine = arrival.cta == first.cta and arrival.threads & first.threads
                if (
                    mine
                    and arrival.how == "arrive"
                    and arrival.span.start < first.span.start
                    and not _waits_between(outcome, arrival, hazard)
                ):
                    return arrival
    return None


def _waits_between(outcome: Outcome, arrival: Arrival, hazard: Hazard) -> bool:
    """The reader waits again between the arrival and the read: the arrival was for an earlier use of the slot."""
    return any(
        wait.who.threads & hazard.first.threads and arrival.span.start < wait.span.start < hazard.first.span.start
        for record in outcome.barriers.values()
        for wait in record.waits
    )


def has_waited(outcome: Outcome, hazard: Hazard) -> bool:
    """The threads of the later access have waited, before it, for a barrier on which the earlier one completes."""
    for key, _ in hazard.first.done:
        record = mbarrier_of(outcome, key)
        wait = last_wait(record, hazard) if record is not None else None
        if wait is not None and wait.span.start < hazard.second.span.start:
            return True
    return False
