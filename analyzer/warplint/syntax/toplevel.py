"""Top level of a file: records, globals, aliases, and the way to functions, launches and gaps."""

from __future__ import annotations

from functools import partial

from tree_sitter import Node

from warplint.patterns import late
from warplint.source import SourceFile, Span
from warplint.syntax import ast
from warplint.syntax.build import Builder
from warplint.syntax.declarations import ALIGNAS, is_prototype
from warplint.syntax.functions import Functions
from warplint.syntax.gaps import MAX_GAPS, balanced, deep_braces, find_gaps
from warplint.syntax.grammar import kind, kinds, parse_tree
from warplint.syntax.launches import Launches, holder
from warplint.syntax.marks import Masked
from warplint.syntax.mask import mask
from warplint.syntax.nodes import (
    DECLARATION,
    F_BODY,
    F_DECLARATOR,
    F_NAME,
    F_PARAMETERS,
    F_TYPE,
    F_VALUE,
    RECORDS,
)
from warplint.syntax.preprocessor import Target
from warplint.syntax.records import members, record_name

FUNCTION = kinds("function_definition")
_K_TEMPLATE, _K_NAMESPACE, _K_LINKAGE = (
    kind("template_declaration"),
    kind("namespace_definition"),
    kind("linkage_specification"),
)
_LISTS = kinds("declaration_list", "field_declaration_list", "translation_unit")
_K_ALIAS, _K_TYPEDEF, _K_ENUM = kind("alias_declaration"), kind("type_definition"), kind("enum_specifier")
_K_FIELD, _K_FRIEND = kind("field_declaration"), kind("friend_declaration")
_K_BASES = kind("base_class_clause")
_K_ENUMERATOR = kind("enumerator")
_STATIC = late(rb"(?:[\w:]+\s+){0,6}?static\b")
# One pattern a word, each with a literal prefix: that is what the engine skips ahead by.
_LOCAL_RECORDS = tuple(
    late(word + rb"(?<![A-Za-z0-9_]" + word + rb")\b[^;(){}<>=,&*]{0,200}\{")
    for word in (b"struct", b"union", b"class")
)
_LOCAL_ALIAS = late(rb"using(?<![A-Za-z0-9_]using)\s+\w+\s*=[^;]{1,400};")
_MAX_SCOPES = 100
"""Levels of nested namespaces and classes that are entered."""

_Visit = tuple[Node, tuple[str, ...], tuple[str, ...], str, int]
"""A node to visit: its scope, template parameters in force, the record it stands in, and where the declaration that
holds it begins (`template <...>`, `extern "C"`), -1 for where it begins itself."""


class TopLevel:
    """Builds the `ast.File` of one source."""

    def __init__(self, source: SourceFile, arch: str = "", host: bool = False) -> None:
        self.data = source.data
        amd = source.path.endswith((".hip", ".hip.cpp")) or arch.startswith("gfx")
        self.masked: Masked = mask(source.data, Target(amd, arch, host), source)
        self.gaps: list[ast.ParseGap] = list(self.masked.gaps)
        text = balanced(self.masked, self.gaps)
        self.tree = parse_tree(text)
        latest = {macro.name: macro for macro in self.masked.macros}
        self.builder = Builder(text, self.masked.marks, self.masked.unrolls, latest)
        self.functions = Functions(self.builder, self.masked)
        self.records: list[ast.Record] = []
        self.globals: list[ast.Decl] = []
        self.aliases: list[tuple[str, ast.TypeName]] = []

    def build(self) -> ast.File:
        """The whole file; bodies of functions stay unbuilt."""
        root = self.tree.root_node
        self.builder.statements.broken = root.has_error
        self.walk(root)
        self.local_aliases()
        self.local_records()
        deep_braces(self.masked.code, self.gaps)
        if root.has_error:
            find_gaps(root, self.builder.text, len(self.data), self.gaps)
        self.builder.function_names = {function.name.rpartition("::")[2] for function in self.functions.found}
        self.builder.type_names = {record.name.rpartition("::")[2] for record in self.records}
        self.builder.base_names = {base for record in self.records for base in record.bases}
        self.builder.type_names.update(name for name, _ in self.aliases)
        launches = tuple(Launches(self.builder, self.masked.code, root, self.functions.found, self.gaps).found())
        self.gaps.sort(key=lambda gap: (gap.span.start, gap.span.end))
        return ast.File(
            tuple(self.functions.found),
            tuple(self.records),
            tuple(self.globals),
            self.masked.macros,
            self.masked.includes,
            launches,
            tuple(self.aliases),
            tuple(self.gaps[:MAX_GAPS]),
            self.masked.passes,
        )

    def walk(self, root: Node) -> None:
        """Visit declarations in source order, with an explicit stack."""
        stack: list[_Visit] = [(root, (), (), "", -1)]
        words = self.builder.expressions.words
        while stack:
            node, scope, template, record, begin = stack.pop()
            number = node.kind_id
            inner: tuple[tuple[str, ...], tuple[str, ...], str, int] = (scope, template, record, -1)
            if number in FUNCTION:
                self.functions.add(node, scope, template, record, node.start_byte if begin < 0 else begin)
                continue
            if number in RECORDS:
                self.record(node, scope, template, stack)
                continue
            if number in DECLARATION or number == _K_FIELD:
                typed = node.child_by_field_id(F_TYPE)
                if typed is not None and (typed.kind_id in RECORDS or typed.kind_id == _K_ENUM):
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
                names = self.functions.template_names(listed)
                inner = (scope, template + names, record, node.start_byte if begin < 0 else begin)
            elif number == _K_LINKAGE:
                inner = (scope, template, record, node.start_byte)
            elif number == _K_NAMESPACE:
                name = node.child_by_field_id(F_NAME)
                spelled = tuple(part.strip() for part in words(name).split("::")) if name is not None else ()
                inner = (scope + tuple(part for part in spelled if part), template, record, -1)
            elif not (number in _LISTS or number == _K_FRIEND or node.is_error):
                continue
            if len(scope) < _MAX_SCOPES:
                stack.extend((child, inner[0], inner[1], inner[2], inner[3]) for child in reversed(node.named_children))
            else:
                self.gaps.append(ast.ParseGap(self.builder.span(node), f"nested deeper than {_MAX_SCOPES}"))

    def local_aliases(self) -> None:
        """Aliases declared inside functions; the file's come first, so that they win."""
        if b"using" not in self.masked.code:
            return
        known = {name for name, _ in self.aliases}
        for match in _LOCAL_ALIAS.finditer(self.masked.code):
            if not holder(self.functions.found, match.start()):
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

    def local_records(self) -> None:
        """Records defined inside functions, named as the function names them."""
        end = 0
        functions = list(self.functions.found)
        matches = [match for pattern in _LOCAL_RECORDS for match in pattern.finditer(self.masked.code)]
        for match in sorted(matches, key=lambda match: match.start()):
            if match.start() < end or not holder(functions, match.start()):
                continue
            token = self.tree.root_node.descendant_for_byte_range(match.start(), match.start() + 1)
            node = token.parent if token is not None else None
            if node is not None and node.kind_id in RECORDS and node.start_byte == match.start():
                end = node.end_byte
                self.walk(node)

    def record(self, node: Node, scope: tuple[str, ...], template: tuple[str, ...], stack: list[_Visit]) -> None:
        """A class, struct or union with a body: its members; its methods and inner records are visited later."""
        body = node.child_by_field_id(F_BODY)
        if body is None:
            return
        words = self.builder.expressions.words
        name_node = node.child_by_field_id(F_NAME)
        inner = (*scope, record_name(self.builder, node))
        bases: list[str] = []
        for child in node.named_children:
            if child.kind_id == _K_BASES:
                listed = (b for b in child.named_children if b.type not in ("access_specifier", "comment"))
                bases.extend(words(base) for base in listed)
        head_end = name_node.end_byte if name_node else body.start_byte
        alignment = self.builder.alignment(node.start_byte, head_end)
        if not alignment:
            found = ALIGNAS.search(self.builder.text, node.start_byte, body.start_byte)
            alignment = int(found[1]) if found else 0
        span = Span(node.start_byte, min(node.end_byte, len(self.data)))
        self.records.append(
            ast.Record("::".join(inner), members(self.builder, body), tuple(bases), span, template, alignment)
        )
        if len(scope) < _MAX_SCOPES:
            full = "::".join(inner)
            stack.extend((child, inner, template, full, -1) for child in reversed(body.named_children))
        else:
            self.gaps.append(ast.ParseGap(span, f"nested deeper than {_MAX_SCOPES}"))

    def declaration(self, node: Node, prefix: str = "") -> None:
        """A variable at namespace scope, or a static member; prototypes are left out."""
        if any(is_prototype(child) for child in node.children):
            return
        items, _ = self.builder.statements.declarators(node)
        if prefix:
            items = [ast.Declarator(f"{prefix}::{i.name}", i.type, i.dims, i.init, i.span, i.alignment) for i in items]
        if items:
            self.globals.append(ast.Decl(self.builder.span(node), tuple(items)))

    def typedef(self, node: Node, scope: tuple[str, ...], template: tuple[str, ...], stack: list[_Visit]) -> None:
        """`typedef T X;` (a record in T is visited with the alias as its name when it has none)."""
        typed = node.child_by_field_id(F_TYPE)
        for child in (
            node.children_by_field_id(F_DECLARATOR)
            if hasattr(node, "children_by_field_id")
            else (node.children_by_field_name("declarator"))
        ):
            name, pointer, reference, _ = self.builder.expressions.unwrap(child)
            if name is None or typed is None:
                continue
            if typed.kind_id in RECORDS and typed.child_by_field_id(F_NAME) is None:
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


def _next_enumerator(span: Span, previous: str) -> ast.Expr:
    if not previous:
        return ast.Num(span, 0)
    return ast.Binary(span, "+", ast.Name(span, previous), ast.Num(span, 1))
