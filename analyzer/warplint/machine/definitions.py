"""Where the variables of a kernel's slice get their values from, and under which conditions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from warplint.machine.slicing import Slice
from warplint.program import ir

MAX_VISITS = 20_000
"""Steps of following values, of one kernel."""
STEADY = frozenset({"elect.sync", "shfl.sync", "mapa"})
"""Operations whose results are fixed when their operands are."""
MAX_NESTED = 3
"""Conditions around an assignment that are followed."""


class Definitions:
    """All assignments of a slice."""

    def __init__(self, kernel: ir.Kernel, part: Slice, known: Mapping[str, int]) -> None:
        self.part = part
        self.known = known
        """Numbers of coordinates that every scenario gives: `nctaid.x` ..."""
        self.assigned: dict[ir.Symbol, list[ir.Assign]] = {}
        self.stored: list[ir.Store] = []
        self.under: dict[int, tuple[ir.Expr, ...]] = {}
        """Conditions inside its loop around an assignment (by identity)."""
        self.inside: dict[int, tuple[ir.Expr, ...]] = {}
        """All conditions around it, those of loops too, outermost first."""
        self.places: dict[int, tuple[int, tuple[int, ...]]] = {}
        """Where an assignment, operation or condition (by identity) stands: its rank, and the sequences around it."""
        self.visits = 0
        self._conditions(kernel.body)
        self._places(kernel.body)
        for stmt in ir.walk(kernel.body):
            if id(stmt) not in part.live:
                continue
            if isinstance(stmt, ir.Assign):
                self.assigned.setdefault(stmt.symbol, []).append(stmt)
            elif isinstance(stmt, ir.Store) and id(stmt) in part.data:
                self.stored.append(stmt)

    def _conditions(self, body: ir.Seq) -> None:
        """The conditions inside its loop under which a statement assigns: they decide what it leaves behind."""
        stack: list[tuple[ir.Stmt, tuple[ir.Expr, ...], tuple[ir.Expr, ...]]] = [(body, (), ())]
        while stack:
            stmt, tests, every = stack.pop()
            if id(stmt) not in self.part.live:
                continue
            if isinstance(stmt, ir.Assign) and every:
                self.under[id(stmt)] = tests[-MAX_NESTED:]
                self.inside[id(stmt)] = every
            if isinstance(stmt, ir.Loop):
                tests, every = (), (*every, *tests_of(stmt, (*ENDS, ir.Continue)))
            elif isinstance(stmt, ir.If):
                tests, every = (*tests, stmt.test.expr), (*every, stmt.test.expr)
            below = stmt.body if isinstance(stmt, ir.Seq) else tuple(ir.children(stmt))
            stack += [(one, tests, every) for one in below]

    def _places(self, body: ir.Seq) -> None:
        stack: list[tuple[ir.Stmt, tuple[int, ...]]] = [(body, ())]
        while stack:
            stmt, around = stack.pop()
            if id(stmt) not in self.part.live:
                continue
            if isinstance(stmt, ir.Assign):
                self.places[id(stmt)] = (len(self.places), around)
            elif isinstance(stmt, ir.Do):
                self.places[id(stmt.op)] = (len(self.places), around)
            elif isinstance(stmt, ir.If | ir.Loop) and stmt.test is not None:
                self.places[id(stmt.test.expr)] = (len(self.places), around)
            below = stmt.body if isinstance(stmt, ir.Seq) else tuple(ir.children(stmt))
            around = (*around, id(stmt)) if isinstance(stmt, ir.Seq) else around
            stack += [(one, around) for one in reversed(below)]

    def _reaching(self, symbol: ir.Symbol, user: int) -> tuple[list[ir.Assign], int]:
        """The assignments that a variable may have its value from at `user`, and how many of the outermost conditions
        around them have no part in that.

        An assignment before the user, in one of the sequences around it, is made anew whenever that sequence is
        entered: only what stands behind it in this sequence comes after it, and how often it is entered does not
        matter.
        """
        made = self.assigned.get(symbol, [])
        here = self.places.get(user)
        if here is None or (symbol.dims != (1,) and any(stmt.index is not None for stmt in made)):
            return made, 0
        rank, around = here
        before = [(place, stmt) for stmt in made
                  if (place := self.places[id(stmt)])[0] < rank and place[1][-1] in around]  # fmt: skip
        if not before:
            return made, 0
        (first, sequences), last = max(before, key=lambda one: one[0][0])
        places = ((stmt, self.places[id(stmt)]) for stmt in made)
        left = [stmt for stmt, (at, inside) in places if at >= first and sequences[-1] in inside]
        return left, len(self.inside.get(id(last), ()))

    def fixed(self, tree: ir.Expr, given: Collection[int] = (), user: int = 0) -> bool:
        """No unknown input has a part in its value, nor in how often and whether its variables are assigned.

        `given` are conditions (by identity) that hold where it is looked at: by `user` (a key of `places`).
        """
        pending: list[tuple[ir.Expr, int]] = [(tree, user)]
        seen: set[tuple[ir.Assign, int]] = set()
        trees: set[tuple[int, int]] = set()
        while pending:
            top, user = pending.pop()
            if (id(top), user) in trees:
                continue
            trees.add((id(top), user))
            self.visits += 1
            if self.visits > MAX_VISITS:
                return False
            for node in nodes(top):
                match node:
                    case ir.Load() | ir.Unknown() | ir.Pure():
                        return False
                    case ir.OpValue(op=op):
                        if op.name not in STEADY:
                            return False
                        pending += [(one, id(op)) for role, one in op.operands.items() if role in ("value", "lane")]
                    case ir.Special(name=name):
                        if name.startswith(("ctaid", "nctaid", "clusterid", "clock", "smid", "gridid", "dynamic")):
                            return False
                    case ir.Var(symbol=symbol) | ir.Element(symbol=symbol):
                        if symbol.kind in ("param", "global", "constant") and not (symbol.pointer or symbol.dims):
                            return False
                        made, outside = self._reaching(symbol, user)
                        for stmt in made:
                            if (stmt, outside) not in seen:
                                seen.add((stmt, outside))
                                pending.append((stmt.value.expr, id(stmt)))
                                tests = self.inside.get(id(stmt), ())[outside:]
                                pending += [(one, id(one)) for one in tests if id(one) not in given]
        return True

    def tested(self, tree: ir.Expr, names: Collection[str]) -> bool:
        """Its value is made of results of these operations and of constants alone."""
        pending, seen, found = [tree], set[ir.Symbol](), False
        while pending:
            for node in nodes(pending.pop()):
                if isinstance(node, ir.OpValue):
                    if node.op.name not in names:
                        return False
                    found = True
                elif isinstance(node, ir.Load | ir.Unknown | ir.Pure | ir.Special):
                    return False
                elif isinstance(node, ir.Var | ir.Element) and node.symbol not in seen:
                    seen.add(node.symbol)
                    if node.symbol.kind != "local":
                        return False
                    pending += [stmt.value.expr for stmt in self.assigned.get(node.symbol, ())]
        return found

    def by_thread(self, symbol: ir.Symbol, depth: int = 3) -> bool:
        """Some value of a variable is made of the index of the thread or warp."""
        for stmt in self.assigned.get(symbol, ())[:16]:
            for node in nodes(stmt.value.expr):
                if isinstance(node, ir.Special) and node.name.startswith(("tid", "laneid", "linear_tid", "warpid")):
                    return True
                if isinstance(node, ir.Var | ir.Element) and node.symbol is not symbol and depth:
                    if len(self.assigned.get(node.symbol, ())) == 1 and self.by_thread(node.symbol, depth - 1):
                        return True
        return False

    def number(self, node: ir.Expr, depth: int) -> int | None:
        """A constant, or one made of the coordinates that every scenario gives."""
        match node:
            case ir.Const(value=value):
                return value
            case ir.Special(name=name):
                return self.known.get(name)
            case ir.Cast(arg=arg):
                return self.number(arg, depth)
            case ir.Binary(op=op, left=left, right=right) if depth and op in ("*", "+", "-", "/"):
                one, two = self.number(left, depth - 1), self.number(right, depth - 1)
                if one is None or two is None or (op == "/" and two == 0):
                    return None
                return {"*": one * two, "+": one + two, "-": one - two, "/": one // (two or 1)}[op]
            case ir.Var(symbol=symbol) | ir.Element(symbol=symbol) if depth:
                made = self.assigned.get(symbol, ())
                return self.number(made[0].value.expr, depth - 1) if len(made) == 1 else None
        return None


ENDS = (ir.Break, ir.Exit, ir.Leave)
"""What ends a loop."""


def tests_of(loop: ir.Loop, jumps: tuple[type[ir.Stmt], ...] = ENDS) -> Iterator[ir.Expr]:
    """The conditions that end a loop: its own, and those of breaks (or of other jumps in it)."""
    if loop.test is not None:
        yield loop.test.expr
    stack: list[tuple[ir.Stmt, tuple[ir.Expr, ...]]] = [(stmt, ()) for stmt in loop.body.body]
    while stack:
        stmt, tests = stack.pop()
        if isinstance(stmt, jumps):
            yield from tests
        elif isinstance(stmt, ir.If):
            inside = (*tests, stmt.test.expr) if len(tests) < 4 else tests
            stack += [(one, inside) for one in (*stmt.then.body, *stmt.orelse.body)]
        elif isinstance(stmt, ir.Seq):
            stack += [(one, tests) for one in stmt.body]
        elif isinstance(stmt, ir.Inline):
            stack += [(one, tests) for one in stmt.body.body if not isinstance(one, ir.Leave)]


def bare(node: ir.Expr) -> ir.Expr:
    """An expression without the conversions around it."""
    while isinstance(node, ir.Cast):
        node = node.arg
    return node


def refers(node: ir.Expr, symbol: ir.Symbol) -> bool:
    """It reads this variable."""
    return isinstance(node, ir.Var | ir.Element) and node.symbol is symbol


def nodes(tree: ir.Expr) -> Iterator[ir.Expr]:
    """An expression and all its parts."""
    stack = [tree]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(ir.parts(node))
