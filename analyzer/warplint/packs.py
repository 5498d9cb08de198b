"""Dialect packs that a user brings: TOML files named in the settings, and packages that announce themselves.

A package announces packs by an entry point of the group `warplint.dialects` whose value is an importable package; each
`*.toml` in that package's folder is a pack. The package is located, not executed.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import lru_cache

from warplint.dialects.packs import Pack, PackError, parse

ENTRY_POINT_GROUP = "warplint.dialects"


def load(path: str, shown: str = "") -> Pack:
    """The pack in a file, which messages call `shown`. Raises PackError."""
    shown = shown or path
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        raise PackError(f"{shown}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise PackError(f"{shown}: is not UTF-8") from error
    stem = os.path.basename(path).partition(".")[0]
    return parse(text, shown, "".join(char if char.isalnum() or char in "_-" else "_" for char in stem))


def installed() -> tuple[Pack, ...]:
    """The packs of installed packages, by entry point and file name. Raises PackError for one that is broken."""
    return _installed(tuple(sys.path))


@lru_cache(maxsize=4)
def _installed(_path: tuple[str, ...]) -> tuple[Pack, ...]:
    from warplint.registry import entry_points

    return tuple(pack for name, target in entry_points(ENTRY_POINT_GROUP) for pack in _of_package(name, target))


def _of_package(name: str, target: str) -> tuple[Pack, ...]:
    from importlib.util import find_spec

    module = target.partition(":")[0]
    where = f"dialect pack {name!r} ({target})"
    try:
        spec = find_spec(module)
    except (ImportError, ValueError) as error:
        raise PackError(f"{where}: the package cannot be found: {error}") from error
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    if not folders:
        raise PackError(f"{where}: there is no package {module!r}; the entry point names a package that holds *.toml")
    packs = tuple(load(path, f"{name}: {os.path.basename(path)}") for path in _tables(folders))
    if not packs:
        raise PackError(f"{where}: the package holds no *.toml")
    return packs


def _tables(folders: list[str]) -> Iterator[str]:
    for folder in folders:
        try:
            names = sorted(os.listdir(folder))
        except OSError:
            continue
        yield from (os.path.join(folder, name) for name in names if name.endswith(".toml"))
