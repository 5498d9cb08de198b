"""Settings from a file: `warplint.toml`, or `[tool.warplint]` in pyproject.toml, found upwards from the first input.

    arch = "sm_100a"
    block = "256"             # or [128, 2, 1]
    ignore = ["dispatch"]
    level = "note"
    [defines]
    STAGES = 4

    [levels]
    smem-race = "warning"

    [[overrides]]             # in pyproject.toml: [[tool.warplint.overrides]]
    path = "artifacts/attention_*.cu"
    cluster = [2, 1, 1]
    ignore = ["dispatch"]

    [[suppress]]
    path = "artifacts/old_*.cu"
    rules = ["smem-race"]
    kernel = "gemm_*"
    reason = "rewritten in the next release"

Command-line options win over the file; an override wins over the file's own keys, a later override over an earlier one;
macros and levels add up, one by one.
An unknown key is an error: a setting that is silently not read is worse than none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from warplint.dialects.packs import Pack, PackError
from warplint.engine import Settings
from warplint.finding import Suppression
from warplint.setting_values import (
    arch,
    block,
    cluster,
    defines,
    expect,
    flag,
    level,
    levels,
    names,
    path_map,
    registers,
    size,
    text,
)

LAUNCH_KEYS = ("arch", "block", "cluster", "smem", "registers", "defines", "expect", "fragment")
RULE_KEYS = ("select", "ignore", "level", "levels")
KEYS = (
    *LAUNCH_KEYS,
    *RULE_KEYS,
    "max-bytes",
    "fail-on",
    "strict",
    "baseline",
    "path-map",
    "include",
    "dialects",
    "overrides",
    "suppress",
)
OVERRIDE_KEYS = ("path", *LAUNCH_KEYS, *RULE_KEYS)
SUPPRESS_KEYS = ("path", "rules", "kernel", "reason")
_ADD_UP = ("defines", "levels")


class ConfigError(ValueError):
    """A setting that cannot be used; the message names the file, the key and what is expected."""


class Config(Struct, frozen=True):
    """What a configuration file says."""

    path: str = ""
    """The file, for messages; empty when there is none."""
    root: str = "."
    """Folder that override patterns are relative to."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Parsed values by the names of `Settings`, and `fail_on`, `strict`, `baseline`, `path_map`."""
    overrides: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    """Path pattern and values, in order."""
    suppress: tuple[tuple[str, Suppression], ...] = ()
    """Path pattern (empty: any file) and entry, in order."""

    def settings_for(self, path: str, base: Settings, explicit: Mapping[str, Any]) -> Settings:
        """`base` with this file's values, the overrides that match `path`, and the command line's on top."""
        values: dict[str, Any] = {}
        for key, value, _ in self.applied(path, explicit):
            if key in Settings.__struct_fields__:
                values[key] = added(values.get(key), value) if key in _ADD_UP else value
        entries = tuple(entry for _, entry in self.suppressions(path))
        if entries:
            values["suppress"] = entries
        return replace(base, **values) if values else base

    def applied(self, path: str, explicit: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
        """What is said about a file, weakest first: key, value, and who says so."""
        for key, value in self.values.items():
            yield key, value, self.path
        relative = self.relative(path) if self.overrides else ""
        for number, (pattern, more) in enumerate(self.overrides, 1):
            if matches(relative, pattern):
                for key, value in more.items():
                    yield key, value, f"{self.path}: override {number} ({pattern})"
        for key, value in explicit.items():
            yield key, value, "command line"

    def suppressions(self, path: str) -> Iterator[tuple[str, Suppression]]:
        """The entries that are about a file, with their path patterns."""
        relative = self.relative(path) if self.suppress else ""
        for pattern, entry in self.suppress:
            if not pattern or matches(relative, pattern):
                yield pattern, entry

    def relative(self, path: str) -> str:
        """`path` relative to the file's folder, with forward slashes."""
        return os.path.relpath(os.path.abspath(path), self.root).replace(os.sep, "/")


def added(old: tuple | None, new: tuple) -> tuple:
    """Pairs of both, in order, a name's last value winning."""
    return tuple({**dict(old or ()), **dict(new)}.items())


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
    for number, item in enumerate(_tables(table, "overrides", shown), 1):
        where = f"{shown}: override {number}"
        if not isinstance(item.get("path"), str) or not item["path"]:
            raise ConfigError(f'{where}: needs `path`, a pattern such as "artifacts/*.cu"')
        overrides.append((item["path"], _values(item, OVERRIDE_KEYS, where)))
    suppress = []
    for number, item in enumerate(_tables(table, "suppress", shown), 1):
        where = f"{shown}: suppress {number}"
        entry = _values(item, SUPPRESS_KEYS, where)
        if not entry.get("rules"):
            raise ConfigError(f'{where}: needs `rules`, a list such as ["smem-race"]')
        if not (entry.get("path") or entry.get("kernel")):
            raise ConfigError(f"{where}: needs `path` or `kernel`; for all files there is `ignore`")
        about = Suppression(entry["rules"], entry.get("kernel", ""), entry.get("reason", ""), where)
        suppress.append((entry.get("path", ""), about))
    folder = os.path.dirname(os.path.abspath(path))
    if "include" in values:
        values["include"] = include(values["include"], folder, f"{shown}: include")
    if "dialects" in values:
        values["dialects"] = dialects(values["dialects"], folder, f"{shown}: dialects")
    return Config(shown, folder, values, tuple(overrides), tuple(suppress))


def _tables(table: Mapping[str, Any], key: str, where: str) -> list[Mapping[str, Any]]:
    raw = table.get(key, [])
    if not isinstance(raw, list) or not all(isinstance(item, dict) for item in raw):
        raise ConfigError(f"{where}: {key} must be an array of tables ([[{key}]])")
    return raw


def _values(table: Mapping[str, Any], allowed: Sequence[str], where: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in table.items():
        name = key.replace("_", "-")
        if name not in allowed:
            from difflib import get_close_matches

            near = get_close_matches(name, allowed, n=1)
            hint = f"; did you mean `{near[0]}`?" if near else f" (known: {', '.join(allowed)})"
            raise ConfigError(f"{where}: unknown key `{key}`{hint}")
        if name in ("overrides", "suppress") or (name == "path" and allowed is OVERRIDE_KEYS):
            continue
        try:
            values[name.replace("-", "_")] = _PARSERS[name](value)
        except ValueError as error:
            raise ConfigError(f"{where}: {key}: {error}") from error
    return values


def include(folders: Sequence[str], root: str, where: str) -> tuple[str, ...]:
    """Folders of headers, relative to `root`; below the working directory their names stay relative, so that a cache
    serves every checkout. Raises ConfigError.
    """
    found = []
    for folder in folders:
        path = os.path.normpath(os.path.join(root, folder))
        if not os.path.isdir(path):
            raise ConfigError(f"{where}: there is no folder {folder!r}")
        relative = os.path.relpath(path)
        found.append(path if relative.startswith(os.pardir) else relative)
    return tuple(dict.fromkeys(found))


def dialects(files: Sequence[str], root: str, where: str) -> tuple[Pack, ...]:
    """The dialect packs in files relative to `root`. Raises ConfigError."""
    from warplint.packs import load as load_pack

    try:
        return tuple(load_pack(os.path.join(root, name), name) for name in files)
    except PackError as error:
        raise ConfigError(f"{where}: {error}") from error


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
    "levels": levels,
    "baseline": text,
    "path-map": path_map,
    "include": names,
    "dialects": names,
    "path": text,
    "rules": names,
    "kernel": text,
    "reason": text,
    "max-bytes": size,
    "fail-on": level,
    "strict": flag,
}


def matches(path: str, pattern: str) -> bool:
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
