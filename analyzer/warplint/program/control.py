"""Control flow: conditions whose evaluation runs operations, loops, and switches with their falling through."""

from __future__ import annotations

from collections.abc import Sequence

from warplint.program import body, expr, ir, places
from warplint.program.arith import binary, convert, join, truth
from warplint.program.ctypes import BOOL, INT
from warplint.program.scope import Ctx, Typed, ready
from warplint.program.typetable import size_of
from warplint.program.unit import Build, bind
from warplint.source import Span
from warplint.syntax import ast

_EMPTY: tuple[ir.Stmt, ...] = ()


def _plain(build: Build, lazy: ast.Lazy, ctx: Ctx) -> bool:
    """Evaluating the condition does nothing but give a value."""
    unit = build.unit
    return not ctx.frame.foreign and not unit.touches(lazy.span) and not unit.writes_in(lazy.span)


def _text(build: Build, span: Span) -> str:
    return " ".join(build.unit.source.text(span).split())[:200]


def _condition(build: Build, lazy: ast.Lazy, ctx: Ctx) -> ir.Deferred:
    """The condition, its effects emitted into `ctx.out`."""
    if _plain(build, lazy, ctx):
        return expr.deferred(build, lazy, ctx)
    return ready(truth(expr.value(build, lazy.expr, ctx)))


# ------------------------------------------------------------------------------------------------------------ if
def if_(build: Build, item: ast.If, ctx: Ctx, tail: bool = False) -> None:
    """`if`; with an init statement it is a block of its own."""
    if item.init is not None:
        ctx = ctx.nested()
        body.statements(build, (item.init,), ctx)
    out = ctx.out
    assert out is not None
    orelse = item.orelse.body if item.orelse is not None else ()
    span = ctx.frame.outer or item.span
    if item.constexpr:
        known = expr.value(build, item.test.expr, ctx.into(None)).expr
        if isinstance(known, ir.Const):
            chosen = item.then.body if known.value else orelse
            body.statements(build, chosen, ctx.nested(), tail)
            return
    if _plain(build, item.test, ctx):
        test = expr.deferred(build, item.test, ctx)
        then = body.sequence(build, item.then.body, ctx, item.then.span, tail)
        other = body.sequence(build, orelse, ctx, item.orelse.span if item.orelse else item.span, tail)
        out.append(ir.If(span, test, then, other, _text(build, item.test.span), item.test.span))
        return
    tree = item.test.expr
    if not orelse and isinstance(tree, ast.Binary) and tree.op == "&&":
        _conjunction(build, item, _conjuncts(tree), ctx, span, tail)
        return
    held = truth(expr.value(build, tree, ctx))
    if isinstance(held, ir.Const):
        body.statements(build, item.then.body if held.value else orelse, ctx.nested(), tail)
        return
    then = body.sequence(build, item.then.body, ctx, item.then.span, tail)
    other = body.sequence(build, orelse, ctx, item.orelse.span if item.orelse else item.span, tail)
    out.append(ir.If(span, ready(held), then, other, _text(build, item.test.span), item.test.span))


def _conjuncts(tree: ast.Binary) -> list[ast.Expr]:
    """The parts of `a && b && c`, in order of evaluation."""
    parts: list[ast.Expr] = []
    node: ast.Expr = tree
    while isinstance(node, ast.Binary) and node.op == "&&":
        parts.append(node.right)
        node = node.left
    parts.append(node)
    return parts[::-1]


def _conjunction(build: Build, item: ast.If, parts: Sequence[ast.Expr], ctx: Ctx, span: Span, tail: bool) -> None:
    """`if (a && op())` is `if (a) { op; if (result) ... }`: the operation runs only where `a` holds."""
    levels: list[tuple[list[ir.Stmt], ir.Expr, Span]] = []
    out: list[ir.Stmt] = ctx.out if ctx.out is not None else []
    current = out
    for part in parts:
        before = len(current)
        held = truth(expr.value(build, part, ctx.into(current)))
        if isinstance(held, ir.Const) and held.value:
            continue
        where = part.span
        if levels and levels[-1][0] is not current and before == len(current) == 0:
            target, test, first = levels.pop()  # no effect in between: one condition
            held, where = join_and(test, held), Span(min(first.start, where.start), max(first.end, where.end))
            levels.append((target, held, where))
            continue
        levels.append((current, held, where))
        current = []
    inner = Ctx(ctx.scope, ctx.frame, current, ctx.at).nested()
    body.statements(build, item.then.body, inner, tail)
    sequence = ir.Seq(item.then.span, tuple(current))
    for target, test, where in reversed(levels):
        made = ir.If(span, ready(test), sequence, ir.Seq(item.span, _EMPTY), _text(build, where), where)
        target.append(made)
        sequence = ir.Seq(item.then.span, tuple(target)) if target is not out else sequence
    if not levels:
        out.extend(current)


def join_and(left: ir.Expr, right: ir.Expr) -> ir.Expr:
    """Two conditions as one."""
    return ir.Binary("&&", left, right)


# --------------------------------------------------------------------------------------------------------- loops
def for_(build: Build, item: ast.For, ctx: Ctx) -> None:
    """`for`: the init statement stands before the loop, in a block of its own."""
    ctx = ctx.nested()
    if item.init is not None:
        body.statements(build, (item.init,), ctx)
    _loop(build, item.span, item.test, item.step, item.body, ctx, False)


def while_(build: Build, item: ast.While, ctx: Ctx) -> None:
    """`while` and `do while`."""
    _loop(build, item.span, item.test, None, item.body, ctx, item.after)


def _loop(
    build: Build, span: Span, test: ast.Lazy | None, step: ast.Lazy | None, block: ast.Block, ctx: Ctx, after: bool
) -> None:
    out = ctx.out
    assert out is not None
    frame = ctx.frame
    outside, frame.switches = frame.switches, ()
    straight, frame.straight = frame.straight, False
    try:
        prelude: list[ir.Stmt] = []
        condition: ir.Deferred | None = None
        once = False
        inside: ir.Seq | None = None
        if after:  # the body comes before its test, also for what it declares
            inside = body.sequence(build, block.body, ctx, block.span)
        if test is not None:
            condition = _condition(build, test, ctx.into(prelude))
            tree = condition.built
            if (
                tree is None
                and build.unit.source.data[test.span.start : test.span.end].strip(b" ()") in _CONSTANT_TESTS
            ):
                tree = condition.expr
            if isinstance(tree, ir.Const):
                once = after and not tree.value
                if tree.value:
                    condition = None
        if once and inside is not None and not _jumps(inside):
            out.extend(inside.body)  # do { ... } while (0)
            return
        if inside is None:
            inside = body.sequence(build, block.body, ctx, block.span)
        stepped: list[ir.Stmt] = []
        if step is not None:
            body.expression(build, step, ctx.into(stepped))
        where = test.span if test is not None else span
        text = _text(build, test.span) if test is not None else ""
        out.append(
            ir.Loop(
                frame.outer or span,
                ir.Seq(where, tuple(prelude)),
                condition,
                ir.Seq(step.span if step is not None else span, tuple(stepped)),
                inside,
                text,
                where,
                after,
            )
        )
    finally:
        frame.switches = outside
        frame.straight = straight


_CONSTANT_TESTS = (b"1", b"0", b"true", b"false")


def _jumps(inside: ir.Seq) -> bool:
    """A `break` or `continue` that belongs to this body."""
    stack: list[ir.Stmt] = [inside]
    while stack:
        top = stack.pop()
        if isinstance(top, (ir.Break, ir.Continue)):
            return True
        if isinstance(top, ir.Seq):
            stack.extend(top.body)
        elif not isinstance(top, ir.Loop):
            stack.extend(ir.children(top))
    return False


# -------------------------------------------------------------------------------------------------------- switch
def switch(build: Build, item: ast.Switch, ctx: Ctx) -> None:
    """`switch`: an `Inline` of ifs, one for each label that starts a run of statements; `break` leaves it.

    A run is entered by its own labels, and by falling through from the run before it. The value tested is held in a
    temporary, so no two runs that end in `break` can be entered by one thread.
    """
    out = ctx.out
    assert out is not None
    frame = ctx.frame
    site = frame.outer or item.span
    held = expr.value(build, item.test.expr, ctx)
    held = places.temporary(build, ctx, held, item.test.span, "switch")
    label = build.new_label()
    inner: list[ir.Stmt] = []
    labels = [case.value for case in item.cases]
    named = [_equals(build, held, value, ctx) for value in labels if value is not None]
    otherwise: ir.Expr = ir.Const(1)
    for test in named:
        otherwise = join("&&", otherwise, _negated(test)) if otherwise != ir.Const(1) else _negated(test)
    frame.switches = (*frame.switches, label)
    straight, frame.straight = frame.straight, False
    try:
        entry: ir.Expr | None = None
        block = ctx.nested()
        for case in item.cases:
            test = otherwise if case.value is None else _equals(build, held, case.value, ctx)
            entry = test if entry is None else _either(entry, test)
            if not case.body:
                continue
            if entry == ir.Const(0):  # a constant was tested: nobody comes here
                entry = None if _ends(case.body) else entry
                continue
            run: list[ir.Stmt] = []
            lowered = Ctx(block.scope, frame, run)
            items = case.body
            ends = _ends(items)
            if isinstance(items[-1], ast.Break):
                items = items[:-1]
            body.statements(build, items, lowered)
            text = f"{_text(build, item.test.span)} == {_text(build, case.value.span)}" if case.value else "default"
            where = case.value.span if case.value is not None else case.span
            if entry == ir.Const(1):
                inner.extend(run)
            else:
                inner.append(
                    ir.If(case.span, ready(entry), ir.Seq(case.span, tuple(run)), ir.Seq(case.span, ()), text, where)
                )
            if ends:
                entry = None
    finally:
        frame.switches = frame.switches[:-1]
        frame.straight = straight
    out.append(ir.Inline(site, label, "switch", ir.Seq(site, tuple(inner))))


def _ends(items: Sequence[ast.Stmt]) -> bool:
    """Control does not fall out of the statements."""
    last = items[-1] if items else None
    if isinstance(last, ast.Block):
        return _ends(last.body)
    return isinstance(last, (ast.Break, ast.Return, ast.Continue, ast.Goto))


def _equals(build: Build, held: Typed, value: ast.Expr, ctx: Ctx) -> ir.Expr:
    right = expr.value(build, value, ctx.into(None))
    return binary("==", held, right, lambda type_: size_of(build, type_)).expr


def _negated(test: ir.Expr) -> ir.Expr:
    if isinstance(test, ir.Binary) and test.op == "==":
        return ir.Binary("!=", test.left, test.right)
    if isinstance(test, ir.Const):
        return ir.Const(int(not test.value))
    return ir.Unary("!", test)


def _either(left: ir.Expr, right: ir.Expr) -> ir.Expr:
    if isinstance(left, ir.Const):
        return left if left.value else right
    if isinstance(right, ir.Const):
        return right if right.value else left
    return ir.Binary("||", left, right)


__all__ = ["BOOL", "INT", "bind", "convert", "for_", "if_", "switch", "while_"]
