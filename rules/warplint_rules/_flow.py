"""Where the result of an operation goes: which conditions, loops and other operations depend on it.

Dependence is over all assignments of the kernel at once (flow-insensitive) and includes control: a local assigned
under a condition that depends on the result depends on it too. It therefore over-approximates; what it does not
find is not there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from warplint.program.ir import (
    Assign,
    Break,
    Const,
    Continue,
    Deferred,
    Do,
    Element,
    Exit,
    Expr,
    If,
    Inline,
    Kernel,
    Leave,
    Loop,
    Operation,
    OpValue,
    Seq,
    Stmt,
    Symbol,
    Unknown,
    Var,
    children,
)
from warplint_rules._order import parts

_JUMPS = (Break, Continue, Leave, Exit)


@dataclass(frozen=True, slots=True)
class _Place:
    """A statement with the loops and ifs around it, outermost first."""

    stmt: Stmt
    loops: tuple[Loop, ...]
    ifs: tuple[If, ...]


class Flow:
    """The statements of one kernel that matter for where results go."""

    def __init__(self, kernel: Kernel) -> None:
        self.places = list(_places(kernel.body))
        self._assigns = [place for place in self.places if isinstance(place.stmt, Assign)]

    def depends_on(self, op: Operation) -> Dependents:
        """What depends on the value of one operation site."""
        symbols: set[Symbol] = set()
        grown = True
        while grown:
            grown = False
            for place in self._assigns:
                stmt = place.stmt
                assert isinstance(stmt, Assign)
                if stmt.symbol in symbols:
                    continue
                if _mentions(stmt.value, op, symbols) or any(_mentions(one.test, op, symbols) for one in place.ifs):
                    symbols.add(stmt.symbol)
                    grown = True
        return Dependents(self, op, symbols)


@dataclass(frozen=True, slots=True)
class Dependents:
    """The locals that depend on a result, and questions about them."""

    flow: Flow
    op: Operation
    symbols: set[Symbol]

    def has(self, expr: Deferred | Expr | None) -> bool:
        """Whether the expression depends on the result."""
        return expr is not None and _mentions(expr, self.op, self.symbols)

    def controls(self, loop: Loop) -> bool:
        """Whether an exit of the loop depends on the result: its test, or a jump under a condition that does."""
        if self.has(loop.test):
            return True
        for place in self.flow.places:
            if isinstance(place.stmt, _JUMPS) and any(one is loop for one in place.loops):
                if any(self.has(one.test) for one in place.ifs):
                    return True
        return False

    def used(self) -> bool:
        """Whether anything at all reads the result."""
        return bool(self.symbols) or any(
            isinstance(place.stmt, If) and self.has(place.stmt.test) for place in self.flow.places
        )

    def branches(self) -> Iterator[If]:
        """The `if`s whose condition depends on the result."""
        for place in self.flow.places:
            if isinstance(place.stmt, If) and self.has(place.stmt.test):
                yield place.stmt


def _places(body: Seq) -> Iterator[_Place]:
    stack: list[_Place] = [_Place(body, (), ())]
    while stack:
        place = stack.pop()
        stmt = place.stmt
        yield place
        if isinstance(stmt, Seq):
            stack.extend(_Place(one, place.loops, place.ifs) for one in reversed(stmt.body))
            continue
        if not isinstance(stmt, If | Loop | Inline):
            continue
        loops = (*place.loops, stmt) if isinstance(stmt, Loop) else place.loops
        ifs = (*place.ifs, stmt) if isinstance(stmt, If) else place.ifs
        stack.extend(_Place(seq, loops, ifs) for seq in reversed(list(children(stmt))))


def _mentions(expr: Deferred | Expr, op: Operation, symbols: set[Symbol]) -> bool:
    stack: list[Expr] = [expr.expr if isinstance(expr, Deferred) else expr]
    while stack:
        one = stack.pop()
        if isinstance(one, OpValue):
            if one.op is op:
                return True
        elif isinstance(one, Var | Element) and one.symbol in symbols:
            return True
        stack.extend(parts(one))
    return False


def site(flow: Flow, op: Operation) -> _Place | None:
    """The statement that executes an operation."""
    return next((p for p in flow.places if isinstance(p.stmt, Do) and p.stmt.op is op), None)


def lost(expr: Deferred) -> bool:
    """The expression holds something that could not be resolved, so a dependence may be hidden in it."""
    stack: list[Expr] = [expr.expr]
    while stack:
        one = stack.pop()
        if isinstance(one, Unknown) and not one.uniform:
            return True
        stack.extend(parts(one))
    return False


def constant(expr: Expr) -> int | None:
    """The value of a literal."""
    return expr.value if isinstance(expr, Const) else None
