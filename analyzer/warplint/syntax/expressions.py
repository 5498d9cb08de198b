"""Expressions and types: from tree-sitter nodes to `ast.Expr`, with a bound on depth."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tree_sitter import Node

from warplint.source import Span
from warplint.syntax import ast, literals
from warplint.syntax.grammar import field, kind, kinds

if TYPE_CHECKING:
    from warplint.syntax.build import Builder

MAX_EXPRESSION_DEPTH = 200
"""Levels of nested expressions that are built; deeper ones become `Unparsed`."""

_Build = Callable[["Expressions", Node], ast.Expr]

F_ALTERNATIVE, F_ARGUMENT, F_ARGUMENTS = field("alternative"), field("argument"), field("arguments")
F_BODY, F_CONDITION, F_CONSEQUENCE = field("body"), field("condition"), field("consequence")
F_DECLARATOR, F_DEFAULT, F_FIELD, F_FUNCTION = (field(n) for n in ("declarator", "default_value", "field", "function"))
F_INDICES, F_LEFT, F_NAME, F_OPERATOR, F_RIGHT = (field(n) for n in ("indices", "left", "name", "operator", "right"))
F_SCOPE, F_SIZE, F_TYPE, F_VALUE, F_PARAMETERS = (field(n) for n in ("scope", "size", "type", "value", "parameters"))
F_ASSEMBLY, F_OUTPUTS, F_INPUTS = field("assembly_code"), field("output_operands"), field("input_operands")
F_CONSTRAINT, F_SYMBOL = field("constraint"), field("symbol")

IDENTIFIERS = kinds("identifier", "type_identifier", "field_identifier", "namespace_identifier", "this")
PARENTHESIZED = kinds("parenthesized_expression")
QUALIFIED = kinds("qualified_identifier")
TEMPLATED = kinds("template_function", "template_type", "template_method")
CALL = kinds("call_expression")
BINARY = kinds("binary_expression")
COMMENT = kinds("comment")
POINTER_DECLARATORS = kinds("pointer_declarator", "abstract_pointer_declarator")
REFERENCE_DECLARATORS = kinds("reference_declarator", "abstract_reference_declarator")
ARRAY_DECLARATORS = kinds("array_declarator", "abstract_array_declarator")
FUNCTION_DECLARATORS = kinds("function_declarator", "abstract_function_declarator")
PARENTHESIZED_DECLARATORS = kinds("parenthesized_declarator", "abstract_parenthesized_declarator")
INIT_DECLARATOR = kinds("init_declarator")
K_TYPE_DESCRIPTOR = kind("type_descriptor")
K_PRIMITIVE, K_SIZED = kind("primitive_type"), kind("sized_type_specifier")
K_INIT_LIST, K_COMPOUND, K_STRING, K_RAW = (
    kind(n) for n in ("initializer_list", "compound_statement", "string_literal", "raw_string_literal")
)
K_LAMBDA_DECLARATOR, K_DEPENDENT = kind("lambda_declarator"), kind("dependent_name")
_PARAMETERS = kinds("parameter_declaration", "optional_parameter_declaration", "variadic_parameter_declaration")
_CASTS = frozenset({"static_cast", "reinterpret_cast", "const_cast", "dynamic_cast"})
_SPELLED = {"and": "&&", "or": "||", "not": "!", "bitand": "&", "bitor": "|", "xor": "^", "compl": "~"}
_SPELLED |= {"not_eq": "!=", "and_eq": "&=", "or_eq": "|=", "xor_eq": "^="}
SCALARS = frozenset(
    "bool char short int long float double unsigned signed half size_t ssize_t ptrdiff_t intptr_t uintptr_t uchar "
    "ushort uint ulong ulonglong longlong wchar_t char8_t char16_t char32_t half_t bfloat16 nv_bfloat16 __nv_bfloat16 "
    "__half int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t __half_raw fp8_e4_t fp8_e5_t".split()
)
"""Type names of CUDA and C++ that a functional cast or a C cast over an operator may use without being declared."""
_QUALIFIER_WORDS = frozenset(
    "const volatile constexpr static extern __shared__ __constant__ __device__ __grid_constant__ auto".split()
)
_TYPE_DROPS = frozenset(
    "const volatile constexpr static extern inline __shared__ __constant__ __device__ __grid_constant__ __restrict__ "
    "__restrict register mutable typename struct class union enum __host__ __global__ __forceinline__ __noinline__ "
    "__inline__ __inline thread_local __managed__ consteval constinit virtual explicit friend restrict".split()
)
STATEMENT_WORDS = frozenset(
    ["if", "else", "for", "while", "do", "switch", "case", "default", "return", "break", "continue", "goto"]
)
UNDEFINED_TYPE = ast.TypeName("")


class Expressions:
    """Builds expressions of one text. `builder` holds the text, spans and what the file defines."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self.text = builder.text
        self.span = builder.span
        self.depth = 0
        self.numbers: dict[bytes, tuple[int | None, bool, int]] = {}

    # ------------------------------------------------------------------------------------------ entry points
    def build(self, node: Node) -> ast.Expr:
        """The expression of a node; `Unparsed` for what is broken, unknown, or nested too deep."""
        make = _BUILDERS.get(node.kind_id)
        if make is None:
            return self.unparsed(node)
        if self.depth >= MAX_EXPRESSION_DEPTH:
            return ast.Unparsed(self.span(node), f"nested deeper than {MAX_EXPRESSION_DEPTH}")
        self.depth += 1
        try:
            return make(self, node)
        finally:
            self.depth -= 1

    def unparsed(self, node: Node) -> ast.Expr:
        """A node that no expression stands for."""
        return ast.Unparsed(self.span(node), self.words(node))

    def words(self, node: Node) -> str:
        """The text of a node."""
        return self.text[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def arguments(self, node: Node | None) -> tuple[ast.Expr, ...]:
        """The arguments of a list in parentheses, braces or brackets."""
        if node is None:
            return ()
        return tuple(self.build(child) for child in node.named_children if child.kind_id not in COMMENT)

    # ------------------------------------------------------------------------------------------------- types
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
            name = record.child_by_field_id(F_NAME) if record is not None else None
            return ast.TypeName(self.words(name) if name is not None else "", pointer, reference)
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
                return () if found is None else tuple(map(self.template_argument, _named(found)))
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
        if self.depth >= MAX_EXPRESSION_DEPTH:
            return ast.Unparsed(self.span(node), f"nested deeper than {MAX_EXPRESSION_DEPTH}")
        inner = node.child_by_field_id(F_TYPE)
        self.depth += 2  # a level of template arguments takes two of ours
        targs = self.template_arguments(inner) if inner is not None else ()
        self.depth -= 2
        return ast.Name(self.span(node), self.words(node), targs)

    def parameters(self, node: Node | None) -> tuple[ast.Param, ...]:
        """The parameters of a parameter list."""
        if node is None:
            return ()
        found = []
        for child in node.named_children:
            if child.kind_id not in _PARAMETERS:
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

    # ------------------------------------------------------------------------------------- single constructs
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

    def squeezed(self, start: int, end: int) -> str:
        """Text without white space."""
        return "".join(self.text[start:end].decode("utf-8", "replace").split())

    def number(self, node: Node) -> ast.Expr:
        raw = self.text[node.start_byte : node.end_byte]
        known = self.numbers.get(raw)
        if known is None:
            known = self.numbers[raw] = literals.number(raw.decode("utf-8", "replace"))
        return ast.Num(self.span(node), *known)

    def character(self, node: Node) -> ast.Expr:
        return ast.Num(self.span(node), literals.character(self.words(node)), False, 8)

    def true(self, node: Node) -> ast.Expr:
        return ast.Num(self.span(node), 1)

    def false(self, node: Node) -> ast.Expr:
        return ast.Num(self.span(node), 0)

    def user_literal(self, node: Node) -> ast.Expr:
        """`5_c`: a number with a suffix of its own; the number when it is one, else unknown."""
        digits = self.words(node).partition("_")[0]
        return ast.Num(self.span(node), literals.number(digits)[0] if digits else None)

    def string(self, node: Node) -> ast.Expr:
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

    def parenthesized(self, node: Node) -> ast.Expr:
        inner = [child for child in node.named_children if child.kind_id not in COMMENT]
        if len(inner) != 1:
            return self.unparsed(node)
        if inner[0].kind_id == K_COMPOUND:
            return self.statement_expression(inner[0])
        return self.build(inner[0])

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
        if len(spine) + self.depth > MAX_EXPRESSION_DEPTH:
            return ast.Unparsed(self.span(node), f"nested deeper than {MAX_EXPRESSION_DEPTH}")
        result = None if left is None else self.build(left)
        for current in reversed(spine):
            right = current.child_by_field_id(F_RIGHT)
            sign_node = current.child_by_field_id(F_OPERATOR)
            if result is None or right is None or sign_node is None or (current.has_error and _broken(current)):
                result = self.unparsed(current)
                continue
            sign = self.words(sign_node)
            sign = _SPELLED.get(sign, sign)
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
        left, right = node.child_by_field_id(F_LEFT), node.child_by_field_id(F_RIGHT)
        if left is None or right is None:
            return self.unparsed(node)
        return ast.Binary(self.span(node), ",", self.build(left), self.build(right))

    def assignment(self, node: Node) -> ast.Expr:
        left, right = node.child_by_field_id(F_LEFT), node.child_by_field_id(F_RIGHT)
        sign = node.child_by_field_id(F_OPERATOR)
        if left is None or right is None or sign is None:
            return self.unparsed(node)
        words = self.words(sign)
        words = _SPELLED.get(words, words)
        target = self.build(left)
        if isinstance(target, ast.Index) and not words[:-1]:
            base: ast.Expr = target
            while isinstance(base, ast.Index):
                base = base.base
            if isinstance(base, ast.Cast) and not base.type.pointer and base.type.name in SCALARS:
                return self.unparsed(node)  # `int (&x)[3] = y` declares a reference
        return ast.Assign(self.span(node), words[:-1], target, self.build(right))

    def unary(self, node: Node) -> ast.Expr:
        argument, sign = node.child_by_field_id(F_ARGUMENT), node.child_by_field_id(F_OPERATOR)
        if argument is None or sign is None:
            return self.unparsed(node)
        words = self.words(sign)
        return ast.Unary(self.span(node), _SPELLED.get(words, words), self.build(argument))

    def update(self, node: Node) -> ast.Expr:
        argument, sign = node.child_by_field_id(F_ARGUMENT), node.child_by_field_id(F_OPERATOR)
        if argument is None or sign is None:
            return self.unparsed(node)
        prefix = sign.start_byte < argument.start_byte
        return ast.Update(self.span(node), self.words(sign)[:1], self.build(argument), prefix)

    def conditional(self, node: Node) -> ast.Expr:
        test, yes = node.child_by_field_id(F_CONDITION), node.child_by_field_id(F_CONSEQUENCE)
        no = node.child_by_field_id(F_ALTERNATIVE)
        if test is None or no is None:
            return self.unparsed(node)
        first = self.build(test)
        return ast.Cond(self.span(node), first, self.build(yes) if yes is not None else first, self.build(no))

    def cast(self, node: Node) -> ast.Expr:
        value = node.child_by_field_id(F_VALUE)
        if value is None:
            return self.unparsed(node)
        return ast.Cast(self.span(node), self.type_name(node.child_by_field_id(F_TYPE)), self.build(value))

    def subscript(self, node: Node) -> ast.Expr:
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
                target = _named(targets) if targets is not None else []
                if len(target) == 1:
                    return ast.Cast(span, self.type_name(target[0]), arguments[0])
        if len(arguments) == 1:
            if number in PARENTHESIZED:  # `(uint)(x)` reads as a call
                inner = function.named_children
                named = len(inner) == 1 and (inner[0].kind_id in IDENTIFIERS or inner[0].kind_id in QUALIFIED)
                if named and self.words(inner[0]) not in self.builder.function_names:
                    return ast.Cast(span, self.type_name(inner[0]), arguments[0])
            elif number in IDENTIFIERS and self.words(function) in SCALARS:
                return ast.Cast(span, self.type_name(function), arguments[0])
        callee = self.build(function)
        if isinstance(callee, ast.Unparsed) and callee.text in STATEMENT_WORDS:
            return self.unparsed(node)
        return ast.Call(span, callee, arguments)

    def init_list(self, node: Node) -> ast.Expr:
        return ast.InitList(self.span(node), self.arguments(node))

    def designated(self, node: Node) -> ast.Expr:
        """`.x = 3` in a braced list: the value (members are initialised in order in C++)."""
        value = node.child_by_field_id(F_VALUE)
        return self.unparsed(node) if value is None else self.build(value)

    def compound_literal(self, node: Node) -> ast.Expr:
        value = node.child_by_field_id(F_VALUE)
        typed = self.type_name(node.child_by_field_id(F_TYPE))
        return ast.InitList(self.span(node), self.arguments(value), typed)

    def sizeof(self, node: Node) -> ast.Expr:
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
        inner = _named(node)
        return self.unparsed(node) if not inner else self.build(inner[0])

    def type_argument(self, node: Node) -> ast.Expr:
        return self.template_argument(node)

    def lambda_(self, node: Node) -> ast.Expr:
        declarator, body = node.child_by_field_id(F_DECLARATOR), node.child_by_field_id(F_BODY)
        if body is None:
            return self.unparsed(node)
        listed = declarator.child_by_field_id(F_PARAMETERS) if declarator is not None else None
        return ast.Lambda(self.span(node), self.parameters(listed), self.builder.statements.block(body))

    # ---------------------------------------------------------------------------------------------- assembly
    def asm(self, node: Node) -> ast.Expr:
        code = node.child_by_field_id(F_ASSEMBLY)
        broken = node.has_error and any(child.is_error for child in node.children)
        if code is None or broken:
            return self.unparsed(node)
        volatile = any(child.kind_id == _ASM_QUALIFIER and b"volatile" in (child.text or b"") for child in node.children)
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


def _named(node: Node) -> list[Node]:
    """Named children without comments."""
    return [child for child in node.named_children if child.kind_id not in COMMENT]


def _broken(node: Node) -> bool:
    """Whether an ERROR or MISSING node is a direct child."""
    return any(child.is_error or child.is_missing for child in node.children)


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


_ASM_QUALIFIER = kind("gnu_asm_qualifier")
_ASM_OPERANDS = kinds("gnu_asm_output_operand", "gnu_asm_input_operand")
_MEMBERS = kinds("field_expression")
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
