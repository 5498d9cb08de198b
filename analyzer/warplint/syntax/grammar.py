"""The tree-sitter grammar: one parser, made on first use, and its node and field numbers by name."""

from __future__ import annotations

import tree_sitter
import tree_sitter_cuda

LANGUAGE = tree_sitter.Language(tree_sitter_cuda.language())
_PARSER = tree_sitter.Parser(LANGUAGE)


def parse_tree(text: bytes) -> tree_sitter.Tree:
    """Parse bytes; never fails, broken places are ERROR and MISSING nodes."""
    return _PARSER.parse(text)


def kind(name: str) -> int:
    """Number of a named node kind; raises KeyError for a name that the grammar does not have."""
    number = LANGUAGE.id_for_node_kind(name, True)
    if not number:
        raise KeyError(name)
    return number


def _numbers() -> dict[str, list[int]]:
    """The numbers of each named node kind, in one pass over the grammar."""
    found: dict[str, list[int]] = {}
    for number in range(1, LANGUAGE.node_kind_count):
        name = LANGUAGE.node_kind_for_id(number)
        if name and LANGUAGE.node_kind_is_named(number):
            found.setdefault(name, []).append(number)
    return found


_NUMBERS = _numbers()


def kinds(*names: str) -> frozenset[int]:
    """Numbers of several named node kinds. Aliases of one name all count: the grammar numbers them apart."""
    found = {number for name in names for number in _NUMBERS.get(name, ())}
    if not all(name in _NUMBERS for name in names):
        raise KeyError(names)
    return frozenset(found)


def field(name: str) -> int:
    """Number of a field; raises KeyError for a name that the grammar does not have."""
    number = LANGUAGE.field_id_for_name(name)
    if not number:
        raise KeyError(name)
    return number
