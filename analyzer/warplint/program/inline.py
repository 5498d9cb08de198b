"""Helpers of the file at their call sites: parameters bound, bodies lowered in place.

A helper without effect is an expression. A straight-line helper (nearly every generated one) is executed symbolically:
its names stand for expressions over the caller's, and only operations and writes to the caller's variables become
statements. Any other helper becomes an `Inline` with symbols of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from warplint.program import body, effects, expr, ir, places
from warplint.program.arith import convert, select, truth, unknown
from warplint.program.ctypes import UNKNOWN, VOID, CType, strip_namespace
from warplint.program.scope import (
    LATE,
    ZERO,
    Alias,
    Closure,
    Ctx,
    Frame,
    Local,
    Place,
    Root,
    Scope,
    TemplateArgument,
    Typed,
    Value,
    ready,
)
from warplint.program.unit import MAX_INLINE, Build, bind, ctype, declared_type, file_ctx
from warplint.source import Span
from warplint.syntax import ast

MAX_BRANCHES = 64
"""Paths through an effect-free helper that are turned into a conditional expression."""


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
    types = [expr.value(build, arg, ctx.into(None)).type for arg in args]
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


def invoke(
    build: Build,
    fn: ast.Function,
    args: Sequence[ast.Expr],
    span: Span,
    ctx: Ctx,
    this: Place | None = None,
    targs: Sequence[ast.Expr] = (),
    spelling: str = "",
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
    _bind_templates(build, fn, targs, args, scope, given, this)
    silent = ctx.out is None or summary.effect == effects.NONE
    straight = silent or summary.straight
    inner = Ctx(scope, inner_frame, None if silent else ctx.out)
    if straight:
        _bind_lazily(build, fn, args, inner, ctx, given)
    result_type = ctype(build, fn.result, inner) if fn.result.name else VOID
    if silent:
        inner_frame.straight = True
        found = evaluate(build, list(fn.body().body), inner, [MAX_BRANCHES])
        if found is None:
            argument_values = tuple(expr.value(build, arg, given).expr for arg in args[:16])
            return Typed(ir.Pure(name, argument_values, summary.deterministic), result_type)
        return _returned(found, result_type, fn.result.reference)
    if straight:
        inner_frame.straight = True
        found = _straight(build, fn.body().body, inner)
        return _returned(found, result_type, fn.result.reference)
    return _general(build, fn.body().body, fn.params, args, inner, ctx, result_type, span, name)


def _returned(found: Typed, type_: CType, reference: bool) -> Typed:
    if type_ == UNKNOWN or type_ == VOID or reference:
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


# ------------------------------------------------------------------------------------------------- parameters
def _bind_templates(
    build: Build,
    fn: ast.Function,
    targs: Sequence[ast.Expr],
    args: Sequence[ast.Expr],
    scope: Scope,
    given: Ctx,
    this: Place | None,
) -> None:
    own = list(fn.template)
    if this is not None:
        record = build.unit.records.get(this.type.name)
        if record is not None and record.template:
            for name, argument in zip(record.template, this.type.targs, strict=False):
                if isinstance(argument, int):
                    constant = Typed(ir.Const(argument), CType("i32"))
                    scope.declare(name, Value(lambda constant=constant: constant))
                elif isinstance(argument, str):
                    scope.declare(name, TemplateArgument(ast.Name(Span(0, 0), argument), file_ctx(build.unit)))
            own = [name for name in own if name not in record.template]
    for i, name in enumerate(own):
        if i < len(targs):
            scope.declare(name, TemplateArgument(targs[i], given))
            continue
        deduced: CType | None = None
        for param, arg in zip(fn.params, args, strict=False):
            if param.type.name == name:
                found = expr.value(build, arg, given).type
                deduced = CType(found.name, max(0, found.pointer - param.type.pointer), (), found.targs)
                break
        scope.declare(name, TemplateArgument(None, None, deduced))


def _bind_lazily(
    build: Build, fn: ast.Function, args: Sequence[ast.Expr], inner: Ctx, ctx: Ctx, given: Ctx
) -> None:
    """Parameters of a straight-line helper: names for the arguments, resolved on first use unless they have effects."""
    unit = build.unit
    for i, param in enumerate(fn.params):
        if not param.name:
            if i < len(args) and _has_effects(build, args[i], ctx):
                expr.value(build, args[i], ctx)
            continue
        if i >= len(args):
            default = param.default
            type_ = ctype(build, param.type, inner)
            if default is None:
                bind(build, inner, param.name, Value(lambda: unknown("a missing argument"), stored=True))
            else:
                outside = file_ctx(unit)
                bind(build, inner, param.name, Value(lambda d=default, t=type_, o=outside: convert(expr.value(build, d.expr, o), t), stored=True))
            continue
        arg = args[i]
        if param.type.reference and "const" not in param.type.qualifiers:
            bind(build, inner, param.name, _reference(build, arg, ctx, given, param.type.name in fn.template))
            continue
        type_ = ctype(build, param.type, inner)
        if _has_effects(build, arg, ctx):
            fixed = convert(expr.value(build, arg, ctx), type_)
            bind(build, inner, param.name, Value(lambda fixed=fixed: fixed, fixed, stored=True))
        else:
            bind(build, inner, param.name, Value(lambda a=arg, t=type_: convert(expr.value(build, a, given), t), stored=True))
    for arg in args[len(fn.params) :]:
        if _has_effects(build, arg, ctx):
            expr.value(build, arg, ctx)


def _has_effects(build: Build, arg: ast.Expr, ctx: Ctx) -> bool:
    """The argument must be evaluated at the call: something in it has an effect, or its text cannot tell."""
    if ctx.out is None or isinstance(arg, (ast.Name, ast.Num)):
        return False
    if ctx.frame.foreign:
        return True
    return build.unit.touches(arg.span) or build.unit.writes_in(arg.span) > 0


def _reference(build: Build, arg: ast.Expr, ctx: Ctx, given: Ctx, forwarding: bool) -> Alias | Value | Closure:
    """A reference parameter: another name for a place (for a value where the argument is none)."""
    if isinstance(arg, ast.Name):
        binding = given.scope.find(arg.id, given.at)
        if isinstance(binding, Closure):
            return binding
        if isinstance(binding, Value) and binding.stored:
            return binding
    if isinstance(arg, ast.Lambda):
        return Closure(arg, given)
    if _has_effects(build, arg, ctx):
        made = expr.place(build, arg, ctx)
        if made is None:
            held = expr.value(build, arg, ctx)
            return Value(lambda: held, held)
        return Alias(lambda: made)
    if forwarding or not isinstance(arg, (ast.Name, ast.Index, ast.Member, ast.Unary)):
        found = expr.place(build, arg, given)
        if found is None:
            return Value(lambda: expr.value(build, arg, given))
        return Alias(lambda: found)
    return Alias(lambda: expr.place(build, arg, given))


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
                _local_value(build, declared, ctx)
        elif isinstance(item, ast.ExprStmt):
            expr.value(build, item.value.expr, ctx)
        elif isinstance(item, ast.Return) and item.value is not None:
            return expr.value(build, item.value.expr, ctx)
    return Typed(ZERO, VOID)


def _local_value(build: Build, declared: ast.Declarator, ctx: Ctx) -> None:
    """A declaration in straight-line code: the name stands for its initial value."""
    init = declared.init
    if "__shared__" in declared.type.qualifiers:
        body.declare(build, declared, ctx, declared.span)
        return
    type_ = declared_type(build, declared, ctx)
    if init is not None and declared.type.reference:
        bind(build, ctx, declared.name, _reference(build, init.expr, ctx, ctx.later(build.clock), False))
        return
    if init is not None and isinstance(init.expr, ast.Lambda):
        bind(build, ctx, declared.name, Closure(init.expr, ctx.later(build.clock)))
        return
    if not type_.scalar and type_ != UNKNOWN:
        body.declare(build, declared, ctx, Span(0, 0))
        return
    if init is None:
        blank = unknown(f"`{declared.name}` before its first assignment", type_)
        bind(build, ctx, declared.name, Value(lambda: blank, blank, stored=True))
        return
    tree = init.expr
    if _has_effects(build, tree, ctx):
        held = convert(expr.value(build, tree, ctx), type_)
        bind(build, ctx, declared.name, Value(lambda: held, held, stored=True))
        return
    later = ctx.later(build.clock)
    bind(build, ctx, declared.name, Value(lambda: convert(expr.value(build, tree, later), type_), stored=True))


# ---------------------------------------------------------------------------------------------- pure evaluation
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
                    later = ctx.later(build.clock)
                    init = declared.init
                    if init is None:
                        return None
                    bind(build, ctx, declared.name, Value(lambda i=init, c=later: expr.value(build, i.expr, c)))
                    continue
                _local_value(build, declared, ctx)
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
            yes = evaluate(build, [*item.then.body, *rest], _fork(ctx), budget)
            no = evaluate(build, [*orelse, *rest], _fork(ctx), budget)
            return None if yes is None or no is None else select(known, yes, no)
        else:
            return None
    return Typed(ZERO, VOID)


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
        if not isinstance(target, ast.Name) or not isinstance(binding, Value) or not binding.stored:
            return False
        fixed = expr.value(build, node if isinstance(node, ast.Assign) else _stepped(node), ctx)
        expr.rebind(build, ctx, target.id, convert(fixed, expr.force(binding).type))
        return True
    expr.value(build, node, ctx)
    return True


def _stepped(node: ast.Expr) -> ast.Expr:
    return ast.Update(node.span, node.op, node.arg, True) if isinstance(node, ast.Update) else node


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
) -> Typed:
    """A helper with control flow: an `Inline` with its own symbols."""
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
            bound = _reference(build, args[i], ctx, given, True)
            if isinstance(bound, (Closure,)):
                bind(build, inner, param.name, bound)
                continue
            if isinstance(bound, Alias):
                found = bound.place()
                if found is not None:
                    fixed = _fixed(build, found, ctx, site)
                    bind(build, inner, param.name, Alias(lambda fixed=fixed: fixed))
                    continue
            held = expr.value(build, args[i], ctx)
        else:
            arg = args[i]
            closure = _closure(build, arg, given)
            if closure is not None:
                bind(build, inner, param.name, closure)
                continue
            held = expr.value(build, arg, ctx)
        _parameter(build, param, held, inner, ctx, site)
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


def _closure(build: Build, arg: ast.Expr, given: Ctx) -> Closure | None:
    if isinstance(arg, ast.Lambda):
        return Closure(arg, given)
    if isinstance(arg, ast.Name):
        binding = given.scope.find(arg.id, given.at)
        if isinstance(binding, Closure):
            return binding
    return None


def _parameter(build: Build, param: ast.Param, held: Typed, inner: Ctx, ctx: Ctx, site: Span) -> None:
    """A by-value parameter: a symbol that takes the argument's value, or just a name for a value that cannot change."""
    type_ = ctype(build, param.type, inner)
    if type_ == UNKNOWN or (not type_.scalar and held.type.scalar):
        type_ = held.type
    held = convert(held, type_)
    if held.place is not None and type_.pointer:
        place = _fixed(build, held.place, ctx, site)  # a pointer to a local: followed as long as it stays what it is
        fixed = Typed(places.address(build, place).expr, type_, place)
        bind(build, inner, param.name, Value(lambda: fixed, fixed))
        return
    root = Root(param.name, type_, "local", param.span)
    bind(build, inner, param.name, Local(root))
    places.store(build, Ctx(inner.scope, ctx.frame, ctx.out), places.whole(root), held, site, declares=True)


def _fixed(build: Build, place: Place, ctx: Ctx, site: Span) -> Place:
    """A place whose index or pointer no longer changes with the variables it was computed from."""
    if hasattr(place, "pointer"):
        held = places.temporary(build, ctx, Typed(place.pointer, CType("u64")), site, "pointer")  # type: ignore[union-attr]
        return place._replace(pointer=held.expr)  # type: ignore[call-arg]
    held = places.temporary(build, ctx, Typed(place.index, CType("i32")), site, "index")  # type: ignore[union-attr]
    return place._replace(index=held.expr)  # type: ignore[call-arg]


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
        _bind_lazily(build, fake, args, inner, ctx, ctx.later(build.clock))
        found = evaluate(build, list(node.body.body), inner, [MAX_BRANCHES])
        return found if found is not None else Typed(ir.Pure("lambda", (), False), UNKNOWN)
    return _general(build, node.body.body, node.params, args, inner, ctx, UNKNOWN, span, "lambda")


def _as_function(node: ast.Lambda) -> ast.Function:
    nothing = ast.Attributes()
    return ast.Function(
        "lambda", node.params, ast.TypeName("auto"), frozenset(), (), nothing, node.span, node.span, lambda: node.body
    )


__all__ = ["choose", "closure", "evaluate", "invoke", "ready"]
