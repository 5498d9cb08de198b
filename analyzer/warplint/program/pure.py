"""Helpers without effect as expressions: branches become conditional values."""

from __future__ import annotations

from msgspec.structs import replace

from warplint.program import aggregates, designators, expr, initial, ir, lookup, parameters, places
from warplint.program.arith import convert, select, truth
from warplint.program.ctypes import VOID
from warplint.program.scope import (
    ZERO,
    Ctx,
    Local,
    LocalPlace,
    Root,
    Scope,
    Typed,
    Value,
)
from warplint.program.typetable import declared_type, layout
from warplint.program.unit import Build, bind
from warplint.syntax import ast

MAX_BRANCHES = 64
"""Paths through an effect-free helper that are turned into a conditional expression."""


def evaluate(build: Build, statements: list[ast.Stmt], ctx: Ctx, budget: list[int]) -> Typed | None:
    """The value that effect-free statements return, as one expression; None when there is a loop or the like."""
    build.depth += 1
    try:
        if build.depth > 120:
            return None
        return _evaluate(build, statements, ctx, budget)
    finally:
        build.depth -= 1


def _evaluate(build: Build, statements: list[ast.Stmt], ctx: Ctx, budget: list[int]) -> Typed | None:
    at = 0
    while at < len(statements):
        item = statements[at]
        at += 1
        budget[0] -= 1
        if budget[0] < 0:
            return None
        if isinstance(item, ast.Block):
            statements = [*item.body, *statements[at:]]
            at = 0
        elif isinstance(item, ast.Decl):
            for declared in item.items:
                if declared.dims or "static" in declared.type.qualifiers:
                    return None
                if not declared_type(build, declared, ctx).scalar and declared.type.name != "auto":
                    if not _aggregate(build, declared, ctx):
                        return None
                    continue
                parameters.local_value(build, declared, ctx)
                binding = ctx.scope.find(declared.name, ctx.at)
                if ctx.frame.held and isinstance(binding, Value):
                    lookup.force(binding)  # before an aggregate that it reads changes
        elif isinstance(item, ast.ExprStmt):
            if not _step(build, item.value.expr, ctx):
                return None
        elif isinstance(item, ast.Return):
            return Typed(ZERO, VOID) if item.value is None else expr.value(build, item.value.expr, ctx)
        elif isinstance(item, ast.If):
            if item.init is not None:
                statements = [item.init, replace(item, init=None), *statements[at:]]
                at = 0
                continue
            rest = statements[at:]
            test = expr.value(build, item.test.expr, ctx)
            known = truth(test)
            orelse = item.orelse.body if item.orelse is not None else ()
            if isinstance(known, ir.Const):
                statements = [*(item.then.body if known.value else orelse), *rest]
                at = 0
                continue
            kept = [dict(root.held or {}) for root in ctx.frame.held]
            yes = evaluate(build, [*item.then.body, *rest], _fork(ctx), budget)
            del ctx.frame.held[len(kept) :]
            for root, values in zip(ctx.frame.held, kept, strict=True):
                root.held = values
            no = evaluate(build, [*orelse, *rest], _fork(ctx), budget)
            return None if yes is None or no is None else select(known, yes, no)
        else:
            return None
    return Typed(ZERO, VOID)


def _aggregate(build: Build, declared: ast.Declarator, ctx: Ctx) -> bool:
    """A local aggregate: its leaves hold values. False for types that are not laid out here."""
    type_ = declared_type(build, declared, ctx)
    init = declared.init
    if layout(build, type_) is None or declared.type.reference:
        if init is None:
            return False
        later = ctx.later(build.clock)
        bind(build, ctx, declared.name, Value(lambda: expr.value(build, init.expr, later)))
        return True
    root = Root(declared.name, type_, "local", declared.span)
    root.held = {}
    ctx.frame.held.append(root)
    initial.initialise(build, ctx, places.whole(root), init.expr if init is not None else None, declared.span)
    bind(build, ctx, declared.name, Local(root))
    return True


def _fork(ctx: Ctx) -> Ctx:
    return Ctx(Scope(ctx.scope), ctx.frame, None, ctx.at, ctx.ops)


def _step(build: Build, node: ast.Expr, ctx: Ctx) -> bool:
    """One expression statement of effect-free code; False when it is none."""
    target: ast.Expr | None = None
    if isinstance(node, ast.Assign):
        target = node.target
    elif isinstance(node, ast.Update):
        target = node.arg
    if target is not None:
        binding = ctx.scope.find(target.id, ctx.at) if isinstance(target, ast.Name) else None
        place = designators.place(build, target, ctx) if ctx.frame.held and not isinstance(binding, Value) else None
        if isinstance(place, LocalPlace) and place.root.held is not None:
            result = expr.value(build, node if isinstance(node, ast.Assign) else _stepped(node), ctx)
            aggregates.store(build, ctx, place, result, node.span)
            return True
        if not isinstance(target, ast.Name) or not isinstance(binding, Value) or not binding.stored:
            return False
        fixed = expr.value(build, node if isinstance(node, ast.Assign) else _stepped(node), ctx)
        expr.rebind(build, ctx, target.id, convert(fixed, lookup.force(binding).type))
        return True
    if _fills_local(build, node):
        return False
    expr.value(build, node, ctx)
    return True


def _fills_local(build: Build, node: ast.Expr) -> bool:
    """A call of a function that the file does not define, with the address of a variable: it may write there."""
    while isinstance(node, ast.Cast):
        node = node.arg
    if not isinstance(node, ast.Call) or not isinstance(node.fn, ast.Name) or node.fn.id in build.unit.functions:
        return False
    return any(isinstance(arg, ast.Unary) and arg.op == "&" and isinstance(arg.arg, ast.Name) for arg in node.args)


def _stepped(node: ast.Expr) -> ast.Expr:
    return ast.Update(node.span, node.op, node.arg, True) if isinstance(node, ast.Update) else node
