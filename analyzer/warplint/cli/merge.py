"""`warplint merge`: the reports of several machines as one."""

from __future__ import annotations

import json
from typing import Any

import click

from warplint.cli.analysis import LEVELS
from warplint.finding import Level


@click.command("merge", short_help="Put the reports of several machines together.")
@click.argument("reports", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False))
@click.option("--output", "-o", metavar="FILE", default="-", help="Where to write it.  [default: standard output]")
@click.option(
    "--fail-on",
    type=LEVELS,
    default="error",
    show_default=True,
    help="Lowest level for which the exit code is 1.",
)
@click.option("--strict", is_flag=True, help="Exit with 1 when a kernel could not be judged completely.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even when there are findings.")
def merge_reports(reports: tuple[str, ...], output: str, fail_on: str, strict: bool, exit_zero: bool) -> int:
    """Put REPORTS (SARIF or JSON, of the same kind) together.

    \b
        warplint lint artifacts/ --shard 1/2 -q -o sarif=1.sarif     # on one machine
        warplint lint artifacts/ --shard 2/2 -q -o sarif=2.sarif     # on another
        warplint merge 1.sarif 2.sarif -o warplint.sarif

    The result is what one run over all files would have written; a missing shard is an error. Exit code: as of `lint`.
    """
    from warplint_reports.merge import MergeError, merged, worst

    named = [(path, _read(path)) for path in reports]
    try:
        kind, text = merged(named)
    except MergeError as error:
        raise click.UsageError(str(error)) from error
    if output == "-":
        click.echo(text, nl=False)
    else:
        from warplint_reports.write import write_atomically

        try:
            write_atomically(output, text)
        except OSError as error:
            click.echo(f"warplint: cannot write {output}: {error.strerror or error}", err=True)
            return 2
    levels, problem, incomplete = worst(kind, text)
    if problem:
        return 2
    if exit_zero:
        return 0
    return int(any(Level(level).rank >= Level(fail_on).rank for level in levels) or (strict and incomplete))


def _read(path: str) -> Any:
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        raise click.UsageError(f"{path}: cannot be read: {error}") from error
