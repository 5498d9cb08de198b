"""Names, places and values while a function is being lowered.

A `Scope` maps names to bindings. Deferred expressions are resolved long after their statement was passed, so every
binding carries the time of its declaration and a look-up ignores what was declared later than the looker.

A `Typed` is a resolved expression with its C type. A `Place` is something that can be written: a local (or a leaf of a
local aggregate), or memory behind a pointer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from msgspec import Struct, field

from warplint.program import ir
from warplint.program.ctypes import SIZES, CType
from warplint.source import Span
from warplint.syntax import ast

LATE = 1 << 60
"""A look-up time later than every declaration."""

ZERO = ir.Const(0)
ONE = ir.Const(1)


class Typed(NamedTuple):
    """A resolved expression and its type. `place` is the storage of an aggregate value, or what a pointer points to."""

    expr: ir.Expr
    type: CType
    place: Place | None = None


# ---------------------------------------------------------------------------------------------------- places
class Root(Struct, eq=False):
    """One declared local (or by-value parameter). Aggregates are split: each leaf member is a symbol of its own."""

    name: str
    type: CType
    kind: ir.Kind
    span: Span
    alignment: int = 0
    leaves: dict[tuple[str, ...], ir.Symbol] = field(default_factory=dict)
    members: dict[tuple[str, ...], list[str]] = field(default_factory=dict)
    """For types without a known layout: member names seen, by path; a member's number is its index there."""
    grid_constant: bool = False
    volatile: bool = False
    """Declared volatile (for a pointer: what it points to)."""
    held: dict[tuple[str, ...], ir.Expr] | None = None
    """In effect-free code that is evaluated as one expression: the present values of the leaves. Else None."""
    plain: bool = False
    """A scalar that is no pointer, or a one-dimensional array of such."""

    def __post_init__(self) -> None:
        type_ = self.type
        self.plain = not type_.pointer and type_.name in SIZES and len(type_.dims) <= 1


class LocalPlace(NamedTuple):
    """Part of a local: member path, element index over all array dimensions met on the way, and its type."""

    root: Root
    path: tuple[str, ...]
    dims: tuple[int | None, ...]
    index: ir.Expr
    type: CType
    origin: LocalPlace | None = None
    """For storage seen as another type: the place it really is. `shift` then tells where in it, not `index`."""
    shift: ir.Expr = ZERO
    """Bytes from the start of `origin`."""
    bits: tuple[int, int] | None = None
    """For a bit-field: its first bit after `shift`, and its width."""


class MemPlace(NamedTuple):
    """Memory behind a pointer."""

    pointer: ir.Expr
    type: CType
    volatile: bool = False


Place = LocalPlace | MemPlace


# -------------------------------------------------------------------------------------------------- bindings
class Local(Struct, eq=False):
    """A variable of the function, held in symbols."""

    root: Root
    constant: Callable[[], Typed] | None = None
    """For const variables: their initial value (used where a constant expression is needed)."""


class Value(Struct, eq=False):
    """A name that stands for a value (an argument of a straight-line helper, a constant)."""

    make: Callable[[], Typed]
    built: Typed | None = None
    busy: bool = False
    stored: bool = False
    """The name is a variable of a straight-line helper: assigning to it rebinds the name."""


class Alias(Struct, eq=False):
    """A reference: the name stands for a place."""

    make: Callable[[], Place | None]
    built: Place | None = None
    done: bool = False

    def place(self) -> Place | None:
        """The place referred to, None when it could not be resolved."""
        if not self.done:
            self.done = True
            self.built = self.make()
        return self.built


class Memory(Struct, eq=False):
    """A variable in shared, constant or global memory."""

    symbol: ir.Symbol
    type: CType
    volatile: bool = False


class TypeAlias(Struct, eq=False):
    """A type name: `using T = ...` or a template type parameter."""

    make: Callable[[], CType]


class TemplateArgument(Struct, eq=False):
    """A template parameter bound to an argument as written (a value or a type), to be resolved at `ctx`."""

    expr: ast.Expr | None
    ctx: Ctx | None
    type: CType | None = None


class Closure(Struct, eq=False):
    """A lambda bound to a name."""

    node: ast.Lambda
    ctx: Ctx


class MacroArgument(Struct, eq=False):
    """A parameter of a function-like macro: its argument, evaluated wherever it is named."""

    expr: ast.Expr
    ctx: Ctx


Binding = Local | Value | Alias | Memory | TypeAlias | TemplateArgument | Closure | MacroArgument


class Scope:
    """One lexical scope."""

    __slots__ = ("names", "parent", "record", "this")

    def __init__(self, parent: Scope | None, this: Place | None = None, record: str = "") -> None:
        self.parent = parent
        self.names: dict[str, tuple[int, Binding, Any]] = {}
        """Name to `(time, binding, the entry before it or None)`."""
        self.this = this
        self.record = record

    def find(self, name: str, at: int) -> Binding | None:
        """The binding visible under `name` for somebody who looks at time `at`."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.names.get(name)
            while found is not None:
                if found[0] <= at:
                    return found[1]
                found = found[2]
            scope = scope.parent
        return None

    def declare(self, name: str, binding: Binding, time: int = 0) -> None:
        """Binds a name from `time` on; who looks from earlier still finds what was bound before."""
        self.names[name] = (time, binding, self.names.get(name))

    def nearest(self) -> tuple[Place | None, str]:
        """The object (`this`) and class of the innermost method around; the class alone in its static functions."""
        scope: Scope | None = self
        while scope is not None:
            if scope.record:
                return scope.this, scope.record
            scope = scope.parent
        return None, ""


class Frame(Struct, eq=False):
    """One function being lowered: the kernel itself (`outer` None) or a helper at its call site."""

    name: str
    label: int = 0
    outer: Span | None = None
    """The call in the kernel's own text that led here."""
    chain: tuple[Span, ...] = ()
    depth: int = 0
    result: Root | None = None
    """Where `return` puts its value."""
    straight: bool = False
    """No control flow: locals are values, and assigning rebinds their names."""
    foreign: bool = False
    """Its tree does not come from the file's own text at its spans (a macro's expansion)."""
    switches: tuple[int, ...] = ()
    """Labels of the switches between here and the innermost loop: `break` leaves the last."""
    active: tuple[object, ...] = ()
    """Functions being inlined, against recursion."""
    kernel: bool = False
    """The kernel's own body: `return` ends the thread."""
    base: Scope | None = None
    """The scope outside the function."""
    spelling: str = ""
    """How the kernel's text calls what is being inlined (the outermost helper's name)."""
    held: list[Root] = field(default_factory=list)
    """Aggregates of effect-free code whose leaves hold values."""
    remaining: int = 0
    """Statements of a straight-line helper that follow the one being lowered."""


class Ctx(Struct, eq=False):
    """Where an expression is resolved. `out` receives the statements that its evaluation needs; None: none allowed."""

    scope: Scope
    frame: Frame
    out: list[ir.Stmt] | None
    at: int = LATE
    ops: Sequence[ir.Operation | Typed | None] = ()
    """Results of operations of the inline assembly whose operands are being resolved."""

    def into(self, out: list[ir.Stmt] | None) -> Ctx:
        """The same place with another sink."""
        return Ctx(self.scope, self.frame, out, self.at, self.ops)

    def later(self, at: int) -> Ctx:
        """The same place as it is seen at time `at`, for expressions resolved on first use."""
        return Ctx(self.scope, self.frame, None, at, self.ops)

    def nested(self) -> Ctx:
        """A new block inside."""
        return Ctx(Scope(self.scope), self.frame, self.out, self.at)


def ready(expr: ir.Expr) -> ir.Deferred:
    """An expression that is resolved already."""
    return ir.Deferred(_never, expr)


def _never() -> ir.Expr:
    raise AssertionError("a ready expression has no maker")
