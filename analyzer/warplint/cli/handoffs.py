"""`warplint handoffs`: the tables of roles, storage, hand-offs and lifetimes, and the graph of roles and barriers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec import Struct

from warplint.cli.options import color_option, launch_options, merge, wants_color

if TYPE_CHECKING:
    from warplint.tables import Protocol
    from warplint.traced import Traced, TracedFile

Shown = TypeVar("Shown")


@click.command("handoffs")
@click.argument("paths", nargs=-1, required=True)
@click.option("--kernel", "-k", "kernels", metavar="NAME", multiple=True, help="Only kernels whose name contains NAME.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "markdown"]),
    default="text",
    show_default=True,
    help="Format of what is written to standard output; json has the schema `warplint-handoffs/1`.",
)
@click.option(
    "--graph",
    type=click.Choice(["dot", "mermaid"]),
    help="Write the graph of roles and barriers instead of the tables.",
)
@click.option(
    "--scenario",
    metavar="N",
    type=click.IntRange(0),
    help="Show execution N (from 0). Default: the first that blocks on facts, else the first that ends.",
)
@launch_options
@color_option
def handoffs(
    paths: tuple[str, ...],
    kernels: tuple[str, ...],
    form: str,
    graph: str | None,
    scenario: int | None,
    stdin_name: str,
    color: str,
    **options: Any,
) -> int:
    """Derive the tables that hand-offs are debugged with, from executing the kernel.

    Roles (which threads do what, under which guards), storage (who writes and reads each buffer of shared and tensor
    memory, and how many stages it has), hand-offs (who arrives at each barrier, how often and with how many bytes, who
    waits, with which parity, and what is handed over) and lifetimes (what a buffer is reused after, what orders its
    release). A kernel that hangs shows who waits for whom. Exit code: 0, or 2 when a file could not be read.
    """
    code, shown = collect(paths, kernels, stdin_name, options, lambda kernel: _protocol(kernel, scenario))
    if graph:
        from warplint_reports.protocol_graph import render as draw

        click.echo(draw(shown, graph), nl=False)
    elif form == "json":
        from warplint.tables import HandoffsDocument

        click.echo(as_json(HandoffsDocument("warplint-handoffs/1", tuple(shown))))
    elif form == "markdown":
        from warplint_reports.protocol_markdown import render as mark

        click.echo(mark(shown), nl=False)
    else:
        from warplint_reports.protocol_text import render

        paint = wants_color(color, sys.stdout)
        click.echo(render(shown, color=paint), nl=False, color=paint)
    return code


def collect(
    paths: tuple[str, ...],
    kernels: tuple[str, ...],
    stdin_name: str,
    options: dict[str, Any],
    make: Callable[[Traced], Shown],
) -> tuple[int, list[Shown]]:
    """Execute the wanted kernels of all paths, and make of each what is shown; no execution is kept.

    Says on standard error what could not be read. Returns the exit code and what was made.
    """
    from warplint.discover import find
    from warplint.traced import trace_paths

    chosen = merge(paths, tree=False, execute=True, **options)
    code = 0
    shown: list[Shown] = []
    for file in trace_paths(find(paths, stdin_name), chosen.settings, kernels):
        for line in _said(file, kernels):
            click.echo(f"warplint: {line}", err=True)
        if file.problem:
            code = 2
        shown.extend(make(kernel) for kernel in file.kernels)
    return code, shown


def _said(file: TracedFile, kernels: tuple[str, ...]) -> Iterator[str]:
    if file.problem:
        yield f"{file.path}: {file.problem}"
    for reason in file.reasons:
        yield f"{file.path}: {reason}"
    if not file.problem and not file.reasons and not file.kernels:
        named = f" whose name contains {' or '.join(kernels)}" if kernels else ""
        yield f"{file.path}: no kernel{named} found"


def pick(kernel: Traced, scenario: int | None) -> int:
    """The execution that is wanted. Raises UsageError when there is none of that number."""
    assert kernel.recorded is not None
    if scenario is None:
        return kernel.recorded.chosen
    count = len(kernel.recorded.scenarios)
    if scenario >= count:
        names = "; ".join(f"{at}: {name}" for at, name in enumerate(kernel.recorded.scenarios))
        raise click.UsageError(f"--scenario {scenario}: kernel {kernel.name} was executed {count} times ({names})")
    return scenario


def _protocol(kernel: Traced, scenario: int | None) -> Protocol:
    from warplint.tables import Protocol

    if kernel.recorded is None:
        return Protocol(
            kernel.name, kernel.path, kernel.line, kernel.facts, "", (), kernel.unexecuted, kernel.incomplete
        )
    from warplint.handoffs import protocol

    return protocol(kernel.recorded, pick(kernel, scenario), kernel.facts, kernel.incomplete)


def as_json(document: Struct) -> str:
    """A document for tools, indented."""
    import json

    from msgspec import to_builtins

    return json.dumps(to_builtins(document), indent=2)
