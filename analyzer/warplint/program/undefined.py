"""Calls of what is neither defined in the file nor in a table."""

from __future__ import annotations

from warplint.program import aggregates, calls, expr, ir, places
from warplint.program.ctypes import (
    UNKNOWN,
)
from warplint.program.scope import (
    Ctx,
    Local,
    MemPlace,
    Typed,
)
from warplint.program.unit import Build
from warplint.syntax import ast


def unknown_callee(build: Build, name: str, node: ast.Call, ctx: Ctx, base: ast.Expr | None = None) -> Typed:
    """A call of something that is neither defined here nor in a table.

    It may synchronise when it is handed shared memory, or when it has nothing else to have an effect on: then the
    kernel is incomplete. Locals whose address it gets may change.
    """
    alone = build.statement is node
    values = [expr.value(build, arg, ctx) for arg in node.args]
    objects = any(item.type.pointer or item.place is not None for item in values)
    if base is not None:
        found = expr.place(build, base, ctx)
        values.append(places.address(build, found) if found is not None else expr.value(build, base, ctx.into(None)))
    if ctx.out is not None:
        site = ctx.frame.outer or node.span
        calls.before_write(build, ctx)
        written: list[ir.Symbol] = []
        for item in values:
            if item.place is not None and not isinstance(item.place, MemPlace) and item.type.pointer:
                aggregates.invalidate(build, ctx, item.place, site, f"may be written by `{name}`")
            symbol = points_to(build, item.expr)
            if symbol is not None and symbol.kind in ("shared", "dynamic_shared"):
                written.append(symbol)
        for arg, item in zip(node.args, values, strict=False):
            if isinstance(arg, (ast.Name, ast.Index, ast.Member)) and (alone or not item.type.scalar):
                taken = expr.place(build, arg, ctx.into(None))  # an object in shared memory, by reference
                symbol = points_to(build, taken.pointer) if isinstance(taken, MemPlace) else None
                if symbol is not None and symbol.kind in ("shared", "dynamic_shared"):
                    written.append(symbol)
            if isinstance(arg, ast.Name):  # it may take a reference
                binding = ctx.scope.find(arg.id, ctx.at)
                if (
                    isinstance(binding, Local)
                    and binding.root.plain
                    and binding.root.kind == "local"
                    and not binding.constant
                ):
                    aggregates.invalidate(build, ctx, places.whole(binding.root), site, f"may be written by `{name}`")
        if written:
            reason = f"`{name}` takes a shared-memory pointer and is not defined in this file"
            ctx.out.append(ir.Opaque(site, reason, tuple(dict.fromkeys(written))))
        elif alone and not objects:
            ctx.out.append(ir.Opaque(site, f"`{name}` is not defined in this file and may synchronise"))
    return Typed(ir.Pure(name, tuple(item.expr for item in values), False), UNKNOWN)


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
