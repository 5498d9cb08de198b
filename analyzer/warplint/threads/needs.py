"""Which statements matter to control and synchronisation, so that data arithmetic is never even resolved.

Starting from the operations, jumps and accesses, a statement is relevant when its execution or its value can reach a
condition, an operand or an address that the analysis reports. The slice is by symbol, without regard to order: coarse,
sound, and one pass over the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct, field

from warplint.program.ir import (
    Address,
    Assign,
    Binary,
    Break,
    Cast,
    Deferred,
    Do,
    Element,
    Exit,
    Expr,
    If,
    Inline,
    Kernel,
    Load,
    Loop,
    Opaque,
    Operation,
    OpValue,
    Pure,
    Read,
    Select,
    Seq,
    Stmt,
    Store,
    Symbol,
    Unary,
    Var,
)

DATA_ROLES = frozenset(
    ["desc_a", "desc_b", "idesc", "scale_a", "scale_b", "meta", "selector", "value", "fragment", "data", "offset"]
)
"""Operands that only carry data: nothing about who takes part can be read from them. `value` counts where the result
of its operation matters (a shuffled warp index)."""

DATA_OPERANDS: dict[str, frozenset[str]] = {
    "tcgen05.mma": frozenset(["address", "a_address", "accumulate"]),
    "tcgen05.ld": frozenset(["address"]),
    "tcgen05.st": frozenset(["address"]),
    "tcgen05.cp": frozenset(["address"]),
    "stmatrix": frozenset(["dst", "address"]),
    "ldmatrix": frozenset(["src", "address"]),
    "prefetch": frozenset(["src"]),
}
"""Operands that are data for some operations only."""

BARRIER_ROLES = ("barrier", "parity", "state")
NOTHING: frozenset[str] = frozenset()
MAX_EXPRESSION = 20_000
"""Nodes of one expression looked at."""


def inside(expr: Expr) -> Iterator[Expr]:
    """The sub-expressions of an expression, itself included, up to a bound."""
    stack, seen = [expr], 0
    while stack and seen < MAX_EXPRESSION:
        top = stack.pop()
        seen += 1
        yield top
        kind = type(top)
        if kind is Binary:
            stack += (top.left, top.right)  # type: ignore[attr-defined]
        elif kind is Cast or kind is Unary:
            stack.append(top.arg)  # type: ignore[attr-defined]
        elif kind is Address:
            stack.append(top.offset)  # type: ignore[attr-defined]
        elif kind is Load:
            stack.append(top.pointer)  # type: ignore[attr-defined]
        elif kind is Element:
            stack.append(top.index)  # type: ignore[attr-defined]
        elif kind is Select:
            stack += (top.test, top.yes, top.no)  # type: ignore[attr-defined]
        elif kind is Pure:
            stack += top.args  # type: ignore[attr-defined]


def symbols_of(expr: Expr) -> list[Symbol]:
    """The symbols whose value an expression reads, in order of appearance."""
    return list(dict.fromkeys([part.symbol for part in inside(expr) if isinstance(part, (Var, Element))]))


def operation_values(expr: Expr) -> list[Operation]:
    """The operations whose results an expression reads."""
    return [part.op for part in inside(expr) if type(part) is OpValue]  # type: ignore[attr-defined]


class LoopNeeds(Struct):
    """What one loop does, before it is executed."""

    stmt: Loop
    outer: LoopNeeds | None = None
    written: dict[Symbol, int] = field(default_factory=dict)
    """Symbols assigned inside, in order, with the number of places that do."""
    assigns: list[Assign] = field(default_factory=list)
    breaks: list[If] = field(default_factory=list)
    """Conditions inside the loop that guard a break out of it."""
    state: tuple[Symbol, ...] = ()
    size: int = 0
    operations: list[Operation] = field(default_factory=list)
    tests: list[Deferred] = field(default_factory=list)
    """Conditions of branches inside."""
    has_exit: bool = False

    def take(self, inner: LoopNeeds) -> None:
        """Adds what a loop inside this one does."""
        for symbol, count in inner.written.items():
            self.written[symbol] = self.written.get(symbol, 0) + count
        self.assigns += inner.assigns
        self.operations += inner.operations
        self.tests += inner.tests
        self.size += inner.size
        self.has_exit = self.has_exit or inner.has_exit


class Needs:
    """The slice of one kernel.

    `bodies` maps each sequence (by identity) to its relevant statements; `symbols` are those whose values matter;
    `state` those that loop exits, parities or barrier addresses depend on, one assignment deep.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.symbols: dict[Symbol, None] = {}
        self.loops: dict[int, LoopNeeds] = {}
        self.used: set[int] = set()
        self.state: set[Symbol] = set()
        self.accesses: set[int] = set()
        self.operations: list[Operation] = []
        self._assigns: dict[Symbol, list[tuple[Assign, Stmt | None]]] = {}
        self._parents: dict[int, Stmt | None] = {}
        self._relevant: set[int] = set()
        self._work: list[Symbol] = []
        self._bodies: dict[int, tuple[Stmt, ...]] = {}
        roots = self._collect(kernel)
        for stmt in roots:
            self._root(stmt)
        self._drain()
        self._states()

    # ---------------------------------------------------------------------------------------------- collecting
    def _collect(self, kernel: Kernel) -> list[Stmt]:
        """One pass over the kernel; gives the statements that matter by themselves."""
        roots: list[Stmt] = []
        parents, assigns = self._parents, self._assigns
        stack: list[tuple[Seq, Stmt | None, LoopNeeds | None]] = [(kernel.body, None, None)]
        while stack:
            seq, parent, loop = stack.pop()
            for stmt in seq.body:
                if isinstance(stmt, Assign):
                    assigns.setdefault(stmt.symbol, []).append((stmt, parent))
                    if loop is not None:
                        loop.written[stmt.symbol] = loop.written.get(stmt.symbol, 0) + 1
                        loop.assigns.append(stmt)
                    continue
                if isinstance(stmt, Seq):
                    stack.append((stmt, parent, loop))
                    continue
                parents[id(stmt)] = parent
                if loop is not None:
                    loop.size += 1
                if isinstance(stmt, If):
                    if loop is not None:
                        loop.tests.append(stmt.test)
                    stack += ((stmt.then, stmt, loop), (stmt.orelse, stmt, loop))
                elif isinstance(stmt, Inline):
                    stack.append((stmt.body, stmt, loop))
                elif isinstance(stmt, Loop):
                    own = self.loops[id(stmt)] = LoopNeeds(stmt, loop)
                    stack += ((stmt.prelude, stmt, own), (stmt.body, stmt, own), (stmt.step, stmt, own))
                else:
                    roots.append(stmt)
                    self._leaf(stmt, parent, loop)
        for own in reversed(self.loops.values()):
            if own.outer is not None:
                own.outer.take(own)
        return roots

    def _leaf(self, stmt: Stmt, parent: Stmt | None, loop: LoopNeeds | None) -> None:
        if isinstance(stmt, Do):
            self.operations.append(stmt.op)
            if loop is not None:
                loop.operations.append(stmt.op)
        elif loop is None:
            return
        elif isinstance(stmt, Exit):
            loop.has_exit = True
        elif isinstance(stmt, Break):
            up = parent
            while up is not None and up is not loop.stmt:
                if isinstance(up, If):
                    loop.breaks.append(up)
                up = self._parents.get(id(up))
        elif isinstance(stmt, Opaque):
            for symbol in stmt.writes:
                loop.written[symbol] = loop.written.get(symbol, 0) + 1

    # ---------------------------------------------------------------------------------------------- relevance
    def _root(self, stmt: Stmt) -> None:
        if isinstance(stmt, (Store, Read)):
            pointer = stmt.pointer.expr
            symbols = [part.symbol for part in inside(pointer) if isinstance(part, (Var, Address, Element))]
            if not any(symbol.kind in ("shared", "dynamic_shared") for symbol in symbols):
                if not any(symbol.kind == "local" and symbol.pointer for symbol in symbols):
                    return
            self.accesses.add(id(stmt))
            self._need(pointer)
        self._mark(stmt)
        if isinstance(stmt, Do):
            for role in self.roles(stmt.op):
                self._need(stmt.op.operands[role])
            if stmt.op.predicate is not None:
                self._need(stmt.op.predicate)

    def _mark(self, stmt: Stmt | None) -> None:
        while stmt is not None and id(stmt) not in self._relevant:
            self._relevant.add(id(stmt))
            if isinstance(stmt, (If, Loop)) and stmt.test is not None:
                self._need(stmt.test.expr)
            stmt = self._parents.get(id(stmt))

    def _need(self, expr: Expr) -> None:
        for part in inside(expr):
            kind = type(part)
            if kind is Var or kind is Element:
                symbol = part.symbol  # type: ignore[attr-defined]
                if symbol not in self.symbols:
                    self.symbols[symbol] = None
                    self._work.append(symbol)
            elif kind is OpValue and id(part.op) not in self.used:  # type: ignore[attr-defined]
                op = part.op  # type: ignore[attr-defined]
                self.used.add(id(op))
                if "value" in op.operands:
                    self._need(op.operands["value"])

    def roles(self, op: Operation) -> list[str]:
        """The operands of an operation that are evaluated."""
        used = id(op) in self.used
        data = DATA_OPERANDS.get(op.name, NOTHING)
        load = op.name == "cp.async.bulk.tensor.load"
        return [
            role
            for role in op.operands
            if (role not in DATA_ROLES and role not in data and not (load and role.startswith("coords")))
            or (used and role == "value")
        ]

    def _drain(self) -> None:
        while self._work:
            for assign, parent in self._assigns.get(self._work.pop(), ()):
                self._need(assign.value.expr)
                if assign.index is not None:
                    self._need(assign.index.expr)
                self._relevant.add(id(assign))
                self._mark(parent)

    def body(self, seq: Seq) -> tuple[Stmt, ...]:
        """The statements of a sequence that matter, nested sequences flattened."""
        held = self._bodies.get(id(seq))
        if held is None:
            flat: list[Stmt] = []
            stack = list(reversed(seq.body))
            while stack:
                stmt = stack.pop()
                if isinstance(stmt, Seq):
                    stack += reversed(stmt.body)
                elif id(stmt) in self._relevant:
                    flat.append(stmt)
            held = self._bodies[id(seq)] = tuple(flat)
        return held

    def relevant(self, stmt: Stmt) -> bool:
        """Whether the statement matters."""
        return id(stmt) in self._relevant

    def only_value(self, symbol: Symbol) -> Expr | None:
        """The expression of a symbol assigned at exactly one place."""
        assigns = self._assigns.get(symbol, ())
        return assigns[0][0].value.expr if len(assigns) == 1 and symbol in self.symbols else None

    def expressions(self) -> Iterator[Expr]:
        """The resolved values of relevant assignments, and the operands of operations."""
        for symbol in self.symbols:
            for assign, _ in self._assigns.get(symbol, ()):
                yield assign.value.expr
        for op in self.operations:
            yield from op.operands.values()

    # ------------------------------------------------------------------------------------------ loop state
    def _states(self) -> None:
        roots: dict[Symbol, None] = {}
        for needs in self.loops.values():
            if id(needs.stmt) not in self._relevant:
                continue
            direct: dict[Symbol, None] = {}
            if needs.stmt.test is not None:
                direct.update(dict.fromkeys(symbols_of(needs.stmt.test.expr)))
            for test in needs.breaks:
                direct.update(dict.fromkeys(symbols_of(test.test.expr)))
            roots.update(direct)
            needs.state = tuple(symbol for symbol in self._one_deep(direct) if symbol in needs.written)
        for operand in self._barrier_operands():
            roots.update(dict.fromkeys(symbols_of(operand)))
        self.state = set(self._one_deep(roots))

    def _one_deep(self, symbols: dict[Symbol, None]) -> dict[Symbol, None]:
        result = dict(symbols)
        for symbol in symbols:
            for assign, _ in self._assigns.get(symbol, ()):
                result.update(dict.fromkeys(symbols_of(assign.value.expr)))
        return {symbol: None for symbol in result if symbol.kind in ("local", "param")}

    def _barrier_operands(self) -> Iterator[Expr]:
        seen: set[int] = set()
        for op in self.operations:
            if id(op) in seen:
                continue
            seen.add(id(op))
            for role in BARRIER_ROLES:
                expr = op.operands.get(role)
                if expr is not None:
                    yield expr
