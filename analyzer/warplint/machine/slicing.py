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
FOLLOWED = WARP_VALUES | {"atom"}
"""Operations whose results may be numbers."""
MAX_WORDS = 8
"""Elements of a vector store that are followed."""
POLLED = ("ld.", "atom", "red")
"""Beginnings of the names of operations that read a word other threads change."""
LOOKS = ("ld.acquire", "ld.relaxed", "ld.volatile")
"""Reads that a loop repeats until another thread's store shows."""
STORES = ("st", "st.release", "st.relaxed", "st.volatile")
HARMLESS = ("nanosleep", "fence.acq_rel.cluster")
MAX_SPIN = 60
MEETINGS = ("mbarrier.", "bar.", "barrier.", "cp.async", "tcgen05.", "wgmma.", "st.async", "hip.__syncthreads",
            "amd.s_barrier", "amd.named_barrier", "grid.")  # fmt: skip
"""Beginnings of the names of operations that others count on: a loop with one of them does more than poll a word."""
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


class Polled(Struct, frozen=True):
    """A loop that waits for words of shared memory of which every write is known."""

    symbols: frozenset[ir.Symbol]
    """The variables that the words lie in."""
    escapes: bool
    """What it reads is used after it."""


class Slice(Struct):
    """The live statements (by identity) and variables of a kernel."""

    live: set[int] = field(default_factory=set)
    symbols: set[ir.Symbol] = field(default_factory=set)
    spins: dict[int, bool] = field(default_factory=dict)
    """Loops that only wait for a word of memory that other threads change; whether it may be shared memory."""
    polls: dict[int, Polled] = field(default_factory=dict)
    """Those of them that are executed as waits for a store (`polls`)."""
    reads: dict[int, list[tuple[ir.Load, ir.Expr | None]]] = field(default_factory=dict)
    """Reads of shared memory that a statement makes, each with the condition inside its expression under which it is
    made (`c ? s[i] : 0`, `c && s[i]`); None: always."""
    counting: bool = False
    """AMD: it matters which LDS accesses of a wave are under way."""
    undefined: dict[str, Span] = field(default_factory=dict)
    """Names that decide what is executed and that the file does not define, in words, with the first such condition."""
    data: set[int] = field(default_factory=set)
    """Stores (by identity) whose value matters: control reads it from shared memory."""
    marks: dict[int, Uses] = field(default_factory=dict)
    """AMD: uses of loaded values, by the statement (identity) before which they count."""


def used_operands(op: ir.Operation) -> list[tuple[str, ir.Expr]]:
    """The operands that the machine looks at: not coordinates, tensor maps or data."""
    keep = op.name in WARP_VALUES or op.name == "st.async"  # one word, for others to look at
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
    if isinstance(value, ir.Pure) and value.name == "component":  # of a vector that assembly loaded
        value = value.args[0]
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
        self.wanted: set[ir.Symbol | None] = set()
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

    def _holders(self) -> dict[ir.Symbol, set[ir.Symbol | None]]:
        """Variables that may hold an address of shared memory, with the shared variables it may lie in (None: any)."""
        held: dict[ir.Symbol, set[ir.Symbol | None]] = {}
        uses: dict[ir.Symbol, list[ir.Symbol]] = {}
        fresh: list[tuple[ir.Symbol, ir.Symbol | None]] = []
        for symbol, stmts in self.assigned.items():
            for stmt in stmts:
                for node in _nodes(stmt.value.expr, into_loads=False):
                    source = node.symbol if isinstance(node, ir.Var | ir.Address | ir.Element) else None
                    if isinstance(node, ir.OpValue) and node.op.name == "mapa":
                        fresh.append((symbol, None))
                    elif source is None:
                        continue
                    elif source.kind in ("shared", "dynamic_shared"):
                        fresh.append((symbol, source))
                    elif source is not symbol:
                        uses.setdefault(source, []).append(symbol)
        while fresh:
            symbol, base = fresh.pop()
            bases = held.setdefault(symbol, set())
            if base not in bases:
                bases.add(base)
                fresh.extend((user, base) for user in uses.get(symbol, ()))
        return held

    def _bases(self, pointer: ir.Expr) -> set[ir.Symbol | None]:
        """The shared variables that an address may lie in; None among them: any."""
        found: set[ir.Symbol | None] = set()
        for node in _nodes(pointer, into_loads=False):
            if isinstance(node, ir.Var | ir.Address | ir.Element):
                if node.symbol.kind in ("shared", "dynamic_shared"):
                    found.add(node.symbol)
                found |= self.shared.get(node.symbol, set())
            elif isinstance(node, ir.OpValue) and node.op.name == "mapa":
                found.add(None)
        return found

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
            isinstance(stmt, ir.Loop)
            or (isinstance(stmt, ir.Exit) and not stmt.trap)
            or (isinstance(stmt, ir.Do) and stmt.op.name.startswith(MEETINGS))
            for stmt in inside
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
                elif isinstance(node, ir.Unknown) and node.reason.startswith(ir.FOUND):
                    polled = True
                    shared = shared or any(
                        self._touches_shared(one.pointer.expr)
                        for one in inside
                        if isinstance(one, ir.Store) and one.atomic
                    )
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
        else:
            self._polls()
        self._close()
        self._values()
        return self.result

    def _polls(self) -> None:
        """The loops that wait for words of shared memory and can be executed: their writes' values matter then."""
        loops: dict[int, tuple[ir.Loop, frozenset[ir.Symbol]]] = {}
        for stmt in self.order:
            if isinstance(stmt, ir.Loop) and self.result.spins.get(id(stmt)):
                symbols = self._polled(stmt)
                if symbols:
                    loops[id(stmt)] = (stmt, symbols)
        if not loops:
            return
        wanted = frozenset().union(*(symbols for _, symbols in loops.values()))
        unknown: set[ir.Symbol | None] = set()
        values: list[tuple[ir.Stmt, list[ir.Expr]]] = []
        for stmt in self.order:
            if isinstance(stmt, ir.Store):
                bases = self._bases(stmt.pointer.expr) & {None, *wanted}
                if bases and stmt.atomic:
                    unknown |= bases
                elif bases:
                    values.append((stmt, [one.expr for one in stmt.words or (stmt.value,)]))
            elif isinstance(stmt, ir.Do) and not stmt.op.name.startswith("ld"):
                op = stmt.op
                for role, operand in op.operands.items():
                    bases = self._bases(operand) & {None, *wanted} if role != "value" else set()
                    if bases and (role != "dst" or op.name not in STORES):
                        unknown |= bases
                    elif bases and "value" in op.operands:
                        values.append((stmt, [op.operands["value"]]))
        if None in unknown:
            return
        for key, (loop, symbols) in loops.items():
            if not symbols & unknown:
                self.result.polls[key] = Polled(symbols, self._escapes(loop))
        for stmt, stored in values if self.result.polls else ():
            self.result.data.add(id(stmt))
            self.pending.extend(stored)

    def _polled(self, loop: ir.Loop) -> frozenset[ir.Symbol]:
        """The variables that such a loop reads; none where it does anything else, or its reads may be hoisted."""
        found: set[ir.Symbol | None] = set()
        for stmt in ir.walk(loop):
            match stmt:
                case ir.Do(op=op) if op.name in LOOKS:
                    found |= self._bases(op.operands["src"]) or {None}
                case ir.Do(op=op) if op.name not in HARMLESS:
                    return frozenset()
                case ir.Store() | ir.Opaque() | ir.Exit() | ir.Read():
                    return frozenset()
            for tree in self._own(stmt):
                for node in _nodes(tree):
                    if isinstance(node, ir.Load):
                        if not node.volatile:
                            return frozenset()
                        found |= self._bases(node.pointer) or {None}
        return frozenset() if None in found else frozenset(one for one in found if one is not None)

    def _escapes(self, loop: ir.Loop) -> bool:
        """A variable that the loop assigns, or what its operations read, is used outside of it."""
        inside = {id(stmt) for stmt in ir.walk(loop)}
        made: set[Hashable] = {stmt.symbol for stmt in ir.walk(loop) if isinstance(stmt, ir.Assign)}
        made |= {stmt.op for stmt in ir.walk(loop) if isinstance(stmt, ir.Do)}
        for stmt in self.order:
            if id(stmt) not in inside:
                for tree in self._own(stmt):
                    for node in _nodes(tree):
                        if (isinstance(node, ir.Var | ir.Element) and node.symbol in made) or (
                            isinstance(node, ir.OpValue) and node.op in made
                        ):
                            return True
        return False

    def _values(self) -> None:
        """The stores to shared memory whose values control reads again: those made of integers that are followed."""
        open_stores = [
            (stmt, self._bases(stmt.pointer.expr))
            for stmt in self.order
            if isinstance(stmt, ir.Store) and id(stmt) in self.result.live and not (stmt.atomic or stmt.volatile)
        ] if self.wanted else []  # fmt: skip
        data = self._data() if open_stores else set()
        grown = bool(open_stores)
        while grown:
            grown = False
            for stmt, bases in open_stores:
                if id(stmt) in self.result.data or not (None in bases or None in self.wanted or bases & self.wanted):
                    continue
                values = [one.expr for one in stmt.words or (stmt.value,)]
                if len(values) <= MAX_WORDS and any(not self._is_data(value, data) for value in values):
                    self.result.data.add(id(stmt))
                    self.pending.extend(value for value in values if not self._is_data(value, data))
                    grown = True
            self._close()

    def _data(self) -> set[ir.Symbol]:
        """Variables that hold computed data: results of operations, calls and floating point, and what is made of
        them.
        """
        uses: dict[ir.Symbol, list[ir.Symbol]] = {}
        fresh: list[ir.Symbol] = []
        for symbol, stmts in self.assigned.items():
            for stmt in stmts:
                value = stmt.value.expr
                if self._is_data(value, frozenset()):
                    fresh.append(symbol)
                    break
                for node in _nodes(value, into_loads=False):
                    if isinstance(node, ir.Var | ir.Element):
                        uses.setdefault(node.symbol, []).append(symbol)
        found: set[ir.Symbol] = set()
        while fresh:
            symbol = fresh.pop()
            if symbol not in found:
                found.add(symbol)
                fresh.extend(uses.get(symbol, ()))
        return found

    @staticmethod
    def _is_data(value: ir.Expr, data: Collection[ir.Symbol]) -> bool:
        """The machine has no number for it."""
        for node in _nodes(value, into_loads=False):
            match node:
                case ir.OpValue(op=op):
                    if op.name not in FOLLOWED:
                        return True
                case ir.Unknown(uniform=uniform, adding=adding):
                    if not uniform and adding is None:
                        return True
                case ir.Pure():
                    return True
                case ir.Cast(type="f32" | "f64"):
                    return True
                case ir.Load(type="f32" | "f64"):
                    return True
                case ir.Var(symbol=symbol) | ir.Element(symbol=symbol):
                    if symbol in data or symbol.type in ("f16", "bf16", "f32", "f64"):
                        return True
        return False

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
                elif isinstance(node, ir.Unknown) and node.adding is not None:
                    self._mark(node.adding)
                elif isinstance(node, ir.Load):
                    self.wanted |= self._bases(node.pointer)
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
                case ir.Store(pointer=pointer):
                    self.pending.append(pointer.expr)
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
