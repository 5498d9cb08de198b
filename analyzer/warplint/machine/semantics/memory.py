"""Ordinary accesses to shared memory, and how every kind of access is recorded."""

from __future__ import annotations

from collections.abc import Hashable

from warplint.machine import values as v
from warplint.machine.agent import Agent, Wait
from warplint.machine.compile import Instruction
from warplint.machine.footprint import Access, Lanes, Proxy, Region
from warplint.machine.slots import remote, stage_stride
from warplint.machine.strands import Strand
from warplint.machine.values import Value
from warplint.machine.world import World
from warplint.program import ir
from warplint.source import Span

MAX_HAZARDS = 400


def region_of(world: World, agent: Agent, place: v.Place) -> Region | None:
    """The region an address lies in; None for memory that is not shared."""
    base = place.base
    if not isinstance(base, ir.Symbol) or base.kind not in ("shared", "dynamic_shared"):
        return None
    cta = agent.cta if place.cta is None else place.cta
    return Region(cta, base.name, base)


def touch(
    world: World,
    agent: Agent,
    threads: int,
    place: Value,
    size: int | None,
    span: Span,
    what: str,
    *,
    write: bool,
    proxy: Proxy = "generic",
    done: tuple[tuple[Hashable, int], ...] = (),
    pending: str = "",
    pipeline: Hashable = None,
) -> Access | None:
    """Record an access to shared memory, and the hazards it shows. None when the address is not shared or unknown.

    An unknown length counts as the first byte only: that one is certainly touched.
    """
    if not isinstance(place, v.Place):
        return None
    region = region_of(world, agent, place)
    if region is None:
        return None
    strands = world.strands_of(agent, threads)
    width = size or 1
    offset = place.offset
    lanes: Lanes | None = None
    exact = True
    if isinstance(offset, int):
        low, high = offset, offset + width
    elif isinstance(offset, tuple):
        mark = (offset, threads, width)
        lanes = world.lanes.get(mark)
        if lanes is None:
            lanes = world.lanes[mark] = Lanes(tuple((t, offset[t]) for t in agent.members if threads >> t & 1), width)
        low, high = lanes.low, lanes.high
    else:
        whole = region.key.bytes if isinstance(region.key, ir.Symbol) else None
        low, high, exact = 0, whole or (1 << 40), False
    access = Access(
        region, low, high, write, proxy, span, what, agent.cta, threads,
        tuple((s.index, s.now) for s in strands), done, pending, lanes, width, exact, pipeline,
    )  # fmt: skip
    if proxy != "generic" and isinstance(offset, int):
        world.slot_starts.add((region.key, offset))
        if size is None and write:
            # The first byte is certain; the distance between the stages that this place fills tells the rest.
            length = stage_stride(world, region.key, span, offset)
            if length > 1:
                access.hi, access.inferred = low + length, True
    if region.cta != agent.cta:
        remote(world, agent, threads, region.cta, span, done[0] if done else None)
    record(world, access, strands)
    if region in world.memory.overflowed:
        world.note(f"more accesses to `{region.name}` than are kept", span)
    if write:
        world.dirty[region.key] = world.dirty.get(region.key, 0) + 1
    if not exact:
        world.remark(f"the address of a {what} in `{region.name}` is not known: races with it are not looked for", span)
    return access


def record(world: World, access: Access, strands: list[Strand]) -> None:
    """Enter an access into the history and keep the hazards it shows."""
    for hazard in world.memory.access(access, strands):
        if hazard.first.what == hazard.second.what == "tcgen05.dealloc":
            continue
        if len(world.outcome.hazards) < MAX_HAZARDS:
            world.outcome.hazards.append(hazard)


def store(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """An ordinary store."""
    node = instruction.store
    assert node is not None
    if isinstance(node, ir.Store) and (node.atomic or node.volatile):
        return None
    touch(
        world,
        agent,
        threads,
        agent.narrowed(operands["address"]),
        node.bytes,
        instruction.span,
        "ordinary store",
        write=True,
    )
    return None


def read(world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int) -> Wait | None:
    """An ordinary load."""
    node = instruction.store
    assert node is not None
    if node.volatile:
        return None
    touch(
        world,
        agent,
        threads,
        agent.narrowed(operands["address"]),
        node.bytes,
        instruction.span,
        "ordinary load",
        write=False,
    )
    return None


def matrix_load(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """ldmatrix: each lane names a row of 16 bytes."""
    touch(world, agent, threads, operands.get("src", 0), 16, instruction.span, "ldmatrix", write=False)
    return None


def matrix_store(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """stmatrix: each lane names a row of 16 bytes."""
    touch(world, agent, threads, operands.get("dst", 0), 16, instruction.span, "stmatrix", write=True)
    return None


HANDLERS = {"store": store, "read": read, "ldmatrix": matrix_load, "stmatrix": matrix_store}
