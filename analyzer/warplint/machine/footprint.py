"""What one executed access covers, and which threads of two accesses really meet at one byte."""

from __future__ import annotations

from collections.abc import Hashable
from enum import Enum
from math import gcd
from typing import Literal

from msgspec import Struct, field

from warplint.source import Span

Proxy = Literal["generic", "async", "tensor"]


class Order(Enum):
    """How an earlier access relates to a later one."""

    ORDERED = "ordered"
    UNJOINED = "unjoined"
    """No chain of releases and acquires joins the threads."""
    RELAXED = "relaxed"
    """Only a relaxed cluster barrier joins the threads: what was executed is ordered, memory is not."""
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
    """Joined; a generic read before an asynchronous write has no proxy fence (common practice, worth a note at
    most)."""
    BY_FENCE = "by-fence"
    """Joined; only a fence waits for the earlier access, a load into LDS (AMD), which older compilers leave out."""
    NO_BEFORE_FENCE = "no-before-fence"
    """Joined, but the earlier tensor-memory access has no tcgen05.fence::before_thread_sync before the hand-over."""
    NO_AFTER_FENCE = "no-after-fence"
    """Joined, but the later tensor-memory access has no tcgen05.fence::after_thread_sync after the hand-over."""


class Region(Struct, frozen=True):
    """One piece of memory: a shared variable of one CTA (`name` is the variable), or its tensor memory."""

    cta: int
    name: str
    key: Hashable
    tensor: bool = False


SPARSE = 1 << 18
"""Bytes between the first and the last thread's place from which on cells are counted rather than kept as bitsets."""


class Lanes(Struct, eq=False):
    """Where each thread of an access goes; shared by all accesses that go to the same places."""

    offsets: tuple[tuple[int, int], ...]
    """(thread, first byte)."""
    width: int
    grain: int = 0
    """The largest cell size that divides the width and all offsets."""
    low: int = 0
    high: int = 0
    _cells: dict[int, dict[int, int]] = field(default_factory=dict)
    _bits: dict[int, int] = field(default_factory=dict)
    _met: dict[Lanes, tuple[tuple[int, int], ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        size = self.width or 1
        for _, offset in self.offsets:
            size = gcd(size, offset)
            if size == 1:
                break
        self.grain = size
        self.low = min(offset for _, offset in self.offsets)
        self.high = max(offset for _, offset in self.offsets) + self.width

    def cells(self, size: int) -> dict[int, int]:
        """Touched cells of `size` bytes, each with the set of threads that touch it."""
        found = self._cells.get(size)
        if found is None:
            found = {}
            count = self.width // size
            for thread, offset in self.offsets:
                first = offset // size
                bit = 1 << thread
                for cell in range(first, first + count):
                    found[cell] = found.get(cell, 0) | bit
            self._cells[size] = found
        return found

    def bits(self, size: int) -> int:
        """The touched cells of `size` bytes as a bitset; bit 0 is the cell of `low`, for an address may be large."""
        found = self._bits.get(size)
        if found is None:
            base = self.low // size
            flags = bytearray(((self.high // size - base) >> 3) + 1)
            count = self.width // size
            for _, offset in self.offsets:
                first = offset // size - base
                for cell in range(first, first + count):
                    flags[cell >> 3] |= 1 << (cell & 7)
            found = self._bits[size] = int.from_bytes(flags, "little")
        return found

    def apart(self, other: Lanes) -> bool:
        """No byte is touched by both."""
        if self.low < 0 or other.low < 0 or not self.width or not other.width:
            return False
        if self.high <= other.low or other.high <= self.low:
            return True
        size = gcd(self.grain, other.grain)
        if self.high - self.low > SPARSE or other.high - other.low > SPARSE:
            return self.cells(size).keys().isdisjoint(other.cells(size).keys())
        ahead = other.low // size - self.low // size
        mine, theirs = self._bits.get(size) or self.bits(size), other._bits.get(size) or other.bits(size)
        return not (mine >> ahead) & theirs if ahead >= 0 else not mine & (theirs >> -ahead)

    def meet(self, later: Lanes) -> tuple[tuple[int, int], ...]:
        """Who meets whom, cell by cell: (threads of this access, threads of the later one), each pair once."""
        found = self._met.get(later)
        if found is None:
            size = gcd(self.grain, later.grain)
            first, second = self.cells(size), later.cells(size)
            found = self._met[later] = tuple({(by, second[cell]) for cell, by in first.items() if cell in second})
        return found

    @property
    def disjoint(self) -> bool:
        """No two threads touch one byte."""
        return all(_one(threads) for threads in self.cells(self.grain).values())


class Counted(Struct, eq=False):
    """An access that a wait counter of its wave tracks (AMD): in order with the others of that counter."""

    counter: str
    """`ds` (lgkmcnt, dscnt), `load` (vmcnt, loadcnt), `async` or `tensor`."""
    compiled: bool
    """The compiler knows it: it waits before the same wave uses what it brings (not for inline assembly)."""
    issued: tuple[tuple[int, int], ...]
    """(strand, time) of the issue."""
    over: list[tuple[int, int]] = field(default_factory=list)
    """(strand, time) of the waits that ended it, wave by wave."""
    waits: list[tuple[Span, str]] = field(default_factory=list)
    """Waits its waves executed before the next barrier that did not end it: where, and `weak` (its counter, but too
    many may stay pending), `other` (another counter) or `fence`."""
    barrier: Span | None = None
    """The first barrier its waves executed while it was under way."""
    fence: Span | None = None
    """The fence that ended it, where no explicit wait did and it takes a newer compiler for that."""


class Access(Struct, eq=False):
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
    """(strand, time) of the threads that made it; for one that its threads wait for, of those waits once they are
    over."""
    done: tuple[tuple[Hashable, int], ...] = ()
    """Completions that must be observed before it is over: components of clocks."""
    pending: str = ""
    """Mechanism whose wait by the issuing threads ends it, while that is still to come: `bulk-group`, `cp.async`,
    `wgmma`, `tcgen05.ld`, `tcgen05.st`."""
    lanes: Lanes | None = None
    """Where each thread goes, when addresses are known per thread; else None: the whole interval."""
    width: int = 0
    exact: bool = True
    """The interval is really touched; False when it is only a bound."""
    pipeline: Hashable = None
    """Operations of one pipeline run in the order of issue (tcgen05.mma and cp of one thread)."""
    open: int = 0
    """Threads that still have to wait for it while `pending`."""
    quarters: int = 15
    """Tensor memory: the lane quarters that are touched, as bits."""
    atomic: bool = False
    """An atomic operation: two of them never conflict."""
    inferred: bool = False
    """The length was not in the source: it is what an expect_tx or the writes before it tell."""
    iteration: int = 0
    """How often the issuing agent had executed this site before."""
    counted: Counted | None = None
    """AMD: the wait counter that tracks it. `open` then holds the threads whose waves have not waited for it."""

    @property
    def offsets(self) -> tuple[tuple[int, int], ...] | None:
        """(thread, first byte) for each thread when addresses are known per thread."""
        return None if self.lanes is None else self.lanes.offsets

    @property
    def tensor(self) -> bool:
        """It is an access to tensor memory."""
        return self.region.tensor

    @property
    def fenceable(self) -> bool:
        """It is a tcgen05 operation that the tcgen05 thread-sync fences are about."""
        return self.what != "tcgen05.dealloc"


class Touch(Struct, frozen=True):
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
    mine, theirs = old.lanes, new.lanes
    if mine is None and theirs is None:
        own = same_cta and old.threads == new.threads and _one(old.threads)
        return Touch(old.threads, new.threads, own, same_cta and _same_warp(old.threads | new.threads, warp_size))
    if mine is not None and theirs is not None:
        if mine is theirs and same_cta and mine.disjoint:
            return Touch(old.threads, new.threads, True, True)
        pairs = mine.meet(theirs)
    elif mine is not None:
        pairs = {(1 << t, new.threads) for t, at in mine.offsets if at < new.hi and new.lo < at + mine.width}
    else:
        assert theirs is not None
        pairs = {(old.threads, 1 << t) for t, at in theirs.offsets if at < old.hi and old.lo < at + theirs.width}
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


def meetings(old: Access, new: Access) -> tuple[tuple[int, int], ...] | None:
    """Who meets whom, cell by cell: (threads of the earlier access, threads of the later one), each pair once.

    None where one of the accesses is not per thread: then everybody meets everybody.
    """
    mine, theirs = old.lanes, new.lanes
    if mine is None or theirs is None:
        return None
    return mine.meet(theirs)
