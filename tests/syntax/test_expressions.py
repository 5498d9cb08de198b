"""Expressions: the tree says what the source says, where the grammar misreads it too."""

from __future__ import annotations

import pytest

from tests.syntax.helpers import body, expr, parsed
from warplint.source import Span
from warplint.syntax import ast, parse_expression, parse_statements


def shape(node: ast.Expr | None) -> object:
    """An expression without its spans: names as strings, numbers as ints, the rest as tuples."""
    match node:
        case None:
            return None
        case ast.Num():
            return node.value
        case ast.Name():
            return node.id if not node.targs else (node.id, "<>", *map(shape, node.targs))
        case ast.Str():
            return ("str", node.value)
        case ast.Unary():
            return (node.op, shape(node.arg))
        case ast.Update():
            return (node.op * 2, shape(node.arg)) if node.prefix else (shape(node.arg), node.op * 2)
        case ast.Binary():
            return (shape(node.left), node.op, shape(node.right))
        case ast.Assign():
            return (shape(node.target), node.op + "=", shape(node.value))
        case ast.Cond():
            return (shape(node.test), "?", shape(node.yes), shape(node.no))
        case ast.Cast():
            return ("cast", node.type.name + "*" * node.type.pointer, shape(node.arg))
        case ast.Index():
            return (shape(node.base), "[]", shape(node.index))
        case ast.Member():
            return (shape(node.base), "->" if node.arrow else ".", node.name)
        case ast.Call():
            return (
                "call",
                shape(node.fn),
                *map(shape, node.args),
                *([("<>", *map(shape, node.targs))] if node.targs else ()),
            )
        case ast.InitList():
            return ("{}", node.type.name if node.type else "", *map(shape, node.items))
        case ast.Lambda():
            return ("lambda", *(param.name for param in node.params))
        case ast.Unparsed():
            return ("?", node.text)
    raise AssertionError(node)


CASES = [
    ("(uint)(x)", ("cast", "uint", "x")),
    ("(ns::T)(x)", ("cast", "ns::T", "x")),
    ("(T *)(x)", ("cast", "T*", "x")),
    ("(uint)-x", ("cast", "uint", ("-", "x"))),
    ("(uint)&x", ("cast", "uint", ("&", "x"))),
    ("(a) - x", ("a", "-", "x")),
    ("int(x)", ("cast", "int", "x")),
    ("uint32_t(x)", ("cast", "uint32_t", "x")),
    ("half(x)", ("cast", "half", "x")),
    ("(unsigned long long)(&(A))", ("cast", "unsigned long long", ("&", "A"))),
    ("static_cast<ns::T<3>>(x)", ("cast", "ns::T<3>", "x")),
    ("reinterpret_cast<float4 *>(a)[0] = 1", ((("cast", "float4*", "a"), "[]", 0), "=", 1)),
    ("*(uint2 *)(&(v_)) = q", (("*", ("cast", "uint2*", ("&", "v_"))), "=", "q")),
    ("(f)(a, b)", ("call", "f", "a", "b")),
    ("f<a>(b)", ("call", ("f", "<>", "a"), "b")),
    ("f<int, 3, a + b>(1)", ("call", ("f", "<>", "int", 3, ("a", "+", "b")), 1)),
    ("A::c<4>(5)", ("call", ("A::c", "<>", 4), 5)),
    ("x.y<3>(z)", ("call", ("x", ".", "y"), "z", ("<>", 3))),
    ("v.template foo<3>(1)", ("call", ("v", ".", "foo"), 1, ("<>", 3))),
    ("a[i]->wait(p ^ 1)", ("call", (("a", "[]", "i"), "->", "wait"), ("p", "^", 1))),
    ("not a and b or c", ((("!", "a"), "&&", "b"), "||", "c")),
    ("a and_eq b", ("a", "&=", "b")),
    ("a bitand b", ("a", "&", "b")),
    ("(bool)1 & (x < 64)", (("cast", "bool", 1), "&", ("x", "<", 64))),
    ("a + b - c * d", (("a", "+", "b"), "-", ("c", "*", "d"))),
    ("a -1", ("a", "-", 1)),
    ("x = -1", ("x", "=", -1)),
    ("x = y = 3", ("x", "=", ("y", "=", 3))),
    ("x += 1, y--", (("x", "+=", 1), ",", ("y", "--"))),
    ("++x", ("++", "x")),
    ("a ? b : c", ("a", "?", "b", "c")),
    ("a[1][2]", (("a", "[]", 1), "[]", 2)),
    ("T{1, 2}", ("{}", "T", 1, 2)),
    ("f({1, 2})", ("call", "f", ("{}", "", 1, 2))),
    ("float4{.x = 1}", ("{}", "float4", 1)),
    ("sizeof(int)", ("sizeof", "int")),
    ("f(args...)", ("call", "f", "args")),
    ("run([&](int i) mutable { return i; })", ("call", "run", ("lambda", "i"))),
    ("({ int z = 3; z; })", ("call", ("lambda",))),
    ("this->x", ("this", "->", "x")),
    ('"a" "b\\t" "c"', ("str", "ab\tc")),
    ('R"(a"\\n)"', ("str", 'a"\\n')),
    ("1'000'000u", 1000000),
    ("0xFF", 255),
    ("0b101", 5),
    ("017", 15),
    ("'a'", 97),
    ("'\\n'", 10),
    ("'\\x41'", 65),
    ("true", 1),
    ("nullptr", 0),
    ("0x1p+0f /*1.0*/", None),
    ("1.5e3", None),
    ("new int[3]", ("?", "new int[3]")),
    ("int(&x)[3] = z", ("?", "int(&x)[3] = z")),
    ('a == "x" and b', (("a", "==", ("str", "x")), "&&", "b")),
    ("k<<<1, 2>>>(3)", ("call", "k", 3)),
]


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[text for text, _ in CASES])
def test_shape(text: str, expected: object) -> None:
    assert shape(expr(text)) == expected


@pytest.mark.parametrize(
    ("text", "unsigned", "bits"),
    [
        ("1", False, 32),
        ("1u", True, 32),
        ("0xFFFFFFFF", True, 32),
        ("4294967295", False, 64),
        ("2147483648", False, 64),
        ("1ull", True, 64),
        ("0xFFFFFFFFFF", False, 64),
        ("0xFFFFFFFFFFFFFFFF", True, 64),
    ],
)
def test_integer_types(text: str, unsigned: bool, bits: int) -> None:
    node = expr(text)
    assert isinstance(node, ast.Num)
    assert (node.unsigned, node.bits) == (unsigned, bits)


def test_a_call_of_a_parenthesised_function_of_the_file_is_a_call() -> None:
    file = parsed("__device__ int f(int x) { return x; }\n__global__ void k() { int a = (f)(1); int b = (g)(1); }")
    first, second = (statement for statement in file.functions[1].body().body)
    assert isinstance(first, ast.Decl) and isinstance(second, ast.Decl)
    assert first.items[0].init is not None and isinstance(first.items[0].init.expr, ast.Call)
    assert second.items[0].init is not None and isinstance(second.items[0].init.expr, ast.Cast)


@pytest.mark.parametrize(
    ("text", "head", "target"),
    [
        ("f(x)", "f", ""),
        ("ns::f<3, T<int>>(x)", "ns::f", ""),
        ("x.f(1)", "x.f", ""),
        ("a[i]->f(1)", "a[i]->f", ""),
        ("f(x) + 1", "", ""),
        ("[&] { return 2; }()", "", ""),
        ("x = f(1)", "", "x"),
        ("x[0] = 1", "", "x"),
        ("((uint64_t *)pool)[3] = 1", "", "pool"),
        ("*p += 1", "", "p"),
        ("a.b.c = 1", "", "a"),
        ("reinterpret_cast<float4 *>(q)[0] = v", "", "q"),
        ("x[1]++", "", "x"),
        ("--y", "", "y"),
    ],
)
def test_cheap_looks(text: str, head: str, target: str) -> None:
    (statement,) = body(text + ";")
    assert isinstance(statement, ast.ExprStmt)
    assert (statement.value.head, statement.value.target) == (head, target)
    assert statement.value.built is None


def assembly(text: str, before: str = "") -> ast.Asm:
    file = parsed(f"{before}\n__global__ void k(int *p) {{ {text}; }}")
    assert file.gaps == ()
    (statement,) = file.functions[0].body().body
    assert isinstance(statement, ast.ExprStmt) and isinstance(statement.value.expr, ast.Asm)
    return statement.value.expr


@pytest.mark.parametrize(
    ("text", "template", "outputs", "inputs", "volatile"),
    [
        ('asm volatile("bar.sync 1;" ::: "memory")', "bar.sync 1;", [], [], True),
        ('asm("mov %0, %1;" : "=r"(x) : "r"(y))', "mov %0, %1;", [("=r", "")], [("r", "")], False),
        ('asm("mov %0, 1;" : "=r"(x) : : )', "mov %0, 1;", [("=r", "")], [], False),
        ('__asm__ __volatile__("t;" :: [a] "r"(y), "n"(3))', "t;", [], [("r", "a"), ("n", "")], True),
        ('asm volatile("a.b" ".c" "\\n\\t" "d;" : : "l"(p) : )', "a.b.c\n\td;", [], [("l", "")], True),
        ('asm volatile("elect.sync %%rx|%%px, %2;")', "elect.sync %%rx|%%px, %2;", [], [], True),
        ('asm volatile(R"(x %0;\n)" :: "r"(p))', "x %0;\n", [], [("r", "")], True),
        ('asm("exit;")', "exit;", [], [], True),
    ],
)
def test_assembly(text: str, template: str, outputs: list, inputs: list, volatile: bool) -> None:
    node = assembly(text)
    assert node.template == template
    assert [(operand.constraint, operand.name) for operand in node.outputs] == outputs
    assert [(operand.constraint, operand.name) for operand in node.inputs] == inputs
    assert node.volatile is volatile


@pytest.mark.parametrize("macro", ['"mid"', '"m" "id"', "OTHER"])
@pytest.mark.parametrize(
    ("text", "template"),
    [('"a" STR "b"', "amidb"), ('STR "b"', "midb"), ('"a" STR', "amid"), ('"a" STR STR "b"', "amidmidb")],
)
def test_string_macros_among_assembly_are_resolved(text: str, template: str, macro: str) -> None:
    before = f'#define OTHER "mid"\n#define STR {macro}'
    assert assembly(f'asm volatile({text} :: "r"(1))', before).template == template


@pytest.mark.parametrize("before", ["", "#define STR(x) x", "#define STR STR", "#define STR 3"])
def test_an_unknown_macro_among_assembly_leaves_no_template(before: str) -> None:
    node = assembly('asm volatile("a" STR "b" :: "r"(p[0]))', before)
    assert node.template is None
    assert [operand.constraint for operand in node.inputs] == ["r"]


def test_expansions_get_the_given_span() -> None:
    span = Span(7, 9)
    node = parse_expression("f<3>(a + 1, [&] { g(); }, (uint)(x))", span)
    assert shape(node) == ("call", ("f", "<>", 3), ("a", "+", 1), ("lambda",), ("cast", "uint", "x"))
    statements = parse_statements("if (x) { f(1); } else T y(a * b); for (;;) break; a * b;", span)
    assert [type(statement).__name__ for statement in statements] == ["If", "For", "Decl"]
    from tests.syntax.helpers import everything

    assert {made.span for made in everything((node, *statements)) if hasattr(made, "span")} == {span}


@pytest.mark.parametrize("text", ["", "a b", "f(", "a; b", "}", ")", "int", "if (x)", "#define x", '"', "a) + (b"])
def test_text_that_is_no_expression_is_unparsed(text: str) -> None:
    node = parse_expression(text, Span(1, 2))
    assert node == ast.Unparsed(Span(1, 2), text)


@pytest.mark.parametrize("text", ["}", "f(); } g();", "} void h() {"])
def test_statements_that_leave_their_block_are_a_gap(text: str) -> None:
    statements = parse_statements(text, Span(1, 2))
    assert [type(statement) for statement in statements] == [ast.Gap]
