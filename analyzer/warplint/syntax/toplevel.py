"""Top level of a file: functions, records, globals, aliases, launches and gaps."""

from __future__ import annotations

import gc
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Set
from functools import partial

from tree_sitter import Node

from warplint.source import SourceFile, Span
from warplint.syntax import ast
from warplint.syntax.build import Builder, expression
from warplint.syntax.expressions import (
    CALL,
    F_BODY,
    F_DECLARATOR,
    F_NAME,
    F_PARAMETERS,
    F_TYPE,
    F_VALUE,
    FUNCTION_DECLARATORS,
    IDENTIFIERS,
    QUALIFIED,
    TEMPLATED,
)
from warplint.syntax.grammar import kind, kinds, parse_tree
from warplint.syntax.launches import Launches, holder
from warplint.syntax.mask import Mark, Masked, attribute_arguments, mask
from warplint.syntax.statements import DECLARATION, MAX_NESTING, errors

_FUNCTION = kinds("function_definition")
_RECORDS = kinds("struct_specifier", "class_specifier", "union_specifier")
_K_TEMPLATE, _K_NAMESPACE, _K_LINKAGE = (
    kind("template_declaration"),
    kind("namespace_definition"),
    kind("linkage_specification"),
)
_LISTS = kinds("declaration_list", "field_declaration_list", "translation_unit")
_K_ALIAS, _K_TYPEDEF, _K_ENUM = kind("alias_declaration"), kind("type_definition"), kind("enum_specifier")
_K_FIELD, _K_FRIEND = kind("field_declaration"), kind("friend_declaration")
_K_BASES = kind("base_class_clause")
_K_COMPOUND, _K_OPERATOR_CAST = kind("compound_statement"), kind("operator_cast")
_K_TEMPLATE_PARAMETERS, _K_ENUMERATORS, _K_ENUMERATOR = (
    kind("template_parameter_list"),
    kind("enumerator_list"),
    kind("enumerator"),
)
_TYPED_PARAMETERS = kinds(
    "parameter_declaration", "optional_parameter_declaration", "variadic_parameter_declaration"
)
_COMPOUND_LITERAL = kinds("compound_literal_expression")
_K_TRAILING = kind("trailing_return_type")
_K_DESCRIPTOR = kind("type_descriptor")
_NAMED_DECLARATORS = IDENTIFIERS | QUALIFIED | TEMPLATED | kinds("operator_name", "destructor_name", "operator_cast")
_SPECIFIERS = frozenset(
    "__global__ __device__ __host__ static inline __forceinline__ extern constexpr".split()
)
_MENTION = re.compile(rb"([A-Za-z_]\w*)(?:\(|[ \t\r\n]+\()")
_ASM = re.compile(rb"(?:\b|__)asm(?:__)?\s*(?:volatile|__volatile__|goto|inline)?\s*\(")
_TEMPLATED_CALL = re.compile(rb">\s*\(")
_TEMPLATE_NAME = re.compile(rb"([A-Za-z_]\w*)\s*\Z")
_TEMPLATE_REACH = 300
_BRANCHES = re.compile(rb"\b(?:if|for|while|do|switch|goto)\b|\?|\bcase\b")
_NOT_CALLS = frozenset("if for while switch return sizeof alignas alignof decltype asm volatile __volatile__".split())
_STATIC = re.compile(rb"(?:[\w:]+\s+){0,6}?static\b")
_LOCAL_ALIAS = re.compile(rb"\busing\s+\w+\s*=[^;]{1,400};")
_NO_BRACES = bytes(byte for byte in range(256) if byte not in b"{}")
_ELSE = re.compile(rb"\s*else\b")
_BRACES = re.compile(rb"[{}]")
_INTEGER = re.compile(r"\s*(\d{1,9})\s*\Z")
_MAX_SCOPES = 100
"""Levels of nested namespaces and classes that are entered."""
_MAX_GAPS = 1000
_MAX_UNCLOSED = 100_000
_SMALL_BODY = 1 << 14
"""Bytes of a body that may be one wrapper of assembly."""


_Visit = tuple[Node, tuple[str, ...], tuple[str, ...], str, int]
"""A node to visit: its scope, template parameters in force, the record it stands in, and where the declaration that
holds it begins (`template <...>`, `extern "C"`), -1 for where it begins itself."""


class TopLevel:
    """Builds the `ast.File` of one source."""

    def __init__(self, source: SourceFile) -> None:
        self.data = source.data
        hip = source.path.endswith((".hip", ".hip.cpp"))
        self.masked: Masked = mask(source.data, hip)
        self.gaps: list[ast.ParseGap] = list(self.masked.gaps)
        text = self.balanced()
        self.tree = parse_tree(text)
        latest = {macro.name: macro for macro in self.masked.macros}
        self.builder = Builder(text, self.masked.marks, self.masked.unrolls, latest)
        self.functions: list[ast.Function] = []
        self.records: list[ast.Record] = []
        self.globals: list[ast.Decl] = []
        self.aliases: list[tuple[str, ast.TypeName]] = []

    def balanced(self) -> bytes:
        """The text, with the braces closed that the file leaves open: a truncated kernel keeps its structure."""
        code = self.masked.code
        missing = code.count(b"{") - code.count(b"}")
        if missing <= 0 or missing > _MAX_UNCLOSED:
            return self.masked.text
        at, depth = len(code), 0
        while at > 0:  # back to the brace that is still open
            at = max(code.rfind(b"{", 0, at), code.rfind(b"}", 0, at))
            if at == -1:
                break
            depth += 1 if code[at] == 123 else -1
            if depth == 1:
                break
        end = len(self.data)
        self.gaps.append(ast.ParseGap(Span(max(at, 0), end), f"{missing} brace(s) not closed at the end of the file"))
        return self.masked.text + b"\n;" + b"}" * missing

    def build(self) -> ast.File:
        """The whole file; bodies of functions stay unbuilt."""
        root = self.tree.root_node
        self.builder.statements.broken = root.has_error
        self.walk(root)
        self.local_aliases()
        self.deep_braces()
        if root.has_error:
            self.find_gaps(root)
        self.builder.function_names = {function.name.rpartition("::")[2] for function in self.functions}
        self.builder.type_names = {record.name.rpartition("::")[2] for record in self.records}
        self.builder.type_names.update(name for name, _ in self.aliases)
        self.gaps.sort(key=lambda gap: (gap.span.start, gap.span.end))
        return ast.File(
            tuple(self.functions),
            tuple(self.records),
            tuple(self.globals),
            self.masked.macros,
            self.masked.includes,
            tuple(Launches(self.builder, self.masked.code, self.tree.root_node, self.functions, self.gaps).found()),
            tuple(self.aliases),
            tuple(self.gaps[:_MAX_GAPS]),
        )

    def walk(self, root: Node) -> None:
        """Visit declarations in source order, with an explicit stack."""
        stack: list[_Visit] = [(root, (), (), "", -1)]
        words = self.builder.expressions.words
        while stack:
            node, scope, template, record, begin = stack.pop()
            number = node.kind_id
            inner: tuple[tuple[str, ...], tuple[str, ...], str, int] = (scope, template, record, -1)
            if number in _FUNCTION:
                self.function(node, scope, template, record, node.start_byte if begin < 0 else begin)
                continue
            if number in _RECORDS:
                self.record(node, scope, template, stack)
                continue
            if number in DECLARATION or number == _K_FIELD:
                typed = node.child_by_field_id(F_TYPE)
                if typed is not None and (typed.kind_id in _RECORDS or typed.kind_id == _K_ENUM):
                    stack.append((typed, scope, template, record, -1))
                if not record:
                    self.declaration(node)
                elif _STATIC.match(self.builder.text, node.start_byte, node.end_byte):
                    self.declaration(node, "::".join(scope))
                continue
            if number == _K_ALIAS:
                name, typed = node.child_by_field_id(F_NAME), node.child_by_field_id(F_TYPE)
                if name is not None and typed is not None:
                    self.aliases.append((words(name), self.builder.expressions.type_name(typed)))
                continue
            if number == _K_TYPEDEF:
                self.typedef(node, scope, template, stack)
                continue
            if number == _K_ENUM:
                self.enum(node)
                continue
            if number == _K_TEMPLATE:
                listed = node.child_by_field_id(F_PARAMETERS)
                inner = (scope, template + self.template_names(listed), record, node.start_byte if begin < 0 else begin)
            elif number == _K_LINKAGE:
                inner = (scope, template, record, node.start_byte)
            elif number == _K_NAMESPACE:
                name = node.child_by_field_id(F_NAME)
                spelled = tuple(part.strip() for part in words(name).split("::")) if name is not None else ()
                inner = (scope + tuple(part for part in spelled if part), template, record, -1)
            elif not (number in _LISTS or number == _K_FRIEND or node.is_error):
                continue
            if len(scope) < _MAX_SCOPES:
                stack.extend((child, *inner) for child in reversed(node.named_children))
            else:
                self.gaps.append(ast.ParseGap(self.builder.span(node), f"nested deeper than {_MAX_SCOPES}"))

    def local_aliases(self) -> None:
        """Aliases declared inside functions; the file's come first, so that they win."""
        if b"using" not in self.masked.code:
            return
        known = {name for name, _ in self.aliases}
        for match in _LOCAL_ALIAS.finditer(self.masked.code):
            if not holder(self.functions, match.start()):
                continue
            node = self.tree.root_node.descendant_for_byte_range(match.start(), match.end())
            for child in node.children if node is not None and node.kind_id != _K_ALIAS else [node]:
                if child is None or child.kind_id != _K_ALIAS or child.start_byte != match.start():
                    continue
                name, typed = child.child_by_field_id(F_NAME), child.child_by_field_id(F_TYPE)
                spelled = self.builder.expressions.words(name) if name is not None else ""
                if typed is not None and spelled not in known:
                    known.add(spelled)
                    self.aliases.append((spelled, self.builder.expressions.type_name(typed)))

    # ---------------------------------------------------------------------------------------------- functions
    def function(
        self, node: Node, scope: tuple[str, ...], template: tuple[str, ...], record: str, start: int
    ) -> None:
        """One function definition; deleted and defaulted ones have no body and are passed over."""
        builder = self.builder
        body = node.child_by_field_id(F_BODY)
        if body is None or body.kind_id != _K_COMPOUND:
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
        raw = self.masked.code[body.start_byte : min(body.end_byte, len(self.data))]
        has_asm = raw.find(b"asm") != -1 and _ASM.search(raw) is not None
        self.functions.append(
            ast.Function(
                "::".join((*scope, name)),
                builder.expressions.parameters(declarator.child_by_field_id(F_PARAMETERS)),
                builder.expressions.type_name(typed, pointer, reference),
                specifiers,
                template,
                self.attributes(marks),
                Span(marks[0].start if marks and marks[0].start < start else start, min(body.end_byte, len(self.data))),
                Span(named.start_byte, name_end),
                _Body(builder, body),
                has_asm and len(raw) < _SMALL_BODY and not _BRANCHES.search(raw),
                Mentions(raw),
                record or ("::".join((*scope, name.rpartition("::")[0])) if "::" in name else ""),
            )
        )

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

    # ------------------------------------------------------------------------------------- records and globals
    def record(self, node: Node, scope: tuple[str, ...], template: tuple[str, ...], stack: list[_Visit]) -> None:
        """A class, struct or union with a body: its members; its methods and inner records are visited later."""
        body = node.child_by_field_id(F_BODY)
        if body is None:
            return
        words = self.builder.expressions.words
        name_node = node.child_by_field_id(F_NAME)
        name = self.builder.expressions.squeezed(name_node.start_byte, name_node.end_byte) if name_node else ""
        inner = (*scope, name) if name else scope
        bases: list[str] = []
        for child in node.named_children:
            if child.kind_id == _K_BASES:
                listed = (b for b in child.named_children if b.type not in ("access_specifier", "comment"))
                bases.extend(words(base) for base in listed)
        members: list[ast.Declarator] = []
        for child in body.named_children:
            if child.kind_id == _K_FIELD:
                members.extend(self.builder.statements.declarators(child)[0])
        head_end = name_node.end_byte if name_node else body.start_byte
        alignment = self.builder.alignment(node.start_byte, head_end)
        if not alignment:
            found = _ALIGNAS.search(self.builder.text, node.start_byte, body.start_byte)
            alignment = int(found[1]) if found else 0
        span = Span(node.start_byte, min(node.end_byte, len(self.data)))
        self.records.append(ast.Record("::".join(inner), tuple(members), tuple(bases), span, template, alignment))
        if len(scope) < _MAX_SCOPES:
            full = "::".join(inner)
            stack.extend((child, inner, template, full, -1) for child in reversed(body.named_children))
        else:
            self.gaps.append(ast.ParseGap(span, f"nested deeper than {_MAX_SCOPES}"))

    def declaration(self, node: Node, prefix: str = "") -> None:
        """A variable at namespace scope, or a static member; prototypes are left out."""
        if any(child.kind_id in FUNCTION_DECLARATORS for child in node.children):
            return
        items, _ = self.builder.statements.declarators(node)
        if prefix:
            items = [
                ast.Declarator(f"{prefix}::{i.name}", i.type, i.dims, i.init, i.span, i.alignment) for i in items
            ]
        if items:
            self.globals.append(ast.Decl(self.builder.span(node), tuple(items)))

    def typedef(self, node: Node, scope: tuple[str, ...], template: tuple[str, ...], stack: list[_Visit]) -> None:
        """`typedef T X;` (a record in T is visited with the alias as its name when it has none)."""
        typed = node.child_by_field_id(F_TYPE)
        for child in node.children_by_field_id(F_DECLARATOR) if hasattr(node, "children_by_field_id") else (
            node.children_by_field_name("declarator")
        ):
            name, pointer, reference, _ = self.builder.expressions.unwrap(child)
            if name is None or typed is None:
                continue
            if typed.kind_id in _RECORDS and typed.child_by_field_id(F_NAME) is None:
                before = len(self.records)
                self.record(typed, scope, template, [])
                for at in range(before, len(self.records)):
                    made = self.records[at]
                    full = "::".join((*scope, self.builder.expressions.words(name)))
                    self.records[at] = ast.Record(full, made.members, made.bases, made.span, template, made.alignment)
                continue
            self.aliases.append(
                (self.builder.expressions.words(name), self.builder.expressions.type_name(typed, pointer, reference))
            )
        if typed is not None and typed.child_by_field_id(F_NAME) is not None:
            stack.append((typed, scope, template, "", -1))

    def enum(self, node: Node) -> None:
        """Enumerators as constexpr declarations; one without a value is the one before it plus one."""
        body = node.child_by_field_id(F_BODY)
        if body is None:
            return
        words = self.builder.expressions.words
        name_node = node.child_by_field_id(F_NAME)
        scoped = any(not child.is_named and child.type in ("class", "struct") for child in node.children)
        prefix = f"{words(name_node)}::" if scoped and name_node is not None else ""
        typed = ast.TypeName(words(name_node) if name_node is not None else "int", 0, False, frozenset({"constexpr"}))
        items: list[ast.Declarator] = []
        previous = ""
        for child in body.named_children:
            name = child.child_by_field_id(F_NAME)
            if child.kind_id != _K_ENUMERATOR or name is None:
                continue
            value = child.child_by_field_id(F_VALUE)
            span = self.builder.span(child)
            if value is not None:
                init = self.builder.lazy(value)
            else:
                init = ast.Lazy(span, partial(_next_enumerator, span, previous))
            previous = prefix + words(name)
            items.append(ast.Declarator(previous, typed, (), init, span))
        if items:
            self.globals.append(ast.Decl(self.builder.span(node), tuple(items)))

    # ---------------------------------------------------------------------------------------------------- gaps
    def follows_macro(self, node: Node) -> bool:
        """Whether a missing `;` stands behind `name(...)`, a macro that brings its own, and no `else` follows."""
        statement = node.parent
        first = statement.children[0] if statement is not None and statement.children else None
        if first is None or first.kind_id not in CALL or first.children[0].kind_id not in IDENTIFIERS:
            return False
        return not _ELSE.match(self.builder.text, node.end_byte)

    def deep_braces(self) -> None:
        """A gap where braces nest deeper than statements are built."""
        code = self.masked.code
        if code.count(b"{") <= MAX_NESTING:
            return
        depth = deepest = 0
        for byte in code.translate(None, _NO_BRACES):
            depth += 1 if byte == 123 else -1
            if depth > deepest:
                deepest = depth
            elif depth < 0:
                depth = 0
        if deepest <= MAX_NESTING:
            return
        depth = 0
        for match in _BRACES.finditer(code):
            depth = max(depth + (1 if match[0] == b"{" else -1), 0)
            if depth > MAX_NESTING:
                span = Span(match.start(), match.end())
                self.gaps.append(ast.ParseGap(span, f"nested deeper than {MAX_NESTING}"))
                return

    def find_gaps(self, root: Node) -> None:
        """ERROR and MISSING nodes as gaps; a MISSING `;` or closing bracket that the text implies is harmless."""
        size = len(self.data)
        for node in errors(root):
            if len(self.gaps) >= _MAX_GAPS:
                break
            start, end = min(node.start_byte, size), min(node.end_byte, size)
            if node.is_missing:
                if node.parent is not None and node.parent.kind_id in _COMPOUND_LITERAL:
                    continue  # `T x = {}` as a parameter's default reads as a literal without a type
                if size and not (node.type == ";" and self.follows_macro(node)):
                    span = Span(min(start, size - 1), min(start + 1, size))
                    if node.parent is not None and node.parent.kind_id in DECLARATION:
                        span = Span(node.parent.start_byte, span.end)  # it may be a whole function, misread
                    self.gaps.append(ast.ParseGap(span, f"missing {node.type!r}"))
                continue
            text = " ".join(self.builder.text[start : min(end, start + 60)].decode("utf-8", "replace").split())
            if text:
                self.gaps.append(ast.ParseGap(Span(start, end), f"could not be parsed: {text[:40]}"))


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


class _Body:
    """A function's body, built when first called."""

    __slots__ = ("block", "builder", "node")

    def __init__(self, builder: Builder, node: Node) -> None:
        self.builder, self.node = builder, node
        self.block: ast.Block | None = None

    def __call__(self) -> ast.Block:
        if self.block is None:
            self.builder.declared.clear()
            # What is built is a tree without cycles: collecting while it grows finds nothing and costs a fifth.
            collecting = gc.isenabled()
            gc.disable()
            try:
                self.block = self.builder.statements.block(self.node)
            finally:
                if collecting:
                    gc.enable()
        return self.block


_NO_ATTRIBUTES = ast.Attributes()
_WORDS = re.compile(r"\w+")
_ALIGNAS = re.compile(rb"\balignas\s*\(\s*(\d{1,6})\s*\)")


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


def _next_enumerator(span: Span, previous: str) -> ast.Expr:
    if not previous:
        return ast.Num(span, 0)
    return ast.Binary(span, "+", ast.Name(span, previous), ast.Num(span, 1))
