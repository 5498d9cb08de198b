"""Names: what an identifier means at a place, as a value or as storage."""

from __future__ import annotations

from warplint.program import calls, designators, expr, fragment, ir, limits, places, storage
from warplint.program.arith import convert, unknown
from warplint.program.ctypes import BOOL, INT, UINT, UNKNOWN, CType, strip_namespace
from warplint.program.scope import (
    ZERO,
    Alias,
    Closure,
    Ctx,
    Frame,
    Local,
    MacroArgument,
    Memory,
    MemPlace,
    Place,
    TemplateArgument,
    Typed,
    Value,
)
from warplint.program.typetable import ctype, declared_type, layout, record_ctx, size_of
from warplint.program.unit import Build, file_ctx
from warplint.syntax import ast

COORDINATES = {"threadIdx": "tid", "blockIdx": "ctaid", "blockDim": "ntid", "gridDim": "nctaid"}


_NAMED_SPECIALS = {"warpSize": ("warpsize", INT)} | {
    f"hip{name[0].upper()}{name[1:]}_{axis}": (f"{special}.{axis}", UINT)
    for name, special in COORDINATES.items()
    for axis in "xyz"
}


def name_value(build: Build, node: ast.Name, ctx: Ctx) -> Typed:
    """The value of an identifier."""
    name = node.id
    binding = ctx.scope.find(name, ctx.at)
    if binding is not None:
        if isinstance(binding, MacroArgument):
            return expr.value(build, binding.expr, argument_ctx(binding, ctx))
        return bound(build, binding, name)
    if node.targs and name.endswith("is_same_v") and len(node.targs) == 2:
        return _same_type(build, node, ctx)
    special = _NAMED_SPECIALS.get(name)
    if special is not None:
        return Typed(ir.Special(special[0]), special[1])
    this, record = ctx.scope.nearest()
    if record:
        found = _own_member(build, name, this, record)
        if found is not None:
            return found
    macro = build.unit.macros.get(name)
    if macro is not None and macro.params is None:
        return _macro(build, macro, ctx)
    return global_value(build, name)


def _macro(build: Build, macro: ast.Macro, ctx: Ctx) -> Typed:
    """An object-like macro: its text, with the names that are visible where it is used."""
    tree = calls.expansion(build.unit, macro)
    if tree is None or macro.name in build.expanding:
        return unknown(f"macro `{macro.name}`", uniform=True)
    build.expanding.add(macro.name)
    try:
        return expr.value(build, tree, ctx)
    finally:
        build.expanding.discard(macro.name)


def _same_type(build: Build, node: ast.Name, ctx: Ctx) -> Typed:
    """`std::is_same_v<A, B>` where both types are known."""
    types = [
        ctype(build, ast.TypeName(item.id, targs=item.targs), ctx) for item in node.targs if isinstance(item, ast.Name)
    ]
    if len(types) != 2 or UNKNOWN in types:
        return unknown(f"`{node.id}`", BOOL, uniform=True)
    return Typed(ir.Const(int(types[0] == types[1])), BOOL)


def argument_ctx(argument: MacroArgument, ctx: Ctx) -> Ctx:
    """Where a macro's argument is evaluated: in its caller's scope, but here and now."""
    return Ctx(argument.ctx.scope, argument.ctx.frame, ctx.out, argument.ctx.at)


def bound(build: Build, binding: object, name: str) -> Typed:
    """The value of what a name is bound to."""
    match binding:
        case Local(root=root, constant=make):
            if make is not None:
                fixed = make()
                if isinstance(fixed.expr, ir.Const):
                    return fixed
            return places.load(build, places.whole(root))
        case Value():
            return force(binding)
        case Alias():
            place = binding.place()
            return places.load(build, place) if place is not None else unknown(f"the reference `{name}`")
        case Memory(symbol=symbol, type=type_, volatile=volatile):
            return places.load(build, MemPlace(ir.Address(symbol, ZERO), type_, volatile))
        case TemplateArgument(expr=tree, ctx=given):
            if tree is None or given is None:
                return unknown(f"template parameter `{name}`", uniform=True)
            return expr.value(build, tree, given.into(None))
        case Closure():
            return Typed(ir.Unknown("a lambda"), UNKNOWN)
    return unknown(f"`{name}`")


def force(binding: Value) -> Typed:
    """The value behind a name, computed once."""
    if binding.built is None:
        if binding.busy:
            return unknown("a value defined by itself")
        binding.busy = True
        try:
            binding.built = binding.make()
        finally:
            binding.busy = False
    return binding.built


def _own_member(build: Build, name: str, this: Place | None, record: str) -> Typed | None:
    if name == "this" and this is not None:
        return places.address(build, this)
    if this is not None:
        table = layout(build, this.type._replace(dims=(), pointer=0))
        if table is not None and name in table.fields:
            return places.load(build, places.member(build, this, name))
    return static_member(build, record, name, this.type if this is not None else CType(record))


def static_member(build: Build, record: str, name: str, type_: CType) -> Typed | None:
    """A `static constexpr` member of a record."""
    found = build.unit.records.get(record)
    if found is None:
        return None
    for item in found.members:
        if item.name == name and "static" in item.type.qualifiers and item.init is not None:
            ctx = record_ctx(build, found, type_)
            inner = Ctx(ctx.scope, Frame("record"), None)
            result = expr.value(build, item.init.expr, inner)
            return convert(result, declared_type(build, item, ctx)) if not item.dims else result
    for base in found.bases:
        inherited = static_member(build, strip_namespace(base), name, CType(strip_namespace(base)))
        if inherited is not None:
            return inherited
    return None


def global_value(build: Build, name: str) -> Typed:
    """The value of a name at file scope: a constant or a variable."""
    unit = build.unit
    known = unit.constants.get(name)
    if known is not None:
        return force(known)
    item = unit.globals.get(name)
    if item is None and "::" in name:
        head, _, last = name.rpartition("::")
        record = strip_namespace(head)
        found = static_member(build, record, last, CType(record)) if record in unit.records else None
        if found is not None:
            return found
        item = unit.globals.get(last)
    if item is not None:
        return _global(build, name, item)
    constant = limits.header_constant(name)
    if constant is not None:
        return constant
    implicit = fragment.implicit(build, name)
    if implicit is not None:
        return bound(build, implicit, name)
    return unknown(f"`{name}`{ir.UNDEFINED}")


def _global(build: Build, name: str, item: ast.Declarator) -> Typed:
    unit = build.unit
    ctx = file_ctx(unit)
    words = item.type.qualifiers
    if "__shared__" in words:
        found = storage.shared(build, item, ctx)
        return places.load(build, MemPlace(ir.Address(found.symbol, ZERO), found.type))
    type_ = declared_type(build, item, ctx)
    init = item.init
    if init is not None and not type_.dims and words & {"constexpr", "const"}:
        unit.constants[name] = made = Value(lambda: convert(expr.value(build, init.expr, ctx), type_))
        result = force(made)
        if isinstance(result.expr, ir.Const) or not type_.scalar:
            return result
        made.built = Typed(ir.Unknown(f"constant `{name}`", True), type_)
        return made.built
    found = unit.memory.get(name)
    if found is None:
        kind: ir.Kind = "constant" if words & {"__constant__", "constexpr", "const"} else "global"
        element = type_._replace(dims=())
        symbol = ir.Symbol(
            item.name,
            kind,
            element.name,
            element.pointer,
            type_.dims,
            size_of(build, element),
            item.alignment,
            item.span,
        )
        unit.memory[name] = found = Memory(symbol, type_, "volatile" in words)
    if found.symbol.kind == "constant" and init is None and type_.scalar:
        return Typed(ir.Load(ir.Address(found.symbol, ZERO), type_.cast), type_)
    return places.load(build, MemPlace(ir.Address(found.symbol, ZERO), type_))


def named_place(build: Build, name: str, ctx: Ctx) -> Place | None:
    """The storage that an identifier names."""
    binding = ctx.scope.find(name, ctx.at)
    match binding:
        case Local(root=root):
            return places.whole(root)
        case Alias():
            return binding.place()
        case MacroArgument(expr=tree):
            return designators.place(build, tree, argument_ctx(binding, ctx))
        case Memory(symbol=symbol, type=type_, volatile=volatile):
            return MemPlace(ir.Address(symbol, ZERO), type_, volatile)
        case Value():
            held = force(binding)
            return None if held.type.pointer else held.place  # a pointer's place is what it points to
        case None:
            this, record = ctx.scope.nearest()
            if record and this is not None:
                if name == "this":
                    return None
                table = layout(build, this.type._replace(dims=(), pointer=0))
                if table is not None and name in table.fields:
                    return places.member(build, this, name)
            item = build.unit.globals.get(name)
            if item is not None:
                _global(build, name, item)
                found = build.unit.memory.get(name)
                if found is not None:
                    return MemPlace(ir.Address(found.symbol, ZERO), found.type)
                if "__shared__" in item.type.qualifiers:
                    found = storage.shared(build, item, file_ctx(build.unit))
                    return MemPlace(ir.Address(found.symbol, ZERO), found.type)
            macro = build.unit.macros.get(name)
            if macro is not None and macro.params is None:
                tree = calls.expansion(build.unit, macro)
                if tree is not None and not (isinstance(tree, ast.Name) and tree.id == name):
                    return designators.place(build, tree, ctx)
            if item is None and macro is None and fragment.implicit(build, name) is not None:
                return named_place(build, name, ctx)
    return None


def is_variable(build: Build, name: str, ctx: Ctx) -> bool:
    """A name that stands for a value, not for a type."""
    binding = ctx.scope.find(name, ctx.at)
    if binding is not None:
        return isinstance(binding, (Local, Value, Alias, Memory, MacroArgument))
    return name in build.unit.globals
