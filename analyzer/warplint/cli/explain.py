"""`warplint rules` and `warplint explain`: the catalogue, from the rules' own docstrings."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import click

from warplint.cli.editor import rule_names
from warplint.cli.options import color_option, wants_color
from warplint.finding import RuleInfo


def _infos() -> tuple[RuleInfo, ...]:
    from warplint.registry import RuleError, rules

    try:
        return tuple(rule.info for rule in rules())
    except RuleError as error:
        raise click.ClickException(str(error)) from error


def _data(info: RuleInfo) -> dict[str, Any]:
    return {
        "rule": info.slug,
        "family": info.family,
        "level": info.level.value,
        "symptom": info.symptom.value,
        "precision": info.precision,
        "debugging_guide": info.guide,
        "summary": info.summary,
        "why": info.why,
        "bad": info.bad,
        "good": info.good,
    }


@click.command("rules")
@click.option(
    "--json", "as_json", is_flag=True, help="Write JSON (schema `warplint-rules/1`) with each rule's full text."
)
@click.option("--markdown", is_flag=True, help="Write a Markdown page with each rule's full text (docs/RULES.md).")
def list_rules(as_json: bool, markdown: bool) -> int:
    """List the rules: name, level, symptom and what they find."""
    infos = _infos()
    if as_json and markdown:
        raise click.UsageError("--json and --markdown exclude each other")
    if markdown:
        click.echo(_markdown(infos))
        return 0
    if as_json:
        import json

        click.echo(json.dumps({"schema": "warplint-rules/1", "rules": [_data(info) for info in infos]}, indent=2))
        return 0
    families = _families(infos)
    if sys.stdout.isatty():
        _table(families)
        return 0
    width = max((len(info.slug) for info in infos), default=4)
    for family, members in families.items():
        click.echo(f"{family}:")
        for info in members:
            click.echo(f"  {info.slug:<{width}}  {info.level.value:<7}  {info.symptom.value:<12}  {info.summary}")
    return 0


def _families(infos: Iterable[RuleInfo]) -> dict[str, list[RuleInfo]]:
    families: dict[str, list[RuleInfo]] = {}
    for info in infos:
        families.setdefault(info.family, []).append(info)
    return dict(sorted(families.items()))


def _markdown(infos: Iterable[RuleInfo]) -> str:
    """All rules as one page: a table with links, then each rule with why, a wrong and a right example."""
    families = _families(infos)
    lines = [
        "# Rules",
        "",
        "Written by `warplint rules --markdown` from the rules' own texts. Each Bad and each Good is run as a test:",
        "its rule reports the first and is silent on the second. `warplint explain RULE` prints one of them.",
        "",
    ]
    for family, members in families.items():
        lines += [f"**{family}**", "", "| rule | level | symptom | finds |", "|---|---|---|---|"]
        for info in members:
            found = info.summary.replace("|", "\\|")
            lines.append(f"| [{info.slug}](#{info.slug}) | {info.level.value} | {info.symptom.value} | {found} |")
        lines.append("")
    for family, members in families.items():
        lines += [f"# {family}", ""]
        for info in members:
            lines += [f"## {info.slug}", "", f"{info.summary}.", "", f"*{_facts(info)}*", "", info.why, ""]
            for title, code in (("Bad", info.bad), ("Good", info.good)):
                lines += [title, "", "```cuda", code.rstrip(), "```", ""]
    return "\n".join(lines).rstrip()


def _table(families: dict[str, list[RuleInfo]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    colors = {"error": "red", "warning": "yellow", "note": "cyan"}
    table = Table(box=None, pad_edge=False, header_style="dim")
    for heading in ("rule", "level", "symptom", "finds"):
        table.add_column(heading, no_wrap=heading != "finds")
    for family in sorted(families):
        table.add_row(Text(family, style="bold"), "", "", "")
        for info in families[family]:
            level = info.level.value
            table.add_row(f"  {info.slug}", Text(level, style=colors[level]), info.symptom.value, Text(info.summary))
    Console().print(table)


@click.command("explain")
@click.argument("rule", shell_complete=rule_names)
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
@color_option
def explain(rule: str, as_json: bool, color: str) -> int:
    """Say what RULE finds, why it matters, and show a wrong and a right example."""
    infos = {info.slug: info for info in _infos()}
    info = infos.get(rule.strip().lower().replace("_", "-"))
    if info is None:
        from warplint.registry import UnknownRule

        raise click.UsageError(str(UnknownRule(rule, infos)))
    if as_json:
        import json

        click.echo(json.dumps(_data(info), indent=2))
        return 0
    if wants_color(color, sys.stdout):
        _page(info)
        return 0
    click.echo(f"{info.slug}: {info.summary}\n")
    click.echo(_facts(info))
    click.echo(f"\nWhy\n\n{info.why}\n\nBad\n\n{_indented(info.bad)}\n\nGood\n\n{_indented(info.good)}")
    return 0


def _facts(info: RuleInfo) -> str:
    guide = "; asked for by the debugging guide" if info.guide else ""
    return f"level {info.level.value}, symptom {info.symptom.value}, family {info.family}{guide}"


def _indented(code: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in code.split("\n"))


def _page(info: RuleInfo) -> None:
    from rich.console import Console
    from rich.markdown import Markdown
    from rich.syntax import Syntax
    from rich.text import Text

    console = Console(force_terminal=True, width=min(Console().width, 100))
    console.print(Text.assemble((info.slug, "bold"), f": {info.summary}"))
    console.print(Text(_facts(info), style="dim"), Text())
    console.print(Markdown(info.why))
    for title, code in (("Bad", info.bad), ("Good", info.good)):
        console.print(Text(f"\n{title}\n", style="bold red" if title == "Bad" else "bold green"))
        console.print(Syntax(code, "cuda", background_color="default", padding=(0, 4)))
