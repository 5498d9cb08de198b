"""Ordinary accesses to global memory with the conditions around them, and loops that wait for a flag there."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from warplint.memo import remembered
from warplint.program.ir import (
    Address,
    Assign,
    Break,
    Deferred,
    Do,
    Element,
    Expr,
    If,
    Kernel,
    Load,
    Loop,
    Opaque,
    OpValue,
    Seq,
    Special,
    Stmt,
    Store,
    Symbol,
    Var,
    children,
    parts,
)
from warplint.source import Span
from warplint.threads.facts import Event, Roles, Uniformity
from warplint_rules._say import reached
from warplint_rules.participation._balance import barriers
from warplint_rules.participation._dataflow import uniform_over

_MAX_NODES = 2_000
_LOADS = ("ld.", "atom")
_IDLE = (*_LOADS, "nanosleep")
_JOINS = ("barrier.cluster.wait", "grid.sync")


class Write(Struct, frozen=True):
    """An ordinary store or atomic to memory that is not shared memory."""

    stmt: Store
    symbol: Symbol | None
    """The pointer variable it goes through, where there is one."""
    around: tuple[tuple[If, bool], ...]
    """The conditions around it, from the outermost in, with the side."""


class Spin(Struct, frozen=True):
    """A loop that waits for a word of global memory."""

    loop: Loop
    symbol: Symbol | None
    span: Span
    ordered: bool
    """The load acquires."""
    grid: bool
    """It is compared with the number of blocks of the grid."""


@remembered(4)
def writes(kernel: Kernel) -> tuple[Write, ...]:
    """All stores to global memory, in source order."""
    found: list[Write] = []
    stack: list[tuple[Stmt, tuple[tuple[If, bool], ...]]] = [(kernel.body, ())]
    while stack:
        stmt, around = stack.pop()
        if isinstance(stmt, Seq):
            stack.extend((inner, around) for inner in reversed(stmt.body))
        elif isinstance(stmt, If):
            stack.append((stmt.orelse, (*around, (stmt, False))))
            stack.append((stmt.then, (*around, (stmt, True))))
        elif isinstance(stmt, Store):
            symbol = base(stmt.pointer.expr)
            if stmt.space != "shared" and (symbol is None or symbol.kind in ("param", "global")):
                found.append(Write(stmt, symbol, around))
        else:
            stack.extend((seq, around) for seq in reversed(list(children(stmt))))
    return tuple(found)


def base(pointer: Expr) -> Symbol | None:
    """The pointer variable of an address expression: the only pointer or array in it."""
    found: list[Symbol] = []
    stack, seen = [pointer], 0
    while stack and seen < _MAX_NODES:
        seen += 1
        top = stack.pop()
        if isinstance(top, Var | Address) and (top.symbol.pointer or top.symbol.dims):
            found.append(top.symbol)
        if isinstance(top, Load | Element):
            continue  # an index that comes from memory is no base
        stack.extend(parts(top))
    return found[0] if len(set(map(id, found))) == 1 else None


@remembered(4)
def spins(kernel: Kernel) -> tuple[Spin, ...]:
    """Loops whose exit looks at a word of global memory, directly or through a local set in the loop."""
    found: list[Spin] = []
    stack: list[Stmt] = [kernel.body]
    while stack:
        stmt = stack.pop()
        if isinstance(stmt, Loop) and (spin := _spin(stmt)) is not None:
            found.append(spin)
        stack.extend(stmt.body if isinstance(stmt, Seq) else children(stmt))
    found.sort(key=lambda spin: spin.span.start)
    return tuple(found)


def _spin(loop: Loop) -> Spin | None:
    # Most loops do work: nothing of theirs is resolved before that is known.
    deferred = [loop.test] if loop.test is not None else []
    copies: dict[int, Deferred] = {}
    for stmt in _flat(loop):
        if isinstance(stmt, Assign):
            copies[id(stmt.symbol)] = stmt.value
        elif isinstance(stmt, If):
            if any(isinstance(jump, Break) for jump in (*stmt.then.body, *stmt.orelse.body)):
                deferred.append(stmt.test)
        elif isinstance(stmt, Store | Opaque) or (isinstance(stmt, Do) and not stmt.op.name.startswith(_IDLE)):
            return None  # it does work, or what nobody knows: no mere wait
    tests = [test.expr for test in deferred]
    grid = False
    load: Load | OpValue | None = None
    stack, seen, followed = list(tests), 0, set[int]()
    while stack and seen < _MAX_NODES:
        seen += 1
        top = stack.pop()
        if isinstance(top, Special) and top.name.startswith("nctaid"):
            grid = True
        elif (isinstance(top, Load) and _is_global(base(top.pointer))) or (
            isinstance(top, OpValue) and top.op.name.startswith(_LOADS) and top.op.mods.get("space") != "shared"
        ):
            load = top
        elif isinstance(top, Var) and id(top.symbol) in copies and id(top.symbol) not in followed:
            followed.add(id(top.symbol))
            value = copies[id(top.symbol)].expr
            if _reads(value, {id(top.symbol): copies[id(top.symbol)]}):
                return None  # the loop counts: it ends by its own steps
            stack.append(value)
        stack.extend(parts(top))
    address = _address(load)
    if load is None or (address is not None and _reads(address, copies)):
        return None  # no load, or one that walks through memory: a search, not a wait
    if isinstance(load, OpValue):
        symbol = base(address) if address is not None else None
        sem = str(load.op.mods.get("sem") or "")
        return Spin(loop, symbol, loop.test_span, "acq" in sem or "acquire" in load.op.name, grid)
    return Spin(loop, base(load.pointer), loop.test_span, False, grid)


def _address(load: Load | OpValue | None) -> Expr | None:
    if isinstance(load, Load):
        return load.pointer
    if load is None:
        return None
    operands = load.op.operands
    return next((operands[role] for role in ("src", "dst", "address") if role in operands), None)


def _reads(expr: Expr, locals_: dict[int, Deferred]) -> bool:
    """The expression reads one of the locals."""
    stack, seen = [expr], 0
    while stack and seen < _MAX_NODES:
        seen += 1
        top = stack.pop()
        if isinstance(top, Var | Element) and id(top.symbol) in locals_:
            return True
        stack.extend(parts(top))
    return False


def _is_global(symbol: Symbol | None) -> bool:
    return symbol is not None and symbol.kind in ("param", "global")


def _flat(loop: Loop) -> Iterator[Stmt]:
    stack: list[Stmt] = [loop.step, loop.body, loop.prelude]
    while stack:
        stmt = stack.pop()
        if isinstance(stmt, Seq):
            stack.extend(reversed(stmt.body))
            continue
        yield stmt
        stack.extend(reversed(list(children(stmt))))


def last_join(roles: Roles, before: Event) -> int:
    """The offset in the text behind the last barrier of the whole block before an event; 0 when there is none."""
    joins = [event for event in (*barriers(roles), *reached(roles, *_JOINS)) if event.order < before.order]
    return max((event.op.span.end for event in joins), default=0)


def by_others(roles: Roles, write: Write, publisher: Event) -> bool:
    """Established: threads other than the publishing one execute the write."""
    own = {(id(guard.stmt), guard.taken) for guard in publisher.guards}
    texts = {("".join(guard.text.split()), guard.taken) for guard in publisher.guards}
    for guard in publisher.guards:
        if guard.kind != "exit" or guard.after.threads == guard.before.threads or guard.stmt is None:
            continue
        if guard.stmt.span.end <= write.stmt.span.start:
            return False  # the others have returned before either
    for test, side in write.around:
        if (id(test), side) in own and _narrows(publisher, test):
            return False
        if ("".join(test.text.split()), side) in texts:
            return False
        if not uniform_over(roles.kernel, test.test.expr, Uniformity.CTA):
            return False  # which threads write is not known
    return True


def _narrows(event: Event, test: If) -> bool:
    return any(guard.stmt is test and guard.after.threads != guard.before.threads for guard in event.guards)


def fences(roles: Roles) -> list[Span]:
    """Fences that order accesses for other blocks (`fence.acq_rel.gpu` and wider), and grid barriers."""
    found = [
        event.op.span
        for event in reached(roles, "fence.acq_rel.*", "fence.sc.*")
        if str(event.mod("scope") or "gpu") in ("gpu", "sys")
    ]
    return [*found, *(event.op.span for event in reached(roles, "grid.sync"))]
