"""Statements: control flow, declarations, and the quick way past statements that only move data.

A statement that calls nothing that matters and writes one variable is not built: its value is resolved when somebody
asks. Everything else is resolved at once, with its effects as statements in evaluation order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from warplint.patterns import late
from warplint.program import (
    aggregates,
    control,
    declare,
    designators,
    expr,
    initial,
    ir,
    places,
    slicing,
    template,
)
from warplint.program.arith import convert
from warplint.program.ctypes import UNKNOWN, VOID
from warplint.program.scope import (
    Ctx,
    Local,
    LocalPlace,
    Typed,
    ready,
)
from warplint.program.unit import MAX_DEPTH, Build
from warplint.source import Span
from warplint.syntax import ast


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


def _hides_a_call(data: bytes, span: Span) -> bool:
    """A bare expression may call something that has no name in front of its parenthesis, or be assembly."""
    text = data[span.start : span.end]
    return b"asm" in text or _CALLED_VALUE.search(text) is not None


_CALLED_VALUE = late(rb"[)\]]\s*\(")


def expression(build: Build, lazy: ast.Lazy, ctx: Ctx) -> None:
    """An expression for its effects."""
    unit = build.unit
    if not ctx.frame.foreign and not unit.touches(lazy.span):
        writes = unit.writes_in(lazy.span)
        if writes == 0 and not lazy.target and (lazy.head or not _hides_a_call(unit.source.data, lazy.span)):
            return  # a value that nobody uses
        if writes <= 1 and lazy.target and _plain_assignment(build, lazy, ctx):
            return
    elif lazy.head and not ctx.frame.foreign and unit.calls_in(lazy.span) == 1 and not ctx.frame.straight:
        made = template.of(unit, lazy.head)
        if made is not None and not unit.writes_in(lazy.span) and template.emit(build, made, lazy, ctx):
            return
    tree = lazy.expr
    build.statement = tree
    result = expr.value(build, tree, ctx)
    if isinstance(tree, ast.Call) and ctx.out is not None and isinstance(result.expr, ir.Pure):
        site = ctx.frame.outer or lazy.span
        if ctx.out and isinstance(ctx.out[-1], ir.Opaque):
            return  # whether it reads or does something else is not known
        for node in slicing.nodes(result.expr):  # what is handed to a call that is not followed has been read
            if isinstance(node, ir.Load):
                ctx.out.append(ir.Read(site, ready(node.pointer), None, node.volatile))


_AFTER_NAME = late(rb"[^\w.:]")


def _plain_assignment(build: Build, lazy: ast.Lazy, ctx: Ctx) -> bool:
    """`x = value`, `x[i] += value`, `++x` on local data, resolved on first use. False for other targets."""
    name = lazy.target
    binding = ctx.scope.find(name, ctx.at)
    if not isinstance(binding, Local):
        return False
    root = binding.root
    type_ = root.type
    element = type_.bare
    if not element.scalar or root.members:
        return False
    data = build.unit.source.data
    start = lazy.span.start
    while data[start : start + 1] in (b"+", b"-", b"(", b" "):
        start += 1
    after = start + len(name)
    if data[start:after] != name.encode() or not _AFTER_NAME.match(data, after):
        return False
    if type_.pointer and b"[" in data[after : after + 2]:
        return False  # through the pointer
    while data[after : after + 1] in (b" ", b")"):
        after += 1
    indexed = data[after : after + 1] == b"["
    if indexed != bool(type_.dims) or data[after : after + 2] == b"->":
        return False
    symbol = places.leaf(build, places.whole(root, element))
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
    found = designators.place(build, target, ctx)
    return found.index if isinstance(found, LocalPlace) else ir.Unknown("index")


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
            initial.initialise(build, ctx, places.whole(root), tree, site)
            return
        held = expr.value(build, tree, ctx)
        if root.type == UNKNOWN and not root.leaves and held.type != VOID:
            root.type = held.type
        aggregates.store(build, ctx, places.whole(root), held, site)
        return
    if isinstance(tree, ast.InitList) and not root.type.scalar:
        initial.initialise(build, ctx, places.whole(root), tree, site)
        return
    aggregates.store(build, ctx, places.whole(root), expr.value(build, tree, ctx), site)


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
    ast.Decl: declare.declaration,
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
