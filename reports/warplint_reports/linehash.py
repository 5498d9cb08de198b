"""`primaryLocationLineHash`, the identity that GitHub code scanning gives an alert's line.

Its upload action derives it from the 100 UTF-16 units that follow the start of a line, spaces and tabs left out, CR and
CRLF read as LF, the end of the file as 0xFFFF and zeros after it: their base-37 value modulo 2^64 in hexadecimal, a
colon, and the how-manieth line with that value this is. Written by us as well, uploads that bypass the action do not
make every alert a new one.
"""

from __future__ import annotations

from collections.abc import Iterable

WINDOW = 100
BASE = 37
_MASK = (1 << 64) - 1


def line_hashes(data: bytes, lines: Iterable[int]) -> dict[int, str]:
    """The hashes of the given 1-based lines; lines past the end of the file have none."""
    wanted = set(lines)
    if not wanted:
        return {}
    last = max(wanted)
    text = data.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    text = text.replace(" ", "").replace("\t", "")
    units = text.encode("utf-16-le", "surrogatepass") + b"\xff\xff" + bytes(2 * WINDOW)
    wide = not text.isascii()
    # Two lines have one value when their windows are equal, so that occurrences are counted without hashing each line.
    seen: dict[bytes, int] = {}
    found: dict[int, str] = {}
    at = 0
    for number, line in enumerate(text.split("\n"), 1):
        window = units[at : at + 2 * WINDOW]
        nth = seen[window] = seen.get(window, 0) + 1
        if number in wanted:
            found[number] = f"{_value(window):x}:{nth}"
        if number == last:
            break
        at += (len(line.encode("utf-16-le", "surrogatepass")) if wide else 2 * len(line)) + 2
    return found


def _value(window: bytes) -> int:
    value = 0
    for unit in memoryview(window).cast("H"):
        value = (value * BASE + unit) & _MASK
    return value
