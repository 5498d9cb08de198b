"""What a walk over a kernel knows: numbers for each thread, where shuffled values come from, what was seen."""

from __future__ import annotations

from msgspec import Struct, field

from warplint.machine.values import UNARY, wrap
from warplint.program.ir import (
    Address,
    Binary,
    Cast,
    Const,
    Expr,
    Load,
    Operation,
    OpValue,
    Pure,
    Select,
    Special,
    Symbol,
    Unary,
    Var,
    parts,
)
from warplint.source import Span
from warplint.threads.facts import Roles
from warplint_rules.amd._numbers import UNIFORM, Number, applied, chosen, joined, of_thread, sets_of

_MAX_WORK = 3_000_000
_MAX_PARTS = 400


class Shuffle(Struct, eq=False):
    """One execution of a shuffle: its site, who executes it, and the lane operand."""

    op: Operation
    threads: int
    lane: Number
    width: Number


class Chain(Struct, eq=False):
    """A value that lanes have exchanged: where that began, who took part, whose input those who use it got."""

    op: Operation
    threads: int
    """Those whose input is data of their own, not a constant."""
    used: int = 0
    uses: list[tuple[Span, int]] = field(default_factory=list)
    held: list[tuple[int, ...]] = field(default_factory=list)
    """What the threads held at each use."""
    steps: list[tuple[str, int]] = field(default_factory=list)
    """Mode and distance of its shuffles so far; distance 0 for one that is no constant."""
    blurred: bool = False
    """A product may have cut parts of it out."""


class Access(Struct, eq=False):
    """An access to a shared variable: bytes from `at` (None: anywhere) by `threads`; `certain` when they all come."""

    span: Span
    symbol: Symbol
    at: Number
    bytes: int | None
    threads: int
    certain: bool
    write: bool


class State(Struct):
    """What variables hold at one place."""

    numbers: dict[int, Number]
    origins: dict[int, dict[int, tuple[int, ...]]]
    """By variable, by chain: for each thread the set of threads whose input its value contains."""
    data: dict[int, tuple[int, int]]
    """By variable, the threads in which it holds data that differs from thread to thread: loaded from global memory
    under whatever condition, and other data that is certainly there."""

    def copy(self) -> State:
        return State(dict(self.numbers), dict(self.origins), dict(self.data))


class TooMuch(Exception):
    """The walk's bound is reached."""


class Values:
    """The state of a walk over one kernel, and the meaning of expressions in it."""

    def __init__(self, roles: Roles, width: int) -> None:
        self.roles, self.width, self.block = roles, width, roles.threads
        self.work = _MAX_WORK
        self.chains: dict[int, Chain] = {}
        self.state = State({}, {}, {})
        self.moved: dict[int, dict[int, tuple[int, ...]]] = {}
        """By shuffle, by chain: what its result contains."""
        self.results: dict[int, Number] = {}
        x, y, z = extents(roles)
        linear = range(self.block)
        self.specials: dict[str, Number] = {
            "tid.x": tuple(t % x for t in linear),
            "tid.y": tuple(t // x % y for t in linear),
            "tid.z": tuple(t // (x * y) for t in linear),
            "linear_tid": tuple(linear),
            "laneid": tuple(t % width for t in linear),
            "warpid": None,
            "warpsize": width,
            "ntid.x": x,
            "ntid.y": y,
            "ntid.z": z,
        }

    def number(self, expr: Expr) -> Number:
        """An integer expression for each thread."""
        self.spend(self.block // 8)
        match expr:
            case Const(value=value):
                return value
            case Special(name=name):
                return self.specials.get(name, None if name.startswith(("lanemask", "clock", "smid")) else UNIFORM)
            case Var(symbol=symbol):
                if id(symbol) in self.state.numbers:
                    return self.state.numbers[id(symbol)]
                return UNIFORM if symbol.kind in ("param", "constant") else None
            case Cast(type=type_, arg=arg):
                value = self.number(arg)
                if isinstance(value, int):
                    return wrap(type_, value)
                return tuple([wrap(type_, each) for each in value]) if isinstance(value, tuple) else value
            case Unary(op=op, arg=arg) if op in UNARY:
                value = self.number(arg)
                if isinstance(value, int):
                    return UNARY[op](value)
                return tuple([UNARY[op](each) for each in value]) if isinstance(value, tuple) else value
            case Binary(op=op, left=left, right=right):
                return applied(op, self.number(left), self.number(right))
            case Select(test=test, yes=yes, no=no):
                return chosen(self.number(test), self.number(yes), self.number(no))
            case OpValue(op=op):
                return self.results.get(id(op))
            case Load(pointer=pointer):
                return UNIFORM if self.number(pointer) is not None and not shared(pointer) else None
            case _:
                below = parts(expr)
                known = bool(below) and all(isinstance(value, int | str) for value in map(self.number, below))
                return UNIFORM if known or getattr(expr, "uniform", False) else None

    def origin(self, expr: Expr) -> dict[int, tuple[int, ...]]:
        """By chain, whose input the value contains in each thread."""
        found: dict[int, tuple[int, ...]] = {}
        stack, seen = [expr], 0
        while stack and seen < _MAX_PARTS:
            seen += 1
            top = stack.pop()
            if isinstance(top, Var):
                joined(found, self.state.origins.get(id(top.symbol), {}))
            elif isinstance(top, OpValue):
                joined(found, self.moved.get(id(top.op), {}))
            elif isinstance(top, Select) and isinstance(test := self.number(top.test), int | tuple):
                yes, no = self.origin(top.yes), self.origin(top.no)
                for chain in {**yes, **no}:
                    one, two = sets_of(yes, chain, self.block), sets_of(no, chain, self.block)
                    mixed = [one[t] if of_thread(test, t) else two[t] for t in range(self.block)]
                    joined(found, {chain: tuple(mixed)})
            else:
                if (isinstance(top, Binary) and top.op == "*") or (isinstance(top, Pure) and top.name == "operator*"):
                    for part in top.args if isinstance(top, Pure) else (top.left, top.right):
                        for chain in self.origin(part):
                            self.chains[chain].blurred = True
                stack.extend(parts(top))
        if found:
            self.spend(self.block * len(found))
        return found

    def data(self, expr: Expr) -> tuple[int, int]:
        """The threads in which a value is data of their own: from global memory, and any that is certain."""
        everyone = (1 << self.block) - 1
        match expr:
            case Const():
                return 0, 0
            case Var(symbol=symbol):
                known = self.state.data.get(id(symbol))
                if known is not None:
                    return known
                return (0, 0) if isinstance(self.number(expr), int | str) else (0, everyone)
            case Load(pointer=pointer):
                if isinstance(self.number(pointer), int | str):
                    return 0, 0
                return (0, everyone) if shared(pointer) else (everyone, everyone)
            case Select(test=test, yes=yes, no=no):
                (far, near), (far2, near2) = self.data(yes), self.data(no)
                chosen = self.number(test)
                if isinstance(chosen, int | tuple):
                    mask = sum(1 << t for t in range(self.block) if of_thread(chosen, t))
                    return far & mask | far2 & ~mask, near & mask | near2 & ~mask
                return far | far2, near & near2
            case _:
                below = parts(expr)
                if not below:
                    return (0, 0) if isinstance(self.number(expr), int | str) else (0, everyone)
                far = near = 0
                for part in below:
                    one, two = self.data(part)
                    far, near = far | one, near | two
                return far, near

    def spend(self, amount: int) -> None:
        """Counts work; raises TooMuch at the bound."""
        self.work -= amount
        if self.work < 0:
            raise TooMuch


def extents(roles: Roles) -> tuple[int, int, int]:
    """Threads in x, y and z."""
    block = roles.launch.block.value if roles.launch.block is not None else (roles.threads, 1, 1)
    x, y, z, *_ = (*block, 1, 1)
    return x, y, z


def shared(pointer: Expr) -> bool:
    """An address that leads into a variable of the kernel: not to global memory."""
    stack = [pointer]
    while stack:
        top = stack.pop()
        if isinstance(top, Address) and top.symbol.kind != "constant":
            return True
        stack.extend(parts(top))
    return False
