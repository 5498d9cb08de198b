"""Ordinary accesses to shared memory, and how every kind of access is recorded."""

from __future__ import annotations

from collections.abc import Hashable

from warplint.machine import values as v
from warplint.machine.agent import Agent, Wait
from warplint.machine.barriers import label_of
from warplint.machine.compile import Instruction
from warplint.machine.footprint import Access, Counted, Lanes, Proxy, Region
from warplint.machine.memory import Hazard
from warplint.machine.outcome import Fault, Party
from warplint.machine.slicing import ORDINARY
from warplint.machine.slots import remote, stage_stride
from warplint.machine.strands import Strand
from warplint.machine.values import Value
from warplint.machine.world import World
from warplint.program import ir
from warplint.source import Span

MAX_HAZARDS = 400
WORD = 8
"""Bytes of an mbarrier object (PTX ISA, mbarrier: .b64)."""


def region_of(world: World, agent: Agent, place: v.Place) -> Region | None:
    """The region an address lies in; None for memory that is not shared."""
    base = place.base
    if not isinstance(base, ir.Symbol) or base.kind not in ("shared", "dynamic_shared"):
        return None
    cta = agent.cta if place.cta is None or isinstance(place.cta, tuple) else place.cta
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
    counted: Counted | None = None,
) -> Access | None:
    """Record an access to shared memory, and the hazards it shows. None when the address is not shared or unknown.

    An unknown length counts as the first byte only: that one is certainly touched.
    """
    if not isinstance(place, v.Place):
        return None
    if isinstance(place.cta, tuple):
        made = None
        for rank, by in (_by_rank(world, agent, place.cta, threads) or {}).items():
            one = agent.narrowed(v.Place(place.base, place.offset, rank))
            made = touch(world, agent, by, one, size, span, what, write=write, proxy=proxy, done=done, pending=pending,
                         pipeline=pipeline, counted=counted)  # fmt: skip
        return made
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
    if counted is not None:
        access.counted, access.open = counted, threads
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
    if world.observer is not None:
        world.observer.touched(access)
    words = world.barrier_words.get((access.region.cta, access.region.key))
    if words and access.exact and not access.inferred and not access.tensor and access.what != "mbarrier.init":
        _over_barriers(world, access, words)
    for hazard in world.memory.access(access, strands):
        if hazard.first.what == hazard.second.what == "tcgen05.dealloc" or not _certain(hazard):
            continue
        if len(world.outcome.hazards) < MAX_HAZARDS:
            world.outcome.hazards.append(hazard)


def _certain(hazard: Hazard) -> bool:
    """The two accesses share bytes whatever the length of a copy is that the source does not give.

    The first byte of such a copy is certain. Its inferred end is only as good as the layout that it was inferred from.
    """
    first, second = hazard.first, hazard.second
    if first.inferred and second.inferred:
        return first.lo == second.lo
    for one, other in ((first, second), (second, first)):
        if one.inferred and not other.lo <= one.lo < other.hi:
            return False
    return True


def _over_barriers(world: World, access: Access, words: dict[int, Span]) -> None:
    """An access to the bytes of an mbarrier that is still valid (PTX ISA, mbarrier.inval: invalidate it first)."""
    for offset, span in words.items():
        if not (access.lo < offset + WORD and offset < access.hi):
            continue
        if access.offsets is not None and not any(
            offset - access.width < at < offset + WORD for _, at in access.offsets
        ):
            continue
        if not any(f.kind == "barrier-storage" and f.span == access.span for f in world.outcome.faults):
            name = label_of((access.region.cta, access.region.key, offset))
            who = Party(access.cta, access.threads)
            world.outcome.faults.append(Fault("barrier-storage", who, access.span, name, span))
        return


def store(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """An ordinary store."""
    node = instruction.store
    assert node is not None
    if isinstance(node, ir.Store) and (node.atomic or node.volatile):
        return None
    _ordinary(world, agent, instruction, operands, threads, "ordinary store", node.bytes)
    return None


def _ordinary(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int, what: str,
    size: int | None,
) -> None:  # fmt: skip
    """An access of the program's own text; where wait counters matter (AMD) it is under way from then on."""
    write = what == "ordinary store"
    if not world.counting:
        touch(world, agent, threads, agent.narrowed(operands["address"]), size, instruction.span, what, write=write)
        return
    from warplint.machine.semantics import amd_counters

    counted = amd_counters.tracked(world, agent, threads, "ds", True)
    access = touch(world, agent, threads, agent.narrowed(operands["address"]), size, instruction.span, what,
                   write=write, counted=counted)  # fmt: skip
    if access is not None:
        amd_counters.lds(world, agent, access, threads, instruction.key)


def read(world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int) -> Wait | None:
    """An ordinary load."""
    node = instruction.store
    assert node is not None
    if node.volatile:
        return None
    _ordinary(world, agent, instruction, operands, threads, "ordinary load", node.bytes)
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


def by_operation(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
) -> Wait | None:
    """ld, st, atom and red as operations: those on the shared memory of a CTA that is named by its rank.

    Atomic and synchronising forms are only looked at for whether the CTA is still there.
    """
    op = instruction.op
    assert op is not None
    write = not op.name.startswith("ld")
    place = operands.get("dst" if write else "src")
    if not isinstance(place, v.Place) or region_of(world, agent, place) is None:
        return None
    size = operands.get("bytes")
    plain = op.name in ("ld", "st")
    ranks = _by_rank(world, agent, operands.get("cta", place.cta), threads)
    if ranks is None:
        world.remark(f"which CTA's shared memory `{op.spelling}` reaches is not known: it is not looked at",
                     instruction.span)  # fmt: skip
        return None
    for rank, by in ranks.items():
        if rank not in world.live:
            world.note(f"a CTA beyond the {world.scenario.ctas} of the assumed cluster is named", instruction.span)
            continue
        far = rank != agent.cta
        if not plain:
            if far:
                remote(world, agent, by, rank, instruction.span, None)
            continue
        what = f"{'remote' if far else 'ordinary'} {'store' if write else 'load'}"
        touch(world, agent, by, agent.narrowed(v.Place(place.base, place.offset, rank)),
              size if isinstance(size, int) else None, instruction.span, what, write=write)  # fmt: skip
    return None


def _by_rank(world: World, agent: Agent, rank: Value | None, threads: int) -> dict[int, int] | None:
    """The threads by the CTA rank that each of them names (the own CTA without one); None when it is not known."""
    if rank is None:
        return {agent.cta: threads}
    if rank == v.LEADER:
        return {agent.cta & ~1: threads}
    if isinstance(rank, int):
        return {rank: threads}
    if not isinstance(rank, tuple):
        return None
    found: dict[int, int] = {}
    for thread in agent.members:
        if threads >> thread & 1:
            found[rank[thread]] = found.get(rank[thread], 0) | 1 << thread
    return found


HANDLERS = {"store": store, "read": read, "ldmatrix": matrix_load, "stmatrix": matrix_store,
            **dict.fromkeys(sorted(ORDINARY), by_operation)}  # fmt: skip
