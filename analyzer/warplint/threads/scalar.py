"""Integer arithmetic of the device languages on Python ints; widths are the business of explicit casts."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence

BOOLEAN_OPS = frozenset(["==", "!=", "<", "<=", ">", ">=", "&&", "||"])
_LIMIT = 1 << 64
"""Results of this size or more have overflowed every integer type: undefined, so unknown."""


def _divide(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


_SIMPLE: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
    ">": lambda a, b: int(a > b),
    ">=": lambda a, b: int(a >= b),
    "&&": lambda a, b: int(bool(a) and bool(b)),
    "||": lambda a, b: int(bool(a) or bool(b)),
    "min": min,
    "max": max,
}


def binary_int(op: str, a: int, b: int) -> int | None:
    """`a op b` as C computes it on wide integers, None where it is undefined (or the operator is not known)."""
    simple = _SIMPLE.get(op)
    if simple is not None:
        value = simple(a, b)
        return value if -_LIMIT < value < _LIMIT else None
    if op in ("/", "%"):
        if b == 0:
            return None
        return _divide(a, b) if op == "/" else a - _divide(a, b) * b
    if op in ("<<", ">>"):
        if not 0 <= b < 64:
            return None
        value = a << b if op == "<<" else a >> b
        return value if -_LIMIT < value < _LIMIT else None
    return None


_TOTAL: dict[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_NATURAL: dict[str, Callable[[int, int], int]] = {
    "/": operator.floordiv,
    "%": operator.mod,
    ">>": operator.rshift,
    "<<": operator.lshift,
}
"""Operators that agree with C on a non-negative left and a positive (for shifts: small) right operand."""


def many(op: str, ones: Sequence[int], twos: Sequence[int]) -> list[int] | None:
    """The operator over two sequences at once; None where a result is not defined or has to be looked at one by one."""
    compare = _COMPARE.get(op)
    if compare is not None:
        return [1 if truth else 0 for truth in map(compare, ones, twos)]
    total = _TOTAL.get(op)
    if total is None:
        total = _NATURAL.get(op)
        if total is None or min(ones) < 0 or min(twos) < (1 if op in ("/", "%") else 0) or max(twos) >= (1 << 32):
            return None
        if op in ("<<", ">>") and max(twos) >= 64:
            return None
    results = list(map(total, ones, twos))
    return results if max(results) < _LIMIT and min(results) > -_LIMIT else None


def mirrored(op: str) -> str | None:
    """The comparison that says the same with its operands exchanged."""
    return {"<": ">", ">": "<", "<=": ">=", ">=": "<="}.get(op)


_WIDTH = {
    "i8": (8, True),
    "u8": (8, False),
    "i16": (16, True),
    "u16": (16, False),
    "i32": (32, True),
    "u32": (32, False),
    "i64": (64, True),
    "u64": (64, False),
}


def fits(kind: str, value: int) -> bool:
    """Whether a conversion to an integer type leaves the value as it is."""
    return cast_int(kind, value) == value


def cast_int(kind: str, value: int) -> int:
    """Conversion to an integer type, wrapping as two's complement; `bool` gives 0 or 1."""
    if kind == "bool":
        return int(value != 0)
    width = _WIDTH.get(kind)
    if width is None:
        return value
    size, signed = width
    value &= (1 << size) - 1
    return value - (1 << size) if signed and value >> (size - 1) else value
