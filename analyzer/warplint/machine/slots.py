"""Slots of memory: how far an access of unknown length goes, and what reads what a copy filled.

A slot is a place where copies or matrix operands start; it ends at latest where the next one starts.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Hashable
from itertools import pairwise
from typing import TYPE_CHECKING

from warplint.machine import values as v
from warplint.machine.footprint import Region
from warplint.program import ir
from warplint.source import Span

if TYPE_CHECKING:
    from warplint.machine.agent import Agent
    from warplint.machine.strands import Strand
    from warplint.machine.world import World


def written_run(world: World, agent: Agent, place: v.Place) -> int | None:
    """Bytes from `place` on that ordinary stores have written without a gap, up to the next slot; None when none.

    That is what a store of unknown box reads: nothing else would read what was written there.
    """
    base, start = place.base, place.offset
    if not isinstance(base, ir.Symbol) or not isinstance(start, int) or isinstance(place.cta, tuple):
        return None
    key = (base, start)
    world.slot_starts.add(key)
    length = world.slots.get(key)
    if length is None:
        cta = agent.cta if place.cta is None else place.cta
        pieces: list[tuple[int, int]] = []
        for access in world.memory.history.get(Region(cta, base.name, base), ()):
            if access.write and access.proxy == "generic" and access.exact and access.hi > start:
                if access.offsets is None:
                    pieces.append((access.lo, access.hi))
                else:
                    pieces.extend((at, at + access.width) for _, at in access.offsets)
        end = start
        for low, high in sorted(pieces):
            if low > end:
                break
            end = max(end, high)
        length = world.slots[key] = end - start
    after = [at for other, at in world.slot_starts if other is base and at > start]
    if after:
        length = min(length, min(after) - start)
    return length or None


def stage_stride(world: World, key: Hashable, span: Span, start: int) -> int:
    """Bytes that a copy of unknown box fills: the least distance between the stages that one site fills.

    0 while it has filled only one. It never reaches beyond the next place where another access starts.
    """
    starts = world.site_starts.setdefault((key, span), [])
    if start not in starts:
        insort(starts, start)
    if len(starts) < 2:
        return 0
    length = min(after - before for before, after in pairwise(starts))
    # What lies between the stages lies at the same distance from each.
    following = sorted(at for other, at in world.slot_starts if other is key)
    for at in starts:
        index = bisect_right(following, at)
        if index < len(following):
            length = min(length, following[index] - at)
    return length


def consume(world: World, cta: int, place: v.Place, size: int, by: list[Strand]) -> None:
    """An MMA of `by` reads `size` bytes starting at `place`: they belong to the copy that filled this slot last.

    Readers that have not waited for just that filling may read another one, or none: nothing is counted then.
    """
    base, start = place.base, place.offset
    if not isinstance(base, ir.Symbol) or not isinstance(start, int):
        return
    best = None
    stored = -1
    for access in world.memory.history.get(Region(cta, base.name, base), ()):
        if access.write and access.proxy == "async" and access.lo <= start and access.done:
            if best is None or access.lo >= best.lo:
                best = access
        elif access.write and access.proxy == "generic" and access.exact and access.lo <= start < access.hi:
            stored = max(stored, access.lo)  # ordinary stores fill it, between what copies fill
    waited = best is not None and all(strand.clock.get(key, 0) == value for strand in by for key, value in best.done)
    if best is not None and waited and stored <= best.lo:
        _, starts = world.fills.setdefault(id(best), (best, {}))
        starts[start] = size


def tensor_written(world: World, cta: int, column: int, name: str) -> bool:
    """Something has written a column of tensor memory."""
    history = world.memory.history.get(Region(cta, name, "tmem", True), ())
    return any(a.write and a.lo <= column < a.hi and a.what != "tcgen05.dealloc" for a in history)


def remote(
    world: World, agent: Agent, threads: int, target: int, span: Span, done: tuple[Hashable, int] | None
) -> None:
    """The threads touch the shared memory of another CTA, which must not have exited until then."""
    if target == agent.cta or target not in world.live:
        return
    times = tuple((s.index, s.now) for s in world.strands_of(agent, threads))
    world.remote[(span, target, done is not None)] = (world.party(agent, threads), target, times, done, span)
