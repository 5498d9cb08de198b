"""The arguments of a call read from its text, without building it."""

from __future__ import annotations

from functools import lru_cache

from warplint.patterns import late
from warplint.source import Span

_TARGET = late(r"\(?\s*(?:\(\s*\(\s*[\w ]+\*\s*\)\s*)?([A-Za-z_]\w*)\s*\)?\s*(?:\[(.*)\])?\s*\)?")


_CAST = late(r"\(\s*\(\s*([\w ]+?)\s*\*\s*\)")


_NEXT = late(rb"/[*/]|[(\[{)\]},\"']")


def split(data: bytes, span: Span, last: int = 1 << 30) -> list[Span]:
    """The spans of a call's arguments up to number `last`, from the text of the call."""
    opening = data.find(b"(", span.start, span.end)
    parts: list[Span] = []
    if opening == -1:
        return parts
    depth, start, at = 0, opening + 1, opening
    search = _NEXT.search
    while True:
        match = search(data, at, span.end)
        if match is None:
            return parts
        at = match.end()
        letter = data[at - 1]
        if at - match.start() == 2:  # a comment: to its end
            close = data.find(b"*/" if letter == 42 else b"\n", at, span.end)
            at = span.end if close == -1 else close + (2 if letter == 42 else 1)
            continue
        if letter in b"([{":
            depth += 1
        elif letter in b")]}":
            depth -= 1
            if depth == 0:
                if data[start : at - 1].strip():
                    parts.append(Span(start, at - 1))
                return parts
        elif letter == 44:  # a comma
            if depth == 1:
                parts.append(Span(start, at - 1))
                if len(parts) > last:
                    return parts
                start = at
        else:  # a quote: to its end
            close = data.find(data[at - 1 : at], at, span.end)
            at = close + 1 if close != -1 else span.end


@lru_cache(65536)
def target(text: bytes) -> tuple[str, str | None, str] | None:
    """`x`, `x[i]` and `((T*)x)[i]` as `(x, i, T)`."""
    words = text.decode("utf-8", "replace").strip()
    if "?" in words or "." in words or "->" in words:
        return None
    match = _TARGET.fullmatch(words)
    if match is None:
        return None
    index = match[2]
    if index is not None and (index.count("[") != index.count("]") or "][" in index):
        return None
    cast = _CAST.match(words)
    return match[1], None if index is None else index.strip(), cast[1] if cast else ""


_PLAIN = late(rb"\s*+(?:\(\((\w+(?: \w+)?) ?\*\)\s*+([A-Za-z_]\w*+)\)|([A-Za-z_]\w*+))(?:\[(\w++)\])?\s*+([,)])")
"""An argument that is a variable or an element at a simple index, with what ends it."""

Target = tuple[str, str | None, str]
"""Variable, index as written (None without one), and the type it is cast to (empty without a cast)."""


def targets(data: bytes, span: Span, last: int) -> list[Target | None] | None:
    """What the arguments number 0 to `last` name: None for one that is no such place, and when one is absent."""
    at = data.find(b"(", span.start, span.end) + 1
    found: list[Target | None] = []
    while len(found) <= last:
        match = _PLAIN.match(data, at, span.end)
        if match is None:
            break
        cast, viewed, name, index, end = match.groups()
        index = None if index is None else index.decode()
        if viewed is not None:
            found.append((viewed.decode(), index, cast.decode()))
        else:
            found.append((name.decode(), index, ""))
        at = match.end()
        if end == b")":
            break
    if len(found) > last:
        return found
    parts = split(data, span, last)
    if len(parts) <= last:
        return None
    return [target(data[part.start : part.end]) for part in parts[: last + 1]]
