"""Constants of the headers that every CUDA or HIP file may use without defining them.

Sources: C `<limits.h>`, `<stdint.h>` and `<float.h>` on the 64-bit platforms that CUDA supports; `math_constants.h`.
"""

from __future__ import annotations

from warplint.program import ir
from warplint.program.arith import unknown
from warplint.program.ctypes import FLOAT, INT, UINT, CType
from warplint.program.scope import Typed

_LONG, _ULONG = CType("i64"), CType("u64")

INTEGERS: dict[str, tuple[int, CType]] = {
    "CHAR_BIT": (8, INT),
    "SCHAR_MAX": (127, INT),
    "UCHAR_MAX": (255, INT),
    "SHRT_MAX": (32767, INT),
    "USHRT_MAX": (65535, INT),
    "INT_MAX": (2**31 - 1, INT),
    "INT_MIN": (-(2**31), INT),
    "UINT_MAX": (2**32 - 1, UINT),
    "INT32_MAX": (2**31 - 1, INT),
    "INT32_MIN": (-(2**31), INT),
    "UINT32_MAX": (2**32 - 1, UINT),
    "INT16_MAX": (32767, INT),
    "UINT16_MAX": (65535, INT),
    "UINT8_MAX": (255, INT),
    "INT64_MAX": (2**63 - 1, _LONG),
    "LLONG_MAX": (2**63 - 1, _LONG),
    "LONG_MAX": (2**63 - 1, _LONG),
    "UINT64_MAX": (2**64 - 1, _ULONG),
    "ULLONG_MAX": (2**64 - 1, _ULONG),
    "SIZE_MAX": (2**64 - 1, _ULONG),
}
"""By name: the value and its type."""

_FLOATS = ("CUDART_", "FLT_", "DBL_", "M_PI", "M_E", "M_LN", "M_LOG", "M_SQRT", "HUGE_VAL")


def header_constant(name: str) -> Typed | None:
    """What a name means that only a standard header defines; None for any other name."""
    known = INTEGERS.get(name)
    if known is not None:
        return Typed(ir.Const(known[0]), known[1])
    if name in ("INFINITY", "NAN") or name.startswith(_FLOATS):
        return unknown("a floating-point constant", FLOAT, uniform=True)
    return None
