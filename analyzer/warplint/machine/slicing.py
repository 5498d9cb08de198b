"""What of a kernel is executed: what control, synchronisation and accesses to shared memory depend on, and nothing
else.

A statement is live when it has an effect the machine models, when it assigns a variable that matters, or when it
encloses
such a statement. Tests of live branches and loops matter; jumps matter when what they leave is live.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator

from msgspec import Struct, field

from warplint.patterns import late
from warplint.program import ir
from warplint.source import Span

WARP_VALUES = frozenset({"shfl.sync", "vote.sync", "match.sync", "redux.sync", "activemask", "elect.sync", "mapa",
                         "clusterlaunchcontrol.query_cancel", "amd.readfirstlane", "amd.readlane", "amd.ds_bpermute",
                         "amd.dpp", "amd.ballot", "hip.warp_sync_builtins"})  # fmt: skip
"""Operations that only make a value: executed when the value matters."""
ORDINARY = frozenset({"ld", "ld.relaxed", "ld.acquire", "ld.volatile", "st", "st.relaxed", "st.release", "st.volatile",
                      "atom", "red", "red.release"})  # fmt: skip
"""Loads, stores and atomics of assembly: executed where they reach shared memory, that of other CTAs too."""
POLLED = ("ld.", "atom", "red")
"""Beginnings of the names of operations that read a word other threads change."""
MAX_SPIN = 60
IGNORED = frozenset({"map", "value", "compare"})
BYTES = {"bool": 1, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "i32": 4, "u32": 4, "f32": 4, "i64": 8, "u64": 8, "f64": 8}


RAW_BARRIERS = frozenset({"amd.s_barrier", "amd.s_barrier_signal_wait", "amd.named_barrier"})
"""Barriers of AMD that wait for no memory operation: it matters which LDS accesses of a wave are under way."""
FILLING = frozenset({"amd.ds_read", "amd.vmem_load"})
"""Loads of inline assembly whose results nobody waits for but the source itself."""
_WORD = late(rb"[A-Za-z_]\w*")
_MAX_SPAN = 4_000
MAX_COPIES = 8
"""Copies of a copy that are followed."""


class Uses(Struct, frozen=True):
    """AMD: what a statement does to the wait counters besides its own operations."""

    certain: frozenset[Hashable]
    """Variables and operations whose loaded values it uses."""
    mentioned: frozenset[Hashable]
    """Those and what its text names."""
    touches: int = 0
    """Instructions on global memory it becomes, at most."""


class Slice(Struct):
    """The live statements (by identity) and variables of a kernel."""

    live: set[int] = field(default_factory=set)
    symbols: set[ir.Symbol] = field(default_factory=set)
    spins: dict[int, bool] = field(default_factory=dict)
    """Loops that only wait for a word of memory that other threads change; whether it may be shared memory."""
    reads: dict[int, list[tuple[ir.Load, ir.Expr | None]]] = field(default_factory=dict)
    """Reads of shared memory that a statement makes, each with the condition inside its expression under which it is
    made (`c ? s[i] : 0`, `c && s[i]`); None: always."""
    counting: bool = False
    """AMD: it matters which LDS accesses of a wave are under way."""
    undefined: dict[str, Span] = field(default_factory=dict)
    """Names that decide what is executed and that the file does not define, in words, with the first such condition."""
    marks: dict[int, Uses] = field(default_factory=dict)
    """AMD: uses of loaded values, by the statement (identity) before which they count."""


def used_operands(op: ir.Operation) -> list[tuple[str, ir.Expr]]:
    """The operands that the machine looks at: not coordinates, tensor maps or data."""
    keep = op.name in WARP_VALUES
    return [
        (role, operand)
        for role, operand in op.operands.items()
        if keep or not (role in IGNORED or role.startswith("coords"))
    ]


def filled_by(stmt: ir.Stmt) -> ir.Expr | None:
    """What an assignment copies into its variable as it is: a load, or an operation's result; else None."""
    if not isinstance(stmt, ir.Assign):
        return None
    value = stmt.value.expr
    while isinstance(value, ir.Cast):
        value = value.arg
    return value if isinstance(value, ir.Load | ir.OpValue) else None


def _counts_loads(op: ir.Operation) -> bool:
    """What else vmcnt counts decides whether this operation is over (AMD)."""
    if op.name != "amd.load_to_lds":
        return op.name == "amd.vmem_load" and not op.by_name
    limit, size = op.mods.get("registers_from"), op.operands.get("bytes")
    return not (isinstance(limit, int) and isinstance(size, ir.Const) and size.value >= limit)


def copied_by(stmt: ir.Stmt) -> ir.Symbol | None:
    """The variable that an assignment copies as it is; else None."""
    if not isinstance(stmt, ir.Assign):
        return None
    value = stmt.value.expr
    while isinstance(value, ir.Cast):
        value = value.arg
    return value.symbol if isinstance(value, ir.Var | ir.Element) else None


def _nodes(tree: ir.Expr, into_loads: bool = True) -> Iterator[ir.Expr]:
    stack = [tree]
    while stack:
        top = stack.pop()
        yield top
        if into_loads or not isinstance(top, ir.Load):
            stack.extend(reversed(ir.parts(top)))


def _evaluated(tree: ir.Expr) -> Iterator[tuple[ir.Expr, ir.Expr | None]]:
    """The nodes of an expression, each with the condition under which it is evaluated at all.

    Only `?:`, `&&` and `||` leave something out (C++ [expr.cond], [expr.log.and], [expr.log.or]).
    """
    pending: list[tuple[ir.Expr, ir.Expr | None]] = [(tree, None)]
    while pending:
        top, condition = pending.pop()
        yield top, condition
        if isinstance(top, ir.Select):
            test = top.test
            pending += [(top.no, _both(condition, ir.Unary("!", test))), (top.yes, _both(condition, test))]
            pending.append((test, condition))
        elif isinstance(top, ir.Binary) and top.op in ("&&", "||"):
            first = top.left if top.op == "&&" else ir.Unary("!", top.left)
            pending += [(top.right, _both(condition, first)), (top.left, condition)]
        else:
            pending.extend((node, condition) for node in reversed(ir.parts(top)))


def _both(first: ir.Expr | None, second: ir.Expr) -> ir.Expr:
    return second if first is None else ir.Binary("&&", first, second)


class _Slicer:
    def __init__(self, kernel: ir.Kernel, effects: Collection[str]) -> None:
        self.kernel = kernel
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

    def _reaches_shared(self, op: ir.Operation) -> bool:
        if "cta" in op.operands:
            return True
        return any(self._touches_shared(op.operands[role]) for role in ("src", "dst") if role in op.operands)

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

    def _spins(self, loop: ir.Loop) -> tuple[bool, bool]:
        """The loop ends only when a word at a fixed address, or an atomic operation, gives another value (or with an
        error); and the word may lie in shared memory.
        """
        inside = [stmt for stmt in ir.walk(loop) if stmt is not loop]
        if len(inside) > MAX_SPIN or any(
            isinstance(stmt, ir.Loop) or (isinstance(stmt, ir.Exit) and not stmt.trap) for stmt in inside
        ):
            return False, False
        written: dict[ir.Symbol, list[ir.Assign]] = {}
        for stmt in inside:
            if isinstance(stmt, ir.Assign):
                written.setdefault(stmt.symbol, []).append(stmt)
        tests = [loop.test.expr] if loop.test is not None else []
        tests += [stmt.test.expr for stmt in inside if isinstance(stmt, ir.If)]
        seen: set[ir.Symbol] = set()
        polled = shared = False
        while tests:
            for node in _nodes(tests.pop()):
                if isinstance(node, ir.OpValue):
                    if not node.op.name.startswith(POLLED):
                        return False, False
                    polled = True
                    shared = shared or any(self._touches_shared(operand) for operand in node.op.operands.values())
                elif isinstance(node, ir.Load):
                    names = [n.symbol for n in _nodes(node.pointer) if isinstance(n, ir.Var | ir.Element)]
                    if not any(name in written for name in names):
                        polled = True
                        shared = shared or self._touches_shared(node.pointer)
                elif isinstance(node, ir.Var | ir.Element) and node.symbol in written and node.symbol not in seen:
                    seen.add(node.symbol)
                    for stmt in written[node.symbol]:
                        value = stmt.value.expr
                        if any(isinstance(n, ir.Var | ir.Element) and n.symbol is node.symbol for n in _nodes(value)):
                            return False, False
                        tests.append(value)
        return polled, shared

    def run(self) -> Slice:
        for stmt in self.order:
            found = [
                (node, condition)
                for tree in self._own(stmt)
                for node, condition in _evaluated(tree)
                if isinstance(node, ir.Load) and self._touches_shared(node.pointer)
            ]
            if found:
                self.result.reads[id(stmt)] = found
                self.pending.extend(load.pointer for load, _ in found)
                self.pending.extend(condition for _, condition in found if condition is not None)
                self._mark(self.parent[id(stmt)])
            match stmt:
                case ir.Loop():
                    spins, shared = self._spins(stmt)
                    if spins:
                        self.result.spins[id(stmt)] = shared
                        self._mark(stmt)
                case ir.Store(pointer=pointer) | ir.Read(pointer=pointer):
                    if self._touches_shared(pointer.expr):
                        self._mark(stmt)
                        self.pending.append(pointer.expr)
                case ir.Do(op=op):
                    if op.name in self.effects and op.name not in WARP_VALUES:
                        if op.name not in ORDINARY or self._reaches_shared(op):
                            self._mark(stmt)
                case ir.Exit() | ir.Opaque():
                    self._mark(stmt)
        if self.kernel.is_amd:
            self._count()
        self._close()
        return self.result

    def _count(self) -> None:
        """Where values that were loaded are used: the compiler waits there, or nobody does."""
        ops = [stmt.op for stmt in self.order if isinstance(stmt, ir.Do)]
        raw = self.result.counting = any(op.name in RAW_BARRIERS for op in ops)
        filled: dict[Hashable, set[Hashable]] = {}  # a variable: itself, and operations of assembly that fill it
        names: dict[bytes, set[Hashable]] = {}
        direct: dict[int, ir.Symbol] = {}
        for stmt in self.order:
            if isinstance(stmt, ir.Assign):
                source = filled_by(stmt)
                shared = raw and isinstance(source, ir.Load) and self._touches_shared(source.pointer)
                if shared or (isinstance(source, ir.OpValue) and source.op.name in FILLING and not source.op.by_name):
                    keys = filled.setdefault(stmt.symbol, set())
                    keys.add(source.op if isinstance(source, ir.OpValue) else stmt.symbol)
                    word = _WORD.match(stmt.symbol.name.encode())  # `v` of the member `v.x`
                    names.setdefault(word[0] if word else b"", set()).update(keys)
                    direct[id(stmt)] = stmt.symbol
        copies = {id(stmt): source for stmt in self.order if (source := copied_by(stmt)) is not None}
        for _ in range(MAX_COPIES):  # a register that is only copied is not used yet
            grown = False
            for stmt in self.order:
                source = copies.get(id(stmt))
                if source in filled and isinstance(stmt, ir.Assign):
                    keys = filled.setdefault(stmt.symbol, set())
                    ops_of = {key for key in filled[source] if isinstance(key, ir.Operation)}
                    grown = grown or not ops_of <= keys
                    keys |= ops_of
            if not grown:
                break
        memory = any(_counts_loads(op) for op in ops)
        memory = memory and any(op.name == "amd.s_waitcnt" for op in ops)
        if not filled and not memory:
            return
        for stmt in self.order:
            certain: set[Hashable] = set()
            touches = 0
            trees = self._own(stmt)
            if isinstance(stmt, ir.Assign) and id(stmt) in direct and isinstance(filled_by(stmt), ir.OpValue):
                trees = []
            copied = copies.get(id(stmt))
            for tree in trees:
                for node in _nodes(tree):
                    if isinstance(node, ir.Var | ir.Element) and node.symbol in filled:
                        if copied is None:
                            certain |= filled[node.symbol]
                        else:
                            certain |= {key for key in filled[node.symbol] if isinstance(key, ir.Symbol)}
                    elif memory and isinstance(node, ir.Load) and not self._touches_shared(node.pointer):
                        touches += max(1, -(-(BYTES.get(node.type, 16)) // 4))
            if memory and isinstance(stmt, ir.Store) and not self._touches_shared(stmt.pointer.expr):
                touches += max(1, -(-(stmt.bytes or 16) // 4))
            mentioned = set(certain)
            for word in self._words(stmt) if names else ():
                for key in names.get(word, ()):
                    if key is not direct.get(id(stmt)) and isinstance(key, ir.Symbol):
                        mentioned.add(key)
            if certain or mentioned or touches:
                self.result.marks[id(stmt)] = Uses(frozenset(certain), frozenset(mentioned), touches)
                self._mark(self.parent[id(stmt)])

    def _words(self, stmt: ir.Stmt) -> set[bytes]:
        """The names in the text of a simple statement, or of a test."""
        if isinstance(stmt, ir.Seq | ir.Inline):
            return set()
        span = stmt.test_span if isinstance(stmt, ir.If | ir.Loop) else stmt.span
        text = self.kernel.source.data[span.start : min(span.end, span.start + _MAX_SPAN)]
        return set(_WORD.findall(text))

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

    def _decides(self, test: ir.Expr, span: Span) -> None:
        """A condition of what is executed."""
        self.pending.append(test)
        for node in _nodes(test):
            if isinstance(node, ir.Unknown) and node.reason.endswith(ir.UNDEFINED):
                self.result.undefined.setdefault(node.reason, span)

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
                case ir.If(test=test, test_span=span):
                    self._decides(test.expr, span)
                case ir.Loop(test=test, test_span=span):
                    if test is not None:
                        self._decides(test.expr, span)
                    queue.extend(self.jumps.get(id(top), ()))
                case ir.Inline():
                    queue.extend(self.jumps.get(id(top), ()))
            queue.append(self.parent[id(top)])


def cut(kernel: ir.Kernel, effects: Collection[str]) -> Slice:
    """The slice of a kernel; `effects` are the operations that the machine executes."""
    return _Slicer(kernel, effects).run()
