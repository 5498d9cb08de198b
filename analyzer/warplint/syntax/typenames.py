"""Types, parameters and declarators: from tree-sitter nodes to `ast.TypeName` and `ast.Param`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tree_sitter import Node

from warplint.syntax import ast
from warplint.syntax.grammar import kinds
from warplint.syntax.nodes import (
    ARRAY_DECLARATORS,
    COMMENT,
    F_ARGUMENTS,
    F_DECLARATOR,
    F_DEFAULT,
    F_NAME,
    F_SIZE,
    F_TYPE,
    FUNCTION_DECLARATORS,
    IDENTIFIERS,
    K_DEPENDENT,
    K_TYPE_DESCRIPTOR,
    MAX_DEPTH,
    PARAMETERS,
    PARENTHESIZED_DECLARATORS,
    POINTER_DECLARATORS,
    QUALIFIED,
    REFERENCE_DECLARATORS,
    TEMPLATED,
)

if TYPE_CHECKING:
    from warplint.syntax.build import Builder


_SCALAR_WORDS = (
    "bool char short int long float double unsigned signed half size_t ssize_t ptrdiff_t intptr_t uintptr_t uchar "
    "ushort uint ulong ulonglong longlong wchar_t char8_t char16_t char32_t half_t bfloat16 nv_bfloat16 __nv_bfloat16 "
    "__half int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t __half_raw fp8_e4_t fp8_e5_t"
)
SCALARS = frozenset(_SCALAR_WORDS.split())
"""Type names of CUDA and C++ that a functional cast or a C cast over an operator may use without being declared."""
_KEPT_WORDS = "const volatile constexpr static extern __shared__ __constant__ __device__ __grid_constant__ auto"
_QUALIFIER_WORDS = frozenset(_KEPT_WORDS.split())
_DROPPED_WORDS = (
    "const volatile constexpr static extern inline __shared__ __constant__ __device__ __grid_constant__ __restrict__ "
    "__restrict register mutable typename struct class union enum __host__ __global__ __forceinline__ __noinline__ "
    "__inline__ __inline thread_local __managed__ consteval constinit virtual explicit friend restrict"
)
_TYPE_DROPS = frozenset(_DROPPED_WORDS.split())
UNDEFINED_TYPE = ast.TypeName("")
_DECLARATOR_PARTS = (
    IDENTIFIERS
    | QUALIFIED
    | POINTER_DECLARATORS
    | REFERENCE_DECLARATORS
    | ARRAY_DECLARATORS
    | FUNCTION_DECLARATORS
    | PARENTHESIZED_DECLARATORS
    | kinds("variadic_declarator", "attributed_declarator", "operator_name", "destructor_name")
)


class Types:
    """Reads types and declarators of one text. `builder` holds the text, spans and what the file defines."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.text = builder.text
        self.span = builder.span

    def build(self, node: Node) -> ast.Expr:
        """The expression of a node."""
        raise NotImplementedError

    def words(self, node: Node) -> str:
        """The text of a node."""
        return self.text[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def squeezed(self, start: int, end: int) -> str:
        """Text without white space."""
        return "".join(self.text[start:end].decode("utf-8", "replace").split())

    def type_name(self, node: Node | None, pointer: int = 0, reference: bool = False) -> ast.TypeName:
        """A type from a type node or a `type_descriptor`."""
        if node is None:
            return UNDEFINED_TYPE
        if node.kind_id == K_TYPE_DESCRIPTOR:
            inner = node.child_by_field_id(F_DECLARATOR)
            end = inner.start_byte if inner is not None else node.end_byte
            depth, guard = inner, 0
            while depth is not None and guard < 16:
                pointer += depth.kind_id in POINTER_DECLARATORS or depth.kind_id in ARRAY_DECLARATORS
                reference = reference or depth.kind_id in REFERENCE_DECLARATORS
                depth, guard = depth.child_by_field_id(F_DECLARATOR), guard + 1
            return self.written_type(node, end, pointer, reference)
        return self.written_type(node, node.end_byte, pointer, reference)

    def written_type(self, node: Node, end: int, pointer: int = 0, reference: bool = False) -> ast.TypeName:
        """A type from the specifiers that stand between the start of `node` and the offset `end`."""
        raw = self.text[node.start_byte : end]
        key = (raw, pointer, reference)
        known = self.builder.types.get(key)
        if known is not None:
            return known
        text = raw.decode("utf-8", "replace")
        if "{" in text:  # `struct S { ... } x;`: the record's name stands for it
            record = node.child_by_field_id(F_TYPE)
            around = text[: text.index("{")] + " " + text[text.rindex("}") + 1 :] if "}" in text else text
            qualifiers = frozenset(word for word in around.split() if word in _QUALIFIER_WORDS)
            if record is None:
                return ast.TypeName("", pointer, reference, qualifiers)
            name = record.child_by_field_id(F_NAME)
            if name is None and not record.children:
                return ast.TypeName("", pointer, reference, qualifiers)
            spelled = self.words(name) if name is not None else f"<{record.children[0].type}@{self.span(record).start}>"
            return ast.TypeName(spelled, pointer, reference, qualifiers)
        targs: tuple[ast.Expr, ...] = ()
        angle = text.find("<")
        if angle == -1:
            words = text.replace("(", " ( ").split() if "(" in text else text.split()
            qualifiers = frozenset(word for word in words if word in _QUALIFIER_WORDS)
            name = " ".join(word for word in _without_groups(words) if word not in _TYPE_DROPS)
        else:
            head, tail = text[:angle], text[angle:]
            words = _without_groups(head.replace("(", " ( ").split() if "(" in head else head.split())
            after = tail[tail.rfind(">") + 1 :]
            qualifiers = frozenset(word for word in words + after.split() if word in _QUALIFIER_WORDS)
            rest = tail[: tail.rfind(">") + 1] + (after if after.startswith("::") else "")
            name = " ".join(word for word in words if word not in _TYPE_DROPS) + " ".join(rest.split())
            found = node if node.kind_id in TEMPLATED else node.child_by_field_id(F_TYPE) or node
            targs = self.template_arguments(found)
        result = ast.TypeName(name, pointer, reference, qualifiers, targs)
        if angle == -1 and len(self.builder.types) < 20000:
            self.builder.types[key] = result
        return result

    def template_arguments(self, node: Node) -> tuple[ast.Expr, ...]:
        """The template arguments of a (qualified) template name, types among them as `Name`."""
        for _ in range(32):
            if node.kind_id in TEMPLATED:
                found = node.child_by_field_id(F_ARGUMENTS)
                return () if found is None else tuple(map(self.template_argument, named(found)))
            if node.kind_id in QUALIFIED or node.kind_id == K_DEPENDENT:
                inner = node.child_by_field_id(F_NAME) or (node.named_children or [None])[-1]
                if inner is None:
                    break
                node = inner
                continue
            break
        return ()

    def template_argument(self, node: Node) -> ast.Expr:
        """One template argument."""
        if node.kind_id != K_TYPE_DESCRIPTOR:
            return self.build(node)
        if self.builder.level >= MAX_DEPTH:
            return ast.Unparsed(self.span(node), f"nested deeper than {MAX_DEPTH}")
        inner = node.child_by_field_id(F_TYPE)
        self.builder.level += 2  # a level of template arguments takes two of ours
        targs = self.template_arguments(inner) if inner is not None else ()
        self.builder.level -= 2
        return ast.Name(self.span(node), self.words(node), targs)

    def parameters(self, node: Node | None) -> tuple[ast.Param, ...]:
        """The parameters of a parameter list."""
        if node is None:
            return ()
        found = []
        for child in node.named_children:
            if child.kind_id not in PARAMETERS:
                continue
            declarator = child.child_by_field_id(F_DECLARATOR)
            default = child.child_by_field_id(F_DEFAULT)
            lazy = self.builder.lazy(default) if default is not None else None
            if declarator is None:
                kind_node = child.child_by_field_id(F_TYPE)
                end = kind_node.end_byte if kind_node is not None else child.end_byte
                found.append(ast.Param("", self.written_type(child, end), lazy, self.span(child)))
                continue
            start = declarator.start_byte
            name, pointer, reference, dims = self.unwrap(declarator)
            typed = self.written_type(child, start, pointer + len(dims), reference)
            found.append(ast.Param(self.words(name) if name else "", typed, lazy, self.span(child)))
        return tuple(found)

    def unwrap(self, node: Node) -> tuple[Node | None, int, bool, list[Node | None]]:
        """Peel a declarator: `(name node, pointer depth, is a reference, dimensions outermost first)`."""
        pointer, reference = 0, False
        dims: list[Node | None] = []
        current: Node | None = node
        for _ in range(64):
            if current is None:
                return None, pointer, reference, dims[::-1]
            number = current.kind_id
            if number in IDENTIFIERS or number in QUALIFIED:
                return current, pointer, reference, dims[::-1]
            if number in POINTER_DECLARATORS:
                pointer += 1
            elif number in REFERENCE_DECLARATORS:
                reference = True
            elif number in ARRAY_DECLARATORS:
                dims.append(current.child_by_field_id(F_SIZE))
            elif number in FUNCTION_DECLARATORS:
                pointer = max(pointer, 1)
            inner = current.child_by_field_id(F_DECLARATOR)
            if inner is None:
                rest = [child for child in current.named_children if child.kind_id in _DECLARATOR_PARTS]
                inner = rest[-1] if rest else None
            current = inner
        return None, pointer, reference, dims[::-1]


def named(node: Node) -> list[Node]:
    """Named children without comments."""
    return [child for child in node.named_children if child.kind_id not in COMMENT]


def _without_groups(words: list[str]) -> list[str]:
    """Words without `alignas ( ... )` and other parenthesised groups, except after decltype."""
    if "(" not in words:
        return words
    text, depth, kept = " ".join(words), 0, []
    if "decltype" in text:
        return words
    for word in text.replace(")", " ) ").split():
        if word == "(":
            depth += 1
            if depth == 1 and kept:
                kept.pop()
        elif word == ")":
            depth -= 1
        elif depth == 0:
            kept.append(word)
    return kept
