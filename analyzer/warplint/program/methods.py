"""Methods, operators and constructors of classes, and the group objects of cooperative groups."""

from __future__ import annotations

from warplint.program import (
    aggregates,
    designators,
    expr,
    initial,
    inline,
    ir,
    named,
    places,
    undefined,
)
from warplint.program.arith import convert, unknown
from warplint.program.ctypes import (
    UINT,
    UNKNOWN,
    VOID,
    CType,
    strip_namespace,
)
from warplint.program.scope import (
    ZERO,
    Ctx,
    MemPlace,
    Place,
    Root,
    Typed,
)
from warplint.program.typetable import layout
from warplint.program.unit import Build, Unit
from warplint.source import Span
from warplint.syntax import ast


def method(build: Build, node: ast.Call, fn: ast.Member, ctx: Ctx) -> Typed:
    """A call `object.method(...)` or `pointer->method(...)`."""
    unit = build.unit
    held: Typed | None = None
    if fn.arrow:
        place: Place | None = places.deref(build, expr.value(build, fn.base, ctx))
    else:
        place = designators.place(build, fn.base, ctx) if not isinstance(fn.base, ast.Call) else None
        if place is None:
            held = expr.value(build, fn.base, ctx)
            place = held.place
    type_ = place.type if place is not None else held.type if held is not None else UNKNOWN
    record = type_.name
    for candidate in (record, *bases(unit, record)):
        functions = unit.functions.get(f"{candidate}::{fn.name}")
        if functions:
            chosen = inline.choose(build, functions, node.args, ctx)
            if place is None and held is not None and "static" not in chosen.specifiers:
                place = _object(build, held, node.span, ctx)
            return inline.invoke(build, chosen, node.args, node.span, ctx, place, node.targs, fn.name)
    if place is not None and layout(build, type_._replace(dims=(), pointer=0)) is not None:
        member = places.member(build, place, fn.name)
        if isinstance(member, MemPlace) or member.type != UNKNOWN:  # a function object or lambda held in a member
            return undefined.unknown_callee(build, fn.name, node, ctx)
    group = group_method(build, record, fn.name, node, ctx)
    if group is not None:
        return group
    row = named.find(unit, f"{record}::{fn.name}", len(node.args) + 1) if record not in ("?", "") else None
    if row is not None:
        target = fn.base if fn.arrow else ast.Unary(fn.base.span, "&", fn.base)
        return named.call(build, fn.name, row, (target, *node.args), node.targs, node.span, ctx)
    return undefined.unknown_callee(build, f"{record}::{fn.name}" if record != "?" else fn.name, node, ctx, fn.base)


def bases(unit: Unit, record: str) -> list[str]:
    """Base classes, nearest first."""
    found: list[str] = []
    pending = [record]
    while pending and len(found) < 32:
        made = unit.records.get(pending.pop(0))
        for base in made.bases if made is not None else ():
            name = strip_namespace(base)
            if name not in found:
                found.append(name)
                pending.append(name)
    return found


def _object(build: Build, held: Typed, span: Span, ctx: Ctx) -> Place:
    """A temporary object that a method is called on."""
    root = Root("temporary", held.type, "local", span)
    place = places.whole(root)
    if ctx.out is not None:
        aggregates.store(build, ctx, place, held, span, True)
    return place


def group_method(build: Build, type_: str, method: str, node: ast.Call, ctx: Ctx) -> Typed | None:
    """Methods of cooperative-groups objects that are coordinates (the synchronising ones are operations)."""
    kind = type_.removeprefix("cooperative_groups::").removeprefix("cg::")
    if kind == type_ and kind not in ("thread_block", "grid_group", "cluster_group"):
        return None
    if method == "thread_rank":
        if kind == "thread_block":
            return Typed(ir.Special("linear_tid"), UINT)
        if kind.startswith("tile<"):
            size = kind[5:-1]
            if size.isdigit():
                return Typed(ir.Binary("%", ir.Special("linear_tid"), ir.Const(int(size))), UINT)
    if method in ("size", "num_threads"):
        if kind == "thread_block":
            product = ir.Binary("*", ir.Special("ntid.x"), ir.Binary("*", ir.Special("ntid.y"), ir.Special("ntid.z")))
            return Typed(product, UINT)
        if kind.startswith("tile<") and kind[5:-1].isdigit():
            return Typed(ir.Const(int(kind[5:-1])), UINT)
    if method == "meta_group_rank" and kind.startswith("tile<") and kind[5:-1].isdigit():
        return Typed(ir.Binary("/", ir.Special("linear_tid"), ir.Const(int(kind[5:-1]))), UINT)
    if kind == "cluster_group" and method in ("block_rank", "num_blocks"):
        return Typed(ir.Special("cluster_ctarank" if method == "block_rank" else "cluster_nctarank"), UINT)
    operations = {
        ("thread_block", "sync"): "__syncthreads", ("grid_group", "sync"): "cooperative_groups::grid_sync",
        ("cluster_group", "sync"): "cooperative_groups::cluster_sync",
    }  # fmt: skip
    name = operations.get((kind, method))
    if name == "__syncthreads":
        row = named.find(build.unit, name, 0)
        if row is not None:
            return named.call(build, f"{kind}.sync", row, (), (), node.span, ctx)
    if method in ("sync", "arrive", "wait") and name is None and ctx.out is not None:
        site = ctx.frame.outer or node.span
        part = kind.startswith("tile<") and kind[5:-1].isdigit() and int(kind[5:-1]) <= 32
        if method == "sync" and (part or kind == "coalesced_group"):  # lanes of one warp
            whole = kind == "tile<32>" and not build.unit.is_amd
            mask: ir.Expr = ir.Const(0xFFFFFFFF) if whole else ir.Unknown("the lanes of a tile")
            made = ir.Operation(
                "bar.warp.sync", site, {"mask": mask}, {}, "tile.sync", None, ctx.frame.chain, None, True
            )
            ctx.out.append(ir.Do(site, made))
        else:
            reason = f"`{method}` of a cooperative group of type `{kind}` is not followed"
            ctx.out.append(ir.Opaque(site, reason, what=f"{kind}::{method}"))
        return Typed(ZERO, VOID)
    if name is not None and ctx.out is not None:
        site = ctx.frame.outer or node.span
        ops = ["grid.sync"] if kind == "grid_group" else ["barrier.cluster.arrive", "barrier.cluster.wait"]
        for op in ops:
            made = ir.Operation(op, site, {}, {"aligned": True}, f"{kind}.sync", None, ctx.frame.chain, None, True)
            ctx.out.append(ir.Do(site, made))
        return Typed(ZERO, VOID)
    return None


def object_call(build: Build, inner: Typed, node: ast.Call, ctx: Ctx) -> Typed:
    """A call of an object that has `operator()`."""
    functions = build.unit.functions.get(f"{inner.type.name}::operator()")
    if functions:
        chosen = inline.choose(build, functions, node.args, ctx)
        place = inner.place or _object(build, inner, node.span, ctx)
        return inline.invoke(build, chosen, node.args, node.span, ctx, place, node.targs)
    return undefined.unknown_callee(build, "a function object", node, ctx)


def subscript_operator(build: Build, base: Typed, position: ast.Expr, ctx: Ctx) -> Typed | None:
    """`object[i]` by the class's own `operator[]`, None when it has none."""
    functions = build.unit.functions.get(f"{base.type.name}::operator[]")
    if not functions or base.place is None:
        return None
    return inline.invoke(build, functions[0], (position,), position.span, ctx, base.place)


def own_operator(
    build: Build, sign: str, left: Typed, args: tuple[ast.Expr, ...], node: ast.Expr, ctx: Ctx
) -> Typed | None:
    """An operator that the object's class defines in this file, None when it does not."""
    functions = build.unit.functions.get(f"{left.type.name}::operator{sign}")
    if not functions or left.place is None:
        return None
    chosen = inline.choose(build, functions, args, ctx)
    return inline.invoke(build, chosen, args, node.span, ctx, left.place)


def operator(build: Build, node: ast.Binary, left: Typed, right: Typed, ctx: Ctx) -> Typed:
    """A binary operator on an object: what its class says, else a value of its operands."""
    found = own_operator(build, node.op, left, (named.Held(node.right.span, right),), node, ctx)
    if found is not None:
        return found
    return Typed(ir.Pure(f"operator{node.op}", (left.expr, right.expr), True), UNKNOWN)


def construct(
    build: Build, type_: CType, args: tuple[ast.Expr, ...], node: ast.Expr, ctx: Ctx, held: Typed | None
) -> Typed:
    """`T(args)` and `T{args}`."""
    if type_.scalar or type_ == UNKNOWN:
        if not args:
            return Typed(ZERO, type_)
        inner = held if held is not None else expr.value(build, args[0], ctx)
        return convert(inner, type_)
    if held is not None and held.type == type_:
        return held
    if ctx.out is None:
        return unknown(f"an object of type `{type_.name}`", type_)
    root = Root(type_.name, type_, "local", node.span)
    place = places.whole(root)
    initial.initialise(build, ctx, place, ast.InitList(node.span, args), node.span)
    return Typed(ir.Unknown(f"an object of type `{type_.name}`"), type_, place)
