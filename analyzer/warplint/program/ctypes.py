"""C types as far as addresses and integer arithmetic need them: sizes, alignment, struct layout, conversion rank.

Sizes follow the CUDA C++ and HIP ABIs on 64-bit Linux (natural alignment, `long` is 8 bytes).
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct

from warplint.patterns import late

SIZES: dict[str, int] = {
    "bool": 1, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "i32": 4, "u32": 4, "i64": 8, "u64": 8,
    "f8": 1, "f16": 2, "bf16": 2, "f32": 4, "f64": 8, "i128": 16, "u128": 16,
}  # fmt: skip
"""Canonical scalar names and their sizes in bytes."""

INTEGERS = frozenset({"bool", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "i128", "u128"})
FLOATS = frozenset({"f8", "f16", "bf16", "f32", "f64"})
CASTS = frozenset({"bool", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f32", "f64"})
"""Scalar names that `ir.Cast.type` may have; every other type is `other` there."""

_SPELLED: dict[str, str] = {
    "bool": "bool", "char": "i8", "uchar": "u8", "ushort": "u16", "uint": "u32", "ulong": "u64", "void": "void",
    "int8_t": "i8", "uint8_t": "u8", "int16_t": "i16", "uint16_t": "u16", "int32_t": "i32", "uint32_t": "u32",
    "int64_t": "i64", "uint64_t": "u64", "size_t": "u64", "ssize_t": "i64", "ptrdiff_t": "i64", "intptr_t": "i64",
    "uintptr_t": "u64", "byte": "u8", "float": "f32", "double": "f64", "long double": "f64", "nullptr_t": "u64",
    "half": "f16", "__half": "f16", "half_t": "f16", "_Float16": "f16", "float16_t": "f16", "float_16": "f16",
    "__nv_bfloat16": "bf16", "nv_bfloat16": "bf16", "bfloat16_t": "bf16", "hip_bfloat16": "bf16", "bf16": "bf16",
    "__fp16": "f16", "__bf16": "bf16", "__hip_bfloat16": "bf16", "bfloat16": "bf16", "tfloat32_t": "f32",
    "__nv_fp8_e4m3": "f8", "__nv_fp8_e5m2": "f8", "__nv_fp8_e8m0": "f8", "float_e4m3_t": "f8", "float_e5m2_t": "f8",
    "fp8_e4_t": "f8", "fp8_e5_t": "f8", "__nv_fp8_storage_t": "u8", "__int128": "i128", "unsigned __int128": "u128",
    "__int128_t": "i128", "__uint128_t": "u128", "wchar_t": "i32", "char16_t": "u16", "char32_t": "u32",
    "clock_t": "i64", "lane_mask_t": "u64", "hipEvent_t": "u64", "cudaStream_t": "u64", "hipStream_t": "u64",
    "GmmaDescriptor": "u64", "Tcgen05SMemDescriptor": "i64",
}  # fmt: skip

OPAQUE_SIZES: dict[str, tuple[int, int]] = {
    "CUtensorMap": (128, 64), "cuTensorMap": (128, 64), "TmaDescriptor": (128, 64),
    "ClusterBarrier": (8, 8), "ClusterTransactionBarrier": (8, 8), "Barrier": (8, 8), "barrier": (8, 8),
    "half2": (4, 4), "__half2": (4, 4), "__nv_bfloat162": (4, 4), "nv_bfloat162": (4, 4), "__nv_fp8x2_e4m3": (2, 2),
    "__nv_fp8x4_e4m3": (4, 4), "semaphore": (8, 8),
}  # fmt: skip
"""Size and alignment of library types that appear in shared memory: CUtensorMap (CUDA driver API: 64-byte aligned,
128 bytes); an mbarrier object is one 64-bit word (PTX ISA 9.7.13.15.1), whatever class wraps it."""

_VECTOR = late(r"(u?char|u?short|u?int|u?long|u?longlong|float|double|dim)([1-4])")
_VECTOR_BASE = {
    "char": "i8", "uchar": "u8", "short": "i16", "ushort": "u16", "int": "i32", "uint": "u32", "long": "i64",
    "ulong": "u64", "longlong": "i64", "ulonglong": "u64", "float": "f32", "double": "f64", "dim": "u32",
}  # fmt: skip
_WORDS = frozenset({"unsigned", "signed", "int", "long", "short", "char"})
_NAMESPACES = late(r"^(?:::)?(?:std|cuda::std|cuda|cutlass|cute|tl|kittens|ck_tile|ck)::")


class CType(NamedTuple):
    """A type: scalar or record `name`, pointer depth, then array dimensions around that (outermost first)."""

    name: str
    pointer: int = 0
    dims: tuple[int | None, ...] = ()
    targs: tuple[int | str | None, ...] = ()
    """Template arguments of a record type as far as known (integers, type names)."""

    @property
    def bare(self) -> CType:
        """The type of one element: without its dimensions."""
        return CType(self.name, self.pointer, (), self.targs) if self.dims else self

    @property
    def scalar(self) -> bool:
        """An arithmetic value or a pointer: something one register holds."""
        return not self.dims and (self.pointer > 0 or self.name in SIZES)

    @property
    def integer(self) -> bool:
        """An integer type (bool included), not a pointer."""
        return not self.dims and not self.pointer and self.name in INTEGERS

    @property
    def floating(self) -> bool:
        """A floating-point type."""
        return not self.dims and not self.pointer and self.name in FLOATS

    @property
    def pointee(self) -> CType:
        """What a pointer of this type points to."""
        return CType(self.name, self.pointer - 1, (), self.targs) if self.pointer else self

    @property
    def cast(self) -> str:
        """The name for `ir.Cast` and `ir.Load`."""
        if self.pointer:
            return "u64"
        return self.name if self.name in CASTS else "other"

    def count(self) -> int | None:
        """Number of elements of the array (1 for no array), None when a dimension is not constant."""
        total = 1
        for dim in self.dims:
            if dim is None:
                return None
            total *= dim
        return total

    def element(self) -> CType:
        """One step into an array."""
        return CType(self.name, self.pointer, self.dims[1:], self.targs)

    def address_of(self) -> CType:
        """Pointer to this type (array extents are dropped: only the element type matters for arithmetic)."""
        return CType(self.name, self.pointer + 1, (), self.targs)


SCALARS: dict[str, CType] = {name: CType(name) for name in (*SIZES, "void", "?")}
"""One object for each scalar type, so that equal types are mostly the same object."""

INT, UINT, BOOL, U64, FLOAT, VOID, UNKNOWN = (
    SCALARS[name] for name in ("i32", "u32", "bool", "u64", "f32", "void", "?")
)


@lru_cache(4096)
def scalar_name(spelled: str) -> str | None:
    """Canonical name of a built-in arithmetic type, None when `spelled` is no such type."""
    found = _SPELLED.get(spelled)
    if found is not None:
        return found
    words = spelled.split()
    if words and all(word in _WORDS for word in words):
        prefix = "u" if "unsigned" in words else "i"
        if "char" in words:
            return prefix + "8"
        if "short" in words:
            return prefix + "16"
        return prefix + ("64" if "long" in words else "32")
    stripped = _NAMESPACES.sub("", spelled)
    return scalar_name(stripped) if stripped != spelled else None


@lru_cache(256)
def vector(name: str) -> tuple[str, int] | None:
    """Element type and width of a CUDA vector type (`uint4` gives `("u32", 4)`, `dim3` three u32)."""
    if name.startswith("vec:"):  # `extvectors`
        _, element, width = name.split(":")
        return element, int(width)
    found = _VECTOR.fullmatch(name)
    if found is None or (found[1] == "dim" and found[2] != "3"):
        return None
    return _VECTOR_BASE[found[1]], int(found[2])


class Field(Struct, frozen=True):
    """One data member: its byte offset in the record, None when a size before it is unknown."""

    name: str
    type: CType
    offset: int | None
    bits: tuple[int, int] | None = None
    """For a bit-field: its first bit after `offset`, and its width."""


class Layout(Struct, frozen=True):
    """Data members of a record by name, in order, with size and alignment in bytes (None when unknown)."""

    fields: dict[str, Field]
    size: int | None
    alignment: int
    shares: bool = False
    """Members share storage: a union, or a record with bit-fields."""


def component_name(position: int) -> str:
    """A component of a vector: x, y, z, w, and beyond four as Clang writes them (`s4` ... `sf`)."""
    return "xyzw"[position] if position < 4 else f"s{position:x}"


def vector_layout(element: str, width: int) -> Layout:
    """Layout of a CUDA vector type."""
    size = SIZES[element]
    names = [component_name(i) for i in range(width)]
    fields = {name: Field(name, CType(element), i * size) for i, name in enumerate(names)}
    return Layout(fields, size * width, size * width if width != 3 else size)


def promote(left: CType, right: CType) -> CType:
    """The usual arithmetic conversions of two arithmetic types (C++ [expr.arith.conv])."""
    if left is right and left is INT:
        return INT
    if left.floating or right.floating:
        for name in ("f64", "f32", "bf16", "f16"):
            if left.name == name or right.name == name:
                return CType(name)
        return FLOAT
    if not left.integer or not right.integer:
        return left if right == UNKNOWN or not right.integer else right
    return _integers(left.name, right.name)


@lru_cache(256)
def _integers(left: str, right: str) -> CType:
    size = max(SIZES[left], SIZES[right], 4)
    unsigned = (left[0] == "u" and SIZES[left] == size) or (right[0] == "u" and SIZES[right] == size)
    return SCALARS[("u" if unsigned else "i") + str(size * 8)]


def wrap(value: int, name: str) -> int:
    """An integer reduced to the range of the named type (two's complement)."""
    if name == "bool":
        return int(value != 0)
    size = SIZES.get(name)
    if size is None or name not in INTEGERS:
        return value
    bits = size * 8
    value &= (1 << bits) - 1
    if name[0] == "i" and value >> (bits - 1):
        value -= 1 << bits
    return value


def strip_namespace(name: str) -> str:
    """The last component of a qualified name, template arguments removed."""
    return without_arguments(name).rsplit("::", 1)[-1].strip()


@lru_cache(4096)
def without_arguments(name: str) -> str:
    """A qualified name without template arguments (`Ring<4>::wait` gives `Ring::wait`)."""
    cut = name.find("<")
    if cut <= 0 or "operator" in name:
        return name
    kept: list[str] = []
    depth = 0
    for i, letter in enumerate(name):
        if letter == "<" and (depth or (i and name[i - 1] != ":")):  # a nameless record is called `<struct@123>`
            depth += 1
        elif letter == ">" and depth:
            depth -= 1
        elif not depth:
            kept.append(letter)
    return "".join(kept)
