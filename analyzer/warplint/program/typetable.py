"""Types as written to types as laid out: aliases, records and their layout, template arguments."""

from __future__ import annotations

from warplint.program import ir
from warplint.program.arith import unknown
from warplint.program.ctypes import (
    OPAQUE_SIZES,
    SCALARS,
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
    Ctx,
    Scope,
    TemplateArgument,
    TypeAlias,
    Typed,
    Value,
)
from warplint.program.unit import Build, file_ctx
from warplint.source import Span
from warplint.syntax import ast


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


def _named(build: Build, name: str, targs: tuple[ast.Expr, ...], ctx: Ctx, depth: int) -> tuple[CType, bool]:
    """The type called `name`, and whether it is the same everywhere in the file."""
    unit = build.unit
    binding = ctx.scope.find(name, ctx.at)
    if isinstance(binding, TypeAlias):
        return binding.make(), False
    if isinstance(binding, TemplateArgument):
        return template_type(build, binding), False
    scalar = scalar_name(name)
    if scalar is not None:
        return SCALARS[scalar], True
    if vector(name) is not None:
        return CType(name), True
    if depth > 16:
        return CType(name), True
    plain = strip_namespace(name)
    alias = unit.aliases.get(name) or unit.aliases.get(plain)
    if alias is not None and alias.name != name:
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
    if name in ("auto", ""):
        return UNKNOWN, True
    scalar = scalar_name(plain)
    angle = name.find("<")
    return CType(scalar if scalar is not None else name if angle == -1 else name[:angle]), True


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
        scalar = table.size if table is not None else OPAQUE_SIZES.get(strip_namespace(type_.name), (None, 0))[0]
    return None if scalar is None else scalar * count


def align_of(build: Build, type_: CType) -> int:
    """Alignment of a type in bytes (1 when not known)."""
    if type_.pointer:
        return 8
    if type_.name in SIZES:
        return SIZES[type_.name]
    table = layout(build, type_._replace(dims=(), pointer=0))
    return table.alignment if table is not None else OPAQUE_SIZES.get(strip_namespace(type_.name), (0, 1))[1]


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
    made = _Laying(max(1, record.alignment), union)
    for base in record.bases:
        base_type, _ = _named(build, base, (), ctx, 0)
        made.inner(layout(build, base_type))
    for member in record.members:
        if "static" in member.type.qualifiers:
            continue
        member_type = declared_type(build, member, ctx)
        size = size_of(build, member_type)
        align = max(align_of(build, member_type), member.alignment)
        if member.bits or (not member.name and member_type.name in SIZES):
            made.bit_field(member.name, member_type, member.bits, size or 4)
        elif not member.name:
            made.inner(layout(build, member_type))
        else:
            made.member(member.name, member_type, size, align)
    return made.done()


class _Laying:
    """Members placed one after another by the Itanium C++ ABI (over one another in a union)."""

    def __init__(self, alignment: int, union: bool) -> None:
        self.fields: dict[str, Field] = {}
        self.alignment = alignment
        self.union = union
        self.shares = union
        self.bit: int | None = 0
        self.widest = 0

    def start(self, align: int) -> int | None:
        """The offset for the next member, aligned."""
        self.alignment = max(self.alignment, align)
        if self.union:
            return 0
        return None if self.bit is None else -(-self.bit // (8 * align)) * align

    def end(self, offset: int | None, size: int | None) -> None:
        """Moves past a member."""
        self.widest = max(self.widest, size or 0)
        self.bit = None if offset is None or size is None else 8 * (offset + size)

    def member(self, name: str, type_: CType, size: int | None, align: int) -> None:
        """An ordinary member."""
        offset = self.start(align)
        self.fields[name] = Field(name, type_, offset)
        self.end(offset, size)

    def inner(self, table: Layout | None) -> None:
        """A base class or a nameless inner record: its members are members here."""
        if table is None:
            self.bit = None
            return
        offset = self.start(table.alignment)
        for name, field_ in table.fields.items():
            where = None if offset is None or field_.offset is None else offset + field_.offset
            self.fields[name] = Field(name, field_.type, where, field_.bits)
        self.shares = self.shares or table.shares
        self.end(offset, table.size)

    def bit_field(self, name: str, type_: CType, width: int, size: int) -> None:
        """A bit-field: it does not cross a unit of its type."""
        self.shares = True
        unit = 8 * size
        if self.bit is None or width > unit:
            self.bit = None
            self.fields[name] = Field(name, type_, None, (0, max(1, width)))
            return
        first = 0 if self.union else self.bit
        if width == 0 or first // unit != (first + width - 1) // unit:
            first = -(-first // unit) * unit
        if name:
            self.alignment = max(self.alignment, size)
            self.fields[name] = Field(name, type_, first // unit * size, (first % unit, width))
        self.widest = max(self.widest, -(-(first + width) // 8))
        self.bit = first + width

    def done(self) -> Layout:
        """The finished layout."""
        if self.union:
            total: int | None = self.widest
        else:
            total = None if self.bit is None else -(-self.bit // 8)
        if total is not None:
            total = -(-max(total, 1) // self.alignment) * self.alignment
        return Layout(self.fields, total, self.alignment, self.shares)


GROUP_TYPES = frozenset({"thread_block_tile", "thread_block", "grid_group", "cluster_group", "coalesced_group"})
"""Classes of cooperative groups: an object has the type of the call that makes it, as with `auto`."""


def declared_type(build: Build, item: ast.Declarator | ast.Param, ctx: Ctx) -> CType:
    """The type of a declarator with its array dimensions evaluated."""
    if isinstance(item, ast.Declarator) and isinstance(item.init, ast.Lazy) and not item.dims:
        if strip_namespace(item.type.name) in GROUP_TYPES and isinstance(item.init.expr, ast.Call):
            return UNKNOWN
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
