"""`warplint dialects`: the name tables that are known, and their rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
from msgspec import Struct

from warplint.cli.options import merge

TIRX_BY_RULE = "names that are made from the instruction (TVM 0.27 and later) are read by rule, without a row"


class Listed(Struct, frozen=True):
    """A pack as it is listed."""

    name: str
    origin: str
    """`built-in`, `command line`, the settings file, or the entry point."""
    target: str
    about: str
    rows: tuple[tuple[str, str], ...]


@click.command("dialects")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Write JSON (schema `warplint-dialects/1`).")
@click.option("--config", "config_path", metavar="FILE", type=click.Path(exists=True, dir_okay=False))
@click.option("--no-config", is_flag=True, help="Read no configuration file.")
@click.option(
    "--dialect",
    "dialects",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    multiple=True,
    help="A dialect pack to be checked and listed with the others; repeatable.",
)
def list_dialects(
    name: str | None, as_json: bool, config_path: str | None, no_config: bool, dialects: tuple[str, ...]
) -> int:
    """List the dialect packs: how libraries and generators spell the operations. With NAME: the rows of that pack.

    Packs are asked in this order: those of the command line, of the settings (`dialects = ["my.toml"]`), of installed
    packages, then ours. What the source itself defines needs no row.
    """
    chosen = merge((".",), tree=False, execute=False, config_path=config_path, no_config=no_config, dialects=dialects)
    packs = list(_packs(chosen.explicit.get("dialects", ()), len(dialects), chosen.config.path))
    if name is not None:
        found = [pack for pack in packs if pack.name == name]
        if not found:
            from difflib import get_close_matches

            near = get_close_matches(name, [pack.name for pack in packs], n=1)
            hint = f"; did you mean {near[0]!r}?" if near else "; `warplint dialects` lists them"
            raise click.UsageError(f"there is no dialect pack {name!r}{hint}")
        packs = found
    if as_json:
        click.echo(_json(packs, name is not None))
        return 0
    for line in _rows(packs) if name is not None else _table(packs):
        click.echo(line)
    return 0


def _packs(given: tuple[Any, ...], from_command: int, config: str) -> Iterator[Listed]:
    from warplint.packs import installed

    for number, pack in enumerate(given):
        where = "command line" if number < from_command else config
        yield Listed(pack.name, f"{where}: {pack.origin}", pack.target, pack.about, pack.rows)
    for pack in installed():
        yield Listed(pack.name, f"entry point {pack.origin}", pack.target, pack.about, pack.rows)
    from warplint.dialects import names

    for table in dict.fromkeys((*names.NVIDIA, *names.AMD)):
        nvidia, amd = table in names.NVIDIA, table in names.AMD
        target = "any" if nvidia and amd else "nvidia" if nvidia else "amd"
        rows = tuple(names.rows(table).items())
        yield Listed(table, "built-in", target, names.about(table), rows)


def _spellings(pack: Listed) -> int:
    return sum(len(key.split()) for key, _ in pack.rows)


def _table(packs: list[Listed]) -> Iterator[str]:
    names, origins = ([getattr(pack, field) for pack in packs] for field in ("name", "origin"))
    wide, origin = max(map(len, names)), min(max(map(len, origins)), 48)
    yield f"{'name':<{wide}}  {'target':<6}  {'rows':>5}  {'names':>5}  {'origin':<{origin}}  covers"
    for pack in packs:
        counts = f"{len(pack.rows):>5}  {_spellings(pack):>5}"
        yield f"{pack.name:<{wide}}  {pack.target:<6}  {counts}  {pack.origin:<{origin}}  {pack.about}".rstrip()


def _rows(packs: list[Listed]) -> Iterator[str]:
    for number, pack in enumerate(packs):
        if number:
            yield ""
        yield f"{pack.name} ({pack.origin}): {len(pack.rows)} rows for {_spellings(pack)} names"
        if pack.about:
            yield pack.about
        if pack.name == "tirx" and pack.origin == "built-in":
            yield TIRX_BY_RULE
        for key, line in pack.rows:
            yield ""
            yield from key.split()
            yield f"    {line}"


def _json(packs: list[Listed], whole: bool) -> str:
    import json

    listed = []
    for pack in packs:
        row: dict[str, Any] = {
            "name": pack.name,
            "origin": pack.origin,
            "target": pack.target,
            "about": pack.about,
            "rows": len(pack.rows),
            "names": _spellings(pack),
        }
        if whole:
            row["table"] = [{"names": key.split(), "row": line} for key, line in pack.rows]
        listed.append(row)
    return json.dumps({"schema": "warplint-dialects/1", "dialects": listed}, indent=2)
