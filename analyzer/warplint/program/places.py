"""Storage: members and elements of locals and of memory, reading them, and writing them."""

from __future__ import annotations

from warplint.program import ir
from warplint.program.arith import advance, convert, join, scaled, step, unknown
from warplint.program.ctypes import UNKNOWN, CType
from warplint.program.scope import ONE, ZERO, Ctx, LocalPlace, MemPlace, Place, Root, Typed, ready
from warplint.program.unit import Build, layout, size_of
from warplint.source import Span

MAX_LEAVES = 64
"""Members copied one by one when an aggregate is assigned; larger ones become unknown."""


def whole(root: Root) -> LocalPlace:
    """The place of a whole local."""
    return LocalPlace(root, (), root.type.dims, ZERO, root.type)


def leaf(build: Build, place: LocalPlace) -> ir.Symbol:
    """The symbol that holds a place."""
    root = place.root
    found = root.leaves.get(place.path)
    if found is not None:
        return found
    element = place.type._replace(dims=())
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
    if found is None or table is None or table.union or place.viewed:
        # No layout: one symbol, members are numbers in order of appearance. A union's members share storage.
        seen = place.root.members.setdefault(place.path, [])
        if name not in seen:
            seen.append(name)
        type_ = found.type if found is not None else UNKNOWN
        return place._replace(dims=(None,), index=ir.Const(seen.index(name)), type=type_, viewed=True)
    count = found.type.count()
    index = place.index if count == 1 else join("*", place.index, ir.Const(count)) if count else ir.Unknown("index")
    return LocalPlace(place.root, (*place.path, name), place.dims + found.type.dims, index, found.type, place.viewed)


def _nowhere(what: str) -> ir.Expr:
    return ir.Unknown(f"{what} is not known")


def index(build: Build, place: Place, position: ir.Expr) -> Place | None:
    """`place[position]` where the place is an array; None when it is not one."""
    if not place.type.dims:
        return None
    element = place.type.element()
    if isinstance(place, MemPlace):
        return MemPlace(step(place.pointer, scaled(position, size_of(build, element), element.name)), element, place.volatile)
    count = element.count()
    moved = position if count == 1 else join("*", position, ir.Const(count)) if count else ir.Unknown("index")
    return place._replace(index=join("+", place.index, moved), type=element)


def address(build: Build, place: Place) -> Typed:
    """`&place`: for locals the place travels along, so that the pointer can be followed."""
    if isinstance(place, MemPlace):
        return Typed(place.pointer, place.type.address_of())
    symbol = leaf(build, place._replace(type=place.type._replace(dims=())))
    offset = scaled(place.index, symbol.element_bytes, place.type.name)
    return Typed(ir.Address(symbol, offset), place.type.address_of(), place._replace(type=place.type._replace(dims=())))


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
        symbol = leaf(build, place._replace(type=type_._replace(dims=())))
        offset = scaled(place.index, symbol.element_bytes, type_.name)
        return Typed(ir.Address(symbol, offset), type_._replace(dims=()).address_of(), element)
    if isinstance(place, MemPlace):
        if type_.scalar or type_ == UNKNOWN:
            return Typed(ir.Load(place.pointer, type_.cast, place.volatile), type_)
        return Typed(ir.Load(place.pointer, "other", place.volatile), type_, place)
    if not type_.scalar and layout(build, type_) is not None and not place.viewed:
        return Typed(ir.Unknown(f"an aggregate of type `{type_.name}`"), type_, place)
    symbol = leaf(build, place)
    if not symbol.dims and not place.viewed:
        return Typed(ir.Var(symbol), type_, None if type_.scalar else place)
    if place.viewed and not place.root.members.get(place.path):
        return unknown(f"`{symbol.name}` read through a pointer of another type", type_)
    return Typed(ir.Element(symbol, place.index), type_, None if type_.scalar else place)


def subscript(build: Build, base: Typed, position: ir.Expr) -> Place:
    """`base[position]` where `base` is a pointer value."""
    moved = advance(base, position, size_of(build, base.type.pointee) if base.type.pointer else None)
    return deref(build, moved)


def write(build: Build, ctx: Ctx, place: Place, value: ir.Deferred, span: Span, declares: bool = False) -> None:
    """Emits the assignment of a scalar value to a place."""
    out = ctx.out
    if out is None:
        return
    if isinstance(place, MemPlace):
        width = size_of(build, place.type) if place.type != UNKNOWN else None
        out.append(ir.Store(span, ready(place.pointer), value, width, False, place.volatile))
        if build.escaped and not reaches_memory(place.pointer):
            for symbol in build.escaped:
                out.append(_invalid(symbol, span, "may be written through a pointer"))
        return
    symbol = leaf(build, place)
    if place.viewed:
        out.append(_invalid(symbol, span, "is written through a pointer of another type"))
    elif symbol.dims:
        out.append(ir.Assign(span, symbol, ready(place.index), value, declares))
    else:
        out.append(ir.Assign(span, symbol, None, value, declares))


def _invalid(symbol: ir.Symbol, span: Span, why: str) -> ir.Assign:
    value = ready(ir.Unknown(f"`{symbol.name}` {why}"))
    return ir.Assign(span, symbol, ready(ir.Unknown("index")) if symbol.dims else None, value)


def reaches_memory(pointer: ir.Expr) -> bool:
    """The pointer certainly does not point to a local: it is the address of a non-local, or derived from a parameter."""
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


def store(build: Build, ctx: Ctx, place: Place, value: Typed, span: Span, declares: bool = False) -> None:
    """Emits the assignment of a value, member by member for aggregates."""
    type_ = place.type
    if type_.dims or (not type_.scalar and layout(build, type_) is not None):
        copy(build, ctx, place, value.place, span, declares)
        return
    write(build, ctx, place, ready(convert(value, type_).expr), span, declares)


def copy(build: Build, ctx: Ctx, place: Place, source: Place | None, span: Span, declares: bool = False) -> None:
    """Emits a member-wise copy; members become unknown when there is no source to copy from."""
    if isinstance(place, MemPlace) and not place.type.dims:  # one access of the whole width
        invalidate(build, ctx, place, span, f"a value of type `{place.type.name}`")
        return
    places = leaves(build, place)
    sources = leaves(build, source) if source is not None and source.type == place.type else None
    if places is None:
        invalidate(build, ctx, place, span, f"an aggregate of type `{place.type.name}` is assigned as a whole")
        return
    for i, target in enumerate(places):
        if sources is not None and i < len(sources):
            write(build, ctx, target, ready(load(build, sources[i]).expr), span, declares)
        else:
            write(build, ctx, target, ready(ir.Unknown("part of an aggregate whose value is not known")), span, declares)


def leaves(build: Build, place: Place) -> list[Place] | None:
    """The scalar places inside a place, in order; None when there are too many or a layout is missing."""
    result: list[Place] = []
    stack: list[Place] = [place]
    while stack:
        top = stack.pop()
        if len(result) + len(stack) > MAX_LEAVES:
            return None
        if top.type.dims:
            count = top.type.dims[0]
            if count is None or count > MAX_LEAVES:
                return None
            inner = [index(build, top, ir.Const(i)) for i in range(count)]
            stack.extend(item for item in reversed(inner) if item is not None)
            continue
        table = None if top.type.scalar else layout(build, top.type)
        if table is not None and table.union:
            return None
        if table is not None:
            stack.extend(member(build, top, name) for name in reversed(table.fields))
        else:
            result.append(top)
    return result


def invalidate(build: Build, ctx: Ctx, place: Place, span: Span, why: str) -> None:
    """Emits writes of unknown values to everything that lies in a place."""
    if ctx.out is None:
        return
    if isinstance(place, MemPlace):
        ctx.out.append(ir.Store(span, ready(place.pointer), ready(ir.Unknown(why)), size_of(build, place.type)))
        return
    inner = leaves(build, place)
    symbols: list[ir.Symbol] = []
    if inner is None:
        prefix = place.path
        symbols = [symbol for path, symbol in place.root.leaves.items() if path[: len(prefix)] == prefix]
        _touch_all(build, place, symbols)
    else:
        for item in inner:
            if isinstance(item, LocalPlace):
                symbol = leaf(build, item)
                if symbol not in symbols:
                    symbols.append(symbol)
    for symbol in symbols:
        ctx.out.append(
            ir.Assign(span, symbol, ready(ir.Unknown("index")) if symbol.dims else None, ready(ir.Unknown(why)))
        )


def _touch_all(build: Build, place: LocalPlace, symbols: list[ir.Symbol]) -> None:
    """Creates the leaves of a large aggregate, one per member path, so that a whole write reaches all of them."""
    stack: list[LocalPlace] = [place]
    steps = 0
    while stack and steps < 1024:
        steps += 1
        top = stack.pop()
        inner = top._replace(type=top.type._replace(dims=()), index=ir.Unknown("index")) if top.type.dims else top
        table = None if inner.type.scalar else layout(build, inner.type)
        if table is None or table.union:
            symbol = leaf(build, inner)
            if symbol not in symbols:
                symbols.append(symbol)
            continue
        for name in reversed(table.fields):
            child = member(build, inner, name)
            if isinstance(child, LocalPlace):
                stack.append(child)


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


__all__ = [
    "ONE", "Place", "address", "convert", "copy", "deref", "index", "invalidate", "leaf", "leaves", "load", "member",
    "reaches_memory", "stable", "store", "subscript", "temporary", "whole", "write", "CType",
]  # fmt: skip
