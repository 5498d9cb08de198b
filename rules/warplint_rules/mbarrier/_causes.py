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

from collections.abc import Callable, Hashable, Iterator, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from warplint.machine import Execution
from warplint.machine.barriers import Arrival
from warplint.machine.memory import Hazard, Order
from warplint.machine.outcome import BarrierRecord, BlockedRecord, Outcome, Party, WaitRecord
from warplint.memo import remembered
from warplint.program import ir
from warplint.source import Span
from warplint.threads.facts import Event, Known, Pointer, Roles
from warplint_rules._executed import at, established, party
from warplint_rules.named_barrier._stuck import stuck

ARRIVALS = ("mbarrier.arrive*", "tcgen05.commit", "cp.async.mbarrier.arrive")
WAITS = ("mbarrier.try_wait", "mbarrier.test_wait")
NAMING = ("mbarrier.arrive*", "mbarrier.expect_tx", *WAITS, "tcgen05.commit", "cp.async.mbarrier.arrive")
"""Operations that use barriers; an init names every word of an array by itself."""
COPIES = ("cp.async.bulk.g2s", "cp.async.bulk.s2s", "cp.async.bulk.tensor.load", "multicast.cluster", "st.async",
          "red.async", "clusterlaunchcontrol.try_cancel")  # fmt: skip


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


@remembered(8)
def causes(execution: Execution) -> tuple[Cause, ...]:
    """The causes that the executions show, each rule and place once; those of a blocked execution come first."""
    found: dict[tuple[str, Span], Cause] = {}
    for outcome in execution.outcomes:
        if established(outcome) and _counted(execution, outcome):
            for cause in _outcome(execution, outcome):
                # A count that is wrong is wrong at its initialisation, wherever other scenarios show it.
                counted = cause.record is not None and cause.rule == "mbarrier-arrival-count-mismatch"
                found.setdefault((cause.rule, cause.record.init if counted and cause.record else cause.span), cause)
    latent = [cause for cause in found.values() if cause.kind == "latent"]
    chosen = [cause for cause in found.values() if cause.kind != "latent"]
    if latent and not chosen:
        # One habit of the kernel, one finding: the other places are related ones.
        chosen = [replace(latent[0], others=tuple(cause.span for cause in latent[1:]))]
    unwaited = [cause for cause in chosen if cause.kind == "no-wait"]
    if unwaited:
        chosen = unwaited  # who never waits runs ahead of everybody: what goes wrong then is the consequence
    if any(cause.rule != "protocol-deadlock" for cause in chosen):
        chosen = [cause for cause in chosen if cause.rule != "protocol-deadlock"]
    return tuple(chosen)


def _counted(execution: Execution, outcome: Outcome) -> bool:
    """The counts of all barriers stand in the source; one that the launch passes in was only tried with some number."""
    known = {
        event.op.span for event in execution.roles.of("mbarrier.init") if isinstance(event.values.get("count"), Known)
    }
    return all(record.init in known for record in outcome.barriers.values())


def _outcome(execution: Execution, outcome: Outcome) -> Iterator[Cause]:
    own = list(_counts(execution, outcome))
    if own:
        yield from own[:1]
        return
    broken = bool(outcome.blocked) or any(h.order in (Order.UNJOINED, Order.INCOMPLETE) for h in outcome.hazards)
    broken = broken or any(record.faults for record in outcome.barriers.values())
    late = any(wait.late for record in outcome.barriers.values() for wait in record.waits)
    if broken or late:
        for look in (_starts, _repeated, _never_waited, _trips):
            found = list(look(execution, outcome))
            if found:
                yield found[0]
                return
    overs = list(_over_arrivals(outcome))
    if overs:
        yield from overs[:1]
        return
    if outcome.blocked:
        found = list(_stranded(execution, outcome)) or list(_cycle(execution, outcome))
        if found:
            yield found[0]
            return
        first = outcome.blocked[0]
        if not stuck(execution):
            yield Cause("protocol-deadlock", first.span, outcome, _record(outcome, first), first,
                        others=tuple(b.span for b in outcome.blocked[1:]))  # fmt: skip
        return
    passed = list(_stale(outcome))
    yield from passed
    if not passed:
        yield from _left_over(execution, outcome)


def _record(outcome: Outcome, blocked: BlockedRecord) -> BarrierRecord | None:
    return outcome.barriers.get(blocked.target) if blocked.what == "mbarrier" else None


# ------------------------------------------------------------------------------------------------ 1: counts
def _over_arrivals(outcome: Outcome) -> Iterator[Cause]:
    for record in outcome.barriers.values():
        for kind, arrival in record.faults:
            if kind == "over-arrival":
                yield Cause("mbarrier-arrival-count-mismatch", arrival.span, outcome, record, kind="over",
                            others=(record.init,), detail={"arrival": arrival})  # fmt: skip
                break


def _counts(execution: Execution, outcome: Outcome) -> Iterator[Cause]:
    """Barriers whose own arithmetic is wrong."""
    for record in outcome.barriers.values():
        for span, (expected, read) in record.consumed.items():
            if read > expected:
                yield Cause("mbarrier-tx-bytes-mismatch", span, outcome, record, kind="read",
                            detail={"expected": expected, "read": read})  # fmt: skip
    for blocked in outcome.blocked:
        record = _record(outcome, blocked)
        if record is None:
            continue
        if record.pending == 0 and record.tx:
            expecting = [a for a in record.current if a.expect]
            span = expecting[0].span if expecting else record.init
            copies = tuple(a.span for a in record.current if a.how == "copy")
            yield Cause("mbarrier-tx-bytes-mismatch", span, outcome, record, blocked, others=(*copies, blocked.span))
        elif execution.roles.launch.cluster is not None and (twin := _twin(outcome, record)):
            yield Cause("mbarrier-arrival-count-mismatch", record.init, outcome, record, blocked, "peer",
                        others=(*_spans(twin.phases[0]), blocked.span), detail={"twin": twin})  # fmt: skip
        elif record.pending > 0 and _final(execution, outcome, record):
            got = sum(a.count for a in record.current)
            expects = [a for a in record.current if a.expect and not a.count]
            if expects and not got:
                yield Cause("mbarrier-arrival-count-mismatch", expects[0].span, outcome, record, blocked, "expect-only",
                            others=(record.init, blocked.span))  # fmt: skip
            elif got:
                yield Cause("mbarrier-arrival-count-mismatch", record.init, outcome, record, blocked, "under",
                            others=(*_spans(record.current), blocked.span))  # fmt: skip


def _spans(arrivals: list[Arrival]) -> tuple[Span, ...]:
    return tuple(dict.fromkeys(a.span for a in arrivals if a.count))


def _final(execution: Execution, outcome: Outcome, record: BarrierRecord) -> bool:
    """Nobody who is still there would arrive on the barrier before the wait is over: its count cannot be met.

    Earlier phases that did complete tell that the count is right; then something else keeps the arrivals away.
    """
    if record.phases:
        return False
    present = _blocked_threads(outcome)
    made = {a.span for a in record.current}
    for event in _sites(execution.roles, record, ARRIVALS):
        if event.op.span not in made and event.reach.threads & present.get(record.cta, 0):
            return False
        if event.op.span not in made and event.mod("remote"):
            return False
    return True


def _twin(outcome: Outcome, record: BarrierRecord) -> BarrierRecord | None:
    """The same barrier word of another CTA, which completed phases while nothing at all came to this one."""
    if record.phases or record.current:
        return None
    assert isinstance(record.key, tuple)
    for other in outcome.barriers.values():
        assert isinstance(other.key, tuple)
        if other.key[1:] == record.key[1:] and other.cta != record.cta and other.phases:
            return other
    return None


def _blocked_threads(outcome: Outcome) -> dict[int, int]:
    present: dict[int, int] = {}
    for blocked in outcome.blocked:
        present[blocked.who.cta] = present.get(blocked.who.cta, 0) | blocked.who.threads
    return present


def _sites(roles: Roles, record: BarrierRecord, names: tuple[str, ...]) -> list[Event]:
    """Static sites that may name the barrier: its variable, and its array where one variable holds several.

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
            if constant is not None:
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


# ------------------------------------------------------------------- what explains everything that follows
def _never_waited(execution: Execution, outcome: Outcome) -> Iterator[Cause]:
    """Asynchronous operations complete phases that nobody ever waits for: the wait is missing."""
    for record in outcome.barriers.values():
        completed = {arrival.how for phase in record.phases for arrival in phase}
        if record.waits or not completed & {"copy", "commit"}:
            continue
        if any(other.waits for other in outcome.barriers.values() if other.key[1:] == record.key[1:]):  # type: ignore[index]
            continue  # the same word of another CTA is waited for there
        if _sites(execution.roles, record, WAITS):
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


def _starts(execution: Execution, outcome: Outcome) -> Iterator[Cause]:
    """First waits that pass on a fresh barrier though the operation they are for has not even begun."""
    passing = [(record, wait) for record in outcome.barriers.values() for wait in record.waits[:64] if wait.phase < 0]
    for record, wait in passing:
        if record.transaction:
            yield Cause("mbarrier-wrong-initial-phase", wait.span, outcome, record, wait, "passes", _where(record))
            return
    for record, wait in passing:
        for other, counter in passing:
            both = _arrives(execution.roles, record, counter.who) and _arrives(execution.roles, other, wait.who)
            mine, theirs = (_rank_of(outcome, execution.roles, who) for who in (wait.who, counter.who))
            if both and other is not record and mine < theirs:
                yield Cause("mbarrier-wrong-initial-phase", wait.span, outcome, record, wait, "passes",
                            (counter.span, *_where(record)))  # fmt: skip
                return


def _where(record: BarrierRecord) -> tuple[Span, ...]:
    return tuple(dict.fromkeys(arrival.span for phase in record.phases[:1] for arrival in phase if arrival.count))


def _arrives(roles: Roles, record: BarrierRecord, who: Party) -> bool:
    """Threads of a party take part in completing the barrier's phases, or would if they came that far."""
    return any(event.reach.threads & who.threads for event in _sites(roles, record, ARRIVALS))


def _trips(execution: Execution, outcome: Outcome) -> Iterator[Cause]:
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


def _repeated(execution: Execution, outcome: Outcome) -> Iterator[Cause]:
    """A wait that passes again on the phase it has already seen: its parity was not flipped."""
    for record in outcome.barriers.values():
        last: dict[tuple[int, int, Span], int] = {}
        for wait in record.waits:
            key = (wait.who.cta, wait.who.threads, wait.span)
            if not wait.blocked and last.get(key) == wait.phase:
                yield Cause("mbarrier-phase-error", wait.span, outcome, record, wait, "repeats", _where(record))
                return
            last[key] = wait.phase


# ---------------------------------------------------------------------------------- 2, 3: nobody is left
def _stranded(execution: Execution, outcome: Outcome) -> Iterator[Cause]:
    """Waits for a phase whose arrivals would come from threads that have left the kernel."""
    present = _blocked_threads(outcome)
    for blocked in outcome.blocked:
        record = _record(outcome, blocked)
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
            sites = _sites(execution.roles, record, ARRIVALS)
            left = bool(sites) and not any(e.reach.threads & present.get(record.cta, 0) for e in sites)
            producers = tuple(dict.fromkeys(event.op.span for event in sites))
        if left:
            yield Cause("producer-consumer-trip-mismatch", blocked.span, outcome, record, blocked, "blocked", producers)


# ------------------------------------------------------------------------------------------- 4, 5: cycles
def _cycle(execution: Execution, outcome: Outcome) -> Iterator[Cause]:
    waits = [(b, r) for b in outcome.blocked if (r := _record(outcome, b)) is not None]
    fresh = [(b, r) for b, r in waits if not r.phases and b.phase == 0]
    drifted = [(b, r) for b, r in waits if _repeats(b, r)]
    if drifted:
        blocked, record = drifted[0]
        yield Cause("mbarrier-phase-error", blocked.span, outcome, record, blocked, "repeats")
        return
    for record in outcome.barriers.values():
        for wait in record.waits:
            if wait.late:
                small = _too_small(record, wait)
                yield (
                    small(outcome) if small else Cause("mbarrier-phase-error", wait.span, outcome, record, wait, "late")
                )
                return
    if fresh and len(fresh) == len(waits):
        blocked, record = max(
            fresh, key=lambda pair: (_rank_of(outcome, execution.roles, pair[0].who), -pair[0].span.start)
        )
        if _rank_of(outcome, execution.roles, blocked.who) > min(
            (_rank_of(outcome, execution.roles, b.who) for b, _ in fresh), default=0
        ):
            yield Cause("mbarrier-wrong-initial-phase", blocked.span, outcome, record, blocked, "blocks",
                        tuple(b.span for b, _ in fresh if b is not blocked))  # fmt: skip
            return
    started = [(b, r) for b, r in waits if r.phases]
    if started and len(started) == len(waits):
        blocked, record = started[0]
        yield Cause("mbarrier-phase-error", blocked.span, outcome, record, blocked, "drift",
                    tuple(b.span for b, _ in started[1:]))  # fmt: skip


def _too_small(record: BarrierRecord, wait: WaitRecord) -> Callable[[Outcome], Cause] | None:
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


def _repeats(blocked: BlockedRecord, record: BarrierRecord) -> bool:
    """The same threads passed this barrier with the same parity just before: the parity was not flipped."""
    mine = [w for w in record.waits if not w.blocked and w.who.cta == blocked.who.cta
            and w.who.threads & blocked.who.threads]  # fmt: skip
    return bool(mine) and mine[-1].parity == blocked.parity and mine[-1].span == blocked.span


def _rank_of(outcome: Outcome, roles: Roles, who: Party) -> int:
    """How much of a producer a role is: 2 issues copies, 1 issues MMAs, 0 arrives only."""
    rank = 0
    for event in roles.events:
        if event.reach.threads & who.threads:
            if event.name in COPIES:
                return 2
            if event.name in ("tcgen05.mma", "tcgen05.commit"):
                rank = 1
    return rank


# --------------------------------------------------------------------------------- passing on a stale phase
def _stale(outcome: Outcome) -> Iterator[Cause]:
    """Reads or writes of storage whose asynchronous operation the wait before them did not really wait for."""
    for hazard in outcome.hazards:
        if hazard.order is not Order.INCOMPLETE or not hazard.first.done:
            continue
        for key, _ in hazard.first.done:
            record = _mbarrier(outcome, key)
            if record is None:
                continue
            wait = _last_wait(record, hazard)
            if wait is None or wait.span.start > hazard.second.span.start:
                continue  # a wait behind the use is none for it
            rule = "mbarrier-wrong-initial-phase" if wait.phase < 0 else "mbarrier-phase-error"
            yield Cause(rule, wait.span, outcome, record, wait, "passes", (hazard.second.span, hazard.first.span),
                        {"hazard": hazard})  # fmt: skip
            return
    if any(hazard.order in (Order.UNJOINED, Order.INCOMPLETE) for hazard in outcome.hazards):
        return  # the hazard says what goes wrong today; that a wait may lag as well follows from it
    for record in outcome.barriers.values():
        for wait in record.waits:
            if wait.late and not wait.blocked:
                leader = _leader(outcome, record, wait)
                if small := _too_small(record, wait):
                    yield small(outcome)
                elif leader is not None:
                    yield Cause("arrive-before-group-joined", leader.span, outcome, record, wait, "lags", (wait.span,),
                                {"arrival": leader})  # fmt: skip
                else:
                    yield Cause("mbarrier-phase-error", wait.span, outcome, record, wait, "latent")
                return


def _mbarrier(outcome: Outcome, key: Hashable) -> BarrierRecord | None:
    return outcome.barriers.get(key[1]) if isinstance(key, tuple) and len(key) == 2 and key[0] == "mbar" else None


def _last_wait(record: BarrierRecord, hazard: Hazard) -> WaitRecord | None:
    """The last wait of the later access's threads on the barrier."""
    second = hazard.second
    mine = [w for w in record.waits if w.who.cta == second.cta and w.who.threads & second.threads]
    return mine[-1] if mine else None


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


# ----------------------------------------------------------------------------------------------- left over
def _left_over(execution: Execution, outcome: Outcome) -> Iterator[Cause]:
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


def loop_of(roles: Roles, span: Span) -> Span | None:
    """The test of the innermost loop around an operation."""
    for event in roles.events:
        if event.op.span == span and event.loops:
            return event.loops[-1].span
    return None


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


# ------------------------------------------------------------------------------------------------- in words
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
        record = _mbarrier(outcome, key)
        wait = _last_wait(record, hazard) if record is not None else None
        if wait is not None and wait.span.start < hazard.second.span.start:
            return True
    return False
