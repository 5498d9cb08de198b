"""Declarations of variables, and what only looks like one (`a * b;`, `T x(args);`)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tree_sitter import Node

from warplint.patterns import late
from warplint.syntax import ast
from warplint.syntax.grammar import kind, kinds
from warplint.syntax.leaves import STATEMENT_WORDS
from warplint.syntax.nodes import (
    COMMENT,
    DECLARATORS,
    F_DECLARATOR,
    F_PARAMETERS,
    F_TYPE,
    F_VALUE,
    FUNCTION_DECLARATORS,
    IDENTIFIERS,
    INIT_DECLARATOR,
    K_ARGUMENTS,
    K_BITS,
    K_COMMA,
    K_EQUALS,
    K_INIT_LIST,
    K_PRIMITIVE,
    PARENTHESIZED_DECLARATORS,
    POINTER_DECLARATORS,
    REFERENCE_DECLARATORS,
)

if TYPE_CHECKING:
    from warplint.syntax.build import Builder


_K_BINDING = kind("structured_binding_declarator")
_K_IDENTIFIER = kind("identifier")
_K_INIT = kind("init_declarator")
_K_ARRAY = min(kinds("array_declarator"))
ALIGNAS = late(rb"\balignas\s*\(\s*(\d{1,6})\s*\)")


def is_prototype(node: Node) -> bool:
    """Whether a declarator declares a function: `f(int)`, `*f(int)`, but not `(*f)(int)`."""
    for _ in range(16):
        inner = node.child_by_field_id(F_DECLARATOR)
        if node.kind_id in FUNCTION_DECLARATORS:
            return inner is None or inner.kind_id not in PARENTHESIZED_DECLARATORS
        if node.kind_id in REFERENCE_DECLARATORS and inner is None:
            inner = next(iter(node.named_children), None)
        if inner is None or node.kind_id not in POINTER_DECLARATORS | REFERENCE_DECLARATORS:
            return False
        node = inner
    return False


class Declarations:
    """Builds declarations of one text. `broken` says whether its tree has errors at all."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.text = builder.text
        self.span = builder.span
        self.lazy = builder.lazy
        self.heads: dict[bytes, tuple[ast.TypeName, int]] = {}
        self.broken = False

    def plain(self, node: Node) -> ast.Decl | None:
        """The common declarations, quickly: one variable `T x;`, `T x = e;` or `T x[n];`. None for any other form."""
        if self.broken and node.has_error:
            return None
        children = node.children
        at = len(children) - 2
        if at < 1 or children[at - 1].kind_id == K_COMMA:
            return None
        last = children[at]
        number = last.kind_id
        value: Node | None = None
        dims: tuple[ast.Expr | None, ...] = ()
        name = last
        if number == _K_INIT:
            parts = last.children
            if len(parts) != 3:
                return None
            name, _, value = parts
        elif number == _K_ARRAY:
            parts = last.children
            if len(parts) != 4:
                return None
            name = parts[0]
            dims = (self.builder.expressions.build(parts[2]),)
        if name.kind_id != _K_IDENTIFIER:
            return None
        start = last.start_byte
        head = self.text[node.start_byte : start]
        known = self.heads.get(head)
        if known is None:
            found = ALIGNAS.search(head)
            typed = self.builder.expressions.written_type(node, start)
            if typed.name in STATEMENT_WORDS:
                return None
            known = typed, int(found[1]) if found else 0
            if not typed.targs:
                self.heads[head] = known
        typed, alignment = known
        if self.builder.aligned:
            alignment = self.builder.alignment(node.start_byte, node.end_byte) or alignment
        span = self.span(node)
        written = self.text[name.start_byte : name.end_byte].decode("utf-8", "replace")
        self.builder.declared.add(written)
        lazy = None if value is None else self.lazy(value)
        return ast.Decl(span, (ast.Declarator(written, typed, dims, lazy, span, alignment),))

    def declarators(self, node: Node) -> tuple[list[ast.Declarator], ast.Lazy | None]:
        """The variables of a declaration (prototypes left out), or the expression it really is (`a * b;`)."""
        builder, expressions = self.builder, self.builder.expressions
        children = node.children
        items: list[ast.Declarator] = []
        end = -1
        alignment = 0
        assigned: Node | None = None
        for index, child in enumerate(children):
            number = child.kind_id
            if end == -1:
                if number not in DECLARATORS or (
                    number in IDENTIFIERS and index + 1 < len(children) and (children[index + 1].kind_id in DECLARATORS)
                ):
                    continue
                if number in IDENTIFIERS and index == 0:
                    continue
                end = child.start_byte
                head = self.text[node.start_byte : end]
                if b"align" in head:
                    found = ALIGNAS.search(head)
                    alignment = int(found[1]) if found else 0
                if builder.aligned:
                    alignment = builder.alignment(node.start_byte, node.end_byte) or alignment
            elif number not in DECLARATORS:
                continue
            value: Node | None = None
            inner = child
            if number in INIT_DECLARATOR:
                value = child.child_by_field_id(F_VALUE)
                inner = child.child_by_field_id(F_DECLARATOR) or child
            elif index + 2 < len(children) and children[index + 1].kind_id == K_EQUALS:  # members and conditions
                value = children[index + 2]
                assigned = value
            elif index + 1 < len(children) and children[index + 1].kind_id == K_INIT_LIST:
                value = children[index + 1]
            if child is assigned:
                continue
            if inner.kind_id == _K_BINDING:
                items.extend(self.bindings(node, inner, end, value))
                continue
            if inner.kind_id in IDENTIFIERS:
                name: Node | None = inner
                typed = expressions.written_type(node, end)
                dims: tuple[ast.Expr | None, ...] = ()
            else:
                if value is None and is_prototype(inner):
                    made = self.vexing(node, inner, end, alignment)
                    if made is not None:
                        items.append(made)
                    continue
                if value is None and len(children) == 3 and self.is_product(children[0], inner):
                    return [], builder.text_lazy(node.start_byte, node.end_byte)
                name, pointer, reference, sizes = expressions.unwrap(inner)
                typed = expressions.written_type(node, end, pointer, reference)
                dims = tuple(expressions.build(size) if size is not None else None for size in sizes)
            if name is None:
                continue
            lazy = None
            if value is not None:
                lazy = builder.lazy(value)
                if value.kind_id == K_ARGUMENTS:
                    lazy = builder.list_lazy(value)
            bits = 0
            if index + 1 < len(children) and children[index + 1].kind_id == K_BITS:
                width = self.words(children[index + 1].children[-1])
                bits = int(width) if width.isdecimal() and len(width) < 6 else 0
            items.append(ast.Declarator(self.words(name), typed, dims, lazy, self.span(child), alignment, bits))
        for item in items:
            builder.declared.add(item.name)
        return items, None

    def initialisers(self, node: Node) -> tuple[ast.Stmt, ...]:
        """`: a(x), b{1, 2}` of a constructor as `a = x; b = {1, 2};` (one value in brackets stands for itself)."""
        found: list[ast.Stmt] = []
        for child in node.named_children:
            parts = child.named_children
            if len(parts) != 2:
                found.append(ast.ExprStmt(self.span(child), self.builder.broken(child)))
                continue
            span, made, name = self.span(child), partial(self.initialised, child), self.words(parts[0])
            member = parts[0].kind_id in IDENTIFIERS and name not in self.builder.base_names
            found.append(ast.ExprStmt(span, ast.Lazy(span, made, "" if member else name, name if member else "")))
        return tuple(found)

    def initialised(self, node: Node) -> ast.Expr:
        """One member initialiser as an assignment; that of a base class is a call of its constructor."""
        name, listed = node.named_children
        values = self.builder.expressions.arguments(listed)
        if name.kind_id not in IDENTIFIERS or self.words(name) in self.builder.base_names:
            return ast.Call(self.span(node), self.builder.expressions.build(name), values)
        value = values[0] if len(values) == 1 else ast.InitList(self.span(listed), values)
        return ast.Assign(self.span(node), "", self.builder.expressions.build(name), value)

    def bindings(self, node: Node, inner: Node, end: int, value: Node | None) -> list[ast.Declarator]:
        """`auto [a, b] = f();`: each name is a member of the value that has no name of its own."""
        typed = self.builder.expressions.written_type(node, end)
        found = []
        for place, name in enumerate(inner.named_children):
            lazy = self.builder.broken(inner)
            if value is not None:
                lazy = self.builder.member_lazy(value, f"get<{place}>")
            found.append(ast.Declarator(self.words(name), typed, (), lazy, self.span(name)))
        return found

    def is_product(self, first: Node, inner: Node) -> bool:
        """Whether `a * b;` multiplies: `a` was declared as a variable before."""
        if first.kind_id not in IDENTIFIERS:
            return False
        if inner.kind_id not in POINTER_DECLARATORS and inner.kind_id not in REFERENCE_DECLARATORS:
            return False
        return self.words(first) in self.builder.declared

    def vexing(self, node: Node, inner: Node, end: int, alignment: int) -> ast.Declarator | None:
        """`T x(a, b);` inside a function: a variable, unless its list can only be one of parameters."""
        name = inner.child_by_field_id(F_DECLARATOR)
        listed = inner.child_by_field_id(F_PARAMETERS)
        if name is None or listed is None or name.kind_id not in IDENTIFIERS:
            return None
        for child in listed.named_children:
            if child.kind_id in COMMENT:
                continue
            typed, declared = child.child_by_field_id(F_TYPE), child.child_by_field_id(F_DECLARATOR)
            if typed is None or (typed.kind_id == K_PRIMITIVE and declared is not None):
                return None
            if typed.kind_id == K_PRIMITIVE or (declared is not None and declared.kind_id in IDENTIFIERS):
                return None
        if not listed.named_children:
            return None  # `T x();` declares a function
        typed_as = self.builder.expressions.written_type(node, end)
        if typed_as.name == "void":
            return None
        init = self.builder.arguments_lazy(listed.start_byte, listed.end_byte)
        return ast.Declarator(self.words(name), typed_as, (), init, self.span(inner), alignment)

    def words(self, node: Node) -> str:
        """The text of a node."""
        return self.text[node.start_byte : node.end_byte].decode("utf-8", "replace")
