"""Where the result of an operation goes: which conditions, loops and other operations depend on it.

Asked backwards: from a condition through the assignments of the locals it reads, whoever makes them and whenever
(flow-insensitive), and through the conditions that control those assignments. That over-approximates, so what is not
found is not there; and it resolves only the expressions on the way, which matters in kernels of mostly arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from warplint.memo import remembered
from warplint.program.ir import (
    Assign,
    Break,
    Continue,
    Deferred,
    Do,
    Element,
    Exit,
    Expr,
    If,
    Inline,
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
    parts,
)
from warplint.threads.facts import Roles

_JUMPS = (Break, Continue, Leave, Exit)


class Place(Struct, frozen=True):
    """A statement with the loops and ifs around it, outermost first."""

    stmt: Stmt
    loops: tuple[Loop, ...]
    ifs: tuple[If, ...]


class Flow:
    """The statements of one kernel that decide where results go."""

    def __init__(self, body: Seq) -> None:
        self.ops: dict[int, Place] = {}
        """The place of each operation, by its identity."""
        self.loops: list[Loop] = []
        self.branches: list[If] = []
        self._assigns: dict[Symbol, list[Place]] = {}
        self._exits: dict[int, list[If]] = {}
        self._behind: dict[int, frozenset[int]] = {}
        for place in _places(body):
            stmt = place.stmt
            if isinstance(stmt, Do):
                self.ops[id(stmt.op)] = place
            elif isinstance(stmt, Assign):
                self._assigns.setdefault(stmt.symbol, []).append(place)
            elif isinstance(stmt, Loop):
                self.loops.append(stmt)
            elif isinstance(stmt, If):
                self.branches.append(stmt)
            elif isinstance(stmt, _JUMPS):
                for loop in place.loops:
                    self._exits.setdefault(id(loop), []).extend(place.ifs)

    def decides(self, op: Operation, test: Deferred | Expr | None) -> bool:
        """Whether an expression depends on the result of an operation."""
        return test is not None and id(op) in self._ops_behind(test)

    def ends(self, op: Operation, loop: Loop) -> bool:
        """Whether an exit of the loop depends on the result: its test, or a jump under a condition that does."""
        exits = {id(branch): branch.test for branch in self._exits.get(id(loop), ())}
        return self.decides(op, loop.test) or any(self.decides(op, test) for test in exits.values())

    def _ops_behind(self, start: Deferred | Expr) -> frozenset[int]:
        """The operations whose results an expression depends on."""
        known = self._behind.get(id(start)) if isinstance(start, Deferred) else None
        if known is not None:
            return known
        found: set[int] = set()
        symbols: set[Symbol] = set()
        tests: set[int] = set()
        stack: list[Expr] = [_expr(start)]
        while stack:
            one = stack.pop()
            if isinstance(one, OpValue):
                found.add(id(one.op))
            elif isinstance(one, Var | Element) and one.symbol not in symbols:
                symbols.add(one.symbol)
                for place in self._assigns.get(one.symbol, ()):
                    assert isinstance(place.stmt, Assign)
                    stack.append(place.stmt.value.expr)
                    for branch in place.ifs:
                        if id(branch) not in tests:
                            tests.add(id(branch))
                            stack.append(branch.test.expr)
            stack.extend(parts(one))
        result = frozenset(found)
        if isinstance(start, Deferred):
            self._behind[id(start)] = result
        return result


@remembered(2)
def flow_of(roles: Roles) -> Flow:
    """The flow of one kernel."""
    return Flow(roles.kernel.body)


def _expr(value: Deferred | Expr) -> Expr:
    return value.expr if isinstance(value, Deferred) else value


def _places(body: Seq) -> Iterator[Place]:
    stack: list[Place] = [Place(body, (), ())]
    while stack:
        place = stack.pop()
        stmt = place.stmt
        if isinstance(stmt, Seq):
            stack.extend(Place(one, place.loops, place.ifs) for one in reversed(stmt.body))
            continue
        yield place
        if not isinstance(stmt, If | Loop | Inline):
            continue
        loops = (*place.loops, stmt) if isinstance(stmt, Loop) else place.loops
        ifs = (*place.ifs, stmt) if isinstance(stmt, If) else place.ifs
        stack.extend(Place(seq, loops, ifs) for seq in reversed(list(children(stmt))))


def lost(tests: Iterable[Deferred]) -> bool:
    """Some condition holds something that could not be resolved, so a dependence may be hidden in it."""
    for test in tests:
        stack: list[Expr] = [test.expr]
        while stack:
            one = stack.pop()
            if isinstance(one, Unknown) and not one.uniform:
                return True
            stack.extend(parts(one))
    return False
