"""Aggregates assigned as a whole: member by member, or unknown where that is not possible."""

from __future__ import annotations

from warplint.program import ir, places, views
from warplint.program.arith import convert
from warplint.program.ctypes import CType
from warplint.program.scope import Ctx, LocalPlace, MemPlace, Place, Typed, ready
from warplint.program.typetable import layout, size_of
from warplint.program.unit import Build
from warplint.source import Span

MAX_PARTS = 16
"""Members whose values are kept when an aggregate is stored in memory."""
MAX_LEAVES = 64
"""Members copied one by one when an aggregate is assigned; larger ones become unknown."""


def store(build: Build, ctx: Ctx, place: Place, value: Typed, span: Span, declares: bool = False) -> None:
    """Emits the assignment of a value, member by member for aggregates."""
    type_ = place.type
    if type_.dims or (not type_.scalar and layout(build, type_) is not None):
        copy(build, ctx, place, value.place, span, declares)
        return
    places.write(build, ctx, place, ready(convert(value, type_).expr), span, declares)


def same_class(one: CType, other: CType) -> bool:
    """Objects of one class, or instances of one class template (`P<3>` and `P<Ring::Stages>`)."""
    return one == other or (one.name == other.name and not (one.pointer or other.pointer or one.dims or other.dims))


def copy(build: Build, ctx: Ctx, place: Place, source: Place | None, span: Span, declares: bool = False) -> None:
    """Emits a member-wise copy; members become unknown when there is no source to copy from."""
    if isinstance(place, MemPlace) and not place.type.dims:  # one access of the whole width
        if ctx.out is not None:
            value = ready(_whole(build, place, source))
            ctx.out.append(
                ir.Store(span, ready(place.pointer), value, size_of(build, place.type), False, place.volatile)
            )
        return
    targets = leaves(build, place)
    sources = leaves(build, source) if source is not None and same_class(source.type, place.type) else None
    if sources is not None and targets is not None and len(sources) != len(targets):
        sources = None  # instances of one class template that are laid out differently
    if targets is None:
        invalidate(build, ctx, place, span, f"an aggregate of type `{place.type.name}` is assigned as a whole")
        return
    for i, target in enumerate(targets):
        if sources is not None and i < len(sources):
            places.write(build, ctx, target, ready(places.load(build, sources[i]).expr), span, declares)
        else:
            places.write(
                build, ctx, target, ready(ir.Unknown("part of an aggregate whose value is not known")), span, declares
            )


def _whole(build: Build, place: MemPlace, source: Place | None) -> ir.Expr:
    """The value of an aggregate that is stored in one access: what it is read from stays visible."""
    if isinstance(source, MemPlace):
        return ir.Load(source.pointer, "other", source.volatile)
    parts = leaves(build, source) if source is not None else None
    if parts is None:
        return ir.Unknown(f"a value of type `{place.type.name}`")
    return ir.Pure("aggregate", tuple(places.load(build, part).expr for part in parts[:MAX_PARTS]), True)


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
            inner = [places.index(build, top, ir.Const(i)) for i in range(count)]
            stack.extend(item for item in reversed(inner) if item is not None)
            continue
        table = None if top.type.scalar else layout(build, top.type)
        if table is not None and table.shares and isinstance(top, LocalPlace):
            held = views.storage(build, top) if top.origin is None else None
            if held is None:
                return None
            stack.append(held)
            continue
        if table is not None:
            stack.extend(places.member(build, top, name) for name in reversed(table.fields))
        else:
            result.append(top)
    return result


def invalidate(build: Build, ctx: Ctx, place: Place, span: Span, why: str) -> None:
    """Emits writes of unknown values to everything that lies in a place."""
    if ctx.out is None:
        if isinstance(place, LocalPlace) and place.root.held is not None:
            place.root.held.clear()  # what it held is not known any more
        return
    if isinstance(place, MemPlace):
        ctx.out.append(ir.Store(span, ready(place.pointer), ready(ir.Unknown(why)), size_of(build, place.type)))
        return
    place = place.origin or place
    if place.type.scalar and not place.type.dims:
        symbol = places.leaf(build, place)
        where = ready(ir.Unknown("index")) if symbol.dims else None
        ctx.out.append(ir.Assign(span, symbol, where, ready(ir.Unknown(why))))
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
                symbol = places.leaf(build, item)
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
        if table is None or table.shares:
            symbol = places.leaf(build, inner)
            if symbol not in symbols:
                symbols.append(symbol)
            continue
        for name in reversed(table.fields):
            child = places.member(build, inner, name)
            if isinstance(child, LocalPlace):
                stack.append(child)
