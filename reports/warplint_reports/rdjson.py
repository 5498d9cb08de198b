"""Reviewdog's diagnostic format (rdjson). Its columns count bytes of UTF-8."""

from __future__ import annotations

import json
from typing import Any

from warplint.finding import FileReport, Level, Location
from warplint_reports.report import Report, lines_of, sentences, visible

_SEVERITY = {Level.ERROR: "ERROR", Level.WARNING: "WARNING", Level.NOTE: "INFO"}


def render(report: Report) -> str:
    """JSON text ending in a newline."""
    diagnostics = []
    for file, finding in report.findings():
        item: dict[str, Any] = {
            "message": visible(sentences(finding)),
            "location": _location(file, finding.location),
            "severity": _SEVERITY[finding.level],
            "code": {"value": finding.rule},
        }
        if finding.related or finding.steps:
            item["related_locations"] = [
                {"message": visible(place.message or f"line {place.line}"), "location": _location(file, place)}
                for place in (*finding.steps, *finding.related)
            ]
        diagnostics.append(item)
    for file in report.files:
        if file.problem:
            diagnostics.append({"message": visible(file.problem), "location": {"path": file.path}, "severity": "ERROR"})
    return json.dumps({"source": {"name": "warplint"}, "diagnostics": diagnostics}, indent=2) + "\n"


def _location(file: FileReport, place: Location) -> dict[str, Any]:
    text = lines_of(file).line_text(place.line) if place.path == file.path else None
    start = {"line": max(place.line, 1), "column": _bytes(text, place.column)}
    located: dict[str, Any] = {"path": place.path, "range": {"start": start}}
    if place.end_line in (0, place.line) and place.end_column > place.column:
        located["range"]["end"] = {"line": start["line"], "column": _bytes(text, place.end_column)}
    return located


def _bytes(text: str | None, column: int) -> int:
    """A column in UTF-16 units as one in bytes; as it is where the text is not known."""
    if text is None:
        return max(column, 1)
    before = text.encode("utf-16-le", "surrogatepass")[: 2 * max(column - 1, 0)]
    return len(before.decode("utf-16-le", "replace").encode("utf-8", "replace")) + 1
