"""Settings from a file: `warplint.toml`, or `[tool.warplint]` in pyproject.toml, found upwards from the first input.

    arch = "sm_100a"
    block = "256"             # or [128, 2, 1]
    ignore = ["dispatch"]
    level = "note"
    [defines]
    STAGES = 4

    [[overrides]]             # in pyproject.toml: [[tool.warplint.overrides]]
    path = "artifacts/attention_*.cu"
    cluster = [2, 1, 1]

Command-line options win over the file; an override wins over the file's own keys, a later override over an earlier one.
An unknown key is an error: a setting that is silently not read is worse than none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from warplint.engine import Settings
from warplint.finding import Level

PATHS = ("tma", "tcgen05", "wgmma", "mfma")
"""Fast paths that `expect` may name."""
LAUNCH_KEYS = ("arch", "block", "cluster", "smem", "registers", "defines", "expect", "fragment")
KEYS = (*LAUNCH_KEYS, "select", "ignore", "level", "max-bytes", "fail-on", "strict", "overrides")
OVERRIDE_KEYS = ("path", *LAUNCH_KEYS)
_ARCH = re.compile(r"(sm_\d{2,3}[af]?|gfx[0-9a-f]{3,4})\Z")


class ConfigError(ValueError):
    """A setting that cannot be used; the message names the file, the key and what is expected."""


class Config(Struct, frozen=True):
    """What a configuration file says."""

    path: str = ""
    """The file, for messages; empty when there is none."""
    root: str = "."
    """Folder that override patterns are relative to."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Parsed values by the names of `Settings`, and `fail_on`, `strict`."""
    overrides: tuple[tuple[str, Mapping[str, Any]], ...] = ()

    def settings_for(self, path: str, base: Settings, explicit: Mapping[str, Any]) -> Settings:
        """`base` with this file's values, the overrides that match `path`, and the command line's on top."""
        values = {key: value for key, value in self.values.items() if key in Settings.__struct_fields__}
        if self.overrides:
            relative = os.path.relpath(os.path.abspath(path), self.root).replace(os.sep, "/")
            for pattern, more in self.overrides:
                if _matches(relative, pattern):
                    values.update(more)
        values.update(explicit)
        return replace(base, **values) if values else base


def find(start: str) -> str | None:
    """The nearest `warplint.toml`, or pyproject.toml with a `[tool.warplint]` table, at or above a file or folder."""
    folder = os.path.abspath(start)
    if not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    while True:
        own = os.path.join(folder, "warplint.toml")
        if os.path.isfile(own):
            return own
        project = os.path.join(folder, "pyproject.toml")
        try:
            with open(project, "rb") as file:
                if b"[tool.warplint" in file.read():
                    return project
        except OSError:
            pass
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def load(path: str) -> Config:
    """Read a configuration file. Raises ConfigError."""
    import tomllib

    shown = os.path.relpath(path) if not os.path.relpath(path).startswith("..") else path
    try:
        with open(path, "rb") as file:
            table: Any = tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"{shown}: cannot be read: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{shown}: not valid TOML: {error}") from error
    if os.path.basename(path) == "pyproject.toml":
        table = table.get("tool", {}).get("warplint", {})
    if not isinstance(table, dict):
        raise ConfigError(f"{shown}: tool.warplint must be a table")
    values = _values(table, KEYS, shown)
    overrides = []
    raw = table.get("overrides", [])
    if not isinstance(raw, list) or not all(isinstance(item, dict) for item in raw):
        raise ConfigError(f"{shown}: overrides must be an array of tables ([[overrides]])")
    for number, item in enumerate(raw, 1):
        where = f"{shown}: override {number}"
        if not isinstance(item.get("path"), str) or not item["path"]:
            raise ConfigError(f'{where}: needs `path`, a pattern such as "artifacts/*.cu"')
        overrides.append((item["path"], _values(item, OVERRIDE_KEYS, where)))
    return Config(shown, os.path.dirname(os.path.abspath(path)), values, tuple(overrides))


def _values(table: Mapping[str, Any], allowed: Sequence[str], where: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("_", "-")
        if name not in allowed:
            from difflib import get_close_matches

            near = get_close_matches(name, allowed, n=1)
            hint = f"; did you mean `{near[0]}`?" if near else f" (known: {', '.join(allowed)})"
            raise ConfigError(f"{where}: unknown key `{key}`{hint}")
        if name in ("path", "overrides"):
            continue
        try:
            values[name.replace("-", "_")] = _PARSERS[name](value)
        except ValueError as error:
            raise ConfigError(f"{where}: {key}: {error}") from error
    return values


# ------------------------------------------------------------------------------- values, as file or option
def arch(value: Any) -> str:
    """`sm_90a`, `gfx942`. Raises ValueError."""
    text = value.strip().lower() if isinstance(value, str) else ""
    if text and not _ARCH.match(text):
        raise ValueError(f"{value!r} is no architecture; write it like sm_90a, sm_100a or gfx942")
    return text


def dims(value: Any) -> tuple[int, int, int]:
    """A block or cluster shape: 256, "256", "128x2", "128,2,1", [128, 2]. Raises ValueError."""
    items: Any = value
    if isinstance(value, str):
        items = re.split(r"\s*[x,×]\s*", value.strip())
    elif isinstance(value, int) and not isinstance(value, bool):
        items = [value]
    try:
        numbers = [int(item) for item in items]
    except (TypeError, ValueError):
        numbers = []
    if not 1 <= len(numbers) <= 3 or any(n < 1 or n > 65535 for n in numbers):
        raise ValueError(f"{value!r} is no shape; write 256, 128x2 or 128,2,1")
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


def block(value: Any) -> tuple[int, int, int]:
    """A block shape of at most 1024 threads. Raises ValueError."""
    shape = dims(value)
    if shape[0] * shape[1] * shape[2] > 1024:
        raise ValueError(f"{value!r} has {shape[0] * shape[1] * shape[2]} threads; a block has at most 1024")
    return shape


def cluster(value: Any) -> tuple[int, int, int]:
    """A cluster shape of at most 16 CTAs. Raises ValueError."""
    shape = dims(value)
    if shape[0] * shape[1] * shape[2] > 16:
        raise ValueError(f"{value!r} has {shape[0] * shape[1] * shape[2]} CTAs; a cluster has at most 16")
    return shape


_SUFFIX = {"": 1, "b": 1, "k": 1024, "kb": 1024, "kib": 1024, "m": 1 << 20, "mb": 1 << 20, "mib": 1 << 20}


def size(value: Any) -> int:
    """A number of bytes: 232448, "227K", "16M". Raises ValueError."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    match = re.fullmatch(r"\s*(\d{1,15})\s*([a-zA-Z]*)\s*", value) if isinstance(value, str) else None
    if match is None or match[2].lower() not in _SUFFIX:
        raise ValueError(f"{value!r} is no size; write bytes, or a number with K or M")
    return int(match[1]) * _SUFFIX[match[2].lower()]


def defines(value: Any) -> tuple[tuple[str, str], ...]:
    """Macros: a table {NAME = value} or a list of "NAME=value" (a bare NAME is 1). Raises ValueError."""
    if isinstance(value, Mapping):
        pairs = [(str(name), str(int(item) if isinstance(item, bool) else item)) for name, item in value.items()]
    elif isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
        pairs = []
        for item in value:
            name, equals, text = item.partition("=")
            pairs.append((name.strip(), text.strip() if equals else "1"))
    else:
        raise ValueError('write a table, or a list such as ["STAGES=4"]')
    for name, _ in pairs:
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise ValueError(f"{name!r} is no macro name; write NAME=VALUE")
    return tuple(dict(pairs).items())


def names(value: Any) -> tuple[str, ...]:
    """A list of strings, or one with commas. Raises ValueError."""
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, (list, tuple)) or not all(isinstance(item, str) for item in items):
        raise ValueError("write a list of names")
    return tuple(dict.fromkeys(item.strip() for item in items if item.strip()))


def expect(value: Any) -> tuple[str, ...]:
    """Names of fast paths. Raises ValueError."""
    chosen = tuple(name.lower() for name in names(value))
    for name in chosen:
        if name not in PATHS:
            raise ValueError(f"{name!r} is no known path; one of {', '.join(PATHS)}")
    return chosen


def level(value: Any) -> Level:
    """note, warning or error. Raises ValueError."""
    try:
        return Level(str(value).lower())
    except ValueError:
        raise ValueError(f"{value!r} is no level; one of note, warning, error") from None


def flag(value: Any) -> bool:
    """True or false. Raises ValueError."""
    if not isinstance(value, bool):
        raise ValueError("write true or false")
    return value


def registers(value: Any) -> int:
    """Registers per thread, 1..255. Raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 255:
        raise ValueError(f"{value!r} is no register count; 1 to 255")
    return value


_PARSERS = {
    "arch": arch,
    "block": block,
    "cluster": cluster,
    "smem": size,
    "registers": registers,
    "defines": defines,
    "expect": expect,
    "fragment": flag,
    "select": names,
    "ignore": names,
    "level": level,
    "max-bytes": size,
    "fail-on": level,
    "strict": flag,
}


def _matches(path: str, pattern: str) -> bool:
    """Shell patterns with `**` for any folders; a pattern without a slash matches the file's name."""
    if "/" not in pattern:
        path = path.rpartition("/")[2]
    out = []
    at = 0
    while at < len(pattern):
        if pattern.startswith("**/", at):
            out.append("(?:[^/]+/)*")
            at += 3
        elif pattern.startswith("**", at):
            out.append(".*")
            at += 2
        elif pattern[at] == "*":
            out.append("[^/]*")
            at += 1
        elif pattern[at] == "?":
            out.append("[^/]")
            at += 1
        else:
            out.append(re.escape(pattern[at]))
            at += 1
    return re.fullmatch("".join(out), path) is not None
