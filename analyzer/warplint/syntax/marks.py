"""Marks of what was blanked, and small looks at masked text that others share."""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from warplint.patterns import late
from warplint.syntax.ast import Macro, ParseGap

BLANK = bytes(byte if byte in b"\r\n" else 32 for byte in range(256))
SPACE = b" \t\r\n\f\v"
_PARENS = late(rb"[()]")
PAREN_REACH = 1 << 16
_WRITTEN_ATTRIBUTE = late(r"__(launch_bounds|cluster_dims|block_size|maxnreg)__\s*\(")


class Mark(Struct, frozen=True):
    """Text that was blanked: what it was, where, and the part that matters (arguments, or the words themselves)."""

    kind: str
    """Of: launch_bounds cluster_dims block_size maxnreg align attribute specifiers string bits."""
    start: int
    end: int
    text: str


class Masked(Struct, frozen=True):
    """A masked file. `text` has the length of the original and the same line ends."""

    text: bytes
    code: bytes
    """`text` with the insides of strings blanked as well: safe to search for words and brackets."""
    marks: tuple[Mark, ...]
    unrolls: dict[int, int]
    """Offset of the statement that follows an unroll pragma -> factor, as `ast.For.unroll` has it."""
    macros: tuple[Macro, ...]
    includes: tuple[str, ...]
    gaps: tuple[ParseGap, ...]
    passes: bool = False
    """As `ast.File.passes`."""


def closing(code: bytes | bytearray, opening: int) -> int:
    """Offset just past the parenthesis that closes the one at `opening`; -1 when it is not within reach."""
    depth = 0
    for match in _PARENS.finditer(code, opening, opening + PAREN_REACH):
        depth += 1 if match[0] == b"(" else -1
        if depth == 0:
            return match.end()
    return -1


def blank(raw: bytes | bytearray) -> bytes:
    """The same number of bytes with everything but line ends turned into spaces."""
    return bytes(raw).translate(BLANK)


def skip_space(code: bytes | bytearray, at: int) -> int:
    """Offset of the first byte from `at` on that is not white space."""
    match = _NOT_SPACE(code, at)
    return match.start() if match else len(code)


_NOT_SPACE: Callable[..., re.Match[bytes] | None] = re.compile(rb"[^ \t\r\n\f\v]").search


def is_word(code: bytes | bytearray, start: int, end: int) -> bool:
    """Whether `[start, end)` is a whole identifier."""
    before, after = code[max(0, start - 1) : start], code[end : end + 1]
    return not (before.isalnum() or before == b"_" or after.isalnum() or after == b"_")


def before(code: bytes | bytearray, at: int) -> int:
    """The last byte before `at` that is not white space, 0 at the beginning of the file."""
    reach = 64
    while at > 0:
        low = max(0, at - reach)
        kept = code[low:at].rstrip(SPACE)
        if kept:
            return kept[-1]
        at, reach = low, reach * 4
    return 0


def opens_statement(code: bytes | bytearray, at: int) -> bool:
    """Whether a statement or declaration can begin at `at`."""
    return before(code, at) in b"\0;{}>):"


def may_qualify(code: bytes | bytearray, at: int) -> bool:
    """Whether a qualifier can stand at `at`: where a statement begins, or after another word."""
    byte = before(code, at)
    return byte in b'\0;{}>):]"' or byte == 95 or chr(byte).isalnum()


def attribute_arguments(marks: list[Mark], kind: str) -> str | None:
    """The arguments of the last mark of `kind`, looked for in macro bodies too; None when there is none."""
    for mark in reversed(marks):
        if mark.kind == kind:
            return mark.text
        if mark.kind == "specifiers":
            for match in _WRITTEN_ATTRIBUTE.finditer(mark.text):
                raw = mark.text.encode("utf-8", "replace")
                end = closing(raw, match.end() - 1)
                if match[1] == kind and end != -1:
                    return raw[match.end() : end - 1].decode("utf-8", "replace")
    return None
