"""From the command line's paths to files: folders are walked, patterns expanded, each file named once.

Names in reports are relative to the working directory with forward slashes, whatever the user typed, so that two runs
over one tree print the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from msgspec import Struct

SUFFIXES = (".cu", ".cuh", ".hip", ".hip.cpp", ".cpp.hip", ".hip.h", ".hip.hpp", ".cu.h", ".cu.cc", ".cu.cpp")
"""File names that a folder is searched for; a file that is named itself is read whatever its suffix."""
SKIPPED_FOLDERS = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", ".tox"})
STDIN = "-"
_LOOKED_FOR = f"looked for *{' *'.join(SUFFIXES[:4])} and the like"


class Input(Struct, frozen=True):
    """A file to read (`path`) under the name that reports print (`name`). `problem` says why there is none."""

    path: str
    name: str
    problem: str = ""


def find(paths: Iterable[str], stdin_name: str = "<stdin>") -> list[Input]:
    """The inputs that `paths` stand for: files, folders (recursively), patterns, and `-` for standard input.

    A path that does not exist, a pattern or folder that yields nothing, become inputs with a problem. The order is the
    order of `paths`, sorted within a folder or pattern; a file that was named twice appears once.
    """
    seen: set[str] = set()
    found: list[Input] = []

    def add(path: str, problem: str = "") -> None:
        key = path if path == STDIN else os.path.realpath(path)
        if key not in seen:
            seen.add(key)
            found.append(Input(path, stdin_name if path == STDIN else display_name(path), problem))

    for path in paths:
        if path == STDIN or os.path.isfile(path):
            add(path)
        elif os.path.isdir(path):
            inside = sorted(_walk(path))
            for name in inside:
                add(name)
            if not inside:
                add(
                    path,
                    "no CUDA or HIP source in this folder (looked for *" + " *".join(SUFFIXES[:4]) + " and the like)",
                )
        elif any(mark in path for mark in "*?["):
            import glob  # rarely needed, and slow to import

            matches = sorted(glob.glob(path, recursive=True))
            files = [name for match in matches for name in (sorted(_walk(match)) if os.path.isdir(match) else [match])]
            for name in files:
                add(name)
            if not matches:
                add(path, "no file matches this pattern")
            elif not files:
                add(path, f"no CUDA or HIP source in the folders that match this pattern ({_LOOKED_FOR})")
        elif os.path.lexists(path):
            # a named pipe or /dev/stdin is readable like a file; a dangling link or a socket fails on reading
            add(path)
        else:
            add(path, "no such file or folder")
    return found


def shard(inputs: Sequence[Input], number: int, count: int) -> list[int]:
    """Positions of the `number`-th (from 1) of `count` parts. Which part a file falls into depends on its name alone,
    so that machines that see the same tree share it out without gaps, whatever else they are given.
    """
    from hashlib import sha256

    def part(item: Input) -> int:
        return int.from_bytes(sha256(item.name.encode("utf-8", "replace")).digest()[:8], "big") % count

    return [position for position, item in enumerate(inputs) if part(item) == number - 1]


def display_name(path: str, root: str | None = None) -> str:
    """`path` relative to `root` (None: the working directory) where it lies below it, with forward slashes, as valid
    Unicode; as it was given where it does not.
    """
    absolute = os.path.abspath(path)
    here = os.getcwd() if root is None else os.path.abspath(root)
    try:
        relative = os.path.relpath(absolute, here)
    except ValueError:  # another drive
        relative = absolute
    if relative == os.pardir or relative.startswith(os.pardir + os.sep):
        relative = absolute if os.path.isabs(path) or root is not None else os.path.normpath(path)
    return os.fsencode(relative.replace(os.sep, "/")).decode("utf-8", "replace")


def _walk(folder: str) -> Iterable[str]:
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in SKIPPED_FOLDERS)
        for name in files:
            if name.lower().endswith(SUFFIXES):
                yield os.path.join(root, name)
