"""Function definitions: signature, attributes that were masked, and a body to be built later."""

from __future__ import annotations

import gc
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Set

from tree_sitter import Node

from warplint.patterns import late
from warplint.source import Span
from warplint.syntax import ast
from warplint.syntax.build import Builder, expression
from warplint.syntax.grammar import kind, kinds
from warplint.syntax.marks import Mark, Masked, attribute_arguments
from warplint.syntax.nodes import (
    F_BODY,
    F_DECLARATOR,
    F_DEFAULT,
    F_NAME,
    F_PARAMETERS,
    F_TYPE,
    FUNCTION_DECLARATORS,
    IDENTIFIERS,
    K_COMPOUND,
    QUALIFIED,
    TEMPLATED,
)

_K_INITIALISERS = kind("field_initializer_list")
_K_OPERATOR_CAST, _K_TRAILING = kind("operator_cast"), kind("trailing_return_type")
_K_TEMPLATE, _K_TYPE_DEFAULT = kind("template_declaration"), kind("optional_type_parameter_declaration")
_TYPED_PARAMETERS = kinds("parameter_declaration", "optional_parameter_declaration", "variadic_parameter_declaration")
_NAMED_DECLARATORS = IDENTIFIERS | QUALIFIED | TEMPLATED | kinds("operator_name", "destructor_name", "operator_cast")
_SPECIFIER_WORDS = "__global__ __device__ __host__ static inline __forceinline__ extern constexpr"
_SPECIFIERS = frozenset(_SPECIFIER_WORDS.split())
_MENTION = late(rb"([A-Za-z_]\w*)(?:\(|[ \t\r\n]+\()")
_ASM = late(rb"(?:\b|__)asm(?:__)?\s*(?:volatile|__volatile__|goto|inline)?\s*\(")
_TEMPLATED_CALL = late(rb">\s*\(")
_TEMPLATE_NAME = late(rb"([A-Za-z_]\w*)\s*\Z")
_TEMPLATE_REACH = 300
_BRANCHES = late(rb"\b(?:if|for|while|do|switch|goto)\b|\?|\bcase\b")
_NOT_CALL_WORDS = "if for while switch return sizeof alignas alignof decltype asm volatile __volatile__"
_NOT_CALLS = frozenset(_NOT_CALL_WORDS.split())
_INTEGER = late(r"\s*(\d{1,9})\s*\Z")
_SMALL_BODY = 1 << 14
"""Bytes of a body that may be one wrapper of assembly."""
_NO_ATTRIBUTES = ast.Attributes()
_WORDS = late(r"\w+")


class Functions:
    """Builds the functions of one file."""

    def __init__(self, builder: Builder, masked: Masked) -> None:
        self.builder, self.masked = builder, masked
        self.size = len(masked.text)
        self.found: list[ast.Function] = []

    def add(self, node: Node, scope: tuple[str, ...], template: tuple[str, ...], record: str, start: int) -> None:
        """One function definition; deleted and defaulted ones have no body and are passed over."""
        builder = self.builder
        body = node.child_by_field_id(F_BODY)
        if body is None or body.kind_id != K_COMPOUND:
            return
        declarator: Node | None = node.child_by_field_id(F_DECLARATOR)
        pointer, reference = 0, False
        for _ in range(32):
            if declarator is None or declarator.kind_id in FUNCTION_DECLARATORS:
                break
            kind_text = declarator.type
            pointer += kind_text.startswith("pointer")
            reference = reference or kind_text.startswith("reference")
            nested = declarator.child_by_field_id(F_DECLARATOR)
            if nested is None:
                nested = next((c for c in declarator.named_children if c.kind_id in FUNCTION_DECLARATORS), None)
            if nested is None or declarator.kind_id == _K_OPERATOR_CAST:
                break
            declarator = nested
        if declarator is None:
            return
        named = declarator
        for _ in range(16):
            if named.kind_id in _NAMED_DECLARATORS:
                break
            named = named.child_by_field_id(F_DECLARATOR) or next(iter(named.named_children), None) or named
        name_end = named.end_byte
        if named.kind_id in TEMPLATED:
            last = named.child_by_field_id(F_NAME)
            name_end = last.end_byte if last is not None else name_end
        name = builder.expressions.squeezed(named.start_byte, name_end)
        if named.kind_id == _K_OPERATOR_CAST:
            target = named.child_by_field_id(F_TYPE)
            name_end = target.end_byte if target is not None else name_end
            name = " ".join(builder.text[named.start_byte : name_end].decode("utf-8", "replace").split())
        marks = self.marks_for(start, body.start_byte)
        head = builder.text[start : named.start_byte].decode("utf-8", "replace")
        written = head + " " + " ".join(mark.text for mark in marks if mark.kind == "specifiers")
        specifiers = frozenset(word for word in _WORDS.findall(written) if word in _SPECIFIERS)
        typed = node.child_by_field_id(F_TYPE)
        for child in declarator.named_children:  # auto f() -> T
            if child.kind_id == _K_TRAILING and child.named_children:
                typed = child.named_children[0]
        raw = self.masked.code[body.start_byte : min(body.end_byte, self.size)]
        has_asm = raw.find(b"asm") != -1 and _ASM.search(raw) is not None
        params = builder.expressions.parameters(declarator.child_by_field_id(F_PARAMETERS))
        listed = [child for child in node.named_children if child.kind_id == _K_INITIALISERS]
        initialisers = listed[0] if listed else None
        self.found.append(
            ast.Function(
                "::".join((*scope, name)),
                params,
                builder.expressions.type_name(typed, pointer, reference),
                specifiers,
                template,
                self.attributes(marks),
                Span(marks[0].start if marks and marks[0].start < start else start, min(body.end_byte, self.size)),
                Span(named.start_byte, name_end),
                Body(builder, body, params, initialisers),
                has_asm and len(raw) < _SMALL_BODY and not _BRANCHES.search(raw),
                Mentions(raw),
                record or ("::".join((*scope, name.rpartition("::")[0])) if "::" in name else ""),
                self.defaults(node.parent) if template else (),
            )
        )

    def defaults(self, declaration: Node | None) -> tuple[tuple[str, ast.Lazy], ...]:
        """Default values of the template parameters of a `template <...>` declaration."""
        if declaration is None or declaration.kind_id != _K_TEMPLATE:
            return ()
        listed = declaration.child_by_field_id(F_PARAMETERS)
        found = []
        for child in listed.named_children if listed is not None else ():
            name, value = child.child_by_field_id(F_DECLARATOR), child.child_by_field_id(F_DEFAULT)
            if child.kind_id in _TYPED_PARAMETERS and name is not None and value is not None:
                found.append((self.builder.expressions.words(name).lstrip("&*. "), self.builder.lazy(value)))
            elif child.kind_id == _K_TYPE_DEFAULT:
                name, typed = child.child_by_field_id(F_NAME), child.child_by_field_name("default_type")
                if name is not None and typed is not None:
                    found.append((self.builder.expressions.words(name), self.named_type(typed)))
        return tuple(found)

    def named_type(self, node: Node) -> ast.Lazy:
        """A type as the name that stands for it among template arguments."""
        span = self.builder.span(node)

        def make() -> ast.Expr:
            made = self.builder.expressions.type_name(node)
            return ast.Name(span, made.name, made.targs)

        return ast.Lazy(span, make)

    def marks_for(self, start: int, end: int) -> list[Mark]:
        """Marks in `[start, end)` and those directly before it, with nothing but blanks between."""
        marks, starts = self.masked.marks, self.builder.mark_starts
        low, high = bisect_left(starts, start), bisect_right(starts, end)
        reach = start
        while low and reach - marks[low - 1].end < 4096 and not self.builder.text[marks[low - 1].end : reach].strip():
            low -= 1
            reach = marks[low].start
        return list(marks[low:high])

    def attributes(self, marks: list[Mark]) -> ast.Attributes:
        """The attributes that stood on a function before masking."""
        if not marks:
            return _NO_ATTRIBUTES
        block = attribute_arguments(marks, "block_size")
        groups = () if block is None else tuple(_split(block))
        others = tuple(mark.text.strip() for mark in marks if mark.kind == "attribute")
        return ast.Attributes(
            self.argument_list(marks, "launch_bounds"),
            self.argument_list(marks, "cluster_dims"),
            tuple(self.listed(group.strip().removeprefix("(").removesuffix(")"), _place(marks)) for group in groups),
            self.argument_list(marks, "maxnreg"),
            tuple(text[1:-1].strip() if text.startswith("(") else text for text in others),
        )

    def argument_list(self, marks: list[Mark], name: str) -> tuple[ast.Expr, ...]:
        """The arguments of one attribute among the marks, as expressions."""
        written = attribute_arguments(marks, name)
        if written is None:
            return ()
        span = next((Span(m.start, m.end) for m in reversed(marks) if m.kind == name), _place(marks))
        return self.listed(written, span)

    def listed(self, text: str, span: Span) -> tuple[ast.Expr, ...]:
        """Expressions separated by commas; all get the attribute's span."""
        found: list[ast.Expr] = []
        for part in _split(text):
            number = _INTEGER.match(part)
            if number:
                found.append(ast.Num(span, int(number[1])))
            else:
                found.append(expression(part.encode("utf-8", "replace"), 0, span, self.builder))
        return tuple(found)

    def template_names(self, node: Node | None) -> tuple[str, ...]:
        """Names of template parameters."""
        if node is None:
            return ()
        found = []
        for child in node.named_children:
            name = child.child_by_field_id(F_NAME) or child.child_by_field_id(F_DECLARATOR)
            if name is None and child.kind_id not in _TYPED_PARAMETERS:
                name = next((c for c in reversed(child.named_children) if c.kind_id in IDENTIFIERS), None)
                inner = child.named_children[-1] if child.named_children else None
                if name is None and inner is not None:  # template <class> class X
                    name = next((c for c in reversed(inner.named_children) if c.kind_id in IDENTIFIERS), None)
            found.append(self.builder.expressions.words(name).lstrip("&*. ") if name is not None else "")
        return tuple(found)


class Mentions(Set[str]):
    """The names that a body calls, found by token when first asked."""

    __slots__ = ("_names", "_raw")

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._names: frozenset[str] | None = None

    @property
    def names(self) -> frozenset[str]:
        """Identifiers followed by `(` or by `<...>(`, and `asm`."""
        if self._names is None:
            raw = self._raw
            found = set(_MENTION.findall(raw))
            for match in _TEMPLATED_CALL.finditer(raw):
                name = _template_name(raw, match.start())
                if name:
                    found.add(name)
            names = {word.decode() for word in found} - _NOT_CALLS
            if _ASM.search(raw):
                names.add("asm")
            self._names, self._raw = frozenset(names), b""
        return self._names

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self.names))

    def __len__(self) -> int:
        return len(self.names)


def _template_name(raw: bytes, closing: int) -> bytes:
    """The identifier before the `<...>` that closes at `closing`; empty for a comparison."""
    depth, low = 0, max(0, closing - _TEMPLATE_REACH)
    for at in range(closing, low, -1):
        byte = raw[at]
        if byte == 62:
            depth += 1
        elif byte == 60:
            depth -= 1
            if depth == 0:
                match = _TEMPLATE_NAME.search(raw, max(0, at - 80), at)
                return match[1] if match else b""
        elif byte in b";{}":
            break
    return b""


class Body:
    """A function's body, built when first called."""

    __slots__ = ("block", "builder", "initialisers", "node", "params")

    def __init__(self, builder: Builder, node: Node, params: tuple[ast.Param, ...], initialisers: Node | None) -> None:
        self.builder, self.node, self.params, self.initialisers = builder, node, params, initialisers
        self.block: ast.Block | None = None

    def __call__(self) -> ast.Block:
        """The statements of the body; a constructor's member initialisers come first, as assignments."""
        if self.block is None:
            self.builder.declared.clear()
            self.builder.declared.update(param.name for param in self.params)
            # What is built is a tree without cycles: collecting while it grows finds nothing and costs a fifth.
            collecting = gc.isenabled()
            gc.disable()
            try:
                block = self.builder.statements.block(self.node)
                if self.initialisers is not None:
                    first = self.builder.statements.initialisers(self.initialisers)
                    block = ast.Block(block.span, (*first, *block.body))
                self.block = block
            finally:
                if collecting:
                    gc.enable()
        return self.block


def _place(marks: list[Mark]) -> Span:
    return Span(marks[0].start, marks[-1].end)


def _split(text: str) -> list[str]:
    """Split at commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        if letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    parts.append(text[start:])
    return [part for part in parts if part.strip()]
