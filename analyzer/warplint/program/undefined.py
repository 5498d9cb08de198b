"""Calls of what is neither defined in the file nor in a table."""

from __future__ import annotations

from warplint.program import aggregates, calls, designators, expr, ir, places
from warplint.program.ctypes import SIZES, UNKNOWN
from warplint.program.scope import Ctx, Local, MemPlace, Typed
from warplint.program.typetable import layout
from warplint.program.unit import Build
from warplint.source import Span
from warplint.syntax import ast

_PLAIN_METHODS = frozenset({"fill", "clear", "data", "size", "begin", "end", "get"})
"""Methods of containers and fragments: they touch the object's own data."""


def unknown_callee(build: Build, name: str, node: ast.Call, ctx: Ctx, base: ast.Expr | None = None) -> Typed:
    """A call of something that is neither defined here nor in a table.

    It may synchronise when it is handed shared memory, an object of a class that nobody knows, or nothing that it could
    have an effect on: then the kernel is incomplete. Locals whose address it gets may change.
    """
    alone = build.statement is node
    values = [expr.value(build, arg, ctx) for arg in node.args]
    if base is not None:
        found = designators.place(build, base, ctx)
        values.append(places.address(build, found) if found is not None else expr.value(build, base, ctx.into(None)))
    if ctx.out is not None:
        site = ctx.frame.outer or node.span
        calls.before_write(build, ctx)
        shared = [*_invalidated(build, name, values, site, ctx), *_taken(build, name, node, values, alone, site, ctx)]
        if shared:
            reason = f"`{name}` takes a shared-memory pointer and is not defined in this file"
            ctx.out.append(ir.Opaque(site, reason, tuple(dict.fromkeys(shared)), name))
        elif alone and (_may_synchronise(build, name, values) or (base is not None and _of_unknown(name, values[-1]))):
            ctx.out.append(ir.Opaque(site, f"`{name}` is not defined in this file and may synchronise", what=name))
    return Typed(ir.Pure(name, tuple(item.expr for item in values), False), UNKNOWN)


def _invalidated(build: Build, name: str, values: list[Typed], site: Span, ctx: Ctx) -> list[ir.Symbol]:
    """Makes the locals behind pointer arguments unknown; the shared variables behind them."""
    found: list[ir.Symbol] = []
    for item in values:
        if item.place is not None and not isinstance(item.place, MemPlace) and item.type.pointer:
            aggregates.invalidate(build, ctx, item.place, site, f"may be written by `{name}`")
        symbol = points_to(build, item.expr)
        if symbol is not None and symbol.kind in ("shared", "dynamic_shared"):
            found.append(symbol)
    return found


def _taken(
    build: Build, name: str, node: ast.Call, values: list[Typed], alone: bool, site: Span, ctx: Ctx
) -> list[ir.Symbol]:
    """What the call may take by reference: locals become unknown; the shared objects among the arguments."""
    found: list[ir.Symbol] = []
    for arg, item in zip(node.args, values, strict=False):
        if isinstance(arg, (ast.Name, ast.Index, ast.Member)) and (alone or not item.type.scalar):
            taken = designators.place(build, arg, ctx.into(None))
            symbol = points_to(build, taken.pointer) if isinstance(taken, MemPlace) else None
            if symbol is not None and symbol.kind in ("shared", "dynamic_shared"):
                found.append(symbol)
        binding = ctx.scope.find(arg.id, ctx.at) if isinstance(arg, ast.Name) else None
        if isinstance(binding, Local) and not binding.constant:
            root = binding.root
            if root.plain and root.kind == "local":
                aggregates.invalidate(build, ctx, places.whole(root), site, f"may be written by `{name}`")
    return found


def _of_unknown(name: str, held: Typed) -> bool:
    """A method of an object of which nothing is known, called for its effect: `make_pipeline(n).wait()`."""
    return held.type.name == UNKNOWN.name and name.rpartition("::")[2] not in _PLAIN_METHODS


def _may_synchronise(build: Build, name: str, values: list[Typed]) -> bool:
    """A call whose value nobody uses has its effect on something: on what it is given, or on the other threads."""
    if name.rpartition("::")[2] in _PLAIN_METHODS:
        return False
    for item in values:
        type_ = item.type._replace(pointer=0, dims=())
        if type_.name not in SIZES and type_.name not in ("?", "void") and layout(build, type_) is None:
            return True  # an object of a class that is not defined here
    return not any(item.type.pointer or item.place is not None for item in values)


def points_to(build: Build, pointer: ir.Expr) -> ir.Symbol | None:
    """The variable that an address leads into, through the pointers that were initialised with it."""
    for _ in range(32):
        match pointer:
            case ir.Address(symbol=symbol):
                return symbol
            case ir.Var(symbol=symbol):
                found = build.initial.get(symbol)
                if found is None:
                    return symbol if symbol.kind != "local" else None
                pointer = found.expr
            case ir.Binary(left=left, right=right):
                pointer = right if isinstance(left, ir.Const) else left
            case ir.Cast(arg=arg):
                pointer = arg
            case ir.Select(yes=yes):
                pointer = yes
            case _:
                return None
    return None
