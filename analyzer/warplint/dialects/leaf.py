"""Leaves that inline assembly adds to expressions: the result of an operation, and a special register.

They stand among ordinary `ast` expressions in what `asm.classify` returns; `program` turns them into `ir.OpValue`
and `ir.Special`.
"""

from __future__ import annotations

from warplint.syntax import ast


class OpOutput(ast.Expr, frozen=True):
    """The value that operation number `op` of one `AsmResult` delivers under the name `output`.

    `truth` tells that it is a predicate (0 or 1).
    """

    op: int
    output: str = "value"
    truth: bool = False


class SpecialReg(ast.Expr, frozen=True):
    """A built-in coordinate; `name` is one of those listed at `ir.Special`."""

    name: str


class Computed(ast.Expr, frozen=True):
    """A value that register arithmetic makes out of `args` and nothing else, in a way that is not followed.

    The same arguments give the same value: it is as uniform as they are. `name` is the instruction.
    """

    name: str
    args: tuple[ast.Expr, ...]
    truth: bool = False


class Operand(ast.Expr, frozen=True):
    """Operand number `index` of an assembly statement, before the actual expression is put in its place."""

    index: int
