"""Source text as bytes: spans, line tables, and the limits under which a file is read at all.

Offsets are byte offsets into the file exactly as it lies on disk; nothing in the analyzer ever changes them
(the syntax room masks bytes, it never moves them). Lines and columns are 1-based.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property

from msgspec import Struct

DEFAULT_MAX_BYTES = 16 * 1024 * 1024


class Span(Struct, frozen=True):
    """A half-open range of byte offsets `[start, end)` in one file."""

    start: int
    end: int


class SourceFile(Struct, frozen=True, dict=True):
    """One file's bytes under the name by which reports call it (relative, with forward slashes)."""

    path: str
    data: bytes

    @cached_property
    def line_starts(self) -> list[int]:
        """Byte offset of the first byte of each line; `\\n`, `\\r\\n` and a lone `\\r` all end a line."""
        starts = [0]
        data = self.data
        if b"\r" not in data:
            find, at = data.find, data.find(b"\n")
            while at != -1:
                starts.append(at + 1)
                at = find(b"\n", at + 1)
            return starts
        at, size = 0, len(data)
        while at < size:
            byte = data[at]
            at += 1
            if byte == 13 and at < size and data[at] == 10:
                at += 1
            if byte in (10, 13):
                starts.append(at)
        return starts

    def line_of(self, offset: int) -> int:
        """The 1-based line that holds the byte at `offset`."""
        return bisect_right(self.line_starts, offset)

    def position(self, offset: int) -> tuple[int, int]:
        """1-based line and column of `offset`; columns count UTF-16 units, as SARIF viewers do."""
        line = self.line_of(offset)
        prefix = self.data[self.line_starts[line - 1] : offset].decode("utf-8", "replace")
        return line, len(prefix.encode("utf-16-le")) // 2 + 1

    def line_text(self, line: int) -> str:
        """The text of a 1-based line without its line ending; empty past the end of the file."""
        starts = self.line_starts
        if not 1 <= line <= len(starts):
            return ""
        end = starts[line] if line < len(starts) else len(self.data)
        return self.data[starts[line - 1] : end].decode("utf-8", "replace").rstrip("\r\n")

    def text(self, span: Span) -> str:
        """The text of a span; bytes that are not UTF-8 become U+FFFD."""
        return self.data[span.start : span.end].decode("utf-8", "replace")
