"""`warplint tree`: which threads are in which branch, and what they execute there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import click

from warplint.cli.options import color_option, launch_options, merge, wants_color
from warplint.finding import KernelReport, TreeNode


@click.command("tree")
@click.argument("paths", nargs=-1, required=True)
@click.option("--kernel", "-k", "kernels", metavar="NAME", multiple=True, help="Only kernels whose name contains NAME.")
@click.option("--json", "as_json", is_flag=True, help="Write JSON (schema `warplint-tree/1`) for scripts.")
@launch_options
@color_option
def tree(
    paths: tuple[str, ...], kernels: tuple[str, ...], as_json: bool, stdin_name: str, color: str, **options: Any
) -> int:
    """Print the role-guard tree of each kernel.

    Every branch is shown with the exact set of threads in it, and the synchronisation operations, copies and
    collectives that these threads execute, in program order. `~` marks sets that are upper bounds: the condition
    could not be evaluated. Exit code: 0, or 2 when a file could not be read.
    """
    from warplint.discover import find
    from warplint.engine import lint_paths

    chosen = merge(paths, tree=True, **options)
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
        for line in _lines(kernel, paint):
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


def _lines(kernel: KernelReport, paint: bool) -> Iterator[str]:
    from warplint_reports.report import visible

    def style(text: str, **how: Any) -> str:
        return click.style(text, **how) if paint else text

    yield f"{style(visible(kernel.name), bold=True)}  {visible(kernel.path)}:{kernel.line}"
    for name, value in kernel.facts:
        if name != "checks":
            yield style(f"  {name}: {visible(value)}", dim=True)
    for reason in kernel.reasons:
        where = f"line {reason.line}: " if reason.line else ""
        yield style(f"  incomplete: {where}{visible(reason.text)}", fg="yellow")
    if kernel.tree is None:
        return
    # depth first, in source order, with an explicit stack
    stack: list[tuple[Any, int]] = [(kernel.tree, 0)]
    while stack:
        item, depth = stack.pop()
        indent = "  " * (depth + 1)
        who, line = style(item.threads, dim=True), style(f":{item.line}", dim=True)
        if isinstance(item, TreeNode):
            label = "kernel" if item.kind == "kernel" else visible(f"{item.kind} {item.label}".strip())
            mark = "" if item.certain else "~ "
            yield f"{indent}{style(label, fg='cyan')}  {mark}{who}  {line}"
            stack.extend((child, depth + 1) for child in reversed(item.items))
        else:
            detail = f"  ({visible(item.detail)})" if item.detail else ""
            name = item.op if item.spelling in ("", item.op) else f"{item.op}  {visible(item.spelling)}"
            yield f"{indent}{style(name, bold=True)}{detail}  {who}  {line}"
