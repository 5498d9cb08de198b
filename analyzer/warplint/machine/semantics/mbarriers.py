"""mbarrier operations. Facts: PTX ISA 9.7.13.15; OPS.md section 2 has the phase table this follows."""

from __future__ import annotations

from collections.abc import Hashable

from warplint.machine import values as v
from warplint.machine.agent import Agent, Wait
from warplint.machine.barriers import Arrival, Mbarrier, label_of
from warplint.machine.compile import Instruction
from warplint.machine.outcome import BarrierRecord, Party, WaitRecord
from warplint.machine.semantics.memory import touch
from warplint.machine.slots import remote
from warplint.machine.strands import Strand
from warplint.machine.values import Value
from warplint.machine.world import World
from warplint.source import Span


def words(world: World, agent: Agent, operands: dict[str, Value], threads: int) -> list[tuple[Hashable, int]] | None:
    """The barrier words named by an operation: (key, threads that name it). None when an address is unknown.

    A word is (cta, variable, byte offset). Lanes that name different words are grouped by word.
    """
    place = operands.get("barrier")
    if not isinstance(place, v.Place):
        return None
    target = operands.get("cta", place.cta)
    if target == v.LEADER:
        target = agent.cta & ~1
    offsets = place.offset
    if isinstance(offsets, v.Unknown) or isinstance(target, v.Unknown | v.Place):
        return None
    # Lanes that a guard leaves out name nothing, whatever their operand would be.
    ranks = tuple(target[t] for t in agent.members if threads >> t & 1) if isinstance(target, tuple) else (target,)
    if any(isinstance(rank, int) and rank not in world.live for rank in ranks):
        world.note(f"a CTA beyond the {world.scenario.ctas} of the assumed cluster is named", None)
        return None
    groups: dict[Hashable, int] = {}
    if isinstance(offsets, int) and not isinstance(target, tuple):
        return [((agent.cta if target is None else target, place.base, offsets), threads)]
    for thread in agent.members:
        if threads >> thread & 1:
            cta = agent.cta if target is None else target[thread] if isinstance(target, tuple) else target
            offset = offsets[thread] if isinstance(offsets, tuple) else offsets
            key = (cta, place.base, offset)
            groups[key] = groups.get(key, 0) | (1 << thread)
    return list(groups.items())


def _named(world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int):
    found = words(world, agent, operands, threads)
    if found is None:
        assert instruction.op is not None
        world.note(f"the barrier that `{instruction.op.spelling}` names is not known", instruction.span)
    return found or []


def _barrier(world: World, agent: Agent, key: Hashable, span: Span) -> Mbarrier | None:
    barrier = world.mbarriers.get(key)
    if barrier is None:
        world.fault("uninitialised", agent, span, label_of(key))
    return barrier


def initialise(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """mbarrier.init: phase 0, all arrivals pending."""
    count = operands.get("count")
    for key, by in _named(world, agent, instruction, operands, threads):
        number = count[(by & -by).bit_length() - 1] if isinstance(count, tuple) else count
        if not isinstance(number, int):
            world.note("the count of an mbarrier is not known", instruction.span)
            continue
        old = world.mbarriers.get(key)
        if old is not None:
            world.fault("reinitialised", agent, instruction.span, label_of(key), old.span)
        elif by & (by - 1):
            world.fault("initialised-by-many", agent, instruction.span, label_of(key))
        assert isinstance(key, tuple)
        barrier = Mbarrier(key[0], label_of(key), number, instruction.span)
        # Before anybody else may touch the word, the init must be ordered before that use.
        strands = world.strands_of(agent, by)
        barrier.knowledge = {}
        world.init_times[key] = [(s.index, s.now) for s in strands]
        word = v.Place(key[1], key[2], key[0])
        touch(world, agent, by & -by, word, 8, instruction.span, "mbarrier.init", write=True)
        world.barrier_words.setdefault((key[0], key[1]), {})[key[2]] = instruction.span
        world.slot_starts.add((key[1], key[2]))
        for strand in strands:
            strand.now += 1
        world.mbarriers[key] = barrier
        world.outcome.barriers[key] = BarrierRecord(
            key, barrier.label, barrier.cta, number, instruction.span, world.party(agent, by)
        )
        world.step(agent, instruction.span, f"init {barrier.label} count {number}", key, by)
        world.changed = True
    return None


def invalidate(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """mbarrier.inval: the word is plain memory again."""
    for key, by in _named(world, agent, instruction, operands, threads):
        barrier = world.mbarriers.pop(key, None)
        world.init_times.pop(key, None)
        if barrier is None:
            world.fault("uninitialised", agent, instruction.span, label_of(key))
            continue
        for other in world.agents:
            if other.wait is not None and other.wait.target == key:
                world.fault("inval-in-use", agent, instruction.span, label_of(key), other.wait.span)
        assert isinstance(key, tuple)
        world.barrier_words.get((key[0], key[1]), {}).pop(key[2], None)
        world.step(agent, instruction.span, f"inval {label_of(key)}", key, by)
    return None


def contribute(
    world: World, agent: Agent | None, key: Hashable, arrival: Arrival, knowledge: dict[Hashable, int]
) -> None:
    """Hand an arrival, expect_tx or complete_tx to the barrier, and record what came of it."""
    barrier = world.mbarriers.get(key)
    if barrier is None:
        return
    record = world.outcome.barriers[key]
    before = barrier.completed
    fault = barrier.arrive(arrival, knowledge)
    if fault:
        record.faults.append((fault, arrival))
    if arrival.expect or arrival.complete:
        record.transaction = True
    if barrier.completed != before:
        record.phases.append(barrier.history[-1])
        _laggards(world, key, barrier)
        # An expectation that no arrival of the phase comes after may as well fall into the next one.
        loose, barrier.expectations = barrier.expectations, []
        for strand, time, expected in loose:
            if expected not in record.racing and not world.strands.executed(barrier.released, strand, time):
                record.racing.append(expected)
        barrier.released = {}
        if arrival.how != "copy":
            _early(world, key, record)
    record.current, record.pending, record.tx = list(barrier.arrivals), barrier.pending, barrier.tx
    world.changed = True
    if world.observer is not None:
        world.observer.counted(key, arrival, barrier.completed)


def _early(world: World, key: Hashable, record: BarrierRecord) -> None:
    """A phase completed though copies to the barrier are under way that it does not expect.

    They may as well land before that: then the phase has bytes too many, and does not complete.
    """
    for flight in world.flights:
        if flight.key == key and not any(a.span == flight.span and a.how == "copy" for a in record.racing):
            size = flight.bytes or 0
            record.racing.append(Arrival(flight.cta, flight.threads, flight.span, 0, complete=size, how="copy"))


def in_turn(world: World, key: Hashable, strands: list[Strand], arrives: bool = True) -> bool:
    """The arrivals that these strands make now come after the completion of the phase before.

    They know of the completion, or of all the arrivals that it needed. Call it before the arrival is published.
    """
    barrier = world.mbarriers.get(key)
    if barrier is None:
        return True
    number = barrier.completed
    # With bytes to come the arrivals alone do not end a phase.
    alone = number > 0 and not any(arrival.expect or arrival.complete for arrival in barrier.history[-1])
    known = number == 0 or all(
        strand.clock.get(("mbar", key), 0) >= number
        or (
            alone
            and all(
                (index == strand.index and strand.threads & (strand.threads - 1) == 0)
                or world.strands.executed(strand.clock, index, time)
                for index, time in barrier.previous
            )
        )
        for strand in strands
    )
    if arrives:
        barrier.arrivers.extend((strand.index, strand.now) for strand in strands)
    return known


def _laggards(world: World, key: Hashable, barrier: Mbarrier) -> None:
    """A phase completed: who waited for the one before it must be ordered before that, else it may see two flips."""
    phase = barrier.completed - 2
    knowledge = barrier.handed[-1]
    for strand, time, record in barrier.watchers.pop(phase, ()):
        if not world.strands.executed(knowledge, strand, time):
            record.late = True


def check_initialised(world: World, agent: Agent, key: Hashable, threads: int, span: Span) -> None:
    """The init of a word is ordered before its use by these threads, and before its use from another CTA."""
    made = world.init_times.get(key)
    if made is None:
        return
    assert isinstance(key, tuple)
    for strand in world.strands_of(agent, threads):
        for writer, time in made:
            if strand.index == writer:
                continue
            if not world.strands.knows(strand, writer, time):
                # A relaxed cluster barrier in between orders the execution, but releases nothing by itself.
                ran = strand.clock.get(("exec", writer), 0) >= time
                kind = "used-before-init-fence" if ran else "used-before-init"
                world.fault(kind, agent, span, label_of(key), world.mbarriers[key].span)
                return


def arrive(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """mbarrier.arrive and its relatives: each executing thread counts."""
    assert instruction.op is not None
    name = instruction.op.name
    each = operands.get("count", 1)
    tx = operands.get("bytes", 0)
    expects = "expect_tx" in name
    arrives = name.startswith("mbarrier.arrive")
    if not isinstance(each, int) or not isinstance(tx, int):
        world.note(f"the count or bytes of `{instruction.op.spelling}` are not known", instruction.span)
        each, tx = (each if isinstance(each, int) else 1), (tx if isinstance(tx, int) else 0)
    for key, by in _named(world, agent, instruction, operands, threads):
        assert isinstance(key, tuple)
        if key not in world.mbarriers:
            _barrier(world, agent, key, instruction.span)
            continue
        check_initialised(world, agent, key, by, instruction.span)
        strands = world.strands_of(agent, by)
        how = "expect_tx" if expects else "arrive"
        number = by.bit_count()
        if name == "mbarrier.arrive_drop":
            world.mbarriers[key].drop(each * number)
        complete = tx * number if name == "mbarrier.complete_tx" else 0
        arrival = Arrival(
            agent.cta,
            by,
            instruction.span,
            each * number if arrives else 0,
            tx * number if expects else 0,
            complete,
            how,
        )
        remote(world, agent, by, key[0], instruction.span, None)
        known = not (arrives or expects) or in_turn(world, key, strands, arrives)
        if expects and not arrives:
            world.mbarriers[key].expectations.extend((strand.index, strand.now, arrival) for strand in strands)
        knowledge = world.strands.published(strands) if arrives else {}
        if arrives and instruction.op.mods.get("sem") == "relaxed":
            # Counts, but orders nothing of its own: what it tells about waits is kept, accesses are not.
            world.remark("a relaxed arrive is taken as a release", instruction.span)
        agent.results[(instruction.op, "state")] = v.Token(world.mbarriers[key].completed)
        agent.results[(instruction.op, "value")] = v.Token(world.mbarriers[key].completed)
        world.step(agent, instruction.span, _said(arrival, world.mbarriers[key]), key, by)
        if not known:
            world.outcome.barriers[key].racing.append(arrival)
        contribute(world, agent, key, arrival, knowledge)
    return None


def _said(arrival: Arrival, barrier: Mbarrier) -> str:
    parts = [f"arrive {arrival.count}"] if arrival.count else []
    if arrival.expect:
        parts.append(f"expect {arrival.expect} bytes")
    if arrival.complete:
        parts.append(f"complete {arrival.complete} bytes")
    return f"{' and '.join(parts)} on {barrier.label}, phase {barrier.completed}"


def wait(world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int) -> Wait | None:
    """try_wait/test_wait: blocks until the phase it aims at is complete.

    A thread that knows `c` completions and waits for parity P aims at the smallest phase m >= c - 1 with m & 1 == P (m
    = -1:
    it passes a fresh barrier at once). Lanes that name different words or parities are divided first.

    A one-shot test that is false now is waited for like a blocking one, since a retry loop around it does just that;
    when
    nothing else can run it is given up and returns false, so that a mere peek does not hang the machine.
    """
    op = instruction.op
    assert op is not None
    result = (op, "value")
    agent.results[result] = 1
    found = _named(world, agent, instruction, operands, threads)
    if not found:
        return None
    aim = operands.get("parity")
    if aim is None and "state" in operands:
        aim = operands["state"]
    if isinstance(aim, v.Token):
        aim = aim.phase & 1
    if len(found) > 1 or isinstance(aim, tuple):
        groups: dict[Hashable, int] = {}
        for key, by in found:
            for thread in agent.members:
                if by >> thread & 1:
                    mark = (key, aim[thread] & 1 if isinstance(aim, tuple) else aim)
                    groups[mark] = groups.get(mark, 0) | 1 << thread
        if len(groups) > 1:
            world.divide(agent, list(groups.values()))
        (key, aim), threads = next((mark, by) for mark, by in groups.items() if by & agent.threads)  # type: ignore[misc]
        threads &= agent.threads
    else:
        key = found[0][0]
    if not isinstance(aim, int):
        world.note(f"the parity that `{op.spelling}` waits for is not known", instruction.span)
        return None
    barrier = _barrier(world, agent, key, instruction.span)
    if barrier is None:
        return None
    check_initialised(world, agent, key, threads, instruction.span)
    parity = aim & 1
    record = world.outcome.barriers[key]
    number = world.count_visit(agent)
    waits: list[tuple[Strand, WaitRecord]] = []
    for strand in world.strands_of(agent, threads):
        known = strand.clock.get(("mbar", key), 0)
        phase = known - 1 if (known - 1) & 1 == parity else known
        made = WaitRecord(
            Party(agent.cta, strand.threads & threads), instruction.span, parity, phase, phase < 0, True, number
        )
        made.late = phase < barrier.completed - 1
        if not made.late:
            barrier.watchers.setdefault(phase, []).append((strand.index, strand.now, made))
        record.waits.append(made)
        waits.append((strand, made))

    def finish() -> None:
        agent.results[result] = 1
        world.step(agent, instruction.span, f"wait for parity {parity} of {barrier.label} passes", key, threads)
        for strand, made in waits:
            made.blocked = False
            if made.phase >= 0:
                # What this thread may rely on is the phase it aimed at, whatever has completed since.
                knowledge = dict(barrier.handed[made.phase]) if made.phase < len(barrier.handed) else {}
                knowledge[("mbar", key)] = max(strand.clock.get(("mbar", key), 0), made.phase + 1)
                parts = [strand] if not strand.children else world.strands.of(strand.cta, strand.threads)
                world.strands.acquire(parts, knowledge)

    def ready() -> bool:
        if not barrier.passes(parity):
            return False
        finish()
        return True

    if ready():
        return None
    shot = not op.mods.get("blocking")

    def give_up() -> None:
        agent.results[result] = 0
        for _, made in waits:
            record.waits.remove(made)

    phase = max(waits[0][1].phase, 0)
    return Wait(
        "mbarrier", instruction.span, ready, key, parity, phase, give_up=give_up if shot and _first_try(agent) else None
    )


def _first_try(agent: Agent) -> bool:
    """Give a one-shot test up only once for each place, else a retry loop would spin."""
    marker = ("gave-up", agent.pc)
    if marker in agent.env:
        return False
    agent.env[marker] = 1
    return True


def cp_async_arrive(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """cp.async.mbarrier.arrive: an arrival when the thread's earlier cp.async are done (at once, for the machine)."""
    assert instruction.op is not None
    noinc = bool(instruction.op.mods.get("noinc"))
    for key, by in _named(world, agent, instruction, operands, threads):
        barrier = _barrier(world, agent, key, instruction.span)
        if barrier is None:
            continue
        number = by.bit_count()
        if not noinc:
            barrier.raise_pending(number)
        from warplint.machine.semantics.asynchronous import attach_cp_async

        attach_cp_async(world, agent, by, ("mbar", key), barrier.completed + 1)
        known = in_turn(world, key, world.strands_of(agent, by))
        # It completes the thread's cp.async and releases no ordinary access of the thread: only that it came here is
        # told.
        knowledge: dict[Hashable, int] = {}
        for strand in world.strands_of(agent, by):
            for part, value in strand.clock.items():
                told = ("exec", part) if isinstance(part, int) else part
                knowledge[told] = max(knowledge.get(told, 0), value)
            knowledge[("exec", strand.index)] = strand.now
            strand.now += 1
        arrival = Arrival(agent.cta, by, instruction.span, number, how="cp.async")
        if not known:
            world.outcome.barriers[key].racing.append(arrival)
        contribute(world, agent, key, arrival, knowledge)
    return None


HANDLERS = {
    "mbarrier.init": initialise,
    "mbarrier.inval": invalidate,
    "mbarrier.arrive": arrive,
    "mbarrier.arrive.expect_tx": arrive,
    "mbarrier.arrive.noComplete": arrive,
    "mbarrier.arrive_drop": arrive,
    "mbarrier.expect_tx": arrive,
    "mbarrier.complete_tx": arrive,
    "mbarrier.try_wait": wait,
    "mbarrier.test_wait": wait,
    "cp.async.mbarrier.arrive": cp_async_arrive,
}
