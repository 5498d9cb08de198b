"""`warplint run`: the executed protocol, role by role and barrier by barrier."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from warplint.cli.handoffs import as_json, collect, pick
from warplint.cli.options import color_option, launch_options, wants_color

if TYPE_CHECKING:
    from warplint.handoffs.listing import Wanted
    from warplint.tables import Run
    from warplint.traced import Traced

STEPS = 10_000
"""Steps in JSON unless another limit is asked for."""


@click.command("run")
@click.argument("paths", nargs=-1, required=True)
@click.option("--kernel", "-k", "kernels", metavar="NAME", multiple=True, help="Only kernels whose name contains NAME.")
@click.option(
    "--agent",
    "-a",
    "agents",
    metavar="WHO",
    multiple=True,
    help="Only these: a part of a role's name, `warp N` or `thread N`; repeatable.",
)
@click.option(
    "--barrier",
    "-b",
    "barriers",
    metavar="NAME",
    multiple=True,
    help="Only steps on these barriers: `B2`, or a part of the word (`pool + 24`); repeatable.",
)
@click.option("--cta", "ctas", metavar="N", type=click.IntRange(0), multiple=True, help="Only these CTAs; repeatable.")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1),
    help="Most lines for each role and barrier (default 120); with --json, most steps (default 10000).",
)
@click.option("--unfold", is_flag=True, help="Print every round of every loop.")
@click.option("--scenario", metavar="N", type=click.IntRange(0), help="Show execution N (from 0). Default: the first "
              "that blocks on facts, else the first that ends.")  # fmt: skip
@click.option("--json", "as_json_", is_flag=True, help="Write JSON (schema `warplint-run/1`) for tools.")
@launch_options
@color_option
def run(
    paths: tuple[str, ...],
    kernels: tuple[str, ...],
    agents: tuple[str, ...],
    barriers: tuple[str, ...],
    ctas: tuple[int, ...],
    limit: int | None,
    unfold: bool,
    scenario: int | None,
    as_json_: bool,
    stdin_name: str,
    color: str,
    **options: Any,
) -> int:
    """Execute the protocol of each kernel and print what happened.

    For each role, the synchronisation operations, copies, MMAs and accesses in the order in which it executed them,
    with the barrier, its phase and parity, bytes and counts; for each barrier word its phases, who arrived and who
    waited; and who is blocked at the end. Data is unknown to warplint, so that sizes that a launch passes in are small
    numbers: the scenario says which. Exit code: 0, or 2 when a file could not be read.
    """
    from warplint.handoffs.listing import Wanted

    wanted = Wanted(agents, barriers, ctas, (limit or STEPS) if as_json_ else 10**9)
    code, shown = collect(paths, kernels, stdin_name, options, lambda kernel: _run(kernel, scenario, wanted))
    if as_json_:
        from warplint.tables import RunDocument

        click.echo(as_json(RunDocument("warplint-run/1", tuple(shown))))
        return code
    from warplint_reports.protocol_run import ROWS, render

    paint = wants_color(color, sys.stdout)
    click.echo(render(shown, color=paint, limit=limit or ROWS, fold=not unfold), nl=False, color=paint)
    return code


def _run(kernel: Traced, scenario: int | None, wanted: Wanted) -> Run:
    from warplint.tables import Run

    if kernel.recorded is None:
        return Run(kernel.name, kernel.path, kernel.line, kernel.facts, "", True, kernel.unexecuted, kernel.incomplete)
    from warplint.handoffs import run as executed

    return executed(kernel.recorded, pick(kernel, scenario), kernel.facts, kernel.incomplete, wanted)
