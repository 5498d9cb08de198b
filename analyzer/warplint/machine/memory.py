"""Accesses to shared and tensor memory, and what orders them.

Every access is recorded with the strands and times of the threads that made it, or with the completion that must be
observed
before it is over. A later conflicting access that does not know the earlier one is a hazard; `Order` says by how much
it
misses: nothing joins the threads, or only a fence is missing, or the completion was never waited for.

Sources: PTX ISA 8.8-8.9 (memory model), 9.7.9.25 (async proxy), 9.7.13.4 (proxy fences), 9.7.16.6 (tcgen05 ordering).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable

from msgspec import Struct, field

from warplint.machine.footprint import Access, Counted, Order, Proxy, Region, Touch, meetings, touches
from warplint.machine.past import Past
from warplint.machine.strands import Strand, Strands

__all__ = ["Access", "Hazard", "Memory", "Order", "Proxy", "Region"]

MAX_HISTORY = 1_500
"""Accesses kept per region; a region with more is incomplete, not unchecked."""
FEW = 4
"""Strands up to which each is looked at for each meeting of two accesses."""
MAX_SCATTERED = 2_000
"""The same for AMD, where fragments are read from LDS element by element."""


class Hazard(Struct, frozen=True):
    """Two conflicting accesses and what is missing between them."""

    first: Access
    second: Access
    order: Order


class FenceLog(Struct):
    """Fences of one kind by one strand, oldest first: when, and what the strand knew then."""

    times: list[int] = field(default_factory=list)
    clocks: list[dict[Hashable, int]] = field(default_factory=list)


class Memory:
    """All recorded accesses of a cluster."""

    def __init__(self, strands: Strands, lockstep: bool = False) -> None:
        self.strands = strands
        self.lockstep = lockstep
        """Lanes of one warp are never out of step (waves of AMD)."""
        self.proxy_fences: dict[int, FenceLog] = {}
        self.before_fences: dict[int, FenceLog] = {}
        self.history: dict[Region, Past] = {}
        self.overflowed: set[Region] = set()
        self.work = 0
        """Comparisons made, for the budget."""
        self._reported: set[Hashable] = set()
        self._settled: set[Hashable] = set()
        """Pairs of places of which the worst is known."""

    def said(self) -> tuple[int, int]:
        """How many pairs of places have been reported, and are settled."""
        return len(self._reported), len(self._settled)

    # ---------------------------------------------------------------------------------------------- fences
    def fence(self, strands: list[Strand]) -> None:
        """`fence.proxy.async` by every thread of `strands`: each orders its own accesses so far."""
        self._log(self.proxy_fences, strands)

    def before_thread_sync(self, strands: list[Strand]) -> None:
        """`tcgen05.fence::before_thread_sync`: own tensor accesses so far are ordered before what follows."""
        self._log(self.before_fences, strands)

    def after_thread_sync(self, strands: list[Strand]) -> None:
        """`tcgen05.fence::after_thread_sync`: tensor accesses that follow are ordered after what is known now."""
        for strand in strands:
            strand.fenced = strand.clock

    def _log(self, logs: dict[int, FenceLog], strands: list[Strand]) -> None:
        for strand in strands:
            log = logs.setdefault(strand.index, FenceLog())
            log.times.append(strand.now)
            log.clocks.append(strand.clock)
            strand.now += 1

    # --------------------------------------------------------------------------------------------- accesses
    def access(self, new: Access, by: list[Strand]) -> list[Hazard]:
        """Record an access made by the threads of `by`; returns the hazards with earlier ones not yet reported."""
        if not new.exact:
            return []  # nothing is said of it, whatever comes later
        past = self.history.get(new.region)
        if past is None:
            past = self.history[new.region] = Past(new.region.tensor)
        hazards: list[Hazard] = []
        atomic, quarters = new.atomic, new.quarters
        self.work += 1
        for interval in past.near(new.lo, new.hi):
            accesses = interval.accesses
            self.work += len(accesses) >> 3 if self.lockstep else len(accesses)
            gone = [
                index
                for index, old in enumerate(accesses)
                if old.quarters & quarters and not (atomic and old.atomic) and self._replaces(new, old, by, hazards)
            ]  # fmt: skip
            if gone:
                past.count -= len(gone)
                for index in reversed(gone):
                    del accesses[index]
        past.add(new)
        if past.count > (MAX_SCATTERED if self.lockstep else MAX_HISTORY):
            self.overflowed.add(new.region)
            past.forget(MAX_HISTORY // 4)
        return hazards

    def _replaces(self, new: Access, old: Access, by: list[Strand], hazards: list[Hazard]) -> bool:
        """Compare two accesses with overlapping bounds. True when the older need not be kept any longer."""
        write = new.write
        mine, theirs = old.lanes, new.lanes
        if theirs is not None and mine is not theirs and not (write or old.write):
            return False  # two reads, each at places of its own
        if mine is not theirs and mine is not None and theirs is not None and mine.apart(theirs):
            return False
        if new.lanes is None:
            # All bytes of the interval are touched: what lies inside it is covered, whoever touched it.
            same = (
                new.lo <= old.lo
                and old.hi <= new.hi
                and not old.quarters & ~new.quarters
                and (old.lanes is None or not new.inferred)
            )
        else:
            same = old.lanes is new.lanes and old.quarters == new.quarters and old.lo == new.lo and old.hi == new.hi
        if same and old.pending and old.pending == new.pending and old.threads == new.threads and old.write == write:
            # The same again before anybody waited: what conflicts with the older conflicts with the newer.
            return True
        if not (old.write or write):
            # Two reads of the same bytes: the older can go once everybody who may write knows the newer one.
            if not same or not new.exact:
                return False
            return old.strands == new.strands or self.order(old, new, by, ALL) is Order.ORDERED
        places = (old.span, new.span, old.write, write, old.cta == new.cta)
        if places in self._settled and (not same or (old.pending and old.open)):
            return False
        self.work += 4
        order = self.order(old, new, by, ALL)
        if order is not Order.ORDERED:
            touch = touches(old, new, self.strands.warp_size)
            self.work += 8 + (new.threads.bit_count() >> 4)
            if touch is None:
                return False
            order = self.order(old, new, by, touch)
        if order is not Order.ORDERED and old.exact and new.exact:
            mark = (*places, order)
            if order in (Order.UNJOINED, Order.INCOMPLETE):
                self._settled.add(places)
            if mark not in self._reported:
                self._reported.add(mark)
                hazards.append(Hazard(old, new, order))
        # Joined before an access of the same bytes that conflicts with all that it conflicts with.
        return order in JOINED and same and new.exact and (write or not old.write)

    # ---------------------------------------------------------------------------------------------- order
    def order(self, old: Access, new: Access, by: list[Strand], touch: Touch) -> Order:
        """How `old` relates to `new`, which the threads of `by` make now. `touch` says which threads meet."""
        if old.pipeline is not None and old.pipeline == new.pipeline:
            return Order.ORDERED
        if old.counted is not None:
            return self._counted(old, old.counted, new, by, touch)
        if old.pending:
            # Threads whose part is over need not have waited for the others.
            if touch.earlier & old.open:
                return Order.INCOMPLETE
        if old.done:
            by = [strand for strand in by if strand.threads & touch.later]
            for key, value in old.done:
                for strand in by:
                    if strand.clock.get(key, 0) < value:
                        return Order.INCOMPLETE
            if new.tensor and old.tensor and new.fenceable:
                for key, value in old.done:
                    if any(strand.fenced.get(key, 0) < value for strand in by):
                        return Order.NO_AFTER_FENCE
            return Order.ORDERED
        if touch.own:
            # Program order does not reach across proxies: a thread fences its own writes before its own copy, too.
            crossing = old.write and old.proxy == "generic" and new.proxy == "async" and not old.tensor
            return self._fenced(old, new, by, touch) if crossing and old.what != "mbarrier.init" else Order.ORDERED
        worst = self._joined(old.strands, old, new, by, touch)
        if worst is not Order.ORDERED:
            return worst
        if old.tensor and new.tensor and new.fenceable:
            return self._tensor_fences(old, by, touch)
        if old.proxy != new.proxy and not old.tensor and old.what != "mbarrier.init":
            if old.write and old.proxy == "generic":
                return self._fenced(old, new, by, touch)
            if old.proxy == "generic" and self._fenced(old, new, by, touch) is not Order.ORDERED:
                return Order.READ_NO_FENCE
        return Order.ORDERED

    def _counted(self, old: Access, counted: Counted, new: Access, by: list[Strand], touch: Touch) -> Order:
        """An access that a wait counter tracks: joined after its issue, and waited for before that join.

        One wave executes its LDS operations in order, and the loads of one counter land in order.
        """
        under_way = bool(old.open & touch.earlier)
        if touch.own or touch.one_warp:
            mine = counted.counter == "ds" or not old.write or counted.compiled
            same = new.counted is not None and new.counted.counter == counted.counter
            return Order.ORDERED if mine or same or not under_way else Order.INCOMPLETE
        worst = self._joined(counted.issued, old, new, by, touch)
        if worst is not Order.ORDERED:
            return worst
        if under_way or self._joined(tuple(counted.over), old, new, by, touch) is not Order.ORDERED:
            return Order.INCOMPLETE
        return Order.ORDERED if counted.fence is None else Order.BY_FENCE

    def _joined(
        self, stamps: tuple[tuple[int, int], ...], old: Access, new: Access, by: list[Strand], touch: Touch
    ) -> Order:
        """Every thread of `by` that meets the earlier access knows its threads up to the time in `stamps`."""
        if self.lockstep and touch.one_warp:
            return Order.ORDERED
        worst = Order.ORDERED
        strands = self.strands
        self.work += len(by) * len(stamps) >> 2
        # Tensor memory is ordered by execution, relaxed synchronisation included (PTX ISA 9.7.16.6.3).
        tensor = old.tensor and new.tensor
        checked: set[int] = set()
        met: dict[int, int] | None = None
        for strand in by:
            if not strand.threads & touch.later:
                continue
            if id(strand.clock) in checked and strand.warp_joined == 0:
                continue
            partners = touch.earlier if met is None else met.get(strand.index, 0)
            known = strand.clock.get
            for writer, time in stamps:
                if known(writer, 0) >= time:
                    continue  # the usual case, before anything is called
                threads = strands.all[writer].threads
                if not threads & partners or strands.knows(strand, writer, time, partners):
                    continue
                if tensor and strands.executed(strand.clock, writer, time):
                    continue
                if tensor and touch.one_warp and strand.met >= time and strands.same_origin(strand.index, writer):
                    continue  # the warp executes them together, one after the other
                # Warps that pair up by themselves know only their partner's part of the earlier access.
                if met is None and touch.later & ~strand.threads:
                    met = self._partners(old, new, by, touch)
                    partners = met.get(strand.index, 0)
                    if not threads & partners or strands.knows(strand, writer, time, partners):
                        continue
                if touch.one_warp:
                    if old.what == "ldmatrix" and new.what == "stmatrix":
                        continue  # collectives of one warp: no lane writes before all have come and all have read
                    if not (strand.warp_joined >= time and strands.same_origin(strand.index, writer)):
                        worst = Order.SAME_WARP
                    continue
                if not strands.executed(strand.clock, writer, time, "relaxed"):
                    return Order.UNJOINED
                worst = Order.RELAXED
            if partners == touch.earlier:  # else only the partners of this strand have been looked at
                checked.add(id(strand.clock))
        return worst

    def _partners(self, old: Access, new: Access, by: list[Strand], touch: Touch) -> dict[int, int]:
        """For each strand of `by` that meets the earlier access: the threads of the latter that it meets."""
        pairs = meetings(old, new)
        if pairs is None:
            return {strand.index: touch.earlier for strand in by}
        found: dict[int, int] = {}
        owner: dict[int, int] = {}
        if len(by) > FEW:
            for strand in by:
                rest = strand.threads & new.threads
                while rest:
                    low = rest & -rest
                    owner[low] = strand.index
                    rest ^= low
        for earlier, later in pairs:
            mine = owner.get(later)
            if mine is not None:
                found[mine] = found.get(mine, 0) | earlier
                continue
            for strand in by:
                if later & strand.threads:
                    found[strand.index] = found.get(strand.index, 0) | earlier
        return found

    def _tensor_fences(self, old: Access, by: list[Strand], touch: Touch) -> Order:
        for writer, time in old.strands:
            if not self.strands.all[writer].threads & touch.earlier:
                continue
            for strand in by:
                if not strand.threads & touch.later or self.strands.same_origin(strand.index, writer):
                    continue
                known = self._fence_known(self.before_fences, strand, writer, time, touch.earlier, tensor=True)
                if known is not Order.ORDERED:
                    return Order.NO_BEFORE_FENCE
                if not self.strands.covers(strand.fenced, writer, time, touch.earlier):
                    if not self.strands.executed(strand.fenced, writer, time):
                        return Order.NO_AFTER_FENCE
        return Order.ORDERED

    def _fenced(self, old: Access, new: Access, by: list[Strand], touch: Touch) -> Order:
        """The writers of `old` fenced it for the async proxy before handing it to the issuer.

        A fence orders the accesses of the thread that executes it, so all writing threads must be covered: of several
        issuers, each needs to know the fences of those whose bytes it reads. A fence by the issuing thread after the
        hand-over lies on the causality path too, and is told apart.
        """
        met: dict[int, int] | None = None
        for issuer in by:
            partners = touch.earlier if met is None else met.get(issuer.index, 0)
            for writer, time in old.strands:
                threads = self.strands.all[writer].threads
                if not threads & partners:
                    continue
                order = self._fence_known(self.proxy_fences, issuer, writer, time, partners)
                if order is not Order.ORDERED and met is None and touch.later & ~issuer.threads:
                    met = self._partners(old, new, by, touch)
                    partners = met.get(issuer.index, 0)
                    if not threads & partners:
                        continue
                    order = self._fence_known(self.proxy_fences, issuer, writer, time, partners)
                if order is not Order.ORDERED:
                    return Order.ISSUER_FENCE if self._issuer_fenced(issuer, writer, time, partners) else order
        return Order.ORDERED

    def _fence_known(
        self, logs: dict[int, FenceLog], reader: Strand, writer: int, time: int, threads: int, tensor: bool = False
    ) -> Order:
        """The first fence of each writing thread after `time` is known to `reader`."""
        log = logs.get(writer)
        if log is not None:
            at = bisect_left(log.times, time)
            if at < len(log.times):
                fence = log.times[at]
                own = not self.strands.all[writer].threads & threads & ~reader.threads
                known = own or self.strands.knows(reader, writer, fence, threads)
                if tensor and not known and not self.strands.knows(reader, writer, time, threads):
                    # Another lane has handed over what the warp had executed together: the fence follows the access.
                    known = self.strands.executed(reader.clock, writer, time)
                return Order.ORDERED if known else Order.LATE_FENCE
        parts = [p for p in self.strands.all[writer].children if self.strands.all[p].threads & threads]
        if not parts:
            return Order.NO_FENCE
        for part in parts:
            order = self._fence_known(logs, reader, part, time, threads, tensor)
            if order is not Order.ORDERED:
                return order
        return Order.ORDERED

    def _issuer_fenced(self, issuer: Strand, writer: int, time: int, threads: int) -> bool:
        for strand in self.strands.lineage(issuer.index):
            log = self.proxy_fences.get(strand)
            if log is not None and any(self.strands.covers(clock, writer, time, threads) for clock in log.clocks):
                return True
        return False


ALL = Touch(-1, -1, False, False)
JOINED = frozenset(
    {Order.ORDERED, Order.NO_FENCE, Order.LATE_FENCE, Order.ISSUER_FENCE, Order.READ_NO_FENCE, Order.NO_BEFORE_FENCE,
     Order.NO_AFTER_FENCE, Order.BY_FENCE}
)  # fmt: skip
