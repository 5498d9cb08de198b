"""Statements: control flow, declarations, and the quick way past statements that only move data.

A statement that calls nothing that matters and writes one variable is not built: its value is resolved when somebody
asks. Everything else is resolved at once, with its effects as statements in evaluation order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from warplint.program import calls, control, expr, inline, ir, places, template
from warplint.program.arith import convert, is_address, unknown
from warplint.program.ctypes import INT, UNKNOWN, VOID, CType
from warplint.program.scope import (
    ZERO,
    Alias,
    Closure,
    Ctx,
    Local,
    LocalPlace,
    Memory,
    MemPlace,
    Place,
    Root,
    Typed,
    Value,
    ready,
)
from warplint.program.unit import MAX_DEPTH, Build, bind, ctype, declared_type, layout, size_of
from warplint.source import Span
from warplint.syntax import ast

MAX_INITIALISERS = 256
"""Array elements initialised one by one; larger braced lists become unknown data."""


def statements(build: Build, items: Sequence[ast.Stmt], ctx: Ctx, tail: bool = False) -> None:
    """Lowers statements in order into `ctx.out`. `tail`: a `return` at the very end needs no jump."""
    build.budget -= len(items)
    out = ctx.out
    assert out is not None
    if build.budget <= 0:
        _opaque(build, ctx, items[0].span if items else Span(0, 0), "too many statements after inlining")
        return
    if build.depth >= MAX_DEPTH:
        _opaque(build, ctx, items[0].span if items else Span(0, 0), "statements nested too deep to follow")
        return
    build.depth += 1
    last = len(items) - 1
    try:
        for i, item in enumerate(items):
            handler = _HANDLERS.get(type(item))
            if handler is None:
                _opaque(build, ctx, item.span, "a statement that is not understood")
            elif tail and i == last and isinstance(item, (ast.Return, ast.Block, ast.If)):
                _tail(build, item, ctx)
            else:
                handler(build, item, ctx)
    except RecursionError:
        _opaque(build, ctx, items[0].span, "statements nested too deep to follow")
    finally:
        build.depth -= 1


def _tail(build: Build, item: ast.Stmt, ctx: Ctx) -> None:
    if isinstance(item, ast.Return):
        _return(build, item, ctx, jump=False)
    elif isinstance(item, ast.Block):
        statements(build, item.body, ctx.nested(), tail=True)
    else:
        control.if_(build, item, ctx, tail=True)  # type: ignore[arg-type]


def sequence(build: Build, items: Sequence[ast.Stmt], ctx: Ctx, span: Span, tail: bool = False) -> ir.Seq:
    """Statements of a nested block."""
    out: list[ir.Stmt] = []
    inner = ctx.nested()
    inner.out = out
    statements(build, items, inner, tail)
    return ir.Seq(span, tuple(out))


def _opaque(build: Build, ctx: Ctx, span: Span, reason: str) -> None:
    if ctx.out is not None:
        ctx.out.append(ir.Opaque(ctx.frame.outer or span, reason))


def _block(build: Build, item: ast.Block, ctx: Ctx) -> None:
    statements(build, item.body, ctx.nested())


# -------------------------------------------------------------------------------------------------- expressions
def _expression(build: Build, item: ast.ExprStmt, ctx: Ctx) -> None:
    expression(build, item.value, ctx)


def expression(build: Build, lazy: ast.Lazy, ctx: Ctx) -> None:
    """An expression for its effects."""
    unit = build.unit
    if not ctx.frame.foreign and not unit.touches(lazy.span):
        writes = unit.writes_in(lazy.span)
        if writes == 0 and not lazy.target:
            return  # a value that nobody uses
        if writes <= 1 and lazy.target and _plain_assignment(build, lazy, ctx):
            return
    elif lazy.head and not ctx.frame.foreign and unit.calls_in(lazy.span) == 1 and not ctx.frame.straight:
        made = template.of(unit, lazy.head)
        if made is not None and not unit.writes_in(lazy.span) and template.emit(build, made, lazy, ctx):
            return
    expr.value(build, lazy.expr, ctx)


def _plain_assignment(build: Build, lazy: ast.Lazy, ctx: Ctx) -> bool:
    """`x = value`, `x[i] += value`, `++x` on a local scalar or array: resolved on first use. False for other targets."""
    name = lazy.target
    binding = ctx.scope.find(name, ctx.at)
    if not isinstance(binding, Local):
        return False
    root = binding.root
    type_ = root.type
    element = type_._replace(dims=())
    if not element.scalar or root.members:
        return False
    data = build.unit.source.data
    start = lazy.span.start
    while data[start : start + 1] in (b"+", b"-", b"(", b" "):
        start += 1
    after = start + len(name)
    if data[start:after] != name.encode() or data[after : after + 1] in (b".", b":"):
        return False
    if type_.pointer and b"[" in data[after : after + 2]:
        return False  # through the pointer
    while data[after : after + 1] in (b" ", b")"):
        after += 1
    indexed = data[after : after + 1] == b"["
    if indexed != bool(type_.dims) or data[after : after + 2] == b"->":
        return False
    symbol = places.leaf(build, places.whole(root)._replace(type=element))
    later = ctx.later(build.clock)
    site = ctx.frame.outer or lazy.span

    def make() -> ir.Expr:
        tree = lazy.expr
        depth, build.depth = build.depth, 0
        try:
            return convert(_assigned(build, tree, later), element).expr
        except RecursionError:
            return ir.Unknown("nesting too deep to follow")
        finally:
            build.depth = depth

    index: ir.Deferred | None = None
    if symbol.dims:
        index = ir.Deferred(lambda: _element(build, lazy.expr, later))
    assert ctx.out is not None
    ctx.out.append(ir.Assign(site, symbol, index, ir.Deferred(make)))
    return True


def _assigned(build: Build, tree: ast.Expr, ctx: Ctx) -> Typed:
    """The new value of the target of an assignment or update."""
    if isinstance(tree, ast.Update):
        return expr.value(build, ast.Update(tree.span, tree.op, tree.arg, True), ctx)
    return expr.value(build, tree, ctx)


def _element(build: Build, tree: ast.Expr, ctx: Ctx) -> ir.Expr:
    target = tree.target if isinstance(tree, ast.Assign) else tree.arg if isinstance(tree, ast.Update) else tree
    found = expr.place(build, target, ctx)
    return found.index if isinstance(found, LocalPlace) else ir.Unknown("index")


# ------------------------------------------------------------------------------------------------- declarations
def _declaration(build: Build, item: ast.Decl, ctx: Ctx) -> None:
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
    element = type_._replace(dims=()) if type_.dims else type_
    if not element.scalar:
        return False
    init = item.init
    if init is not None:
        if type_.dims or element.pointer:
            return False
        if build.unit.source.data[init.span.start : init.span.start + 1] in (b"{", b"("):
            return False
    root = Root(item.name, type_, "local", item.span, item.alignment)
    local = Local(root)
    later = ctx.later(build.clock) if init is not None else None
    ctx.scope.declare(item.name, local, build.tick())
    if init is None or later is None:
        return True
    if "const" in written.qualifiers or "constexpr" in written.qualifiers:
        held = Value(lambda: convert(expr.value(build, init.expr, later), type_))
        local.constant = lambda: expr.force(held)
    symbol = places.leaf(build, places.whole(root)._replace(type=element))

    def make() -> ir.Expr:
        depth, build.depth = build.depth, 0
        try:
            return convert(expr.value(build, init.expr, later), type_).expr
        except RecursionError:
            return ir.Unknown("nesting too deep to follow")
        finally:
            build.depth = depth

    assert ctx.out is not None
    ctx.out.append(ir.Assign(ctx.frame.outer or item.span, symbol, None, ir.Deferred(make), True))
    return True


_SPECIAL_STORAGE = frozenset({"__shared__", "static", "extern", "auto", "__constant__", "__device__"})


def declare(build: Build, item: ast.Declarator, ctx: Ctx, span: Span) -> None:
    """Any declaration."""
    words = item.type.qualifiers
    if "__shared__" in words:
        bind(build, ctx, item.name, calls.shared(build, item, ctx))
        return
    init = item.init
    site = ctx.frame.outer or span
    if init is not None and isinstance(init.expr, ast.Lambda):
        bind(build, ctx, item.name, Closure(init.expr, ctx.later(build.clock)))
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
    root = Root(item.name, type_, "local", item.span, item.alignment)
    initialise(build, ctx, places.whole(root), init.expr, site)
    bind(build, ctx, item.name, Local(root))


def _declare_blank(build: Build, item: ast.Declarator, type_: CType, ctx: Ctx, site: Span) -> None:
    root = Root(item.name, type_, "local", item.span, item.alignment)
    bind(build, ctx, item.name, Local(root))
    if type_.name in build.unit.records and not type_.pointer:
        initialise(build, ctx, places.whole(root), None, site)


def _declare_value(build: Build, item: ast.Declarator, type_: CType, held: Typed, ctx: Ctx, site: Span) -> None:
    """A variable of scalar or deduced type with a resolved initial value."""
    if type_.pointer and held.place is not None and not _reassigned(build, item, ctx):
        fixed = held  # a pointer to a local that never moves: another name for what it points to
        place = inline._fixed(build, held.place, ctx, site)
        bind(build, ctx, item.name, Value(lambda: Typed(places.address(build, place).expr, fixed.type, place)))
        return
    root = Root(item.name, type_, "local", item.span, item.alignment)
    local = Local(root)
    bind(build, ctx, item.name, local)
    if type_.scalar and item.type.qualifiers & {"const", "constexpr"} and isinstance(held.expr, ir.Const):
        local.constant = lambda: held
    if type_.pointer and is_address(held.expr):
        symbol = _symbol(held.expr)
        if symbol is not None and symbol.kind == "local":
            build.escaped.append(symbol)
    places.store(build, ctx, places.whole(root), held, site, declares=True)


def _symbol(pointer: ir.Expr) -> ir.Symbol | None:
    if isinstance(pointer, ir.Binary):
        pointer = pointer.left
    return pointer.symbol if isinstance(pointer, ir.Address) else None


def _reassigned(build: Build, item: ast.Declarator, ctx: Ctx) -> bool:
    """Somewhere in its function the name is assigned, stepped, or has its address taken after its declaration."""
    name = re.escape(item.name.encode())
    pattern = rb"(?<![*\w.])%s\s*(?:=(?!=)|[-+]=)|\b%s\s*(?:\+\+|--)|(?:\+\+|--|&)\s*%s\b" % (name, name, name)
    unit = build.unit
    end = len(unit.source.data)
    for fn in unit.file.functions:
        if fn.span.start <= item.span.start < fn.span.end:
            end = min(end, fn.span.end)
    return re.compile(pattern).search(unit.source.data, item.span.end, end) is not None


def _reference(build: Build, item: ast.Declarator, init: ast.Lazy, ctx: Ctx, site: Span) -> None:
    found = expr.place(build, init.expr, ctx)
    if found is None:
        held = expr.value(build, init.expr, ctx)
        _declare_value(build, item, held.type, held, ctx, site)
        return
    if "auto" not in item.type.qualifiers and item.type.name != "auto":
        type_ = declared_type(build, item, ctx)
        if isinstance(found, MemPlace) and found.type != type_ and not found.type.dims:
            found = found._replace(type=type_)
    place = inline._fixed(build, found, ctx, site)
    bind(build, ctx, item.name, Alias(lambda: place))


def initialise(build: Build, ctx: Ctx, place: Place, init: ast.Expr | None, site: Span) -> None:
    """Emits the initialisation of an aggregate or array from a braced list, constructor arguments, or a value."""
    type_ = place.type
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
            places.store(build, ctx, place, held, site, True)
        return
    if items is None and init is not None:
        held = expr.value(build, init, ctx)
        if held.type == type_ or type_.name not in build.unit.records:
            places.copy(build, ctx, place, held.place if held.type == type_ else None, site, True) if layout(
                build, type_
            ) is not None else places.invalidate(build, ctx, place, site, "an object whose value is not known")
            return
        items = (init,)
    assert items is not None
    constructors = build.unit.functions.get(f"{type_.name}::{calls.strip_namespace(type_.name)}")
    if len(items) == 1 and constructors:
        copied = expr.value(build, items[0], ctx.into(None))
        if copied.type == type_ and copied.place is not None:
            places.copy(build, ctx, place, copied.place, site, True)
            return
    table = layout(build, type_)
    if table is None or table.union:
        for item in items:
            expr.value(build, item, ctx)
        if init is not None and isinstance(place, LocalPlace):
            places.leaf(build, place._replace(dims=(None,)))
            places.invalidate(build, ctx, place, site, f"an object of type `{type_.name}`")
        return
    defaults = _defaults(build, type_)
    if constructors:
        for name, default in defaults.items():
            initialise(build, ctx, places.member(build, place, name), default, site)
        chosen = inline.choose(build, constructors, items, ctx)
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
        places.invalidate(build, ctx, place, site, "initial data of an array")
        return
    for i in range(count):
        element = places.index(build, place, ir.Const(i))
        if element is not None:
            initialise(build, ctx, element, items[i] if i < len(items) else ast.InitList(init.span, ()), site)


# ----------------------------------------------------------------------------------------------------- leaving
def _return(build: Build, item: ast.Return, ctx: Ctx, jump: bool = True) -> None:
    frame = ctx.frame
    out = ctx.out
    assert out is not None
    site = frame.outer or item.span
    if frame.kernel:
        if item.value is not None:
            expression(build, item.value, ctx)
        out.append(ir.Exit(site))
        return
    if item.value is not None:
        _result(build, item.value, ctx, site)
    if jump:
        out.append(ir.Leave(site, frame.label))


def _result(build: Build, lazy: ast.Lazy, ctx: Ctx, site: Span) -> None:
    """The value of a `return` into the helper's result."""
    root = ctx.frame.result
    tree = lazy.expr
    if root is None:
        expr.value(build, tree, ctx)
        return
    if root.type == UNKNOWN or not (root.type.scalar or isinstance(tree, ast.InitList)):
        if isinstance(tree, ast.InitList) and root.type != UNKNOWN:
            initialise(build, ctx, places.whole(root), tree, site)
            return
        held = expr.value(build, tree, ctx)
        if root.type == UNKNOWN and not root.leaves and held.type != VOID:
            root.type = held.type
        places.store(build, ctx, places.whole(root), held, site)
        return
    if isinstance(tree, ast.InitList) and not root.type.scalar:
        initialise(build, ctx, places.whole(root), tree, site)
        return
    places.store(build, ctx, places.whole(root), expr.value(build, tree, ctx), site)


def _break(build: Build, item: ast.Break, ctx: Ctx) -> None:
    assert ctx.out is not None
    site = ctx.frame.outer or item.span
    if ctx.frame.switches:
        ctx.out.append(ir.Leave(site, ctx.frame.switches[-1]))
    else:
        ctx.out.append(ir.Break(site))


def _continue(build: Build, item: ast.Continue, ctx: Ctx) -> None:
    assert ctx.out is not None
    ctx.out.append(ir.Continue(ctx.frame.outer or item.span))


def _goto(build: Build, item: ast.Goto, ctx: Ctx) -> None:
    _opaque(build, ctx, item.span, f"`goto {item.label}` is not followed")


def _gap(build: Build, item: ast.Gap, ctx: Ctx) -> None:
    _opaque(build, ctx, item.span, item.reason)


_HANDLERS: dict[type, Callable] = {
    ast.Block: _block,
    ast.ExprStmt: _expression,
    ast.Decl: _declaration,
    ast.If: lambda build, item, ctx: control.if_(build, item, ctx),
    ast.For: lambda build, item, ctx: control.for_(build, item, ctx),
    ast.While: lambda build, item, ctx: control.while_(build, item, ctx),
    ast.Switch: lambda build, item, ctx: control.switch(build, item, ctx),
    ast.Break: _break,
    ast.Continue: _continue,
    ast.Return: _return,
    ast.Goto: _goto,
    ast.Gap: _gap,
}

__all__ = ["INT", "Memory", "declare", "expression", "initialise", "ready", "sequence", "size_of", "statements", "unknown"]
