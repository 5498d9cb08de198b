"""Packs of name rows from outside: a TOML text becomes a `Pack`, or a `PackError` that says where it is wrong.

    [pack]
    name = "acme"                  # optional: else the file's name
    about = "Kernels of the Acme generator"
    target = "nvidia"              # or "amd"; left out: both

    [rows]
    "acme::wait" = "mbarrier.try_wait barrier:0 parity:1 +blocking"

How rows read is told in `name_rows`, and by `docs/DIALECTS.md` at length.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

TARGETS = ("any", "nvidia", "amd")
KEYS = ("name", "about", "target")
MAX_ROWS = 20_000
MAX_BYTES = 4 << 20


class PackError(ValueError):
    """A pack that cannot be used; the message names the file, the row and what is expected."""


class Pack(Struct, frozen=True):
    """Rows of a pack, already checked. It holds all there is to know: nothing is read again later."""

    name: str
    rows: tuple[tuple[str, str], ...]
    """Spellings and row, in the order of the file."""
    about: str = ""
    target: str = "any"
    """Of `TARGETS`: the compiler whose sources it is for."""
    origin: str = ""
    """The file, or the entry point, for people."""


def parse(text: str, origin: str, default_name: str) -> Pack:
    """A pack from its TOML text; `origin` stands in front of messages. Raises PackError for the first thing wrong."""
    import tomllib

    if len(text) > MAX_BYTES:
        raise PackError(f"{origin}: larger than {MAX_BYTES >> 20} MiB")
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PackError(f"{origin}: not valid TOML: {error}") from error
    for key in table:
        if key not in ("pack", "rows"):
            raise PackError(f"{origin}: unknown key `{key}`{_near(key, ('pack', 'rows'))}")
    head = _head(table.get("pack", {}), origin)
    rows = table.get("rows")
    if not isinstance(rows, dict) or not rows:
        raise PackError(f'{origin}: needs a table [rows] with at least one row, "spelling" = "operation role:argument"')
    if len(rows) > MAX_ROWS:
        raise PackError(f"{origin}: more than {MAX_ROWS} rows")
    return Pack(
        head.get("name", default_name),
        tuple(_checked(rows, origin)),
        head.get("about", ""),
        head.get("target", "any"),
        origin,
    )


def _head(head: Any, origin: str) -> dict[str, str]:
    if not isinstance(head, dict):
        raise PackError(f"{origin}: [pack] must be a table")
    for key, value in head.items():
        if key not in KEYS:
            raise PackError(f"{origin}: [pack] has an unknown key `{key}`{_near(key, KEYS)}")
        if not isinstance(value, str) or not value.strip():
            raise PackError(f"{origin}: [pack] {key} must be a text")
    name, target = head.get("name", "pack"), head.get("target", "any")
    if not all(char.isalnum() or char in "_-" for char in name):
        raise PackError(f"{origin}: [pack] name {name!r} may hold letters, digits, `_` and `-` only")
    if target not in TARGETS:
        raise PackError(f"{origin}: [pack] target {target!r} is none of {', '.join(TARGETS)}{_near(target, TARGETS)}")
    return head


def _checked(rows: Mapping[str, Any], origin: str) -> list[tuple[str, str]]:
    from warplint.dialects.row_check import problem

    found: list[tuple[str, str]] = []
    where: dict[str, str] = {}
    for key, line in rows.items():
        place = f'{origin}: row "{key}"'
        if not isinstance(line, str):
            hint = " (a spelling with dots or colons stands in quotes)" if isinstance(line, dict) else ""
            raise PackError(f"{place}: a row is a text{hint}")
        wrong = problem(key, line.strip())
        if wrong:
            raise PackError(f"{place}: {wrong}")
        for spelling in key.split():
            if spelling in where:
                raise PackError(f'{place}: `{spelling}` stands in row "{where[spelling]}" already')
            where[spelling] = key
        found.append((" ".join(key.split()), line.strip()))
    return found


def _near(word: str, known: tuple[str, ...]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(word, known, n=1)
    return f"; did you mean `{near[0]}`?" if near else f" (known: {', '.join(known)})"
