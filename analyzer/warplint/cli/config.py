"""`warplint config`: which settings apply to a file, and who says so."""

from __future__ import annotations

from typing import Any

import click

from warplint import config as settings_file
from warplint.cli.options import merge
from warplint.dialects.packs import Pack
from warplint.engine import Settings
from warplint.finding import Level, Suppression

_SHOWN = (
    *settings_file.LAUNCH_KEYS,
    *settings_file.RULE_KEYS,
    "max-bytes",
    "fail-on",
    "strict",
    "baseline",
    "path-map",
    "include",
    "dialects",
)
_DEFAULTS = {"arch": "from the source", "fragment": "from the source", "fail-on": "error", "strict": "false"}
_FROM_SOURCE = ("block", "cluster", "smem", "registers")


@click.command("config", short_help="Show the settings that apply to a file, and why.")
@click.argument("paths", nargs=-1)
@click.option("--config", "config_path", metavar="FILE", type=click.Path(exists=True, dir_okay=False))
@click.option("--no-config", is_flag=True, help="Read no configuration file.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON (schema `warplint-config/1`).")
def show_config(paths: tuple[str, ...], config_path: str | None, no_config: bool, as_json: bool) -> int:
    """Show the settings that apply to each of PATHS, and where each of them comes from.

    Without PATHS: those of the working directory. Settings that something else wins over are shown as well.
    """
    from warplint.discover import find

    chosen = merge(paths or (".",), False, True, config_path, no_config)
    inputs = find(paths) if paths else []
    for item in inputs:
        if item.problem:
            raise click.UsageError(f"{item.name}: {item.problem}")
    names = [(item.path, item.name) for item in inputs] or [("settings", "")]
    files = [_of_file(chosen.config, path, name) for path, name in names]
    if as_json:
        import json

        data = {"schema": "warplint-config/1", "file": chosen.config.path, "settings": files}
        click.echo(json.dumps(data, indent=2))
        return 0
    click.echo(f"settings file: {chosen.config.path or 'none (looked upwards for warplint.toml and pyproject.toml)'}")
    for file in files:
        click.echo(f"\n{file['path']}" if file["path"] else "")
        width = max(len(row["value"]) for row in file["values"])
        for row in file["values"]:
            line = f"  {row['key']:<9}  {row['value']:<{min(width, 40)}}  {row['from']}"
            click.echo(line.rstrip())
            for over in row["instead_of"]:
                click.echo(f"  {'':<9}    instead of {over['value']}  {over['from']}")
        for entry in file["suppress"]:
            kernel = f" in kernels {entry['kernel']}" if entry["kernel"] else ""
            reason = f": {entry['reason']}" if entry["reason"] else ""
            click.echo(f"  {'suppress':<9}  {', '.join(entry['rules'])}{kernel}{reason}  {entry['from']}")
    return 0


def _of_file(loaded: settings_file.Config, path: str, name: str) -> dict[str, Any]:
    said: dict[str, list[tuple[Any, str]]] = {}
    for key, value, where in loaded.applied(path, {}):
        said.setdefault(key.replace("_", "-"), []).append((value, where))
    rows = []
    for key in _SHOWN:
        values = said.get(key, [])
        if key in ("defines", "levels"):
            pairs: dict[str, tuple[Any, str]] = {}
            for value, where in values:
                pairs.update({one: (item, where) for one, item in value})
            for one, (item, where) in pairs.items():
                rows.append({"key": key, "value": f"{one} = {_text(item)}", "from": where, "instead_of": []})
            if pairs:
                continue
        if not values:
            rows.append({"key": key, "value": _default(key), "from": "default", "instead_of": []})
            continue
        value, where = values[-1]
        beaten = [{"value": _text(other), "from": origin} for other, origin in reversed(values[:-1])]
        rows.append({"key": key, "value": _text(value), "from": where, "instead_of": beaten})
    return {
        "path": name,
        "values": rows,
        "suppress": [_entry(pattern, entry) for pattern, entry in loaded.suppressions(path)] if name else [],
    }


def _entry(pattern: str, entry: Suppression) -> dict[str, Any]:
    return {
        "rules": list(entry.rules),
        "path": pattern,
        "kernel": entry.kernel,
        "reason": entry.reason,
        "from": entry.where,
    }


def _default(key: str) -> str:
    if key in _FROM_SOURCE:
        return "from the source"
    if key in _DEFAULTS:
        return _DEFAULTS[key]
    if key == "select":
        return "all rules"
    return _text(getattr(Settings(), key.replace("-", "_"), ()))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Level):
        return value.value
    if isinstance(value, tuple):
        if value and all(isinstance(item, Pack) for item in value):
            return ", ".join(f"{pack.name} ({len(pack.rows)} rows)" for pack in value)
        if value and all(isinstance(item, int) for item in value):
            return " x ".join(map(str, value))
        if value and all(isinstance(item, tuple) for item in value):
            return ", ".join("=".join(pair) for pair in value)
        return ", ".join(value) or "none"
    return str(value)
