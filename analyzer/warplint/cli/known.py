"""What was there before: `--baseline`, `--diff`, and the command `warplint baseline`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from warplint.cli.analysis import Analysis, analysis_options, prepare, rules_of, tell_problems
from warplint.cli.help import Sectioned
from warplint.cli.options import launch_options
from warplint.finding import FileReport, Level

if TYPE_CHECKING:
    from warplint.baseline import Baseline, Entry, Key

DEFAULT = "warplint-baseline.json"
SAID = 10
"""Stale entries that are named one by one."""


def without_unchanged(analysis: Analysis, files: Iterable[FileReport], base: str) -> tuple[FileReport, ...]:
    """The reports without what was there at the commit. Raises UsageError."""
    from warplint.diff import DiffError, changes, keep_new
    from warplint.engine import lint_bytes

    files = tuple(files)
    kept = []
    try:
        since = changes(base, _folder(analysis))
        for item, file in zip(analysis.inputs, files, strict=True):
            if item.path == "-" or file.problem:
                kept.append(file)
                continue
            settings = analysis.chosen.settings(item)

            def before(data: bytes, name: str = file.path, settings: Any = settings) -> FileReport:
                return lint_bytes(name, data, settings)

            kept.append(keep_new(file, item.path, since, before))
    except DiffError as error:
        raise click.UsageError(f"--diff: {error}") from error
    return tuple(kept)


def _folder(analysis: Analysis) -> str:
    first = next((item.path for item in analysis.inputs if item.path != "-" and not item.problem), "")
    return os.path.dirname(os.path.abspath(first)) if first else "."


def baseline_path(analysis: Analysis, given: str | None) -> str | None:
    """The baseline: that of the command line, or that of the settings file, relative to its folder."""
    if given:
        return given
    named = analysis.chosen.config.values.get("baseline")
    return os.path.join(analysis.chosen.config.root, named) if named else None


def without_known(analysis: Analysis, files: tuple[FileReport, ...], path: str) -> tuple[FileReport, ...]:
    """The reports without what is in the baseline; says what is stale. Raises UsageError."""
    baseline = _load(path)
    kept, stale = _compare(analysis, baseline, files)
    if stale:
        total = sum(entry.count for entry in stale.values())
        verb = "is" if total == 1 else "are"
        click.echo(
            f"warplint: {path}: {total} of its findings {verb} gone (`warplint baseline --update` removes them):",
            err=True,
        )
        for line in _lines(stale):
            click.echo(f"  {line}", err=True)
    return kept


@click.command("baseline", cls=Sectioned, short_help="Write down the findings of today as known.")
@click.argument("paths", nargs=-1, required=True)
@click.option(
    "--file",
    "-f",
    "path",
    metavar="FILE",
    help=f"The baseline.  [default: `baseline` of the settings file, or {DEFAULT}]",
)
@click.option("--update", is_flag=True, help="Remove what is gone from an existing baseline; add nothing.")
@click.option("--grow", is_flag=True, help="Also add new findings to an existing baseline.")
@analysis_options
@launch_options
def make_baseline(
    paths: tuple[str, ...], path: str | None, update: bool, grow: bool, stdin_name: str, **options: Any
) -> int:
    """Write down the findings of PATHS as known, so that `warplint lint --baseline FILE` reports new ones only.

    \b
        warplint baseline artifacts/                 # the first time
        warplint lint artifacts/ --baseline warplint-baseline.json
        warplint baseline artifacts/ --update        # removes what is gone; adds nothing

    An existing baseline is never made larger without --grow. Entries of files that are not named are left alone, unless
    the file no longer exists. Exit code: 0, or 2 when a file could not be analysed (the baseline stays as it was).
    """
    from warplint import baseline as module
    from warplint_reports.write import write_atomically

    analysis = prepare(paths, by_name=True, stdin_name=stdin_name, **options)
    target = baseline_path(analysis, path) or DEFAULT
    exists = os.path.lexists(target)
    if exists and not (update or grow):
        raise click.UsageError(f"{target} exists: --update removes what is gone, --grow adds what is new")
    old = _load(target) if exists else module.Baseline(target, {})
    files = tuple(analysis.run())
    analysis.finish()
    tell_problems(files)
    if any(file.problem for file in files):
        click.echo(f"warplint: {target} is left as it was: not every file could be analysed", err=True)
        return 2
    kept, stale = _compare(analysis, old, files)
    new = module.of_reports(target, kept, analysis.root)
    result = module.without(old, stale)
    added = 0
    if grow or not exists:
        result = module.with_more(result, new)
        added = _total(new.entries)
    try:
        write_atomically(target, module.dump(result))
    except OSError as error:
        click.echo(f"warplint: cannot write {target}: {error.strerror or error}", err=True)
        return 2
    click.echo(f"{target}: {_total(result.entries)} known findings ({added} added, {_total(stale)} removed)")
    left_out = _total(new.entries) - added
    if left_out:
        click.echo(f"{left_out} new findings are not in it; --grow adds them")
    for line in _lines(stale):
        click.echo(f"  removed {line}")
    return 0


def _load(path: str) -> Baseline:
    from warplint.baseline import BaselineError, load

    try:
        return load(path)
    except BaselineError as error:
        raise click.UsageError(str(error)) from error


def _compare(
    analysis: Analysis, baseline: Baseline, files: tuple[FileReport, ...]
) -> tuple[tuple[FileReport, ...], Mapping[Key, Entry]]:
    from warplint.baseline import compare
    from warplint.registry import rules

    on = {
        rule.slug
        for rule in rules_of(analysis.chosen)
        if analysis.chosen.base.execute or rule.rule.comments or rule.check is not None
    }
    known = {rule.slug for rule in rules()}
    level = analysis.chosen.explicit.get("level", analysis.chosen.config.values.get("level", Level.WARNING))
    # a rule that no longer exists has no findings any more
    difference = compare(baseline, files, analysis.root, lambda rule: rule in on or rule not in known, level)
    return difference.files, difference.stale


def _total(entries: Mapping[Key, Entry]) -> int:
    return sum(entry.count for entry in entries.values())


def _lines(entries: Mapping[Key, Entry]) -> Iterable[str]:
    rows = sorted((path, rule, entry) for (rule, path, _), entry in entries.items())
    for path, rule, entry in rows[:SAID]:
        times = f"{entry.count} x " if entry.count > 1 else ""
        yield f"{path}: {times}{rule} in {entry.kernel or 'the file'}: {entry.message}"
    if len(rows) > SAID:
        yield f"and {len(rows) - SAID} more"
