"""The names of files in reports: relative to a root, and stable where build systems make up new ones every time.

Whoever follows a finding from run to run (code scanning, a baseline) knows a file by its name. `--path-map OLD=NEW`
gives generated files a name that stays: OLD is a prefix, or a pattern whose `*` and `?` are filled into NEW in order.

    build/=artifacts/
    /scratch/jit-*/kernel_*.cu=generated/kernel.cu
    */gemm_????????.cu=*/gemm.cu
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from warplint.discover import STDIN, Input, display_name


class PathError(ValueError):
    """A file that has no usable name; the message says what to pass."""


_HASH = re.compile(r"(?<![0-9A-Za-z])(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{8,}(?![0-9A-Za-z])")
_TEMPORARY = re.compile(r"(?:^|/)(?:tmp[a-z0-9_]{6,}|tmp\.[A-Za-z0-9]{6,})(?:/|$|\.)")


def named(inputs: Iterable[Input], root: str | None, pairs: Sequence[tuple[str, str]]) -> list[Input]:
    """The inputs under their names relative to `root` (None: the working directory), mapped by `pairs`.

    Raises PathError where two files would have one name, or where a root was given and a file lies outside it.
    """
    found = []
    for item in inputs:
        if item.path == STDIN:
            found.append(item)
            continue
        absolute = os.path.abspath(item.path).replace(os.sep, "/")
        name = display_name(item.path, root) if root is not None else item.name
        mapped = _mapped([item.name, name, absolute], pairs)
        found.append(replace(item, name=mapped or name))
    taken: dict[str, str] = {}
    for item in found:
        other = taken.setdefault(item.name, item.path)
        if other != item.path and not item.problem:
            raise PathError(
                f"{other} and {item.path} would both be called {item.name}; make --path-map tell them apart"
            )
    return found


def outside(inputs: Iterable[Input], root: str | None) -> PathError | None:
    """What to say when a file's name is not relative to the root: reports that identify files by name need that."""
    for item in inputs:
        if item.path != STDIN and not item.problem and is_absolute(item.name):
            where = root or "the working directory"
            text = f"{item.path} lies outside {where}, and this report names files relative to it; pass --root DIR "
            return PathError(text + "or --path-map OLD=NEW")
    return None


def is_absolute(name: str) -> bool:
    """Whether a name in a report is no relative path below the root."""
    return name.startswith(("/", "../")) or name == ".." or bool(re.match(r"[A-Za-z]:[\\/]", name))


def unstable(names: Iterable[str]) -> list[str]:
    """The names that look as if the next run had others: temporary folders and content hashes."""
    temporary = tempfile.gettempdir().replace(os.sep, "/").rstrip("/") + "/"
    return [name for name in names if name.startswith(temporary) or _TEMPORARY.search(name) or _HASH.search(name)]


def _mapped(names: Sequence[str], pairs: Sequence[tuple[str, str]]) -> str:
    """The new name by the first pair that fits one of the names; empty when none does."""
    for old, new in pairs:
        for name in names:
            fitted = _by_pattern(name, old, new) if any(mark in old for mark in "*?") else _by_prefix(name, old, new)
            if fitted is not None:
                clean = os.path.normpath(fitted).replace(os.sep, "/")
                if clean == ".":
                    raise PathError(f"--path-map {old}={new} leaves no name for {name}")
                return clean
    return ""


def _by_prefix(name: str, old: str, new: str) -> str | None:
    if name == old:
        return new
    old = old if old.endswith("/") else f"{old}/"
    if not name.startswith(old):
        return None
    return f"{new.rstrip('/')}/{name[len(old) :]}" if new else name[len(old) :]


def _by_pattern(name: str, old: str, new: str) -> str | None:
    match = re.fullmatch("".join(_pieces(old)), name)
    if match is None:
        return None
    fills = iter(match.groups())
    return re.sub(r"\*\*|\*|\?+", lambda mark: next(fills, mark[0]), new)


def _pieces(pattern: str) -> Iterator[str]:
    """`**` stands for anything, `*` for anything but a slash, a run of `?` for as many characters; each is a group."""
    for match in re.finditer(r"\*\*|\*|\?+|[^*?]+", pattern):
        piece = match[0]
        if piece == "**":
            yield "(.*)"
        elif piece == "*":
            yield "([^/]*)"
        elif piece[0] == "?":
            yield f"([^/]{{{len(piece)}}})"
        else:
            yield re.escape(piece)
