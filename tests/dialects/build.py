"""Builds assembly nodes for the tests: outputs and inputs by the names of the variables they stand for."""

from __future__ import annotations

from collections.abc import Sequence

from warplint.dialects import asm
from warplint.dialects.asm import AsmOp, AsmResult
from warplint.source import Span
from warplint.syntax import ast

HERE = Span(10, 20)
Part = str | int | tuple[str, str | int] | tuple[str, str | int, str]


def _operand(part: Part, constraint: str) -> ast.AsmOperand:
    name = ""
    if isinstance(part, tuple):
        constraint = part[0]
        name = part[2] if len(part) == 3 else ""
        part = part[1]
    value = ast.Num(HERE, part) if isinstance(part, int) else ast.Name(HERE, part)
    return ast.AsmOperand(constraint, value, name)


def node(template: str | None, outputs: Sequence[Part] = (), inputs: Sequence[Part] = ()) -> ast.Asm:
    return ast.Asm(
        HERE, template, tuple(_operand(o, "=r") for o in outputs), tuple(_operand(i, "r") for i in inputs), True
    )


def result(template: str | None, outputs: Sequence[Part] = (), inputs: Sequence[Part] = ()) -> AsmResult:
    return asm.classify(node(template, outputs, inputs))


def one(template: str, outputs: Sequence[Part] = (), inputs: Sequence[Part] = ()) -> AsmOp:
    """The only operation of a text that is fully understood."""
    found = result(template, outputs, inputs)
    assert found.unknown == ()
    assert len(found.ops) == 1, [op.name for op in found.ops]
    return found.ops[0]


def show(expr: ast.Expr | None) -> str:
    """An expression as text."""
    match expr:
        case None:
            return "-"
        case ast.Num(value=value):
            return str(value)
        case ast.Name(id=name):
            return name
        case ast.Binary(op=op, left=left, right=right):
            return f"({show(left)} {op} {show(right)})"
        case ast.Unary(op=op, arg=arg):
            return op + show(arg)
        case ast.Cond(test=test, yes=yes, no=no):
            return f"({show(test)} ? {show(yes)} : {show(no)})"
        case ast.Cast(arg=arg):
            return f"cast {show(arg)}"
        case asm.OpOutput(op=number, output=output):
            return f"<{number}.{output}>"
        case asm.SpecialReg(name=name):
            return "%" + name
        case asm.Computed(name=name, args=args):
            return f"{name}({', '.join(map(show, args))})"
        case ast.Unparsed():
            return "?"
    return type(expr).__name__


def operands(op: AsmOp) -> str:
    """`role=value` for every operand, in order of role."""
    return " ".join(f"{role}={show(value)}" for role, value in sorted(op.operands.items()))
