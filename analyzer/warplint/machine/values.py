"""Concrete values of the executing machine, and their arithmetic.

A value is an `int` (the same for all threads of the agent), a `tuple` with one int for each thread of the block
(entries of
threads outside the agent mean nothing), a `Place` (an address), or an `Unknown`. Integers are unbounded; `Cast`s in the
program wrap them, as the C++ types do.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import repeat
from operator import add, and_, eq, floordiv, ge, gt, le, lshift, lt, mod, mul, ne, or_, rshift, sub, xor

from msgspec import Struct
from msgspec.structs import force_setattr

from warplint.machine.line import Line
from warplint.threads.facts import Uniformity

_INTERNED: dict[Hashable, tuple[str, int]] = {}


_COMPUTED: dict[Hashable, tuple[Value, Value, Value]] = {}
"""Results per thread, by operator and identity of the operands, which are kept alive with them."""
MAX_COMPUTED = 8_000


def forget() -> None:
    """Forget the keys of unknowns: before a kernel is executed."""
    _INTERNED.clear()
    _COMPUTED.clear()


class Unknown(Struct, frozen=True):
    """A value that is not known. Equal keys mean equal values in every thread.

    Keys are made of the keys of operands; each is replaced by a number, so that they do not grow.
    """

    key: Hashable
    floor: Uniformity

    def __post_init__(self) -> None:
        key = self.key
        if not (isinstance(key, tuple) and len(key) == 2 and key[0] == "#"):
            force_setattr(self, "key", _INTERNED.setdefault(key, ("#", len(_INTERNED))))


class Place(Struct, frozen=True):
    """A byte address: `offset` into variable `base` (a `Symbol` or any identity) of CTA `cta` (None: the own one; a
    tuple: one for each thread).
    """

    base: Hashable
    offset: Value
    cta: int | tuple[int, ...] | None = None


class Packed(Struct, frozen=True):
    """A matrix descriptor or other word that an address was packed into, in its low bits."""

    place: Place
    unit: int = 16
    """Bytes that one step of the field stands for: 16 in a descriptor, 1 while the address is only masked."""


class Token(Struct, frozen=True):
    """The state that an mbarrier arrive returns: the phase it arrived in."""

    phase: int


LEADER = -2
"""`Place.cta` of the even CTA of a pair, whichever CTA computes the address (the tcgen05 peer-bit mask)."""
PEER_BIT_MASK = 0xFEFFFFFF

Value = int | tuple[int, ...] | Unknown | Place | Packed | Token | Line


def _divide(left: int, right: int) -> int:
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _remainder(left: int, right: int) -> int:
    return left - right * _divide(left, right)


def _shift_left(left: int, right: int) -> int:
    return left << right if 0 <= right < 64 else 0


def _shift_right(left: int, right: int) -> int:
    return left >> right if 0 <= right < 64 else (-1 if left < 0 else 0)


BINARY: dict[str, Callable[[int, int], int]] = {
    "+": add,
    "-": sub,
    "*": mul,
    "/": _divide,
    "%": _remainder,
    "<<": _shift_left,
    ">>": _shift_right,
    "&": and_,
    "|": or_,
    "^": xor,
    "==": eq,
    "!=": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
    "&&": lambda a, b: int(bool(a) and bool(b)),
    "||": lambda a, b: int(bool(a) or bool(b)),
    "min": min,
    "max": max,
}
UNARY: dict[str, Callable[[int], int]] = {
    "-": lambda a: -a,
    "!": lambda a: int(not a),
    "~": lambda a: ~a,
    "+": lambda a: a,
}
WIDTH = {"i8": (8, True), "u8": (8, False), "i16": (16, True), "u16": (16, False), "i32": (32, True), "u32": (32,
False),
         "i64": (64, True), "u64": (64, False)}  # fmt: skip


def wrap(kind: str, value: int) -> int:
    """Convert to an integer type as C++ does; `bool` gives 0 or 1, other kinds leave the value alone."""
    if kind == "bool":
        return int(value != 0)
    width = WIDTH.get(kind)
    if width is None:
        return value
    bits, signed = width
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def floor_of(value: Value) -> Uniformity:
    """The uniformity of a value; tuples count as per lane."""
    if isinstance(value, int):
        return Uniformity.GRID
    if isinstance(value, Unknown):
        return value.floor
    if isinstance(value, tuple):
        # Every 32 threads alike.
        alike = all(value[at : at + 32] == (value[at],) * len(value[at : at + 32]) for at in range(0, len(value), 32))
        return Uniformity.WARP if alike else Uniformity.LANE
    return Uniformity.CTA


def key_of(value: Value) -> Hashable:
    """An identity of the value for building keys of unknowns."""
    return value.key if isinstance(value, Unknown) else value


def binary(op: str, left: Value, right: Value) -> Value:
    """Apply a binary operator; addresses take integer offsets, unknowns stay unknown under a key made of both sides."""
    if isinstance(left, int) and isinstance(right, int):
        if op in "/%" and right == 0:
            return Unknown(("div0", left), Uniformity.GRID)
        return BINARY[op](left, right)
    if isinstance(left, Token) or isinstance(right, Token):
        return Unknown((op, left, right), Uniformity.CTA)
    if isinstance(left, Packed) or isinstance(right, Packed):
        return _packed(op, left, right)
    if isinstance(left, Place) or isinstance(right, Place):
        return _address(op, left, right)
    if isinstance(left, Unknown) or isinstance(right, Unknown):
        short = _short_cut(op, left, right)
        if short is not None:
            return short
        return Unknown((op, key_of(left), key_of(right)), min(floor_of(left), floor_of(right)))
    if isinstance(left, Line) or isinstance(right, Line):
        return lines.binary(op, left, right)
    # The same objects again: what depends on the thread index alone is computed once in all rounds of a loop.
    mark = (op, left if isinstance(left, int) else id(left), right if isinstance(right, int) else id(right),
            isinstance(left, int))  # fmt: skip
    known = _COMPUTED.get(mark)
    if known is not None:
        return known[2]
    result = _by_thread(op, left, right)
    if len(_COMPUTED) > MAX_COMPUTED:
        _COMPUTED.clear()
    _COMPUTED[mark] = (left, right, result)
    return result


def _by_thread(op: str, left: int | tuple[int, ...], right: int | tuple[int, ...]) -> Value:
    function = BINARY[op]
    if op in "/%":
        divisors = (right,) if isinstance(right, int) else right
        if 0 in divisors:
            return Unknown((op, left, right), Uniformity.LANE)
        if min(divisors) > 0 and (left >= 0 if isinstance(left, int) else min(left) >= 0):
            function = floordiv if op == "/" else mod
    elif op in (">>", "<<") and isinstance(right, int) and 0 <= right < 64:
        function = rshift if op == ">>" else lshift
    if isinstance(left, int):
        assert isinstance(right, tuple)
        return tuple(map(function, repeat(left), right))
    if isinstance(right, int):
        return tuple(map(function, left, repeat(right)))
    return tuple(map(function, left, right))


def _short_cut(op: str, left: Value, right: Value) -> int | None:
    for one, other in ((left, right), (right, left)):
        if isinstance(one, int):
            if one == 0 and op in ("*", "&", "&&"):
                return 0
            if one and op == "||":
                return 1
        elif one == other and isinstance(one, Unknown) and op in ("==", "<=", ">=", "!=", "<", ">", "^", "-"):
            return int(op in ("==", "<=", ">="))
    if op == "%" and right == 1:
        return 0
    return None


def _address(op: str, left: Value, right: Value) -> Value:
    if isinstance(left, Place) and isinstance(right, Place):
        if left.base == right.base and left.cta == right.cta and op in ("-", "==", "!=", "<", "<=", ">", ">="):
            return binary(op, left.offset, right.offset)
        if op in ("==", "!="):
            return int(op == "!=")
    elif isinstance(left, Place):
        if op == "&" and isinstance(right, int) and right & 0xFFFFFFFF == PEER_BIT_MASK:
            return Place(left.base, left.offset, LEADER)
        if op in ("^", "|", "&") and _below(right, alignment(left)):
            # The low bits of the base are zero: those of the address are those of the offset (swizzles).
            low = binary(op, left.offset, right)
            return low if op == "&" else Place(left.base, low, left.cta)
        if op in (">>", "&"):
            # (address & 0x3FFFF) >> 4 and the like: the first step of building a descriptor.
            return Packed(left, 1 << right if op == ">>" and isinstance(right, int) and 0 <= right <= 4 else 1)
        if op in ("+", "-"):
            return Place(left.base, binary(op, left.offset, right), left.cta)
        if op in ("==", "!=") and right == 0:
            return int(op == "!=")
    elif isinstance(right, Place) and op in ("+", "^", "|", "&"):
        return _address(op, right, left)
    return Unknown((op, left, right), min(floor_of(left), floor_of(right)))


def alignment(place: Place) -> int:
    """The power of two that an address's variable is declared to be aligned to; 1 when nothing says so."""
    declared = getattr(place.base, "alignment", 0)
    return declared if isinstance(declared, int) and declared & (declared - 1) == 0 and declared > 0 else 1


def _below(value: Value, limit: int) -> bool:
    if isinstance(value, int):
        return 0 <= value < limit
    return isinstance(value, tuple) and min(value) >= 0 and max(value) < limit


FIELD = 0x3FFF
"""The start address of a matrix descriptor: 14 bits, in units of 16 bytes (PTX ISA 9.7.16.4.1, 9.7.15.5.1)."""


def _packed(op: str, left: Value, right: Value) -> Value:
    """Fields are or-ed into a descriptor; adding n moves its start by 16 n bytes. Other arithmetic loses the
    address.
    """
    one, other = (left, right) if isinstance(left, Packed) else (right, left)
    assert isinstance(one, Packed)
    if op == "&" and one.unit > 1 and isinstance(other, int) and 0 < other * one.unit < alignment(one.place):
        # Some low bits of the address: those of the offset, as the base has none.
        return binary("&", binary(">>", one.place.offset, one.unit.bit_length() - 1), other)
    if isinstance(other, int):
        low = other & FIELD if one.unit > 1 else other
        if op in ("+", "|") and low:
            return Packed(Place(one.place.base, binary("+", one.place.offset, low * one.unit), one.place.cta), one.unit)
        if op in ("+", "|") or (op == "&" and (low == FIELD or one.unit == 1)) or (op in ("<<", ">>") and other == 0):
            return one
        if op == ">>" and one is left and 0 < other <= 4 and one.unit == 1:
            return Packed(one.place, 1 << other)
    elif op == "|" and isinstance(other, Unknown):
        return one
    return Unknown((op, left, right), min(floor_of(left), floor_of(right)))


def unary(op: str, arg: Value) -> Value:
    """Apply a unary operator."""
    function = UNARY[op]
    if isinstance(arg, int):
        return function(arg)
    if isinstance(arg, tuple):
        return tuple([function(a) for a in arg])
    if isinstance(arg, Place | Packed | Token):
        return int(op != "!") if op in ("!", "+") else Unknown((op, arg), Uniformity.CTA)
    if isinstance(arg, Line):
        return lines.unary(op, arg)
    return Unknown((op, arg.key), arg.floor)


def cast(kind: str, arg: Value) -> Value:
    """Convert; addresses stay addresses, floats of known integers stay what they are."""
    if isinstance(arg, int):
        return wrap(kind, arg)
    if isinstance(arg, tuple):
        if kind in WIDTH:
            bits, signed = WIDTH[kind]
            top = 1 << (bits - 1) if signed else 1 << bits
            if min(arg) >= (-top if signed else 0) and max(arg) < top:
                return arg
            return tuple([wrap(kind, a) for a in arg])
        return tuple([int(a != 0) for a in arg]) if kind == "bool" else arg
    if isinstance(arg, Place | Packed | Token):
        return 1 if kind == "bool" else arg
    if isinstance(arg, Line):
        return lines.cast(kind, arg)
    return Unknown(("cast", kind, arg.key), arg.floor) if kind == "bool" else arg


def truth(value: Line) -> Value:
    """Whether a growing number is non-zero now."""
    return lines.truth(value)


def select(test: Value, yes: Value, no: Value) -> Value:
    """`test ? yes : no`, per thread where the test is."""
    if isinstance(test, int):
        return yes if test else no
    if isinstance(test, Place | Packed | Token):
        return yes
    if yes == no:
        return yes
    if isinstance(test, tuple) and isinstance(yes, int | tuple) and isinstance(no, int | tuple):
        first = (yes,) * len(test) if isinstance(yes, int) else yes
        second = (no,) * len(test) if isinstance(no, int) else no
        return tuple([a if t else b for t, a, b in zip(test, first, second, strict=True)])
    if isinstance(test, Line) or isinstance(yes, Line) or isinstance(no, Line):
        return lines.select(test, yes, no)
    floor = min(floor_of(test), floor_of(yes), floor_of(no))
    return Unknown(("?", key_of(test), key_of(yes), key_of(no)), floor)


def mix(old: Value, new: Value, threads: list[int], size: int) -> Value:
    """`new` for the given threads of the block, `old` for the others."""
    if old == new:
        return old
    if isinstance(old, int | tuple) and isinstance(new, int | tuple):
        merged = [old] * size if isinstance(old, int) else list(old)
        for thread in threads:
            merged[thread] = new if isinstance(new, int) else new[thread]
        return tuple(merged)
    if isinstance(old, Line) or isinstance(new, Line):
        return lines.mix(old, new, threads, size)
    return Unknown(("mix", key_of(old), key_of(new), tuple(threads[:1])), Uniformity.LANE)


def narrow(value: Value, threads: list[int]) -> Value:
    """A tuple that is constant over the given threads becomes an int."""
    if isinstance(value, tuple):
        first = value[threads[0]]
        for thread in threads:
            if value[thread] != first:
                return value
        return first
    if isinstance(value, Place) and (isinstance(value.offset, tuple) or isinstance(value.cta, tuple)):
        cta = narrow(value.cta, threads) if isinstance(value.cta, tuple) else value.cta
        assert cta is None or isinstance(cta, int | tuple)
        return Place(value.base, narrow(value.offset, threads), cta)
    return value


from warplint.machine import lines  # noqa: E402  (both need each other; only used when called)
