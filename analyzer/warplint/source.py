"""Source text as bytes: spans, line tables, and the limits under which a file is read at all.

Offsets are byte offsets into the file exactly as it lies on disk; nothing in the analyzer ever changes them
(the syntax room masks bytes, it never moves them). Lines and columns are 1-based. Headers that were read stand behind
the file's own bytes (`SourceFile.parts`), so that one offset says which file and where.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from functools import cached_property

from msgspec import Struct

DEFAULT_MAX_BYTES = 16 * 1024 * 1024


class Span(Struct, frozen=True):
    """A half-open range of byte offsets `[start, end)` in one file."""

    start: int
    end: int


class Part(Struct, frozen=True):
    """A header behind a file's own bytes: where it begins and ends there, and the header itself."""

    start: int
    end: int
    file: SourceFile


class SourceFile(Struct, frozen=True, dict=True):
    """One file's bytes under the name by which reports call it (relative, with forward slashes)."""

    path: str
    data: bytes
    parts: tuple[Part, ...] = ()
    """Headers whose bytes stand behind the file's own in `data`."""
    included: Mapping[tuple[int, str], int] = {}
    """(number of the part that includes, -1 for the file itself; name as written) to the number of the part meant."""

    origin: SourceFile | None = None
    """Set for text that was put together from pieces of another file (an excerpt in a kernel's frame)."""
    pieces: tuple[tuple[int, int, int], ...] = ()
    """Where they stand: start, end, and the offset in `origin` at which the piece begins."""

    @property
    def own(self) -> int:
        """Where the file's own bytes end."""
        return self.parts[0].start if self.parts else len(self.data)

    def at(self, offset: int) -> tuple[SourceFile, int]:
        """The file that the byte at `offset` stands in, and its offset there."""
        parts = self.parts
        if self.origin is not None:
            for start, end, begin in self.pieces:
                if start <= offset < end:
                    return self.origin, offset - start + begin
            return self.origin, len(self.origin.data) if self.pieces and offset >= self.pieces[0][1] else 0
        if not parts or offset < parts[0].start:
            return self, offset
        part = parts[bisect_right(parts, offset, key=_start) - 1]
        return part.file, min(offset - part.start, len(part.file.data))

    def called(self, path: str) -> SourceFile:
        """The file or header of that name; the file itself for any other name."""
        if self.origin is not None:
            return self.origin
        return next((part.file for part in self.parts if part.file.path == path), self)

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
        """The 1-based line that holds the byte at `offset`, in the file that it stands in."""
        if self.origin is not None or (self.parts and offset >= self.parts[0].start):
            file, offset = self.at(offset)
            return bisect_right(file.line_starts, offset)
        return bisect_right(self.line_starts, offset)

    def position(self, offset: int) -> tuple[int, int]:
        """1-based line and column of `offset` in the file that it stands in; columns count UTF-16 units, as SARIF
        viewers do.
        """
        if self.origin is not None or (self.parts and offset >= self.parts[0].start):
            file, offset = self.at(offset)
            return file.position(offset)
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


def _start(part: Part) -> int:
    return part.start
