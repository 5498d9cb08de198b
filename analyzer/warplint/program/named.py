"""Calls recognised by name: the dialect tables, and the group objects of cooperative groups."""

from __future__ import annotations

from msgspec.structs import replace

from warplint.dialects import names as name_tables
from warplint.dialects.asm import AsmOp
from warplint.program import aggregates, asmops, calls, designators, expr, ir
from warplint.program.arith import unknown
from warplint.program.ctypes import UNKNOWN, VOID
from warplint.program.scope import ZERO, Ctx, Typed
from warplint.program.spaces import Spaces
from warplint.program.unit import Build, Options, Unit
from warplint.source import Span
from warplint.syntax import ast

GROUPS = frozenset(
    {"this_thread_block", "this_grid", "this_cluster", "tiled_partition", "coalesced_threads", "thread_block"}
)
"""Functions of cooperative_groups that give a group object; its methods are read where they are called."""


def tables(unit: Unit) -> tuple[str, ...]:
    """The dialect tables in the order in which this file's names are looked up."""
    return in_order(unit.options, unit.is_amd)


def in_order(options: Options, is_amd: bool) -> tuple[str, ...]:
    """`tables`, from the options of a file and its compiler."""
    own = name_tables.AMD + name_tables.NVIDIA if is_amd else name_tables.NVIDIA + name_tables.AMD
    if not options.packs:
        return own
    other = "nvidia" if is_amd else "amd"
    return (*(table for table, target in options.packs if target != other), *own)


def find(unit: Unit, name: str, arity: int | None = None) -> name_tables.NameRow | None:
    """The row for a name that the file does not define, namespaces that it leaves out added."""
    known = tables(unit)
    row = name_tables.lookup(name, known, arity)
    if row is not None or name[0] == ":":
        return row
    owner, colons, last = name.rpartition("::")
    alias = unit.aliases.get(owner) if colons else None
    if alias is not None and alias.name != owner and not alias.pointer:  # `using Full = ...; Full::init(...)`
        return find(unit, f"{alias.name}::{last}", arity) if alias.name.rpartition("::")[0] != owner else None
    spaces = unit.spaces
    if spaces is None:
        spaces = unit.spaces = Spaces(unit.source.data)
    if spaces.used or spaces.declared or spaces.aliases:
        for meaning in spaces.meanings(name):
            row = name_tables.lookup(meaning, known, arity)
            if row is not None:
                return row
    return None


def call(
    build: Build,
    name: str,
    row: name_tables.NameRow,
    args: tuple[ast.Expr, ...],
    targs: tuple[ast.Expr, ...],
    span: Span,
    ctx: Ctx,
) -> Typed:
    """A call of a function that the tables know: its operations, outputs and result."""
    if row.code is not None:
        return calls.expanded(build, name, row.code, args, targs, span, ctx)
    made: list[ir.Operation | Typed | None] = []
    bound = name_tables.bind(row, args, targs, span)
    if ctx.out is not None:
        for arg in args:
            if build.unit.touches(arg.span) and not isinstance(arg, ast.Name) and not ctx.frame.foreign:
                args = tuple(_fixed(build, item, ctx) for item in args)
                bound = name_tables.bind(row, args, targs, span)
                break
    inner = Ctx(ctx.scope, ctx.frame, None, build.clock, made)
    site = ctx.frame.outer or span
    for op in bound.ops:
        if op.name == "amd.tensor_lds" and len(args) > 1:
            op = _with_tile(op, args)
        made.append(asmops.operation(build, op, span, ctx, inner, name, by_name=True))
    for position, tree in bound.outputs.items():
        if position < len(args):
            target = _through(args[position], ctx, build)
            asmops.receive(build, target, lambda tree=tree: expr.value(build, tree, inner), site, ctx)
    for position in bound.writes:
        if ctx.out is not None and position < len(args):
            found = designators.place(build, _through(args[position], ctx, build), ctx)
            if found is not None:
                aggregates.invalidate(build, ctx, found, site, f"written by `{name}`")
    if bound.result is None:
        return Typed(ZERO, VOID) if not row.result else unknown(f"the result of `{name}`")
    return expr.value(build, bound.result, inner)


def _with_tile(op: AsmOp, args: tuple[ast.Expr, ...]) -> AsmOp:
    """A tensor copy of gfx1250 with what its descriptor says: the LDS address, and the words that hold the tile's size.

    Word 1 of the first group is the LDS address; words 0, 3 and 4 of the second hold the size of an element (as a power
    of two, bits 16 and 17), padding (bit 20) and the extents of the tile (Triton 3.6, TDMUtility.cpp).
    """
    words = {"dst": (0, 1), "head": (1, 0), "row": (1, 3), "rows": (1, 4)}
    found = {role: ast.Index(args[g].span, args[g], ast.Num(args[g].span, w)) for role, (g, w) in words.items()}
    return replace(op, operands={**op.operands, **found})


def _through(arg: ast.Expr, ctx: Ctx, build: Build) -> ast.Expr:
    """An output argument: `&x` and a pointer mean what they point to."""
    if isinstance(arg, ast.Unary) and arg.op == "&":
        return arg.arg
    if expr.type_of(build, arg, ctx).pointer:
        return ast.Unary(arg.span, "*", arg)
    return arg


class Held(ast.Expr, frozen=True):
    """An argument whose effects have been emitted: what stands for its value from then on."""

    typed: Typed


def _fixed(build: Build, arg: ast.Expr, ctx: Ctx) -> ast.Expr:
    if (isinstance(arg, ast.Unary) and arg.op == "&") or not build.unit.touches(arg.span):
        return arg
    return Held(arg.span, expr.value(build, arg, ctx))


def held(build: Build, node: Held, ctx: Ctx) -> Typed:
    """The value of an argument that was evaluated before the call."""
    return node.typed


__all__ = ["GROUPS", "UNKNOWN", "Held", "call", "find", "held", "tables"]
