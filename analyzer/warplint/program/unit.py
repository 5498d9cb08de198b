"""One file's tables: functions, records, macros, constants and types, and the state of the kernel being lowered."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping

from msgspec import Struct, field

from warplint.program import ir
from warplint.program.ctypes import (
    CType,
    Layout,
)
from warplint.program.scope import (
    Binding,
    Ctx,
    Frame,
    Memory,
    Scope,
    Value,
)
from warplint.program.spaces import Spaces
from warplint.source import SourceFile, Span
from warplint.syntax import ast

MAX_DEPTH = 150
"""Nesting of statements, expressions and inlined calls that is followed; deeper source is opaque."""
MAX_INLINE = 24
"""Depth of helpers inlined into helpers."""


def budget(size: int) -> int:
    """Statements lowered for one kernel of a file of `size` bytes, those of inlined helpers each time they are inlined.

    Beyond it calls are opaque: nesting of helpers can grow exponentially. Generated kernels stay below a fifth of it.
    """
    return min(400_000, 20_000 + size // 4)


class Options(Struct, frozen=True):
    """What the user or the command line says about the launch."""

    arch: str = ""
    block: tuple[int, int, int] | None = None
    cluster: tuple[int, int, int] | None = None
    smem: int | None = None
    defines: Mapping[str, int | str] = field(default_factory=dict)
    fragment: bool | None = None
    """Read a file without a kernel as the body of one; None: when nothing in it is a function."""
    expect: tuple[str, ...] = ()
    packs: tuple[tuple[str, str], ...] = ()
    """Tables of dialect packs from outside (`names.use`) and their targets, asked before our own."""


class Unit(Struct, eq=False):
    """Everything at file scope that names can mean, and what was computed about it so far."""

    file: ast.File
    source: SourceFile
    options: Options
    functions: dict[str, list[ast.Function]] = field(default_factory=dict)
    """By qualified name, and by last component."""
    records: dict[str, ast.Record] = field(default_factory=dict)
    macros: dict[str, ast.Macro] = field(default_factory=dict)
    aliases: dict[str, ast.TypeName] = field(default_factory=dict)
    globals: dict[str, ast.Declarator] = field(default_factory=dict)
    is_amd: bool = False
    host: Callable[[str], Unit] | None = None
    """The tables as a host function (by name) sees them, where the host's compiler reads another file."""
    types: dict[tuple[str, int, bool], CType] = field(default_factory=dict)
    layouts: dict[CType, Layout | None] = field(default_factory=dict)
    memory: dict[str, Memory] = field(default_factory=dict)
    constants: dict[str, Value] = field(default_factory=dict)
    expansions: dict[str, ast.Expr | None] = field(default_factory=dict)
    effects: dict[str, int] = field(default_factory=dict)
    """Class of every callee name seen (see `effects.py`)."""
    hot: list[int] = field(default_factory=list)
    """Offsets of calls that matter, sorted."""
    writes: list[int] = field(default_factory=list)
    """Offsets of `=`, `++` and `--`, sorted."""
    depth: int = 0
    """Helpers being looked into, one because of the other."""
    scanned: set[int] = field(default_factory=set)
    """Functions whose text has been searched (by id)."""
    callees: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """Names called in a function that has been searched, sorted."""
    statements: re.Pattern[bytes] | None = None
    """Names of object-like macros that stand for statements."""
    summaries: dict[int, object] = field(default_factory=dict)
    spaces: Spaces | None = None
    """Its namespaces, once a name was looked for in them."""
    templates: dict[str, object] = field(default_factory=dict)
    scope: Scope = field(default_factory=lambda: Scope(None))

    def touches(self, span: Span) -> bool:
        """A call that matters stands inside the span."""
        at = bisect_left(self.hot, span.start)
        return at < len(self.hot) and self.hot[at] < span.end

    def calls_in(self, span: Span) -> int:
        """How many calls that matter stand inside the span."""
        return bisect_left(self.hot, span.end) - bisect_left(self.hot, span.start)

    def writes_in(self, span: Span) -> int:
        """How many assignment or update tokens stand inside the span."""
        return bisect_left(self.writes, span.end) - bisect_left(self.writes, span.start)


class Build(Struct, eq=False):
    """The state of one kernel being lowered."""

    unit: Unit
    clock: int = 0
    label: int = 0
    depth: int = 0
    budget: int = 0
    steps: int = 0
    limit: int = 0
    """Expressions evaluated so far, and how many may be: crafted source can make evaluation grow exponentially."""
    typed: dict[int, tuple[ast.Expr, Scope, CType]] = field(default_factory=dict)
    """Types of expressions found so far, by identity (the expression is kept, so that the identity stays its own)."""
    shared: list[ir.Symbol] = field(default_factory=list)
    statics: dict[tuple[int, int], Memory] = field(default_factory=dict)
    """Shared variables by the place of their declaration: a helper's are the same at each of its calls."""
    dynamic: ir.Symbol | None = None
    """All `extern __shared__` arrays are one storage (CUDA C++ Programming Guide, `__shared__`)."""
    incomplete: list[ir.Incomplete] = field(default_factory=list)
    said: set[str] = field(default_factory=set)
    initial: dict[ir.Symbol, ir.Deferred] = field(default_factory=dict)
    """What pointers and integers were declared with: tells where an address in a variable leads."""
    expanding: set[str] = field(default_factory=set)
    """Object-like macros being expanded, against recursion."""
    excerpt: Scope | None = None
    """For a pasted excerpt: where names are declared that nothing declares."""
    statement: ast.Expr | None = None
    """The call that is a statement of its own (nobody uses its value) and is being lowered."""
    escaped: list[ir.Symbol] = field(default_factory=list)
    """Locals whose address went into a pointer variable: a write through an unknown pointer may change them."""

    def tick(self) -> int:
        """A new time for declarations."""
        self.clock += 1
        return self.clock

    def new_label(self) -> int:
        """A new label for an `Inline`."""
        self.label += 1
        return self.label

    def note(self, reason: str, span: Span | None) -> None:
        """Records once that something could not be established."""
        if reason not in self.said:
            self.said.add(reason)
            self.incomplete.append(ir.Incomplete(reason, span))


def bind(build: Build, ctx: Ctx, name: str, binding: Binding) -> None:
    """Declares a name in the current scope."""
    ctx.scope.declare(name, binding, build.tick())


def file_ctx(unit: Unit) -> Ctx:
    """The context of file scope: what constants and types are resolved in."""
    return Ctx(unit.scope, Frame("file"), None)
