"""Locals seen as another type: unions, bit-fields, and pointers cast to another element type.

A view is a range of bits of some storage cells. Reading takes the bits out of the integer cells that hold them, writing
puts them back; so `*(uint64_t*)&pair`, a descriptor union, and its bit-fields keep the values (and addresses) that were
stored. What has no such meaning (floats taken apart, an unknown position) is an unknown value of its cells.
"""

from __future__ import annotations

from typing import NamedTuple

from warplint.program import aggregates, ir, places
from warplint.program.arith import convert, join, unknown
from warplint.program.ctypes import SIZES, U64, CType, wrap
from warplint.program.scope import Ctx, LocalPlace, Typed, ready
from warplint.program.typetable import size_of
from warplint.program.unit import Build
from warplint.source import Span

MAX_CELLS = 8


class Cell(NamedTuple):
    """A scalar piece of the storage behind a view: where its bits start, and how many it has."""

    start: int
    width: int
    place: LocalPlace


def storage(build: Build, place: LocalPlace) -> LocalPlace | None:
    """The integer cells that hold a union, None when its size is not known."""
    size = size_of(build, place.type)
    if size is None or size <= 0 or place.type.dims:
        return None
    if size in (1, 2, 4, 8):
        return place._replace(type=CType(f"u{size * 8}"))
    width = 4 if size % 4 == 0 else 1
    count = size // width
    element = CType(f"u{width * 8}", 0, (count,))
    return place._replace(type=element, dims=(*place.dims, count), index=join("*", place.index, ir.Const(count)))


def cells(build: Build, place: LocalPlace, low: int, high: int) -> list[Cell] | None:
    """The cells of the storage behind a view that hold the bits `low` to `high`, in order; None when not followed."""
    origin = place.origin
    if origin is None:
        return None
    first = origin.type
    if first.scalar:
        size = 8 if first.pointer else SIZES[first.name]
        found = []
        for i in range(low // (8 * size), -(-high // (8 * size))):
            if len(found) >= MAX_CELLS:
                return None
            cell = origin if i == 0 else origin._replace(index=join("+", origin.index, ir.Const(i)))
            if i and not origin.dims:
                return None
            found.append(Cell(8 * size * i, 8 * size, cell))
        return found
    parts = aggregates.leaves(build, origin)
    if parts is None:
        return None
    found = []
    at = 0
    for part in parts:
        size = size_of(build, part.type)
        if size is None or not part.type.scalar or not isinstance(part, LocalPlace):
            return None
        at = -(-at // size) * size  # natural alignment
        if 8 * at < high and 8 * (at + size) > low:
            found.append(Cell(8 * at, 8 * size, part))
        at += size
    covered = sum(min(cell.start + cell.width, high) - max(cell.start, low) for cell in found)
    return found if covered == high - low and len(found) <= MAX_CELLS else None


def extent(build: Build, place: LocalPlace) -> tuple[int, int] | None:
    """First bit and number of bits of a view, None when its position is not constant."""
    if not isinstance(place.shift, ir.Const):
        return None
    if place.bits is not None:
        return 8 * place.shift.value + place.bits[0], place.bits[1]
    size = size_of(build, place.type)
    return None if size is None or size > 8 else (8 * place.shift.value, 8 * size)


def read(build: Build, place: LocalPlace) -> Typed:
    """The value of a scalar view."""
    type_ = place.type
    found = extent(build, place)
    name = f"`{place.root.name}`"
    if found is None or found[0] < 0:
        return unknown(f"{name} read as another type", type_)
    low, width = found
    pieces = cells(build, place, low, low + width)
    if not pieces:
        return unknown(f"{name} read as another type", type_)
    values = [places.load(build, piece.place) for piece in pieces]
    if not all(value.type.integer or value.type.pointer for value in values) or not (type_.integer or type_.pointer):
        return Typed(ir.Pure("reinterpret", tuple(value.expr for value in values), True), type_)
    total: ir.Expr | None = None
    for piece, value in zip(pieces, values, strict=True):
        bits = value.expr if value.type.pointer else convert(value, CType(f"u{piece.width}")).expr
        moved = piece.start - low
        if moved < 0:
            bits = join(">>", bits, ir.Const(-moved))
        elif moved > 0:
            bits = join("<<", bits, ir.Const(moved))
        total = bits if total is None else join("|", total, bits)
    assert total is not None
    held = pieces[0].width if len(pieces) == 1 else 64
    if place.bits is not None:
        return Typed(join("&", total, ir.Const((1 << width) - 1)), type_)
    return convert(Typed(total, CType(f"u{min(64, held)}")), type_)


def write(build: Build, ctx: Ctx, place: LocalPlace, value: ir.Deferred, span: Span) -> bool:
    """Emits the assignment of a scalar to a view. False when its cells cannot be told."""
    found = extent(build, place)
    if found is None or found[0] < 0:
        return False
    low, width = found
    pieces = cells(build, place, low, low + width)
    if not pieces or not all(piece.place.type.scalar for piece in pieces):
        return False
    integers = (place.type.integer or place.type.pointer > 0) and all(
        piece.place.type.integer or piece.place.type.pointer for piece in pieces
    )
    for piece in pieces:
        inside = piece.start >= low and piece.start + piece.width <= low + width
        if not integers:
            if not inside:
                return False
            places.write(build, ctx, piece.place, _opaque(value), span)
            continue
        places.write(build, ctx, piece.place, _merged(build, piece, place, low, width, value, inside), span)
    return True


def _opaque(value: ir.Deferred) -> ir.Deferred:
    return ir.Deferred(lambda: ir.Pure("reinterpret", (value.expr,), True))


def _merged(
    build: Build, piece: Cell, place: LocalPlace, low: int, width: int, value: ir.Deferred, inside: bool
) -> ir.Deferred:
    """The new value of one cell."""
    old = None if inside else places.load(build, piece.place)

    def make() -> ir.Expr:
        new = convert(Typed(value.expr, place.type), U64 if place.type.integer else place.type).expr
        if piece.start > low:
            new = join(">>", new, ir.Const(piece.start - low))
        if old is None:
            return convert(Typed(new, U64), piece.place.type).expr
        shift = max(0, low - piece.start)
        count = min(width, piece.width - shift)
        mask = (1 << count) - 1
        fresh = join("<<", join("&", new, ir.Const(mask)), ir.Const(shift))
        kept = wrap(~(mask << shift), f"u{piece.width}")
        rest = join("&", convert(old, CType(f"u{piece.width}")).expr, ir.Const(kept))
        return convert(Typed(join("|", rest, fresh), CType(f"u{piece.width}")), piece.place.type).expr

    return ir.Deferred(make)


__all__ = ["cells", "extent", "read", "ready", "storage", "write"]
