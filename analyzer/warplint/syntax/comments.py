"""Where a file's comments stand. Text inside strings and directives is no comment."""

from __future__ import annotations

from collections.abc import Iterator

from warplint.source import Span
from warplint.syntax.hiding import _HIDING


def comments(data: bytes) -> Iterator[Span]:
    """The comments in source order, delimiters included."""
    for match in _HIDING.finditer(data):
        if data[match.start()] == 47:
            yield Span(*match.span())
