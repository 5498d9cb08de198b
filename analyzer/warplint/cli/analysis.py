"""From the command line to finished reports, for the commands that analyse: `lint` and `baseline`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct
from msgspec.structs import replace

from warplint import config
from warplint.cli.editor import rule_names
from warplint.cli.options import Chosen, merge
from warplint.finding import FileReport, Level

if TYPE_CHECKING:
    from warplint.cache import Cache
    from warplint.discover import Input
    from warplint.registry import LoadedRule

PROGRESS_FROM = 8
"""Files from which a progress bar is worth a terminal's line."""
LEVELS = click.Choice([level.value for level in Level])


class Pair(click.ParamType):
    """`OLD=NEW`."""

    name = "pair"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Both sides."""
        if isinstance(value, tuple):
            return value
        old, equals, new = value.partition("=")
        if not equals or not old:
            self.fail(f"{value!r}: write OLD=NEW", param, ctx)
        return old, new


class Shard(click.ParamType):
    """`I/N`, the I-th of N equal parts."""

    name = "shard"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        """Number and count."""
        if isinstance(value, tuple):
            return value
        number, slash, count = value.partition("/")
        if not (slash and number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count) <= 1_000_000):
            self.fail(f"{value!r}: write I/N, such as 2/8", param, ctx)
        return int(number), int(count)


_SELECTION = (
    click.option(
        "--select",
        "-s",
        metavar="NAMES",
        multiple=True,
        shell_complete=rule_names,
        help="Only these rules or families (commas, repeatable).",
    ),
    click.option(
        "--ignore",
        "-i",
        metavar="NAMES",
        multiple=True,
        shell_complete=rule_names,
        help="Leave these rules or families out.",
    ),
    click.option("--level", type=LEVELS, help="Lowest level that is reported.  [default: warning]"),
    click.option(
        "--expect",
        metavar="NAMES",
        multiple=True,
        help="Fast paths every kernel should use: tma, tcgen05, wgmma, mfma (commas, repeatable).",
    ),
    click.option(
        "--no-execute", is_flag=True, help="Structural rules only: do not execute the hand-off protocol (fast)."
    ),
)
_FILES = (
    click.option(
        "--root",
        metavar="DIR",
        type=click.Path(exists=True, file_okay=False),
        help="Reports name files relative to DIR.  [default: the working directory]",
    ),
    click.option(
        "--path-map",
        "path_map",
        metavar="OLD=NEW",
        type=Pair(),
        multiple=True,
        help="Name files under OLD (a prefix, or a pattern with * and ?) as if they stood under NEW; repeatable.",
    ),
    click.option(
        "--shard",
        metavar="I/N",
        type=Shard(),
        help="Analyse the I-th of N parts only; `warplint merge` puts the reports of all parts together.",
    ),
    click.option(
        "--jobs",
        "-j",
        metavar="N",
        type=click.IntRange(1, 1024),
        help="Processes for many files.  [default: one for each processor; one for little source]",
    ),
    click.option(
        "--dask",
        metavar="SCHEDULER",
        help="Analyse on a Dask cluster; its scheduler's address, such as tcp://host:8786 (extra warplint[dask]).",
    ),
    click.option("--no-cache", is_flag=True, help="Analyse every file anew and keep nothing for the next run."),
    click.option(
        "--cache",
        "cache_folder",
        metavar="DIR",
        type=click.Path(file_okay=False),
        help="Folder of the cache.  [default: WARPLINT_CACHE_DIR, or the user's cache folder]",
    ),
)


def analysis_options(command: Callable) -> Callable:
    """Adds the options that say which rules speak, and how files are named and shared out."""
    for option in reversed((*_SELECTION, *_FILES)):
        command = option(command)
    return command


class Analysis(Struct, frozen=True):
    """What is to be analysed, and how."""

    chosen: Chosen
    inputs: list[Input]
    root: str
    jobs: int | None
    cache: Cache | None
    shard: tuple[int, int, tuple[int, ...]] | None = None
    """Number, count, and positions of the inputs in the whole."""
    dask: str = ""
    """Address of a scheduler; empty: on this machine."""
    keep_source: bool = True
    """Keep the bytes of files that have no finding (a page that shows them needs these)."""

    def run(self) -> Iterator[FileReport]:
        """The reports, in the order of the inputs."""
        from warplint.parallel import lint_many

        if self.dask:
            reports = _on_cluster(self.inputs, self.chosen, self.dask, self.cache)
        else:
            reports = lint_many(self.inputs, self.chosen.settings, self.jobs, self.cache)
        if not self.keep_source:
            reports = map(_without_source, reports)
        if len(self.inputs) < PROGRESS_FROM or not sys.stderr.isatty():
            return reports
        return _with_progress(reports, len(self.inputs))

    def finish(self) -> None:
        """Tidy the cache; seldom any work."""
        if self.cache is not None:
            self.cache.prune()


def prepare(
    paths: tuple[str, ...],
    *,
    tree: bool = False,
    tables: bool = False,
    by_name: bool = False,
    stdin_name: str = "<stdin>",
    root: str | None,
    path_map: tuple[tuple[str, str], ...],
    shard: tuple[int, int] | None,
    jobs: int | None,
    dask: str | None = None,
    no_cache: bool,
    cache_folder: str | None,
    no_execute: bool,
    **options: Any,
) -> Analysis:
    """Settings and inputs from the command line. `by_name`: reports identify files by name, which must be relative.

    Raises UsageError for what cannot be used, before any file is read.
    """
    from warplint.discover import find
    from warplint.pathmap import PathError, named, outside, unstable

    for key in ("select", "ignore"):
        options[key] = config.names(",".join(options[key]))
    try:
        options["expect"] = config.expect(",".join(options["expect"]))
    except ValueError as error:
        raise click.UsageError(f"--expect: {error}") from error
    options["level"] = Level(options["level"]) if options["level"] else None
    chosen = merge(paths, tree=tree, execute=not no_execute, tables=tables, **options)
    rules_of(chosen)
    inputs = find(paths, stdin_name)
    pairs = (*path_map, *chosen.config.values.get("path_map", ()))
    if root is not None or pairs:
        try:
            inputs = named(inputs, root, pairs)
        except PathError as error:
            raise click.UsageError(str(error)) from error
    if by_name:
        if error := outside(inputs, root):
            raise click.UsageError(str(error))
        if odd := unstable(item.name for item in inputs if not item.problem):
            more = f" and {len(odd) - 1} more" if len(odd) > 1 else ""
            click.echo(
                f"warplint: {odd[0]}{more}: the name looks as if it changed with every build; findings are followed "
                "from run to run by it: give it a stable one with --path-map OLD=NEW",
                err=True,
            )
    positions: list[int] = []
    if shard is not None:
        from warplint.discover import shard as part

        positions = part(inputs, *shard)
        inputs = [inputs[position] for position in positions]
    cache = None
    if not no_cache:
        from warplint.cache import Cache, default_folder

        cache = Cache(cache_folder or default_folder())
    chosen_part = (*shard, tuple(positions)) if shard is not None else None
    return Analysis(chosen, inputs, root or os.getcwd(), jobs, cache, chosen_part, dask or "", tables)


def _without_source(report: FileReport) -> FileReport:
    """The bytes are shown beside findings only; of a sweep over very many files they would fill the memory."""
    if report.findings or report.suppressed or any(kernel.findings for kernel in report.kernels):
        return report
    return replace(report, data=b"")


def _on_cluster(inputs: list[Input], chosen: Chosen, scheduler: str, cache: Cache | None) -> Iterator[FileReport]:
    try:
        from warplint.cluster import ClusterError, lint_on_cluster

        yield from lint_on_cluster(inputs, chosen.settings, scheduler, cache)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("distributed", "dask"):
            raise
        raise click.UsageError("--dask needs Dask: pip install 'warplint[dask]'") from error
    except ClusterError as error:
        raise click.UsageError(str(error)) from error


def rules_of(chosen: Chosen) -> tuple[LoadedRule, ...]:
    """The rules that are on for some file. Raises UsageError for names that are not known."""
    from warplint.registry import RuleError, UnknownRule, select

    values = {**chosen.config.values, **chosen.explicit}
    try:
        found = {rule.slug: rule for rule in select(values.get("select", ()), values.get("ignore", ()))}
        for _, more in chosen.config.overrides:
            changed = {**chosen.config.values, **more, **chosen.explicit}
            found |= {rule.slug: rule for rule in select(changed.get("select", ()), changed.get("ignore", ()))}
            select([name for name, _ in more.get("levels", ())], ())
        select([name for name, _ in values.get("levels", ())], ())
        for _, entry in chosen.config.suppress:
            select(entry.rules, ())
    except (RuleError, UnknownRule) as error:
        raise click.UsageError(str(error)) from error
    return tuple(found[slug] for slug in sorted(found))


def tell_problems(files: Iterable[FileReport]) -> None:
    """Say on standard error which files could not be analysed, and which hold no kernel."""
    for item in files:
        if item.problem:
            click.echo(f"warplint: {item.path}: {item.problem}", err=True)
        elif not item.kernels and not item.reasons:
            click.echo(f"warplint: {item.path}: no kernel found", err=True)


def _with_progress(reports: Iterable[FileReport], total: int) -> Iterator[FileReport]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total)
        for report in reports:
            progress.update(task, advance=1, description=report.path.replace("[", "\\["))
            yield report
