"""`warplint lint`: analyse files and write reports."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from warplint import __version__
from warplint.cli.analysis import LEVELS, Analysis, analysis_options, prepare, rules_of, tell_problems
from warplint.cli.help import Sectioned
from warplint.cli.known import baseline_path, without_known, without_unchanged
from warplint.cli.options import Chosen, color_option, launch_options, wants_color
from warplint.finding import Level

if TYPE_CHECKING:
    from warplint_reports.report import Report

FORMATS = ("text", "json", "sarif", "html", "github", "gitlab", "junit", "rdjson", "markdown")
BY_NAME = {"sarif", "gitlab"}
"""Formats whose readers follow a finding from run to run by the name of its file."""


class Output(click.ParamType):
    """`FORMAT=FILE`."""

    name = "output"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Format and file."""
        kind, equals, path = value.partition("=")
        if kind not in FORMATS or not equals or not path:
            self.fail(f"{value!r}: write FORMAT=FILE with FORMAT one of {', '.join(FORMATS)}", param, ctx)
        return kind, path


@click.command("lint", cls=Sectioned)
@click.argument("paths", nargs=-1, required=True)
@click.option("--fail-on", type=LEVELS, help="Lowest level for which the exit code is 1.  [default: error]")
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
@click.option("--show-suppressed", is_flag=True, help="Show suppressed findings in text and SARIF reports, too.")
@click.option(
    "--baseline",
    "baseline",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False),
    help="Report what is not in FILE only (`warplint baseline` writes one). Default: `baseline` of the settings file.",
)
@click.option("--no-baseline", is_flag=True, help="Use no baseline, whatever the settings file says.")
@click.option(
    "--diff",
    metavar="BASE",
    help="Report only what concerns lines that changed since the branch left the commit BASE (origin/main), or is new.",
)
@click.option(
    "--sarif-category",
    metavar="NAME",
    default="warplint",
    show_default=True,
    help="Distinguishes several uploads for one commit (automationDetails.id).",
)
@click.option("--watch", is_flag=True, help="Analyse again whenever a file changes (needs the extra warplint[watch]).")
@analysis_options
@launch_options
@color_option
def lint(paths: tuple[str, ...], watch: bool, **options: Any) -> int:
    """Analyse CUDA and HIP sources.

    PATHS are files, folders (searched for .cu, .cuh, .hip and the like), patterns, or `-` for standard input.

    \b
        warplint lint artifacts/*.cu
        warplint lint gemm.cu --block 384 --cluster 2 --arch sm_100a
        warplint lint build/ --output sarif=warplint.sarif --output html=report.html
        warplint lint artifacts/ --baseline warplint-baseline.json --diff origin/main
        cat kernel.cu | warplint lint - --stdin-name kernel.cu

    Every kernel gets a verdict: `clean`, `findings`, or `incomplete` with the reasons. Exit code: 0 clean, 1 findings
    at or above --fail-on, 2 usage errors and files that could not be read (after all others are done).
    """
    if not watch:
        return _lint(paths, **options)
    from warplint.cli.watch import watch as again

    others = tuple(filter(None, (options["config_path"], options["baseline"])))
    return again(paths, lambda: _lint(paths, **options), others)


def _lint(
    paths: tuple[str, ...],
    *,
    form: str | None,
    outputs: tuple[tuple[str, str], ...],
    quiet: bool,
    fail_on: str | None,
    exit_zero: bool,
    strict: bool | None,
    stdin_name: str,
    color: str,
    sarif_category: str,
    show_suppressed: bool,
    baseline: str | None,
    no_baseline: bool,
    diff: str | None,
    **options: Any,
) -> int:
    """One run: analyse, set apart what is known, report."""
    from warplint_reports.report import Report, Shard

    wanted = list(outputs)
    if form or not (quiet or any(path == "-" for _, path in outputs)):
        wanted.insert(0, (form or "text", "-"))
    _check_outputs(wanted)
    kinds = {kind for kind, _ in wanted}
    analysis = prepare(
        paths,
        tree=bool(kinds & {"json", "html"}),
        tables="html" in kinds,
        by_name=bool(kinds & BY_NAME or baseline),
        stdin_name=stdin_name,
        **options,
    )
    files = tuple(analysis.run())
    analysis.finish()
    if diff:
        files = without_unchanged(analysis, files, diff)
    if not no_baseline and (known := baseline_path(analysis, baseline)):
        files = without_known(analysis, files, known)
    rules = _rule_infos(analysis.chosen) if kinds & {"sarif", "html"} else ()
    threshold = Level(fail_on) if fail_on else analysis.chosen.config.values.get("fail_on", Level.ERROR)
    part = Shard(*analysis.shard) if analysis.shard else None
    report = Report(files, rules, __version__, sarif_category, show_suppressed, threshold, part)
    code = _exit_code(report, analysis.chosen, exit_zero, strict)
    tell_problems(files)
    for text in _unused_entries(report, analysis):
        click.echo(f"warplint: {text}", err=True)
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


def _rule_infos(chosen: Chosen):
    from warplint.registry import RuleError

    try:
        return tuple(rule.info for rule in rules_of(chosen))
    except RuleError as error:
        raise click.ClickException(str(error)) from error


def _unused_entries(report: Report, analysis: Analysis) -> Iterator[str]:
    """Suppressions of the settings that are about files of this run and match nothing in any of them."""
    chosen = analysis.chosen
    if not chosen.config.suppress or report.incomplete or not chosen.base.execute:
        return
    rules = rules_of(chosen)
    asked = {rule.slug for rule in rules} | {rule.family for rule in rules}
    used = {one.where for _, one in report.suppressed()}
    about = {entry.where: entry for item in analysis.inputs for _, entry in chosen.config.suppressions(item.path)}
    for where, entry in about.items():
        if where not in used and set(entry.rules) <= asked:
            yield f"{where} ({', '.join(entry.rules)}) matches no finding; remove it"


def _exit_code(report: Report, chosen: Chosen, exit_zero: bool, strict: bool | None) -> int:
    if any(file.problem for file in report.files):
        return 2
    if exit_zero:
        return 0
    if any(finding.level.rank >= report.fail_on.rank for _, finding in report.findings()):
        return 1
    must_be_complete = chosen.config.values.get("strict", False) if strict is None else strict
    return 1 if must_be_complete and report.incomplete else 0


def _write(report: Report, kind: str, path: str, color: str) -> bool:
    """Render one format to one place; says why when the file cannot be written."""
    from importlib import import_module

    render: Callable[..., str] = import_module(f"warplint_reports.{kind}").render
    if kind == "text":
        text = render(report, color=wants_color(color, sys.stdout if path == "-" else None))
    else:
        text = render(report)
    if kind == "github" and (summary := os.environ.get("GITHUB_STEP_SUMMARY")):
        _append_summary(report, summary)
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


def _append_summary(report: Report, path: str) -> None:
    """The page that GitHub shows for the step; other steps may have written to the file."""
    from warplint_reports.markdown import render

    try:
        with open(path, "a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(render(report))
    except OSError as error:
        click.echo(f"warplint: cannot write {path}: {error.strerror or error}", err=True)
