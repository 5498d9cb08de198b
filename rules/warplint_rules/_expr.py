"""Walking resolved expressions."""

from __future__ import annotations

from warplint.program.ir import Address, Binary, Cast, Element, Expr, Load, Pure, Select, Unary


def parts(expr: Expr) -> tuple[Expr, ...]:
    """The operand expressions of an expression."""
    match expr:
        case Load(pointer=arg) | Unary(arg=arg) | Cast(arg=arg) | Element(index=arg) | Address(offset=arg):
            return (arg,)
        case Binary(left=left, right=right):
            return (left, right)
        case Select(test=test, yes=yes, no=no):
            return (test, yes, no)
        case Pure(args=args):
            return args
    return ()
