"""How deep a kernel's rings are, which way the numbers of its arrays go, and which blocks it tells apart."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from warplint.machine.definitions import Definitions, bare, nodes, refers
from warplint.machine.slicing import Slice
from warplint.program import ir


class Shapes(Definitions):
    """Structure that is seen in single expressions."""

    def __init__(self, kernel: ir.Kernel, part: Slice, known: Mapping[str, int]) -> None:
        super().__init__(kernel, part, known)
        self.rings: set[int] = set()
        self.blocks: set[int] = set()
        """Constants that the index of the block is compared with: roles of whole CTAs begin or end there."""
        self.rising: set[Hashable] = set()
        """Arrays of which differences of elements are taken, the later minus the earlier one (prefix sums)."""
        self.falling: set[Hashable] = set()
        """The same, the earlier minus the later one."""
        self.barriers = any(
            isinstance(stmt, ir.Do) and stmt.op.name == "mbarrier.init" for stmt in ir.walk(kernel.body)
        )
        """Rings are rings of mbarriers."""
        for stmt in ir.walk(kernel.body):
            if id(stmt) in part.live:
                self._look(stmt)

    def _look(self, stmt: ir.Stmt) -> None:
        """Rings, block indices and the units of what other conditions look at."""
        trees: list[ir.Expr] = []
        match stmt:
            case ir.If(test=test):
                trees = [test.expr]
                self._wrap(test.expr, [s for s in stmt.then.body if isinstance(s, ir.Assign)])
            case ir.Loop(test=test) if test is not None:
                trees = [test.expr]
            case ir.Assign(symbol=symbol, index=index, value=value):
                trees = [value.expr] if index is None else [value.expr, index.expr]
                self._select(symbol, value.expr)
            case ir.Do(op=op):
                trees = [op.operands[role] for role in op.operands if not role.startswith("coords")]
                group = op.operands.get("group")
                if op.name.endswith("wait_group") and isinstance(group, ir.Const) and group.value > 0:
                    self.rings.add(group.value + 1)
            case ir.Store(pointer=pointer):
                trees = [pointer.expr]
        named = self._follow_barrier(stmt.op) if isinstance(stmt, ir.Do) else set[int]()
        for tree in trees:
            for node in nodes(tree):
                if not isinstance(node, ir.Binary):
                    continue
                right = node.right
                if node.op == "-":
                    self._falls(node)
                if self.barriers and id(node) not in named and node.op in ("%", "&"):
                    pass  # a swizzle, mostly
                elif node.op == "%" and isinstance(right, ir.Const) and self._counts(node.left):
                    self.rings.add(right.value)
                elif node.op == "&" and isinstance(right, ir.Const) and self._counts(node.left):
                    if right.value & (right.value + 1) == 0:
                        self.rings.add(right.value + 1)
                elif node.op in ("<", "<=", ">", ">=", "==", "!=") and isinstance(right, ir.Const):
                    if self._special(node.left) in ("ctaid.x", "clusterid.x") and right.value > 0:
                        self.blocks.add(right.value)

    def _follow_barrier(self, op: ir.Operation) -> set[int]:
        """The parts of the address of an operation's mbarrier, through variables that are assigned once."""
        tree = op.operands.get("barrier")
        pending, found = [tree] if tree is not None else [], set[int]()
        while pending and len(found) < 200:
            for node in nodes(pending.pop()):
                if id(node) in found:
                    continue
                found.add(id(node))
                if isinstance(node, ir.Binary) and node.op in ("%", "&") and isinstance(node.right, ir.Const):
                    ring = node.right.value + (node.op == "&")
                    if self._counts(node.left) and (node.op == "%" or ring & (ring - 1) == 0):
                        self.rings.add(ring)
                made = self.assigned.get(node.symbol, ()) if isinstance(node, ir.Var) else ()
                if len(made) == 1:
                    pending.append(made[0].value.expr)
        return found

    def _special(self, node: ir.Expr) -> str:
        while isinstance(node, ir.Cast):
            node = node.arg
        if isinstance(node, ir.Var):
            made = self.assigned.get(node.symbol, ())
            return self._special(made[0].value.expr) if len(made) == 1 else ""
        return node.name if isinstance(node, ir.Special) else ""

    def _counts(self, node: ir.Expr, depth: int = 4) -> bool:
        """It is made of a variable that is counted up, and of no thread's index."""
        counted = False
        for part in nodes(node):
            if isinstance(part, ir.Special | ir.OpValue | ir.Load):
                return False
            if isinstance(part, ir.Var | ir.Element):
                made = self.assigned.get(part.symbol, ())
                if len(made) == 1 and depth and not any(refers(one, part.symbol) for one in nodes(made[0].value.expr)):
                    counted = counted or self._counts(made[0].value.expr, depth - 1)
                else:
                    counted = counted or len(made) > 0
        return counted

    def _wrap(self, test: ir.Expr, then: list[ir.Assign]) -> None:
        """`if (x == S) x = 0`, `if (S <= x) x -= S`."""
        test = bare(test)
        if not isinstance(test, ir.Binary):
            return
        op, left, right = test.op, bare(test.left), test.right
        if isinstance(left, ir.Const):
            op, left, right = {"<=": ">=", "<": ">", "==": "=="}.get(op, ""), bare(right), left
        if op in ("==", ">=", ">") and isinstance(right, ir.Const):
            for stmt in then:
                value = bare(stmt.value.expr)
                back = isinstance(value, ir.Binary) and value.op == "-" and value.right == right
                back = back or (isinstance(value, ir.Const) and value.value == 0)
                if back and refers(left, stmt.symbol):
                    self.rings.add(right.value + (op == ">"))

    def _select(self, symbol: ir.Symbol, value: ir.Expr) -> None:
        """`x = x + 1 == S ? 0 : x + 1`, `x = x == S - 1 ? 0 : x + 1`."""
        value = bare(value)
        if not isinstance(value, ir.Select):
            return
        test = bare(value.test)
        if isinstance(test, ir.Binary) and isinstance(test.right, ir.Const) and test.op in ("==", ">=", "<", "!="):
            zero = bare(value.yes) if test.op in ("==", ">=") else bare(value.no)
            if isinstance(zero, ir.Const) and zero.value == 0:
                left = bare(test.left)
                if refers(left, symbol):
                    self.rings.add(test.right.value + 1)
                elif any(refers(node, symbol) for node in nodes(left)):
                    self.rings.add(test.right.value)

    def _falls(self, node: ir.Binary) -> None:
        """`a[i + 1] - a[i]`: which way the numbers of an array go, so that the difference is positive."""
        one, two = self._element(node.left), self._element(node.right)
        if one is not None and two is not None and one[0] == two[0] and one[1] == two[1] and one[2] != two[2]:
            key = ("load", one[0])
            if key not in self.rising and key not in self.falling:
                (self.rising if one[2] > two[2] else self.falling).add(key)

    def _element(self, node: ir.Expr) -> tuple[int, Hashable, int] | None:
        """The array, the variable part and the constant part of the address that a number was loaded from."""
        for _ in range(8):
            node = bare(node)
            match node:
                case ir.Binary(op="+" | "-", left=left, right=ir.Const()):
                    node = left
                case ir.Var(symbol=symbol) | ir.Element(symbol=symbol):
                    index = node.index if isinstance(node, ir.Element) else None
                    made = [
                        stmt.value.expr
                        for stmt in self.assigned.get(symbol, ())
                        if (stmt.index.expr if stmt.index is not None else None) == index
                        and not any(refers(part, symbol) for part in nodes(stmt.value.expr))
                    ]
                    if len(made) != 1:
                        return None
                    node = made[0]
                case ir.Load(pointer=pointer):
                    terms: dict[ir.Expr, int] = {}
                    constant = _linear(pointer, 1, terms, [64])
                    bases = [t.symbol for t in terms if isinstance(t, ir.Var) and (t.symbol.pointer or t.symbol.dims)]
                    if constant is None or len(bases) != 1:
                        return None
                    return id(bases[0]), frozenset(terms.items()), constant
                case _:
                    return None
        return None


def _linear(node: ir.Expr, factor: int, terms: dict[ir.Expr, int], budget: list[int]) -> int | None:
    """Add `factor` times an expression, as a sum of multiples of other expressions; its constant. None: too large."""
    budget[0] -= 1
    if budget[0] < 0:
        return None
    node = bare(node)
    match node:
        case ir.Const(value=value):
            return factor * value
        case ir.Binary(op="+" | "-" as op, left=left, right=right):
            one = _linear(left, factor, terms, budget)
            two = _linear(right, factor if op == "+" else -factor, terms, budget)
            return None if one is None or two is None else one + two
        case ir.Binary(op="*", left=left, right=ir.Const(value=value)):
            return _linear(left, factor * value, terms, budget)
        case ir.Binary(op="*", left=ir.Const(value=value), right=right):
            return _linear(right, factor * value, terms, budget)
        case ir.Address(symbol=symbol, offset=offset):
            terms[ir.Var(symbol)] = terms.get(ir.Var(symbol), 0) + factor
            return _linear(offset, factor, terms, budget)
    terms[node] = terms.get(node, 0) + factor
    return 0
