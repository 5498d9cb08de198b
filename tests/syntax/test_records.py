"""Members of records: bit-fields, nameless records, prototypes."""

from __future__ import annotations

from tests.syntax.helpers import parsed
from tests.syntax.test_expressions import shape
from warplint.syntax import ast


def test_nameless_bit_fields_are_members() -> None:
    (record,) = parsed(
        "struct S { uint8_t : 1, b : 3, : 2; int c : 3, : 5; uint16_t : 2; int d; long e : N; };"
    ).records
    assert [(member.name, member.type.name, member.bits) for member in record.members] == [
        ("", "uint8_t", 1),
        ("b", "uint8_t", 3),
        ("", "uint8_t", 2),
        ("c", "int", 3),
        ("", "int", 5),
        ("", "uint16_t", 2),
        ("d", "int", 0),
        ("e", "long", 0),
    ]


def test_nameless_records_are_members() -> None:
    text = (
        "union U { int a; struct { short b : 14, : 2; }; struct { int lo, hi; } ; "
        "struct N { int c; }; struct { int d; } e; };"
    )
    file = parsed(text)
    first, second, third = (text.index(f"struct {{ {word}") for word in ("short", "int lo", "int d"))
    assert [(record.name, [(m.name, m.type.name) for m in record.members]) for record in file.records] == [
        ("U", [("a", "int"), ("", f"<struct@{first}>"), ("", f"<struct@{second}>"), ("e", f"<struct@{third}>")]),
        (f"U::<struct@{first}>", [("b", "short"), ("", "short")]),
        (f"U::<struct@{second}>", [("lo", "int"), ("hi", "int")]),
        ("U::N", [("c", "int")]),
        (f"U::<struct@{third}>", [("d", "int")]),
    ]


def test_prototypes_and_static_members_are_no_data() -> None:
    file = parsed(
        "struct S { bool wait(Phase); static int f(int); S(const S &); virtual ~S(); int a[3];"
        " int (*p)(int); T *g(int); T &h(); };"
    )
    assert [member.name for member in file.records[0].members] == ["a", "p"]
    assert file.gaps == ()


def test_a_variable_of_a_nameless_record() -> None:
    file = parsed("struct { int a; } top;")
    assert file.globals[0].items[0].type.name == file.records[0].name == "<struct@0>"


def test_records_inside_functions_are_listed() -> None:
    text = "void f(struct P *p) { __shared__ union { int a; struct { char c; } in; } u; "
    text += "struct L { int b; void m() { g(); } }; L l; }"
    file = parsed(text)
    outer = f"<union@{text.index('union')}>"
    inner = f"<struct@{text.index('struct { char')}>"
    assert [(record.name, [(m.name, m.type.name) for m in record.members]) for record in file.records] == [
        (outer, [("a", "int"), ("in", inner)]),
        (f"{outer}::{inner}", [("c", "char")]),
        ("L", [("b", "int")]),
    ]
    assert [function.name for function in file.functions] == ["f", "L::m"]
    statement = file.functions[0].body().body[0]
    assert isinstance(statement, ast.Decl)
    assert (statement.items[0].type.name, statement.items[0].type.qualifiers) == (outer, {"__shared__"})


def test_member_initialisers_begin_the_body() -> None:
    file = parsed(
        "struct S : B<3>, C { int a, b[2], c, d; S(int x) : B<3>(1), C(x), a(x + 1), b{1, 2}, c{}, d() { f(); } };"
    )
    statements = file.functions[0].body().body
    assert [shape(s.value.expr) for s in statements if isinstance(s, ast.ExprStmt)] == [
        ("call", ("B", "<>", 3), 1),
        ("call", "C", "x"),
        ("a", "=", ("x", "+", 1)),
        ("b", "=", ("{}", "", 1, 2)),
        ("c", "=", ("{}", "")),
        ("d", "=", ("{}", "")),
        ("call", "f"),
    ]
