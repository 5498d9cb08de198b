"""What of a kernel is executed: what control, synchronisation and accesses to shared memory depend on, and nothing
else.

A statement is live when it has an effect the machine models, when it assigns a variable that matters, or when it
encloses
such a statement. Tests of live branches and loops matter; jumps matter when what they leave is live.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from msgspec import Struct, field

from warplint.program import ir

WARP_VALUES = frozenset({"shfl.sync", "vote.sync", "match.sync", "redux.sync", "activemask", "elect.sync", "mapa",
                         "clusterlaunchcontrol.query_cancel"})  # fmt: skip
"""Operations that only make a value: executed when the value matters."""
POLLED = ("ld.", "atom", "red")
"""Beginnings of the names of operations that read a word other threads change."""
MAX_SPIN = 60
IGNORED = frozenset({"map", "value", "compare"})
BYTES = {"bool": 1, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "i32": 4, "u32": 4, "f32": 4, "i64": 8, "u64": 8, "f64": 8}


class Slice(Struct):
    """The live statements (by identity) and variables of a kernel."""

    live: set[int] = field(default_factory=set)
    symbols: set[ir.Symbol] = field(default_factory=set)
    spins: set[int] = field(default_factory=set)
    """Loops that only wait for a word of memory that other threads change."""
    reads: dict[int, list[ir.Load]] = field(default_factory=dict)
    """Reads of shared memory that a statement makes."""


def used_operands(op: ir.Operation) -> list[tuple[str, ir.Expr]]:
    """The operands that the machine looks at: not coordinates, tensor maps or data."""
    keep = op.name in WARP_VALUES
    return [
        (role, operand)
        for role, operand in op.operands.items()
        if keep or not (role in IGNORED or role.startswith("coords"))
    ]


def _nodes(tree: ir.Expr, into_loads: bool = True) -> Iterator[ir.Expr]:
    stack = [tree]
    while stack:
        top = stack.pop()
        yield top
        match top:
            case ir.Binary(left=left, right=right):
                stack += (right, left)
            case ir.Unary(arg=arg) | ir.Cast(arg=arg):
                stack.append(arg)
            case ir.Select(test=test, yes=yes, no=no):
                stack += (no, yes, test)
            case ir.Address(offset=offset):
                stack.append(offset)
            case ir.Load(pointer=pointer):
                if into_loads:
                    stack.append(pointer)
            case ir.Element(index=index):
                stack.append(index)
            case ir.Pure(args=args):
                stack.extend(reversed(args))


class _Slicer:
    def __init__(self, kernel: ir.Kernel, effects: Collection[str]) -> None:
        self.effects = effects
        self.result = Slice()
        self.parent: dict[int, ir.Stmt | None] = {}
        self.assigned: dict[ir.Symbol, list[ir.Assign]] = {}
        self.jumps: dict[int, list[ir.Stmt]] = {}
        self.sites: dict[ir.Operation, ir.Do] = {}
        self.order: list[ir.Stmt] = []
        self.pending: list[ir.Expr] = []
        self._index(kernel.body)
        self.shared = self._holders()

    def _index(self, body: ir.Seq) -> None:
        """Parents, assignments and what each jump leaves."""
        stack: list[tuple[ir.Stmt, ir.Stmt | None, ir.Stmt | None, tuple[ir.Inline, ...]]] = [(body, None, None, ())]
        while stack:
            stmt, parent, loop, inlines = stack.pop()
            self.order.append(stmt)
            self.parent[id(stmt)] = parent
            match stmt:
                case ir.Assign(symbol=symbol):
                    self.assigned.setdefault(symbol, []).append(stmt)
                case ir.Do(op=op):
                    self.sites[op] = stmt
                case ir.Break() | ir.Continue() if loop is not None:
                    self.jumps.setdefault(id(loop), []).append(stmt)
                case ir.Leave(label=label):
                    for inline in reversed(inlines):
                        if inline.label == label:
                            self.jumps.setdefault(id(inline), []).append(stmt)
                            break
            below = stmt.body if isinstance(stmt, ir.Seq) else tuple(ir.children(stmt))
            inner_loop = stmt if isinstance(stmt, ir.Loop) else loop
            inner = (*inlines, stmt) if isinstance(stmt, ir.Inline) else inlines
            for child in reversed(below):
                stack.append((child, stmt, inner_loop, inner))

    def _holders(self) -> set[ir.Symbol]:
        """Variables that may hold an address of shared memory."""
        held: set[ir.Symbol] = set()
        uses: dict[ir.Symbol, list[ir.Symbol]] = {}
        fresh: list[ir.Symbol] = []
        for symbol, stmts in self.assigned.items():
            for stmt in stmts:
                for node in _nodes(stmt.value.expr, into_loads=False):
                    source = node.symbol if isinstance(node, ir.Var | ir.Address | ir.Element) else None
                    if isinstance(node, ir.OpValue) and node.op.name == "mapa":
                        fresh.append(symbol)
                    elif source is None:
                        continue
                    elif source.kind in ("shared", "dynamic_shared"):
                        fresh.append(symbol)
                    elif source is not symbol:
                        uses.setdefault(source, []).append(symbol)
        while fresh:
            symbol = fresh.pop()
            if symbol not in held:
                held.add(symbol)
                fresh.extend(uses.get(symbol, ()))
        return held

    def _touches_shared(self, pointer: ir.Expr) -> bool:
        for node in _nodes(pointer, into_loads=False):
            if isinstance(node, ir.Var | ir.Address | ir.Element) and (
                node.symbol.kind in ("shared", "dynamic_shared") or node.symbol in self.shared
            ):
                return True
            if isinstance(node, ir.OpValue) and node.op.name == "mapa":
                return True
        return False

    def _own(self, stmt: ir.Stmt) -> list[ir.Expr]:
        match stmt:
            case ir.Assign(index=index, value=value):
                return [value.expr] if index is None else [index.expr, value.expr]
            case ir.Store(pointer=pointer, value=value):
                return [pointer.expr, value.expr]
            case ir.Read(pointer=pointer):
                return [pointer.expr]
            case ir.If(test=test):
                return [test.expr]
            case ir.Loop(test=test):
                return [] if test is None else [test.expr]
            case ir.Do(op=op):
                return list(op.operands.values())
        return []

    def _spins(self, loop: ir.Loop) -> bool:
        """The loop ends only when a word at a fixed address, or an atomic operation, gives another value."""
        inside = [stmt for stmt in ir.walk(loop) if stmt is not loop]
        if len(inside) > MAX_SPIN or any(isinstance(stmt, ir.Loop | ir.Exit) for stmt in inside):
            return False
        written: dict[ir.Symbol, list[ir.Assign]] = {}
        for stmt in inside:
            if isinstance(stmt, ir.Assign):
                written.setdefault(stmt.symbol, []).append(stmt)
        tests = [loop.test.expr] if loop.test is not None else []
        tests += [stmt.test.expr for stmt in inside if isinstance(stmt, ir.If)]
        seen: set[ir.Symbol] = set()
        polled = False
        while tests:
            for node in _nodes(tests.pop()):
                if isinstance(node, ir.OpValue):
                    if not node.op.name.startswith(POLLED):
                        return False
                    polled = True
                elif isinstance(node, ir.Load):
                    names = [n.symbol for n in _nodes(node.pointer) if isinstance(n, ir.Var | ir.Element)]
                    polled = polled or not any(name in written for name in names)
                elif isinstance(node, ir.Var | ir.Element) and node.symbol in written and node.symbol not in seen:
                    seen.add(node.symbol)
                    for stmt in written[node.symbol]:
                        value = stmt.value.expr
                        if any(isinstance(n, ir.Var | ir.Element) and n.symbol is node.symbol for n in _nodes(value)):
                            return False
                        tests.append(value)
        return polled

    def run(self) -> Slice:
        for stmt in self.order:
            found: list[ir.Load] = [
                node
                for tree in self._own(stmt)
                for node in _nodes(tree)
                if isinstance(node, ir.Load) and self._touches_shared(node.pointer)
            ]
            if found:
                self.result.reads[id(stmt)] = list(found)
                self.pending.extend(load.pointer for load in found)
                self._mark(self.parent[id(stmt)])
            match stmt:
                case ir.Loop() if self._spins(stmt):
                    self.result.spins.add(id(stmt))
                    self._mark(stmt)
                case ir.Store(pointer=pointer) | ir.Read(pointer=pointer):
                    if self._touches_shared(pointer.expr):
                        self._mark(stmt)
                        self.pending.append(pointer.expr)
                case ir.Do(op=op):
                    if op.name in self.effects and op.name not in WARP_VALUES:
                        self._mark(stmt)
                case ir.Exit() | ir.Opaque():
                    self._mark(stmt)
        self._close()
        return self.result

    def _close(self) -> None:
        while self.pending:
            for node in _nodes(self.pending.pop()):
                if isinstance(node, ir.OpValue):
                    site = self.sites.get(node.op)
                    if site is not None:
                        self._mark(site)
                symbol = node.symbol if isinstance(node, ir.Var | ir.Element | ir.Address) else None
                if symbol is None or symbol in self.result.symbols:
                    continue
                self.result.symbols.add(symbol)
                for stmt in self.assigned.get(symbol, ()):
                    self._mark(stmt)

    def _mark(self, stmt: ir.Stmt | None) -> None:
        queue = [stmt]
        live = self.result.live
        while queue:
            top = queue.pop()
            if top is None or id(top) in live:
                continue
            live.add(id(top))
            match top:
                case ir.Assign(index=index, value=value):
                    self.pending.append(value.expr)
                    if index is not None:
                        self.pending.append(index.expr)
                case ir.Do(op=op):
                    self.pending.extend(operand for _, operand in used_operands(op))
                    if op.predicate is not None:
                        self.pending.append(op.predicate)
                case ir.If(test=test):
                    self.pending.append(test.expr)
                case ir.Loop(test=test):
                    if test is not None:
                        self.pending.append(test.expr)
                    queue.extend(self.jumps.get(id(top), ()))
                case ir.Inline():
                    queue.extend(self.jumps.get(id(top), ()))
            queue.append(self.parent[id(top)])


def cut(kernel: ir.Kernel, effects: Collection[str]) -> Slice:
    """The slice of a kernel; `effects` are the operations that the machine executes."""
    return _Slicer(kernel, effects).run()
