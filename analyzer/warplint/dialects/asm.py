"""What one inline assembly statement does: its operations with operands by role, and where its results come from.

The text is read as a small program (`asm_text`), each instruction is looked up (`mnemonics`, `amd_mnemonics`), and a
dataflow over its registers connects results with operands: a predicate made by `setp` becomes an expression over the
statement's operands, the leader bit of `elect.sync` that guards a `mov` becomes the value of the output, an address
that went through `cvta` or `mapa` is still the address that was passed in. A wait in a loop that only its own success
leaves is a blocking wait.

All of this depends on the text alone, so it is done once per text; `classify` then puts the actual operands in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from msgspec import Struct

from warplint.dialects import asm_flow, asm_text
from warplint.dialects.leaf import Computed, Operand, OpOutput, SpecialReg
from warplint.source import Span
from warplint.syntax import ast

Mods = Mapping[str, str | int | bool]


class AsmOp(Struct, frozen=True):
    """One operation found in an assembly text, operands as expressions of the surrounding C++."""

    name: str
    operands: Mapping[str, ast.Expr]
    """By role. An address or value that the dataflow lost is an `ast.Unparsed`."""
    mods: Mods
    predicate: ast.Expr | None
    """Condition under which it executes (guard and branches inside the assembly), None when always."""
    mnemonic: str
    outputs: tuple[str, ...]
    """Names of results that something receives."""


class AsmResult(Struct, frozen=True):
    """The meaning of one assembly statement.

    `outputs` maps an asm output operand to the expression it receives, over `OpOutput`, `SpecialReg` and the operands'
    own expressions; an output that is absent has an unknown value. `unknown` lists instructions that are not understood
    (the effects of the statement are then not established). `loops` tells that some operation may execute repeatedly
    (its mods hold `loop`), blocking waits apart.
    """

    ops: tuple[AsmOp, ...]
    outputs: Mapping[int, ast.Expr]
    unknown: tuple[str, ...] = ()
    exits: bool = False
    traps: bool = False
    loops: bool = False


NOTHING = AsmResult((), {})


def classify(node: ast.Asm) -> AsmResult:
    """The operations and results of an inline assembly statement."""
    if node.template is None:
        return AsmResult((), {}, ("assembly text with an unresolved macro",))
    names = tuple(operand.name for operand in (*node.outputs, *node.inputs))
    kept = tuple(operand.constraint.lstrip("&")[:1] == "+" for operand in node.outputs)
    shape_of = _remembered if len(node.template) <= asm_text.SMALL else _shape
    shape = shape_of(node.template, names if any(names) else (), kept)
    if not shape.ops and not shape.outputs:
        if not (shape.unknown or shape.exits or shape.loops):
            return NOTHING
        return AsmResult((), {}, shape.unknown, shape.exits, shape.traps, shape.loops)
    values = tuple(operand.value for operand in (*node.outputs, *node.inputs))
    span = node.span
    ops = tuple(_place(draft, values, span) for draft in shape.ops)
    outputs = {index: _fill(value, values, span) for index, value in shape.outputs.items()}
    return AsmResult(ops, outputs, shape.unknown, shape.exits, shape.traps, shape.loops)


def _shape(template: str, names: tuple[str, ...], kept: tuple[bool, ...]) -> asm_flow.Shape:
    text = asm_text.parse(template)
    if text.amd:
        from warplint.dialects import amd_mnemonics

        return amd_mnemonics.shape(text, names, kept)
    return asm_flow.Flow(text, names, kept).run()


_remembered = lru_cache(maxsize=1024)(_shape)


def _place(draft: asm_flow.Draft, values: tuple[ast.Expr, ...], span: Span) -> AsmOp:
    operands = {role: _fill(value, values, span) for role, value in draft.operands.items()}
    mods = draft.mods
    for key, value in mods.items():
        if type(value) is str and value[:1] == "%":  # `cta_group::%2`
            mods = {**mods, key: _immediate(value, values)}
    name = draft.name
    if name == "bar.sync.named" and "threads" not in operands and _constant(operands.get("id")) == 0:
        name = "bar.sync.cta"
        operands = {}
    predicate = None if draft.predicate is None else _fill(draft.predicate, values, span)
    return AsmOp(name, operands, mods, predicate, draft.mnemonic, draft.outputs)


def _immediate(text: str, values: tuple[ast.Expr, ...]) -> str | int:
    index = text[1:]
    if index.isdigit() and int(index) < len(values):
        constant = _constant(values[int(index)])
        if constant is not None:
            return constant
    return text


def _constant(value: ast.Expr | None) -> int | None:
    while isinstance(value, ast.Cast):
        value = value.arg
    return value.value if isinstance(value, ast.Num) else None


def _fill(expr: ast.Expr, values: tuple[ast.Expr, ...], span: Span) -> ast.Expr:
    """`expr` with operands in place; trees are small (`asm_flow.MAX_NODES`), so recursion is bounded."""
    kind = type(expr)
    if kind is Operand:
        index = expr.index  # type: ignore[attr-defined]
        return values[index] if index < len(values) else ast.Unparsed(span, f"%{index}")
    match expr:
        case ast.Num(value=value):
            return ast.Num(span, value)
        case OpOutput(op=op, output=output, truth=truth):
            return OpOutput(span, op, output, truth)
        case SpecialReg(name=name):
            return SpecialReg(span, name)
        case Computed(name=name, args=args, truth=truth):
            return Computed(span, name, tuple(_fill(arg, values, span) for arg in args), truth)
        case ast.Binary(op=op, left=left, right=right):
            return ast.Binary(span, op, _fill(left, values, span), _fill(right, values, span))
        case ast.Unary(op=op, arg=arg):
            return ast.Unary(span, op, _fill(arg, values, span))
        case ast.Cond(test=test, yes=yes, no=no):
            return ast.Cond(span, _fill(test, values, span), _fill(yes, values, span), _fill(no, values, span))
        case ast.Cast(type=type_, arg=arg):
            return ast.Cast(span, type_, _fill(arg, values, span))
        case ast.Unparsed(text=text):
            return ast.Unparsed(span, text)
    return expr
