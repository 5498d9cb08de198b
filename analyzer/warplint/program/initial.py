"""Initialisation of aggregates, arrays, unions and objects with constructors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from warplint.program import aggregates, calls, expr, inline, ir, places, views
from warplint.program.ctypes import CType, Layout
from warplint.program.scope import (
    ZERO,
    Ctx,
    LocalPlace,
    Place,
    Typed,
)
from warplint.program.typetable import ctype, layout
from warplint.program.unit import Build
from warplint.source import Span
from warplint.syntax import ast

MAX_INITIALISERS = 256
"""Array elements initialised one by one; larger braced lists become unknown data."""


def initialise(build: Build, ctx: Ctx, place: Place, init: ast.Expr | None, site: Span) -> None:
    """Emits the initialisation of an aggregate or array from a braced list, constructor arguments, or a value."""
    type_ = place.type
    build.budget -= 1
    if build.budget <= 0:
        aggregates.invalidate(build, ctx, place, site, "an object too large to follow")
        return
    if type_.dims:
        _initialise_array(build, ctx, place, init, site)
        return
    items: tuple[ast.Expr, ...] | None = () if init is None else None
    if isinstance(init, ast.Call) and isinstance(init.fn, ast.Name) and init.fn.id == f"make_{type_.name}":
        items = init.args
    if isinstance(init, ast.InitList) and (init.type is None or ctype(build, init.type, ctx) == type_):
        items = init.items
    if type_.scalar:
        tree = init
        if items is not None:
            tree = items[0] if items else None
        held = expr.value(build, tree, ctx) if tree is not None else Typed(ZERO, type_)
        if init is not None:
            aggregates.store(build, ctx, place, held, site, True)
        return
    if items is None and init is not None:
        held = expr.value(build, init, ctx)
        same = aggregates.same_class(held.type, type_)
        if same or type_.name not in build.unit.records:
            aggregates.copy(build, ctx, place, held.place if same else None, site, True) if layout(
                build, type_
            ) is not None else aggregates.invalidate(build, ctx, place, site, "an object whose value is not known")
            return
        items = (init,)
    assert items is not None
    constructors = build.unit.functions.get(f"{type_.name}::{calls.strip_namespace(type_.name)}")
    if len(items) == 1 and constructors:
        copied = expr.value(build, items[0], ctx.into(None))
        if aggregates.same_class(copied.type, type_) and copied.place is not None:
            aggregates.copy(build, ctx, place, copied.place, site, True)
            return
    table = layout(build, type_)
    if table is None:
        for item in items:
            expr.value(build, item, ctx)
        if init is not None and isinstance(place, LocalPlace):
            places.leaf(build, place._replace(dims=(None,)))
            aggregates.invalidate(build, ctx, place, site, f"an object of type `{type_.name}`")
        return
    defaults = _defaults(build, type_)
    if table.shares and isinstance(place, LocalPlace):
        _initialise_shared(build, ctx, place, items, defaults, table, init is not None, site)
        return
    if constructors:
        for name, default in defaults.items():
            initialise(build, ctx, places.member(build, place, name), default, site)
        chosen = inline.choose(build, constructors, items, ctx)
        if len(chosen.params) < len(items):  # it is made in a way that is not seen here
            aggregates.invalidate(build, ctx, place, site, f"an object of type `{type_.name}`")
            return
        inline.invoke(build, chosen, items, site, ctx, place)
        return
    for i, name in enumerate(table.fields):
        member = places.member(build, place, name)
        if i < len(items):
            initialise(build, ctx, member, items[i], site)
        elif name in defaults:
            initialise(build, ctx, member, defaults[name], site)
        elif init is not None:
            initialise(build, ctx, member, ast.InitList(init.span, ()), site)


def _initialise_shared(
    build: Build,
    ctx: Ctx,
    place: LocalPlace,
    items: Sequence[ast.Expr],
    defaults: Mapping[str, ast.Expr],
    table: Layout,
    written: bool,
    site: Span,
) -> None:
    """A union or a record with bit-fields: zero, then the members that are given (a union's first one)."""
    held = views.storage(build, place)
    if held is None:
        aggregates.invalidate(build, ctx, place, site, f"an object of type `{place.type.name}`")
        return
    given = dict(zip(table.fields, items, strict=False)) or dict(defaults)
    if written:
        initialise(build, ctx, held, ast.InitList(Span(0, 0), ()), site)
    for name, item in given.items():
        initialise(build, ctx, places.member(build, place, name), item, site)


def _defaults(build: Build, type_: CType) -> dict[str, ast.Expr]:
    """Default member initialisers of a record."""
    record = build.unit.records.get(type_.name)
    if record is None:
        return {}
    return {
        member.name: member.init.expr
        for member in record.members
        if member.init is not None and "static" not in member.type.qualifiers
    }


def _initialise_array(build: Build, ctx: Ctx, place: Place, init: ast.Expr | None, site: Span) -> None:
    if init is None:
        return
    count = place.type.dims[0]
    items = init.items if isinstance(init, ast.InitList) else None
    if items is None or count is None or (place.type.count() or MAX_INITIALISERS + 1) > MAX_INITIALISERS:
        for item in items or ():
            expr.value(build, item, ctx)
        aggregates.invalidate(build, ctx, place, site, "initial data of an array")
        return
    for i in range(count):
        element = places.index(build, place, ir.Const(i))
        if element is not None:
            initialise(build, ctx, element, items[i] if i < len(items) else ast.InitList(init.span, ()), site)
