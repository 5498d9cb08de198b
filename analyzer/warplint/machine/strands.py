"""Happens-before between threads, compressed: vector clocks over *strands*.

A strand is a set of threads of one CTA that have met the same synchronisation so far. Either it consists of whole warps
or it lies inside one warp; so `__syncwarp` never needs to look inside a strand of several warps. The first strands come
from the role tree; a guard that cuts a strand refines it, and what others knew of the parent holds for its parts.

Each strand counts its releases (`now`). An access made by strand `s` at time `t` is ordered before an access of a
thread
in strand `u` if `u` knows `s` up to `t`. Threads of one strand know each other only up to the last join: the strand's
entry about itself for joins of the whole strand, `warp_joined` for `__syncwarp` and warp collectives.

Completions that are no thread's doing (a phase of an mbarrier, a bulk group) are components of the same clocks, under
keys
that are not strand numbers: knowing `(key, n)` means having observed the first `n` completions.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

from msgspec import Struct, field


class Strand(Struct):
    """One strand: `threads` is a bitset over the threads of CTA `cta` of the cluster."""

    index: int
    cta: int
    threads: int
    parent: int
    """Index of the strand it was cut from, -1 for a first one."""
    now: int = 1
    clock: dict[Hashable, int] = field(default_factory=dict)
    """What every thread of the strand knows. Shared between strands after a barrier: never changed in place."""
    warp_joined: int = 0
    """Accesses up to this time are known to all lanes of the same warp."""
    whole_warps: bool = True
    children: list[int] = field(default_factory=list)
    """Strands it was cut into; it is live while it has none."""
    met: int = 0
    """All lanes of the same warp have executed what they did up to this time (only kept while it is whole warps)."""
    fenced: dict[Hashable, int] = field(default_factory=dict)
    """Its clock at the last tcgen05.fence::after_thread_sync."""


class Strands:
    """All strands of a cluster. Times are per strand and start at 1; 0 means nothing is known."""

    def __init__(self, warp_size: int) -> None:
        self.warp_size = warp_size
        self.all: list[Strand] = []
        self._live: dict[int, list[Strand]] = {}

    # ------------------------------------------------------------------------------------------ partition
    def add_cta(self, cta: int, everyone: int, cuts: Iterable[int]) -> None:
        """Create the strands of a CTA: the coarsest partition of `everyone` that no set of `cuts` divides."""
        parts = [everyone]
        for cut in cuts:
            refined = []
            for part in parts:
                inside, outside = part & cut, part & ~cut
                refined.extend(piece for piece in (inside, outside) if piece)
            parts = refined
        self._live[cta] = [self._make(cta, piece, -1) for part in parts for piece in self._by_warp(part)]

    def _by_warp(self, part: int) -> list[int]:
        """Split a set so that every piece is whole warps or lies in one warp."""
        whole, pieces, rest, base = 0, [], part, 0
        full = (1 << self.warp_size) - 1
        while rest:
            lanes = rest & full
            if lanes == full:
                whole |= full << base
            elif lanes:
                pieces.append(lanes << base)
            rest >>= self.warp_size
            base += self.warp_size
        return ([whole] if whole else []) + pieces

    def _make(self, cta: int, threads: int, parent: int) -> Strand:
        strand = Strand(len(self.all), cta, threads, parent)
        lowest = (threads & -threads).bit_length() - 1
        warp = lowest // self.warp_size * self.warp_size
        full = ((1 << self.warp_size) - 1) << warp
        strand.whole_warps = threads & full == full
        if parent >= 0:
            old = self.all[parent]
            strand.now, strand.clock, strand.warp_joined = old.now, old.clock, old.warp_joined
            strand.fenced, strand.met = old.fenced, old.met
            if not strand.whole_warps and old.whole_warps and (old.met or old.warp_joined):
                # `old` is one warp (`_cut`): what its lanes did before they last joined, each part of it knows.
                strand.clock = {**old.clock, ("exec", parent): old.met}
                if old.warp_joined:
                    strand.clock[parent] = max(old.warp_joined, old.clock.get(parent, 0))
            old.children.append(strand.index)
        self.all.append(strand)
        return strand

    def of(self, cta: int, threads: int) -> list[Strand]:
        """The strands that make up exactly `threads`; strands that the set cuts are refined first."""
        result: list[Strand] = []
        live = self._live[cta]
        cut = False
        for strand in live:
            inside = strand.threads & threads
            if not inside:
                continue
            if inside == strand.threads:
                result.append(strand)
            else:
                cut = True
                break
        if not cut:
            return result
        refined: list[Strand] = []
        for strand in live:
            inside = strand.threads & threads
            if not inside or inside == strand.threads:
                refined.append(strand)
                continue
            refined.extend(self._cut(cta, strand, inside))
        self._live[cta] = refined
        return [strand for strand in refined if strand.threads & threads]

    def parts(self) -> Iterable[tuple[int, list[Strand]]]:
        """The live strands of each CTA."""
        return self._live.items()

    def _cut(self, cta: int, strand: Strand, inside: int) -> list[Strand]:
        """Divide a strand. A warp that is divided becomes a strand of its own first, so that its lanes share its
        past.
        """
        outside = strand.threads & ~inside
        pieces = [(part, strand) for part in (*self._by_warp(inside), *self._by_warp(outside))]
        if strand.whole_warps:
            full, warps = (1 << self.warp_size) - 1, {}
            for part, _ in pieces:
                warp = (part & -part).bit_length() - 1 >> self.warp_size.bit_length() - 1
                lanes = full << warp * self.warp_size & strand.threads
                if part & lanes != lanes and lanes != strand.threads:
                    warps[warp] = warps.get(warp) or self._make(cta, lanes, strand.index)
            pieces = [
                (part, warps.get((part & -part).bit_length() - 1 >> self.warp_size.bit_length() - 1, strand))
                for part, _ in pieces
            ]
        return [self._make(cta, part, owner.index) for part, owner in pieces]

    # ---------------------------------------------------------------------------------------------- order
    def published(self, strands: Iterable[Strand]) -> dict[Hashable, int]:
        """Knowledge that a release by every thread of `strands` hands over; their later accesses are not in it."""
        merged: dict[Hashable, int] = {}
        seen: set[int] = set()
        for strand in strands:
            if id(strand.clock) not in seen:
                seen.add(id(strand.clock))
                raise_to(merged, strand.clock)
            merged[strand.index] = strand.now
            strand.now += 1
        return merged

    def published_by_one(self, strand: Strand) -> dict[Hashable, int]:
        """Knowledge that a release by a *single* thread of the strand hands over.

        Only for a strand of one thread does that include the strand's own accesses up to now; of its fellows it knows
        what the last join told it.
        """
        if strand.threads & (strand.threads - 1) == 0:
            return self.published([strand])
        return dict(strand.clock)

    def acquire(self, strands: Iterable[Strand], knowledge: Mapping[Hashable, int]) -> None:
        """Every thread of `strands` learns `knowledge`."""
        cache: dict[int, dict[Hashable, int]] = {}
        for strand in strands:
            key = id(strand.clock)
            merged = cache.get(key)
            if merged is None:
                merged = dict(strand.clock)
                raise_to(merged, knowledge)
                cache[key] = merged
            strand.clock = merged

    def join(self, strands: list[Strand]) -> None:
        """A barrier among all threads of `strands`: each learns what all of them did before."""
        self.acquire(strands, self.published(strands))

    def join_warps(self, strands: list[Strand]) -> None:
        """`__syncwarp` or a converged warp collective, executed by `strands`: lanes of one warp join, warps do not."""
        by_warp: dict[tuple[int, int], list[Strand]] = {}
        for strand in strands:
            if strand.whole_warps:
                strand.warp_joined = strand.now
                strand.now += 1
            else:
                lowest = (strand.threads & -strand.threads).bit_length() - 1
                by_warp.setdefault((strand.cta, lowest // self.warp_size), []).append(strand)
        for group in by_warp.values():
            self.join(group)

    def meet(self, cta: int, threads: int) -> None:
        """A warp collective: its lanes came here one after the other, though no memory is ordered by it.

        Recorded under keys ("exec", strand), which only say what has been executed.
        """
        by_warp: dict[int, list[Strand]] = {}
        for strand in self.of(cta, threads):
            if strand.whole_warps:
                strand.met = strand.now
                strand.now += 1
            else:
                lowest = (strand.threads & -strand.threads).bit_length() - 1
                by_warp.setdefault(lowest // self.warp_size, []).append(strand)
        for group in by_warp.values():
            merged: dict[Hashable, int] = {}
            for strand in group:
                merged[("exec", strand.index)] = strand.now
                strand.now += 1
            self.acquire(group, merged)

    def executed(self, clock: Mapping[Hashable, int], writer: int, time: int, how: str = "exec") -> bool:
        """`clock` says that all threads of strand `writer` had executed what they did up to `time`.

        `how` is the kind of key that says so besides the strand itself: `exec`, or `relaxed` for what relaxed cluster
        barriers alone have told.
        """
        stack, first = [writer], True
        while stack:
            strand = stack.pop()
            line = self.lineage(strand) if first else (strand,)
            first = False
            if any(clock.get(key, 0) >= time for index in line for key in (index, (how, index))):
                continue
            if not self.all[strand].children:
                return False
            stack.extend(self.all[strand].children)
        return True

    def time_of(self, clock: Mapping[Hashable, int], strand: int) -> int:
        """How far `clock` knows a strand, what was known of the strands it was cut from included."""
        best = 0
        while strand >= 0:
            best = max(best, clock.get(strand, 0))
            strand = self.all[strand].parent
        return best

    def knows(self, reader: Strand, writer: int, time: int, threads: int = -1) -> bool:
        """Every thread of `reader` knows what the threads of strand `writer` (those in `threads`) did up to `time`."""
        return self.covers(reader.clock, writer, time, threads)

    def covers(self, clock: Mapping[Hashable, int], writer: int, time: int, threads: int = -1) -> bool:
        """`clock` includes what the threads of strand `writer` (those in `threads`) did up to `time`.

        Either it knows the strand, or one that the strand was cut from, or all parts it was cut into since.
        """
        if clock.get(writer, 0) >= time or self.time_of(clock, writer) >= time:
            return True
        stack = list(self.all[writer].children)
        if not stack:
            return False
        while stack:
            part = self.all[stack.pop()]
            if not part.threads & threads or clock.get(part.index, 0) >= time:
                continue
            if not part.children:
                return False
            stack.extend(part.children)
        return True

    def same_origin(self, first: int, second: int) -> bool:
        """The two strands are the same, or one was cut from the other."""
        return first in self.lineage(second) or second in self.lineage(first)

    def lineage(self, strand: int) -> tuple[int, ...]:
        """The strand and those it was cut from, nearest first."""
        line = []
        while strand >= 0:
            line.append(strand)
            strand = self.all[strand].parent
        return tuple(line)


def raise_to(target: dict[Hashable, int], source: Mapping[Hashable, int]) -> None:
    """Pointwise maximum, in place."""
    get = target.get
    for key, value in source.items():
        if get(key, 0) < value:
            target[key] = value
