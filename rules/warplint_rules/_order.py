"""Can one place in a kernel be ordered before another in a different warp? An over-approximation of happens-before.

From a place in one warp the search follows program order to every operation that can publish (a barrier, an
arrival, a commit, a copy that completes on a barrier), from there to every operation that can learn of it (the same
barrier, a wait on a word that may be the same), and so on. Everything doubtful counts as an ordering: unknown
barrier ids and words match all, arrivals need not suffice for the phase, loops may run again. So "not ordered" is a
fact, "ordered" is not.

Operations of one warp are in program order; `__syncwarp` therefore does not appear here, and a question about two
lanes of one warp is not one for this module.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable, Iterator
from functools import cached_property

from msgspec import Struct

from warplint.memo import remembered
from warplint.threads.facts import Condition, Event, Known, LoopFact, Pointer, Roles
from warplint_rules._first import first_address, first_value
from warplint_rules._say import narrowing
from warplint_rules._spins import spins
from warplint_rules._words import WAITS, has_opaque, warps

CTA_BARRIERS = frozenset(
    {"bar.sync.cta", "bar.red.cta", "hip.__syncthreads", "amd.s_barrier", "amd.s_barrier_signal_wait", "grid.sync"}
)
NAMED = frozenset({"bar.sync.named", "bar.arrive.named", "bar.red.named", "barrier.nonaligned", "amd.named_barrier"})
CLUSTER_WAITS = frozenset({"barrier.cluster.wait", "grid.sync"})
_NEVER_ACQUIRES = frozenset({"bar.arrive.named", "barrier.cluster.arrive"})
_CTA: Hashable = "cta"
_CLUSTER: Hashable = "cluster"
_NO_BASE = -1


class _Sync(Struct, frozen=True):
    """One synchronising event: the object it works on (None fields match anything), who, where."""

    event: Event
    order: int
    object: tuple[Hashable, ...]
    warps: frozenset[int]
    releases: bool
    acquires: bool
    first: int
    """Order of the first event of its outermost loop, its own order outside loops."""


class _Learned:
    """By which operations a warp may learn of a place; only the earliest of each kind matter."""

    def __init__(self) -> None:
        self._sure: int | None = None
        self._empty: dict[tuple[int, ...], _Sync] = {}
        """Operations that tell nothing on their first execution, by the loops around them."""

    def add(self, sync: _Sync, empty: bool) -> bool:
        """Whether the operation makes a difference."""
        if self._sure is not None and self._sure <= sync.order:
            return False
        if not empty:
            self._sure = sync.order
            return True
        key = tuple(id(loop) for loop in sync.event.loops)
        if key in self._empty and self._empty[key].order <= sync.order:
            return False
        self._empty[key] = sync
        return True

    def before(self, at: float, loops: tuple[LoopFact, ...]) -> bool:
        """Whether the warp may know it when it first comes to a place."""
        if self._sure is not None and self._sure < at:
            return True
        return any(sync.order < at and not _inside(sync.event.loops, loops) for sync in self._empty.values())


class Order:
    """May-order questions about one kernel. Make it with `order_of`."""

    def __init__(self, roles: Roles) -> None:
        self._acquires: dict[tuple[Hashable, ...], list[_Sync]] = {}
        self._releases: dict[int, list[_Sync]] = {}
        self._joins: list[_Sync] = []
        self._cache: dict[tuple[int, int, int], dict[int, int]] = {}
        self._first_cache: dict[tuple[int, int, int], dict[int, _Learned]] = {}
        self._fresh: dict[int, bool] = {}
        self._first_words: dict[int, tuple[Hashable, ...]] = {}
        self._roles = roles
        everyone = frozenset(warps(roles, roles.everyone))
        starts: dict[int, int] = {}
        for event in roles.events:
            if event.loops:
                starts.setdefault(id(event.loops[0].stmt), event.order)
            found = _object(event)
            if found is None or not event.reach.threads:
                continue
            sync = _Sync(
                event,
                event.order,
                found,
                frozenset(warps(roles, event.reach.threads)),
                event.name not in WAITS and event.name != "barrier.cluster.wait",
                event.name in WAITS or (found[0] != "word" and event.name not in _NEVER_ACQUIRES),
                starts[id(event.loops[0].stmt)] if event.loops else event.order,
            )
            if sync.releases:
                for warp in sync.warps:
                    self._releases.setdefault(warp, []).append(sync)
            if sync.acquires:
                self._acquires.setdefault(found, []).append(sync)
            if found[0] in (_CTA, _CLUSTER) and sync.acquires and not event.loops and sync.warps == everyone:
                if event.reach.exact:
                    self._joins.append(sync)
        self._release_orders = {warp: [sync.order for sync in found] for warp, found in self._releases.items()}
        self._matching: dict[tuple[Hashable, ...], list[_Sync]] = {}

    @cached_property
    def uncertain(self) -> bool:
        """Threads may synchronise in a way that is not seen (an unknown call, a loop that spins on memory)."""
        return has_opaque(self._roles) or spins(self._roles)

    def base(self, event: Event) -> int:
        """Order of the last barrier that the whole block certainly passed before the event; -1 without one."""
        return self.joined(event.order, event.guards)

    def joined(self, at: float, guards: tuple[Condition, ...]) -> int:
        """The same for any place in program order, under its conditions."""
        sides = {id(guard.stmt): guard.taken for guard in guards}
        for sync in reversed(self._joins):
            if sync.order < at and all(_settled(guard, sides) for guard in sync.event.guards):
                return sync.order
        return _NO_BASE

    def after(self, event: Event, warp: int) -> dict[int, int]:
        """From the event as warp `warp` executes it (in its last iteration): for each other warp that may learn of it,
        the order of the first operation by which it may. Warps that are absent certainly do not.
        """
        orders = self._release_orders.get(warp, [])
        # Two places with no publishing operation of the warp between them have the same answer.
        start = bisect_right(orders, event.order)
        if start == len(orders):
            return {}
        key = (warp, start, self.base(event))
        if key not in self._cache:
            self._cache[key] = self._search(*key)
        return self._cache[key]

    def before_first(self, event: Event, warp: int, later: float, loops: tuple[LoopFact, ...], other: int) -> bool:
        """Whether the event may be ordered before the first execution, by another warp, of a place at order `later`.

        Stricter than `after`: on the first way to the place nobody runs a loop again, and a wait for the phase before
        the first one (parity 1 on a fresh barrier) passes at once and tells nothing.
        """
        orders = self._release_orders.get(warp, [])
        start = bisect_right(orders, event.order)
        if start == len(orders):
            return False
        key = (warp, start, self.base(event))
        if key not in self._first_cache:
            self._first_cache[key] = self._search_first(*key)
        found = self._first_cache[key].get(other)
        return found is not None and found.before(later, loops)

    def join_after(self, event: Event) -> int | None:
        """Order of the first barrier behind the event that the whole block certainly passes; None without one."""
        return next((s.order for s in self._joins if s.order > event.order and not narrowing(s.event.guards)), None)

    def ordered(self, event: Event, warp: int, later: Event, other: int) -> bool:
        """Whether the event, executed by `warp`, may be ordered before `later`, executed by another warp."""
        if warp == other or self.base(later) > event.order:
            return event.order < later.order
        return self.after(event, warp).get(other, later.order) < later.order

    def _search(self, warp: int, start: int, base: int) -> dict[int, int]:
        reached: dict[int, int] = {}
        # For each warp the index of its first release that may publish what it has learned.
        bound = {warp: start}
        done: dict[int, int] = {}
        published: set[tuple[Hashable, ...]] = set()
        todo = [warp]

        def learn(other: int, sync: _Sync) -> None:
            if sync.order < reached.get(other, sync.order + 1):
                reached[other] = sync.order
            # A loop that the operation stands in may run again after it.
            low = bisect_right(self._release_orders.get(other, []), min(sync.order, sync.first - 1))
            if low < bound.get(other, low + 1):
                bound[other] = low
                todo.append(other)

        while todo:
            current = todo.pop()
            mine = self._releases.get(current, [])
            end = done.get(current, len(mine))
            done[current] = bound[current]
            for sync in mine[bound[current] : end]:
                if sync.object[0] == _CTA:
                    # One site executed by both joins them there; other sites serve the warps that are not at this one.
                    for other in sync.warps:
                        learn(other, sync)
                    for site in self._acquires.get(sync.object, []):
                        if site.order > base and current not in site.warps:
                            for other in site.warps:
                                learn(other, site)
                elif sync.object not in published:
                    published.add(sync.object)
                    for site in self._learners(sync.object):
                        if site.order > base:
                            for other in site.warps:
                                learn(other, site)
        reached.pop(warp, None)
        return reached

    def _search_first(self, warp: int, start: int, base: int) -> dict[int, _Learned]:
        """What each warp learns, with what it cannot learn when it first executes the operation set apart."""
        learned: dict[int, _Learned] = {}
        seen: set[tuple[int, int, tuple[Hashable, ...]]] = set()
        sent: set[tuple[int, int]] = set()
        early = {sync.object for found in self._releases.values() for sync in found if sync.order <= base}
        todo = [warp]
        while todo:
            current = todo.pop()
            for index, sync in enumerate(self._releases.get(current, [])):
                if (current, index) in sent or (current == warp and index < start):
                    continue
                if current != warp and not learned[current].before(sync.order, sync.event.loops):
                    continue
                sent.add((current, index))
                for site, other in self._receivers(sync, current, base):
                    if other == warp or (other, id(site), sync.object) in seen:
                        continue
                    seen.add((other, id(site), sync.object))
                    fresh = self._passes_fresh(site) and not any(_matches(site.object, one) for one in early)
                    empty = fresh or not _matches(self._first_object(site), sync.object)
                    if learned.setdefault(other, _Learned()).add(site, empty):
                        todo.append(other)
        return learned

    def _receivers(self, sync: _Sync, current: int, base: int) -> Iterator[tuple[_Sync, int]]:
        """The operations, with their warps, that may learn from a release by one warp."""
        if sync.object[0] == _CTA:
            for other in sync.warps:
                yield sync, other
            for site in self._acquires.get(sync.object, []):
                if site.order > base and current not in site.warps:
                    for other in site.warps:
                        yield site, other
            return
        for site in self._learners(sync.object):
            if site.order > base:
                for other in site.warps:
                    yield site, other

    def _first_object(self, sync: _Sync) -> tuple[Hashable, ...]:
        """The object of an operation when it is first executed: the first word of a ring."""
        if sync.object[0] != "word" or sync.object[2] is not None:
            return sync.object
        key = id(sync.event.op)
        if key not in self._first_words:
            found = first_address(self._roles, sync.event.op, "barrier")
            self._first_words[key] = ("word", *found) if found is not None else sync.object
        return self._first_words[key]

    def _passes_fresh(self, sync: _Sync) -> bool:
        """The operation is a wait whose parity is 1 when it is first executed."""
        if sync.event.name not in WAITS:
            return False
        key = id(sync.event.op)
        if key not in self._fresh:
            self._fresh[key] = first_value(self._roles, sync.event.op, "parity") == 1
        return self._fresh[key]

    def _learners(self, published: tuple[Hashable, ...]) -> list[_Sync]:
        """The operations that may acquire from an object (their own may be known less exactly)."""
        if published not in self._matching:
            self._matching[published] = [
                sync for other, found in self._acquires.items() if _matches(other, published) for sync in found
            ]
        return self._matching[published]


@remembered(2)
def order_of(roles: Roles) -> Order:
    """The order questions of one kernel (several rules ask about the same one)."""
    return Order(roles)


def _inside(loops: tuple[LoopFact, ...], place: tuple[LoopFact, ...]) -> bool:
    """Every loop around the one place is also around the other, so that both are met on its first pass."""
    return all(any(loop is other for other in place) for loop in loops)


def _settled(guard: Condition, sides: dict[int, bool]) -> bool:
    """The condition of a barrier holds wherever the later event is reached."""
    return sides.get(id(guard.stmt)) == guard.taken or (guard.after.threads == guard.before.threads and guard.known)


def _object(event: Event) -> tuple[Hashable, ...] | None:
    name = event.name
    if name in CTA_BARRIERS:
        return (_CTA,)
    if name in NAMED:
        number = event.constant("id")
        if "id" in event.values and number is None:
            return ("bar", None)
        return ("bar", number) if number else (_CTA,)
    if name in ("barrier.cluster.arrive", "barrier.cluster.wait"):
        return (_CLUSTER,)
    if name.startswith(("cuda::", "amd.async", "amd.tensor")) and "barrier" not in event.values:
        return ("word", None, None)
    if "barrier" in event.values and name not in ("mbarrier.init", "mbarrier.inval"):
        value = event.values["barrier"]
        if not isinstance(value, Pointer):
            return ("word", None, None)
        constant = value.offset.constant if isinstance(value.offset, Known) else None
        return ("word", value.symbol, constant)
    return None


def _matches(a: tuple[Hashable, ...], b: tuple[Hashable, ...]) -> bool:
    return len(a) == len(b) and all(x is None or y is None or x == y for x, y in zip(a, b, strict=True))
