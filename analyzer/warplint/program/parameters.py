"""Parameters of helpers: arguments, references, pointers to locals, template arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence

from warplint.program import aggregates, declare, designators, expr, ir, places
from warplint.program.arith import convert, unknown
from warplint.program.ctypes import INT, U64, UNKNOWN, CType, strip_namespace
from warplint.program.scope import (
    Alias,
    Closure,
    Ctx,
    Frame,
    Local,
    MemPlace,
    Place,
    Root,
    Scope,
    TemplateArgument,
    Typed,
    Value,
)
from warplint.program.typetable import ctype, declared_type
from warplint.program.unit import Build, bind, file_ctx
from warplint.source import Span
from warplint.syntax import ast


def bind_templates(
    build: Build,
    fn: ast.Function,
    targs: Sequence[ast.Expr],
    args: Sequence[ast.Expr],
    scope: Scope,
    given: Ctx,
    owner: CType | None,
) -> None:
    """Template parameters: given explicitly, by the class of the object, or deduced from arguments."""
    own = list(fn.template)
    if owner is not None:
        record = build.unit.records.get(owner.name)
        if record is not None and record.template:
            for name, argument in zip(record.template, owner.targs, strict=False):
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
        default = dict(fn.defaults).get(name) if fn.defaults and deduced is None else None
        if default is not None and not _deducible(build, fn, name):
            inner = Ctx(scope, Frame("template"), None)
            scope.declare(name, TemplateArgument(default.expr, inner))
            continue
        scope.declare(name, TemplateArgument(None, None, deduced))


def _deducible(build: Build, fn: ast.Function, name: str) -> bool:
    """A template parameter that the function's parameters name: the call decides it, not its default."""
    word = re.compile(rb"\b%s\b" % re.escape(name.encode()))
    data = build.unit.source.data
    return any(word.search(data, param.span.start, param.span.end) for param in fn.params)


def bind_lazily(build: Build, fn: ast.Function, args: Sequence[ast.Expr], inner: Ctx, ctx: Ctx, given: Ctx) -> None:
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
                bind(
                    build,
                    inner,
                    param.name,
                    Value(lambda d=default, t=type_, o=outside: convert(expr.value(build, d.expr, o), t), stored=True),
                )
            continue
        arg = args[i]
        if param.type.reference and "const" not in param.type.qualifiers:
            bind(build, inner, param.name, reference(build, arg, ctx, given, param.type.name in fn.template))
            continue
        type_ = ctype(build, param.type, inner)
        if _has_effects(build, arg, ctx):
            fixed = convert(expr.value(build, arg, ctx), type_)
            bind(build, inner, param.name, Value(lambda fixed=fixed: fixed, fixed, stored=True))
        else:
            bind(
                build,
                inner,
                param.name,
                Value(lambda a=arg, t=type_: convert(expr.value(build, a, given), t), stored=True),
            )
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


def reference(build: Build, arg: ast.Expr, ctx: Ctx, given: Ctx, forwarding: bool) -> Alias | Value | Closure:
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
        made = designators.place(build, arg, ctx)
        if made is None:
            held = expr.value(build, arg, ctx)
            return Value(lambda: held, held)
        return Alias(lambda: made)
    if forwarding or not isinstance(arg, (ast.Name, ast.Index, ast.Member, ast.Unary)):
        found = designators.place(build, arg, given)
        if found is None:
            return Value(lambda: expr.value(build, arg, given))
        return Alias(lambda: found)
    return Alias(lambda: designators.place(build, arg, given))


def local_value(build: Build, declared: ast.Declarator, ctx: Ctx) -> None:
    """A declaration in straight-line code: the name stands for its initial value."""
    init = declared.init
    if "__shared__" in declared.type.qualifiers:
        declare.declare(build, declared, ctx, declared.span)
        return
    type_ = declared_type(build, declared, ctx)
    if init is not None and declared.type.reference:
        bind(build, ctx, declared.name, reference(build, init.expr, ctx, ctx.later(build.clock), False))
        return
    kept = held_lambda(init.expr) if init is not None else None
    if kept is not None:
        bind(build, ctx, declared.name, Closure(kept, ctx.later(build.clock)))
        return
    if not type_.scalar and type_ != UNKNOWN:
        declare.declare(build, declared, ctx, Span(0, 0))
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


INDEX_CALLS = frozenset({"PatternVisitor"})
"""Classes whose index operator calls the function that they hold (`PatternVisitor([=](i) { return first + i; })[2]`,
DeepGEMM common/utils.cuh)."""


def held_lambda(tree: ast.Expr | None) -> ast.Lambda | None:
    """The lambda that an initialiser is, or that an object whose index calls it is made of."""
    if isinstance(tree, ast.Call) and isinstance(tree.fn, ast.Name) and len(tree.args) == 1:
        if strip_namespace(tree.fn.id) in INDEX_CALLS:
            tree = tree.args[0]
    return tree if isinstance(tree, ast.Lambda) else None


def closure_of(build: Build, arg: ast.Expr, given: Ctx) -> Closure | None:
    """The lambda that an argument is, or names."""
    if isinstance(arg, ast.Lambda):
        return Closure(arg, given)
    if isinstance(arg, ast.Name):
        binding = given.scope.find(arg.id, given.at)
        if isinstance(binding, Closure):
            return binding
    return None


def parameter(build: Build, param: ast.Param, held: Typed, inner: Ctx, ctx: Ctx, site: Span) -> None:
    """A by-value parameter: a symbol that takes the argument's value, or just a name for a value that cannot change."""
    type_ = ctype(build, param.type, inner)
    if type_ == UNKNOWN or (not type_.scalar and held.type.scalar):
        type_ = held.type
    held = convert(held, type_)
    if held.place is not None and type_.pointer:
        place = settled(build, held.place, ctx, site)  # a pointer to a local: followed as long as it stays what it is
        fixed = Typed(places.address(build, place).expr, type_, place)
        bind(build, inner, param.name, Value(lambda: fixed, fixed))
        return
    root = Root(param.name, type_, "local", param.span, volatile="volatile" in param.type.qualifiers)
    bind(build, inner, param.name, Local(root))
    aggregates.store(build, Ctx(inner.scope, ctx.frame, ctx.out), places.whole(root), held, site, declares=True)


def settled(build: Build, place: Place, ctx: Ctx, site: Span) -> Place:
    """A place whose index or pointer no longer changes with the variables it was computed from."""
    if isinstance(place, MemPlace):
        held = places.temporary(build, ctx, Typed(place.pointer, U64), site, "pointer")
        return place._replace(pointer=held.expr)
    if place.origin is not None:
        held = places.temporary(build, ctx, Typed(place.shift, INT), site, "offset")
        return place._replace(shift=held.expr)
    held = places.temporary(build, ctx, Typed(place.index, INT), site, "index")
    return place._replace(index=held.expr)
