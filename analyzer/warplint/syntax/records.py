"""Data members of records: bit-fields (nameless ones were masked) and nameless inner records among them."""

from __future__ import annotations

from bisect import bisect_left

from msgspec.structs import replace
from tree_sitter import Node

from warplint.source import Span
from warplint.syntax import ast
from warplint.syntax.build import Builder
from warplint.syntax.declarations import is_prototype
from warplint.syntax.grammar import kind
from warplint.syntax.marks import Mark
from warplint.syntax.nodes import F_BODY, F_NAME, F_TYPE, RECORDS

K_FIELD = kind("field_declaration")


def record_name(builder: Builder, node: Node) -> str:
    """A record's own name; one without gets a name that no source can have, by its place in the file."""
    name = node.child_by_field_id(F_NAME)
    if name is not None:
        return builder.expressions.squeezed(name.start_byte, name.end_byte)
    return f"<{node.children[0].type}@{builder.span(node).start}>"


def members(builder: Builder, body: Node) -> tuple[ast.Declarator, ...]:
    """Members in order. A nameless inner record is one member named "", a nameless bit-field one with its width."""
    found: list[ast.Declarator] = []
    inner: list[tuple[int, int]] = []
    fields: list[tuple[Node, ast.TypeName]] = []
    for child in body.named_children:
        if child.kind_id in RECORDS:
            inner.append((child.start_byte, child.end_byte))
        if child.kind_id != K_FIELD:
            continue
        typed = child.child_by_field_id(F_TYPE)
        nested = typed is not None and typed.kind_id in RECORDS and typed.child_by_field_id(F_BODY) is not None
        if nested and typed is not None:
            inner.append((typed.start_byte, typed.end_byte))
        if any(is_prototype(part) for part in child.children):
            continue  # a method's prototype
        items = builder.statements.declarators(child)[0]
        if items:
            fields.append((child, items[0].type))
        elif nested and typed is not None and typed.child_by_field_id(F_NAME) is None:
            items = [ast.Declarator("", ast.TypeName(record_name(builder, typed)), (), None, builder.span(child))]
        found.extend(items)
    nameless = list(_nameless_bits(builder, body, inner, fields))
    if nameless:
        found = sorted([*found, *nameless], key=lambda item: item.span.start)
    return tuple(found)


def _nameless_bits(
    builder: Builder, body: Node, inner: list[tuple[int, int]], fields: list[tuple[Node, ast.TypeName]]
) -> list[ast.Declarator]:
    """The masked bit-fields directly in a record's body, with the type of the declaration that they stand in."""
    marks: list[Mark] = builder.bit_marks
    if not marks:
        return []
    found: list[ast.Declarator] = []
    low = bisect_left(builder.bit_starts, body.start_byte)
    for mark in marks[low:]:
        if mark.start >= body.end_byte:
            break
        if any(start <= mark.start < end for start, end in inner):
            continue
        written, _, width = mark.text.rpartition(":")
        typed = ast.TypeName(written.strip(" ,"))
        for node, field_type in fields:
            if node.start_byte <= mark.start < node.end_byte:
                typed = replace(field_type, pointer=0, reference=False)
        bits = int(width) if width.strip().isdecimal() and len(width) < 6 else 0
        found.append(ast.Declarator("", typed, (), None, Span(mark.start, mark.end), 0, bits))
    return found
