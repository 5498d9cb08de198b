"""`warplint lint`: analyse files and write reports."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from warplint import __version__, config
from warplint.cli.options import Chosen, Parsed, color_option, launch_options, merge, wants_color
from warplint.finding import FileReport, Level

if TYPE_CHECKING:
    from warplint.discover import Input
    from warplint_reports.report import Report

FORMATS = ("text", "json", "sarif", "html")
PROGRESS_FROM = 8
"""Files from which a progress bar is worth a terminal's line."""
_LEVELS = click.Choice([level.value for level in Level])


class Output(click.ParamType):
    """`FORMAT=FILE`."""

    name = "output"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Format and file."""
        kind, equals, path = value.partition("=")
        if kind not in FORMATS or not equals or not path:
            self.fail(f"{value!r}: write FORMAT=FILE with FORMAT one of {', '.join(FORMATS)}", param, ctx)
        return kind, path


@click.command("lint")
@click.argument("paths", nargs=-1, required=True)
@click.option(
    "--select", "-s", metavar="NAMES", multiple=True, help="Only these rules or families (commas, repeatable)."
)
@click.option("--ignore", "-i", metavar="NAMES", multiple=True, help="Leave these rules or families out.")
@click.option("--level", type=_LEVELS, help="Lowest level that is reported.  [default: warning]")
@click.option("--fail-on", type=_LEVELS, help="Lowest level for which the exit code is 1.  [default: error]")
@click.option(
    "--exit-zero", is_flag=True, help="Exit with 0 even when there are findings (not for usage and input errors)."
)
@click.option("--strict", is_flag=True, default=None, help="Exit with 1 when a kernel could not be judged completely.")
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="Format of what is written to standard output.  [default: text]",
)
@click.option(
    "--output",
    "-o",
    "outputs",
    metavar="FORMAT=FILE",
    type=Output(),
    multiple=True,
    help="Also write a report to a file; repeatable, one analysis serves all. FILE `-` is standard output.",
)
@click.option("--quiet", "-q", is_flag=True, help="Write nothing to standard output but what --output sends there.")
@click.option(
    "--expect",
    metavar="NAMES",
    multiple=True,
    type=Parsed("names", config.expect),
    help="Fast paths every kernel should use: tma, tcgen05, wgmma, mfma (commas, repeatable).",
)
@click.option("--no-execute", is_flag=True, help="Structural rules only: do not execute the hand-off protocol (fast).")
@click.option(
    "--sarif-category",
    metavar="NAME",
    default="warplint",
    show_default=True,
    help="Distinguishes several uploads for one commit (automationDetails.id).",
)
@launch_options
@color_option
def lint(
    paths: tuple[str, ...],
    form: str | None,
    outputs: tuple[tuple[str, str], ...],
    quiet: bool,
    fail_on: str | None,
    exit_zero: bool,
    strict: bool | None,
    stdin_name: str,
    color: str,
    sarif_category: str,
    no_execute: bool,
    **options: Any,
) -> int:
    """Analyse CUDA and HIP sources.

    PATHS are files, folders (searched for .cu, .cuh, .hip and the like), patterns, or `-` for standard input.

    \b
        warplint lint artifacts/*.cu
        warplint lint gemm.cu --block 384 --cluster 2 --arch sm_100a
        warplint lint build/ --output sarif=warplint.sarif --output html=report.html
        cat kernel.cu | warplint lint - --stdin-name kernel.cu

    Every kernel gets a verdict: `clean`, `findings`, or `incomplete` with the reasons. Exit code: 0 clean, 1 findings
    at or above --fail-on, 2 usage errors and files that could not be read (after all others are done).
    """
    from warplint.discover import find
    from warplint_reports.report import Report

    wanted = list(outputs)
    if form or not (quiet or any(path == "-" for _, path in outputs)):
        wanted.insert(0, (form or "text", "-"))
    _check_outputs(wanted)
    for key in ("select", "ignore"):
        options[key] = config.names(",".join(options[key]))
    options["expect"] = tuple(dict.fromkeys(name for group in options["expect"] for name in group))
    options["level"] = Level(options["level"]) if options["level"] else None
    kinds = {kind for kind, _ in wanted}
    tree = bool(kinds & {"json", "html"})
    chosen = merge(paths, tree=tree, execute=not no_execute, tables="html" in kinds, **options)

    inputs = find(paths, stdin_name)
    files = tuple(_analyse(inputs, chosen))
    rules = _rule_infos(chosen) if kinds & {"sarif", "html"} else ()
    report = Report(files, rules, __version__, sarif_category)
    code = _exit_code(report, chosen, fail_on, exit_zero, strict)
    for item in files:
        if item.problem:
            click.echo(f"warplint: {item.path}: {item.problem}", err=True)
        elif not item.kernels and not item.reasons:
            click.echo(f"warplint: {item.path}: no kernel found", err=True)
    for kind, path in wanted:
        if not _write(report, kind, path, color):
            code = 2
    return code


def _check_outputs(wanted: list[tuple[str, str]]) -> None:
    targets = [path for _, path in wanted]
    for path in targets:
        if targets.count(path) > 1:
            where = "standard output" if path == "-" else path
            raise click.UsageError(f"two reports would be written to {where}")


def _rules(chosen: Chosen):
    from warplint.registry import RuleError, UnknownRule, select

    values = {**chosen.config.values, **chosen.explicit}
    try:
        return select(values.get("select", ()), values.get("ignore", ()))
    except (RuleError, UnknownRule) as error:
        raise click.UsageError(str(error)) from error


def _rule_infos(chosen: Chosen):
    from warplint.registry import RuleError

    try:
        return tuple(rule.info for rule in _rules(chosen))
    except RuleError as error:
        raise click.ClickException(str(error)) from error


def _analyse(inputs: list[Input], chosen: Chosen) -> Iterator[FileReport]:
    from warplint.engine import lint_paths

    _rules(chosen)  # unknown names are usage errors, before any file is read
    reports = lint_paths(inputs, chosen.settings)
    if len(inputs) < PROGRESS_FROM or not sys.stderr.isatty():
        return reports
    return _with_progress(reports, len(inputs))


def _with_progress(reports: Iterable[FileReport], total: int) -> Iterator[FileReport]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total)
        for report in reports:
            progress.update(task, advance=1, description=report.path.replace("[", "\\["))
            yield report


def _exit_code(report: Report, chosen: Chosen, fail_on: str | None, exit_zero: bool, strict: bool | None) -> int:
    if any(file.problem for file in report.files):
        return 2
    if exit_zero:
        return 0
    threshold = Level(fail_on) if fail_on else chosen.config.values.get("fail_on", Level.ERROR)
    if any(finding.level.rank >= threshold.rank for _, finding in report.findings()):
        return 1
    must_be_complete = chosen.config.values.get("strict", False) if strict is None else strict
    return 1 if must_be_complete and report.incomplete else 0


def _write(report: Report, kind: str, path: str, color: str) -> bool:
    """Render one format to one place; says why when the file cannot be written."""
    if kind == "text":
        from warplint_reports.text import render

        text = render(report, color=wants_color(color, sys.stdout if path == "-" else None))
    elif kind == "sarif":
        from warplint_reports.sarif import render

        text = render(report)
    elif kind == "html":
        from warplint_reports.html import render

        text = render(report)
    else:
        from warplint_reports.json import render

        text = render(report)
    if path == "-":
        click.echo(text, nl=False, color=True)
        return True
    from warplint_reports.write import write_atomically

    try:
        write_atomically(path, text)
    except OSError as error:
        click.echo(f"warplint: cannot write {path}: {error.strerror or error}", err=True)
        return False
    return True
