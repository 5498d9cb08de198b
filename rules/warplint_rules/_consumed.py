"""Whether loaded registers are used before the columns they came from are released."""

from __future__ import annotations

from warplint.memo import remembered
from warplint.program.ir import (
    Assign,
    Do,
    Element,
    Expr,
    If,
    Loop,
    OpValue,
    Stmt,
    Store,
    Symbol,
    Unknown,
    Var,
    parts,
    walk,
)
from warplint.source import Span
from warplint.threads.facts import Roles

_RELEASES = ("mbarrier.arrive", "bar.", "barrier.", "tcgen05.dealloc", "tcgen05.wait", "hip.__syncthreads")


@remembered(2)
def _statements(roles: Roles) -> list[Stmt]:
    return list(walk(roles.kernel.body))


def consumed_before_release(roles: Roles, load: Span, threads: int) -> bool:
    """Some register that a `tcgen05.ld` filled is, or may be, read in text order before the next arrival or barrier.

    A use holds the thread up until the register is there, so the columns have been read by then.
    """
    filled: set[Symbol] = set()
    seen = False
    for stmt in _statements(roles):
        if isinstance(stmt, Do):
            if stmt.op.span == load and stmt.op.name == "tcgen05.ld":
                seen = True
            elif seen and stmt.op.name.startswith(_RELEASES):
                return False
            elif seen and any(_reads(operand, filled) for operand in stmt.op.operands.values()):
                return True
            continue
        if not seen:
            continue
        if isinstance(stmt, Assign) and _result(stmt, load):
            filled.add(stmt.symbol)
        elif any(_reads(expr, filled) for expr in _read_by(stmt)):
            return True
    return False


def _result(stmt: Assign, load: Span) -> bool:
    """The assignment takes a register from the load itself."""
    value = stmt.value.expr
    return value.op.span == load if isinstance(value, OpValue) else isinstance(value, Unknown) and stmt.span == load


def _read_by(stmt: Stmt) -> tuple[Expr, ...]:
    """The expressions that a statement evaluates itself."""
    match stmt:
        case Assign(value=value) | Store(value=value):
            return (value.expr,)
        case If(test=test):
            return (test.expr,)
        case Loop(test=test) if test is not None:
            return (test.expr,)
    return ()


def _reads(expr: Expr, symbols: set[Symbol]) -> bool:
    stack = [expr]
    while stack:
        one = stack.pop()
        if isinstance(one, Var | Element) and one.symbol in symbols:
            return True
        if isinstance(one, Unknown) and not one.uniform:
            return True  # nobody knows what it reads
        stack.extend(parts(one))
    return False
