"""The quick way through generated helpers: one inline assembly, its operands named by parameters.

Nearly every call of a generated kernel is such a helper, and most only move data. The helper is read once; a call then
makes its operations, stores and assignments without building the call's arguments: an argument is parsed when somebody
asks for the operand or value that it stands for. Only the names of variables that are written are read from the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from warplint.dialects import asm as asm_dialect
from warplint.program import asmops, calltext, designators, effects, expr, ir, parameters, places
from warplint.program.arith import convert, unknown
from warplint.program.asmops import MANY_OUTPUTS, guarded
from warplint.program.ctypes import UNKNOWN, CType
from warplint.program.scope import Ctx, Frame, Local, Scope, Typed, Value, ready
from warplint.program.typetable import ctype
from warplint.program.unit import Build, Unit
from warplint.source import Span
from warplint.syntax import ast, parse_expression

LONG_CALL = 300
"""Calls longer than this (bytes) are not parsed as a whole to get at one argument."""


class Template(Struct, frozen=True, eq=False):
    """A helper that is one inline assembly statement."""

    fn: ast.Function
    node: ast.Asm
    result: asm_dialect.AsmResult
    locals: tuple[ast.Decl, ...]
    """Declarations before the assembly (converted addresses, constants)."""
    outputs: tuple[tuple[int, int], ...]
    """(assembly output, parameter) for every output; all are reference parameters."""
    last: int
    """The highest parameter that is an output, -1 when there is none."""


def of(unit: Unit, head: str) -> Template | None:
    """The template of the helper called `head`, None when it is no such helper."""
    known = unit.templates.get(head, unit)
    if known is not unit:
        return known  # type: ignore[return-value]
    functions = unit.functions.get(head)
    made = None
    if functions is not None and len(functions) == 1 and head not in unit.macros:
        made = _read(unit, functions[0])
    unit.templates[head] = made
    return made


def _read(unit: Unit, fn: ast.Function) -> Template | None:
    if fn.record in unit.records or fn.template or effects.summary(unit, fn).effect == effects.NONE:
        return None
    if fn.span.end - fn.span.start > 60_000 or not effects.summary(unit, fn).straight:
        return None
    items = fn.body().body
    while len(items) == 1 and isinstance(items[0], ast.Block):
        items = items[0].body
    if not items or not isinstance(items[-1], ast.ExprStmt) or not isinstance(items[-1].value.expr, ast.Asm):
        return None
    declarations = [item for item in items[:-1] if isinstance(item, ast.Decl)]
    if len(declarations) != len(items) - 1:
        return None
    start, end = fn.span.start, items[-1].span.start
    if declarations and unit.touches(Span(declarations[0].span.start, end)):
        return None
    if any("__shared__" in item.type.qualifiers for declared in declarations for item in declared.items):
        return None
    if any(item.type.reference for declared in declarations for item in declared.items):
        return None
    node = items[-1].value.expr
    assert isinstance(node, ast.Asm)
    result = asm_dialect.classify(node)
    if result.unknown or result.exits or result.traps or any(op.name == "thread.exit" for op in result.ops):
        return None
    params = {param.name: i for i, param in enumerate(fn.params)}
    outputs: list[tuple[int, int]] = []
    for i, operand in enumerate(node.outputs):
        target = operand.value
        index = params.get(target.id) if isinstance(target, ast.Name) else None
        if index is None or not fn.params[index].type.reference:
            return None
        outputs.append((i, index))
    del start
    return Template(
        fn, node, result, tuple(declarations), tuple(outputs), max((item for _, item in outputs), default=-1)
    )


class Call:
    """One call of a template: its arguments by text, and the helper's scope when somebody needs it."""

    __slots__ = ("_inner", "_parts", "build", "clock", "ctx", "lazy", "ops", "template")

    def __init__(self, build: Build, template: Template, lazy: ast.Lazy, ctx: Ctx) -> None:
        self.build = build
        self.template = template
        self.lazy = lazy
        self.ctx = ctx
        self.clock = build.clock
        self._parts: list[Span] | None = None
        self._inner: Ctx | None = None
        self.ops: list[ir.Operation | Typed | None] = []

    def parts(self) -> list[Span]:
        """The spans of the arguments."""
        if self._parts is None:
            self._parts = calltext.split(self.build.unit.source.data, self.lazy.span)
        return self._parts

    def argument(self, i: int) -> ast.Expr | None:
        """Argument `i` as a tree; a long call is not built for it."""
        if self.lazy.built is None and self.lazy.span.end - self.lazy.span.start > LONG_CALL:
            parts = self.parts()
            if i >= len(parts):
                return None
            text = self.build.unit.source.text(parts[i])
            return parse_expression(text, parts[i])
        tree = self.lazy.expr
        if isinstance(tree, ast.Call) and i < len(tree.args):
            return tree.args[i]
        return None

    def inner(self) -> Ctx:
        """The helper's scope, parameters bound to the arguments."""
        if self._inner is None:
            build, fn = self.build, self.template.fn
            scope = Scope(build.unit.scope)
            outside = self.ctx.later(self.clock)
            inner = Ctx(scope, Frame(fn.name), None, ops=self.ops)
            for i, param in enumerate(fn.params):
                if param.name:
                    scope.declare(param.name, Value(lambda i=i: self._value(i, outside)))
            for declaration in self.template.locals:
                for declared in declaration.items:
                    parameters.local_value(build, declared, inner)
            self._inner = inner.later(build.clock)
        return self._inner

    def _value(self, i: int, outside: Ctx) -> Typed:
        tree = self.argument(i)
        if tree is None:
            return unknown("a missing argument")
        held = expr.value(self.build, tree, outside)
        param = self.template.fn.params[i]
        type_ = ctype(self.build, param.type, outside)
        return held if param.type.reference or type_ == UNKNOWN else convert(held, type_)

    def resolve(self, tree: ast.Expr) -> Typed:
        """A tree of the helper, over its parameters."""
        build = self.build
        depth, build.depth = build.depth, 0
        try:
            return expr.value(build, tree, self.inner())
        except RecursionError:
            return unknown("nesting too deep to follow")
        finally:
            build.depth = depth

    def output(self, tree: ast.Expr | None) -> Typed:
        """What an output of the assembly receives; None stands for a computation that is not followed."""
        if tree is not None:
            return self.resolve(tree)
        template = self.template
        return asmops.computed(self.build, template.node, template.result, self.inner())


class CallOperands(Mapping[str, ir.Expr]):
    """Operands of an operation of a template call, resolved one by one when asked for."""

    __slots__ = ("_call", "_done", "_trees")

    def __init__(self, call: Call, trees: Mapping[str, ast.Expr]) -> None:
        self._call = call
        self._trees = trees
        self._done: dict[str, ir.Expr] = {}

    def __getitem__(self, role: str) -> ir.Expr:
        found = self._done.get(role)
        if found is None:
            tree = self._trees[role]
            found = self._done[role] = (
                ir.Const(tree.value)
                if isinstance(tree, ast.Num) and tree.value is not None
                else self._call.resolve(tree).expr
            )
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._trees)

    def __len__(self) -> int:
        return len(self._trees)

    def __contains__(self, role: object) -> bool:
        return role in self._trees


def emit(build: Build, template: Template, lazy: ast.Lazy, ctx: Ctx) -> bool:
    """Lowers a call statement by its template. False when something in it needs the general way."""
    out = ctx.out
    assert out is not None
    call = Call(build, template, lazy, ctx)
    frame = ctx.frame
    site = frame.outer or lazy.span
    targets = _targets(build, template, call, ctx)
    if targets is None:
        return False
    chain = (*frame.chain, lazy.span)
    spelling = frame.spelling or template.fn.name
    for op in template.result.ops:
        call.ops.append(_operation(call, op, template, out, site, chain, spelling))
    results = template.result.outputs
    seen: set[int] = set()
    many = len(template.outputs) > MANY_OUTPUTS
    for (i, _), (symbol, index) in zip(template.outputs, targets, strict=True):
        if many:
            if id(symbol) in seen:
                continue
            seen.add(id(symbol))
            where = ready(ir.Unknown("one of many elements")) if symbol.dims else None
            out.append(ir.Assign(site, symbol, where, ready(ir.Unknown("a result of inline assembly"))))
            continue
        tree = results.get(i)
        value = ir.Deferred(_Result(call, tree, symbol))
        out.append(ir.Assign(site, symbol, index, value))
    return True


class _Result:
    """The value of one output, resolved when called."""

    __slots__ = ("call", "symbol", "tree")

    def __init__(self, call: Call, tree: ast.Expr | None, symbol: ir.Symbol) -> None:
        self.call = call
        self.tree = tree
        self.symbol = symbol

    def __call__(self) -> ir.Expr:
        type_ = CType(self.symbol.type, self.symbol.pointer)
        return convert(self.call.output(self.tree), type_ if type_.scalar else UNKNOWN).expr


class _Operand:
    """An address or value of a plain store or load, resolved when called."""

    __slots__ = ("call", "tree")

    def __init__(self, call: Call, tree: ast.Expr) -> None:
        self.call = call
        self.tree = tree

    def __call__(self) -> ir.Expr:
        return self.call.resolve(self.tree).expr


def _operation(
    call: Call,
    op: asm_dialect.AsmOp,
    template: Template,
    out: list[ir.Stmt],
    site: Span,
    chain: tuple[Span, ...],
    spelling: str,
) -> ir.Operation | Typed | None:
    predicate: ir.Expr | None = None
    if op.predicate is not None:
        predicate = call.resolve(op.predicate).expr
        if isinstance(predicate, ir.Const):
            if not predicate.value:
                return None
            predicate = None
    elif op.name == "ld" and "cta" not in op.operands:
        source = op.operands.get("src")
        if source is not None:
            return asmops.PlainLoad(_Operand(call, source), op)  # type: ignore[return-value]
    if op.name == "st" and "dst" in op.operands and "cta" not in op.operands:
        trees = op.operands
        width = trees.get("bytes")
        value = ir.Deferred(_Operand(call, trees["value"])) if "value" in trees else ready(ir.Unknown("stored data"))
        bytes_ = width.value if isinstance(width, ast.Num) else None
        words = tuple(ir.Deferred(_Operand(call, tree)) for tree in asmops.stored_words(op))
        dst = ir.Deferred(_Operand(call, trees["dst"]))
        stmt = ir.Store(site, dst, value, bytes_, space=asmops.space(op), words=words)
        if predicate is None:
            out.append(stmt)
        else:
            guarded(call.ctx, site, predicate, stmt, op.mnemonic)
        return None
    operation = ir.Operation(
        op.name, site, CallOperands(call, op.operands), op.mods, spelling, predicate, chain, template.node.span
    )
    out.append(ir.Do(site, operation))
    return operation


def _targets(
    build: Build, template: Template, call: Call, ctx: Ctx
) -> list[tuple[ir.Symbol, ir.Deferred | None]] | None:
    """The variables behind the reference arguments, by their text; None when one is no plain variable or element."""
    if not template.outputs:
        return []
    named = calltext.targets(build.unit.source.data, call.lazy.span, template.last)
    if named is None:
        return None
    found: list[tuple[ir.Symbol, ir.Deferred | None]] = []
    for _, param in template.outputs:
        target = named[param]
        if target is None:
            return None
        name, index, cast = target
        binding = ctx.scope.find(name, ctx.at)
        if not isinstance(binding, Local):
            return None
        root = binding.root
        if not root.plain or (index is None) == bool(root.type.dims) or root.members:
            return None
        symbol = root.leaves.get(())
        if symbol is None:
            symbol = places.leaf(build, places.whole(root, root.type.bare))
        if cast and places.size_of(build, ctype(build, ast.TypeName(cast), ctx)) != symbol.element_bytes:
            return None
        where: ir.Deferred | None = None
        if symbol.dims and index is not None:
            where = ready(ir.Const(int(index))) if index.isdigit() else ir.Deferred(_Index(call, param))
        found.append((symbol, where))
    return found


class _Index:
    """The element that a reference argument names, resolved when called."""

    __slots__ = ("call", "param")

    def __init__(self, call: Call, param: int) -> None:
        self.call = call
        self.param = param

    def __call__(self) -> ir.Expr:
        tree = self.call.argument(self.param)
        found = (
            designators.place(self.call.build, tree, self.call.ctx.later(self.call.clock)) if tree is not None else None
        )
        return found.index if isinstance(found, places.LocalPlace) else ir.Unknown("index")
