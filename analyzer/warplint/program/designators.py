"""What an expression designates: storage (a place), or only a value. Every sub-expression is evaluated once."""

from __future__ import annotations

from warplint.program import expr, inline, lookup, methods, places
from warplint.program.arith import convert, is_address, unknown
from warplint.program.ctypes import CType
from warplint.program.scope import Closure, Ctx, Local, LocalPlace, MemPlace, Place, Typed
from warplint.program.typetable import ctype
from warplint.program.unit import MAX_DEPTH, Build
from warplint.syntax import ast


def place(build: Build, node: ast.Expr, ctx: Ctx) -> Place | None:
    """The storage that an expression names, None when it names none (or none that can be followed)."""
    found = designate(build, node, ctx)
    if isinstance(found, Typed):
        return None if found.type.pointer else found.place  # a pointer's place is what it points to
    return found


def designate(build: Build, node: ast.Expr, ctx: Ctx) -> Place | Typed:
    """The storage that an expression names, or its value where it names none."""
    handler = _HANDLERS.get(type(node))
    if handler is None:
        return expr.value(build, node, ctx)
    if build.depth >= MAX_DEPTH:
        build.note("nesting too deep to follow", node.span)
        return unknown("nesting too deep to follow")
    build.depth += 1
    try:
        found = handler(build, node, ctx)
    finally:
        build.depth -= 1
    if isinstance(found, MemPlace) and not found.volatile and _is_volatile(node, ctx):
        return found._replace(volatile=True)
    return found


def _name(build: Build, node: ast.Name, ctx: Ctx) -> Place | Typed:
    found = lookup.named_place(build, node.id, ctx)
    return found if found is not None else expr.value(build, node, ctx)


def _index(build: Build, node: ast.Index, ctx: Ctx) -> Place | Typed:
    if isinstance(node.base, ast.Name):
        binding = ctx.scope.find(node.base.id, ctx.at)
        if isinstance(binding, Closure):  # an object whose index calls a function (`parameters.INDEX_CALLS`)
            return inline.closure(build, binding.node, binding.ctx, (node.index,), node.span, ctx.into(None))
    base = designate(build, node.base, ctx)
    if isinstance(base, Typed):
        inner = None if base.type.pointer or is_address(base.expr) else base.place
        pointer = base
    else:
        inner = base
        pointer = None
    if inner is not None and (inner.type.dims or not inner.type.pointer):
        if not inner.type.dims:
            own = methods.subscript_operator(build, places.load(build, inner), node.index, ctx)
            if own is not None:
                return own if own.place is None or own.type.pointer else own.place
        position = expr.value(build, node.index, ctx).expr
        found = places.index(build, inner, position) if inner.type.dims else places.component(build, inner, position)
        return found if found is not None else unknown("an element of an object")
    position = expr.value(build, node.index, ctx).expr
    if pointer is None and inner is not None:
        pointer = places.load(build, inner)
    if pointer is None or not (pointer.type.pointer or is_address(pointer.expr)):
        return unknown("an element of something unknown")
    return places.subscript(build, pointer, position)


def _member(build: Build, node: ast.Member, ctx: Ctx) -> Place | Typed:
    base = designate(build, node.base, ctx)
    if node.arrow:
        pointer = base if isinstance(base, Typed) else places.load(build, base)
        if pointer.place is not None and not pointer.type.pointer:  # a class with `operator->`
            return unknown(f"member `{node.name}`")
        return places.member(build, places.deref(build, pointer), node.name)
    if isinstance(base, Typed):
        if base.place is not None and not base.type.pointer:
            return places.member(build, base.place, node.name)
        record = base.type.name
        static = lookup.static_member(build, record, node.name, CType(record)) if record in build.unit.records else None
        return static if static is not None else unknown(f"member `{node.name}`")
    return places.member(build, base, node.name)


def _unary(build: Build, node: ast.Unary, ctx: Ctx) -> Place | Typed:
    if node.op != "*":
        return expr.value(build, node, ctx)
    return places.deref(build, expr.value(build, node.arg, ctx))


def _cast(build: Build, node: ast.Cast, ctx: Ctx) -> Place | Typed:
    if not node.type.reference:
        return expr.value(build, node, ctx)
    inner = designate(build, node.arg, ctx)
    if isinstance(inner, Typed):
        return convert(inner, ctype(build, node.type, ctx))
    pointer = convert(places.address(build, inner), ctype(build, node.type, ctx).address_of())
    return places.deref(build, pointer)


def _changed(build: Build, node: ast.Assign | ast.Update, ctx: Ctx) -> Place | Typed:
    result = expr.value(build, node, ctx)
    if isinstance(node, ast.Update) and not node.prefix:
        return result
    target = node.target if isinstance(node, ast.Assign) else node.arg
    found = lookup.named_place(build, target.id, ctx) if isinstance(target, ast.Name) else None
    return found if found is not None else result


def _cond(build: Build, node: ast.Cond, ctx: Ctx) -> Place | Typed:
    known = expr.constant(build, node.test, ctx)
    if known is None:
        return expr.value(build, node, ctx)
    return designate(build, node.yes if known else node.no, ctx)


def _is_volatile(node: ast.Expr, ctx: Ctx) -> bool:
    """The storage is reached through a volatile pointer or array, as far as the expression itself shows."""
    for _ in range(16):
        match node:
            case ast.Name(id=name):
                binding = ctx.scope.find(name, ctx.at)
                return isinstance(binding, Local) and binding.root.volatile
            case ast.Cast(type=type_):
                return "volatile" in type_.qualifiers
            case ast.Index(base=inner) | ast.Unary(arg=inner) | ast.Member(base=inner) | ast.Binary(left=inner):
                node = inner
            case _:
                return False
    return False


_HANDLERS = {
    ast.Name: _name,
    ast.Index: _index,
    ast.Member: _member,
    ast.Unary: _unary,
    ast.Cast: _cast,
    ast.Assign: _changed,
    ast.Update: _changed,
    ast.Cond: _cond,
}

__all__ = ["LocalPlace", "designate", "place"]
