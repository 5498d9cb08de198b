"""Headers that a file includes and that are found on disk: their text is put behind the file's own.

`#include "x.h"` is looked for beside the file that says so, then in the folders of `-I`; `#include <x.h>` only there.
Nothing outside these folders is ever opened: an absolute path, or one that leaves them by `..` or by a link, is not
followed. Each header is taken once, nearest first, within fixed bounds. For some libraries we bring a few definitions
ourselves (`dialects/headers`), which serve when a header of that name is not found.

What is taken is decided before anything is parsed; which of it counts, and where, the preprocessor says.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import sha256

from msgspec import Struct

from warplint.patterns import late
from warplint.source import Part, SourceFile

MAX_BYTES = 2 << 20
"""Of all headers of a file together."""
MAX_FILES = 300
MAX_DEPTH = 24
"""Headers that include headers."""

_INCLUDE = late(rb"#[ \t]*include[ \t]*([<\"])([^>\"\r\n]{1,400})[>\"]")
_OURS = os.path.join(os.path.dirname(__file__), "dialects", "headers")


class Headers(Struct, frozen=True):
    """A file with its headers."""

    source: SourceFile
    read: tuple[tuple[str, str], ...] = ()
    """As `FileReport.read`: every path that was looked at, with the SHA-256 of its content (empty: there is none)."""
    left: str = ""
    """Why some headers were not read; empty when none was left out."""


def with_headers(source: SourceFile, folder: str, include: tuple[str, ...]) -> Headers:
    """A file and the headers it includes. `folder` is the file's own ("" when it has none). Never raises."""
    if b"include" not in source.data or next(_INCLUDE.finditer(source.data), None) is None:
        return Headers(source)
    return _Reader(source, folder, include).run()


class _Reader:
    """Reads the headers of one file, breadth first: those nearest to the file are within the bounds."""

    def __init__(self, source: SourceFile, folder: str, include: tuple[str, ...]) -> None:
        self.source = source
        self.folder = folder
        self.include = include
        self.roots = [os.path.realpath(root) for root in (folder, *include) if root]
        self.files: list[SourceFile] = []
        self.folders: list[str] = []
        self.known: dict[str, int] = {}
        """Real path (or our own name) to number."""
        self.read: dict[str, str] = {}
        self.total = 0
        self.left = ""

    def run(self) -> Headers:
        included: dict[tuple[int, str], int] = {}
        level = [(-1, self.source.data, self.folder)]
        for _ in range(MAX_DEPTH):
            following: list[tuple[int, bytes, str]] = []
            for number, data, folder in level:
                for match in _INCLUDE.finditer(data):
                    name = match[2].decode("utf-8", "replace").strip()
                    if (number, name) in included:
                        continue
                    before = len(self.files)
                    found = self.find(name, folder if match[1] == b'"' else "")
                    if found is not None:
                        included[number, name] = found
                        if len(self.files) > before:
                            following.append((found, self.files[found].data, self.folders[found]))
            if not following:
                break
            level = following
        else:
            self.left = self.left or f"nested deeper than {MAX_DEPTH}"
        read = tuple(self.read.items())
        if not self.files:
            return Headers(self.source, read, self.left)
        pieces = [self.source.data]
        parts: list[Part] = []
        at = len(self.source.data)
        for file in self.files:
            pieces += [b"\n", file.data]
            parts.append(Part(at + 1, at + 1 + len(file.data), file))
            at += 1 + len(file.data)
        whole = SourceFile(self.source.path, b"".join(pieces), tuple(parts), included)
        return Headers(whole, read, self.left)

    def find(self, name: str, folder: str) -> int | None:
        """The number of the header that a name means where `folder` is looked in first; None when there is none."""
        if os.path.isabs(name) or "\\" in name or "\0" in name or ":" in name:
            return None
        for root in dict.fromkeys((folder, *self.include)):
            if not root:
                continue
            path = os.path.normpath(os.path.join(root, name))
            if not os.path.isfile(path):
                self.read.setdefault(path, "")
                continue
            real = os.path.realpath(path)
            if real in self.known:
                return self.known[real]
            if any(real.startswith(allowed.rstrip(os.sep) + os.sep) for allowed in self.roots):
                return self._take(path, real)
        return self._ours(name)

    def _take(self, path: str, real: str) -> int | None:
        if len(self.files) >= MAX_FILES:
            self.left = f"more than {MAX_FILES} headers"
            return None
        try:
            with open(path, "rb") as file:
                data = file.read(MAX_BYTES + 1)
        except OSError:
            return None
        if self.total + len(data) > MAX_BYTES:
            self.left = f"more than {MAX_BYTES >> 20} MiB of headers"
            return None
        if data.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in data:
            return None
        self.read[path] = sha256(data).hexdigest()
        return self._add(real, self._shown(path), data, os.path.dirname(path) or os.curdir)

    def _shown(self, path: str) -> str:
        """How reports call a header: beside the file's own name if it lies below its folder, else as it was found."""
        if self.folder:
            relative = os.path.relpath(path, self.folder)
            if not relative.startswith(os.pardir):
                base = os.path.dirname(self.source.path)
                return os.path.join(base, relative).replace(os.sep, "/")
        relative = os.path.relpath(path)
        return (path if relative.startswith(os.pardir) else relative).replace(os.sep, "/")

    def _ours(self, name: str) -> int | None:
        """The definitions that we bring for a header of that name."""
        whole = name.replace("/", "__")
        for known in (whole, f"{whole}.cuh", name.rpartition("/")[2]):  # `cuda/pipeline` has no suffix of its own
            if known in self.known:
                return self.known[known]
            if known in _own_names():
                with open(os.path.join(_OURS, known), "rb") as file:
                    return self._add(known, f"<warplint>/{known}", file.read(), "")
        return None

    def _add(self, key: str, shown: str, data: bytes, folder: str) -> int:
        self.known[key] = number = len(self.files)
        self.files.append(SourceFile(shown, data))
        self.folders.append(folder)
        self.total += len(data)
        return number


_names: list[frozenset[str]] = []


def _own_names() -> frozenset[str]:
    if not _names:
        _names.append(frozenset(_listed()))
    return _names[0]


def _listed() -> Iterator[str]:
    try:
        with os.scandir(_OURS) as found:
            yield from (entry.name for entry in found if entry.is_file())
    except OSError:
        return
