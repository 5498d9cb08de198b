"""Tensor-memory allocations of a kernel: who allocates, through which shared word, who gives back what."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from warplint.memo import remembered
from warplint.program.ir import Assign, Cast, Element, Expr, Load, Operation, Symbol, Var, parts
from warplint.source import Span
from warplint.threads.facts import Condition, Event, Known, LoopFact, Pointer, Reach, Roles
from warplint_rules._first import first_load, loads_before, only_assignment, order_before
from warplint_rules._words import threads_in

ACCESSES = frozenset(
    {
        "tcgen05.ld",
        "tcgen05.st",
        "tcgen05.mma",
        "tcgen05.cp",
        "tcgen05.shift",
    }
)
COLUMNS = 512
"""Columns of tensor memory per SM (PTX ISA, tcgen05 addressing)."""

_MAX_CHAIN = 20
"""Locals that hand on an address, one after the other."""

Slot = tuple[Symbol, int]


class Tmem(Struct, frozen=True):
    """The allocation events of one kernel in program order, reached by some thread unless stated."""

    allocs: tuple[Event, ...]
    deallocs: tuple[Event, ...]
    relinquishes: tuple[Event, ...]
    accesses: tuple[Event, ...]
    unreached: tuple[Event, ...]
    """Deallocations that no thread executes."""


@remembered(2)
def tmem(roles: Roles) -> Tmem:
    """The tensor-memory operations of a kernel."""
    allocs, deallocs, relinquishes, accesses, unreached = [], [], [], [], []
    for event in roles.events:
        name = event.name
        if not name.startswith("tcgen05."):
            continue
        live = bool(event.reach.threads)
        if name == "tcgen05.dealloc":
            (deallocs if live else unreached).append(event)
        elif not live:
            continue
        elif name == "tcgen05.alloc":
            allocs.append(event)
        elif name == "tcgen05.relinquish_alloc_permit":
            relinquishes.append(event)
        elif name in ACCESSES:
            accesses.append(event)
    return Tmem(tuple(allocs), tuple(deallocs), tuple(relinquishes), tuple(accesses), tuple(unreached))


def written_slots(event: Event) -> set[Slot] | None:
    """The shared words an allocation may write its address to; None when not known."""
    value = event.values.get("slot")
    if not isinstance(value, Pointer) or not isinstance(value.offset, Known):
        return None
    if isinstance(value.offset.each, int):
        return {(value.symbol, value.offset.each)}
    return {(value.symbol, value.offset.each[thread]) for thread in threads_in(event.reach.threads)}


def read_slot(roles: Roles, op: Operation) -> Slot | None:
    """The shared word from which a deallocation's address operand was read; None when it was not or is not known."""
    expr: Expr | None = op.operands.get("address")
    for _ in range(20):
        match expr:
            case Cast(arg=arg):
                expr = arg
            case Load():
                return first_load(roles, op, expr)
            case Var(symbol=symbol) | Element(symbol=symbol) if symbol.kind == "local":
                found = only_assignment(roles, symbol, op)
                expr = found.value.expr if found is not None else None
            case _:
                return None
    return None


class SlotRead(Struct, frozen=True):
    """One read of an address slot: where, how far in program order, by whom."""

    slot: Slot
    span: Span
    order: float
    reach: Reach
    guards: tuple[Condition, ...]
    loops: tuple[LoopFact, ...]


@remembered(2)
def slot_reads(roles: Roles) -> tuple[SlotRead, ...]:
    """The reads of the words that allocations write: of ordinary code, and on the way into tensor-memory operands.

    A local that holds the address is followed to its only assignment; whoever uses the local has executed that.
    """
    slots: set[Slot] = set()
    for alloc in tmem(roles).allocs:
        slots |= written_slots(alloc) or set()
    if not slots:
        return ()
    found = [
        SlotRead((a.symbol, a.offset.constant), a.span, a.order, a.reach, a.guards, a.loops)
        for a in roles.accesses
        if not a.write and isinstance(a.offset, Known) and a.offset.constant is not None
        and (a.symbol, a.offset.constant) in slots
    ]  # fmt: skip
    chains = _Chains(roles, slots)
    seen: set[tuple[int, int]] = set()
    for event in roles.events:
        expr = event.op.operands.get("address")
        if expr is None or not event.reach.threads or (id(event.op), event.reach.threads) in seen:
            continue
        seen.add((id(event.op), event.reach.threads))
        for slot, stmt in chains.of(event.op, expr):
            if stmt is None:
                found.append(SlotRead(slot, event.op.span, event.order, event.reach, event.guards, event.loops))
            else:
                # The guards of the use also hold the threads; those of the assignment are not known.
                at = chains.order(stmt)
                found.append(SlotRead(slot, stmt.span, at, event.reach, event.guards, event.loops))
    return tuple(sorted(found, key=lambda read: read.order))


def may_read_before(roles: Roles, slots: set[Slot], order: int) -> bool:
    """Whether a slot may be read at all before a place in program order; cheaper than `slot_reads`."""
    for event in roles.events:
        if event.order >= order:
            break
        if event.op.operands.get("address") is not None:
            return True
    symbols = {symbol for symbol, _ in slots}
    if any(a.order < order and not a.write and a.symbol in symbols for a in roles.accesses):
        return True
    return loads_before(roles, slots, order)


class _Chains:
    """Follows operands back to the slots that they were read from; each local once."""

    def __init__(self, roles: Roles, slots: set[Slot]) -> None:
        self._roles = roles
        self._slots = slots
        self._known: dict[int, tuple[tuple[Slot, Assign], ...]] = {}
        self._orders: dict[int, float] = {}

    def order(self, stmt: Assign) -> float:
        """Where an assignment stands in program order."""
        if id(stmt) not in self._orders:
            self._orders[id(stmt)] = order_before(self._roles, stmt)
        return self._orders[id(stmt)]

    def of(self, op: Operation, expr: Expr, depth: int = 0) -> Iterator[tuple[Slot, Assign | None]]:
        """The slots that a value comes from, each with the assignment that read it unless the operand did."""
        stack: list[Expr] = [expr]
        while stack:
            one = stack.pop()
            if isinstance(one, Load):
                slot = first_load(self._roles, op, one)
                if slot in self._slots:
                    yield slot, None
            elif isinstance(one, Var | Element) and one.symbol.kind == "local":
                assigned = only_assignment(self._roles, one.symbol, op)
                if assigned is not None:
                    yield from self._through(op, assigned, depth)
            else:
                stack.extend(parts(one))

    def _through(self, op: Operation, assigned: Assign, depth: int) -> tuple[tuple[Slot, Assign], ...]:
        known = self._known.get(id(assigned))
        if known is None:
            known = ()
            if depth < _MAX_CHAIN:
                found = self.of(op, assigned.value.expr, depth + 1)
                known = tuple((slot, assigned if stmt is None else stmt) for slot, stmt in found)
            self._known[id(assigned)] = known
        return known


def matching(roles: Roles, dealloc: Event) -> list[Event]:
    """The allocations that a deallocation may give back: those of its slot, or all when the slot is not known."""
    allocs = tmem(roles).allocs
    slot = read_slot(roles, dealloc.op)
    if slot is None:
        return list(allocs)
    chosen = []
    for alloc in allocs:
        slots = written_slots(alloc)
        if slots is None:
            return list(allocs)
        if slot in slots:
            chosen.append(alloc)
    return chosen or list(allocs)
