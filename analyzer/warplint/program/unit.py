"""One file's tables: functions, records, macros, constants and types, and the state of the kernel being lowered."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field

from warplint.program import ir
from warplint.program.arith import unknown
from warplint.program.ctypes import (
    OPAQUE_SIZES,
    SIZES,
    UNKNOWN,
    CType,
    Field,
    Layout,
    scalar_name,
    strip_namespace,
    vector,
    vector_layout,
)
from warplint.program.scope import (
    Binding,
    Ctx,
    Frame,
    Memory,
    Scope,
    TemplateArgument,
    TypeAlias,
    Typed,
    Value,
)
from warplint.source import SourceFile, Span
from warplint.syntax import ast

MAX_DEPTH = 150
"""Nesting of statements, expressions and inlined calls that is followed; deeper source is opaque."""
MAX_INLINE = 24
"""Depth of helpers inlined into helpers."""
MAX_STATEMENTS = 400_000
"""Lowered statements of one kernel; beyond it calls are opaque (hostile nesting of helpers grows exponentially)."""


@dataclass(frozen=True)
class Options:
    """What the user or the command line says about the launch."""

    arch: str = ""
    block: tuple[int, int, int] | None = None
    cluster: tuple[int, int, int] | None = None
    smem: int | None = None
    defines: Mapping[str, int] = field(default_factory=dict)
    fragment: bool | None = None
    """Read a file without a kernel as the body of one; None: when nothing in it is a function."""
    expect: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class Unit:
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
    summaries: dict[int, object] = field(default_factory=dict)
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


@dataclass(slots=True, eq=False)
class Build:
    """The state of one kernel being lowered."""

    unit: Unit
    clock: int = 0
    label: int = 0
    depth: int = 0
    budget: int = MAX_STATEMENTS
    shared: list[ir.Symbol] = field(default_factory=list)
    statics: dict[tuple[int, int], Memory] = field(default_factory=dict)
    """Shared variables by the place of their declaration: a helper's are the same at each of its calls."""
    dynamic: ir.Symbol | None = None
    """All `extern __shared__` arrays are one storage (CUDA C++ Programming Guide, `__shared__`)."""
    incomplete: list[ir.Incomplete] = field(default_factory=list)
    said: set[str] = field(default_factory=set)
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


# ------------------------------------------------------------------------------------------------------ types
def ctype(build: Build, type_: ast.TypeName, ctx: Ctx) -> CType:
    """The resolved type of a type as written; `UNKNOWN` name kept when nothing is known about it."""
    unit = build.unit
    key = (type_.name, type_.pointer, type_.reference)
    found = unit.types.get(key)
    if found is not None:
        return found
    base, cacheable = _named(build, type_.name, type_.targs, ctx, 0)
    result = CType(base.name, base.pointer + type_.pointer, base.dims, base.targs) if type_.pointer else base
    if cacheable:
        unit.types[key] = result
    return result


def _named(
    build: Build, name: str, targs: tuple[ast.Expr, ...], ctx: Ctx, depth: int
) -> tuple[CType, bool]:
    """The type called `name`, and whether it is the same everywhere in the file."""
    unit = build.unit
    binding = ctx.scope.find(name, ctx.at)
    if isinstance(binding, TypeAlias):
        return binding.make(), False
    if isinstance(binding, TemplateArgument):
        return template_type(build, binding), False
    scalar = scalar_name(name)
    if scalar is not None:
        return CType(scalar), True
    if vector(name) is not None:
        return CType(name), True
    if depth > 16:
        return CType(name), True
    plain = strip_namespace(name)
    alias = unit.aliases.get(name) or unit.aliases.get(plain)
    if alias is not None and strip_namespace(alias.name) != plain:
        base, _ = _named(build, alias.name, alias.targs, file_ctx(unit), depth + 1)
        return CType(base.name, base.pointer + alias.pointer, base.dims, base.targs), True
    record = unit.records.get(name) or unit.records.get(plain)
    if record is not None:
        if targs or record.template:
            values = tuple(_targ(build, arg, ctx) for arg in targs)
            return CType(record.name, 0, (), values), False
        return CType(record.name), True
    macro = unit.macros.get(name)
    if macro is not None and macro.params is None and macro.body.strip() != name:
        return _named(build, " ".join(macro.body.split()), (), file_ctx(unit), depth + 1)
    if "auto" == name:
        return UNKNOWN, True
    scalar = scalar_name(plain)
    return CType(scalar if scalar is not None else plain), True


def _targ(build: Build, arg: ast.Expr, ctx: Ctx) -> int | str | None:
    from warplint.program.expr import value  # the two modules are one recursion

    if isinstance(arg, ast.Name):
        binding = ctx.scope.find(arg.id, ctx.at)
        if binding is None and arg.id not in build.unit.globals and arg.id not in build.unit.macros:
            return arg.id
        if isinstance(binding, TemplateArgument) and binding.type is not None:
            return binding.type.name
    result = value(build, arg, ctx.into(None)).expr
    return result.value if isinstance(result, ir.Const) else None


def template_type(build: Build, binding: TemplateArgument) -> CType:
    """The type that a template parameter stands for."""
    if binding.type is not None:
        return binding.type
    if isinstance(binding.expr, ast.Name) and binding.ctx is not None:
        return ctype(build, ast.TypeName(binding.expr.id, targs=binding.expr.targs), binding.ctx)
    return UNKNOWN


def size_of(build: Build, type_: CType) -> int | None:
    """Bytes of a type, None when not known."""
    count = type_.count()
    if count is None:
        return None
    if type_.pointer:
        return 8 * count
    scalar = SIZES.get(type_.name)
    if scalar is None:
        if type_.name == "void":
            return 1  # as GNU C steps void pointers
        table = layout(build, type_._replace(dims=()))
        scalar = table.size if table is not None else OPAQUE_SIZES.get(type_.name, (None, 0))[0]
    return None if scalar is None else scalar * count


def align_of(build: Build, type_: CType) -> int:
    """Alignment of a type in bytes (1 when not known)."""
    if type_.pointer:
        return 8
    if type_.name in SIZES:
        return SIZES[type_.name]
    table = layout(build, type_._replace(dims=(), pointer=0))
    return table.alignment if table is not None else OPAQUE_SIZES.get(type_.name, (0, 1))[1]


def layout(build: Build, type_: CType) -> Layout | None:
    """Data members of a record or CUDA vector type, None when it is not defined in this file."""
    unit = build.unit
    if type_ in unit.layouts:
        return unit.layouts[type_]
    unit.layouts[type_] = None  # a record that contains itself
    found = vector(type_.name)
    if found is not None:
        result: Layout | None = vector_layout(*found)
    else:
        record = unit.records.get(type_.name)
        result = None if record is None else _record_layout(build, record, type_)
    unit.layouts[type_] = result
    return result


def record_ctx(build: Build, record: ast.Record, type_: CType) -> Ctx:
    """File scope with the record's template parameters bound."""
    ctx = file_ctx(build.unit)
    if not record.template:
        return ctx
    scope = Scope(ctx.scope)
    for i, name in enumerate(record.template):
        given = type_.targs[i] if i < len(type_.targs) else None
        if isinstance(given, int):
            constant = Typed(ir.Const(given), CType("i32"))
            scope.declare(name, Value(lambda constant=constant: constant))
        elif isinstance(given, str):
            scope.declare(name, TemplateArgument(ast.Name(Span(0, 0), given), ctx))
        else:
            reason = f"template parameter `{name}` of `{record.name}`"
            scope.declare(name, Value(lambda reason=reason: unknown(reason, uniform=True)))
    return Ctx(scope, ctx.frame, None)


def _record_layout(build: Build, record: ast.Record, type_: CType) -> Layout:
    ctx = record_ctx(build, record, type_)
    union = build.unit.source.data[record.span.start : record.span.start + 5] == b"union"
    fields: dict[str, Field] = {}
    offset: int | None = 0
    alignment = max(1, record.alignment)
    widest = 0
    for base in record.bases:
        base_type, _ = _named(build, base, (), ctx, 0)
        table = layout(build, base_type)
        if table is None or table.size is None:
            offset = None
            continue
        for name, member in table.fields.items():
            fields[name] = Field(name, member.type, None if offset is None or member.offset is None else offset + member.offset)
        alignment = max(alignment, table.alignment)
        offset = None if offset is None else offset + table.size
    for member in record.members:
        if "static" in member.type.qualifiers:
            continue
        member_type = declared_type(build, member, ctx)
        size = size_of(build, member_type)
        align = max(align_of(build, member_type), member.alignment)
        alignment = max(alignment, align)
        if union:
            fields[member.name] = Field(member.name, member_type, 0)
            widest = max(widest, size or 0)
            continue
        if offset is not None:
            offset = -(-offset // align) * align
        fields[member.name] = Field(member.name, member_type, offset)
        offset = None if offset is None or size is None else offset + size
    if union:
        offset = widest
    total = None if offset is None else -(-max(offset, 1) // alignment) * alignment
    return Layout(fields, total, alignment, union)


def declared_type(build: Build, item: ast.Declarator | ast.Param, ctx: Ctx) -> CType:
    """The type of a declarator with its array dimensions evaluated."""
    base = ctype(build, item.type, ctx)
    dims = item.dims if isinstance(item, ast.Declarator) else ()
    if not dims:
        return base
    return base._replace(dims=tuple(dimension(build, dim, ctx) for dim in dims) + base.dims)


def dimension(build: Build, dim: ast.Expr | None, ctx: Ctx) -> int | None:
    """A constant array dimension, None when absent or not constant."""
    if dim is None:
        return None
    if isinstance(dim, ast.Num):
        return dim.value
    from warplint.program.expr import constant  # the two modules are one recursion

    return constant(build, dim, ctx)
