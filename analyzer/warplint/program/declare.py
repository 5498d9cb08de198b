"""Declarations of variables: symbols, references, pointers that are other names, lambdas."""

from __future__ import annotations

import re
from functools import lru_cache

from warplint.program import (
    aggregates,
    designators,
    expr,
    initial,
    ir,
    lookup,
    parameters,
    places,
    storage,
)
from warplint.program.arith import convert, is_address
from warplint.program.ctypes import UNKNOWN, CType
from warplint.program.scope import (
    ZERO,
    Alias,
    Closure,
    Ctx,
    Local,
    MemPlace,
    Root,
    Typed,
    Value,
)
from warplint.program.typetable import ctype, declared_type
from warplint.program.unit import Build, bind
from warplint.source import Span
from warplint.syntax import ast


def declaration(build: Build, item: ast.Decl, ctx: Ctx) -> None:
    """A declaration statement."""
    cold = not ctx.frame.foreign and not build.unit.touches(item.span)
    if cold:
        cold = build.unit.writes_in(item.span) <= sum(declared.init is not None for declared in item.items)
    for declared in item.items:
        if not cold or not _plain_declaration(build, declared, ctx):
            declare(build, declared, ctx, item.span)


def _plain_declaration(build: Build, item: ast.Declarator, ctx: Ctx) -> bool:
    """A scalar or array of scalars whose initial value is resolved on first use. False for others."""
    written = item.type
    if written.reference or (written.qualifiers and written.qualifiers & _SPECIAL_STORAGE) or written.targs:
        return False
    type_ = ctype(build, written, ctx)
    if item.dims:
        type_ = declared_type(build, item, ctx)
    element = type_.bare
    if not element.scalar:
        return False
    init = item.init
    if init is not None:
        if type_.dims or element.pointer:
            return False
        if build.unit.source.data[init.span.start : init.span.start + 1] in (b"{", b"("):
            return False
    root = Root(item.name, type_, "local", item.span, item.alignment, volatile="volatile" in item.type.qualifiers)
    local = Local(root)
    later = ctx.later(build.clock) if init is not None else None
    ctx.scope.declare(item.name, local, build.tick())
    if init is None or later is None:
        return True
    if "const" in written.qualifiers or "constexpr" in written.qualifiers:
        held = Value(lambda: convert(expr.value(build, init.expr, later), type_))
        local.constant = lambda: lookup.force(held)
    symbol = places.leaf(build, places.whole(root, element))

    def make() -> ir.Expr:
        depth, build.depth = build.depth, 0
        try:
            return convert(expr.value(build, init.expr, later), type_).expr
        except RecursionError:
            return ir.Unknown("nesting too deep to follow")
        finally:
            build.depth = depth

    assert ctx.out is not None
    value = build.initial[symbol] = ir.Deferred(make)
    ctx.out.append(ir.Assign(ctx.frame.outer or item.span, symbol, None, value, True))
    return True


_SPECIAL_STORAGE = frozenset({"__shared__", "static", "extern", "auto", "__constant__", "__device__"})


def declare(build: Build, item: ast.Declarator, ctx: Ctx, span: Span) -> None:
    """Any declaration."""
    words = item.type.qualifiers
    if "__shared__" in words:
        bind(build, ctx, item.name, storage.shared(build, item, ctx))
        return
    init = item.init
    site = ctx.frame.outer or span
    kept = parameters.held_lambda(init.expr) if init is not None else None
    if kept is not None:
        bind(build, ctx, item.name, Closure(kept, ctx.later(build.clock)))
        return
    type_ = declared_type(build, item, ctx)
    if item.type.reference and init is not None:
        _reference(build, item, init, ctx, site)
        return
    if type_ == UNKNOWN and init is not None:  # auto
        held = expr.value(build, init.expr, ctx)
        type_ = held.type._replace(pointer=max(held.type.pointer, item.type.pointer))
        _declare_value(build, item, type_, held, ctx, site)
        return
    if init is None:
        _declare_blank(build, item, type_, ctx, site)
        return
    if type_.scalar:
        tree = init.expr
        if isinstance(tree, ast.InitList) and tree.type is None:
            held = expr.value(build, tree.items[0], ctx) if tree.items else Typed(ZERO, type_)
        else:
            held = expr.value(build, tree, ctx)
        _declare_value(build, item, type_, convert(held, type_), ctx, site)
        return
    root = Root(item.name, type_, "local", item.span, item.alignment, volatile="volatile" in item.type.qualifiers)
    initial.initialise(build, ctx, places.whole(root), init.expr, site)
    bind(build, ctx, item.name, Local(root))


def _declare_blank(build: Build, item: ast.Declarator, type_: CType, ctx: Ctx, site: Span) -> None:
    root = Root(item.name, type_, "local", item.span, item.alignment, volatile="volatile" in item.type.qualifiers)
    bind(build, ctx, item.name, Local(root))
    if type_.name in build.unit.records and not type_.pointer:
        initial.initialise(build, ctx, places.whole(root), None, site)


def _declare_value(build: Build, item: ast.Declarator, type_: CType, held: Typed, ctx: Ctx, site: Span) -> None:
    """A variable of scalar or deduced type with a resolved initial value."""
    if type_.pointer and held.place is not None and not _reassigned(build, item, ctx):
        fixed = held  # a pointer to a local that never moves: another name for what it points to
        place = parameters.settled(build, held.place, ctx, site)
        bind(build, ctx, item.name, Value(lambda: Typed(places.address(build, place).expr, fixed.type, place)))
        return
    root = Root(item.name, type_, "local", item.span, item.alignment, volatile="volatile" in item.type.qualifiers)
    local = Local(root)
    bind(build, ctx, item.name, local)
    if type_.scalar and item.type.qualifiers & {"const", "constexpr"} and isinstance(held.expr, ir.Const):
        local.constant = lambda: held
    if type_.pointer and is_address(held.expr):
        symbol = _symbol(held.expr)
        if symbol is not None and symbol.kind == "local":
            build.escaped.append(symbol)
    aggregates.store(build, ctx, places.whole(root), held, site, declares=True)


def _symbol(pointer: ir.Expr) -> ir.Symbol | None:
    if isinstance(pointer, ir.Binary):
        pointer = pointer.left
    return pointer.symbol if isinstance(pointer, ir.Address) else None


def _reassigned(build: Build, item: ast.Declarator, ctx: Ctx) -> bool:
    """Somewhere in its function the name is assigned, stepped, or has its address taken after its declaration."""
    unit = build.unit
    end = len(unit.source.data)
    for fn in unit.file.functions:
        if fn.span.start <= item.span.start < fn.span.end:
            end = min(end, fn.span.end)
    return changes(item.name, unit.source.data, item.span.end, end)


def changes(name: str, data: bytes, start: int, end: int) -> bool:
    """Somewhere in the text the name is assigned, stepped, has its address taken, or is an asm operand written to."""
    return _changing(name).search(data, start, end) is not None


@lru_cache(4096)
def _changing(name: str) -> re.Pattern[bytes]:
    word = re.escape(name.encode())
    steps = rb"(?<![*\w.])%s\s*(?:=(?!=)|[-+*/%%&|^]=|<<=|>>=)|\b%s\s*(?:\+\+|--)|(?:\+\+|--|&)\s*%s\b" % (
        word,
        word,
        word,
    )
    return re.compile(steps + rb'|"[+=][^"]*"\s*\(\s*%s\b' % word)


def _reference(build: Build, item: ast.Declarator, init: ast.Lazy, ctx: Ctx, site: Span) -> None:
    found = designators.place(build, init.expr, ctx)
    if found is None:
        held = expr.value(build, init.expr, ctx)
        _declare_value(build, item, held.type, held, ctx, site)
        return
    if "auto" not in item.type.qualifiers and item.type.name != "auto":
        type_ = declared_type(build, item, ctx)
        if isinstance(found, MemPlace) and found.type != type_ and not found.type.dims:
            found = found._replace(type=type_)
    place = parameters.settled(build, found, ctx, site)
    bind(build, ctx, item.name, Alias(lambda: place))
