"""Inline assembly and operations: from what the dialects say to `ir.Operation` statements and results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from warplint.dialects import asm as asm_dialect
from warplint.program import aggregates, designators, expr, ir, lookup, places
from warplint.program.arith import convert, unknown
from warplint.program.ctypes import BOOL, UNKNOWN, VOID, CType, component_name, vector
from warplint.program.scope import ZERO, Ctx, LocalPlace, Scope, Typed, Value, ready
from warplint.program.unit import Build
from warplint.source import Span
from warplint.syntax import ast

MANY_OUTPUTS = 8
"""Assembly with more outputs writes data: one assignment for each variable, at an unknown index, is enough."""


class Operands(Mapping[str, ir.Expr]):
    """Operands by role, each resolved when first asked for."""

    __slots__ = ("_build", "_ctx", "_done", "_trees")

    def __init__(self, build: Build, ctx: Ctx, trees: Mapping[str, ast.Expr]) -> None:
        self._build = build
        self._ctx = ctx
        self._trees = trees
        self._done: dict[str, ir.Expr] = {}

    def __getitem__(self, role: str) -> ir.Expr:
        found = self._done.get(role)
        if found is None:
            tree = self._trees[role]
            build = self._build
            depth, build.depth = build.depth, 0
            try:
                found = expr.value(build, tree, self._ctx).expr
            except RecursionError:
                found = ir.Unknown("nesting too deep to follow")
            finally:
                build.depth = depth
            self._done[role] = found
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._trees)

    def __len__(self) -> int:
        return len(self._trees)

    def __contains__(self, role: object) -> bool:
        return role in self._trees


def assembly(build: Build, node: ast.Asm, ctx: Ctx) -> Typed:
    """An inline assembly statement: its operations, then the assignments to its outputs."""
    result = asm_dialect.classify(node)
    here = ctx.frame.outer or node.span
    made: list[ir.Operation | Typed | None] = []
    inner = Ctx(ctx.scope, ctx.frame, None, build.clock, made)
    for op in result.ops:
        made.append(operation(build, op, node.span, ctx, inner, op.mnemonic))
    if ctx.out is not None:
        for what in result.unknown:
            reason = f"inline assembly with `{what}`, which is not understood"
            ctx.out.append(ir.Opaque(here, reason, what=what, is_asm=True))
        if (result.exits or result.traps) and not any(op.name == "thread.exit" for op in result.ops):
            ctx.out.append(ir.Exit(here, result.traps and not result.exits))
    outputs(build, node, result, ctx, inner)
    return Typed(ZERO, VOID)


def operation(
    build: Build, op: asm_dialect.AsmOp, span: Span, ctx: Ctx, inner: Ctx, spelling: str, by_name: bool = False
) -> ir.Operation | Typed | None:
    """Emits one operation; what its results are read from (a plain load gives its value, None stands for no result).

    `inner` is where its operands are resolved. Plain loads and stores are ordinary accesses, exits leave the kernel.
    """
    local = "cta" not in op.operands  # an access to another CTA's shared memory stays an operation
    if op.name == "ld" and op.predicate is None and "src" in op.operands and local:
        return PlainLoad(lambda: expr.value(build, op.operands["src"], inner).expr, op)  # type: ignore[return-value]
    if ctx.out is None:
        return None
    predicate: ir.Expr | None = None
    if op.predicate is not None:
        predicate = expr.value(build, op.predicate, inner).expr
        if isinstance(predicate, ir.Const):
            if not predicate.value:
                return None
            predicate = None
    frame = ctx.frame
    site = frame.outer or span
    if op.name == "thread.exit":
        guarded(ctx, site, predicate, ir.Exit(site, bool(op.mods.get("trap"))), spelling)
        return None
    if op.name == "st" and "dst" in op.operands and local:
        trees = op.operands
        width = trees.get("bytes")
        pointer = expr.deferred(build, trees["dst"], inner)
        value = expr.deferred(build, trees["value"], inner) if "value" in trees else ready(ir.Unknown("stored data"))
        words = tuple(expr.deferred(build, tree, inner) for tree in stored_words(op))
        bytes_ = width.value if isinstance(width, ast.Num) else None
        stmt = ir.Store(site, pointer, value, bytes_, space=space(op), words=words)
        guarded(ctx, site, predicate, stmt, spelling)
        return None
    made = ir.Operation(
        name=op.name,
        span=site,
        operands=Operands(build, inner.later(build.clock), op.operands),
        mods=op.mods,
        spelling=frame.spelling or spelling,
        predicate=predicate,
        chain=frame.chain,
        inner=span if frame.outer is not None and not frame.foreign else None,
        by_name=by_name,
    )
    ctx.out.append(ir.Do(site, made))
    return made


def space(op: asm_dialect.AsmOp) -> str:
    """The state space that a plain store names: `shared`, `global`, or empty."""
    written = str(op.mods.get("space", ""))
    return written if written == "global" else "shared" if written.startswith("shared") else ""


def guarded(ctx: Ctx, site: Span, predicate: ir.Expr | None, stmt: ir.Stmt, text: str) -> None:
    """A statement under the predicate of its instruction."""
    if ctx.out is None:
        return
    if predicate is None:
        ctx.out.append(stmt)
    else:
        ctx.out.append(
            ir.If(site, ready(predicate), ir.Seq(site, (stmt,)), ir.Seq(site, ()), f"predicate of {text}", site)
        )


def stored_words(op: asm_dialect.AsmOp) -> list[ast.Expr]:
    """The values of a vector store, lowest address first; empty for any other."""
    return [tree for role, tree in op.operands.items() if role.startswith("value.")]


class PlainLoad:
    """The results of a plain load: `result_of` asks for them when a value is needed."""

    __slots__ = ("each", "pointer")

    def __init__(self, pointer: Callable[[], ir.Expr], op: asm_dialect.AsmOp) -> None:
        self.pointer = pointer
        total = op.operands.get("bytes")
        parts = op.mnemonic.split(".")
        count = next((int(part[1:]) for part in parts if part[:1] == "v" and part[1:].isdigit()), 1)
        self.each = (total.value or 0) // count if isinstance(total, ast.Num) else 0
        """Bytes of one result; 0 when that is not known."""

    def typed(self, output: str) -> Typed:
        """One result as an expression: the elements of a vector lie one behind the other (PTX ISA 6.4.2.2)."""
        pointer = self.pointer()
        number = output.partition(".")[2]
        if number.isdigit() and self.each:
            pointer = ir.Binary("+", pointer, ir.Const(int(number) * self.each))
        return Typed(ir.Load(pointer, WORDS.get(self.each, "other")), UNKNOWN)


WORDS = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}
"""Types of the results of a plain load by their size; where it goes tells the sign."""


def result_of(made: ir.Operation | Typed | None, output: str, type_: CType) -> Typed:
    """What an operation delivers under a name."""
    if made is None:
        return unknown("the result of an instruction")
    if isinstance(made, Typed):
        return made
    if not isinstance(made, ir.Operation):
        return made.typed(output)
    return Typed(ir.OpValue(made, output), type_)


def outputs(build: Build, node: ast.Asm, result: asm_dialect.AsmResult, ctx: Ctx, inner: Ctx) -> None:
    """The assignments that an assembly statement makes to its output operands."""
    site = ctx.frame.outer or node.span
    if len(node.outputs) > MANY_OUTPUTS:
        _many_outputs(build, node, ctx, site)
        return
    targets = [operand.value for operand in node.outputs]
    for i, target in enumerate(targets):
        tree = result.outputs.get(i)
        if tree is target:
            continue  # `"+r"(x)` that nothing writes
        later = Ctx(inner.scope, inner.frame, None, inner.at, inner.ops)

        def make(tree: ast.Expr | None = tree, later: Ctx = later) -> Typed:
            return computed(build, node, result, later) if tree is None else expr.value(build, tree, later)

        receive(build, target, make, site, ctx)


def computed(build: Build, node: ast.Asm, result: asm_dialect.AsmResult, ctx: Ctx) -> Typed:
    """An output that is not followed: where the assembly only computes, a value of its inputs alone."""
    if result.ops or result.unknown or len(node.inputs) > MANY_OUTPUTS:
        return unknown("a result of inline assembly")
    kept = [operand.value for operand in node.outputs if operand.constraint[:1] == "+"]
    args = tuple(expr.value(build, tree, ctx).expr for tree in [*kept, *(operand.value for operand in node.inputs)])
    name = (node.template or "asm").strip(" {\n\t").partition(" ")[0].rstrip(";")
    return Typed(ir.Pure(name, args, True), UNKNOWN)


def receive(build: Build, target: ast.Expr, make: Callable[[], Typed], site: Span, ctx: Ctx) -> None:
    """`target = make()`, the value resolved on first use."""
    if isinstance(target, ast.Name):
        binding = ctx.scope.find(target.id, ctx.at)
        if isinstance(binding, Value) and binding.stored:
            type_ = lookup.force(binding).type
            fresh = Value(lambda: convert(make(), type_), stored=True)
            ctx.scope.declare(target.id, fresh, build.tick())
            return
    if ctx.out is None:
        return
    found = designators.place(build, target, ctx)
    if found is None:
        ctx.out.append(ir.Opaque(site, "inline assembly writes to something that could not be resolved"))
        return
    before_write(build, ctx)
    if not found.type.scalar and found.type != UNKNOWN:
        parts = vector(found.type.name) if build.unit.is_amd else None
        if parts is None or parts[1] < 2:
            aggregates.invalidate(build, ctx, found, site, "a result of inline assembly")
            return
        for number in range(parts[1]):  # each component is what the instruction brought, and not there before it ended
            component = places.member(build, found, component_name(number))
            item = ir.Const(number)
            brought = ir.Deferred(lambda item=item: ir.Pure("component", (make().expr, item), True))
            places.write(build, ctx, component, brought, site)
        return
    type_ = found.type
    places.write(build, ctx, found, ir.Deferred(lambda: convert(make(), type_).expr), site)


def _many_outputs(build: Build, node: ast.Asm, ctx: Ctx, site: Span) -> None:
    if ctx.out is None:
        return
    before_write(build, ctx)
    seen: set[int] = set()
    for operand in node.outputs:
        found = designators.place(build, operand.value, ctx)
        if isinstance(found, LocalPlace):
            symbol = places.leaf(build, found)
            if id(symbol) in seen:
                continue
            seen.add(id(symbol))
            where = ready(ir.Unknown("one of many elements")) if symbol.dims else None
            ctx.out.append(ir.Assign(site, symbol, where, ready(ir.Unknown("a result of inline assembly"))))
        elif found is not None:
            places.write(build, ctx, found, ready(ir.Unknown("a result of inline assembly")), site)


def before_write(build: Build, ctx: Ctx) -> None:
    """Called before a straight-line helper writes to its caller's variables.

    Its own names stand for expressions over them, resolved late: what later statements may still read is fixed now.
    """
    frame = ctx.frame
    if not frame.straight or frame.remaining == 0 or ctx.out is None:
        return
    scope: Scope | None = ctx.scope
    fixed: set[str] = set()
    while scope is not None and scope is not frame.base:
        for name, (_, binding, _older) in list(scope.names.items()):
            if name in fixed:
                continue
            fixed.add(name)
            if isinstance(binding, Value) and not binding.busy:
                held = lookup.force(binding)
                if held.type.scalar and not places.stable(held.expr):
                    kept = places.temporary(build, ctx, held, frame.outer or Span(0, 0), name)
                    scope.declare(name, Value(lambda kept=kept: kept, kept, stored=binding.stored), build.tick())
        scope = scope.parent


__all__ = ["BOOL", "Operands", "assembly", "before_write", "receive", "result_of"]
