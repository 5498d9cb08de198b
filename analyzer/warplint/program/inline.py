"""Helpers of the file at their call sites: parameters bound, bodies lowered in place.

A helper without effect is an expression. A straight-line helper (nearly every generated one) is executed symbolically:
its names stand for expressions over the caller's, and only operations and writes to the caller's variables become
statements. Any other helper becomes an `Inline` with symbols of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from warplint.program import body, declare, effects, expr, ir, parameters, places, pure
from warplint.program.arith import convert, unknown
from warplint.program.ctypes import UNKNOWN, VOID, CType, strip_namespace
from warplint.program.scope import (
    LATE,
    ZERO,
    Alias,
    Closure,
    Ctx,
    Frame,
    Place,
    Root,
    Scope,
    Typed,
    Value,
)
from warplint.program.typetable import ctype
from warplint.program.unit import MAX_INLINE, Build, bind, file_ctx
from warplint.source import Span
from warplint.syntax import ast


def choose(build: Build, functions: Sequence[ast.Function], args: Sequence[ast.Expr], ctx: Ctx) -> ast.Function:
    """The overload that a call means, by number of arguments, then by what they are."""
    if len(functions) == 1:
        return functions[0]
    count = len(args)
    fitting = [
        fn
        for fn in functions
        if len(fn.params) >= count and all(param.default is not None for param in fn.params[count:])
    ] or list(functions)
    if len(fitting) == 1:
        return fitting[0]
    types = [expr.type_of(build, arg, ctx) for arg in args]
    best, best_score = fitting[0], -1
    for fn in fitting:
        score = 0
        for param, given in zip(fn.params, types, strict=False):
            wanted = ctype(build, param.type, ctx) if param.type.name not in fn.template else UNKNOWN
            if wanted == given:
                score += 4
            elif bool(param.type.pointer) == bool(given.pointer) and given != UNKNOWN:
                score += 2 if wanted.scalar == given.scalar else 1
        if score > best_score:
            best, best_score = fn, score
    return best


def suits(build: Build, fn: ast.Function, args: Sequence[ast.Expr], ctx: Ctx) -> bool:
    """The arguments fit the parameters without turning integers into floating-point numbers or objects."""
    for param, arg in zip(fn.params, args, strict=False):
        if param.type.name in fn.template:
            continue
        given, wanted = expr.type_of(build, arg, ctx), ctype(build, param.type, ctx)
        if given.integer and not wanted.integer:
            return False
        if given.scalar and not (wanted.scalar or wanted.pointer or wanted == UNKNOWN):
            return False
    return True


def invoke(
    build: Build,
    fn: ast.Function,
    args: Sequence[ast.Expr],
    span: Span,
    ctx: Ctx,
    this: Place | None = None,
    targs: Sequence[ast.Expr] = (),
    spelling: str = "",
    owner: CType | None = None,
) -> Typed:
    """A call of a function that the file defines."""
    summary = effects.summary(build.unit, fn)
    frame = ctx.frame
    name = strip_namespace(fn.name)
    if fn in frame.active or frame.depth >= MAX_INLINE or build.budget <= 0:
        return _not_followed(build, fn, args, span, ctx, summary)
    record = this.type.name if this is not None else (fn.record if fn.record in build.unit.records else "")
    scope = Scope(build.unit.scope, this, record)
    inner_frame = Frame(
        name=name,
        outer=frame.outer or span,
        chain=frame.chain if frame.foreign else (*frame.chain, span),
        depth=frame.depth + 1,
        active=(*frame.active, fn),
        spelling=frame.spelling or spelling or name,
        base=build.unit.scope,
    )
    given = ctx.later(build.clock)
    parameters.bind_templates(build, fn, targs, args, scope, given, this.type if this is not None else owner)
    silent = ctx.out is None or summary.effect == effects.NONE
    straight = silent or summary.straight
    inner = Ctx(scope, inner_frame, None if silent else ctx.out)
    if straight:
        parameters.bind_lazily(build, fn, args, inner, ctx, given)
    result_type = ctype(build, fn.result, inner) if fn.result.name else VOID
    if silent:
        inner_frame.straight = True
        found = pure.evaluate(build, list(fn.body().body), inner, [pure.MAX_BRANCHES])
        if found is None:
            argument_values = tuple(expr.value(build, arg, given).expr for arg in args[:16])
            return Typed(ir.Pure(name, argument_values, summary.deterministic), result_type)
        return _returned(found, result_type, fn.result.reference)
    if straight:
        inner_frame.straight = True
        found = _straight(build, fn.body().body, inner)
        return _returned(found, result_type, fn.result.reference)
    block = fn.body()
    return _general(build, block.body, fn.params, args, inner, ctx, result_type, span, name, block.span)


def _returned(found: Typed, type_: CType, reference: bool) -> Typed:
    if type_ in (UNKNOWN, VOID) or reference:
        return found
    return convert(found, type_)


def _not_followed(
    build: Build, fn: ast.Function, args: Sequence[ast.Expr], span: Span, ctx: Ctx, summary: effects.Summary
) -> Typed:
    name = strip_namespace(fn.name)
    why = "calls itself" if fn in ctx.frame.active else "is nested too deep"
    if ctx.out is not None and summary.effect != effects.NONE:
        ctx.out.append(ir.Opaque(ctx.frame.outer or span, f"`{name}` {why} and is not followed"))
    return Typed(ir.Pure(name, (), False), UNKNOWN)


# ------------------------------------------------------------------------------------------- straight-line code
def _straight(build: Build, statements: Sequence[ast.Stmt], ctx: Ctx) -> Typed:
    while len(statements) == 1 and isinstance(statements[0], ast.Block):
        statements = statements[0].body
    build.budget -= len(statements)
    last = len(statements) - 1
    for i, item in enumerate(statements):
        ctx.frame.remaining = last - i
        if isinstance(item, ast.Decl):
            for declared in item.items:
                parameters.local_value(build, declared, ctx)
        elif isinstance(item, ast.ExprStmt):
            build.statement = item.value.expr
            expr.value(build, item.value.expr, ctx)
        elif isinstance(item, ast.Return) and item.value is not None:
            return expr.value(build, item.value.expr, ctx)
    return Typed(ZERO, VOID)


# ------------------------------------------------------------------------------------------------- general code
def _general(
    build: Build,
    statements: Sequence[ast.Stmt],
    params: Sequence[ast.Param],
    args: Sequence[ast.Expr],
    inner: Ctx,
    ctx: Ctx,
    type_: CType,
    span: Span,
    name: str,
    text: Span | None = None,
) -> Typed:
    """A helper with control flow: an `Inline` with its own symbols. `text`: its body in the file, when it is there."""
    assert ctx.out is not None
    site = ctx.frame.outer or span
    given = ctx.later(build.clock)
    frame = inner.frame
    frame.label = build.new_label()
    for i, param in enumerate(params):
        if not param.name:
            if i < len(args):
                expr.value(build, args[i], ctx)
            continue
        if i >= len(args) and param.default is not None:
            held = expr.value(build, param.default.expr, file_ctx(build.unit))
        elif i >= len(args):
            held = unknown("a missing argument")
        elif param.type.reference:
            bound = parameters.reference(build, args[i], ctx, given, True)
            if isinstance(bound, (Closure,)):
                bind(build, inner, param.name, bound)
                continue
            if isinstance(bound, Alias):
                found = bound.place()
                if found is not None:
                    fixed = parameters.settled(build, found, ctx, site)
                    bind(build, inner, param.name, Alias(lambda fixed=fixed: fixed))
                    continue
            held = expr.value(build, args[i], ctx)
        else:
            arg = args[i]
            closure = parameters.closure_of(build, arg, given)
            if closure is not None:
                bind(build, inner, param.name, closure)
                continue
            held = expr.value(build, arg, ctx)
        fixed = isinstance(held.expr, ir.Const) and not frame.foreign
        if fixed and text is not None and not declare.changes(param.name, build.unit.source.data, text.start, text.end):
            known = convert(held, ctype(build, param.type, inner))
            bind(build, inner, param.name, Value(lambda known=known: known, known))
            continue
        parameters.parameter(build, param, held, inner, ctx, site)
    out: list[ir.Stmt] = []
    lowered = Ctx(inner.scope, frame, out)
    if type_ != VOID and not type_.dims:
        frame.result = Root(f"{name} result", type_, "local", span)
    body.statements(build, statements, lowered, tail=True)
    ctx.out.append(ir.Inline(site, frame.label, name, ir.Seq(site, tuple(out))))
    if frame.result is None:
        return Typed(ZERO, VOID)
    if type_ == UNKNOWN and not frame.result.leaves:
        return Typed(ZERO, VOID)
    return places.load(build, places.whole(frame.result))


def closure(build: Build, node: ast.Lambda, made: Ctx, args: Sequence[ast.Expr], span: Span, ctx: Ctx) -> Typed:
    """A call of a lambda: its body sees the names of the place where it was written."""
    frame = ctx.frame
    if node in frame.active or frame.depth >= MAX_INLINE or build.budget <= 0:
        if ctx.out is not None:
            ctx.out.append(ir.Opaque(frame.outer or span, "a lambda that calls itself is not followed"))
        return unknown("the result of a lambda")
    scope = Scope(made.scope)
    inner_frame = Frame(
        name="lambda",
        outer=frame.outer,
        chain=frame.chain,
        depth=frame.depth + 1,
        active=(*frame.active, node),
        spelling=frame.spelling,
        base=made.scope,
        foreign=frame.foreign,
    )
    inner = Ctx(scope, inner_frame, ctx.out, LATE)
    if ctx.out is None:
        inner_frame.straight = True
        fake = _as_function(node)
        parameters.bind_lazily(build, fake, args, inner, ctx, ctx.later(build.clock))
        found = pure.evaluate(build, list(node.body.body), inner, [pure.MAX_BRANCHES])
        return found if found is not None else Typed(ir.Pure("lambda", (), False), UNKNOWN)
    return _general(build, node.body.body, node.params, args, inner, ctx, UNKNOWN, span, "lambda")


def _as_function(node: ast.Lambda) -> ast.Function:
    nothing = ast.Attributes()
    return ast.Function(
        "lambda", node.params, ast.TypeName("auto"), frozenset(), (), nothing, node.span, node.span, lambda: node.body
    )
