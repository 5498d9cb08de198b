"""The builder of one text: masks it, parses it, and hands out statements and expressions of its tree."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from functools import partial

from tree_sitter import Node

from warplint.source import Span
from warplint.syntax import ast
from warplint.syntax.expressions import Expressions
from warplint.syntax.grammar import kinds, parse_tree
from warplint.syntax.marks import Mark
from warplint.syntax.mask import mask
from warplint.syntax.nodes import (
    CALL,
    F_ARGUMENT,
    F_ARGUMENTS,
    F_LEFT,
    F_VALUE,
    IDENTIFIERS,
    PARENTHESIZED,
    QUALIFIED,
    TEMPLATED,
)
from warplint.syntax.statements import Statements

_ASSIGNMENT, _UPDATE, _CAST = kinds("assignment_expression"), kinds("update_expression"), kinds("cast_expression")
_PLAIN_CALLEES = IDENTIFIERS | QUALIFIED | TEMPLATED | kinds("field_expression")
_THROUGH_ARGUMENT = kinds("subscript_expression", "field_expression", "pointer_expression", "unary_expression")


class Builder:
    """What building needs to know of one text.

    `shift` is added to every offset (a snippet cut out of a file), or `fixed` replaces every span (the text of a
    macro's expansion, whose offsets mean nothing in the file).
    """

    def __init__(
        self,
        text: bytes,
        marks: tuple[Mark, ...] = (),
        unrolls: dict[int, int] | None = None,
        macros: dict[str, ast.Macro] | None = None,
        shift: int = 0,
        fixed: Span | None = None,
    ) -> None:
        self.text = text
        self.marks = marks
        self.unrolls = unrolls or {}
        self.macros = macros or {}
        self.shift = shift
        self.fixed = fixed
        self.span: Callable[[Node], Span] = _plain_span
        """The span of a node in the original file."""
        if fixed is not None:
            self.span = lambda node: fixed
        elif shift:
            self.span = lambda node: Span(node.start_byte + shift, node.end_byte + shift)
        self.types: dict[tuple[bytes, int, bool], ast.TypeName] = {}
        self.type_names: set[str] = set()
        self.function_names: set[str] = set()
        self.declared: set[str] = set()
        self.base_names: set[str] = set()
        self.bit_marks = [mark for mark in marks if mark.kind == "bits"]
        self.bit_starts = [mark.start for mark in self.bit_marks]
        self.mark_starts = [mark.start for mark in marks]
        self.aligned = [(mark, bytes_) for mark in marks if (bytes_ := _alignment(mark))]
        self.aligned_starts = [mark.start for mark, _ in self.aligned]
        self.string_marks = {mark.start: mark for mark in marks if mark.kind == "string"}
        self.string_starts = sorted(self.string_marks)
        self.level = 0
        """Levels of statements and expressions being built."""
        self.busy: set[str] = set()
        """String macros being resolved: one that names itself is unknown."""
        self.expressions = Expressions(self)
        self.statements = Statements(self)

    # ------------------------------------------------------------------------------------------------- lazies
    def lazy(self, node: Node, span: Span | None = None) -> ast.Lazy:
        """A node as an expression to be built later, with the cheap looks filled in."""
        number = node.kind_id
        head = target = ""
        if number in CALL:
            callee = node.child(0)
            if callee is not None and callee.kind_id in _PLAIN_CALLEES:
                head = self.text[callee.start_byte : callee.end_byte].decode("utf-8", "replace")
                if head[-1:] == ">":
                    head = _without_arguments(head)
        elif number in _ASSIGNMENT:
            target = self.base(node.child(0))
        elif number in _UPDATE:
            target = self.base(node.child_by_field_id(F_ARGUMENT))
        return ast.Lazy(span or self.span(node), partial(self.expressions.build, node), head, target)

    def base(self, node: Node | None) -> str:
        """The identifier at the base of something written to; "" when there is none."""
        for _ in range(64):
            if node is None:
                return ""
            number = node.kind_id
            if number in IDENTIFIERS:
                return self.text[node.start_byte : node.end_byte].decode("utf-8", "replace")
            if number in _THROUGH_ARGUMENT:
                node = node.child_by_field_id(F_ARGUMENT)
            elif number in PARENTHESIZED:
                node = next(iter(node.named_children), None)
            elif number in _CAST:
                node = node.child_by_field_id(F_VALUE)
            elif number in CALL:  # reinterpret_cast<T*>(p)[i] = ...
                listed = node.child_by_field_id(F_ARGUMENTS)
                node = next(iter(listed.named_children), None) if listed is not None else None
            elif number in _ASSIGNMENT:
                node = node.child_by_field_id(F_LEFT)
            else:
                return ""
        return ""

    def broken(self, node: Node) -> ast.Lazy:
        """A place where an expression should stand but none can be read."""
        return ast.Lazy(self.span(node), partial(self.expressions.unparsed, node))

    def member_lazy(self, node: Node, name: str) -> ast.Lazy:
        """A member of a node's value, built later."""
        span = self.span(node)
        return ast.Lazy(span, lambda: ast.Member(span, self.expressions.build(node), name))

    def list_lazy(self, node: Node) -> ast.Lazy:
        """The arguments of `T x(a, b)` as an `InitList`, built later."""
        span = self.span(node)
        return ast.Lazy(span, lambda: ast.InitList(span, self.expressions.arguments(node)))

    def arguments_lazy(self, start: int, end: int) -> ast.Lazy:
        """The same, where the grammar took the arguments for parameters: they are parsed again as arguments."""
        span = self.fixed or Span(start + self.shift, end + self.shift)

        def make() -> ast.Expr:
            call = self.again(b"f", start, end)
            if isinstance(call, ast.Call):
                return ast.InitList(span, call.args)
            return ast.Unparsed(span, self.text[start:end].decode("utf-8", "replace"))

        return ast.Lazy(span, make)

    def text_lazy(self, start: int, end: int) -> ast.Lazy:
        """A piece of the text that the grammar took for a declaration, parsed again as an expression."""
        span = self.fixed or Span(start + self.shift, end + self.shift)
        return ast.Lazy(span, lambda: self.again(b"", start, end))

    def again(self, before: bytes, start: int, end: int) -> ast.Expr:
        """Parse `[start, end)` as an expression, behind the text `before`; offsets stay those of the file."""
        raw = self.text[start:end].rstrip(b"; \t\r\n")
        return expression(before + raw, self.shift + start - len(before), self.fixed, self)

    # ----------------------------------------------------------------------------------------- marks and macros
    def alignment(self, start: int, end: int) -> int:
        """Bytes of a blanked `__align__(N)` in `[start, end)`, or directly before it; 0 when there is none."""
        at = bisect_right(self.aligned_starts, end) - 1
        if at < 0:
            return 0
        mark, bytes_ = self.aligned[at]
        if mark.start >= start or (start - mark.end < 256 and not self.text[mark.end : start].strip()):
            return bytes_
        return 0

    def strings_after(self, offset: int) -> list[str]:
        """Macro names that stood among string literals directly after `offset`."""
        if not self.string_starts:
            return []
        found = []
        for at in range(bisect_left(self.string_starts, offset), len(self.string_starts)):
            start = self.string_starts[at]
            if start - offset > 4096 or self.text[offset:start].strip():
                break
            mark = self.string_marks[start]
            found.append(mark.text)
            offset = mark.end
        return found

    def string_macro(self, name: str, depth: int = 0) -> str | None:
        """The text of an object-like macro that is made of string literals; None for anything else."""
        macro = self.macros.get(name)
        if macro is None or macro.params is not None or depth > 8:
            return None
        if name in self.busy:
            return None
        self.busy.add(name)
        try:
            made = expression(macro.body.encode(), 0, macro.span, self)
        finally:
            self.busy.discard(name)
        if isinstance(made, ast.Str):
            return made.value
        if isinstance(made, ast.Name) and not made.targs:
            return self.string_macro(made.id, depth + 1)
        return None


def _plain_span(node: Node) -> Span:
    return Span(node.start_byte, node.end_byte)


def _alignment(mark: Mark) -> int:
    """Bytes that a blanked `__align__(N)` or `__attribute__((aligned(N)))` asks for; 0 when not a literal."""
    if mark.kind == "align":
        digits = mark.text.strip()
    elif mark.kind == "attribute":
        digits = mark.text.partition("aligned")[2].strip("_() \t")
    else:
        return 0
    return int(digits) if digits.isdecimal() and len(digits) < 8 else 0


def _without_arguments(text: str) -> str:
    """`ns::f<a<b>>` -> `ns::f`."""
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        depth += (text[at] == ">") - (text[at] == "<")
        if depth == 0:
            return text[:at].rstrip()
    return text


def expression(raw: bytes, offset: int, fixed: Span | None, parent: Builder | None = None) -> ast.Expr:
    """Parse bytes as one expression whose first byte lies at `offset` of the file; `fixed` overrides all spans."""
    before = b"void f(){auto x=("
    masked = mask(before + raw + b");}")
    tree = parse_tree(masked.text)
    builder = Builder(masked.text, masked.marks, {}, parent.macros if parent else {}, offset - len(before), fixed)
    whole = fixed or Span(offset, offset + len(raw))
    if parent is not None:
        builder.type_names, builder.function_names = parent.type_names, parent.function_names
        builder.busy = parent.busy
    node: Node | None = tree.root_node
    for child in (0, "body", 1, "declarator", "value"):  # function, block, declaration, `x=(...)`, `(...)`
        if node is not None:
            if isinstance(child, str):
                node = node.child_by_field_name(child)
            else:
                node = node.child(child) if child < node.child_count else None
    if node is None or node.kind_id not in PARENTHESIZED or tree.root_node.child_count != 1 or node.has_error:
        return ast.Unparsed(whole, raw.decode("utf-8", "replace"))
    return builder.expressions.build(node)


def statements(raw: bytes, fixed: Span) -> tuple[ast.Stmt, ...]:
    """Parse bytes as the inside of a block; every span is `fixed`."""
    masked = mask(b"void f(){" + raw + b"\n;}")
    root = parse_tree(masked.text).root_node
    function = root.child(0) if root.child_count else None
    body = function.child_by_field_name("body") if function is not None else None
    if body is None or root.child_count != 1:
        return (ast.Gap(fixed, "macro expansion could not be parsed"),)
    builder = Builder(masked.text, masked.marks, masked.unrolls, {}, 0, fixed)
    return builder.statements.block(body).body
