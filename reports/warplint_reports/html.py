"""The report as one HTML file that needs nothing else: no network, no folder beside it, no script to be read.

With JavaScript off everything is there in order: verdicts, findings with their evidence, role trees, sources. The
script adds filters whose state lives in the address, keys, and the folding of lines that matter to no finding. All text
of the input is escaped by the template engine, and a content security policy lets only our own script run.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape

from warplint.finding import FileReport, Finding, KernelReport, Level, Location, RuleInfo, TreeNode, TreeOp, Verdict
from warplint_reports import protocol_words
from warplint_reports.json import as_data
from warplint_reports.report import Report, counted, tally, visible
from warplint_reports.sourceview import Line, Mark, excerpt, view
from warplint_reports.strip import strip

LONG_FILE = 300
"""Lines from which a source is folded to what matters at first."""
WHOLE_BYTES = 8_000_000
"""Source shown in whole files in one report (80 bytes more a line, for its markup); of files beyond, only the
surroundings of what is marked."""
COLOURED_BYTES = 2_500_000
"""Source that is coloured in one report, counted likewise (the lexer does less than a megabyte a second)."""
OPEN_DEPTH = 6
"""Depth down to which a role tree is unfolded at first."""


@dataclass
class Item:
    """A finding on the page."""

    anchor: str
    file: int
    finding: Finding
    lines: list[Line]
    strip: Markup
    rule: RuleInfo | None
    prose: str
    """All its words in lower case, for the text filter."""


@dataclass
class Source:
    """A file on the page."""

    number: int
    report: FileReport
    lines: list[Line]
    folded: bool
    shown: range | set[int]
    """Numbers of the lines that are on the page."""


@dataclass
class Row:
    """A kernel on the page. `tree` is flat: ("open", node, ...), ("op", op, ...), ("close",)."""

    anchor: str
    file: int
    kernel: KernelReport
    tally: str
    tree: list[tuple]
    items: list[Item]


def render(report: Report) -> str:
    """The page."""
    environment = Environment(
        loader=PackageLoader("warplint_reports"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["visible"] = visible
    environment.filters["prose"] = _inline_code
    environment.globals["words"] = protocol_words
    loader = environment.loader
    assert loader is not None
    script = loader.get_source(environment, "report.js")[0]
    style = loader.get_source(environment, "report.css")[0]
    page = _page(report)
    template = environment.get_template("report.html.j2")
    return template.render(
        page,
        script=Markup(script),
        style=Markup(style),
        policy=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        island=_island(report),
    )


_CODE = re.compile(r"`([^`]+)`")


def _inline_code(text: str) -> Markup:
    """Prose with `code` in backticks set as code."""
    escaped = str(escape(visible(text)))
    return Markup(_CODE.sub(r"<code>\1</code>", escaped))


def _island(report: Report) -> Markup:
    """The report's data for scripts; no `<` can end the element early."""
    text = json.dumps(as_data(report), separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _page(report: Report) -> dict[str, Any]:
    everything = list(report.findings())
    numbers = {id(file): number for number, file in enumerate(report.files, 1)}
    by_path = {file.path: number for file, number in ((f, numbers[id(f)]) for f in reversed(report.files))}
    anchors = _anchors([finding for _, finding in everything])
    marks = _marks(report.files, everything)
    sources = _sources(report.files, marks)
    rules = {rule.slug: rule for rule in report.rules}
    strips = {id(kernel): _op_strips(kernel) for _, kernel in report.kernels()}
    holder = {id(finding): kernel for _, kernel in report.kernels() for finding in kernel.findings}
    items = []
    for index, (file, finding) in enumerate(everything):
        number = numbers[id(file)]
        kernel = holder.get(id(finding))
        drawn = strips[id(kernel)].get((finding.location.line, finding.threads), Markup()) if kernel else Markup()
        shown = []
        if finding.location.path == file.path:
            conditions = [guard.line for guard in finding.guards]
            shown = excerpt(sources[number - 1].lines, finding.location.line, conditions)
        items.append(Item(anchors[index], number, finding, shown, drawn, rules.get(finding.rule), _prose(finding)))
    at_line: dict[tuple[int, int], list[Item]] = {}
    for item in items:
        at_line.setdefault((item.file, item.finding.location.line), []).append(item)
    of_kernel: dict[int, list[Item]] = {}
    for item, (_, finding) in zip(items, everything, strict=True):
        if id(finding) in holder:
            of_kernel.setdefault(id(holder[id(finding)]), []).append(item)
    kernels = [
        Row(
            f"k{number}",
            numbers[id(file)],
            kernel,
            tally(kernel.findings),
            list(_flat(kernel)),
            of_kernel.get(id(kernel), []),
        )
        for number, (file, kernel) in enumerate(report.kernels(), 1)
    ]

    def anchor(number: int, line: int) -> str:
        source = sources[number - 1]
        if not source.lines:
            return "#sources"
        return f"#s{number}-{line}" if line in source.shown else f"#s{number}"

    def link(place: Location) -> str:
        number = by_path.get(place.path)
        return anchor(number, place.line) if number and sources[number - 1].lines else ""

    used = sorted({item.finding.rule for item in items})
    return {
        "version": report.version,
        "items": items,
        "kernels": kernels,
        "sources": sources,
        "files": report.files,
        "at_line": at_line,
        "link": link,
        "anchor": anchor,
        "headline": tally(finding for _, finding in everything) or "No findings",
        "worst": next((v.value for v in reversed(Level) if report.count(v)), "clean"),
        "verdicts": {v.value: sum(k.kernel.verdict is v for k in kernels) for v in Verdict},
        "levels": {v.value: report.count(v) for v in reversed(Level)},
        "rules_used": [(slug, sum(i.finding.rule == slug for i in items)) for slug in used],
        "symptoms": sorted({item.finding.symptom.value for item in items}),
        "counted": counted,
        "suppressed": list(report.suppressed()),
        "title": _title(report),
    }


def _sources(files: tuple[FileReport, ...], marks: dict[int, dict[int, Mark]]) -> list[Source]:
    """The files as shown; those with something marked have the first claim on space and colour."""
    whole, coloured = WHOLE_BYTES, COLOURED_BYTES
    made: dict[int, Source] = {}
    for number in sorted(marks, key=lambda number: (not any(mark.level for mark in marks[number].values()), number)):
        file = files[number - 1]
        size = len(file.data) + 80 * file.data.count(b"\n")
        in_full, in_colour = size <= whole, size <= min(coloured, whole)
        whole -= size if in_full else 0
        coloured -= size if in_colour else 0
        lines = view(file, marks[number], whole=in_full, coloured=in_colour) if file.data else []
        shown = range(1, len(lines) + 1) if in_full else {line.number for line in lines}
        made[number] = Source(number, file, lines, len(lines) > LONG_FILE and bool(marks[number]), shown)
    return [made[number] for number in sorted(made)]


def _title(report: Report) -> str:
    names = [file.path for file in report.files]
    return names[0] if len(names) == 1 else counted(len(names), "file")


def _anchors(findings: list[Finding]) -> list[str]:
    """One id per finding from its fingerprint; equal ones are numbered."""
    seen: dict[str, int] = {}
    anchors = []
    for finding in findings:
        base = "f-" + ("".join(char for char in finding.fingerprint if char.isalnum()) or "x")
        seen[base] = seen.get(base, 0) + 1
        anchors.append(base if seen[base] == 1 else f"{base}-{seen[base]}")
    return anchors


def _prose(finding: Finding) -> str:
    place = finding.location.path
    parts = [finding.message, finding.rule, finding.kernel, place, finding.threads, finding.why, finding.remedy]
    parts.extend(guard.text for guard in finding.guards)
    return visible(" ".join(" ".join(parts).split())).lower()


# ---------------------------------------------------------------------------------------------------- marks
def _marks(files: tuple[FileReport, ...], findings: list[tuple[FileReport, Finding]]) -> dict[int, dict[int, Mark]]:
    """What is marked in each file (by its number), by line."""
    marks: dict[int, dict[int, Mark]] = {number: {} for number in range(1, len(files) + 1)}
    numbers = {id(file): number for number, file in enumerate(files, 1)}

    def at(file: FileReport, place: Location) -> Mark | None:
        return marks[numbers[id(file)]].setdefault(place.line, Mark()) if place.path == file.path else None

    for index, (file, finding) in enumerate(findings):
        place = finding.location
        if mark := at(file, place):
            if not mark.level or finding.level.rank > Level(mark.level).rank:
                mark.level = finding.level.value
            mark.findings.append(index)
            if place.end_column > place.column and place.end_line in (0, place.line):
                mark.ranges.append((place.column, place.end_column))
        for other in finding.related:
            at(file, other)
        for guard in finding.guards:
            marks[numbers[id(file)]].setdefault(guard.line, Mark())
        for number, step in enumerate(finding.steps, 1):
            if mark := at(file, step):
                mark.steps.append(number)
    for file in files:
        for kernel in file.kernels:
            for reason in kernel.reasons:
                if reason.line:
                    marks[numbers[id(file)]].setdefault(reason.line, Mark())
    return marks


# ----------------------------------------------------------------------------------------------- role trees
def _shape(kernel: KernelReport) -> tuple[int, int]:
    """Threads per block and lanes per warp (64 on gfx9)."""
    warp = 64 if dict(kernel.facts).get("arch", "").startswith("gfx9") else 32
    return (kernel.tree.count if kernel.tree else 0), warp


def _walk(root: TreeNode) -> Iterator[tuple[str, TreeNode | TreeOp | None, TreeNode | None, int]]:
    """("open", node, parent, depth), ("op", op, parent, depth) and ("close", ...) in order, without recursion."""
    stack: list[tuple[str, TreeNode | TreeOp | None, TreeNode | None, int]] = [("open", root, None, 0)]
    while stack:
        event = stack.pop()
        yield event
        kind, item, _, depth = event
        if kind == "open" and isinstance(item, TreeNode):
            stack.append(("close", None, None, depth))
            for child in reversed(item.items):
                stack.append(("open" if isinstance(child, TreeNode) else "op", child, item, depth + 1))


def _flat(kernel: KernelReport) -> Iterator[tuple]:
    if kernel.tree is None:
        return
    total, warp = _shape(kernel)
    found = {finding.location.line for finding in kernel.findings}
    for kind, item, parent, depth in _walk(kernel.tree):
        if isinstance(item, TreeNode):
            drawn = strip(item.mask, item.count, total, warp, item.certain)
            yield (kind, item, drawn, depth < OPEN_DEPTH)
        elif isinstance(item, TreeOp):
            yield (kind, item, item.line in found, parent is None or parent.threads != item.threads)
        else:
            yield (kind,)


def _op_strips(kernel: KernelReport) -> dict[tuple[int, str], Markup]:
    """Drawings for findings: by line and thread text of an operation that its whole branch executes."""
    drawn: dict[tuple[int, str], Markup] = {}
    if kernel.tree is None:
        return drawn
    total, warp = _shape(kernel)
    lines = {finding.location.line for finding in kernel.findings}
    for _, item, parent, _ in _walk(kernel.tree):
        if isinstance(item, TreeOp) and item.line in lines and parent and parent.threads == item.threads:
            key = (item.line, item.threads)
            if key not in drawn:
                drawn[key] = strip(parent.mask, parent.count, total, warp, parent.certain)
    return drawn
