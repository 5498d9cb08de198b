"""Statements and declarations, with the grammar's traps."""

from __future__ import annotations

import pytest

from tests.syntax.helpers import body, calls, found
from tests.syntax.test_expressions import shape
from warplint.syntax import ast


def outline(statements: tuple[ast.Stmt, ...]) -> list[object]:
    """Kinds of statements, nested."""
    lines: list[object] = []
    for node in statements:
        match node:
            case ast.Block():
                lines.append(outline(node.body))
            case ast.If():
                lines.append(("if", outline(node.then.body), outline(node.orelse.body) if node.orelse else None))
            case ast.For():
                lines.append(("for", outline(node.body.body)))
            case ast.While():
                lines.append(("do" if node.after else "while", outline(node.body.body)))
            case ast.Switch():
                lines.append(("switch", *((shape(case.value), outline(case.body)) for case in node.cases)))
            case ast.ExprStmt():
                lines.append(node.value.head or type(node.value.expr).__name__)
            case ast.Decl():
                lines.append(",".join(item.name for item in node.items))
            case ast.Gap():
                lines.append(("gap", node.reason))
            case _:
                lines.append(type(node).__name__)
    return lines


CASES = [
    ("f(); g();", ["f", "g"]),
    ("{{ f(); }}", [[["f"]]]),
    ("if (a) f(); else if (b) g(); else { h(); }", [("if", ["f"], [("if", ["g"], ["h"])])]),
    ("if (a) /* x */ f(); else // y\n g();", [("if", ["f"], ["g"])]),
    ("if constexpr (N > 3) f();", [("if", ["f"], None)]),
    ("if (int z = 3; z > 2) f();", [("if", ["f"], None)]),
    ("for (int i = 0, j = 1; i < 3; ++i, ++j) f();", [("for", ["f"])]),
    ("for (i = 0; ; ) { break; }", [("for", ["Break"])]),
    ("for (auto x : list) f(x);", [("for", ["f"])]),
    ("while (1) { if (!((x < 64))) { break; } continue; }", [("while", [("if", ["Break"], None), "Continue"])]),
    ("do f(); while (x);", [("do", ["f"])]),
    (
        "switch (a) { case 1: case N: { f(); } break; default: g(); }",
        [("switch", (1, []), ("N", [["f"], "Break"]), (None, ["g"]))],
    ),
    ("[[likely]] f();", ["f"]),
    ("l1: f();", ["f"]),
    ("l1: f(); goto l1;", ["Goto", "f", "Goto"]),
    ("using X = int; struct L { int a; }; static_assert(1); ;;", []),
    ("void g(int); int h();", []),
    ("T x();", []),
    ("T *g(int); T &h(U);", []),
    ("int a; a * b;", ["a", "Binary"]),
    ("n * b;", ["Binary"]),
    ("T * b;", ["b"]),
    ("return;", ["Return"]),
    ("x;", ["Name"]),
    ("(((int)threadIdx.x) & 127);", ["Binary"]),
    ("int a = 1, *b = &a, c[3];", ["a,b,c"]),
    ("auto [i, j] = f();", ["i,j"]),
    ("try { f(); } catch (...) {}", [("gap", "try statement is not followed")]),
    ("while (int x = f()) g();", [("gap", "declaration in a loop condition")]),
    ("UNKNOWN(x) { f(); }", [("gap", "function definition is not followed")]),
    ("switch (a) { f(); case 1: g(); }", [("gap", "statements before the first case"), ("switch", (1, ["g"]))]),
]


@pytest.mark.parametrize(("text", "expected"), CASES, ids=[text for text, _ in CASES])
def test_outline(text: str, expected: list) -> None:
    assert outline(body(text)) == expected


VARIABLES = [
    ("int x;", "int", 0, (), None),
    ("int x[4] = {1, 2};", "int", 0, (4,), ("{}", "", 1, 2)),
    ("alignas(64) int x[1];", "int", 0, (1,), None),
    ("extern __shared__ uchar x[];", "uchar", 0, (None,), None),
    ("__shared__ float x[4][N + 1];", "float", 0, (4, ("N", "+", 1)), None),
    ("unsigned long long x = 1;", "unsigned long long", 0, (), 1),
    ("const volatile uint32_t *x = p;", "uint32_t", 1, (), "p"),
    ("ns::T<int, 3> x{1, 2};", "ns::T<int, 3>", 0, (), ("{}", "", 1, 2)),
    ("typename T::X x = 1;", "T::X", 0, (), 1),
    ("T x(a);", "T", 0, (), ("{}", "", "a")),
    ("T x(a * b, c);", "T", 0, (), ("{}", "", ("a", "*", "b"), "c")),
    ("T x(B());", "T", 0, (), ("{}", "", ("call", "B"))),
    ("dim3 x(f(y), 1);", "dim3", 0, (), ("{}", "", ("call", "f", "y"), 1)),
    ("unsigned x(3);", "unsigned", 0, (), ("{}", "", 3)),
    ("float x = {};", "float", 0, (), ("{}", "")),
    ("struct S x;", "S", 0, (), None),
    ("int (*x)(int);", "int", 2, (), None),
    ("half2 *x = (half2 *)q;", "half2", 1, (), ("cast", "half2*", "q")),
    ("const int (&x)[3] = z;", "int", 0, (3,), "z"),
]


@pytest.mark.parametrize(("text", "kind", "pointer", "dims", "init"), VARIABLES, ids=[case[0] for case in VARIABLES])
def test_variables(text: str, kind: str, pointer: int, dims: tuple, init: object) -> None:
    (statement,) = body(text)
    assert isinstance(statement, ast.Decl)
    (item,) = statement.items
    assert item.name == "x"
    assert (item.type.name, item.type.pointer) == (kind, pointer)
    assert tuple(map(shape, item.dims)) == dims
    assert shape(item.init.expr if item.init else None) == init


def test_type_qualifiers_are_kept() -> None:
    (first, second) = body("static constexpr const int a = 1; extern __shared__ volatile char b[];")
    assert isinstance(first, ast.Decl) and isinstance(second, ast.Decl)
    assert first.items[0].type.qualifiers == {"static", "constexpr", "const"}
    assert second.items[0].type.qualifiers == {"extern", "__shared__", "volatile"}


def test_a_structured_binding_reads_members_of_one_value() -> None:
    (statement,) = body("auto [i, j] = f(3);")
    assert isinstance(statement, ast.Decl)
    made = [shape(item.init.expr) for item in statement.items if item.init]
    assert made == [(("call", "f", 3), ".", "get<0>"), (("call", "f", 3), ".", "get<1>")]


def test_a_condition_that_declares_is_an_init_statement() -> None:
    (statement,) = body("if (auto p = f()) g();")
    assert isinstance(statement, ast.If) and isinstance(statement.init, ast.Decl)
    assert shape(statement.test.expr) == "p"


def test_a_range_loop_has_an_unknown_trip_count() -> None:
    (loop,) = body("for (auto &x : list) f(x);")
    assert isinstance(loop, ast.For) and isinstance(loop.init, ast.Decl)
    assert loop.test is not None and isinstance(loop.test.expr, ast.Unparsed)
    assert loop.init.items[0].init is not None and isinstance(loop.init.items[0].init.expr, ast.Unparsed)


def test_spans_are_those_of_the_file() -> None:
    text = "  if (a < 3) {\n    f(x + 1);\n  }"
    before = len("__global__ void k(int n, int *p) {\n")
    (statement,) = body(text)
    source = " " * before + text
    for node in found(statement, ast.Call, ast.Binary, ast.If):
        made = source[node.span.start : node.span.end]
        assert made in ("f(x + 1)", "x + 1", "a < 3", text.strip())


def test_spans_of_reparsed_pieces_are_those_of_the_file() -> None:
    text = "T x(aa * bb, cc);"
    before = len("__global__ void k(int n, int *p) {\n")
    names = found(body(text), ast.Name)
    assert [(" " * before + text)[name.span.start : name.span.end] for name in names] == ["aa", "bb", "cc"]


def test_macro_calls_stay_calls() -> None:
    assert calls(body("CHECK(x == 1); __syncthreads();")) == ["CHECK", "__syncthreads"]
