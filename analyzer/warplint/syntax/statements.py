"""Statements: from tree-sitter nodes to `ast.Stmt`; expressions inside stay unbuilt (`ast.Lazy`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from tree_sitter import Node

from warplint.patterns import late
from warplint.source import Span
from warplint.syntax import ast
from warplint.syntax.declarations import Declarations
from warplint.syntax.grammar import field, kind, kinds
from warplint.syntax.leaves import STATEMENT_WORDS
from warplint.syntax.nodes import (
    COMMENT,
    DECLARATION,
    EXPRESSION_STATEMENT,
    F_ALTERNATIVE,
    F_BODY,
    F_CONDITION,
    F_CONSEQUENCE,
    F_DECLARATOR,
    F_RIGHT,
    F_TYPE,
    F_VALUE,
    IDENTIFIERS,
    K_COMPOUND,
    MAX_DEPTH,
)

if TYPE_CHECKING:
    from warplint.syntax.build import Builder


Out = list[ast.Stmt]
_Build = Callable[["Statements", Node, Out], None]
_F_INITIALIZER, _F_UPDATE, _F_LABEL = field("initializer"), field("update"), field("label")
_K_IF, _K_CASE, _K_CONDITION = kind("if_statement"), kind("case_statement"), kind("condition_clause")
_K_ATTRIBUTES = kind("attribute_declaration")
HIDES = late(rb"[{};]|\b(?:if|else|for|while|do|switch|return|break|continue|goto)\b|\w\s*\(")


class Statements(Declarations):
    """Builds statements of one text."""

    def __init__(self, builder: Builder) -> None:
        super().__init__(builder)
        self.unrolls = builder.unrolls

    def block(self, node: Node | None) -> ast.Block:
        """A block: the statements in braces, or the single statement that stands for one."""
        if node is None:
            return ast.Block(Span(0, 0), ())
        out: Out = []
        if node.kind_id == K_COMPOUND:
            self.many(node.children, out)
        else:
            self.one(node, out)
        return ast.Block(self.span(node), tuple(out))

    def many(self, nodes: Iterable[Node], out: Out) -> None:
        """Build statements in order."""
        builder = self.builder
        if builder.level >= MAX_DEPTH:
            self.too_deep(nodes, out)
            return
        builder.level += 1
        try:
            for node in nodes:
                make = _BUILDERS.get(node.kind_id)
                if make is not None:
                    make(self, node, out)
                    if self.broken and node.has_error:
                        self.hidden(node, out)
                elif node.is_named:
                    self.gap(node, out)
        finally:
            builder.level -= 1

    def one(self, node: Node, out: Out) -> None:
        """Build one statement."""
        self.many((node,), out)

    def hidden(self, node: Node, out: Out) -> None:
        """After a statement with an ERROR node among its parts: a `Gap`, where that may hide statements."""
        if node.kind_id == K_COMPOUND or node.kind_id in EXPRESSION_STATEMENT:
            return  # their parts were looked at one by one
        parts = [error for error, _ in errors(node)] if node.kind_id in DECLARATION else node.children
        for part in parts:
            if part.is_error and HIDES.search(self.text, part.start_byte, part.end_byte):
                out.append(ast.Gap(self.span(part), "could not be parsed"))
                return

    def too_deep(self, nodes: Iterable[Node], out: Out) -> None:
        """Stand-in for statements below the depth bound."""
        listed = [node for node in nodes if node.is_named]
        if listed:
            span = self.span(listed[0])
            out.append(ast.Gap(Span(span.start, self.span(listed[-1]).end), f"nested deeper than {MAX_DEPTH}"))

    def gap(self, node: Node, out: Out) -> None:
        """A node that is no statement we know: broken text, or a construct that is not followed."""
        if node.is_error:
            raw = self.text[node.start_byte : node.end_byte]
            if not HIDES.search(raw) and len(raw) < 200:
                return  # a stray word hides nothing; the file's list of gaps has it
            out.append(ast.Gap(self.span(node), "could not be parsed"))
            return
        out.append(ast.Gap(self.span(node), f"{node.type.replace('_', ' ')} is not followed"))

    def expression(self, node: Node, out: Out) -> None:
        """`x;`; a lone semicolon is nothing."""
        inner = node.child(0)
        if inner is None or not inner.is_named:
            return  # a lone semicolon
        if inner.kind_id in COMMENT:
            inner = next((child for child in node.named_children if child.kind_id not in COMMENT), inner)
        span = self.span(node)
        if node.has_error and self.hides(node):
            out.append(ast.Gap(span, "could not be parsed"))
            return
        out.append(ast.ExprStmt(span, self.lazy(inner, span)))

    def hides(self, node: Node) -> bool:
        """Whether broken text inside a statement may hide other statements."""
        for error, _ in errors(node):
            if error.is_error and HIDES.search(self.text, error.start_byte, error.end_byte):
                return True
        return False

    def nested(self, node: Node, out: Out) -> None:
        """Braces inside braces."""
        out.append(self.block(node))

    def nothing(self, node: Node, out: Out) -> None:
        """A declaration without run-time effect: aliases, local records, static_assert."""

    def if_(self, node: Node, out: Out) -> None:
        """`else if` chains are walked, not recursed into: generated dispatch code has long ones."""
        chain: list[tuple[Node, ast.Stmt | None, ast.Lazy, ast.Block, bool]] = []
        last: ast.Block | None = None
        current: Node | None = node
        while current is not None:
            if self.builder.level + len(chain) >= MAX_DEPTH:
                deep: Out = []
                self.too_deep((current,), deep)
                if not chain:
                    out.extend(deep)
                last = ast.Block(self.span(current), tuple(deep))
                break
            init, test = self.condition(current)
            then = self.block(current.child_by_field_id(F_CONSEQUENCE))
            second = current.child(1)
            chain.append((current, init, test, then, second is not None and not second.is_named))
            otherwise = current.child_by_field_id(F_ALTERNATIVE)
            current = None
            if otherwise is not None:
                inner = next((c for c in otherwise.named_children if c.kind_id not in COMMENT), None)
                if inner is not None and inner.kind_id == _K_IF:
                    current = inner
                elif inner is not None:
                    last = self.block(inner)
                else:
                    last = ast.Block(self.span(otherwise), ())
        for at in range(len(chain) - 1, -1, -1):
            made, init, test, then, constexpr = chain[at]
            statement = ast.If(self.span(made), test, then, last, constexpr, init)
            if at == 0:
                out.append(statement)
            else:
                last = ast.Block(statement.span, (statement,))

    def condition(self, node: Node) -> tuple[ast.Stmt | None, ast.Lazy]:
        """The init statement and the test of an `if`, `while` or `switch`."""
        clause = node.child_by_field_id(F_CONDITION)
        if clause is None:
            return None, self.builder.broken(node)
        if clause.kind_id != _K_CONDITION:
            return None, self.lazy(clause)
        value = clause.child_by_field_id(F_VALUE)
        if value is None:
            return None, self.builder.broken(clause)
        start: Out = []
        initializer = clause.child_by_field_id(_F_INITIALIZER)
        if initializer is not None:
            self.many([child for child in initializer.named_children], start)
        if value.kind_id in DECLARATION:  # `if (T x = f())`
            self.declaration(value, start)
            if start and isinstance(start[-1], ast.Decl) and start[-1].items:
                item = start[-1].items[-1]
                name = ast.Name(item.span, item.name)
                test = ast.Lazy(self.span(value), lambda: name)
            else:
                test = self.builder.broken(value)
        elif clause.has_error and self.hides(clause):
            test = self.builder.broken(value)
        else:
            test = self.lazy(value)
        if len(start) > 1:
            return ast.Block(start[0].span, tuple(start)), test
        return (start[0] if start else None), test

    def for_(self, node: Node, out: Out) -> None:
        """`for (init; test; step) body`."""
        start: Out = []
        initializer = node.child_by_field_id(_F_INITIALIZER)
        if initializer is not None:
            if initializer.kind_id in DECLARATION or initializer.kind_id in EXPRESSION_STATEMENT:
                self.one(initializer, start)
            else:
                start.append(ast.ExprStmt(self.span(initializer), self.lazy(initializer)))
        test, step = node.child_by_field_id(F_CONDITION), node.child_by_field_id(_F_UPDATE)
        if node.has_error and any(child.is_error or child.is_missing for child in node.children):
            test_lazy: ast.Lazy | None = self.builder.broken(node)
        else:
            test_lazy = self.lazy(test) if test is not None else None
        out.append(
            ast.For(
                self.span(node),
                start[0] if start else None,
                test_lazy,
                self.lazy(step) if step is not None else None,
                self.block(node.child_by_field_id(F_BODY)),
                self.unrolls.get(node.start_byte, 0),
            )
        )

    def range_for(self, node: Node, out: Out) -> None:
        """`for (T x : range)`: a loop whose variable and trip count are not known."""
        span = self.span(node)
        declarator, over = node.child_by_field_id(F_DECLARATOR), node.child_by_field_id(F_RIGHT)
        init = None
        if declarator is not None:
            name, pointer, reference, _ = self.builder.expressions.unwrap(declarator)
            first = node.child_by_field_id(F_TYPE)
            typed = self.builder.expressions.type_name(first, pointer, reference)
            if name is not None:
                item = ast.Declarator(self.words(name), typed, (), self.builder.broken(over or node), self.span(name))
                init = ast.Decl(self.span(declarator), (item,))
        test = self.builder.broken(over or node)
        body = self.block(node.child_by_field_id(F_BODY))
        out.append(ast.For(span, init, test, None, body, self.unrolls.get(node.start_byte, 0)))

    def while_(self, node: Node, out: Out) -> None:
        """`while (test) body`."""
        init, test = self.condition(node)
        loop = ast.While(self.span(node), test, self.block(node.child_by_field_id(F_BODY)))
        # A variable declared in the condition is set anew every round, which no other node says.
        out.append(loop if init is None else ast.Gap(loop.span, "declaration in a loop condition"))

    def do(self, node: Node, out: Out) -> None:
        """`do body while (test);`."""
        _, test = self.condition(node)
        out.append(ast.While(self.span(node), test, self.block(node.child_by_field_id(F_BODY)), True))

    def switch(self, node: Node, out: Out) -> None:
        """`switch (x) { case 1: ... }`."""
        init, test = self.condition(node)
        if init is not None:
            out.append(init)
        body = node.child_by_field_id(F_BODY)
        cases: list[ast.Case] = []
        stray: Out = []
        for child in body.children if body is not None else ():
            if child.kind_id == _K_CASE:
                self.case(child, cases)
            elif child.is_named and child.kind_id not in COMMENT:
                self.one(child, stray)
        if stray and not all(isinstance(s, ast.Decl) for s in stray):
            out.append(ast.Gap(stray[0].span, "statements before the first case"))
        else:
            out.extend(stray)
        out.append(ast.Switch(self.span(node), test, tuple(cases)))

    def case(self, node: Node, cases: list[ast.Case]) -> None:
        """One label with its statements; a label directly after another may be its child."""
        value = node.child_by_field_id(F_VALUE)
        inside: list[Node] = []
        labels: list[Node] = []
        seen = False
        for child in node.children:
            if seen:
                (labels if child.kind_id == _K_CASE else inside).append(child)
            elif not child.is_named and child.type == ":":
                seen = True
        body: Out = []
        self.many(inside, body)
        built = self.builder.expressions.build(value) if value is not None else None
        cases.append(ast.Case(built, tuple(body), self.span(node)))
        if self.builder.level < MAX_DEPTH:
            self.builder.level += 1
            for label in labels:
                self.case(label, cases)
            self.builder.level -= 1

    def break_(self, node: Node, out: Out) -> None:
        """`break;`."""
        out.append(ast.Break(self.span(node)))

    def continue_(self, node: Node, out: Out) -> None:
        """`continue;`."""
        out.append(ast.Continue(self.span(node)))

    def return_(self, node: Node, out: Out) -> None:
        """`return x;`."""
        value = next((child for child in node.named_children if child.kind_id not in COMMENT), None)
        out.append(ast.Return(self.span(node), self.lazy(value) if value is not None else None))

    def goto(self, node: Node, out: Out) -> None:
        """`goto label;`."""
        label = node.child_by_field_id(_F_LABEL)
        out.append(ast.Goto(self.span(node), self.words(label) if label is not None else ""))

    def labeled(self, node: Node, out: Out) -> None:
        """A label that nothing jumps to is passed over; else it is a `Goto` of its own."""
        label = node.child_by_field_id(_F_LABEL)
        if label is None or b"goto" in self.text:
            self.goto(node, out)
        self.many(node.named_children[1:], out)

    def attributed(self, node: Node, out: Out) -> None:
        """`[[likely]] statement`."""
        self.many([child for child in node.named_children if child.kind_id != _K_ATTRIBUTES], out)
        if out and isinstance(out[-1], ast.For) and node.start_byte in self.unrolls:
            loop = out[-1]
            factor = self.unrolls[node.start_byte]
            out[-1] = ast.For(loop.span, loop.init, loop.test, loop.step, loop.body, factor)

    def declaration(self, node: Node, out: Out) -> None:
        """Variables; a prototype or a record without variables leaves nothing."""
        plain = self.plain(node)
        if plain is not None:
            out.append(plain)
            return
        first = node.children[0]
        if first.kind_id in IDENTIFIERS and self.words(first) in STATEMENT_WORDS:
            out.append(ast.Gap(self.span(node), "could not be parsed"))  # `else x;` after a statement without `;`
            return
        items, expression = self.declarators(node)
        if expression is not None:
            out.append(ast.ExprStmt(self.span(node), expression))
        elif items:
            out.append(ast.Decl(self.span(node), tuple(items)))


def errors(node: Node) -> list[tuple[Node, Node | None]]:
    """The ERROR and MISSING nodes under a node with their parents, in source order.

    Subtrees without errors are not visited, and nothing inside an ERROR node is.
    """
    found: list[tuple[Node, Node | None]] = []
    stack: list[tuple[Node, Node | None]] = [(node, None)]
    while stack:
        current, parent = stack.pop()
        if current.is_error or current.is_missing:
            found.append((current, parent))
        elif current.has_error:
            stack.extend((child, current) for child in reversed(current.children))
    return found


def _table() -> dict[int, _Build]:
    """Node kind -> method."""
    made: dict[str, _Build] = {
        "expression_statement": Statements.expression,
        "compound_statement": Statements.nested,
        "declaration": Statements.declaration,
        "if_statement": Statements.if_,
        "for_statement": Statements.for_,
        "for_range_loop": Statements.range_for,
        "while_statement": Statements.while_,
        "do_statement": Statements.do,
        "switch_statement": Statements.switch,
        "break_statement": Statements.break_,
        "continue_statement": Statements.continue_,
        "return_statement": Statements.return_,
        "goto_statement": Statements.goto,
        "labeled_statement": Statements.labeled,
        "attributed_statement": Statements.attributed,
    }
    quiet = (
        "comment static_assert_declaration alias_declaration using_declaration type_definition struct_specifier "
        "class_specifier union_specifier enum_specifier namespace_alias_definition field_identifier "
        "template_declaration attribute_declaration statement_identifier"
    )
    table = {number: build for name, build in made.items() for number in kinds(name)}
    table |= {number: Statements.nothing for name in quiet.split() for number in kinds(name)}
    return table


_BUILDERS = _table()
