"""Loops that wait for another thread through memory: a flag, a lock."""

from __future__ import annotations

from warplint.program.ir import (
    Assign,
    Break,
    Deferred,
    Element,
    Exit,
    Expr,
    If,
    Leave,
    Load,
    Loop,
    OpValue,
    Seq,
    Stmt,
    Symbol,
    Var,
    children,
    parts,
)
from warplint.threads.facts import Roles

_MEMORY_READS = ("ld", "atom", "cuda::")


def spins(roles: Roles) -> bool:
    """Some loop's exit depends on memory that only another thread can change: a flag, a lock."""
    changed: set[Symbol] = set()
    tests: list[Deferred] = []
    # Each statement with the `if`s around it, counted from the outermost loop (None outside of loops).
    stack: list[tuple[Stmt, tuple[If, ...] | None]] = [(roles.kernel.body, None)]
    while stack:
        stmt, ifs = stack.pop()
        match stmt:
            case Seq(body=body):
                stack.extend((one, ifs) for one in body)
                continue
            case Assign(symbol=symbol):
                changed.add(symbol)
                continue
            case Break() | Leave() | Exit():
                tests.extend(one.test for one in ifs or ())
                continue
            case Loop(test=test):
                if test is not None:
                    tests.append(test)
                ifs = ifs or ()
            case If() if ifs is not None:
                ifs = (*ifs, stmt)
        stack.extend((seq, ifs) for seq in children(stmt))
    return any(_reads_memory(test, changed) for test in {id(test): test for test in tests}.values())


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
