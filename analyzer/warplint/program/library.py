"""Built-in functions of CUDA, HIP and C++: evaluated, read, stored, or a value of their arguments."""

from __future__ import annotations

from warplint.program import (
    aggregates,
    builtins,
    calls,
    expr,
    ir,
    methods,
    named,
    places,
)
from warplint.program.arith import unknown
from warplint.program.ctypes import (
    INT,
    U64,
    UINT,
    UNKNOWN,
    VOID,
    CType,
    vector,
)
from warplint.program.scope import (
    ZERO,
    Ctx,
    MemPlace,
    Typed,
    ready,
)
from warplint.program.typetable import size_of
from warplint.program.unit import Build
from warplint.source import Span
from warplint.syntax import ast


def builtin(build: Build, name: str, node: ast.Call, targs: tuple[ast.Expr, ...], ctx: Ctx) -> Typed | None:
    """The value of a built-in function, None when `name` is none that is known here."""
    args = node.args
    if name in ("min", "max", "umin", "umax", "llmin", "llmax") and len(args) == 2:
        return _extreme(build, name[-3:], args, ctx)
    if (name == "ceil_div" and len(args) == 2) or (name == "cdiv" and len(args) == 2):
        a, b = (expr.value(build, arg, ctx) for arg in args)
        return Typed(ir.Pure(name, (a.expr, b.expr), True), a.type)
    if name in builtins.IDENTITY and args:
        inner = expr.value(build, args[0], ctx)
        for arg in args[1:]:
            expr.value(build, arg, ctx)
        if name.startswith("__cvta_generic_to") or "ptr_to_uint" in name or name == "__nvvm_get_smem_pointer":
            return Typed(inner.expr, U64 if name.startswith("__cvta") else UINT)
        if name.startswith("__cvta_") and not inner.type.pointer:
            return Typed(inner.expr, CType("void", 1))
        return inner
    if name in builtins.LOADS and args:
        pointer = expr.value(build, args[0], ctx)
        return places.load(build, places.deref(build, pointer))
    if name in builtins.STORES and len(args) == 2:
        return _store(build, args[0], args[1], node.span, ctx)
    if name in ("__builtin_amdgcn_mbcnt_lo", "__builtin_amdgcn_mbcnt_hi") and len(args) == 2:
        return _lanes_below(build, name, args, ctx)
    if name in builtins.CLOCKS:
        return Typed(ir.Special("clock"), CType("i64"))
    if name in builtins.TRAPS:
        if ctx.out is not None:
            ctx.out.append(ir.Exit(ctx.frame.outer or node.span, True))
        return Typed(ZERO, VOID)
    if name in builtins.NOTHING:
        for arg in args:
            if ctx.out is not None:
                expr.value(build, arg, ctx)
        return Typed(ZERO, VOID)
    if builtins.ATOMICS.fullmatch(name) and args:
        return _atomic(build, name, args, node.span, ctx)
    if name in builtins.COPIES and len(args) == 3:
        return _memory_copy(build, name, args, node.span, ctx)
    if name in named.GROUPS:
        for arg in args:
            expr.value(build, arg, ctx)
        return Typed(ir.Unknown(f"a group from `{name}`"), CType(_group_type(name, targs)))
    if name.startswith("make_") and ctx.out is not None and len(args) > 1 and vector(name[5:]) is not None:
        return methods.construct(build, CType(name[5:]), args, node, ctx, None)
    if builtins.harmless(name):
        values = tuple(expr.value(build, arg, ctx) for arg in args)
        return _pure(name, values)
    return None


def _lanes_below(build: Build, name: str, args: tuple[ast.Expr, ...], ctx: Ctx) -> Typed:
    """`mbcnt_lo`, `mbcnt_hi`: the bits of a mask (of lanes 0 to 31, or 32 to 63) below this lane, and a number added.

    With all bits set in both they count the lane itself, which is how its number is asked for.
    """
    mask, added = (expr.value(build, arg, ctx).expr for arg in args)
    if not isinstance(mask, ir.Const) or mask.value & 0xFFFFFFFF != 0xFFFFFFFF:
        return Typed(ir.Pure(name, (mask, added, ir.Special("laneid")), True), UINT)
    lane, half = ir.Special("laneid"), ir.Const(32)
    low = ir.Binary("min", lane, half)
    if name.endswith("hi") and added == low:
        return Typed(lane, UINT)
    below = low if name.endswith("lo") else ir.Binary("-", lane, low)
    return Typed(below if added == ZERO else ir.Binary("+", below, added), UINT)


def _pure(name: str, values: tuple[Typed, ...]) -> Typed:
    """A mathematical function: small integer ones are evaluated, the rest is a value of its arguments."""
    found = tuple(item.expr for item in values)
    if name in ("abs", "labs", "llabs") and len(found) == 1 and values[0].type.integer:
        if isinstance(found[0], ir.Const):
            return Typed(ir.Const(abs(found[0].value)), values[0].type)
    if name in ("__popc", "__popcll", "popcount") and len(found) == 1 and isinstance(found[0], ir.Const):
        bits = 64 if name == "__popcll" else 32
        return Typed(ir.Const((found[0].value & ((1 << bits) - 1)).bit_count()), INT)
    if name.startswith("make_") and vector(name[5:]) is not None:
        return Typed(ir.Pure(name, found, True), CType(name[5:]))
    type_ = UNKNOWN
    if "float" in name or name.endswith("f"):
        type_ = CType("f32")
    return Typed(ir.Pure(name, found, True), type_)


def _group_type(name: str, targs: tuple[ast.Expr, ...]) -> str:
    if name in ("this_thread_block", "thread_block"):
        return "cg::thread_block"
    if name == "tiled_partition" and targs and isinstance(targs[0], ast.Num):
        return f"cg::tile<{targs[0].value}>"
    known = {
        "this_grid": "cg::grid_group",
        "this_cluster": "cg::cluster_group",
        "coalesced_threads": "cg::coalesced_group",
    }
    return known.get(name, "cg::group")


def _extreme(build: Build, op: str, args: tuple[ast.Expr, ...], ctx: Ctx) -> Typed:
    from warplint.program.arith import binary

    a, b = (expr.value(build, arg, ctx) for arg in args)
    return binary(op, a, b, lambda type_: size_of(build, type_))


def _store(build: Build, target: ast.Expr, source: ast.Expr, span: Span, ctx: Ctx) -> Typed:
    pointer, value = expr.value(build, target, ctx), expr.value(build, source, ctx)
    if ctx.out is not None:
        calls.before_write(build, ctx)
        aggregates.store(build, ctx, places.deref(build, pointer), value, ctx.frame.outer or span)
    return Typed(ZERO, VOID)


def _atomic(build: Build, name: str, args: tuple[ast.Expr, ...], span: Span, ctx: Ctx) -> Typed:
    pointer = expr.value(build, args[0], ctx)
    values = [expr.value(build, arg, ctx) for arg in args[1:]]
    type_ = pointer.type.pointee if pointer.type.pointer else UNKNOWN
    found = unknown(f"what `{name}` found in memory", type_)
    if ctx.out is not None:
        calls.before_write(build, ctx)
        site = ctx.frame.outer or span
        place = places.deref(build, pointer)
        if isinstance(place, MemPlace):
            new = values[0].expr if values and "Exch" in name else ir.Unknown(f"the result of `{name}`")
            stmt = ir.Store(site, ready(place.pointer), ready(new), size_of(build, type_), True)
            ctx.out.append(stmt)
            adding = stmt if name.startswith(("atomicAdd", "atomicInc")) else None
            return Typed(ir.Unknown(f"what `{name}` found in memory", False, adding), type_)
        aggregates.invalidate(build, ctx, place, site, f"updated by `{name}`")
    return found


def _memory_copy(build: Build, name: str, args: tuple[ast.Expr, ...], span: Span, ctx: Ctx) -> Typed:
    target, _, count = (expr.value(build, arg, ctx) for arg in args)
    if ctx.out is not None:
        calls.before_write(build, ctx)
        site = ctx.frame.outer or span
        place = places.deref(build, target)
        if isinstance(place, MemPlace):
            width = count.expr.value if isinstance(count.expr, ir.Const) else None
            ctx.out.append(ir.Store(site, ready(place.pointer), ready(ir.Unknown(f"copied by `{name}`")), width))
        else:
            aggregates.invalidate(build, ctx, place, site, f"written by `{name}`")
    return target
