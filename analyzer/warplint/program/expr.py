"""Expressions: from the syntax tree to typed, resolved expressions, with their side effects emitted as statements.

`value` resolves an expression; operations, assignments and calls inside are appended to `ctx.out` in evaluation order.
Where `ctx.out` is None (an expression resolved on first use) nothing may be emitted: such expressions were found free
of effects by a look at their text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from warplint.dialects.leaf import Computed, OpOutput, SpecialReg
from warplint.patterns import late
from warplint.program import aggregates, arith, calls, inline, ir, lookup, methods, named, places
from warplint.program.arith import convert, is_address, select, truth, unknown
from warplint.program.ctypes import BOOL, FLOAT, INT, U64, UINT, UNKNOWN, CType, scalar_name
from warplint.program.designators import designate
from warplint.program.scope import (
    ONE,
    ZERO,
    Ctx,
    LocalPlace,
    MemPlace,
    Place,
    Typed,
    Value,
    ready,
)
from warplint.program.typetable import ctype, size_of
from warplint.program.unit import MAX_DEPTH, Build
from warplint.syntax import ast


# ----------------------------------------------------------------------------------------------- entry points
def value(build: Build, node: ast.Expr, ctx: Ctx) -> Typed:
    """The value of an expression."""
    handler = _HANDLERS.get(type(node))
    if handler is None:
        return unknown("an expression that is not understood")
    if build.depth >= MAX_DEPTH:
        build.note("nesting too deep to follow", node.span)
        return unknown("nesting too deep to follow")
    build.steps += 1
    if build.steps > build.limit:
        build.note("too much to evaluate", node.span)
        return unknown("too much to evaluate")
    build.depth += 1
    try:
        return handler(build, node, ctx)
    finally:
        build.depth -= 1


def constant(build: Build, node: ast.Expr, ctx: Ctx) -> int | None:
    """The value of a constant expression, None when it is not one."""
    result = value(build, node, ctx.into(None)).expr
    return result.value if isinstance(result, ir.Const) else None


def type_of(build: Build, node: ast.Expr, ctx: Ctx) -> CType:
    """The type of an expression, without its effects; found once for each expression."""
    known = build.typed.get(id(node))
    if known is not None and known[1] is ctx.scope:
        return known[2]
    result = value(build, node, ctx.into(None)).type
    build.typed[id(node)] = (node, ctx.scope, result)
    return result


def deferred(build: Build, node: ast.Expr | ast.Lazy, ctx: Ctx, type_: CType | None = None) -> ir.Deferred:
    """An effect-free expression, resolved when first asked for (as seen from here and now)."""
    later = ctx.later(build.clock)

    def make() -> ir.Expr:
        tree = node.expr if isinstance(node, ast.Lazy) else node
        depth, build.depth = build.depth, 0  # a new entry: the nesting of its asker does not count
        try:
            result = value(build, tree, later)
        except RecursionError:
            return ir.Unknown("nesting too deep to follow")
        finally:
            build.depth = depth
        return (convert(result, type_) if type_ is not None else result).expr

    return ir.Deferred(make)


# --------------------------------------------------------------------------------------------- simple operators
_WHOLE = late(r"(\d{1,6})\.0*[fF]?")


def _num(build: Build, node: ast.Num, ctx: Ctx) -> Typed:
    if node.value is None:
        written = _WHOLE.fullmatch(build.unit.source.text(node.span))
        return Typed(ir.Unknown("a floating-point literal", True, whole=int(written[1]) if written else None), FLOAT)
    type_ = UINT if node.unsigned else INT
    if node.bits > 32:
        type_ = U64 if node.unsigned else CType("i64")
    elif not node.unsigned and not -(1 << 31) <= node.value < 1 << 31:
        type_ = UINT if 0 <= node.value < 1 << 32 else CType("i64")
    return Typed(ir.Const(node.value), type_)


def _unary(build: Build, node: ast.Unary, ctx: Ctx) -> Typed:
    if node.op == "&":
        found = designate(build, node.arg, ctx)
        if not isinstance(found, Typed):
            return places.address(build, found)
        if found.place is not None and not found.type.pointer:
            return places.address(build, found.place)
        if is_address(found.expr):  # the address of something whose value is its address already
            return found
        return unknown("the address of a value", found.type.address_of())
    if node.op == "*":
        return _designated(build, node, ctx)
    if node.op == "sizeof":
        return _sizeof(build, node.arg, ctx)
    return arith.unary(node.op, value(build, node.arg, ctx))


def _designated(build: Build, node: ast.Expr, ctx: Ctx) -> Typed:
    """The value in the storage that an expression names."""
    found = designate(build, node, ctx)
    return found if isinstance(found, Typed) else places.load(build, found)


def _sizeof(build: Build, arg: ast.Expr, ctx: Ctx) -> Typed:
    type_: CType | None = None
    if isinstance(arg, ast.Name):
        stars = len(arg.id) - len(arg.id.rstrip("*"))
        found = None if stars else lookup.named_place(build, arg.id, ctx)
        type_ = found.type if found is not None else None
        if type_ is None:
            type_ = ctype(build, ast.TypeName(arg.id.rstrip("*"), stars, targs=arg.targs), ctx)
    else:
        type_ = designate(build, arg, ctx.into(None)).type
    size = size_of(build, type_)
    return Typed(ir.Const(size), U64) if size is not None else unknown(f"sizeof({type_.name})", U64, uniform=True)


def _binary(build: Build, node: ast.Binary, ctx: Ctx) -> Typed:
    op = node.op
    if op in ("&&", "||"):
        return _short_circuit(build, node, ctx)
    # A long sum leans left: its spine is walked, not recursed into.
    spine = [node]
    while isinstance(spine[-1].left, ast.Binary) and spine[-1].left.op not in ("&&", "||"):
        spine.append(spine[-1].left)
    misread = _misread_cast(build, spine[-1].left, ctx)
    if misread is not None:
        return value(build, _regrouped(misread, spine[::-1]), ctx)
    left = value(build, spine[-1].left, ctx)
    for item in reversed(spine):
        right = value(build, item.right, ctx)
        if item.op == ",":
            left = right
        elif left.place is not None and not left.type.scalar and not left.type.pointer:
            left = methods.operator(build, item, left, right, ctx)
        else:
            left = arith.binary(item.op, left, right, lambda type_: size_of(build, type_))
    return left


_RANKS = {
    "*": 10, "/": 10, "%": 10, "+": 9, "-": 9, "<<": 8, ">>": 8, "<": 7, "<=": 7, ">": 7, ">=": 7, "==": 6, "!=": 6,
    "&": 5,
}  # fmt: skip
"""How tightly binary operators bind."""


def _misread_cast(build: Build, node: ast.Expr, ctx: Ctx) -> ast.Binary | None:
    """`(a) + b` with a variable `a`, which the grammar takes for a cast of `+b`."""
    if not isinstance(node, ast.Cast) or not isinstance(node.arg, ast.Unary) or node.arg.op not in "+-*&":
        return None
    name = node.type.name
    if node.type.pointer or node.type.targs or not name.isidentifier() or not lookup.is_variable(build, name, ctx):
        return None
    return ast.Binary(node.span, node.arg.op, ast.Name(node.span, name), node.arg.arg)


def _regrouped(start: ast.Binary, rest: list[ast.Binary]) -> ast.Expr:
    """A chain of operators that began with a misread cast, grouped by rank: `(a) + (b) * c` is `a + (b * c)`."""
    result: ast.Expr = start
    for item in rest:
        if isinstance(result, ast.Binary) and result is start and _RANKS.get(item.op, 0) > _RANKS[start.op]:
            start = ast.Binary(item.span, start.op, start.left, ast.Binary(item.span, item.op, start.right, item.right))
            result = start
        else:
            result = ast.Binary(item.span, item.op, result, item.right)
    return result


def _short_circuit(build: Build, node: ast.Binary, ctx: Ctx) -> Typed:
    left = value(build, node.left, ctx)
    known = truth(left)
    if isinstance(known, ir.Const) and bool(known.value) == (node.op == "||"):
        return Typed(ir.Const(int(node.op == "||")), BOOL)
    if ctx.out is None:
        return arith.logical(node.op, left, value(build, node.right, ctx))
    inner: list[ir.Stmt] = []
    right = value(build, node.right, ctx.into(inner))
    if inner:
        if any(not isinstance(item, ir.Do) for item in inner):
            left = places.temporary(build, ctx, left, node.span)
        test = truth(left) if node.op == "&&" else arith.unary("!", left).expr
        ctx.out.append(branch(build, node.left, test, inner, []))
    return arith.logical(node.op, left, right)


def branch(build: Build, test_node: ast.Expr, test: ir.Expr, then: list[ir.Stmt], orelse: list[ir.Stmt]) -> ir.If:
    """An `if` made for an operand that is evaluated only under a condition."""
    span = test_node.span
    return ir.If(
        span, ready(test), ir.Seq(span, tuple(then)), ir.Seq(span, tuple(orelse)), build.unit.source.text(span), span
    )


def _cond(build: Build, node: ast.Cond, ctx: Ctx) -> Typed:
    test = value(build, node.test, ctx)
    known = truth(test)
    if isinstance(known, ir.Const):
        return value(build, node.yes if known.value else node.no, ctx)
    if ctx.out is None:
        return select(known, value(build, node.yes, ctx), value(build, node.no, ctx))
    yes_out: list[ir.Stmt] = []
    no_out: list[ir.Stmt] = []
    yes = value(build, node.yes, ctx.into(yes_out))
    no = value(build, node.no, ctx.into(no_out))
    if yes_out or no_out:
        if any(not isinstance(item, ir.Do) for item in yes_out + no_out):
            test = places.temporary(build, ctx, test, node.span)
        ctx.out.append(branch(build, node.test, truth(test), yes_out, no_out))
    return select(truth(test), yes, no)


def _cast(build: Build, node: ast.Cast, ctx: Ctx) -> Typed:
    if node.type.reference:
        return _designated(build, node, ctx)
    misread = _misread_cast(build, node, ctx)
    if misread is not None:
        return value(build, misread, ctx)
    type_ = ctype(build, node.type, ctx)
    inner = value(build, node.arg, ctx)
    if not type_.scalar and type_.name != "void" and type_ != UNKNOWN and not node.type.pointer:
        return methods.construct(build, type_, (node.arg,), node, ctx, inner)
    if type_.scalar and inner.place is not None and not inner.type.scalar:
        return _converted(build, inner, type_, node, ctx)
    if type_.pointer and not inner.type.pointer and isinstance(inner.expr, ir.Const):
        return Typed(inner.expr, type_)
    return convert(inner, type_)


def _converted(build: Build, inner: Typed, type_: CType, node: ast.Cast, ctx: Ctx) -> Typed:
    """An object converted to a scalar: by its class's conversion operator, else by the storage itself."""
    prefix = f"{inner.type.name}::operator"
    for name in sorted(build.unit.functions):
        if name.startswith(prefix) and scalar_name(name[len(prefix) :].strip()) is not None:
            made = build.unit.functions[name][0]
            return convert(inline.invoke(build, made, (), node.span, ctx, inner.place), type_)
    seen = arith.view(inner.place, type_)
    return places.load(build, seen) if seen is not None else Typed(inner.expr, type_)


def _member(build: Build, node: ast.Member, ctx: Ctx) -> Typed:
    base = node.base
    if isinstance(base, ast.Name) and base.id in lookup.COORDINATES and len(node.name) == 1:
        if ctx.scope.find(base.id, ctx.at) is None:
            return Typed(ir.Special(f"{lookup.COORDINATES[base.id]}.{node.name}"), UINT)
    found = designate(build, node, ctx)
    if isinstance(found, Typed):
        return found
    if isinstance(found, MemPlace) and isinstance(found.pointer, ir.Unknown):
        return unknown(f"member `{node.name}`", found.type)
    return places.load(build, found)


# ------------------------------------------------------------------------------------------------ side effects
def _assign(build: Build, node: ast.Assign, ctx: Ctx) -> Typed:
    if not node.op:
        result = value(build, node.value, ctx)
        return result if ctx.out is None else assign(build, node.target, result, node.span, ctx)
    if _is_rebound(node.target, ctx):
        old = value(build, node.target, ctx)
        result = arith.binary(node.op, old, value(build, node.value, ctx), lambda type_: size_of(build, type_))
        return result if ctx.out is None else assign(build, node.target, result, node.span, ctx)
    found = designate(build, node.target, ctx)
    old = found if isinstance(found, Typed) else places.load(build, found)
    if old.place is not None and not old.type.scalar and not old.type.pointer:
        changed = methods.own_operator(build, f"{node.op}=", old, (node.value,), node, ctx)
        if changed is not None:
            return changed
    result = arith.binary(node.op, old, value(build, node.value, ctx), lambda type_: size_of(build, type_))
    return result if ctx.out is None else _stored(build, found, result, node.span, ctx)


def _is_rebound(target: ast.Expr, ctx: Ctx) -> bool:
    """The target is a variable of a straight-line helper: assigning to it gives its name a new value."""
    binding = ctx.scope.find(target.id, ctx.at) if isinstance(target, ast.Name) else None
    return isinstance(binding, Value) and binding.stored


def assign(build: Build, target: ast.Expr, result: Typed, span: ast.Span, ctx: Ctx) -> Typed:
    """`target = result`, and the value of that expression."""
    if isinstance(target, ast.Name):
        binding = ctx.scope.find(target.id, ctx.at)
        if isinstance(binding, Value) and binding.stored:
            fixed = convert(result, lookup.force(binding).type)
            rebind(build, ctx, target.id, fixed)
            return fixed
    return _stored(build, designate(build, target, ctx), result, span, ctx)


def _stored(build: Build, found: Place | Typed, result: Typed, span: ast.Span, ctx: Ctx) -> Typed:
    """A value written to what a target designates."""
    if isinstance(found, Typed):
        if found.place is None or found.type.pointer:
            if ctx.out is not None:
                written = build.unit.source.text(span)[:60]
                reason = f"`{written}` writes to something that could not be resolved"
                ctx.out.append(ir.Opaque(ctx.frame.outer or span, reason))
            return result
        found = found.place
    calls.before_write(build, ctx)
    aggregates.store(build, ctx, found, result, ctx.frame.outer or span)
    if result.type.pointer and isinstance(result.expr, ir.Address) and result.expr.symbol.kind == "local":
        build.escaped.append(result.expr.symbol)
    if isinstance(found, LocalPlace) and not found.type.dims:
        return places.load(build, found)
    return convert(result, found.type) if found.type.scalar else result


def rebind(build: Build, ctx: Ctx, name: str, fixed: Typed) -> None:
    """A new value for a variable of a straight-line helper; what was resolved before keeps the old one."""
    ctx.scope.declare(name, Value(lambda: fixed, fixed, stored=True), build.tick())


def _update(build: Build, node: ast.Update, ctx: Ctx) -> Typed:
    rebound = _is_rebound(node.arg, ctx)
    found = value(build, node.arg, ctx) if rebound else designate(build, node.arg, ctx)
    old = found if isinstance(found, Typed) else places.load(build, found)
    if old.place is not None and not old.type.scalar and not old.type.pointer:
        stepped = methods.own_operator(build, f"{node.op}{node.op}", old, () if node.prefix else (_ONE,), node, ctx)
        if stepped is not None:
            return stepped
    new = arith.binary(node.op, old, Typed(ONE, INT), lambda type_: size_of(build, type_))
    if ctx.out is None:
        return new if node.prefix else old
    kept = old if node.prefix else places.temporary(build, ctx, old, node.span)
    if rebound:
        result = assign(build, node.arg, new, node.span, ctx)
    else:
        result = _stored(build, found, new, node.span, ctx)
    return result if node.prefix else kept


_ONE = ast.Num(ast.Span(0, 0), 0)
"""The unused argument by which C++ tells `x++` from `++x`."""


def _operation_output(build: Build, node: OpOutput, ctx: Ctx) -> Typed:
    made = ctx.ops[node.op] if node.op < len(ctx.ops) else None
    if made is None:
        return unknown("the result of an instruction")
    return calls.result_of(made, node.output, BOOL if node.truth else UNKNOWN)


def _computed(build: Build, node: Computed, ctx: Ctx) -> Typed:
    """Register arithmetic that is not followed: a value of its arguments."""
    args = tuple(value(build, item, ctx).expr for item in node.args)
    return Typed(ir.Pure(node.name, args, True), BOOL if node.truth else UNKNOWN)


def _special(build: Build, node: SpecialReg, ctx: Ctx) -> Typed:
    return Typed(ir.Special(node.name), UINT)


def _unparsed(build: Build, node: ast.Unparsed, ctx: Ctx) -> Typed:
    return unknown(node.text[:60] or "source that could not be parsed")


def _string(build: Build, node: ast.Str, ctx: Ctx) -> Typed:
    return unknown("a string", CType("i8", 1), uniform=True)


def _init_list(build: Build, node: ast.InitList, ctx: Ctx) -> Typed:
    if node.type is not None:
        type_ = ctype(build, node.type, ctx)
        if type_.scalar:
            return convert(value(build, node.items[0], ctx), type_) if node.items else Typed(ZERO, type_)
        return methods.construct(build, type_, node.items, node, ctx, None)
    if len(node.items) == 1:
        return value(build, node.items[0], ctx)
    for item in node.items:
        value(build, item, ctx)
    return Typed(ZERO, INT) if not node.items else unknown("a braced list")


def _lambda(build: Build, node: ast.Lambda, ctx: Ctx) -> Typed:
    return Typed(ir.Unknown("a lambda"), UNKNOWN)


_HANDLERS: dict[type, Callable[[Build, Any, Ctx], Typed]] = {
    ast.Num: _num,
    ast.Name: lookup.name_value,
    ast.Unary: _unary,
    ast.Binary: _binary,
    ast.Cond: _cond,
    ast.Cast: _cast,
    ast.Index: _designated,
    ast.Member: _member,
    ast.Assign: _assign,
    ast.Update: _update,
    ast.Unparsed: _unparsed,
    ast.Str: _string,
    ast.InitList: _init_list,
    ast.Lambda: _lambda,
    ast.Call: lambda build, node, ctx: calls.call(build, node, ctx),
    ast.Asm: lambda build, node, ctx: calls.assembly(build, node, ctx),
    OpOutput: _operation_output,
    SpecialReg: _special,
    Computed: _computed,
    named.Held: named.held,
}
