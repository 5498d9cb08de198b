"""Vector types of the compiler (`ext_vector_type`, `vector_size`): names that stand for several elements.

Source: Clang language extensions, vectors. A name is an alias of the synthetic type `vec:<element>:<width>`.
"""

from __future__ import annotations

from warplint.patterns import late
from warplint.program.ctypes import SIZES, scalar_name

_ATTRIBUTE = (
    rb"__attribute__\s*\(\(\s*(?:__)?(?P<kind>ext_vector_type|vector_size)(?:__)?\s*"
    rb"\(\s*(?P<count>\d+)\s*(?P<times>\*\s*sizeof\s*\(\s*[\w ]+\s*\))?\s*\)\s*\)\)"
)
_WRITTEN = (
    late(rb"\btypedef\s+(?P<type>[A-Za-z_][\w ]*?)\s+(?P<name>\w+)\s+" + _ATTRIBUTE + rb"\s*;"),
    late(rb"\btypedef\s+(?P<type>[A-Za-z_][\w ]*?)\s+" + _ATTRIBUTE + rb"\s+(?P<name>\w+)\s*;"),
    late(rb"\btypedef\s+" + _ATTRIBUTE + rb"\s+(?P<type>[A-Za-z_][\w ]*?)\s+(?P<name>\w+)\s*;"),
    late(rb"\busing\s+(?P<name>\w+)\s*=\s*(?P<type>[A-Za-z_][\w ]*?)\s+" + _ATTRIBUTE + rb"\s*;"),
    late(rb"\busing\s+(?P<name>\w+)\s*=\s*" + _ATTRIBUTE + rb"\s+(?P<type>[A-Za-z_][\w ]*?)\s*;"),
)
MAX_WIDTH = 64


def vector_names(data: bytes) -> dict[str, str]:
    """The vector types that a file names, as `vec:<element>:<width>`; those of unknown elements are left out."""
    found: dict[str, str] = {}
    if b"ext_vector_type" not in data and b"vector_size" not in data:
        return found
    for pattern in _WRITTEN:
        for match in pattern.finditer(data):
            element = scalar_name(" ".join(match["type"].decode().split()))
            count = int(match["count"])
            if element is None or element not in SIZES:
                continue
            if match["kind"] == b"vector_size" and match["times"] is None:  # bytes
                count //= SIZES[element]
            if 0 < count <= MAX_WIDTH:
                found[match["name"].decode()] = f"vec:{element}:{count}"
    return found
