"""From the structured program to flat code: expressions become closures, statements become instructions with jumps.

A kernel is compiled once and run for every scenario and agent. Code addresses are indices into `Code.instructions`. Where
control that may have divided comes together again stands a `MERGE`; it carries the split it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol

from warplint.machine import values as v
from warplint.machine.values import Value
from warplint.program import ir
from warplint.source import Span
from warplint.threads.facts import Uniformity

MAX_INSTRUCTIONS = 400_000


class Context(Protocol):
    """What an expression may ask of the agent that evaluates it."""

    env: dict[Hashable, Value]
    results: dict[tuple[ir.Operation, str], Value]

    def special(self, name: str) -> Value:
        """A built-in coordinate."""
        ...

    def load(self, pointer: Value, node: ir.Load) -> Value:
        """A read of memory."""
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
    DO = auto()
    BRANCH = auto()
    JUMP = auto()
    MERGE = auto()
    EXIT = auto()
    OPAQUE = auto()


@dataclass(slots=True, eq=False)
class Instruction:
    """One step. Which fields are set depends on `kind`."""

    kind: Kind
    span: Span
    target: int = -1
    """BRANCH: where to go when the test is zero; JUMP: where to go."""
    merge: int = -1
    """BRANCH: where the two sides meet again."""
    test: Evaluate | None = None
    loop: bool = False
    """BRANCH: it is a loop's test."""
    key: Hashable = None
    """ASSIGN: what is written (a symbol)."""
    index: Evaluate | None = None
    value: Evaluate | None = None
    store: ir.Store | ir.Read | None = None
    op: ir.Operation | None = None
    operands: dict[str, Evaluate] = field(default_factory=dict)
    predicate: Evaluate | None = None
    opaque: ir.Opaque | None = None
    text: str = ""


@dataclass(slots=True)
class Code:
    """A compiled kernel."""

    instructions: list[Instruction]
    too_long: bool = False


class Compiler:
    """Compiles one kernel. `wanted` are the symbols whose assignments matter; others are left out."""

    def __init__(self, wanted: frozenset[ir.Symbol] | None) -> None:
        self.wanted = wanted
        self.out: list[Instruction] = []
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
                return lambda c: _pure(name, known, [arg(c) for arg in inner_args], node)
            case ir.Unknown(reason=reason, uniform=uniform):
                floor = Uniformity.GRID if uniform else Uniformity.LANE
                unknown = v.Unknown(("unknown", reason, None if uniform else id(node)), floor)
                return lambda _: unknown
        unknown = v.Unknown(("expr", id(node)), Uniformity.LANE)
        return lambda _: unknown

    # ------------------------------------------------------------------------------------------- statements
    def compile(self, body: ir.Seq) -> Code:
        """Flat code of a kernel body, ending in an EXIT."""
        self._seq(body, [], [])
        self._emit(Instruction(Kind.EXIT, body.span))
        return Code(self.out, len(self.out) >= MAX_INSTRUCTIONS)

    def _emit(self, instruction: Instruction) -> int:
        if len(self.out) < MAX_INSTRUCTIONS:
            self.out.append(instruction)
        return len(self.out) - 1

    def _seq(self, seq: ir.Seq, loops: list[tuple[list[int], list[int]]], inlines: list[tuple[int, list[int]]]) -> None:
        for stmt in seq.body:
            self._stmt(stmt, loops, inlines)

    def _stmt(
        self, stmt: ir.Stmt, loops: list[tuple[list[int], list[int]]], inlines: list[tuple[int, list[int]]]
    ) -> None:
        match stmt:
            case ir.Seq():
                self._seq(stmt, loops, inlines)
            case ir.Assign(symbol=symbol, index=index, value=value):
                if self.wanted is None or symbol in self.wanted:
                    where = self.expr(index.expr) if index is not None else None
                    self._emit(
                        Instruction(Kind.ASSIGN, stmt.span, key=symbol, index=where, value=self.expr(value.expr))
                    )
            case ir.Store() | ir.Read():
                self._emit(
                    Instruction(Kind.STORE if isinstance(stmt, ir.Store) else Kind.READ, stmt.span, store=stmt,
                                value=self.expr(stmt.pointer.expr))
                )  # fmt: skip
            case ir.Do(op=op):
                self._emit(
                    Instruction(
                        Kind.DO,
                        op.span,
                        op=op,
                        operands={role: self.expr(operand) for role, operand in op.operands.items()},
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
                self._emit(Instruction(Kind.EXIT, stmt.span))
            case ir.Opaque():
                self._emit(Instruction(Kind.OPAQUE, stmt.span, opaque=stmt))

    def _merge(self, span: Span) -> int:
        return self._emit(Instruction(Kind.MERGE, span))

    def _if(self, stmt: ir.If, loops: list, inlines: list) -> None:
        start = len(self.out)
        branch = self._emit(
            Instruction(Kind.BRANCH, stmt.test_span, test=self.expr(stmt.test.expr), text=stmt.text)
        )
        self._seq(stmt.then, loops, inlines)
        if len(self.out) == start + 1 and not stmt.orelse.body:
            # Nothing of the branch is left after slicing: neither is its test.
            self.out.pop()
            return
        jump = self._emit(Instruction(Kind.JUMP, stmt.span))
        self.out[branch].target = len(self.out)
        self._seq(stmt.orelse, loops, inlines)
        end = self._merge(stmt.span)
        self.out[jump].target = end
        self.out[branch].merge = end

    def _loop(self, stmt: ir.Loop, inlines: list) -> None:
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
        before = len(self.out)
        self._seq(stmt.body, loops, inlines)
        resume = self._merge(stmt.span)
        self._seq(stmt.step, loops, inlines)
        if stmt.after:
            self._seq(stmt.prelude, loops, inlines)
            if stmt.test is not None:
                branch = self._emit(
                    Instruction(Kind.BRANCH, stmt.test_span, test=self.expr(stmt.test.expr), loop=True, text=stmt.text)
                )
        idle = all(i.kind in (Kind.ASSIGN, Kind.MERGE) for i in self.out[before:]) and not stmt.prelude.body
        if idle and branch >= 0 and self.wanted is not None and not breaks and not self._writes_wanted(before):
            # A loop that only counts: nothing outside it looks at what it leaves behind.
            del self.out[top:]
            return
        self._emit(Instruction(Kind.JUMP, stmt.span, target=top))
        end = self._merge(stmt.span)
        if branch >= 0:
            self.out[branch].target = end
            self.out[branch].merge = end
        for at in breaks:
            self.out[at].target = end
        for at in continues:
            self.out[at].target = resume

    def _writes_wanted(self, since: int) -> bool:
        return any(i.kind is Kind.ASSIGN for i in self.out[since:])


def _variable(symbol: ir.Symbol) -> Evaluate:
    if symbol.kind in ("shared", "dynamic_shared") and (symbol.dims or symbol.kind == "dynamic_shared"):
        place = v.Place(symbol, 0)
        return lambda _: place

    def read(c: Context) -> Value:
        value = c.env.get(symbol)
        return c.fresh(symbol) if value is None else value

    return read


def _element(c: Context, symbol: ir.Symbol, index: Value) -> Value:
    if isinstance(index, int):
        value = c.env.get((symbol, index))
        if value is not None:
            return value
        return v.Unknown(("element", id(symbol), index), Uniformity.LANE)
    return v.Unknown(("element", id(symbol), v.key_of(index)), min(v.floor_of(index), Uniformity.LANE))


def _pure(name: str, known: bool, args: list[Value], node: ir.Pure) -> Value:
    if not known:
        return v.Unknown(("call", name, id(node)), Uniformity.LANE)
    keys = tuple(v.key_of(arg) for arg in args)
    return v.Unknown((name, keys), min((v.floor_of(arg) for arg in args), default=Uniformity.GRID))
