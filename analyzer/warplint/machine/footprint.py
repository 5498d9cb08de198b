"""What one executed access covers, and which threads of two accesses really meet at one byte."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import Enum
from math import gcd
from typing import Literal

from warplint.source import Span

Proxy = Literal["generic", "async", "tensor"]


class Order(Enum):
    """How an earlier access relates to a later one."""

    ORDERED = "ordered"
    UNJOINED = "unjoined"
    """No chain of releases and acquires joins the threads."""
    SAME_WARP = "same-warp"
    """The only threads that are not joined are lanes of one warp."""
    INCOMPLETE = "incomplete"
    """The earlier access is asynchronous and its completion has not been observed (`Access.pending` names by what)."""
    NO_FENCE = "no-fence"
    """Joined, but the writer has no proxy fence after its access."""
    LATE_FENCE = "late-fence"
    """Joined, and the writer's proxy fence stands after the hand-over."""
    ISSUER_FENCE = "issuer-fence"
    """Joined, and only the issuing thread has a proxy fence, after the hand-over."""
    READ_NO_FENCE = "read-no-fence"
    """Joined; a generic read before an asynchronous write has no proxy fence (common practice, worth a note at most)."""
    NO_BEFORE_FENCE = "no-before-fence"
    """Joined, but the earlier tensor-memory access has no tcgen05.fence::before_thread_sync before the hand-over."""
    NO_AFTER_FENCE = "no-after-fence"
    """Joined, but the later tensor-memory access has no tcgen05.fence::after_thread_sync after the hand-over."""


@dataclass(frozen=True, slots=True)
class Region:
    """One piece of memory: a shared variable of one CTA (`name` is the variable), or a lane quarter of its tensor memory."""

    cta: int
    name: str
    key: Hashable
    tensor: bool = False


@dataclass(slots=True, eq=False)
class Access:
    """One executed access. `lo..hi` bounds its bytes (columns for tensor memory), end exclusive."""

    region: Region
    lo: int
    hi: int
    write: bool
    proxy: Proxy
    span: Span
    what: str
    """The operation in words: "TMA load", "ordinary store"."""
    cta: int
    """The CTA whose threads issued it."""
    threads: int
    strands: tuple[tuple[int, int], ...]
    """(strand, time) of the threads that made it; for one that its threads wait for, of those waits once they are over."""
    done: tuple[tuple[Hashable, int], ...] = ()
    """Completions that must be observed before it is over: components of clocks."""
    pending: str = ""
    """Mechanism whose wait by the issuing threads ends it, while that is still to come: `bulk-group`, `cp.async`,
    `wgmma`, `tcgen05.ld`, `tcgen05.st`."""
    offsets: tuple[tuple[int, int], ...] | None = None
    """(thread, first byte) for each thread when addresses are known per thread, else None: the whole interval."""
    width: int = 0
    exact: bool = True
    """The interval is really touched; False when it is only a bound."""
    pipeline: Hashable = None
    """Operations of one pipeline run in the order of issue (tcgen05.mma and cp of one thread)."""
    open: int = 0
    """Threads that still have to wait for it while `pending`."""
    inferred: bool = False
    """The length was not in the source: it is what an expect_tx or the writes before it tell."""
    iteration: int = 0
    """How often the issuing agent had executed this site before."""
    _cells: dict[int, dict[int, int]] = field(default_factory=dict)
    _grain: int = 0

    @property
    def grain(self) -> int:
        """The largest cell size that divides the width and all offsets."""
        if not self._grain:
            size = self.width or 1
            for _, offset in self.offsets or ():
                size = gcd(size, offset)
                if size == 1:
                    break
            self._grain = size
        return self._grain

    @property
    def tensor(self) -> bool:
        """It is an access to tensor memory."""
        return self.region.tensor

    @property
    def fenceable(self) -> bool:
        """It is a tcgen05 operation that the tcgen05 thread-sync fences are about."""
        return self.what != "tcgen05.dealloc"

    def cells(self, size: int) -> dict[int, int]:
        """Touched cells of `size` bytes, each with the set of threads that touch it (per-thread accesses only)."""
        found = self._cells.get(size)
        if found is None:
            found = {}
            count = self.width // size
            for thread, offset in self.offsets or ():
                first = offset // size
                for cell in range(first, first + count):
                    found[cell] = found.get(cell, 0) | (1 << thread)
            self._cells[size] = found
        return found


@dataclass(frozen=True, slots=True)
class Touch:
    """Which threads of two accesses meet."""

    earlier: int
    later: int
    own: bool
    """Each common byte is touched by one and the same thread in both."""
    one_warp: bool
    """All threads that meet lie in one warp, cell by cell."""


def _one(threads: int) -> bool:
    return threads & (threads - 1) == 0


def _same_warp(threads: int, size: int) -> bool:
    low = (threads & -threads).bit_length() - 1
    return low // size == (threads.bit_length() - 1) // size


def touches(old: Access, new: Access, warp_size: int) -> Touch | None:
    """The threads of two accesses with overlapping bounds that touch a common byte; None when none do."""
    same_cta = old.cta == new.cta
    if old.offsets is None and new.offsets is None:
        own = same_cta and old.threads == new.threads and _one(old.threads)
        return Touch(old.threads, new.threads, own, same_cta and _same_warp(old.threads | new.threads, warp_size))
    if old.offsets is not None and new.offsets is not None:
        if old.offsets is new.offsets and old.width == new.width and same_cta and _disjoint(old):
            return Touch(old.threads, new.threads, True, True)
        size = gcd(old.grain, new.grain)
        mine, theirs = old.cells(size), new.cells(size)
        common = mine.keys() & theirs.keys()
        pairs = [(mine[cell], theirs[cell]) for cell in common]
    elif old.offsets is not None:
        pairs = [(1 << t, new.threads) for t, at in old.offsets if at < new.hi and new.lo < at + old.width]
    else:
        assert new.offsets is not None
        pairs = [(old.threads, 1 << t) for t, at in new.offsets if at < old.hi and old.lo < at + new.width]
    if not pairs:
        return None
    earlier = later = 0
    own = one_warp = same_cta
    for first, second in pairs:
        earlier |= first
        later |= second
        if own and (first != second or not _one(first)):
            own = False
        if one_warp and not own and not _same_warp(first | second, warp_size):
            one_warp = False
    return Touch(earlier, later, own, one_warp)


def _disjoint(access: Access) -> bool:
    """No two threads of the access touch one byte."""
    return all(_one(threads) for threads in access.cells(access.grain).values())
