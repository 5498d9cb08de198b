"""tcgen05: tensor memory, its pipeline and its loads and stores. Facts: PTX ISA 9.7.16; OPS.md.

Tensor memory is columns of 128 lanes; a warp reaches only its quarter of the lanes, an MMA touches all four. What one
thread issues to the tensor pipeline is numbered; a commit hands its
number over with the phase it arrives in, so that everything issued before it is known to be complete.
"""

from __future__ import annotations

from collections.abc import Hashable

from warplint.machine import values as v
from warplint.machine.agent import Agent, Wait
from warplint.machine.barriers import Arrival, label_of
from warplint.machine.compile import Instruction
from warplint.machine.footprint import Access, Region
from warplint.machine.outcome import Fault, Party
from warplint.machine.semantics.mbarriers import check_initialised, contribute, in_turn, words
from warplint.machine.semantics.memory import record, region_of, touch
from warplint.machine.slots import consume, remote, tensor_written
from warplint.machine.values import Value
from warplint.machine.words import Word
from warplint.machine.world import Allocation, World
from warplint.threads.facts import warps_of

TENSOR = "tensor memory"
QUARTERS = 4
ALL_QUARTERS = (1 << QUARTERS) - 1
COLUMNS = 512
SLICE_BYTES = 32
"""Bytes of one row that one MMA reads of an operand: K is 16 halves, 8 words or 32 bytes in every dense kind."""


def relinquish(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """tcgen05.relinquish_alloc_permit: this CTA allocates no more."""
    world.extra.setdefault(("relinquished", agent.cta), instruction.span)
    return None


def allocate(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """tcgen05.alloc: the lowest free columns; writes their address to a word of shared memory."""
    op = instruction.op
    assert op is not None
    columns, slot = operands.get("columns"), operands.get("slot")
    if not isinstance(columns, int):
        world.note("the number of columns of tcgen05.alloc is not known", instruction.span)
        return None
    if op.mods.get("cta_group") == 2 and world.scenario.ctas > 1 and not _peer_runs(world, agent, threads):
        world.fault("tmem-pair-not-synced", agent, instruction.span)
    _together(world, agent, instruction, "tcgen05.alloc")
    earlier = world.extra.get(("relinquished", agent.cta))
    if earlier is not None:
        world.fault("tmem-alloc-after-relinquish", agent, instruction.span, "", earlier)
    for warp, lanes in warps_of(threads, world.warp_size).items():
        held = [a for a in world.allocations if a.live and a.cta == agent.cta]
        first = max((a.first + a.columns for a in held), default=0)
        if first + columns > COLUMNS:
            if columns <= COLUMNS:  # parts after Blackwell have more, and `.exclusive` takes it
                world.fault("tmem-full", agent, instruction.span, str(columns), held[0].span if held else None)
            first = 0
        by = lanes << warp * world.warp_size
        world.allocations.append(Allocation(agent.cta, first, columns, instruction.span, by))
        touch(world, agent, by & -by, slot or 0, 4, instruction.span, "tcgen05.alloc", write=True)
        # Executed by the whole warp together, each lane with the address as its result.
        world.strands.join_warps(world.strands_of(agent, by))
        if isinstance(slot, v.Place) and isinstance(slot.offset, int):
            region = region_of(world, agent, slot)
            if region is not None:
                world.words.put(region, slot.offset, Word(first, 4, by & -by, trusted=True))
        text = f"allocate tensor memory columns {first}..{first + columns - 1}"
        world.step(agent, instruction.span, text, TENSOR, by)
    return None


def _together(world: World, agent: Agent, instruction: Instruction, what: str) -> None:
    """Note an operation of a pair, with the cluster barriers that its threads have passed: the peer's must match."""
    assert instruction.op is not None
    if instruction.op.mods.get("cta_group") == 2 and world.scenario.ctas > 1:
        passed = agent.env.get("cluster-passed", 0)
        done = world.paired.setdefault((agent.cta & ~1, what), ([], []))
        done[agent.cta & 1].append((world.party(agent), instruction.span, passed if isinstance(passed, int) else -1))


def pairs(world: World) -> None:
    """At the end: `alloc` and `dealloc` of a pair are one operation of both CTAs, at the same place between cluster
    barriers (PTX ISA 9.7.16.7.1).
    """
    for (_, what), (even, odd) in world.paired.items():
        for mine, theirs in zip(even, odd, strict=False):
            if mine[2] != theirs[2] and -1 not in (mine[2], theirs[2]):
                world.outcome.faults.append(Fault("tmem-pair-order", mine[0], mine[1], what, theirs[1]))
                return
        if len(even) != len(odd):
            who, span, _ = (even if len(even) > len(odd) else odd)[min(len(even), len(odd))]
            world.outcome.faults.append(Fault("tmem-pair-alone", who, span, what))
            return


def _peer_runs(world: World, agent: Agent, threads: int) -> bool:
    """The threads know that the other CTA of the pair has started: something of it happened before."""
    peer = agent.cta ^ 1
    for strand in world.strands_of(agent, threads):
        for key in strand.clock:
            index = key[1] if isinstance(key, tuple) and key[0] == "exec" else key
            if isinstance(index, int) and world.strands.all[index].cta == peer:
                return True
    return False


def deallocate(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """tcgen05.dealloc: as far as order goes, a write to all lanes of the columns."""
    _together(world, agent, instruction, "tcgen05.dealloc")
    columns = operands.get("columns")
    first = _column(operands.get("address"))
    count = columns if isinstance(columns, int) else None
    for warp, lanes in warps_of(threads, world.warp_size).items():
        by = lanes << warp * world.warp_size
        held = [a for a in world.allocations if a.cta == agent.cta and a.live and first in (None, a.first)]
        if held:
            if count is None or held[0].columns == count:
                held[0].live = False
            else:
                world.fault(
                    "tmem-columns-differ", agent, instruction.span, f"{count} of {held[0].columns}", held[0].span
                )
        elif first is not None:
            known = [a for a in world.allocations if a.cta == agent.cta and a.first == first]
            world.fault("tmem-not-allocated", agent, instruction.span, str(first), known[0].span if known else None)
        # With cta_group::2 it is collective over the pair: the peer's accesses must be over as well.
        assert instruction.op is not None
        pair = instruction.op.mods.get("cta_group") == 2 and world.scenario.ctas > 1
        for cta in (agent.cta & ~1, agent.cta | 1) if pair else (agent.cta,):
            _tensor_access(world, agent, by, first or 0, count or COLUMNS, instruction, "tcgen05.dealloc",
                           write=True, cta=cta)  # fmt: skip
        world.step(agent, instruction.span, "free tensor memory", TENSOR, by)
    return None


def _column(address: Value | None) -> int | None:
    """Column of a tensor-memory address (lane in the upper half); None when unknown or not the same for all."""
    if isinstance(address, tuple):
        columns = {value & 0xFFFF for value in address}
        return columns.pop() if len(columns) == 1 else None
    return address & 0xFFFF if isinstance(address, int) else None


def _tensor_access(
    world: World,
    agent: Agent,
    threads: int,
    first: int,
    count: int,
    instruction: Instruction,
    what: str,
    *,
    write: bool,
    done: tuple[tuple[Hashable, int], ...] = (),
    pending: str = "",
    pipeline: Hashable = None,
    cta: int | None = None,
    split: bool = False,
) -> list[Access]:
    pieces = [(ALL_QUARTERS, threads)]
    if split:
        by_quarter: dict[int, int] = {}
        for warp, lanes in warps_of(threads, world.warp_size).items():
            quarter = warp % QUARTERS
            by_quarter[quarter] = by_quarter.get(quarter, 0) | lanes << (warp * world.warp_size)
        pieces = [(1 << quarter, by) for quarter, by in by_quarter.items()]
    made = []
    for quarters, by in pieces:
        strands = world.strands_of(agent, by)
        access = Access(
            Region(agent.cta if cta is None else cta, TENSOR, "tmem", True), first, first + count, write, "tensor",
            instruction.span, what, agent.cta, by, tuple((s.index, s.now) for s in strands), done, pending,
            pipeline=pipeline, quarters=quarters,
        )  # fmt: skip
        record(world, access, strands)
        made.append(access)
    return made


def multiply(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """tcgen05.mma and cp: asynchronous, in order within the issuing thread; over when a later commit is observed."""
    op = instruction.op
    assert op is not None
    for thread in [t for t in agent.members if threads >> t & 1]:
        _multiply(world, agent, instruction, operands, 1 << thread)
    return None


def _multiply(world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], one: int) -> None:
    op = instruction.op
    assert op is not None
    thread = one.bit_length() - 1
    pipeline = ("tcgen05", agent.cta, thread)
    number = world.pipelines[pipeline] = world.pipelines.get(pipeline, 0) + 1
    done: tuple[tuple[Hashable, int], ...] = ((pipeline, number),)
    pair = op.mods.get("cta_group") == 2 and world.scenario.ctas > 1
    ctas = (agent.cta & ~1, agent.cta | 1) if pair else (agent.cta,)
    idesc = operands.get("idesc")
    rows = columns = None
    if isinstance(idesc, int):
        # Instruction descriptor, PTX ISA 9.7.16.4.2: N >> 3 in bits 17-22, M >> 4 in bits 24-28.
        columns, rows = (idesc >> 17 & 0x3F) * 8, (idesc >> 24 & 0x1F) * 16
    for role, extent in (("desc_a", rows), ("desc_b", columns), ("src", None)):
        operand = operands.get(role)
        if isinstance(operand, v.Packed):
            for cta in ctas:
                place = v.Place(operand.place.base, operand.place.offset, cta)
                touch(world, agent, one, place, None, instruction.span, op.name, write=False,
                      proxy="async", done=done, pipeline=pipeline)  # fmt: skip
                if extent and op.name == "tcgen05.mma" and not op.mods.get("block_scale"):
                    consume(world, cta, place, extent // len(ctas) * SLICE_BYTES, world.strands_of(agent, one))
        elif role != "src" and role in operands and not isinstance(operand, int):
            world.remark(
                "the shared-memory operand of an MMA is not known: its order is not looked at", instruction.span
            )
    address = operands.get("address", operands.get("dst"))
    first = _column(address)
    if first is None:
        world.remark("the tensor-memory address of an MMA is not known: its order is not looked at", instruction.span)
        return
    # With M = 128 over two CTAs (64 rows each) the layout folds columns: only the first is certain there.
    wide = 1 if columns is None or op.name != "tcgen05.mma" or (pair and rows == 128) or rows == 64 else columns
    accumulate = operands.get("accumulate")
    if (
        op.name == "tcgen05.mma"
        and isinstance(accumulate, int)
        and accumulate
        and not tensor_written(world, agent.cta, first, TENSOR)
    ):
        world.fault("accumulates-uninitialised", agent, instruction.span, str(first))
    for cta in ctas:
        _tensor_access(world, agent, one, first, max(wide, 1), instruction, op.name, write=True,
                       done=done, pipeline=pipeline, cta=cta)  # fmt: skip


def commit(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """tcgen05.commit: one arrival by each executing thread when what that thread issued before is complete."""
    found = words(world, agent, operands, threads)
    if found is None:
        world.note("the barrier that tcgen05.commit names is not known", instruction.span)
        return None
    mask = operands.get("cta_mask")
    for key, by in found:
        assert isinstance(key, tuple)
        targets: list[Hashable] = [key]
        if isinstance(mask, int):
            targets = [(cta, *key[1:]) for cta in range(world.scenario.ctas) if mask >> cta & 1]
        issuers = world.strands_of(agent, by)
        turns = {target: in_turn(world, target, issuers) for target in targets}
        knowledge = world.strands.published(issuers)
        for thread in agent.members:
            pipeline = ("tcgen05", agent.cta, thread)
            if by >> thread & 1 and pipeline in world.pipelines:
                knowledge[pipeline] = world.pipelines[pipeline]
        for target in targets:
            barrier = world.mbarriers.get(target)
            if barrier is None:
                world.fault("uninitialised", agent, instruction.span, label_of(target))
                continue
            check_initialised(world, agent, target, by, instruction.span)
            world.step(agent, instruction.span, f"commit to {label_of(target)}, phase {barrier.completed}", target, by)
            assert isinstance(target, tuple)
            remote(world, agent, by, target[0], instruction.span, (("mbar", target), barrier.completed + 1))
            arrival = Arrival(agent.cta, by, instruction.span, by.bit_count(), how="commit")
            if not turns[target]:
                world.outcome.barriers[target].racing.append(arrival)
            contribute(world, agent, target, arrival, knowledge)
    return None


def _width(instruction: Instruction) -> int:
    """Columns that one tcgen05.ld/st touches: exact for 32x32b, else the first column only."""
    assert instruction.op is not None
    number = str(instruction.op.mods.get("num", "")).removeprefix("x")
    return int(number) if instruction.op.mods.get("shape") == "32x32b" and number.isdigit() else 1


def load(world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int) -> Wait | None:
    """tcgen05.ld: reads the warp's quarter; over when the same thread has executed wait::ld."""
    return _move(world, agent, instruction, operands, threads, write=False)


def store(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """tcgen05.st: writes the warp's quarter; over when the same thread has executed wait::st."""
    return _move(world, agent, instruction, operands, threads, write=True)


def _move(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int, *, write: bool
) -> Wait | None:
    kind = "tcgen05.st" if write else "tcgen05.ld"
    address = operands.get("address", operands.get("dst" if write else "src"))
    _own_quarter(world, agent, instruction, address, threads)
    pieces: dict[int | None, int] = {}
    if isinstance(address, tuple):
        for thread in agent.members:
            if threads >> thread & 1:
                column = address[thread] & 0xFFFF
                pieces[column] = pieces.get(column, 0) | 1 << thread
    else:
        pieces[_column(address)] = threads
    for first, by in pieces.items():
        if first is None:
            world.remark(f"the address of a {kind} is not known: its order is not looked at", instruction.span)
            continue
        for access in _tensor_access(world, agent, by, first, _width(instruction), instruction, kind, write=write,
                                     pending=kind, split=True):  # fmt: skip
            access.open = access.threads
            world.moves.setdefault((kind, agent.cta), []).append(access)
    return None


def _own_quarter(world: World, agent: Agent, instruction: Instruction, address: Value | None, threads: int) -> None:
    """The lane in the address lies in the quarter of the warp (PTX ISA, tcgen05.ld: warp w of a warpgroup reaches lanes
    32 * w to 32 * w + 31). Lanes 0 to 31 are taken for those of the own quarter in every warp: shipped kernels rely on
    it.
    """
    if not isinstance(address, int | tuple) or not any(held.cta == agent.cta for held in world.allocations):
        return  # an address that the kernel was given may hold any lane
    for warp, lanes in warps_of(threads, world.warp_size).items():
        first = warp * world.warp_size + (lanes & -lanes).bit_length() - 1
        value = address if isinstance(address, int) else address[first]
        lane = value >> 16 & 0xFFFF
        if lane >= world.warp_size and lane // world.warp_size != warp % QUARTERS:
            who = Party(agent.cta, lanes << warp * world.warp_size)
            if not any(f.kind == "tmem-lanes" and f.span == instruction.span for f in world.outcome.faults):
                world.outcome.faults.append(Fault("tmem-lanes", who, instruction.span, f"{lane} {warp}"))


def wait(world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int) -> Wait | None:
    """tcgen05.wait::ld / ::st: the executing threads' loads or stores are over now."""
    assert instruction.op is not None
    kind = "tcgen05.st" if instruction.op.mods.get("kind") == "st" else "tcgen05.ld"
    pending = world.moves.get((kind, agent.cta))
    if pending:
        still = []
        for access in pending:
            access.open &= ~threads
            if access.open:
                still.append(access)
            else:
                access.pending = ""
                # The wait is of the whole warp: who knows that its lanes have met here knows that the loads are over.
                access.strands = tuple((s.index, s.now - 1) for s in world.strands.of(access.cta, access.threads))
        world.moves[(kind, agent.cta)] = still
    return None


HANDLERS = {
    "tcgen05.alloc": allocate,
    "tcgen05.dealloc": deallocate,
    "tcgen05.relinquish_alloc_permit": relinquish,
    "tcgen05.mma": multiply,
    "tcgen05.cp": multiply,
    "tcgen05.shift": multiply,
    "tcgen05.commit": commit,
    "tcgen05.ld": load,
    "tcgen05.st": store,
    "tcgen05.wait": wait,
}
