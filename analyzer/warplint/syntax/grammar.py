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


def kinds(*names: str) -> frozenset[int]:
    """Numbers of several named node kinds. Aliases of one name all count: the grammar numbers them apart."""
    wanted = set(names)
    found = {
        number
        for number in range(1, LANGUAGE.node_kind_count)
        if LANGUAGE.node_kind_is_named(number) and LANGUAGE.node_kind_for_id(number) in wanted
    }
    if len({LANGUAGE.node_kind_for_id(number) for number in found}) != len(wanted):
        raise KeyError(names)
    return frozenset(found)


def field(name: str) -> int:
    """Number of a field; raises KeyError for a name that the grammar does not have."""
    number = LANGUAGE.field_id_for_name(name)
    if not number:
        raise KeyError(name)
    return number
