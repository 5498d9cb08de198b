"""Calls: macros, lambdas, functions of the file, methods, built-ins, named operations, and what nobody knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from warplint.dialects.name_rows import Code
from warplint.program import (
    asmops,
    body,
    builtins,
    expr,
    inline,
    ir,
    library,
    lookup,
    methods,
    named,
    undefined,
)
from warplint.program.arith import unknown
from warplint.program.ctypes import (
    SIZES,
    UNKNOWN,
    VOID,
    CType,
    scalar_name,
    strip_namespace,
    vector,
    without_arguments,
)
from warplint.program.scope import (
    ZERO,
    Closure,
    Ctx,
    Frame,
    Local,
    MacroArgument,
    Scope,
    TemplateArgument,
    TypeAlias,
    Typed,
)
from warplint.program.typetable import ctype, template_type
from warplint.program.unit import Build, Unit
from warplint.source import Span
from warplint.syntax import ast, parse_expression, parse_statements

assembly = asmops.assembly
before_write = asmops.before_write
result_of = asmops.result_of

MAX_MACRO = 16
"""Depth of macros expanded inside macros."""


def call(build: Build, node: ast.Call, ctx: Ctx) -> Typed:
    """The value of a call; its effects go to `ctx.out`."""
    fn = node.fn
    if isinstance(fn, ast.Name):
        return _named(build, node, fn, ctx)
    if isinstance(fn, ast.Member):
        return methods.method(build, node, fn, ctx)
    if isinstance(fn, ast.Lambda):
        return inline.closure(build, fn, ctx.later(build.clock), node.args, node.span, ctx)
    if isinstance(fn, ast.Call):  # `f()()`: a function object
        inner = expr.value(build, fn, ctx)
        return methods.object_call(build, inner, node, ctx)
    return undefined.unknown_callee(build, "a call through a pointer", node, ctx)


def _named(build: Build, node: ast.Call, fn: ast.Name, ctx: Ctx) -> Typed:
    unit, name = build.unit, fn.id.removeprefix("::")
    head, colons, last = name.rpartition("::")
    if colons and isinstance(policy := ctx.scope.find(head, ctx.at), TemplateArgument):
        owner = template_type(build, policy)
        if owner.name in unit.records:  # `Policy::f()` with a class for a template parameter
            name = f"{owner.name}::{last}"
    binding = ctx.scope.find(name, ctx.at)
    if isinstance(binding, MacroArgument):
        if isinstance(binding.expr, ast.Name):
            return _named(build, node, binding.expr, Ctx(binding.ctx.scope, ctx.frame, ctx.out, ctx.at))
    elif isinstance(binding, Closure):
        return inline.closure(build, binding.node, binding.ctx, node.args, node.span, ctx)
    elif isinstance(binding, (TypeAlias, TemplateArgument)):
        type_ = ctype(build, ast.TypeName(name), ctx)
        return methods.construct(build, type_, node.args, node, ctx, None)
    elif isinstance(binding, Local):
        return methods.object_call(build, lookup.bound(build, binding, name), node, ctx)
    macro = unit.macros.get(name)
    if macro is not None and macro.params is not None:
        return _macro(build, macro, node, ctx)
    if macro is not None and macro.params is None:
        tree = expansion(unit, macro)
        if isinstance(tree, ast.Name) and tree.id != name:
            return call(build, ast.Call(node.span, ast.Name(fn.span, tree.id, fn.targs or tree.targs), node.args), ctx)
    targs = fn.targs or node.targs
    this, record = ctx.scope.nearest()
    if record:
        for owner in (record, *methods.bases(unit, record)):
            own = unit.functions.get(f"{owner}::{name}")
            if own:
                chosen = inline.choose(build, own, node.args, ctx)
                return inline.invoke(build, chosen, node.args, node.span, ctx, this, targs)
    functions = _functions(unit, name)
    if functions and builtins.harmless(name) and not any(inline.suits(build, fn, node.args, ctx) for fn in functions):
        functions = []  # `min(half, half)` of the file leaves `min(int, int)` to the built-in one
    if functions and inline.choose(build, functions, node.args, ctx) in ctx.frame.active:
        if builtins.harmless(name) or named.find(unit, name, len(node.args)) is not None:
            functions = []  # `min(vec3, vec3)` and `atomicAdd(half*, half)` of the file are made of the built-in ones
    if functions:
        chosen = inline.choose(build, functions, node.args, ctx)
        of = _owner(build, name, chosen, ctx)
        return inline.invoke(build, chosen, node.args, node.span, ctx, None, targs, owner=of)
    last = strip_namespace(name)
    if last in unit.records or scalar_name(name) is not None or vector(last) is not None or last in unit.aliases:
        type_ = ctype(build, ast.TypeName(name, targs=targs), ctx)
        return methods.construct(build, type_, node.args, node, ctx, None)
    known = library.builtin(build, last, node, targs, ctx)
    if known is not None:
        return known
    row = named.find(unit, _unaliased(build, name, ctx), len(node.args))
    if row is not None:
        return named.call(build, name, row, node.args, targs, node.span, ctx)
    if node.args:
        related = _of_first_argument(build, last, node, targs, ctx)
        if related is not None:
            return related
    return undefined.unknown_callee(build, name, node, ctx)


def _unaliased(build: Build, name: str, ctx: Ctx) -> str:
    """`Barrier::init` with the `using Barrier = ...` of the function's own scope in place."""
    owner, colons, last = name.rpartition("::")
    if not colons or "::" in owner:
        return name
    binding = ctx.scope.find(owner, ctx.at)
    if not isinstance(binding, TypeAlias | TemplateArgument):
        return name
    type_ = ctype(build, ast.TypeName(owner), ctx)
    return name if type_ == UNKNOWN or type_.pointer or type_.name == owner else f"{type_.name}::{last}"


def _of_first_argument(build: Build, name: str, node: ast.Call, targs: tuple[ast.Expr, ...], ctx: Ctx) -> Typed | None:
    """A free function that belongs to its first argument's class (`init(&bar, n)`, `cg::sync(block)`)."""
    first = node.args[0]
    owner = expr.type_of(build, first, ctx)
    if owner.name in SIZES or owner == UNKNOWN:
        return None
    group = methods.group_method(build, owner.name, name, node, ctx)
    if group is not None:
        return group
    row = named.find(build.unit, f"{owner.name}::{name}", len(node.args))
    if row is None:
        return None
    target = first if owner.pointer else ast.Unary(first.span, "&", first)
    return named.call(build, name, row, (target, *node.args[1:]), targs, node.span, ctx)


def _functions(unit: Unit, name: str) -> list[ast.Function]:
    """Functions of the file that a call without an object may mean."""
    name = without_arguments(name)
    exact = unit.functions.get(name, [])
    last = strip_namespace(name)
    candidates = exact or unit.functions.get(last, [])
    if "::" not in name:
        return [fn for fn in candidates if fn.record not in unit.records]
    return [
        fn for fn in candidates if fn.name == name or fn.name.endswith("::" + name) or name.endswith("::" + fn.name)
    ]


def _owner(build: Build, name: str, fn: ast.Function, ctx: Ctx) -> CType | None:
    """The class, with its template arguments, of a static method called as `Ring<4>::wait()`."""
    head, _, _ = name.rpartition("::")
    if "<" not in head or fn.record not in build.unit.records:
        return None
    tree = parse_expression(head, fn.name_span)
    if not isinstance(tree, ast.Name):
        return None
    return ctype(build, ast.TypeName(head, targs=tree.targs), ctx)


# ------------------------------------------------------------------------------------------------------ macros
def expansion(unit: Unit, macro: ast.Macro) -> ast.Expr | None:
    """The body of a macro as an expression, None when it is none."""
    if macro.name not in unit.expansions:
        text = macro.body.strip()
        tree = parse_expression(text, macro.span) if text and "#" not in text else None
        unit.expansions[macro.name] = None if tree is None or isinstance(tree, ast.Unparsed) else tree
    return unit.expansions[macro.name]


def _macro(build: Build, macro: ast.Macro, node: ast.Call, ctx: Ctx) -> Typed:
    if macro in ctx.frame.active or ctx.frame.depth >= MAX_MACRO:
        return unknown(f"macro `{macro.name}`")
    inner = _replaced(macro.name, macro, dict(zip(macro.params or (), node.args, strict=False)), node.span, ctx)
    tree = expansion(build.unit, macro)
    if tree is not None:
        return expr.value(build, tree, inner)
    text = macro.body.strip()
    if not text:
        return Typed(ZERO, VOID)
    if ctx.out is None:
        return unknown(f"macro `{macro.name}`")
    if "#" in text:
        site = ctx.frame.outer or node.span
        ctx.out.append(ir.Opaque(site, f"macro `{macro.name}` pastes tokens and is not expanded"))
        return Typed(ZERO, VOID)
    body.statements(build, parse_statements(text + ";", node.span), inner, tail=False)
    return Typed(ZERO, VOID)


def expanded(
    build: Build, name: str, code: Code, args: Sequence[ast.Expr], targs: Sequence[ast.Expr], span: Span, ctx: Ctx
) -> Typed:
    """The call of a helper that a table describes as C++: its statements, then its value."""
    if code in ctx.frame.active or ctx.frame.depth >= MAX_MACRO or (code.body and ctx.out is None):
        return unknown(f"the result of `{name}`")
    given = dict(zip(code.params, args, strict=False)) | {f"t{i}": targ for i, targ in enumerate(targs)}
    inner = _replaced(name, code, given, span, ctx)
    for i, arg in enumerate(args):
        inner.scope.declare(f"T{i}", TypeAlias(lambda arg=arg: expr.type_of(build, arg, ctx)))
    if code.body:
        body.statements(build, parse_statements(code.body + ";", span), inner, tail=False)
    return expr.value(build, parse_expression(code.value, span), inner) if code.value else Typed(ZERO, VOID)


def _replaced(name: str, what: object, arguments: Mapping[str, ast.Expr], span: Span, ctx: Ctx) -> Ctx:
    """Where a text is expanded in place of a call: names of parameters stand for the arguments."""
    frame = ctx.frame
    scope = Scope(ctx.scope)
    for parameter, argument in arguments.items():
        if not parameter.endswith("..."):
            scope.declare(parameter, MacroArgument(argument, Ctx(ctx.scope, frame, None, ctx.at, ctx.ops)))
    inner = Frame(
        name=name,
        label=frame.label,
        outer=frame.outer or span,
        chain=frame.chain,
        depth=frame.depth + 1,
        result=frame.result,
        straight=frame.straight,
        foreign=True,
        switches=frame.switches,
        active=(*frame.active, what),
        base=ctx.scope,
        spelling=frame.spelling or name,
        kernel=frame.kernel,
    )
    return Ctx(scope, inner, ctx.out, ctx.at)
