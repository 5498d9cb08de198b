"""From byte spans to places as people and SARIF viewers count them."""

from __future__ import annotations

from warplint.finding import Location
from warplint.source import SourceFile, Span

MAX_TEXT = 160
"""Conditions are printed up to this many characters; generated ones run to kilobytes."""


def shorten(text: str, limit: int = MAX_TEXT) -> str:
    """`text` on one line, runs of white space collapsed, cut to `limit` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 3] + "..."


def location(source: SourceFile, span: Span, message: str = "") -> Location:
    """The place of a span, cut to its first line (viewers annotate one line), never empty.

    Columns are UTF-16 units, the end column exclusive.
    """
    if source.parts or source.origin is not None:
        inner, start = source.at(span.start)
        if inner is not source:
            return location(inner, Span(start, start + span.end - span.start), message)
    size = len(source.data)
    start = max(0, min(span.start, size))
    line, column = source.position(start)
    starts = source.line_starts
    line_end = starts[line] if line < len(starts) else size
    end = max(start, min(span.end, line_end))
    text = source.data[start:end].decode("utf-8", "replace").rstrip("\r\n")
    width = len(text.encode("utf-16-le", "surrogatepass")) // 2
    return Location(source.path, line, column, line, column + max(width, 1), message)
