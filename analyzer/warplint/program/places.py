"""Storage: members and elements of locals and of memory, reading them, and writing them."""

from __future__ import annotations

from warplint.program import aggregates, ir, views
from warplint.program.arith import advance, join, scaled, step, unknown
from warplint.program.ctypes import SIZES, UNKNOWN, CType, Field, component_name, vector
from warplint.program.scope import ZERO, Ctx, LocalPlace, MemPlace, Place, Root, Typed, ready
from warplint.program.typetable import layout, size_of
from warplint.program.unit import Build
from warplint.source import Span


def whole(root: Root, type_: CType | None = None) -> LocalPlace:
    """The place of a whole local, seen as `type_` where one is given."""
    return LocalPlace(root, (), root.type.dims, ZERO, root.type if type_ is None else type_)


def leaf(build: Build, place: LocalPlace) -> ir.Symbol:
    """The symbol that holds a place."""
    root = place.root
    found = root.leaves.get(place.path)
    if found is not None:
        return found
    element = place.type.bare
    count = 1
    for dim in place.dims:
        count = 0 if dim is None else count * dim
    symbol = ir.Symbol(
        name=".".join((root.name, *place.path)) if place.path else root.name,
        kind=root.kind,
        type=element.name,
        pointer=element.pointer,
        dims=() if count == 1 else place.dims,  # generators write scalars as one-element arrays
        element_bytes=size_of(build, element),
        alignment=root.alignment,
        span=root.span,
        grid_constant=root.grid_constant,
    )
    root.leaves[place.path] = symbol
    return symbol


def member(build: Build, place: Place, name: str) -> Place:
    """`place.name`."""
    table = layout(build, place.type._replace(dims=(), pointer=0))
    found = table.fields.get(name) if table is not None else None
    if isinstance(place, MemPlace):
        if found is None:
            return MemPlace(_nowhere(f"member `{name}` of `{place.type.name}`"), UNKNOWN, place.volatile)
        if found.offset is None:
            pointer = step(place.pointer, ir.Unknown(f"the offset of `{name}` in `{place.type.name}`", uniform=True))
        else:
            pointer = step(place.pointer, ir.Const(found.offset))
        return MemPlace(pointer, found.type, place.volatile)
    if found is not None and table is not None and (place.origin is not None or table.shares):
        return _part(build, place, found)
    if found is None or table is None:
        # No layout: one symbol, members are numbers in order of appearance.
        seen = place.root.members.setdefault(place.path, [])
        if name not in seen:
            seen.append(name)
        type_ = found.type if found is not None else UNKNOWN
        return place._replace(dims=(None,), index=ir.Const(seen.index(name)), type=type_)
    count = found.type.count()
    index = place.index if count == 1 else join("*", place.index, ir.Const(count)) if count else ir.Unknown("index")
    return LocalPlace(place.root, (*place.path, name), place.dims + found.type.dims, index, found.type)


def _part(build: Build, place: LocalPlace, found: Field) -> Place:
    """A member of storage that is shared or seen as another type."""
    origin, shift = place.origin, place.shift
    if origin is None:
        origin, shift = views.storage(build, place), ZERO
        if origin is not None and origin.type.dims:
            origin = origin._replace(type=origin.type.element())
        if origin is None:
            seen = place.root.members.setdefault(place.path, [])
            if found.name not in seen:
                seen.append(found.name)
            return place._replace(dims=(None,), index=ir.Unknown("index"), type=found.type)
    at = ir.Unknown("an offset") if found.offset is None else ir.Const(found.offset)
    return place._replace(type=found.type, origin=origin, shift=join("+", shift, at), bits=found.bits)


def _nowhere(what: str) -> ir.Expr:
    return ir.Unknown(f"{what} is not known")


def index(build: Build, place: Place, position: ir.Expr) -> Place | None:
    """`place[position]` where the place is an array; None when it is not one."""
    if not place.type.dims:
        return None
    element = place.type.element()
    if isinstance(place, MemPlace):
        return MemPlace(
            step(place.pointer, scaled(position, size_of(build, element), element.name)), element, place.volatile
        )
    count = element.count()
    if place.origin is not None:
        size = size_of(build, element)
        return place._replace(shift=join("+", place.shift, scaled(position, size, element.name)), type=element)
    moved = position if count == 1 else join("*", position, ir.Const(count)) if count else ir.Unknown("index")
    return place._replace(index=join("+", place.index, moved), type=element)


def component(build: Build, place: Place, position: ir.Expr) -> Place | None:
    """`place[position]` where the place is a vector of the compiler; of unknown size: a part nobody locates.

    None where a class of the file may define the operator.
    """
    if place.type.name in build.unit.records:
        return None
    element = vector(place.type.name)
    if element is not None and isinstance(place, MemPlace):
        pointer = step(place.pointer, scaled(position, SIZES[element[0]], element[0]))
        return MemPlace(pointer, CType(element[0]), place.volatile)
    if isinstance(place, MemPlace):
        return MemPlace(step(place.pointer, ir.Unknown("a component of a vector")), UNKNOWN, place.volatile)
    if element is not None and isinstance(position, ir.Const) and 0 <= position.value < element[1]:
        return member(build, place, component_name(position.value))
    return place._replace(type=UNKNOWN, origin=place.origin or place, shift=ir.Unknown("a component of a vector"))


def address(build: Build, place: Place) -> Typed:
    """`&place`: for locals the place travels along, so that the pointer can be followed."""
    if isinstance(place, MemPlace):
        return Typed(place.pointer, place.type.address_of())
    symbol, offset = _where(build, place)
    return Typed(ir.Address(symbol, offset), place.type.address_of(), place._replace(type=place.type._replace(dims=())))


def _where(build: Build, place: LocalPlace) -> tuple[ir.Symbol, ir.Expr]:
    """The symbol of a place (the first one of an aggregate) and the byte offset in it."""
    real = place.origin or place
    if not real.type.scalar and not real.type.dims:
        shared = views.storage(build, real) if _shares(build, real) else None
        real = shared or real
    symbol = leaf(build, real._replace(type=real.type._replace(dims=())))
    offset = scaled(real.index, symbol.element_bytes, real.type.name)
    return symbol, offset if place.origin is None else join("+", offset, place.shift)


def _shares(build: Build, place: LocalPlace) -> bool:
    table = layout(build, place.type)
    return table is not None and table.shares


def deref(build: Build, pointer: Typed, volatile: bool = False) -> Place:
    """`*pointer`."""
    if isinstance(pointer.place, LocalPlace):
        return pointer.place
    return MemPlace(pointer.expr, pointer.type.pointee if pointer.type.pointer else UNKNOWN, volatile)


def load(build: Build, place: Place) -> Typed:
    """The value in a place; arrays decay to pointers, aggregates keep their place."""
    type_ = place.type
    if type_.dims:
        if isinstance(place, MemPlace):
            element = type_.element() if len(type_.dims) == 1 else type_
            return Typed(place.pointer, element._replace(dims=()).address_of())
        element = place._replace(type=type_.element())
        symbol, offset = _where(build, place)
        return Typed(ir.Address(symbol, offset), type_._replace(dims=()).address_of(), element)
    if isinstance(place, MemPlace):
        if type_.scalar or type_ == UNKNOWN:
            return Typed(ir.Load(place.pointer, type_.cast, place.volatile), type_)
        return Typed(ir.Load(place.pointer, "other", place.volatile), type_, place)
    if not type_.scalar and layout(build, type_) is not None:
        return Typed(ir.Unknown(f"an aggregate of type `{type_.name}`"), type_, place)
    if place.origin is not None:
        return views.read(build, place) if type_.scalar else unknown(f"`{place.root.name}` read as another type", type_)
    symbol = leaf(build, place)
    if place.root.held is not None:
        return Typed(place.root.held.get(place.path, ir.Unknown(f"`{symbol.name}` before its first assignment")), type_)
    if not symbol.dims:
        return Typed(ir.Var(symbol), type_, None if type_.scalar else place)
    return Typed(ir.Element(symbol, place.index), type_, None if type_.scalar else place)


def subscript(build: Build, base: Typed, position: ir.Expr) -> Place:
    """`base[position]` where `base` is a pointer value."""
    moved = advance(base, position, size_of(build, base.type.pointee) if base.type.pointer else None)
    return deref(build, moved)


def write(build: Build, ctx: Ctx, place: Place, value: ir.Deferred, span: Span, declares: bool = False) -> None:
    """Emits the assignment of a scalar value to a place."""
    out = ctx.out
    if out is None:
        if isinstance(place, LocalPlace) and place.root.held is not None:
            _hold(build, ctx, place, value, span)
        return
    if isinstance(place, MemPlace):
        width = size_of(build, place.type) if place.type != UNKNOWN else None
        out.append(ir.Store(span, ready(place.pointer), value, width, False, place.volatile))
        if build.escaped and not reaches_memory(place.pointer):
            for symbol in build.escaped:
                out.append(_invalid(symbol, span, "may be written through a pointer"))
        return
    if place.origin is not None:
        if not views.write(build, ctx, place, value, span):
            aggregates.invalidate(build, ctx, place.origin, span, f"`{place.root.name}` is written as another type")
        return
    symbol = leaf(build, place)
    if not symbol.dims and (declares or (symbol.pointer and symbol not in build.initial)):
        build.initial[symbol] = value
    if symbol.dims:
        out.append(ir.Assign(span, symbol, ready(place.index), value, declares))
    else:
        out.append(ir.Assign(span, symbol, None, value, declares))


def _hold(build: Build, ctx: Ctx, place: LocalPlace, value: ir.Deferred, span: Span) -> None:
    """A write to an aggregate of effect-free code: its leaf holds the value from now on."""
    held = place.root.held
    assert held is not None
    if place.origin is not None:
        if not views.write(build, ctx, place, value, span):
            held[place.origin.path] = ir.Unknown(f"`{place.root.name}` is written as another type")
        return
    symbol = leaf(build, place)
    held[place.path] = value.expr if not symbol.dims else ir.Unknown(f"an element of `{symbol.name}`")


def _invalid(symbol: ir.Symbol, span: Span, why: str) -> ir.Assign:
    value = ready(ir.Unknown(f"`{symbol.name}` {why}"))
    return ir.Assign(span, symbol, ready(ir.Unknown("index")) if symbol.dims else None, value)


def reaches_memory(pointer: ir.Expr) -> bool:
    """The pointer certainly does not point to a local: it is the address of a non-local, or comes from a parameter."""
    for _ in range(64):
        match pointer:
            case ir.Address(symbol=symbol):
                return symbol.kind != "local"
            case ir.Var(symbol=symbol):
                return symbol.kind != "local"
            case ir.Binary(left=left):
                pointer = left
            case ir.Cast(arg=arg):
                pointer = arg
            case _:
                return False
    return False


def temporary(build: Build, ctx: Ctx, value: Typed, span: Span, name: str = "") -> Typed:
    """The value held in a new symbol, so that later writes do not change it; constants need none."""
    if ctx.out is None or stable(value.expr):
        return value
    symbol = ir.Symbol(name or "value", "local", value.type.name, value.type.pointer, (), size_of(build, value.type))
    ctx.out.append(ir.Assign(span, symbol, None, ready(value.expr), True))
    return Typed(ir.Var(symbol), value.type, value.place)


def stable(expr: ir.Expr) -> bool:
    """Evaluating the expression later gives the same value: it reads no variable and no memory."""
    stack = [expr]
    for _ in range(64):
        if not stack:
            return True
        match stack.pop():
            case ir.Const() | ir.Special() | ir.OpValue() | ir.Unknown():
                pass
            case ir.Var(symbol=symbol):
                if symbol.kind == "local":
                    return False
            case ir.Unary(arg=arg) | ir.Cast(arg=arg):
                stack.append(arg)
            case ir.Binary(left=left, right=right):
                stack += (left, right)
            case ir.Address(offset=offset):
                stack.append(offset)
            case ir.Select(test=test, yes=yes, no=no):
                stack += (test, yes, no)
            case _:
                return False
    return False
