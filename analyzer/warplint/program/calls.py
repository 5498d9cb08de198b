"""Calls: macros, lambdas, functions of the file, methods, built-ins, named operations, and what nobody knows."""

from __future__ import annotations

from warplint.program import asmops, body, builtins, expr, inline, ir, named, places
from warplint.program.arith import convert, select, unknown
from warplint.program.ctypes import BOOL, INT, SIZES, U64, UINT, UNKNOWN, VOID, CType, scalar_name, strip_namespace, vector
from warplint.program.scope import (
    ZERO,
    Closure,
    Ctx,
    Frame,
    Local,
    MacroArgument,
    Memory,
    MemPlace,
    Place,
    Root,
    Scope,
    TemplateArgument,
    TypeAlias,
    Typed,
    ready,
)
from warplint.program.unit import Build, Unit, align_of, ctype, declared_type, layout, size_of
from warplint.source import Span
from warplint.syntax import ast, parse_expression, parse_statements

assembly = asmops.assembly
before_write = asmops.before_write
result_of = asmops.result_of

_GROUP_RANKS = {"thread_rank": "linear_tid", "block_rank": "cluster_ctarank"}
MAX_MACRO = 16
"""Depth of macros expanded inside macros."""


def call(build: Build, node: ast.Call, ctx: Ctx) -> Typed:
    """The value of a call; its effects go to `ctx.out`."""
    fn = node.fn
    if isinstance(fn, ast.Name):
        return _named(build, node, fn, ctx)
    if isinstance(fn, ast.Member):
        return _method(build, node, fn, ctx)
    if isinstance(fn, ast.Lambda):
        return inline.closure(build, fn, ctx.later(build.clock), node.args, node.span, ctx)
    if isinstance(fn, ast.Call):  # `f()()`: a function object
        inner = expr.value(build, fn, ctx)
        return _object_call(build, inner, node, ctx)
    return _nobody_knows(build, "a call through a pointer", node, ctx)


def _named(build: Build, node: ast.Call, fn: ast.Name, ctx: Ctx) -> Typed:
    unit, name = build.unit, fn.id.removeprefix("::")
    binding = ctx.scope.find(name, ctx.at)
    if isinstance(binding, MacroArgument):
        if isinstance(binding.expr, ast.Name):
            return _named(build, node, binding.expr, Ctx(binding.ctx.scope, ctx.frame, ctx.out, ctx.at))
    elif isinstance(binding, Closure):
        return inline.closure(build, binding.node, binding.ctx, node.args, node.span, ctx)
    elif isinstance(binding, (TypeAlias, TemplateArgument)):
        type_ = ctype(build, ast.TypeName(name), ctx)
        return construct(build, type_, node.args, node, ctx, None)
    elif isinstance(binding, Local):
        return _object_call(build, expr.bound(build, binding, name), node, ctx)
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
        own = unit.functions.get(f"{record}::{name}")
        if own:
            chosen = inline.choose(build, own, node.args, ctx)
            return inline.invoke(build, chosen, node.args, node.span, ctx, this, targs)
    functions = _functions(unit, name)
    if functions:
        chosen = inline.choose(build, functions, node.args, ctx)
        return inline.invoke(build, chosen, node.args, node.span, ctx, None, targs)
    last = strip_namespace(name)
    if last in unit.records or scalar_name(name) is not None or vector(last) is not None or last in unit.aliases:
        type_ = ctype(build, ast.TypeName(name, targs=targs), ctx)
        return construct(build, type_, node.args, node, ctx, None)
    known = _builtin(build, last, node, targs, ctx)
    if known is not None:
        return known
    row = named.find(unit, name, len(node.args))
    if row is not None:
        return named.call(build, name, row, node.args, targs, node.span, ctx)
    return _nobody_knows(build, name, node, ctx)


def _functions(unit: Unit, name: str) -> list[ast.Function]:
    """Functions of the file that a call without an object may mean."""
    exact = unit.functions.get(name, [])
    last = strip_namespace(name)
    candidates = exact or unit.functions.get(last, [])
    if "::" not in name:
        return [fn for fn in candidates if fn.record not in unit.records]
    return [fn for fn in candidates if fn.name == name or fn.name.endswith("::" + name) or name.endswith("::" + fn.name)]


# --------------------------------------------------------------------------------------------------- built-ins
def _builtin(build: Build, name: str, node: ast.Call, targs: tuple[ast.Expr, ...], ctx: Ctx) -> Typed | None:
    args = node.args
    if name in ("min", "max", "umin", "umax", "llmin", "llmax") and len(args) == 2:
        return _extreme(build, name[-3:], args, ctx)
    if name == "ceil_div" and len(args) == 2 or name == "cdiv" and len(args) == 2:
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
        return construct(build, CType(name[5:]), args, node, ctx, None)
    if builtins.harmless(name):
        values = tuple(expr.value(build, arg, ctx) for arg in args)
        return _pure(name, values)
    return None


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
    return {"this_grid": "cg::grid_group", "this_cluster": "cg::cluster_group"}.get(name, "cg::group")


def _extreme(build: Build, op: str, args: tuple[ast.Expr, ...], ctx: Ctx) -> Typed:
    from warplint.program.arith import binary

    a, b = (expr.value(build, arg, ctx) for arg in args)
    return binary(op, a, b, lambda type_: size_of(build, type_))


def _store(build: Build, target: ast.Expr, source: ast.Expr, span: Span, ctx: Ctx) -> Typed:
    pointer, value = expr.value(build, target, ctx), expr.value(build, source, ctx)
    if ctx.out is not None:
        before_write(build, ctx)
        places.store(build, ctx, places.deref(build, pointer), value, ctx.frame.outer or span)
    return Typed(ZERO, VOID)


def _atomic(build: Build, name: str, args: tuple[ast.Expr, ...], span: Span, ctx: Ctx) -> Typed:
    pointer = expr.value(build, args[0], ctx)
    values = [expr.value(build, arg, ctx) for arg in args[1:]]
    type_ = pointer.type.pointee if pointer.type.pointer else UNKNOWN
    if ctx.out is not None:
        before_write(build, ctx)
        site = ctx.frame.outer or span
        place = places.deref(build, pointer)
        if isinstance(place, MemPlace):
            new = values[0].expr if values and "Exch" in name else ir.Unknown(f"the result of `{name}`")
            ctx.out.append(ir.Store(site, ready(place.pointer), ready(new), size_of(build, type_), True))
        else:
            places.invalidate(build, ctx, place, site, f"updated by `{name}`")
    return unknown(f"what `{name}` found in memory", type_)


def _memory_copy(build: Build, name: str, args: tuple[ast.Expr, ...], span: Span, ctx: Ctx) -> Typed:
    target, _, count = (expr.value(build, arg, ctx) for arg in args)
    if ctx.out is not None:
        before_write(build, ctx)
        site = ctx.frame.outer or span
        place = places.deref(build, target)
        if isinstance(place, MemPlace):
            width = count.expr.value if isinstance(count.expr, ir.Const) else None
            ctx.out.append(ir.Store(site, ready(place.pointer), ready(ir.Unknown(f"copied by `{name}`")), width))
        else:
            places.invalidate(build, ctx, place, site, f"written by `{name}`")
    return target


# ----------------------------------------------------------------------------------------------------- methods
def _method(build: Build, node: ast.Call, fn: ast.Member, ctx: Ctx) -> Typed:
    unit = build.unit
    held: Typed | None = None
    if fn.arrow:
        place: Place | None = places.deref(build, expr.value(build, fn.base, ctx))
    else:
        place = expr.place(build, fn.base, ctx) if not isinstance(fn.base, ast.Call) else None
        if place is None:
            held = expr.value(build, fn.base, ctx)
            place = held.place
    type_ = place.type if place is not None else held.type if held is not None else UNKNOWN
    record = type_.name
    for candidate in (record, *_bases(unit, record)):
        functions = unit.functions.get(f"{candidate}::{fn.name}")
        if functions:
            chosen = inline.choose(build, functions, node.args, ctx)
            if place is None and held is not None and "static" not in chosen.specifiers:
                place = _object(build, held, node.span, ctx)
            return inline.invoke(build, chosen, node.args, node.span, ctx, place, node.targs, fn.name)
    if place is not None and layout(build, type_._replace(dims=(), pointer=0)) is not None:
        member = places.member(build, place, fn.name)
        if isinstance(member, MemPlace) or member.type != UNKNOWN:  # a function object or lambda held in a member
            return _nobody_knows(build, fn.name, node, ctx)
    group = _group(build, record, fn.name, node, ctx)
    if group is not None:
        return group
    row = named.find(unit, f"{record}::{fn.name}", len(node.args)) if record not in ("?", "") else None
    if row is not None:
        return named.call(build, fn.name, row, (fn.base, *node.args), node.targs, node.span, ctx)
    return _nobody_knows(build, f"{record}::{fn.name}" if record != "?" else fn.name, node, ctx, fn.base)


def _bases(unit: Unit, record: str) -> list[str]:
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
        places.store(build, ctx, place, held, span, True)
    return place


def _group(build: Build, type_: str, method: str, node: ast.Call, ctx: Ctx) -> Typed | None:
    """Methods of cooperative-groups objects that are coordinates (the synchronising ones are operations)."""
    if not type_.startswith("cg::") and type_ not in ("thread_block", "grid_group", "cluster_group"):
        return None
    kind = type_.removeprefix("cg::")
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
    if name is not None and ctx.out is not None:
        site = ctx.frame.outer or node.span
        ops = ["grid.sync"] if kind == "grid_group" else ["barrier.cluster.arrive", "barrier.cluster.wait"]
        for op in ops:
            made = ir.Operation(op, site, {}, {"aligned": True}, f"{kind}.sync", None, ctx.frame.chain, None, True)
            ctx.out.append(ir.Do(site, made))
        return Typed(ZERO, VOID)
    return None


def _object_call(build: Build, inner: Typed, node: ast.Call, ctx: Ctx) -> Typed:
    functions = build.unit.functions.get(f"{inner.type.name}::operator()")
    if functions:
        chosen = inline.choose(build, functions, node.args, ctx)
        place = inner.place or _object(build, inner, node.span, ctx)
        return inline.invoke(build, chosen, node.args, node.span, ctx, place, node.targs)
    return _nobody_knows(build, "a function object", node, ctx)


def subscript_operator(build: Build, base: Typed, position: ast.Expr, ctx: Ctx) -> Place | None:
    """`object[i]` by the class's own `operator[]`."""
    functions = build.unit.functions.get(f"{base.type.name}::operator[]")
    if not functions or base.place is None:
        expr.value(build, position, ctx)
        return None
    result = inline.invoke(build, functions[0], (position,), position.span, ctx, base.place)
    return result.place


def operator(build: Build, node: ast.Binary, left: Typed, right: Typed, ctx: Ctx) -> Typed:
    """A binary operator on an object: a value of its operands."""
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
    body.initialise(build, ctx, place, ast.InitList(node.span, args), node.span)
    return Typed(ir.Unknown(f"an object of type `{type_.name}`"), type_, place)


# ------------------------------------------------------------------------------------------------------ macros
def expansion(unit: Unit, macro: ast.Macro) -> ast.Expr | None:
    """The body of a macro as an expression, None when it is none."""
    if macro.name not in unit.expansions:
        text = macro.body.strip()
        tree = parse_expression(text, macro.span) if text and "#" not in text else None
        unit.expansions[macro.name] = None if tree is None or isinstance(tree, ast.Unparsed) else tree
    return unit.expansions[macro.name]


def _macro(build: Build, macro: ast.Macro, node: ast.Call, ctx: Ctx) -> Typed:
    frame = ctx.frame
    if macro in frame.active or frame.depth >= MAX_MACRO:
        return unknown(f"macro `{macro.name}`")
    scope = Scope(ctx.scope)
    params = macro.params or ()
    for i, name in enumerate(params):
        if i < len(node.args) and not name.endswith("..."):
            scope.declare(name, MacroArgument(node.args[i], Ctx(ctx.scope, frame, None, ctx.at, ctx.ops)))
    inner_frame = Frame(
        name=macro.name,
        label=frame.label,
        outer=frame.outer or node.span,
        chain=frame.chain,
        depth=frame.depth + 1,
        result=frame.result,
        straight=frame.straight,
        foreign=True,
        switches=frame.switches,
        active=(*frame.active, macro),
        base=ctx.scope,
        spelling=frame.spelling or macro.name,
        kernel=frame.kernel,
    )
    inner = Ctx(scope, inner_frame, ctx.out, ctx.at)
    tree = expansion(build.unit, macro)
    if tree is not None:
        return expr.value(build, tree, inner)
    text = macro.body.strip()
    if not text:
        return Typed(ZERO, VOID)
    if ctx.out is None:
        return unknown(f"macro `{macro.name}`")
    if "#" in text:
        ctx.out.append(ir.Opaque(frame.outer or node.span, f"macro `{macro.name}` pastes tokens and is not expanded"))
        return Typed(ZERO, VOID)
    body.statements(build, parse_statements(text + ";", node.span), inner, tail=False)
    return Typed(ZERO, VOID)


# ---------------------------------------------------------------------------------------------- what is unknown
def _nobody_knows(build: Build, name: str, node: ast.Call, ctx: Ctx, base: ast.Expr | None = None) -> Typed:
    """A call of something that is neither defined here nor in a table.

    It may synchronise when it is handed shared memory: then the kernel is incomplete. Locals whose address it gets may
    change.
    """
    values = [expr.value(build, arg, ctx) for arg in node.args]
    if base is not None:
        found = expr.place(build, base, ctx)
        values.append(places.address(build, found) if found is not None else expr.value(build, base, ctx.into(None)))
    if ctx.out is not None:
        site = ctx.frame.outer or node.span
        before_write(build, ctx)
        written: list[ir.Symbol] = []
        for item in values:
            if item.place is not None and not isinstance(item.place, MemPlace) and item.type.pointer:
                places.invalidate(build, ctx, item.place, site, f"may be written by `{name}`")
            symbol = _points_to(item.expr)
            if symbol is not None and symbol.kind in ("shared", "dynamic_shared"):
                written.append(symbol)
        for arg in node.args:
            if isinstance(arg, ast.Name):  # it may take a reference
                binding = ctx.scope.find(arg.id, ctx.at)
                if isinstance(binding, Local) and binding.root.plain and binding.root.kind == "local" and not binding.constant:
                    places.invalidate(build, ctx, places.whole(binding.root), site, f"may be written by `{name}`")
        if written:
            reason = f"`{name}` takes a shared-memory pointer and is not defined in this file"
            ctx.out.append(ir.Opaque(site, reason, tuple(dict.fromkeys(written))))
    return Typed(ir.Pure(name, tuple(item.expr for item in values), False), UNKNOWN)


def _points_to(pointer: ir.Expr) -> ir.Symbol | None:
    for _ in range(16):
        match pointer:
            case ir.Address(symbol=symbol):
                return symbol
            case ir.Binary(left=left):
                pointer = left
            case ir.Cast(arg=arg):
                pointer = arg
            case _:
                return None
    return None


# ----------------------------------------------------------------------------------------------- shared storage
def shared(build: Build, item: ast.Declarator, ctx: Ctx) -> Memory:
    """The storage of a shared variable: one for each declaration; dynamic shared memory is one storage altogether."""
    type_ = declared_type(build, item, ctx)
    element = type_._replace(dims=())
    if "extern" in item.type.qualifiers or (type_.dims and item.dims and item.dims[0] is None):
        if build.dynamic is None:
            build.dynamic = ir.Symbol(
                item.name, "dynamic_shared", element.name, element.pointer, (None,), size_of(build, element),
                item.alignment, item.span,
            )  # fmt: skip
            build.shared.append(build.dynamic)
        return Memory(build.dynamic, type_ if type_.dims else type_._replace(dims=(None,)))
    key = (item.span.start, item.span.end)
    found = build.statics.get(key)
    if found is None:
        symbol = ir.Symbol(
            item.name, "shared", element.name, element.pointer, type_.dims, size_of(build, element),
            max(item.alignment, align_of(build, element)), item.span,
        )  # fmt: skip
        build.statics[key] = found = Memory(symbol, type_)
        build.shared.append(symbol)
    return found


__all__ = ["BOOL", "SIZES", "assembly", "before_write", "call", "construct", "expansion", "operator", "result_of", "select", "shared", "subscript_operator"]
