"""Leaves of expressions: names, literals, strings with the file's string macros, and inline assembly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tree_sitter import Node

from warplint.syntax import ast, literals
from warplint.syntax.grammar import kind, kinds
from warplint.syntax.nodes import (
    COMMENT,
    F_ASSEMBLY,
    F_CONSTRAINT,
    F_INPUTS,
    F_NAME,
    F_OUTPUTS,
    F_SYMBOL,
    F_VALUE,
    K_DEPENDENT,
    K_RAW,
    K_STRING,
    QUALIFIED,
    TEMPLATED,
)
from warplint.syntax.typenames import Types

if TYPE_CHECKING:
    from warplint.syntax.build import Builder


STATEMENT_WORDS = frozenset(
    ["if", "else", "for", "while", "do", "switch", "case", "default", "return", "break", "continue", "goto"]
)
_ASM_QUALIFIER = kind("gnu_asm_qualifier")
_ASM_OPERANDS = kinds("gnu_asm_output_operand", "gnu_asm_input_operand")


class Leaves(Types):
    """Builds the leaves of one text's expressions."""

    def __init__(self, builder: Builder) -> None:
        super().__init__(builder)
        self.numbers: dict[bytes, tuple[int | None, bool, int]] = {}

    def unparsed(self, node: Node) -> ast.Expr:
        """A node that no expression stands for."""
        return ast.Unparsed(self.span(node), self.words(node))

    def name(self, node: Node) -> ast.Expr:
        """`x`; a keyword where a name should stand means that the text was misread."""
        written = self.words(node)
        if written in STATEMENT_WORDS:
            return self.unparsed(node)
        return ast.Name(self.span(node), written)

    def qualified(self, node: Node) -> ast.Expr:
        """`a::b<T>::c<N>`: the text without the last part's template arguments, which stand apart."""
        last: Node = node
        for _ in range(64):
            inner = last.child_by_field_id(F_NAME)
            if last.kind_id not in QUALIFIED or inner is None:
                break
            last = inner
        start = node.start_byte
        if last.kind_id == K_DEPENDENT and last.named_children:
            last = last.named_children[-1]
        if last.kind_id in TEMPLATED:
            inner = last.child_by_field_id(F_NAME)
            end = inner.end_byte if inner is not None else last.end_byte
            return ast.Name(self.span(node), self.squeezed(start, end), self.template_arguments(last))
        return ast.Name(self.span(node), self.squeezed(start, node.end_byte))

    def number(self, node: Node) -> ast.Expr:
        """A numeric literal."""
        raw = self.text[node.start_byte : node.end_byte]
        known = self.numbers.get(raw)
        if known is None:
            known = self.numbers[raw] = literals.number(raw.decode("utf-8", "replace"))
        return ast.Num(self.span(node), *known)

    def character(self, node: Node) -> ast.Expr:
        """A character literal."""
        return ast.Num(self.span(node), literals.character(self.words(node)), False, 8)

    def true(self, node: Node) -> ast.Expr:
        """`true`."""
        return ast.Num(self.span(node), 1)

    def false(self, node: Node) -> ast.Expr:
        """`false` and `nullptr`."""
        return ast.Num(self.span(node), 0)

    def user_literal(self, node: Node) -> ast.Expr:
        """`5_c`: a number with a suffix of its own; the number when it is one, else unknown."""
        digits = self.words(node).partition("_")[0]
        return ast.Num(self.span(node), literals.number(digits)[0] if digits else None)

    def string(self, node: Node) -> ast.Expr:
        """A string, or several side by side."""
        return ast.Str(self.span(node), self.joined(node) or "")

    def joined(self, node: Node) -> str | None:
        """Adjacent literals joined, with the file's string macros among them; None when one is not known."""
        parts: list[str] = []
        complete = True
        pieces = [node] if node.kind_id in (K_STRING, K_RAW) else node.named_children
        for piece in pieces:
            if piece.kind_id in (K_STRING, K_RAW):
                value = literals.string(self.words(piece))
            elif piece.kind_id in COMMENT:
                continue
            else:
                value = self.builder.string_macro(self.words(piece))
            if value is None:
                complete = False
            parts.append(value or "")
            for name in self.builder.strings_after(piece.end_byte):
                macro = self.builder.string_macro(name)
                complete = complete and macro is not None
                parts.append(macro or "")
        if not complete and node.kind_id not in (K_STRING, K_RAW):
            return None
        return "".join(parts) if complete else None

    def asm(self, node: Node) -> ast.Expr:
        """Inline assembly; broken operands make it unparsed as a whole."""
        code = node.child_by_field_id(F_ASSEMBLY)
        broken = node.has_error and any(child.is_error for child in node.children)
        if code is None or broken:
            return self.unparsed(node)
        qualifiers = (self.words(child) for child in node.children if child.kind_id == _ASM_QUALIFIER)
        volatile = any("volatile" in qualifier for qualifier in qualifiers)
        outputs = self.asm_operands(node.child_by_field_id(F_OUTPUTS))
        inputs = self.asm_operands(node.child_by_field_id(F_INPUTS))
        return ast.Asm(self.span(node), self.joined(code), outputs, inputs, volatile or not outputs)

    def asm_operands(self, node: Node | None) -> tuple[ast.AsmOperand, ...]:
        """The operands of one section."""
        if node is None:
            return ()
        found = []
        for child in node.named_children:
            if child.kind_id not in _ASM_OPERANDS:
                continue
            value, constraint = child.child_by_field_id(F_VALUE), child.child_by_field_id(F_CONSTRAINT)
            symbol = child.child_by_field_id(F_SYMBOL)
            expr = self.build(value) if value is not None else self.unparsed(child)
            written = self.joined(constraint) if constraint is not None else ""
            found.append(ast.AsmOperand(written or "", expr, self.words(symbol) if symbol is not None else ""))
        return tuple(found)
