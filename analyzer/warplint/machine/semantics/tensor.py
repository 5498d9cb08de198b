"""tcgen05 (tensor memory and its pipeline), wgmma, and setmaxnreg. Facts: PTX ISA 9.7.16, 9.7.15, 9.7.19.5; OPS.md.

Tensor memory is columns of 128 lanes; a warp reaches only its quarter of the lanes. So there is one region for each CTA
and quarter, and an MMA touches all four.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from warplint.machine import values as v
from warplint.machine.agent import Agent, Wait
from warplint.machine.barriers import Arrival
from warplint.machine.compile import Instruction
from warplint.machine.memory import Access, Region
from warplint.machine.semantics.asynchronous import GroupState, group_state
from warplint.machine.semantics.mbarriers import contribute, label_of, words
from warplint.machine.semantics.memory import record, touch
from warplint.machine.values import Value
from warplint.machine.world import World
from warplint.source import Span
from warplint.threads.facts import warps_of

TENSOR = "tensor memory"
QUARTERS = 4


@dataclass(slots=True)
class Allocation:
    """Columns of tensor memory that one CTA holds."""

    first: int
    columns: int
    span: Span
    live: bool = True


def _allocations(world: World, cta: int) -> list[Allocation]:
    found = world.extra.setdefault(("tmem", cta), [])
    assert isinstance(found, list)
    return found


def allocate(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """tcgen05.alloc: the lowest free columns; writes their address to a word of shared memory."""
    columns, slot = operands.get("columns"), operands.get("slot")
    if not isinstance(columns, int):
        world.note("the number of columns of tcgen05.alloc is not known", instruction.span)
        return None
    held = [a for a in _allocations(world, agent.cta) if a.live]
    first = max((a.first + a.columns for a in held), default=0)
    if first + columns > 512:
        world.fault("tmem-full", agent, instruction.span, str(columns))
        first = 0
    _allocations(world, agent.cta).append(Allocation(first, columns, instruction.span))
    touch(world, agent, threads & -threads, slot or 0, 4, instruction.span, "tcgen05.alloc", write=True)
    if isinstance(slot, v.Place) and isinstance(slot.offset, int):
        world.words[(agent.cta, slot.base, slot.offset)] = first
    world.step(agent, instruction.span, f"allocate tensor memory columns {first}..{first + columns - 1}", TENSOR, threads)
    return None


def deallocate(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """tcgen05.dealloc: as far as order goes, a write to all lanes of the columns."""
    address, columns = operands.get("address"), operands.get("columns")
    first = _column(address)
    count = columns if isinstance(columns, int) else None
    for allocation in _allocations(world, agent.cta):
        if allocation.live and (first is None or allocation.first == first):
            allocation.live = False
            count = count or allocation.columns
            break
    _tensor_access(world, agent, threads, 0 if first is None else first, count or 512, instruction, "tcgen05.dealloc",
                   write=True, quarters=range(QUARTERS))  # fmt: skip
    world.step(agent, instruction.span, "free tensor memory", TENSOR, threads)
    return None


def _column(address: Value | None) -> int | None:
    """Column of a tensor-memory address (lane in the upper half); None when unknown."""
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
    quarters: range | tuple[int, ...],
    pending: str = "",
    pipeline: Hashable = None,
) -> list[Access]:
    made = []
    for quarter in quarters:
        by = threads
        if pipeline is None and what != "tcgen05.dealloc":
            by = 0
            for warp, lanes in warps_of(threads, world.warp_size).items():
                if warp % QUARTERS == quarter:
                    by |= lanes << (warp * world.warp_size)
            if not by:
                continue
        strands = world.strands_of(agent, by)
        access = Access(
            Region(agent.cta, TENSOR, ("tmem", quarter), True), first, first + count, write, "tensor", instruction.span,
            what, agent.cta, by, tuple((s.index, s.now) for s in strands), None, pending, pipeline=pipeline,
        )  # fmt: skip
        record(world, access, strands)
        made.append(access)
    return made


def multiply(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """tcgen05.mma and cp: asynchronous, in order within the issuing thread; complete with its next commit."""
    assert instruction.op is not None
    one = threads & -threads
    thread = one.bit_length() - 1
    state = group_state(world, "tcgen05", agent.cta, thread)
    pipeline = ("tcgen05", agent.cta, thread)
    for role in ("desc_a", "desc_b", "src"):
        operand = operands.get(role)
        if isinstance(operand, v.Packed):
            access = touch(world, agent, one, operand.place, None, instruction.span, instruction.op.name, write=False,
                           proxy="async", pending="tcgen05", pipeline=pipeline)  # fmt: skip
            if access is not None:
                state.open.append(access)
    first = _column(operands.get("address"))
    if first is None:
        world.note("the tensor-memory address of an MMA is not known", instruction.span)
    else:
        idesc = operands.get("idesc")
        wide = (idesc >> 17 & 0x3F) * 8 if isinstance(idesc, int) else 1
        state.open.extend(
            _tensor_access(world, agent, one, first, max(wide, 1), instruction, instruction.op.name, write=True,
                           quarters=range(QUARTERS), pending="tcgen05", pipeline=pipeline)  # fmt: skip
        )
    state.spans.append(instruction.span)
    return None


def commit(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """tcgen05.commit: one arrival by each executing thread when what that thread issued before is complete."""
    found = words(world, agent, operands, threads)
    if found is None:
        world.note("the barrier that tcgen05.commit names is not known", instruction.span)
        return None
    masks = operands.get("cta_mask")
    for key, by in found:
        assert isinstance(key, tuple)
        targets: list[Hashable] = [key]
        if isinstance(masks, int):
            targets = [(cta, *key[1:]) for cta in range(world.scenario.ctas) if masks >> cta & 1]
        for target in targets:
            barrier = world.mbarriers.get(target)
            if barrier is None:
                world.fault("uninitialised", agent, instruction.span, label_of(target))
                continue
            done = (("mbar", target), barrier.completed + 1)
            for thread in agent.members:
                state = world.extra.get(("tcgen05", agent.cta, thread)) if by >> thread & 1 else None
                if isinstance(state, GroupState):
                    for access in state.open:
                        access.pending, access.done = "", done
                    state.open, state.spans = [], []
            knowledge = world.strands.published(world.strands_of(agent, by))
            world.step(agent, instruction.span, f"commit to {label_of(target)}, phase {barrier.completed}", target, by)
            contribute(world, agent, target,
                       Arrival(agent.cta, by, instruction.span, by.bit_count(), how="commit"), knowledge)  # fmt: skip
    return None


def _width(instruction: Instruction) -> int:
    """Columns that one tcgen05.ld/st touches: exact for 32x32b, else the first column only."""
    assert instruction.op is not None
    number = str(instruction.op.mods.get("num", "")).removeprefix("x")
    return int(number) if instruction.op.mods.get("shape") == "32x32b" and number.isdigit() else 1


def load(world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int) -> Wait | None:
    """tcgen05.ld: reads the warp's quarter; over when the same thread has executed wait::ld."""
    return _move(world, agent, instruction, operands, threads, write=False)


def store(world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int) -> Wait | None:
    """tcgen05.st: writes the warp's quarter; over when the same thread has executed wait::st."""
    return _move(world, agent, instruction, operands, threads, write=True)


def _move(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int, *, write: bool
) -> Wait | None:
    kind = "tcgen05.st" if write else "tcgen05.ld"
    first = _column(operands.get("address"))
    if first is None:
        world.note(f"the address of {kind} is not known", instruction.span)
        return None
    made = _tensor_access(world, agent, threads, first, _width(instruction), instruction, kind, write=write,
                          quarters=range(QUARTERS), pending=kind)  # fmt: skip
    open_moves = world.extra.setdefault((kind, agent.cta), [])
    assert isinstance(open_moves, list)
    open_moves.extend(made)
    return None


def wait(world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int) -> Wait | None:
    """tcgen05.wait::ld / ::st: the executing threads' loads or stores are over now."""
    assert instruction.op is not None
    kind = "tcgen05.st" if instruction.op.mods.get("what", instruction.op.mods.get("kind")) == "st" else "tcgen05.ld"
    pending = world.extra.get((kind, agent.cta))
    if isinstance(pending, list):
        still = []
        for access in pending:
            if access.threads & ~threads:
                still.append(access)
            else:
                strands = world.strands_of(agent, access.threads)
                access.pending = ""
                access.strands = tuple((s.index, s.now) for s in strands)
        world.extra[(kind, agent.cta)] = still
    return None


def wgmma(world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int) -> Wait | None:
    """wgmma.mma_async: reads operand tiles until its group is waited for."""
    for role in ("desc_a", "desc_b"):
        operand = operands.get(role)
        if isinstance(operand, v.Packed):
            access = touch(world, agent, threads, operand.place, None, instruction.span, "wgmma", write=False,
                           proxy="async", pending="wgmma")  # fmt: skip
            if access is not None:
                group_state(world, "wgmma", agent.cta, (threads & -threads).bit_length() - 1).open.append(access)
    return None


def wgmma_commit(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """wgmma.commit_group."""
    from warplint.machine.semantics.asynchronous import commit_group

    commit_group(world, "wgmma", agent.cta, (threads & -threads).bit_length() - 1)
    return None


def wgmma_wait(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """wgmma.wait_group N: all but the N latest groups are over for the executing threads."""
    from warplint.machine.semantics.asynchronous import wait_groups

    wait_groups(world, agent, instruction, operands, threads, "wgmma")
    return None


HANDLERS = {
    "tcgen05.alloc": allocate,
    "tcgen05.dealloc": deallocate,
    "tcgen05.mma": multiply,
    "tcgen05.cp": multiply,
    "tcgen05.shift": multiply,
    "tcgen05.commit": commit,
    "tcgen05.ld": load,
    "tcgen05.st": store,
    "tcgen05.wait": wait,
    "wgmma.mma_async": wgmma,
    "wgmma.commit_group": wgmma_commit,
    "wgmma.wait_group": wgmma_wait,
}
