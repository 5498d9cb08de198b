"""From the structured program to flat code: expressions become closures, statements become instructions with jumps.

A kernel is compiled once and run for every scenario and agent. Code addresses are indices into `Code.instructions`.
Where
control that may have divided comes together again stands a `MERGE`; it carries the split it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from enum import Enum, auto
from typing import Any, Protocol

from msgspec import Struct, field

from warplint.machine import values as v
from warplint.machine.lines import bare, lost, settled, trial_of
from warplint.machine.slicing import BYTES, Slice, filled_by, used_operands
from warplint.machine.values import Value
from warplint.program import ir
from warplint.source import Span
from warplint.threads.facts import Uniformity

MAX_INSTRUCTIONS = 400_000
MAX_MEMO = 30_000
MAX_SIMPLE = 200
"""Longest branch that is executed under a mask."""
WAITING = frozenset(
    {"mbarrier.try_wait", "mbarrier.test_wait", "bar.sync.cta", "bar.red.cta", "bar.sync.named", "bar.arrive.named",
     "barrier.nonaligned", "barrier.cluster.wait", "barrier.cluster.arrive", "setmaxnreg", "elect.sync", "shfl.sync",
     "vote.sync", "match.sync", "redux.sync", "bar.warp.sync", "hip.__syncwarp", "tcgen05.alloc", "tcgen05.dealloc",
     "tcgen05.ld", "tcgen05.st", "tcgen05.wait", "wgmma.mma_async", "wgmma.commit_group", "wgmma.wait_group",
     "ldmatrix", "stmatrix", "grid.sync", "hip.__syncthreads", "amd.s_barrier", "amd.s_barrier_signal_wait",
     "amd.named_barrier", "amd.all_reduce"}
)  # fmt: skip
"""Operations that may block, or that other lanes must come to."""
SYNCHRONISING = ("mbarrier.", "bar.", "barrier.", "cp.async", "tcgen05.commit", "tcgen05.mma", "tcgen05.alloc",
"tcgen05.dealloc",
                 "wgmma.", "setmaxnreg", "cluster", "grid.", "hip.__syncthreads", "amd.s_barrier", "amd.named_barrier",
                 "amd.s_waitcnt", "amd.load_to_lds", "amd.async_lds", "amd.all_reduce")  # fmt: skip
"""Beginnings of the names of operations that a protocol is made of."""


class Context(Protocol):
    """What an expression may ask of the agent that evaluates it."""

    env: dict[Hashable, Value]
    results: dict[tuple[ir.Operation | ir.Store, str], Value]
    agent: Any
    memo: dict[Hashable, Value]

    def special(self, name: str) -> Value:
        """A built-in coordinate."""
        ...

    def load(self, pointer: Value, node: ir.Load) -> Value:
        """A read of memory."""
        ...

    def spend(self, work: int) -> None:
        """Count costly work."""
        ...

    def number(self, key: Hashable) -> int:
        """A number for an unknown that is the same for all threads of the CTA."""
        ...

    def fresh(self, symbol: ir.Symbol) -> Value:
        """The value of a variable that was never assigned (a parameter, a global, an uninitialised local)."""
        ...


Evaluate = Callable[[Context], Value]


class Kind(Enum):
    """Kinds of instruction."""

    ASSIGN = auto()
    STORE = auto()
    READ = auto()
    MARK = auto()
    """AMD: loaded values are used here (`slicing.Uses` in `key`)."""
    DO = auto()
    BRANCH = auto()
    JUMP = auto()
    MERGE = auto()
    EXIT = auto()
    OPAQUE = auto()


class Instruction(Struct, eq=False):
    """One step. Which fields are set depends on `kind`."""

    kind: Kind
    span: Span
    target: int = -1
    """BRANCH: where to go when the test is zero; JUMP: where to go."""
    merge: int = -1
    """BRANCH: where the two sides meet again."""
    test: Evaluate | None = None
    tree: ir.Expr | None = None
    """BRANCH: its test."""
    sides: int = 0
    """BRANCH: 1, some thread went to its true side in some scenario; 2, to its false side."""
    loop: bool = False
    """BRANCH: it is a loop's test. JUMP: it goes back."""
    polls: bool = False
    """JUMP: the loop waits for a word of shared memory (`polls`)."""
    syncs: bool = False
    """BRANCH: synchronisation depends on which side is taken."""
    fails: bool = False
    """BRANCH: its true side only stops the kernel with an error. EXIT: it does."""
    assumed: bool = False
    """OPAQUE: it is taken to have the usual effect, which is only worth a remark."""
    leaves: bool = False
    """BRANCH: its true side leaves the enclosing loop."""
    simple: tuple[Hashable, ...] | None = None
    """BRANCH: both sides run straight through without waiting, and assign these variables: no need to divide."""
    key: Hashable = None
    """ASSIGN: what is written (a symbol). READ: the variable that only receives the value."""
    index: Evaluate | None = None
    value: Evaluate | None = None
    store: ir.Store | ir.Read | None = None
    data: tuple[Evaluate, ...] = ()
    """STORE: what is stored, element by element, where control reads it again."""
    op: ir.Operation | None = None
    operands: dict[str, Evaluate] = field(default_factory=dict)
    predicate: Evaluate | None = None
    opaque: ir.Opaque | None = None
    text: str = ""
    executed: bool = False
    """DO: some thread executed it in some scenario."""


class PollLoop(Struct, frozen=True):
    """A loop that waits for words of shared memory: its code, `begin` to `end` (exclusive)."""

    begin: int
    end: int
    symbols: frozenset[ir.Symbol]
    escapes: bool
    """What it reads is used after it."""
    text: str
    span: Span


class Code(Struct):
    """A compiled kernel."""

    instructions: list[Instruction]
    too_long: bool = False
    counting: bool = False
    """AMD: it matters which memory operations of a wave are under way."""
    polls: tuple[PollLoop, ...] = ()


class Compiler:
    """Compiles one kernel, or the live part of it."""

    def __init__(self, part: Slice | None) -> None:
        self.part = part
        self.out: list[Instruction] = []
        self.polls: list[PollLoop] = []
        self.cache: dict[int, tuple[ir.Expr, Evaluate]] = {}

    # ------------------------------------------------------------------------------------------ expressions
    def expr(self, node: ir.Expr) -> Evaluate:
        """The closure that evaluates an expression."""
        hit = self.cache.get(id(node))
        if hit is not None:
            return hit[1]
        made = self._expr(node)
        self.cache[id(node)] = (node, made)
        return made

    def whole(self, node: ir.Expr) -> Evaluate:
        """The closure of an expression that stands alone; what depends on the thread index is computed once."""
        made = self.expr(node)
        free = _free(node)
        return made if free is None else _remembered(made, free, id(node))

    def _expr(self, node: ir.Expr) -> Evaluate:
        match node:
            case ir.Const(value=value):
                return lambda _: value
            case ir.Var(symbol=symbol):
                return _variable(symbol)
            case ir.Special(name=name):
                return lambda c: c.special(name)
            case ir.Unary(op=op, arg=arg):
                inner = self.expr(arg)
                return lambda c: v.unary(op, inner(c))
            case ir.Binary(op=op, left=left, right=right):
                first, second = self.expr(left), self.expr(right)
                return lambda c: v.binary(op, first(c), second(c))
            case ir.Select(test=test, yes=yes, no=no):
                asked, one, two = self.expr(test), self.expr(yes), self.expr(no)
                return lambda c: v.select(asked(c), one(c), two(c))
            case ir.Cast(type=kind, arg=arg):
                inner = self.expr(arg)
                return lambda c: v.cast(kind, inner(c))
            case ir.Address(symbol=symbol, offset=offset):
                where = self.expr(offset)
                return lambda c: v.Place(symbol, where(c))
            case ir.Load(pointer=pointer):
                where = self.expr(pointer)
                return lambda c: c.load(where(c), node)
            case ir.Element(symbol=symbol, index=index):
                which = self.expr(index)
                return lambda c: _element(c, symbol, which(c))
            case ir.OpValue(op=op, output=output):
                key = (op, output)
                return lambda c: c.results.get(key, v.Unknown(("op", id(op), output), Uniformity.LANE))
            case ir.Pure(name=name, args=args, known_pure=known):
                inner_args = [self.expr(arg) for arg in args]
                return lambda c: _pure(c, name, known, [arg(c) for arg in inner_args], node)
            case ir.Unknown(adding=ir.Store() as site):
                found = v.Unknown(("fetched", id(site)), Uniformity.LANE)
                return lambda c: c.results.get((site, "value"), found)
            case ir.Unknown(reason=reason, uniform=uniform):
                if uniform:
                    return lambda c: c.number(("unknown", reason))
                unknown = v.Unknown(("unknown", reason, id(node)), Uniformity.LANE)
                return lambda _: unknown
        unknown = v.Unknown(("expr", id(node)), Uniformity.LANE)
        return lambda _: unknown

    # ------------------------------------------------------------------------------------------- statements
    def compile(self, body: ir.Seq) -> Code:
        """Flat code of a kernel body, ending in an EXIT."""
        self._seq(body, [], [])
        self._emit(Instruction(Kind.EXIT, body.span))
        counting = self.part is not None and self.part.counting
        return Code(self.out, len(self.out) >= MAX_INSTRUCTIONS, counting, tuple(self.polls))

    def _emit(self, instruction: Instruction) -> int:
        if len(self.out) < MAX_INSTRUCTIONS:
            self.out.append(instruction)
        return len(self.out) - 1

    def _seq(self, seq: ir.Seq, loops: list[tuple[list[int], list[int]]], inlines: list[tuple[int, list[int]]]) -> None:
        for stmt in seq.body:
            if self.part is not None:
                uses = self.part.marks.get(id(stmt))
                if uses is not None:
                    self._emit(Instruction(Kind.MARK, stmt.span, key=uses))
                for load, condition in self.part.reads.get(id(stmt), ()):
                    self._read(stmt, load, condition)
                if id(stmt) not in self.part.live:
                    continue
            self._stmt(stmt, loops, inlines)

    def _read(self, stmt: ir.Stmt, load: ir.Load, condition: ir.Expr | None) -> None:
        """A read of shared memory inside an expression becomes a step of its own, before the statement."""
        pointer = load.pointer
        made = ir.Read(stmt.span, ir.Deferred(lambda: pointer), BYTES.get(load.type), load.volatile)
        assert self.part is not None
        held = stmt.symbol if self.part.counting and isinstance(stmt, ir.Assign) and filled_by(stmt) is load else None
        self._emit(
            Instruction(
                Kind.READ,
                stmt.span,
                store=made,
                key=held,
                value=self.whole(pointer),
                predicate=self.expr(condition) if condition is not None else None,
            )
        )

    def _stmt(
        self, stmt: ir.Stmt, loops: list[tuple[list[int], list[int]]], inlines: list[tuple[int, list[int]]]
    ) -> None:
        match stmt:
            case ir.Seq():
                self._seq(stmt, loops, inlines)
            case ir.Assign(symbol=symbol, index=index, value=value):
                where = self.expr(index.expr) if index is not None else None
                self._emit(Instruction(Kind.ASSIGN, stmt.span, key=symbol, index=where, value=self.whole(value.expr)))
            case ir.Store() | ir.Read():
                kind = Kind.STORE if isinstance(stmt, ir.Store) else Kind.READ
                data: tuple[Evaluate, ...] = ()
                if isinstance(stmt, ir.Store) and self.part is not None and id(stmt) in self.part.data:
                    data = tuple(self.expr(one.expr) for one in stmt.words or (stmt.value,))
                self._emit(Instruction(kind, stmt.span, store=stmt, value=self.whole(stmt.pointer.expr), data=data))
            case ir.Do(op=op):
                operands = used_operands(op)
                if self.part is not None and id(stmt) in self.part.data:
                    operands.append(("value", op.operands["value"]))
                self._emit(
                    Instruction(
                        Kind.DO,
                        op.span,
                        op=op,
                        operands={role: self.whole(operand) for role, operand in operands},
                        predicate=self.expr(op.predicate) if op.predicate is not None else None,
                    )
                )
            case ir.If():
                self._if(stmt, loops, inlines)
            case ir.Loop():
                self._loop(stmt, inlines)
            case ir.Break():
                loops[-1][0].append(self._emit(Instruction(Kind.JUMP, stmt.span)))
            case ir.Continue():
                loops[-1][1].append(self._emit(Instruction(Kind.JUMP, stmt.span)))
            case ir.Inline(label=label, body=body):
                jumps: list[int] = []
                self._seq(body, loops, [*inlines, (label, jumps)])
                end = self._merge(stmt.span)
                for at in jumps:
                    self.out[at].target = end
            case ir.Leave(label=label):
                at = self._emit(Instruction(Kind.JUMP, stmt.span))
                for owner, jumps in reversed(inlines):
                    if owner == label:
                        jumps.append(at)
                        break
            case ir.Exit():
                self._emit(Instruction(Kind.EXIT, stmt.span, fails=stmt.trap))
            case ir.Opaque():
                self._emit(Instruction(Kind.OPAQUE, stmt.span, opaque=stmt))

    def _merge(self, span: Span) -> int:
        return self._emit(Instruction(Kind.MERGE, span))

    def _if(self, stmt: ir.If, loops: list, inlines: list) -> None:
        branch = self._emit(Instruction(Kind.BRANCH, stmt.test_span, test=self.expr(stmt.test.expr), text=stmt.text))
        self.out[branch].tree = stmt.test.expr
        self._seq(stmt.then, loops, inlines)
        jump = self._emit(Instruction(Kind.JUMP, stmt.span))
        self.out[branch].target = len(self.out)
        self._seq(stmt.orelse, loops, inlines)
        end = self._merge(stmt.span)
        self.out[jump].target = end
        self.out[branch].merge = end
        self.out[branch].fails = self._fails(branch + 1, jump)
        self.out[branch].simple = self._simple(branch, jump, end)
        self.out[branch].syncs = self._syncs(branch, end)
        self.out[branch].leaves = bool(loops) and any(branch < at < jump for at in loops[-1][0])

    def _fails(self, begin: int, end: int) -> bool:
        """Between stands nothing but what stops the kernel with an error."""
        kinds = [i for i in self.out[begin:end] if i.kind is not Kind.MERGE]
        return bool(kinds) and all(i.kind is Kind.EXIT and i.fails for i in kinds)

    def _syncs(self, begin: int, end: int) -> bool:
        """Something that other threads wait for, or a way out, stands between."""
        return any(
            (i.kind in (Kind.EXIT, Kind.JUMP) and not begin <= i.target <= end)
            or (i.op is not None and i.op.name.startswith(SYNCHRONISING))
            for i in self.out[begin:end]
        )

    def _simple(self, branch: int, jump: int, end: int) -> tuple[Hashable, ...] | None:
        """Variables that the two sides assign, when the sides run straight through and never wait; else None."""
        assigned: dict[Hashable, None] = {}
        if end - branch > MAX_SIMPLE:
            return None
        for at in range(branch + 1, end):
            instruction = self.out[at]
            kind = instruction.kind
            if kind is Kind.ASSIGN:
                if instruction.index is not None:
                    return None
                assigned[instruction.key] = None
            elif kind is Kind.DO:
                assert instruction.op is not None
                if instruction.op.name in WAITING:
                    return None
            elif kind is Kind.BRANCH:
                if instruction.simple is None:
                    return None
                assigned.update(dict.fromkeys(instruction.simple))
            elif kind is Kind.JUMP:
                if at != jump and not branch < instruction.target <= end:
                    return None
            elif kind not in (Kind.STORE, Kind.READ, Kind.MARK, Kind.MERGE):
                return None
        return tuple(assigned)

    def _loop(self, stmt: ir.Loop, inlines: list) -> None:
        polled = self.part.polls.get(id(stmt)) if self.part is not None else None
        if self.part is not None and id(stmt) in self.part.spins and polled is None:
            # Whoever it waits for is outside the model (another CTA, or an unordered word): go on as if it had come.
            shared = self.part.spins[id(stmt)]
            reason = f"the loop `{stmt.text}` waits for a word of memory that other threads change"
            if not shared:
                reason += ": taken to end, for who writes global memory is not looked at"
            self._emit(
                Instruction(Kind.OPAQUE, stmt.test_span, opaque=ir.Opaque(stmt.test_span, reason), assumed=not shared)
            )
            return
        breaks: list[int] = []
        continues: list[int] = []
        loops = [(breaks, continues)]
        top = len(self.out)
        branch = -1
        if not stmt.after:
            self._seq(stmt.prelude, loops, inlines)
            if stmt.test is not None:
                branch = self._emit(
                    Instruction(Kind.BRANCH, stmt.test_span, test=self.expr(stmt.test.expr), loop=True, text=stmt.text)
                )
        self._seq(stmt.body, loops, inlines)
        resume = self._merge(stmt.span)
        self._seq(stmt.step, loops, inlines)
        if stmt.after:
            self._seq(stmt.prelude, loops, inlines)
            if stmt.test is not None:
                branch = self._emit(
                    Instruction(Kind.BRANCH, stmt.test_span, test=self.expr(stmt.test.expr), loop=True, text=stmt.text)
                )
        self._emit(Instruction(Kind.JUMP, stmt.span, target=top, loop=True, polls=polled is not None))
        end = self._merge(stmt.span)
        if polled is not None:
            self.polls.append(PollLoop(top, end, polled.symbols, polled.escapes, stmt.text, stmt.test_span))
        if branch >= 0:
            self.out[branch].tree = stmt.test.expr if stmt.test is not None else None
            self.out[branch].syncs = self._syncs(top, end)
            self.out[branch].target = end
            self.out[branch].merge = end
        for at in breaks:
            self.out[at].target = end
        for at in continues:
            self.out[at].target = resume


def _free(node: ir.Expr) -> list[ir.Symbol] | None:
    """The variables of an expression that depends only on them and on who evaluates it; None when it is not worth
    it.
    """
    found: dict[ir.Symbol, None] = {}
    size = 0
    stack = [node]
    while stack:
        top = stack.pop()
        match top:
            case ir.Binary(left=left, right=right):
                size += 1
                stack += (left, right)
            case ir.Unary(arg=arg) | ir.Cast(arg=arg):
                size += 1
                stack.append(arg)
            case ir.Select(test=test, yes=yes, no=no):
                size += 1
                stack += (test, yes, no)
            case ir.Address(offset=offset):
                stack.append(offset)
            case ir.Var(symbol=symbol):
                if symbol.kind != "local":
                    if not symbol.dims and symbol.kind != "dynamic_shared":
                        return None
                    continue
                found[symbol] = None
            case ir.Const():
                pass
            case ir.Special(name=name):
                if name.startswith(("clock", "smid", "gridid", "dynamic")):
                    return None
            case _:
                return None
    return list(found) if size >= 3 and len(found) <= 8 else None


def _remembered(made: Evaluate, free: list[ir.Symbol], ident: int) -> Evaluate:
    def run(c: Context) -> Value:
        inputs = tuple([c.env.get(symbol) for symbol in free])
        key = (ident, c.agent.threads, c.agent.cta, inputs)
        memo = c.memo
        value = memo.get(key)
        if value is None:
            if len(memo) > MAX_MEMO:
                memo.clear()
            c.spend(64)
            value = memo[key] = c.agent.narrowed(made(c))
        return value

    return run


def _variable(symbol: ir.Symbol) -> Evaluate:
    if symbol.kind in ("shared", "dynamic_shared") and (symbol.dims or symbol.kind == "dynamic_shared"):
        place = v.Place(symbol, 0)
        return lambda _: place

    def read(c: Context) -> Value:
        value = c.env.get(symbol)
        return c.fresh(symbol) if value is None else value

    return read


def _element(c: Context, symbol: ir.Symbol, index: Value) -> Value:
    index = settled(index)
    if isinstance(index, int):
        value = c.env.get((symbol, index))
        if value is not None:
            return value
        return v.Unknown(("element", id(symbol), index), Uniformity.LANE)
    return v.Unknown(("element", id(symbol), v.key_of(index)), min(v.floor_of(index), Uniformity.LANE))


def _pure(c: Context, name: str, known: bool, args: list[Value], node: ir.Pure) -> Value:
    if not known:
        return v.Unknown(("call", name, id(node)), Uniformity.LANE)
    if name == "mov.b64" and len(args) == 2:
        # Two 32-bit halves, the low one first (PTX ISA 9.7.9.3): how descriptors are put together.
        low, high = v.cast("u32", args[0]), v.cast("u32", args[1])
        return v.binary("|", low, v.binary("<<", high, 32))
    growing = next((arg for arg in args if arg is not bare(arg)), None)
    if growing is not None:
        # Another argument in each repetition of the state, another number.
        return lost(_pure(c, name, known, [bare(arg) for arg in args], node), trial_of(growing), *args)
    keys = tuple(v.key_of(arg) for arg in args)
    floor = min((v.floor_of(arg) for arg in args), default=Uniformity.GRID)
    if floor < Uniformity.CTA or not all(isinstance(arg, int) for arg in args):
        return v.Unknown((name, keys), floor)
    return c.number((name, keys))
