"""Options that several commands share, and what they mean together with a configuration file."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct
from msgspec.structs import replace

from warplint import config
from warplint.dialects.packs import Pack, PackError
from warplint.engine import Settings

if TYPE_CHECKING:
    from warplint.discover import Input


class Parsed(click.ParamType):
    """A parameter read by one of the parsers of `warplint.config`; its ValueError becomes a usage error."""

    def __init__(self, name: str, parse: Callable[[Any], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The parsed value; values that are parsed already pass."""
        if not isinstance(value, (str, list)):
            return value
        try:
            return self._parse(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


LAUNCH_OPTIONS = (
    click.option(
        "--arch",
        metavar="ARCH",
        type=Parsed("arch", config.arch),
        help="Target architecture, such as sm_90a, sm_100a or gfx942. Default: what the source shows.",
    ),
    click.option(
        "--block",
        metavar="X[xY[xZ]]",
        type=Parsed("shape", config.block),
        help="Threads per block, such as 256 or 128x2. Wins over __launch_bounds__ and launches in the file.",
    ),
    click.option(
        "--cluster",
        metavar="X[xY[xZ]]",
        type=Parsed("shape", config.cluster),
        help="CTAs per cluster, such as 2 or 2x1x1.",
    ),
    click.option(
        "--smem",
        metavar="BYTES",
        type=Parsed("size", config.size),
        help="Dynamic shared memory per block, such as 232448 or 227K.",
    ),
    click.option(
        "--registers",
        metavar="N",
        type=click.IntRange(1, 255),
        help="Registers per thread at launch (setmaxnreg rules).",
    ),
    click.option(
        "--define",
        "-D",
        "defines",
        metavar="NAME=V",
        multiple=True,
        help="Define a macro or name a template parameter's value; repeatable.",
    ),
    click.option(
        "--include",
        "-I",
        "include",
        metavar="DIR",
        type=click.Path(exists=True, file_okay=False),
        multiple=True,
        help="Folder to look for headers in (helper definitions, macros, constants), after the file's own; repeatable.",
    ),
    click.option(
        "--dialect",
        "dialects",
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False),
        multiple=True,
        help="Dialect pack (TOML) with names of operations; repeatable. See `warplint dialects`.",
    ),
    click.option(
        "--fragment/--no-fragment",
        default=None,
        help="Read the source as an excerpt without its prelude. Default: decide from the source.",
    ),
    click.option(
        "--max-bytes",
        metavar="BYTES",
        type=Parsed("size", config.size),
        help="Largest file that is analysed (default 16M); larger ones are reported as incomplete.",
    ),
    click.option(
        "--config",
        "config_path",
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False),
        help="Configuration file. Default: warplint.toml, or pyproject.toml with [tool.warplint], found upwards.",
    ),
    click.option("--no-config", is_flag=True, help="Read no configuration file."),
    click.option(
        "--stdin-name",
        metavar="NAME",
        default="<stdin>",
        show_default=True,
        help="Name that reports give to standard input (path `-`).",
    ),
)


def launch_options(command: Callable) -> Callable:
    """Adds the options that say how kernels are launched and read."""
    for option in reversed(LAUNCH_OPTIONS):
        command = option(command)
    return command


def color_option(command: Callable) -> Callable:
    """Adds `--color`."""
    return click.option(
        "--color",
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        help="Colour the text report. `auto`: on a terminal, unless NO_COLOR is set.",
    )(command)


def wants_color(choice: str, stream: Any) -> bool:
    """Whether to colour what goes to `stream`. NO_COLOR and FORCE_COLOR count when the choice is `auto`."""
    import os

    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return bool(getattr(stream, "isatty", lambda: False)()) and os.environ.get("TERM") != "dumb"


class Chosen(Struct, frozen=True):
    """Command line and configuration file, merged."""

    config: config.Config
    explicit: dict[str, Any]
    base: Settings

    def settings(self, item: Input) -> Settings:
        """The settings for one input."""
        found = self.config.settings_for(item.path, self.base, self.explicit)
        return found if item.path == "-" else replace(found, folder=os.path.dirname(item.path) or ".")


def merge(
    paths: tuple[str, ...],
    tree: bool,
    execute: bool,
    config_path: str | None,
    no_config: bool,
    tables: bool = False,
    **given: Any,
) -> Chosen:
    """Options given on the command line over the configuration file. Raises UsageError."""
    loaded = config.Config()
    if not no_config:
        where = config_path or config.find(next((p for p in paths if p != "-"), "."))
        if where:
            try:
                loaded = config.load(where)
            except config.ConfigError as error:
                raise click.UsageError(str(error)) from error
    try:
        macros = config.defines(list(given.pop("defines", ())))
    except ValueError as error:
        raise click.UsageError(f"--define: {error}") from error
    given["dialects"] = _dialects(given.pop("dialects", ()), loaded)
    given["include"] = (*given.pop("include", ()), *loaded.values.get("include", ()))
    explicit = {key: value for key, value in given.items() if value not in (None, ())}
    if macros:
        explicit["defines"] = macros  # they add to those of the file, one by one
    return Chosen(loaded, explicit, Settings(tree=tree, execute=execute, tables=tables))


def _dialects(files: Sequence[str], loaded: config.Config) -> tuple[Pack, ...]:
    """The packs of the command line, then the settings file's; those of installed packages are looked through as well,
    so that a broken one is told before any file is read.
    """
    from warplint.packs import installed, load

    try:
        packs = (*(load(name) for name in files), *loaded.values.get("dialects", ()))
        installed()
    except PackError as error:
        raise click.UsageError(str(error)) from error
    return packs
