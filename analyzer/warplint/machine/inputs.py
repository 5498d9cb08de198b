"""What the numbers a kernel does not fix are for: which loops they bound, in which units, and how deep its rings are.

Read from the slice that is executed, following values from the loop tests back to where they come from. A persistent
loop over tiles, a loop over K inside it and a ring of S stages are told apart by structure alone: an *outer* input
bounds a loop around another loop that unknown inputs bound, an *inner* one bounds a loop without such a loop inside.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from msgspec import Struct, field

from warplint.machine.definitions import MAX_VISITS, bare, nodes, refers, tests_of
from warplint.machine.rings import Shapes
from warplint.machine.slicing import MEETINGS, Slice
from warplint.program import ir

MAX_STAGES = 8
MAX_UNIT = 1 << 16
WAITS = frozenset({"mbarrier.try_wait", "mbarrier.test_wait"})
STEADY_ROUNDS = "constant"
"""Stands for loops of a pipeline that no input bounds."""
CALLED = "call"
"""Keys of what a pure function gives: ("call", name)."""


class Inputs(Struct):
    """The unknown inputs of a kernel, by keys: ("param", name), ("load", id of the array), ("unknown", reason)..."""

    units: dict[Hashable, int] = field(default_factory=dict)
    """How much of an input makes one round of the loops it bounds: the divisors, shifts and steps on the way there."""
    outer: list[Hashable] = field(default_factory=list)
    inner: list[Hashable] = field(default_factory=list)
    factors: set[Hashable] = field(default_factory=set)
    """Inputs that only multiply another one on the way to a bound: one unit of them is enough."""
    stages: int = 2
    """The deepest ring, at most `MAX_STAGES`."""
    rising: set[Hashable] = field(default_factory=set)
    """Arrays of which differences of elements are taken, the later minus the earlier one (prefix sums)."""
    falling: set[Hashable] = field(default_factory=set)
    """The same, the earlier minus the later one."""
    blocks: tuple[int, ...] = ()
    """Constants that the index of the block is compared with: roles of whole CTAs begin or end there."""


def kind_of(key: Hashable) -> Hashable:
    """The key of an input that an asked key belongs to."""
    if isinstance(key, tuple) and key:
        if key[0] in ("param", "load", "unknown"):
            return key[:2]
        if key[0] == "tally":
            return ("load", key[1])
        if key[0] in ("word", "ticket"):
            return key[0]
        return (CALLED, key[0])
    return key


class Reader(Shapes):
    """Reads one kernel's slice."""

    def __init__(self, kernel: ir.Kernel, part: Slice, known: Mapping[str, int]) -> None:
        super().__init__(kernel, part, known)
        self.found = Inputs(rising=self.rising, falling=self.falling, blocks=tuple(sorted(self.blocks)))
        outer: dict[Hashable, None] = {}
        inner: dict[Hashable, None] = {}
        self.plain: dict[Hashable, None] = {}
        """Inputs that bound loops in which nobody counts on anybody."""
        self.changing: dict[ir.Symbol, list[ir.Assign]] = {}
        """Assignments in the loop that is looked at."""
        self.direct: set[Hashable] = set()
        """Inputs that its test is computed from; others only decide what is assigned to its variables."""
        self._loops(kernel.body, outer, inner)
        for stmt in ir.walk(kernel.body):
            if isinstance(stmt, ir.If) and id(stmt) in part.live:
                self._follow(stmt.test.expr, 1, {}, set())
        inner.update((key, None) for key in self.plain if key not in outer)
        self.found.inner = [key for key in inner if key != STEADY_ROUNDS]
        self.found.outer = [key for key in outer if key not in inner]
        self.found.factors -= {*inner}
        self.found.stages = max((ring for ring in self.rings if ring <= MAX_STAGES), default=0)

    # ------------------------------------------------------------------------------------------------ loops
    def _loops(self, seq: ir.Seq, outer: dict[Hashable, None], inner: dict[Hashable, None]) -> dict[Hashable, None]:
        """Classify the loops below; returns the inputs that bound any of them."""
        bounding: dict[Hashable, None] = {}
        stack: list[ir.Stmt] = [*reversed(seq.body)]
        while stack:
            stmt = stack.pop()
            if id(stmt) not in self.part.live:
                continue
            if isinstance(stmt, ir.Loop):
                if id(stmt) in self.part.spins:
                    continue
                below = self._loops(stmt.body, outer, inner)
                mine: dict[Hashable, int] = {}
                self.changing = {}
                for one in ir.walk(stmt):
                    if isinstance(one, ir.Assign) and id(one) in self.part.live:
                        self.changing.setdefault(one.symbol, []).append(one)
                self.direct.clear()
                for test in tests_of(stmt):
                    self._follow(test, 1, mine, set())
                self.changing = {}
                meets = any(isinstance(one, ir.Do) and one.op.name.startswith(MEETINGS) for one in ir.walk(stmt))
                bounding.update(below)
                if meets:
                    bounding.update(dict.fromkeys(mine))
                if meets and _pipelined(stmt):
                    bounding[STEADY_ROUNDS] = None
                target = outer if any(key not in mine for key in below) else inner if meets else self.plain
                for key in mine:
                    # What only decides whether a constant bound is reached is no bound of its own.
                    (self.plain if target is inner and key not in self.direct else target)[key] = None
                continue
            for child in ir.children(stmt) if not isinstance(stmt, ir.Seq) else ():
                stack.extend(reversed(child.body))
            if isinstance(stmt, ir.Seq):
                stack.extend(reversed(stmt.body))
        return bounding

    def _stride(self, node: ir.Expr, depth: int = 6) -> int:
        """By how much an expression grows in one round of the loop that is looked at, where that is known; else 0."""
        match node:
            case ir.Cast(arg=arg):
                return self._stride(arg, depth)
            case ir.Binary(op="+", left=left, right=right):
                return self._stride(left, depth) + self._stride(right, depth)
            case ir.Binary(op="*", left=left, right=right) if depth:
                for one, other in ((left, right), (right, left)):
                    number = self.number(other, 4)
                    if number is not None:
                        return self._stride(one, depth - 1) * number
            case ir.Var(symbol=symbol) | ir.Element(symbol=symbol) if depth:
                if self.by_thread(symbol):
                    return 0  # threads share the rounds out: a bound that is no multiple shows who has one more
                best = 0
                for stmt in self.changing.get(symbol, ())[:8]:
                    value = bare(stmt.value.expr)
                    if isinstance(value, ir.Binary) and value.op == "+":
                        for one, other in ((value.left, value.right), (value.right, value.left)):
                            if refers(bare(one), symbol):
                                best = max(best, self.number(other, 8) or 0)
                    if not any(refers(part, symbol) for part in nodes(value)):
                        best = max(best, self._stride(value, depth - 1))
                return best
        return 0

    # ------------------------------------------------------------------------------------------- data flow
    def _note(self, key: Hashable, factor: int, found: dict[Hashable, int]) -> None:
        found[key] = max(found.get(key, 1), factor)
        self.found.units[key] = max(self.found.units.get(key, 1), min(factor, MAX_UNIT))

    def _follow(self, tree: ir.Expr, factor: int, found: dict[Hashable, int], seen: set[tuple[ir.Symbol, int]]) -> None:
        """Find the inputs of an expression; `factor` of the expression make one unit."""
        stack: list[tuple[ir.Expr, int, bool]] = [(tree, factor, False)]
        control: list[ir.Expr] = []
        direct = True
        while (stack or control) and self.visits < MAX_VISITS:
            if not stack:
                stack, control, direct = [(test, 1, False) for test in control], [], False
            node, factor, times = stack.pop()
            self.visits += 1
            match node:
                case ir.Var(symbol=symbol) | ir.Element(symbol=symbol):
                    if symbol.kind in ("param", "global", "constant"):
                        if not symbol.pointer and not symbol.dims:
                            self._input(("param", symbol.name), factor, times, found, direct)
                    elif (symbol, factor) not in seen:
                        seen.add((symbol, factor))
                        for stmt in self.assigned.get(symbol, ())[:16]:
                            value = stmt.value.expr
                            if not any(refers(part, symbol) for part in nodes(value)):
                                stack.append((value, factor, times))
                            if isinstance(value, ir.Const):
                                control += self.under.get(id(stmt), ())
                case ir.Load(pointer=pointer):
                    for part in nodes(pointer):
                        base = part.symbol if isinstance(part, ir.Var | ir.Address | ir.Element) else None
                        if base is None:
                            continue
                        if base.kind in ("param", "global", "constant") and (base.pointer or base.dims):
                            self._input(("load", id(base)), factor, times, found, direct)
                        elif base.kind in ("shared", "dynamic_shared") and (base, factor) not in seen:
                            seen.add((base, factor))
                            for store in self.stored:
                                if any(
                                    isinstance(n, ir.Var | ir.Address) and n.symbol is base
                                    for n in nodes(store.pointer.expr)
                                ):
                                    stack += [(w.expr, factor, times) for w in store.words or (store.value,)]
                case ir.Unknown(reason=reason, uniform=True):
                    self._input(("unknown", reason), factor, times, found, direct)
                case ir.Pure(name=name, args=args):
                    self._input((CALLED, name), factor, times, found, direct)
                    stack += [(arg, 1, True) for arg in args]
                case ir.Binary(op="/", left=left, right=ir.Const(value=value)) if value > 0:
                    stack.append((left, min(factor * value, MAX_UNIT), times))
                case ir.Binary(op=">>", left=left, right=ir.Const(value=value)) if 0 <= value <= 16:
                    stack.append((left, min(factor << value, MAX_UNIT), times))
                case ir.Binary(op="*", left=left, right=right) if (known := self.number(right, 3)) and known > 0:
                    stack.append((left, -(-factor // known), times))
                case ir.Binary(op="*", left=left, right=right) if (known := self.number(left, 3)) and known > 0:
                    stack.append((right, -(-factor // known), times))
                case ir.Binary(op="<<", left=left, right=ir.Const(value=value)) if 0 <= value <= 16:
                    stack.append((left, max(factor >> value, 1), times))
                case ir.Binary(op="*" | "/" | "%", left=left, right=right):
                    stack += [(right, 1, True), (left, factor, times)]
                case ir.Binary(op="<" | "<=" | ">" | ">=" | "==" | "!=", left=left, right=right):
                    step = max(self._stride(left), self._stride(right), 1) if self.changing else 1
                    stack += [(right, max(factor, min(step, MAX_UNIT)), times),
                              (left, max(factor, min(step, MAX_UNIT)), times)]  # fmt: skip
                case _:
                    stack += [(part, factor, times) for part in reversed(ir.parts(node))]

    def _input(self, key: Hashable, factor: int, times: bool, found: dict[Hashable, int], direct: bool) -> None:
        if direct:
            self.direct.add(key)
        if times:
            self.found.factors.add(key)
            self.found.units[key] = max(self.found.units.get(key, 1), min(factor, MAX_UNIT))
            found.setdefault(key, 1)
        else:
            self._note(key, factor, found)


def _pipelined(loop: ir.Loop) -> bool:
    """It waits and does something else that others count on: a round of it is a round of a pipeline."""
    names = {stmt.op.name for stmt in ir.walk(loop) if isinstance(stmt, ir.Do)}
    return any(name in WAITS for name in names) and any(
        name.startswith(("mbarrier.arrive", "tcgen05.commit", "cp.async.bulk.tensor", "cp.async.bulk.g2s"))
        for name in names
    )
