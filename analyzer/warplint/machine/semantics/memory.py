"""Ordinary accesses to shared memory, and how every kind of access is recorded."""

from __future__ import annotations

from collections.abc import Hashable

from warplint.machine import values as v
from warplint.machine.agent import Agent, Wait
from warplint.machine.barriers import label_of
from warplint.machine.compile import Instruction
from warplint.machine.footprint import Access, Counted, Lanes, Order, Proxy, Region
from warplint.machine.memory import Hazard
from warplint.machine.outcome import Extent, Fault, Party
from warplint.machine.slicing import LOOKS, ORDINARY, STORES
from warplint.machine.slots import remote, stage_stride
from warplint.machine.strands import Strand
from warplint.machine.values import Value
from warplint.machine.world import World
from warplint.program import ir
from warplint.source import Span
from warplint.threads.facts import Uniformity

MAX_HAZARDS = 400
VOLATILE = ("volatile load", "volatile store")
"""Where no loop waits for a word that is accessed so, nothing but a barrier orders it, as for any other access."""
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
    data: tuple[Value, ...] = (),
    atomic: bool = False,
    inferred: bool = False,
) -> Access | None:
    """Record an access to shared memory, and the hazards it shows. None when the address is not shared or unknown.

    An unknown length counts as the first byte only: that one is certainly touched. `data` is what a write stores, in
    elements of equal size, where that is followed. `inferred`: the length is not in the source.
    """
    if not isinstance(place, v.Place):
        return None
    if isinstance(place.cta, tuple):
        made = None
        for rank, by in (_by_rank(world, agent, place.cta, threads) or {}).items():
            one = agent.narrowed(v.Place(place.base, place.offset, rank))
            made = touch(world, agent, by, one, size, span, what, write=write, proxy=proxy, done=done, pending=pending,
                         pipeline=pipeline, counted=counted, data=data, atomic=atomic, inferred=inferred)  # fmt: skip
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
        tuple([(s.index, s.now) for s in strands]), done, pending, lanes, width, exact, pipeline, atomic=atomic,
        inferred=inferred,
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
    if exact and size and not access.inferred and not world.doubtful:
        _reach(world, region.key, access)
    if region in world.memory.overflowed:
        world.note(f"more accesses to `{region.name}` than are kept", span)
    if write:
        world.words.forget(region, access)
        if data and size and isinstance(offset, int | tuple):
            members = [thread for thread in agent.members if threads >> thread & 1]
            world.words.store(region, access, offset, data, size // len(data), members)
        world.dirty[region.key] = world.dirty.get(region.key, 0) + 1
    if not exact:
        world.remark(f"the address of a {what} in `{region.name}` is not known: races with it are not looked for", span)
    return access


def _reach(world: World, key: Hashable, access: Access) -> None:
    """Keep how far the accesses to a variable go."""
    known = world.outcome.extents.get(key)
    if known is None:
        world.outcome.extents[key] = Extent(access.lo, access, access.hi, access)
        return
    if access.lo < known.low:
        known.low, known.lowest = access.lo, access
    if access.hi > known.high:
        known.high, known.highest = access.hi, access


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
        if hazard.order is Order.SAME_WARP and hazard.first.what in VOLATILE and hazard.second.what in VOLATILE:
            continue  # lanes in lockstep, as code for older GPUs is written
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
        lanes = other.lanes
        if one.inferred and lanes is not None and one.lo // lanes.grain not in lanes.cells(lanes.grain):
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
        place = agent.narrowed(operands["address"])
        if node.atomic:
            agent.results[(node, "value")] = _ticket(world, agent, place, threads, id(node))
        _forget(world, agent, place, node.bytes)
        if node.atomic and isinstance(place, v.Place) and region_of(world, agent, place) is not None:
            world.tallied.add(place.base)
        what = "atomic operation" if node.atomic else VOLATILE[1]
        strong = node.atomic or world.polls is not None
        touch(world, agent, threads, place, node.bytes, instruction.span, what, write=True, atomic=strong)
        if not node.atomic and world.polls is not None:
            world.polls.store(agent, place, _data(operands), node.bytes, threads, instruction.span, False)
        return None
    data = _data(operands)
    if world.polls is not None:
        place = agent.narrowed(operands["address"])
        world.polls.store(agent, place, data, node.bytes, threads, instruction.span, False)
    _ordinary(world, agent, instruction, operands, threads, "ordinary store", node.bytes, data)
    return None


def _data(operands: dict[str, Value]) -> tuple[Value, ...]:
    """What a store writes, element by element."""
    return tuple(value for role, value in operands.items() if role != "address")


def _forget(world: World, agent: Agent, place: Value, size: int | None) -> None:
    """Words that an atomic or volatile write reaches hold something else from now on."""
    region = region_of(world, agent, place) if isinstance(place, v.Place) else None
    if region is not None and isinstance(place, v.Place):
        world.words.forget_bytes(region, place.offset if isinstance(place.offset, int) else None, size)


def _ticket(world: World, agent: Agent, place: Value, threads: int, site: int) -> Value:
    """What an atomic addition to a word of global memory finds: a counter that everybody draws from, if one thread
    draws at a time.
    """
    if threads & (threads - 1) or not isinstance(place, v.Place) or region_of(world, agent, place) is not None:
        return v.Unknown(("fetched", site, agent.number, agent.steps), Uniformity.LANE)
    key = (id(place.base), v.key_of(place.offset))
    number, own = world.tickets.get(key, 0), world.tickets.get((*key, agent.cta), 0)
    world.tickets[key], world.tickets[(*key, agent.cta)] = number + 1, own + 1
    return world.choose(("ticket", *key, own, number))


def _ordinary(
    world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int, what: str,
    size: int | None, data: tuple[Value, ...] = (),
) -> None:  # fmt: skip
    """An access of the program's own text; where wait counters matter (AMD) it is under way from then on."""
    write = what == "ordinary store"
    if not world.counting:
        touch(world, agent, threads, agent.narrowed(operands["address"]), size, instruction.span, what, write=write,
              data=data)  # fmt: skip
        return
    from warplint.machine.semantics import amd_counters

    counted = amd_counters.tracked(world, agent, threads, "ds", True)
    access = touch(world, agent, threads, agent.narrowed(operands["address"]), size, instruction.span, what,
                   write=write, counted=counted, data=data)  # fmt: skip
    if access is not None:
        amd_counters.lds(world, agent, access, threads, instruction.key)


def read(world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int) -> Wait | None:
    """An ordinary load."""
    node = instruction.store
    assert node is not None
    if node.volatile:
        strong = world.polls is not None
        place = agent.narrowed(operands["address"])
        touch(world, agent, threads, place, node.bytes, instruction.span, VOLATILE[0], write=False, atomic=strong)
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
    if op.name == "atom":
        counts = op.mods.get("reduce") in ("add", "inc")
        result = _ticket(world, agent, place if counts and place is not None else 0, threads, id(op))
        agent.results[(op, "value")] = result
    if not isinstance(place, v.Place) or region_of(world, agent, place) is None:
        return None
    size = operands.get("bytes")
    if write and op.name != "st":
        _forget(world, agent, place, size if isinstance(size, int) else None)
    plain = op.name in ("ld", "st")
    if world.polls is not None and isinstance(size, int):
        _strong(world, agent, instruction, agent.narrowed(place), operands, threads, size)
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
            if op.name.startswith(("atom", "red")) and world.polls is None and isinstance(size, int):
                touch(world, agent, by, agent.narrowed(v.Place(place.base, place.offset, rank)), size,
                      instruction.span, "atomic operation", write=True, atomic=True)  # fmt: skip
            continue
        what = f"{'remote' if far else 'ordinary'} {'store' if write else 'load'}"
        touch(world, agent, by, agent.narrowed(v.Place(place.base, place.offset, rank)),
              size if isinstance(size, int) else None, instruction.span, what, write=write)  # fmt: skip
    return None


def _strong(
    world: World, agent: Agent, instruction: Instruction, place: Value, operands: dict[str, Value], threads: int,
    size: int,
) -> None:  # fmt: skip
    """Where loops wait for words of shared memory: what loads and stores of assembly do to these words, and that strong
    accesses conflict with ordinary ones.
    """
    op, polls = instruction.op, world.polls
    assert op is not None and polls is not None
    if op.name in STORES:
        value = operands.get("value")
        data = () if value is None else (value,)
        polls.store(agent, place, data, size, threads, instruction.span, op.name == "st.release")
    elif op.name in LOOKS:
        seen = polls.read(agent, place, instruction.span, op.name == "ld.acquire")
        if seen is not None:
            agent.results[(op, "value")] = seen
    if op.name not in ("ld", "st") and isinstance(place, v.Place) and place.cta is None and "cta" not in operands:
        write = not op.name.startswith("ld")
        what = f"`{op.name}`" if op.name.startswith(("ld", "st")) else "atomic operation"
        touch(world, agent, threads, place, size, instruction.span, what, write=write, atomic=True)


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
