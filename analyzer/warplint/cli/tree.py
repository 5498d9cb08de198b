"""`warplint tree`: which threads are in which branch, and what they execute there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import click

from warplint.cli.options import color_option, launch_options, merge, wants_color
from warplint.finding import KernelReport, TreeNode, TreeOp

THREADS_WIDTH = 44
"""Columns for the thread sets."""


@click.command("tree")
@click.argument("paths", nargs=-1, required=True)
@click.option("--kernel", "-k", "kernels", metavar="NAME", multiple=True, help="Only kernels whose name contains NAME.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON (schema `warplint-tree/1`) for scripts.")
@click.option("--spelling", is_flag=True, help="Also print how the source spells each operation.")
@launch_options
@color_option
def tree(
    paths: tuple[str, ...],
    kernels: tuple[str, ...],
    as_json: bool,
    spelling: bool,
    stdin_name: str,
    color: str,
    **options: Any,
) -> int:
    """Print the role-guard tree of each kernel.

    Every branch is shown with its line and the exact set of threads in it, and below it the synchronisation
    operations, copies and collectives that these threads execute, in program order, with the barriers and counts that
    are known. An operation shows its threads where they are fewer than those of its branch. `~` marks sets that are
    upper bounds: the condition could not be evaluated. Exit code: 0, or 2 when a file could not be read.
    """
    from warplint.discover import find
    from warplint.engine import lint_paths

    chosen = merge(paths, tree=True, execute=False, **options)
    code = 0
    shown: list[KernelReport] = []
    for file in lint_paths(find(paths, stdin_name), chosen.settings):
        if file.problem:
            click.echo(f"warplint: {file.path}: {file.problem}", err=True)
            code = 2
        for reason in file.reasons:
            click.echo(f"warplint: {file.path}: {reason.text}", err=True)
        if not file.problem and not file.kernels and not file.reasons:
            click.echo(f"warplint: {file.path}: no kernel found", err=True)
        shown.extend(k for k in file.kernels if not kernels or any(name in k.name for name in kernels))
    if as_json:
        click.echo(_json(shown))
        return code
    paint = wants_color(color, sys.stdout)
    for number, kernel in enumerate(shown):
        if number:
            click.echo("")
        for line in _lines(kernel, paint, spelling):
            click.echo(line, color=paint)
    return code


def _json(kernels: list[KernelReport]) -> str:
    import json

    from warplint_reports.json import tree as tree_data

    data = {
        "schema": "warplint-tree/1",
        "kernels": [
            {
                "name": kernel.name,
                "path": kernel.path,
                "line": kernel.line,
                "facts": dict(kernel.facts),
                "reasons": [{"text": reason.text, "line": reason.line} for reason in kernel.reasons],
                "tree": tree_data(kernel.tree) if kernel.tree else None,
            }
            for kernel in kernels
        ],
    }
    return json.dumps(data, indent=2)


def _lines(kernel: KernelReport, paint: bool, spelling: bool) -> Iterator[str]:
    from warplint_reports.report import visible

    def style(text: str, **how: Any) -> str:
        return click.style(text, **how) if paint else text

    yield f"{style(visible(kernel.name), bold=True)}  {visible(kernel.path)}:{kernel.line}"
    for name, value in kernel.facts:
        if name != "protocol":
            yield style(f"  {name}: {visible(value)}", dim=True)
    for reason in kernel.reasons:
        where = f"line {reason.line}: " if reason.line else ""
        yield style(f"  incomplete: {where}{visible(reason.text)}", fg="yellow")
    if kernel.tree is None:
        return
    rows = list(_rows(kernel.tree))
    lines = max(len(str(item.line)) for item, _, _ in rows)
    width = min(max(len(threads) for _, _, threads in rows), THREADS_WIDTH)
    for item, depth, threads in rows:
        head = f"  {item.line:>{lines}}  {threads:<{width}}  "
        if len(threads) > width:  # a long set gets a line of its own
            yield style(f"  {item.line:>{lines}}  {threads}", dim=True)
            head = " " * (lines + width + 6)
        if isinstance(item, TreeNode):
            text = "kernel" if item.kind == "kernel" else visible(f"{item.kind} {item.label}".strip())
            text = style(text, fg="cyan")
        else:
            text = style(item.op, bold=True)
            if item.detail:
                text += f"  {visible(item.detail)}"
            if spelling and item.spelling not in ("", item.op):
                text += style(f"  {visible(item.spelling)}", dim=True)
        yield f"{style(head, dim=True)}{'  ' * depth}{text}"


def _rows(root: TreeNode) -> Iterator[tuple[TreeNode | TreeOp, int, str]]:
    """Every branch and operation with its depth and its threads (empty for an operation of its whole branch)."""
    stack: list[tuple[TreeNode | TreeOp, int, str]] = [(root, 0, "")]
    while stack:
        item, depth, above = stack.pop()
        if isinstance(item, TreeNode):
            yield item, depth, item.threads if item.certain else f"~ {item.threads}"
            stack.extend((child, depth + 1, item.threads) for child in reversed(item.items))
        else:
            yield item, depth, item.threads if item.threads != above else ""
