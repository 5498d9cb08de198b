"""The thread-participation strip: which lanes of which warps are in a set, as a small inline SVG.

Each warp is a box of lanes, eight to a row (wave64: sixteen); warps stand side by side, sixteen to a line. A full
warp is one filled box; in a part-filled one each lane is drawn. Where one unknown lane of a warp is elected, the box is
outlined with a dot in it; a set that is an upper bound is drawn pale.
"""

from __future__ import annotations

from markupsafe import Markup

LANE = 2
GAP = 2
WARPS_PER_LINE = 16
MAX_THREADS = 1024


def strip(mask: str, count: int, total: int, warp_size: int, certain: bool) -> Markup:
    """The drawing of the set `mask` (hexadecimal) in a block of `total` threads; empty where it cannot be drawn.

    `count` below the number of set bits means that one lane of each warp in the set is elected.
    """
    threads = _parse(mask)
    if threads is None or not 0 < total <= MAX_THREADS or threads >> total:
        return Markup()
    columns = 8 if warp_size == 32 else 16
    rows = warp_size // columns
    width, height = columns * LANE, rows * LANE
    warps = (total + warp_size - 1) // warp_size
    elected = 0 < count < threads.bit_count()
    full = (1 << warp_size) - 1
    on: list[str] = []
    off: list[str] = []
    dots: list[str] = []
    for warp in range(warps):
        x = (warp % WARPS_PER_LINE) * (width + GAP)
        y = (warp // WARPS_PER_LINE) * (height + GAP)
        box = f"M{x} {y}h{width}v{height}h-{width}z"
        off.append(box)
        lanes = threads >> (warp * warp_size) & full
        if not lanes:
            continue
        if elected:
            dots.append(f"M{x + width // 2 - 2} {y + height // 2 - 2}h4v4h-4z")
        if lanes == full:
            on.append(box)
        else:
            on.extend(_lanes(lanes, x, y, columns, rows))
    across = min(warps, WARPS_PER_LINE) * (width + GAP) - GAP
    down = ((warps + WARPS_PER_LINE - 1) // WARPS_PER_LINE) * (height + GAP) - GAP
    kind = " e" if elected else "" if certain else " u"
    return Markup(
        f'<svg class="strip{kind}" width="{across}" height="{down}" viewBox="0 0 {across} {down}" aria-hidden="true">'
        f'<path class="off" d="{"".join(off)}"/><path class="on" d="{"".join(on)}"/>'
        + (f'<path class="dot" d="{"".join(dots)}"/>' if dots else "")
        + "</svg>"
    )


def _parse(mask: str) -> int | None:
    try:
        return int(mask, 16) if len(mask) <= MAX_THREADS // 4 + 1 else None
    except ValueError:
        return None


def _lanes(lanes: int, x: int, y: int, columns: int, rows: int) -> list[str]:
    """Runs of set lanes, row by row."""
    out = []
    for row in range(rows):
        column = 0
        while column < columns:
            length = 0
            while column + length < columns and lanes >> (row * columns + column + length) & 1:
                length += 1
            if length:
                run = length * LANE
                out.append(f"M{x + column * LANE} {y + row * LANE}h{run}v{LANE}h-{run}z")
            column += length or 1
    return out
