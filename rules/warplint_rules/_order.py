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

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from warplint.program.ir import (
    Address,
    Assign,
    Binary,
    Break,
    Cast,
    Deferred,
    Element,
    Exit,
    Expr,
    If,
    Leave,
    Load,
    Loop,
    OpValue,
    Pure,
    Select,
    Symbol,
    Unary,
    Var,
    walk,
)
from warplint.threads.facts import Condition, Event, Known, LoopFact, Pointer, Roles
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


@dataclass(frozen=True, slots=True)
class _Sync:
    """One synchronising event: the object it works on (None fields match anything), who, where."""

    event: Event
    object: tuple[Hashable, ...]
    warps: frozenset[int]
    releases: bool
    acquires: bool
    first: int
    """Order of the first event of its outermost loop, its own order outside loops."""


class Order:
    """May-order questions about one kernel. Make it with `order_of`."""

    def __init__(self, roles: Roles) -> None:
        self.uncertain = has_opaque(roles) or _spins(roles)
        """Threads may synchronise in a way that is not seen (an unknown call, a loop that spins on memory)."""
        starts: dict[int, int] = {}
        for event in roles.events:
            if event.loops:
                starts.setdefault(id(event.loops[0].stmt), event.order)
        self._everyone = frozenset(warps(roles, roles.everyone))
        self._syncs: list[_Sync] = []
        for event in roles.events:
            found = _object(event)
            if found is None or not event.reach.threads:
                continue
            first = starts[id(event.loops[0].stmt)] if event.loops else event.order
            acquires = event.name in WAITS or (found[0] != "word" and event.name not in _NEVER_ACQUIRES)
            releases = event.name not in WAITS and event.name != "barrier.cluster.wait"
            who = frozenset(warps(roles, event.reach.threads))
            self._syncs.append(_Sync(event, found, who, releases, acquires, first))
        self._joins = [s for s in self._syncs if s.object[0] in (_CTA, _CLUSTER) and s.acquires]
        self._cache: dict[tuple[int, int, int], dict[int, int]] = {}

    def base(self, event: Event) -> int:
        """Order of the last barrier that the whole block certainly passed before the event; -1 without one."""
        sides = {id(guard.stmt): guard.taken for guard in event.guards}
        found = _NO_BASE
        for sync in self._joins:
            if sync.event.order >= event.order:
                break
            if sync.event.loops or sync.warps != self._everyone or not sync.event.reach.exact:
                continue
            if all(_settled(guard, sides) for guard in sync.event.guards):
                found = sync.event.order
        return found

    def after(self, event: Event, warp: int) -> dict[int, int]:
        """From the event as warp `warp` executes it (in its last iteration): for each other warp that may learn of it,
        the order of the first operation by which it may. Warps that are absent certainly do not.
        """
        base = self.base(event)
        start = event.order
        # Two places with no publishing operation of the warp between them have the same answer.
        for sync in self._syncs:
            if sync.event.order > start and sync.releases and warp in sync.warps:
                start = sync.event.order - 1
                break
        else:
            return {}
        key = (warp, start, base)
        if key not in self._cache:
            self._cache[key] = self._search(warp, start, base)
        return self._cache[key]

    def ordered(self, event: Event, warp: int, later: Event, other: int) -> bool:
        """Whether the event, executed by `warp`, may be ordered before `later`, executed by another warp."""
        if warp == other:
            return event.order < later.order
        return self.after(event, warp).get(other, later.order) < later.order

    def _search(self, warp: int, start: int, base: int) -> dict[int, int]:
        reached: dict[int, int] = {}
        bound = {warp: start}
        todo = [warp]
        while todo:
            current = todo.pop()
            low = bound[current]
            objects: set[tuple[Hashable, ...]] = set()
            for sync in self._syncs:
                if not sync.releases or current not in sync.warps or sync.event.order <= low:
                    continue
                if sync.object[0] == _CTA:
                    # One site executed by both joins them there; other sites serve the warps that are not at this one.
                    for other in sorted(sync.warps):
                        self._learn(other, sync, reached, bound, todo)
                objects.add(sync.object)
            for sync in self._syncs:
                if not sync.acquires or sync.event.order <= base or not _matches(sync.object, objects):
                    continue
                if sync.object[0] == _CTA and current in sync.warps:
                    continue
                for other in sorted(sync.warps):
                    if other != current:
                        self._learn(other, sync, reached, bound, todo)
        reached.pop(warp, None)
        return reached

    @staticmethod
    def _learn(other: int, sync: _Sync, reached: dict[int, int], bound: dict[int, int], todo: list[int]) -> None:
        at = sync.event.order
        if at < reached.get(other, at + 1):
            reached[other] = at
        # A loop that the operation stands in may run again after it.
        low = min(at, sync.first - 1)
        if low < bound.get(other, low + 1):
            bound[other] = low
            todo.append(other)


@lru_cache(maxsize=2)
def order_of(roles: Roles) -> Order:
    """The order questions of one kernel (several rules ask about the same one)."""
    return Order(roles)


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


def _matches(target: tuple[Hashable, ...], objects: Iterable[tuple[Hashable, ...]]) -> bool:
    return any(
        len(one) == len(target) and all(a is None or b is None or a == b for a, b in zip(one, target, strict=True))
        for one in objects
    )


# --------------------------------------------------------------------------------------------------- spins
_MEMORY_READS = ("ld", "atom", "cuda::")


def _spins(roles: Roles) -> bool:
    """Some loop's exit depends on memory that only another thread can change: a flag, a lock."""
    loops = [fact.stmt for fact in roles.loops if isinstance(fact.stmt, Loop) and _suspicious(fact)]
    if not loops:
        return False
    changed = {stmt.symbol for stmt in walk(roles.kernel.body) if isinstance(stmt, Assign)}
    return any(_reads_memory(test, changed) for loop in loops for test in exit_tests(loop))


def _suspicious(fact: LoopFact) -> bool:
    return not isinstance(fact.test, Known) and not fact.state


def exit_tests(loop: Loop) -> Iterator[Deferred]:
    """The conditions that decide whether a loop goes on: its test, and those of the `if`s that hold a way out."""
    if loop.test is not None:
        yield loop.test
    for stmt in walk(loop.body):
        if isinstance(stmt, If) and any(isinstance(inner, Break | Leave | Exit) for inner in walk(stmt)):
            yield stmt.test


def parts(expr: Expr) -> tuple[Expr, ...]:
    """The operand expressions of an expression."""
    match expr:
        case Load(pointer=arg) | Unary(arg=arg) | Cast(arg=arg) | Element(index=arg) | Address(offset=arg):
            return (arg,)
        case Binary(left=left, right=right):
            return (left, right)
        case Select(test=test, yes=yes, no=no):
            return (test, yes, no)
        case Pure(args=args):
            return args
    return ()


def _reads_memory(test: Deferred, changed: set[Symbol]) -> bool:
    """The condition holds a load, and nothing in it is a local that the code advances."""
    stack: list[Expr] = [test.expr]
    loads = False
    while stack:
        expr = stack.pop()
        if isinstance(expr, Var | Element) and expr.symbol in changed:
            return False
        if isinstance(expr, Load) or (isinstance(expr, OpValue) and expr.op.name.startswith(_MEMORY_READS)):
            loads = True
        stack.extend(parts(expr))
    return loads
