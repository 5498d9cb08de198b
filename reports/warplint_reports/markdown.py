"""A short page in Markdown, for the summary of a workflow step or a comment on a merge request."""

from __future__ import annotations

import re
from collections.abc import Iterator

from warplint.finding import Verdict
from warplint_reports.report import Report, counted, tally, visible

ROWS = 200
"""Findings that are listed; GitHub takes a mebibyte a step."""
_MARK = {"error": "❌ error", "warning": "⚠️ warning", "note": "ℹ️ note"}


def render(report: Report) -> str:
    """The page, ending in a newline."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    found = sorted(report.findings(), key=lambda pair: -pair[1].level.rank)
    kernels = [kernel for _, kernel in report.kernels()]
    said = tally(finding for _, finding in found) or "no findings"
    yield f"### warplint: {said} in {counted(len(kernels), 'kernel')} of {counted(len(report.files), 'file')}"
    yield ""
    if found:
        yield "| | place | kernel | finding | rule |"
        yield "|---|---|---|---|---|"
        for _, finding in found[:ROWS]:
            place = f"{finding.location.path}:{finding.location.line}"
            kernel = _code(finding.kernel) if finding.kernel else ""
            text = _cell(finding.message)
            yield f"| {_MARK[finding.level.value]} | {_code(place)} | {kernel} | {text} | {_code(finding.rule)} |"
        if len(found) > ROWS:
            yield ""
            yield f"{len(found) - ROWS} more are in the other reports."
        yield ""
    problems = [(file.path, file.problem) for file in report.files if file.problem]
    problems += [(file.path, reason.text) for file in report.files for reason in file.reasons]
    problems += [
        (f"{kernel.path}: {kernel.name}", reason.text)
        for kernel in kernels
        if kernel.verdict is Verdict.INCOMPLETE
        for reason in kernel.reasons
    ]
    if problems:
        yield f"<details><summary>{len(problems)} not judged completely</summary>"
        yield ""
        for where, text in problems[:ROWS]:
            yield f"- {_code(where)}: {_cell(text)}"
        if len(problems) > ROWS:
            yield f"- and {len(problems) - ROWS} more"
        yield ""
        yield "</details>"
        yield ""
    if suppressed := sum(1 for _ in report.suppressed()):
        yield f"{suppressed} suppressed."
        yield ""


_SPECIAL = re.compile(r"([\\`*_{}\[\]()<>#+!|~@&])")


def _cell(text: str) -> str:
    """Prose of a table cell; `code` in backticks stays code, everything else is plain text."""
    parts = visible(" ".join(text.split())).split("`")
    if len(parts) % 2 == 0:  # a backtick without a partner
        return _plain("`".join(parts))
    return "".join(_code(part) if number % 2 else _plain(part) for number, part in enumerate(parts))


def _plain(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)


def _code(text: str) -> str:
    """A code span; a bar would end the cell, a run of backticks the span."""
    flat = visible(text).replace("|", "\\|")
    longest = max((len(run) for run in re.findall(r"`+", flat)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if flat.startswith("`") or flat.endswith("`") or not flat.strip() else ""
    return f"{fence}{pad}{flat}{pad}{fence}"
