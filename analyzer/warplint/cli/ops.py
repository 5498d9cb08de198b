"""`warplint ops`: every operation that was recognised, who executes it, and what was not recognised."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from warplint.cli.options import color_option, launch_options, merge, wants_color

if TYPE_CHECKING:
    from warplint.operations import KernelOps

SHOWN_LINES = 12
"""Lines printed for one unknown name; more are counted."""


@click.command("ops")
@click.argument("paths", nargs=-1, required=True)
@click.option("--kernel", "-k", "kernels", metavar="NAME", multiple=True, help="Only kernels whose name contains NAME.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON (schema `warplint-ops/1`) for scripts.")
@click.option("--unknown", is_flag=True, help="Print only what was not recognised.")
@launch_options
@color_option
def list_operations(
    paths: tuple[str, ...],
    kernels: tuple[str, ...],
    as_json: bool,
    unknown: bool,
    stdin_name: str,
    color: str,
    **options: Any,
) -> int:
    """List the operations of each kernel: line, name, spelling, and the threads that execute it.

    Below stands what was not recognised and may synchronise: inline assembly that is not understood, and calls of
    unknown functions that are handed shared memory, or nothing that they could have an effect on. A dialect pack
    (`warplint dialects`) or a header (`-I`) makes them known. Exit code: 0, or 2 when a file could not be read.
    """
    from warplint.discover import find
    from warplint.operations import list_paths

    chosen = merge(paths, tree=False, execute=False, **options)
    code = 0
    shown: list[KernelOps] = []
    for file in list_paths(find(paths, stdin_name), chosen.settings, kernels):
        for text in (file.problem, *file.reasons):
            if text:
                click.echo(f"warplint: {file.path}: {text}", err=True)
        if file.problem:
            code = 2
        elif not file.kernels and not file.reasons:
            named = f" whose name contains {' or '.join(kernels)}" if kernels else ""
            click.echo(f"warplint: {file.path}: no kernel{named} found", err=True)
        shown.extend(file.kernels)
    if as_json:
        click.echo(_json(shown, unknown))
        return code
    paint = wants_color(color, sys.stdout)
    for number, kernel in enumerate(shown):
        if number:
            click.echo("")
        for line in _lines(kernel, paint, unknown):
            click.echo(line, color=paint)
    return code


def _json(kernels: list[KernelOps], unknown: bool) -> str:
    import json

    from msgspec import to_builtins

    listed = [to_builtins(kernel) for kernel in kernels]
    for kernel in listed:
        if unknown:
            del kernel["operations"]
        for row in kernel["unrecognised"]:
            row["count"] = len(row["lines"])
    return json.dumps({"schema": "warplint-ops/1", "kernels": listed}, indent=2)


def _lines(kernel: KernelOps, paint: bool, unknown: bool) -> Iterator[str]:
    from warplint_reports.report import visible

    def style(text: str, **how: Any) -> str:
        return click.style(text, **how) if paint else text

    yield f"{style(visible(kernel.name), bold=True)}  {visible(kernel.path)}:{kernel.line}"
    rows = kernel.operations if not unknown else ()
    if kernel.assumed and rows:
        yield style(f"  block size unknown: {kernel.threads} threads are assumed; pass --block", fg="yellow")
    width = min(max((len(row.op) for row in rows), default=0), 32)
    for row in rows:
        where = "" if row.path == kernel.path else f"{visible(row.path)}:"
        spelling = f"  {visible(row.spelling)}" if row.spelling not in ("", row.op) else ""
        detail = f"  {visible(row.detail)}" if row.detail else ""
        times = f"  {row.times} times" if row.times > 1 else ""
        threads = row.threads if row.certain else f"~ {row.threads}"
        name = style(f"{row.op:<{width}}", bold=True)
        yield f"  {style(f'{where}{row.line:>5}', dim=True)}  {name}{spelling}  [{threads}]{detail}{times}"
    if kernel.left_out:
        yield f"  and {kernel.left_out} more"
    if not unknown:
        places = len({(row.path, row.line, row.op) for row in rows})
        named = len({(row.path, row.line, row.op) for row in rows if row.by == "table"})
        yield f"  {places} operation{'s' * (places != 1)} recognised, {named} of them by a dialect table"
    total = sum(len(row.lines) for row in kernel.unrecognised)
    if not total:
        yield "  nothing that may synchronise was left unrecognised"
    else:
        yield style(f"  {total} place{'s' * (total != 1)} not recognised:", fg="yellow")
    for item in kernel.unrecognised:
        lines = ", ".join(map(str, item.lines[:SHOWN_LINES]))
        more = f" and {len(item.lines) - SHOWN_LINES} more" if len(item.lines) > SHOWN_LINES else ""
        given = f"  (is given {', '.join(map(visible, item.given))})" if item.given else ""
        plural = "s" if len(item.lines) > 1 else ""
        yield f"    {len(item.lines)} x {item.kind} `{visible(item.what)}`{given}  line{plural} {lines}{more}"
    for reason in kernel.reasons:
        yield style(f"  incomplete: {visible(reason)}", fg="yellow")
