"""AMD operations that touch LDS by instruction: loads straight into LDS, asynchronous and tensor copies, `ds_*`.

Facts: LLVM AMDGPUDMAOperations, AMDGPUAsyncOperations. A load into LDS takes its base from the first active lane of the
wave; its lanes land side by side, 4 bytes apart (16 where each brings 12 or 16). vmcnt tracks it. What built-ins issue
is known to the compiler, which waits before the same wave reads it; what inline assembly issues is not.
"""

from __future__ import annotations

from warplint.machine import values as v
from warplint.machine.agent import Agent, Wait
from warplint.machine.compile import Instruction
from warplint.machine.semantics import amd_counters
from warplint.machine.semantics.amd_counters import Entry
from warplint.machine.semantics.memory import touch
from warplint.machine.values import Value
from warplint.machine.world import World
from warplint.threads.facts import warps_of


def _size(operands: dict[str, Value]) -> int | None:
    size = operands.get("bytes")
    return size if isinstance(size, int) and size > 0 else None


def _shifted(place: Value, offset: Value) -> Value:
    return v.Place(place.base, v.binary("+", place.offset, offset), place.cta) if isinstance(place, v.Place) else place


def _landing(world: World, agent: Agent, place: Value, stride: int, threads: int) -> Value:
    """Where each lane's data lands: side by side from the base of the wave's first active lane."""
    if not isinstance(place, v.Place) or not isinstance(place.offset, int | tuple):
        return place
    size = world.warp_size
    at = [0] * world.block
    for wave, lanes in warps_of(threads, size).items():
        lowest = wave * size + (lanes & -lanes).bit_length() - 1
        base = place.offset if isinstance(place.offset, int) else place.offset[lowest]
        for lane in range(min(size, world.block - wave * size)):
            at[wave * size + lane] = base + stride * lane
    return v.Place(place.base, tuple(at), place.cta)


def load_to_lds(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """`global_load_lds`, `buffer_load ... lds`: global memory to LDS past the registers, counted by vmcnt."""
    op = instruction.op
    assert op is not None
    size = _size(operands)
    compiled = op.by_name and not op.mods.get("assembly")
    limit = op.mods.get("registers_from")
    place = operands.get("dst", 0)
    if isinstance(limit, int) and size is not None and size >= limit:
        counted = amd_counters.tracked(world, agent, threads, "ds", True)
        access = touch(world, agent, threads, place, size, instruction.span, "copy through registers", write=True,
                       counted=counted if world.counting else None)  # fmt: skip
        amd_counters.issue(world, agent.cta, threads, "load", Entry(instruction.span))
        if access is not None:
            amd_counters.lds(world, agent, access, threads, None)
        return None
    lanes = _landing(world, agent, _shifted(place, operands.get("offset", 0)), 16 if (size or 4) > 4 else 4, threads)
    _copy(world, agent, instruction, lanes, size, threads, "load", "load into LDS", True, compiled)
    return None


def asynchronous(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """`global_load_async_to_lds` and its store (gfx1250): each lane its own address, counted by asynccnt."""
    op = instruction.op
    assert op is not None
    store = bool(op.mods.get("store"))
    place = _shifted(operands.get("src" if store else "dst", 0), operands.get("offset", 0))
    what = "asynchronous store from LDS" if store else "asynchronous load into LDS"
    _copy(world, agent, instruction, place, _size(operands), threads, "async", what, not store, False)
    return None


def _copy(
    world: World, agent: Agent, instruction: Instruction, place: Value, size: int | None, threads: int, counter: str,
    what: str, write: bool, compiled: bool,
) -> None:  # fmt: skip
    counted = amd_counters.tracked(world, agent, threads, counter, compiled)
    access = touch(world, agent, threads, place, size, instruction.span, what, write=write, counted=counted)
    if access is None:
        world.note(f"the LDS address of the {what} is not known: its order is not looked at", instruction.span)
    amd_counters.issue(world, agent.cta, threads, counter, Entry(instruction.span, access, 1, None, compiled))
    world.step(agent, instruction.span, what, "counters", threads)


def tensor(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """`tensor_load_to_lds`: one transfer for each executing wave; where it lands stands in its descriptor."""
    op = instruction.op
    assert op is not None
    store = bool(op.mods.get("store"))
    place = operands.get("dst")
    issuers = one_lane_each(threads, world.warp_size)
    several = len(warps_of(threads, world.warp_size)) > 1
    if isinstance(place, v.Place) and not (several and isinstance(place.offset, int)):
        what = "tensor store from LDS" if store else "tensor load into LDS"
        counted = amd_counters.tracked(world, agent, issuers, "tensor", False)
        size = tile_bytes(operands.get("head"), operands.get("row"), operands.get("rows"))
        access = touch(world, agent, issuers, place, size, instruction.span, what, write=not store, counted=counted)
        if access is not None:
            amd_counters.issue(world, agent.cta, threads, "tensor", Entry(instruction.span, access, 1, None, False))
            world.step(agent, instruction.span, what, "counters", threads)
            return None
    amd_counters.issue(world, agent.cta, threads, "tensor", Entry(instruction.span, compiled=False))
    world.note("where a tensor copy lands in LDS is not known: its order is not looked at", instruction.span)
    return None


def one_lane_each(threads: int, size: int) -> int:
    """The first lane of every wave among `threads`."""
    return sum((lanes & -lanes) << wave * size for wave, lanes in warps_of(threads, size).items())


def tile_bytes(head: Value | None, row: Value | None, rows: Value | None) -> int | None:
    """Bytes that a tensor copy moves, from the words of its descriptor; None when one is unknown or rows are padded."""
    if not (isinstance(head, int) and isinstance(row, int) and isinstance(rows, int)) or head >> 20 & 1:
        return None
    extents = (row >> 16 & 0xFFFF, rows & 0xFFFF, rows >> 16 & 0xFFFF)
    total = 1 << (head >> 16 & 3)
    for extent in extents:
        total *= extent or 1
    return total if extents[0] else None


def lds_read(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """`ds_read` of inline assembly: nobody but the source waits before its value is used."""
    _lds(world, agent, instruction, operands.get("src", 0), operands, threads, False)
    return None


def lds_write(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """`ds_write` of inline assembly; atomic operations order themselves."""
    assert instruction.op is not None
    if not instruction.op.mods.get("atomic"):
        _lds(world, agent, instruction, operands.get("dst", 0), operands, threads, True)
    return None


def _lds(
    world: World, agent: Agent, instruction: Instruction, place: Value, operands: dict[str, Value], threads: int,
    write: bool,
) -> None:  # fmt: skip
    op = instruction.op
    assert op is not None
    place = _shifted(place, operands.get("offset", 0))
    counted = amd_counters.tracked(world, agent, threads, "ds", op.by_name)
    access = touch(world, agent, threads, place, _size(operands), instruction.span,
                   "LDS write" if write else "LDS read", write=write, counted=counted)  # fmt: skip
    fills = None if write or op.by_name else op
    amd_counters.issue(world, agent.cta, threads, "ds", Entry(instruction.span, access, 1, fills, op.by_name))


HANDLERS = {
    "amd.load_to_lds": load_to_lds,
    "amd.async_lds": asynchronous,
    "amd.tensor_lds": tensor,
    "amd.ds_read": lds_read,
    "amd.ds_write": lds_write,
}
