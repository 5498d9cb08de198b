"""Expressions: from tree-sitter nodes to `ast.Expr`, with a bound on depth."""

from __future__ import annotations

from collections.abc import Callable

from tree_sitter import Node

from warplint.syntax import ast
from warplint.syntax.grammar import kinds
from warplint.syntax.leaves import STATEMENT_WORDS, Leaves
from warplint.syntax.nodes import (
    BINARY,
    COMMENT,
    F_ALTERNATIVE,
    F_ARGUMENT,
    F_ARGUMENTS,
    F_BODY,
    F_CONDITION,
    F_CONSEQUENCE,
    F_DECLARATOR,
    F_FIELD,
    F_FUNCTION,
    F_INDICES,
    F_LEFT,
    F_NAME,
    F_OPERATOR,
    F_PARAMETERS,
    F_RIGHT,
    F_TYPE,
    F_VALUE,
    IDENTIFIERS,
    K_COMPOUND,
    K_DEPENDENT,
    K_INIT_LIST,
    K_PRIMITIVE,
    K_SIZED,
    MAX_CHAIN,
    MAX_DEPTH,
    PARENTHESIZED,
    QUALIFIED,
    TEMPLATED,
)
from warplint.syntax.typenames import SCALARS, named

_Build = Callable[["Expressions", Node], ast.Expr]
_CASTS = frozenset({"static_cast", "reinterpret_cast", "const_cast", "dynamic_cast"})
SPELLED = {"and": "&&", "or": "||", "not": "!", "bitand": "&", "bitor": "|", "xor": "^", "compl": "~"}
SPELLED |= {"not_eq": "!=", "and_eq": "&=", "or_eq": "|=", "xor_eq": "^="}
_MEMBERS = kinds("field_expression")


class Expressions(Leaves):
    """Builds expressions of one text."""

    def build(self, node: Node) -> ast.Expr:
        """The expression of a node; `Unparsed` for what is broken, unknown, or nested too deep."""
        make = _BUILDERS.get(node.kind_id)
        if make is None:
            return self.unparsed(node)
        builder = self.builder
        if builder.level >= MAX_DEPTH:
            return ast.Unparsed(self.span(node), f"nested deeper than {MAX_DEPTH}")
        builder.level += 1
        try:
            return make(self, node)
        finally:
            builder.level -= 1

    def arguments(self, node: Node | None) -> tuple[ast.Expr, ...]:
        """The arguments of a list in parentheses, braces or brackets."""
        if node is None:
            return ()
        return tuple(self.build(child) for child in node.named_children if child.kind_id not in COMMENT)

    def parenthesized(self, node: Node) -> ast.Expr:
        """`(x)` is `x`; `({ ... })` is a statement expression."""
        while True:  # any number of parentheses is one level
            inner = node.named_children
            if len(inner) != 1:
                return self.unparsed(node)
            node = inner[0]
            if node.kind_id not in PARENTHESIZED:
                break
        return self.statement_expression(node) if node.kind_id == K_COMPOUND else self.build(node)

    def statement_expression(self, node: Node) -> ast.Expr:
        """GNU `({ ...; value; })`, as a call of a lambda that returns the last expression."""
        block = self.builder.statements.block(node)
        body = block.body
        if body and isinstance(body[-1], ast.ExprStmt):
            body = (*body[:-1], ast.Return(body[-1].span, body[-1].value))
        made = ast.Lambda(self.span(node), (), ast.Block(block.span, body))
        return ast.Call(self.span(node), made, ())

    def binary(self, node: Node) -> ast.Expr:
        """Operators of equal rank lean left, so a long sum is a deep tree: its spine is walked, not recursed into."""
        spine = [node]
        while True:
            left = spine[-1].child_by_field_id(F_LEFT)
            if left is None or left.kind_id not in BINARY:
                break
            spine.append(left)
        if len(spine) > MAX_CHAIN:
            return ast.Unparsed(self.span(node), f"nested deeper than {MAX_CHAIN}")
        result = None if left is None else self.build(left)
        for current in reversed(spine):
            right = current.child_by_field_id(F_RIGHT)
            sign_node = current.child_by_field_id(F_OPERATOR)
            if result is None or right is None or sign_node is None or (current.has_error and _broken(current)):
                result = self.unparsed(current)
                continue
            sign = self.words(sign_node)
            sign = SPELLED.get(sign, sign)
            value = self.build(right)
            span = self.span(current)
            if sign in "+-*&" and left is not None and left.kind_id in PARENTHESIZED and current is spine[-1]:
                cast = self.scalar_in_parens(left)
                if cast is not None:  # `(uint)-x` reads as a subtraction
                    result = ast.Cast(span, cast, ast.Unary(ast.Span(sign_node.start_byte, span.end), sign, value))
                    continue
            result = ast.Binary(span, sign, result, value)
        return result if result is not None else self.unparsed(node)

    def scalar_in_parens(self, node: Node) -> ast.TypeName | None:
        """The type when a parenthesised name is one that cannot be a variable."""
        inner = node.named_children
        if len(inner) == 1 and inner[0].kind_id in IDENTIFIERS:
            name = self.words(inner[0])
            if name in SCALARS or name in self.builder.type_names:
                return ast.TypeName(name)
        return None

    def comma(self, node: Node) -> ast.Expr:
        """`a, b`."""
        left, right = node.child_by_field_id(F_LEFT), node.child_by_field_id(F_RIGHT)
        if left is None or right is None:
            return self.unparsed(node)
        return ast.Binary(self.span(node), ",", self.build(left), self.build(right))

    def assignment(self, node: Node) -> ast.Expr:
        """`a = b` and its compound forms."""
        left, right = node.child_by_field_id(F_LEFT), node.child_by_field_id(F_RIGHT)
        sign = node.child_by_field_id(F_OPERATOR)
        if left is None or right is None or sign is None:
            return self.unparsed(node)
        words = self.words(sign)
        words = SPELLED.get(words, words)
        target = self.build(left)
        if isinstance(target, ast.Index) and not words[:-1]:
            base: ast.Expr = target
            while isinstance(base, ast.Index):
                base = base.base
            if isinstance(base, ast.Cast) and not base.type.pointer and base.type.name in SCALARS:
                return self.unparsed(node)  # `int (&x)[3] = y` declares a reference
        return ast.Assign(self.span(node), words[:-1], target, self.build(right))

    def unary(self, node: Node) -> ast.Expr:
        """`-x`, `!x`, `*p`, `&x` and so on."""
        argument, sign = node.child_by_field_id(F_ARGUMENT), node.child_by_field_id(F_OPERATOR)
        if argument is None or sign is None:
            return self.unparsed(node)
        words = self.words(sign)
        return ast.Unary(self.span(node), SPELLED.get(words, words), self.build(argument))

    def update(self, node: Node) -> ast.Expr:
        """`++x`, `x--`."""
        argument, sign = node.child_by_field_id(F_ARGUMENT), node.child_by_field_id(F_OPERATOR)
        if argument is None or sign is None:
            return self.unparsed(node)
        prefix = sign.start_byte < argument.start_byte
        return ast.Update(self.span(node), self.words(sign)[:1], self.build(argument), prefix)

    def conditional(self, node: Node) -> ast.Expr:
        """`a ? b : c`, and the GNU form without `b`."""
        test, yes = node.child_by_field_id(F_CONDITION), node.child_by_field_id(F_CONSEQUENCE)
        no = node.child_by_field_id(F_ALTERNATIVE)
        if test is None or no is None:
            return self.unparsed(node)
        first = self.build(test)
        return ast.Cond(self.span(node), first, self.build(yes) if yes is not None else first, self.build(no))

    def cast(self, node: Node) -> ast.Expr:
        """`(T)x`."""
        value = node.child_by_field_id(F_VALUE)
        if value is None:
            return self.unparsed(node)
        return ast.Cast(self.span(node), self.type_name(node.child_by_field_id(F_TYPE)), self.build(value))

    def subscript(self, node: Node) -> ast.Expr:
        """`a[i]`; `a[i, j]` is `a[i][j]`."""
        base, indices = node.child_by_field_id(F_ARGUMENT), node.child_by_field_id(F_INDICES)
        if base is None or indices is None:
            return self.unparsed(node)
        result = self.build(base)
        values = self.arguments(indices)
        if not values:
            return self.unparsed(node)
        for value in values:
            result = ast.Index(self.span(node), result, value)
        return result

    def member(self, node: Node) -> ast.Expr:
        """`x.f` or `x->f`."""
        return self.member_of(node)[0]

    def member_of(self, node: Node) -> tuple[ast.Expr, tuple[ast.Expr, ...]]:
        """`x.f` or `x->f`, and the template arguments of `f` apart."""
        base, sign, name = (node.child_by_field_id(f) for f in (F_ARGUMENT, F_OPERATOR, F_FIELD))
        if base is None or name is None:
            return self.unparsed(node), ()
        targs: tuple[ast.Expr, ...] = ()
        if name.kind_id == K_DEPENDENT and name.named_children:
            name = name.named_children[-1]
        if name.kind_id in TEMPLATED:
            targs = self.template_arguments(name)
            name = name.child_by_field_id(F_NAME) or name
        arrow = sign is not None and self.words(sign) == "->"
        return ast.Member(self.span(node), self.build(base), self.words(name), arrow), targs

    def template_name(self, node: Node) -> ast.Expr:
        """`f<T, 3>`."""
        name = node.child_by_field_id(F_NAME)
        return ast.Name(self.span(node), self.words(name or node), self.template_arguments(node))

    def call(self, node: Node) -> ast.Expr:
        """A call, or one of the casts that read as a call."""
        function, listed = node.child_by_field_id(F_FUNCTION), node.child_by_field_id(F_ARGUMENTS)
        if function is None or listed is None:
            return self.unparsed(node)
        span, number = self.span(node), function.kind_id
        if listed.kind_id == K_INIT_LIST:
            return ast.InitList(span, self.arguments(listed), self.type_name(function))
        arguments = self.arguments(listed)
        if number in _MEMBERS:
            callee, targs = self.member_of(function)
            return ast.Call(span, callee, arguments, targs)
        if number in (K_PRIMITIVE, K_SIZED):
            typed = self.type_name(function)
            return ast.Cast(span, typed, arguments[0]) if len(arguments) == 1 else ast.InitList(span, arguments, typed)
        if number in TEMPLATED and len(arguments) == 1:
            name = function.child_by_field_id(F_NAME)
            if name is not None and self.words(name) in _CASTS:
                targets = function.child_by_field_id(F_ARGUMENTS)
                target = named(targets) if targets is not None else []
                if len(target) == 1:
                    return ast.Cast(span, self.type_name(target[0]), arguments[0])
        if len(arguments) == 1:
            if number in PARENTHESIZED:  # `(uint)(x)` reads as a call
                inner = function.named_children
                is_name = len(inner) == 1 and (inner[0].kind_id in IDENTIFIERS or inner[0].kind_id in QUALIFIED)
                if is_name and self.words(inner[0]) not in self.builder.function_names:
                    return ast.Cast(span, self.type_name(inner[0]), arguments[0])
            elif number in IDENTIFIERS and self.words(function) in SCALARS:
                return ast.Cast(span, self.type_name(function), arguments[0])
        callee = self.build(function)
        if isinstance(callee, ast.Unparsed) and callee.text in STATEMENT_WORDS:
            return self.unparsed(node)
        return ast.Call(span, callee, arguments)

    def init_list(self, node: Node) -> ast.Expr:
        """`{a, b}`."""
        return ast.InitList(self.span(node), self.arguments(node))

    def designated(self, node: Node) -> ast.Expr:
        """`.x = 3` in a braced list: the value (members are initialised in order in C++)."""
        value = node.child_by_field_id(F_VALUE)
        return self.unparsed(node) if value is None else self.build(value)

    def compound_literal(self, node: Node) -> ast.Expr:
        """`T{a, b}`."""
        value = node.child_by_field_id(F_VALUE)
        typed = self.type_name(node.child_by_field_id(F_TYPE))
        return ast.InitList(self.span(node), self.arguments(value), typed)

    def sizeof(self, node: Node) -> ast.Expr:
        """`sizeof(x)`; of a type, the type stands as a `Name` with its pointer stars."""
        value = node.child_by_field_id(F_VALUE)
        if value is not None:
            return ast.Unary(self.span(node), "sizeof", self.build(value))
        typed = node.child_by_field_id(F_TYPE)
        if typed is None:
            return self.unparsed(node)
        name = self.type_name(typed)
        return ast.Unary(self.span(node), "sizeof", ast.Name(self.span(typed), name.name + "*" * name.pointer))

    def expansion(self, node: Node) -> ast.Expr:
        """`args...`: the pattern stands for all of them."""
        inner = named(node)
        return self.unparsed(node) if not inner else self.build(inner[0])

    def type_argument(self, node: Node) -> ast.Expr:
        """A type where an expression may stand (a macro or template argument)."""
        return self.template_argument(node)

    def lambda_(self, node: Node) -> ast.Expr:
        """`[captures](parameters) { body }`."""
        declarator, body = node.child_by_field_id(F_DECLARATOR), node.child_by_field_id(F_BODY)
        if body is None:
            return self.unparsed(node)
        listed = declarator.child_by_field_id(F_PARAMETERS) if declarator is not None else None
        return ast.Lambda(self.span(node), self.parameters(listed), self.builder.statements.block(body))


def _broken(node: Node) -> bool:
    """Whether an ERROR or MISSING node is a direct child."""
    return any(child.is_error or child.is_missing for child in node.children)


def _table() -> dict[int, _Build]:
    """Node kind -> method."""
    made: dict[str, _Build] = {
        "identifier": Expressions.name,
        "type_identifier": Expressions.name,
        "field_identifier": Expressions.name,
        "namespace_identifier": Expressions.name,
        "primitive_type": Expressions.name,
        "sized_type_specifier": Expressions.name,
        "this": Expressions.name,
        "operator_name": Expressions.name,
        "decltype": Expressions.name,
        "qualified_identifier": Expressions.qualified,
        "number_literal": Expressions.number,
        "char_literal": Expressions.character,
        "true": Expressions.true,
        "false": Expressions.false,
        "null": Expressions.false,
        "user_defined_literal": Expressions.user_literal,
        "string_literal": Expressions.string,
        "raw_string_literal": Expressions.string,
        "concatenated_string": Expressions.string,
        "parenthesized_expression": Expressions.parenthesized,
        "compound_statement": Expressions.statement_expression,
        "binary_expression": Expressions.binary,
        "comma_expression": Expressions.comma,
        "assignment_expression": Expressions.assignment,
        "unary_expression": Expressions.unary,
        "pointer_expression": Expressions.unary,
        "update_expression": Expressions.update,
        "conditional_expression": Expressions.conditional,
        "cast_expression": Expressions.cast,
        "subscript_expression": Expressions.subscript,
        "field_expression": Expressions.member,
        "template_function": Expressions.template_name,
        "template_method": Expressions.template_name,
        "template_type": Expressions.template_name,
        "call_expression": Expressions.call,
        "initializer_list": Expressions.init_list,
        "initializer_pair": Expressions.designated,
        "compound_literal_expression": Expressions.compound_literal,
        "sizeof_expression": Expressions.sizeof,
        "parameter_pack_expansion": Expressions.expansion,
        "type_descriptor": Expressions.type_argument,
        "lambda_expression": Expressions.lambda_,
        "gnu_asm_expression": Expressions.asm,
    }
    return {number: build for name, build in made.items() for number in kinds(name)}


_BUILDERS = _table()
