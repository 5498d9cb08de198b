"""What could not be read: ERROR and MISSING nodes, braces left open, nesting too deep."""

from __future__ import annotations

from tree_sitter import Node

from warplint.patterns import late
from warplint.source import Span
from warplint.syntax import ast
from warplint.syntax.marks import Masked
from warplint.syntax.nodes import CALL, COMPOUND_LITERAL, DECLARATION, IDENTIFIERS, MAX_DEPTH
from warplint.syntax.statements import errors

MAX_GAPS = 1000
_MAX_UNCLOSED = 100_000
_NO_BRACES = bytes(byte for byte in range(256) if byte not in b"{}")
_ELSE = late(rb"\s*else\b")
_BRACES = late(rb"[{}]")


def balanced(masked: Masked, gaps: list[ast.ParseGap]) -> bytes:
    """The text, with the braces closed that the file leaves open: a truncated kernel keeps its structure."""
    code = masked.code
    missing = code.count(b"{") - code.count(b"}")
    if missing <= 0 or missing > _MAX_UNCLOSED:
        return masked.text
    at, depth = len(code), 0
    while at > 0:  # back to the brace that is still open
        at = max(code.rfind(b"{", 0, at), code.rfind(b"}", 0, at))
        if at == -1:
            break
        depth += 1 if code[at] == 123 else -1
        if depth == 1:
            break
    end = len(masked.text)
    gaps.append(ast.ParseGap(Span(max(at, 0), end), f"{missing} brace(s) not closed at the end of the file"))
    return masked.text + b"\n;" + b"}" * missing


def find_gaps(root: Node, text: bytes, size: int, gaps: list[ast.ParseGap]) -> None:
    """ERROR and MISSING nodes as gaps; a MISSING `;` or closing bracket that the text implies is harmless."""
    for node, parent in errors(root):
        if len(gaps) >= MAX_GAPS:
            break
        start, end = min(node.start_byte, size), min(node.end_byte, size)
        if node.is_missing:
            if parent is not None and parent.kind_id in COMPOUND_LITERAL:
                continue  # `T x = {}` as a parameter's default reads as a literal without a type
            if size and not (node.type == ";" and _follows_macro(node, parent, text)):
                span = Span(min(start, size - 1), min(start + 1, size))
                if parent is not None and parent.kind_id in DECLARATION:
                    span = Span(parent.start_byte, span.end)  # it may be a whole function, misread
                gaps.append(ast.ParseGap(span, f"missing {node.type!r}"))
            continue
        words = " ".join(text[start : min(end, start + 60)].decode("utf-8", "replace").split())
        if words:
            gaps.append(ast.ParseGap(Span(start, end), f"could not be parsed: {words[:40]}"))


def _follows_macro(node: Node, statement: Node | None, text: bytes) -> bool:
    """Whether a missing `;` stands behind `name(...)`, a macro that brings its own, and no `else` follows."""
    first = statement.children[0] if statement is not None and statement.children else None
    if first is None or first.kind_id not in CALL or first.children[0].kind_id not in IDENTIFIERS:
        return False
    return not _ELSE.match(text, node.end_byte)


def deep_braces(code: bytes, gaps: list[ast.ParseGap]) -> None:
    """A gap where braces nest deeper than statements are built."""
    if code.count(b"{") <= MAX_DEPTH:
        return
    depth = deepest = 0
    for byte in code.translate(None, _NO_BRACES):
        depth += 1 if byte == 123 else -1
        if depth > deepest:
            deepest = depth
        elif depth < 0:
            depth = 0
    if deepest <= MAX_DEPTH:
        return
    depth = 0
    for match in _BRACES.finditer(code):
        depth = max(depth + (1 if match[0] == b"{" else -1), 0)
        if depth > MAX_DEPTH:
            span = Span(match.start(), match.end())
            gaps.append(ast.ParseGap(span, f"nested deeper than {MAX_DEPTH}"))
            return
