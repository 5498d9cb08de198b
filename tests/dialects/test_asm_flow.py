# ruff: noqa: E501 (texts read better on one line)
"""Registers, predicates, branches and loops inside inline assembly."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.dialects.build import one, operands, result, show
from warplint.dialects.ptx_values import MAX_NODES, size
from warplint.syntax import ast

WAIT = "mbarrier.try_wait.parity.shared::cta.b64 P, [%0], %1;"


def outputs(template: str, outs, ins) -> dict[int, str]:
    return {index: show(value) for index, value in result(template, outs, ins).outputs.items()}


# ----------------------------------------------------------------------------------------------- identities
@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("mov.u32 %0, %1;", "a"),
        ("cvta.to.shared.u64 %0, %1;", "a"),
        ("{.reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t;}", "a"),
        ("mov.u32 %0, %%laneid;", "%laneid"),
        ("mov.u32 %0, %cluster_ctarank;", "%cluster_ctarank"),
        ("mov.u32 %0, %%tid.x;", "%tid.x"),
        ("mov.u32 %0, WARP_SZ;", "32"),
        ("{.reg .b32 t; mov.u32 t, %%tid.x; shr.u32 %0, t, 5;}", "(cast %tid.x >> 5)"),
        ("add.u32 %0, %1, 8;", "(cast a + 8)"),
        ("{.reg .pred p; setp.eq.s32 p, %1, 3; selp.b32 %0, 1, 0, p;}", "(a == 3)"),
        ("{.reg .pred p; setp.eq.s32 p, %1, 3; selp.b32 %0, 0, 1, p;}", "(a != 3)"),
        ("{.reg .pred p; setp.lt.u32 p, %1, 3; selp.b32 %0, 7, 9, p;}", "((cast a < cast 3) ? 7 : 9)"),
        ("mapa.shared::cluster.u32 %0, %1, 2;", "<0.value>"),
    ],
)
def test_output_value(template: str, value: str) -> None:
    assert outputs(template, ["d"], ["a"]) == {0: value}


@pytest.mark.parametrize(
    "template",
    [
        "mov.u32 %0, undefined_register;",
        "{.reg .b32 t; add.u32 %0, %1, t;}",
        "tex.1d.v4.f32.s32 {%0, _, _, _}, [%1, {%1}];",
        "{.reg .b32 t; newthing.b32 t, %1; mov.b32 %0, t;}",
    ],
)
def test_lost_values_are_unknown(template: str) -> None:
    assert result(template, ["d"], ["a"]).outputs == {}


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("mul.f32 %0, %1, %2;", "mul.f32(a, b)"),
        ("prmt.b32 %0, %1, %1, 0x5410;", "prmt.b32(a)"),
        ("mov.b64 %0, {%1, %2};", "mov.b64(a, b)"),
        ("popc.b32 %0, %2;", "popc.b32(b)"),
        ("{.reg .b32 t; mov.u32 t, %%laneid; lop3.b32 %0, t, %1, %1, 0x80;}", "lop3.b32(%laneid, a)"),
        ("{.reg .b32 t; popc.b32 t, %1; popc.b32 %0, t;}", "popc.b32(a)"),
        ("{.reg .pred p; setp.gt.f32 p, %1, %2; selp.b32 %0, 1, 0, p;}", "setp.gt.f32(a, b)"),
        ("{.reg .b32 t; ld.shared.b32 t, [%1]; popc.b32 %0, t;}", "popc.b32(<0.value>)"),
    ],
)
def test_arithmetic_that_is_not_followed_depends_on_its_inputs(template: str, value: str) -> None:
    assert outputs(template, ["d"], ["a", "b"]) == {0: value}


def test_unwritten_read_write_operands_keep_their_value() -> None:
    assert outputs("", [("+r", "x"), "y"], []) == {0: "x"}
    assert outputs("mov.u32 %1, 7;", [("+r", "x"), "y"], []) == {0: "x", 1: "7"}


def test_unpacking() -> None:
    found = outputs("mov.b64 {%0, %1}, %2;", ["lo", "hi"], ["a"])
    assert found == {0: "mov.b64(a)", 1: "mov.b64.1(a)"}


def test_named_operands() -> None:
    op = one("mbarrier.init.shared.b64 [%[bar]], %[n];", [], [("r", "b", "bar"), ("r", "c", "n")])
    assert operands(op) == "barrier=b count=c"


def test_address_offset_is_in_bytes() -> None:
    op = one("mbarrier.init.shared.b64 [%0 + 8], %1;", [], ["b", "c"])
    assert operands(op) == "barrier=(cast b + 8) count=c"


def test_address_computed_inside() -> None:
    op = one("{.reg .b32 t; add.u32 t, %0, 16; mbarrier.arrive.shared.b64 _, [t];}", [], ["b"])
    assert operands(op) == "barrier=(cast b + 16) count=1"


def test_mapa_folds_into_the_target_cta() -> None:
    text = "{.reg .b32 r; mapa.shared::cluster.u32 r, %0, %1; mbarrier.arrive.shared::cluster.b64 _, [r];}"
    op = one(text, [], ["b", "rank"])
    assert operands(op) == "barrier=b count=1 cta=rank"
    assert op.mods["remote"] is True


def test_mapa_that_leaves_is_an_operation() -> None:
    found = result("mapa.u64 %0, %1, %2;", ["d"], ["b", "rank"])
    assert [op.name for op in found.ops] == ["mapa"]
    assert operands(found.ops[0]) == "cta=rank src=b"
    assert show(found.outputs[0]) == "<0.value>"


# ---------------------------------------------------------------------------------------------------- elect
def test_elect_through_a_guarded_move() -> None:
    found = result(
        "{\n.reg .pred %%px;\n elect.sync _|%%px, %1;\n@%%px mov.s32 %0, 1;\n}\n", [("+r", "pred")], [0xFFFFFFFF]
    )
    assert [op.name for op in found.ops] == ["elect.sync"]
    assert found.ops[0].outputs == ("value",)
    assert show(found.outputs[0]) == "(<0.value> ? 1 : pred)"


def test_elect_through_selp() -> None:
    found = result("{.reg .pred p; elect.sync %0|p, %2; selp.b32 %1, 1, 0, p;}", ["lane", "pred"], ["mask"])
    assert {i: show(v) for i, v in found.outputs.items()} == {0: "<0.lane>", 1: "<0.value>"}


def test_elect_inside_guards_the_operation() -> None:
    text = "{.reg .pred p; elect.sync _|p, -1; @p mbarrier.arrive.shared.b64 _, [%0];}"
    found = result(text, [], ["b"])
    assert [op.name for op in found.ops] == ["elect.sync", "mbarrier.arrive"]
    assert show(found.ops[1].predicate) == "<0.value>"
    assert found.ops[0].predicate is None


# ----------------------------------------------------------------------------------------------- predicates
@pytest.mark.parametrize(
    ("guard", "predicate"),
    [
        ("setp.ne.b32 p, %1, 0; @p", "(x != 0)"),
        ("setp.eq.u32 p, %1, 1; @p", "(x == 1)"),
        ("setp.ne.b32 p, %1, 0; @!p", "(x == 0)"),
        ("setp.lt.s32 p, %1, 4; @p", "(x < 4)"),
        ("setp.lt.s32 p, %1, 4; @!p", "!(x < 4)"),
        (".reg .pred q; setp.ne.b32 p, %1, 0; setp.ne.b32 q, %2, 0; and.pred p, p, q; @p", "((x != 0) && (y != 0))"),
        ("setp.ne.b32 p, %1, 0; not.pred p, p; @p", "(x == 0)"),
        ("setp.gt.f32 p, %1, %2; @p", "setp.gt.f32(x, y)"),
    ],
)
def test_guard(guard: str, predicate: str) -> None:
    op = one("{.reg .pred p; " + guard + " mbarrier.arrive.shared.b64 _, [%0];}", [], ["b", "x", "y"])
    assert show(op.predicate) == predicate


def test_guarded_result() -> None:
    text = (
        "{.reg .pred P1, P2; setp.eq.u32 P2, %3, 1; @P2 mbarrier.test_wait.parity.shared::cta.b64 P1, [%1], %2;"
        " selp.b32 %0, 1, 0, P1;}"
    )
    found = result(text, ["d"], ["b", "ph", "on"])
    assert show(found.ops[0].predicate) == "(on == 1)"
    assert show(found.outputs[0]) == "<0.value>"


# ------------------------------------------------------------------------------------------------- branches
def test_forward_branch_skips() -> None:
    text = "{.reg .pred p; setp.eq.u32 p, %0, 0; @p bra SKIP; bar.sync 1, 64; SKIP: bar.sync 2, 64;}"
    found = result(text, [], ["x"])
    assert [show(op.predicate) for op in found.ops] == ["(x != 0)", "-"]


def test_both_arms() -> None:
    text = (
        "{.reg .pred p; setp.eq.u32 p, %0, 0; @p bra THEN; bar.sync 1, 64; bra END; THEN: bar.sync 2, 64; END:"
        " bar.sync 3, 64;}"
    )
    found = result(text, [], ["x"])
    assert [show(op.predicate) for op in found.ops] == ["(x != 0)", "(x == 0)", "-"]


def test_branch_out_of_the_text_is_not_understood() -> None:
    assert result("bra elsewhere;").unknown


# ---------------------------------------------------------------------------------------------- blocking waits
BLOCKING = [
    "{.reg .pred P; LAB: " + WAIT + " @P bra.uni DONE; bra.uni LAB; DONE:}",
    "{.reg .pred P; LAB: " + WAIT + " @!P bra LAB;}",
    "{.reg .pred P; LAB_%=: " + WAIT + " @P bra DONE_%=; nanosleep.u32 20; bra LAB_%=; DONE_%=:}",
    "{.reg .pred P; LAB: mbarrier.test_wait.parity.shared.b64 P, [%0], %1; @P bra DONE; bra LAB; DONE:}",
    "{.reg .pred P;\nL:\nmbarrier.try_wait.parity.shared::cta.b64 P, [%0], %1, 0x98;\n@P bra DONE;\nbra L;\nDONE:\n}",
    "{.reg .pred P; bra.uni LAB; LAB: " + WAIT + " @!P bra.uni LAB; }",
]
NOT_BLOCKING = [
    "{.reg .pred P; " + WAIT + "}",
    "{.reg .pred P; LAB: " + WAIT + " @P bra LAB;}",
    "{.reg .pred P, Q; setp.ne.b32 Q, %2, 0; LAB: " + WAIT + " @P bra DONE; @Q bra LAB; DONE:}",
    "{.reg .pred P; " + WAIT + " @P bra DONE; DONE:}",
]


@pytest.mark.parametrize("text", BLOCKING)
def test_blocking_wait(text: str) -> None:
    found = result(text, [], ["b", "ph", "n"])
    assert found.unknown == () and not found.loops
    waits = [op for op in found.ops if op.name.startswith("mbarrier.")]
    assert len(waits) == 1
    assert operands(waits[0]) == "barrier=b parity=ph"
    assert waits[0].mods.get("blocking") is True
    assert waits[0].predicate is None


@pytest.mark.parametrize("text", NOT_BLOCKING)
def test_wait_that_may_fail(text: str) -> None:
    found = result(text, [], ["b", "ph", "n"])
    waits = [op for op in found.ops if op.name.startswith("mbarrier.")]
    assert len(waits) == 1 and "blocking" not in waits[0].mods


def test_after_a_blocking_wait_everybody_goes_on() -> None:
    text = "{.reg .pred P; LAB: " + WAIT + " @P bra DONE; bra LAB; DONE: bar.sync 1, 64;}"
    found = result(text, [], ["b", "ph"])
    assert [show(op.predicate) for op in found.ops] == ["-", "-"]


def test_spin_on_a_flag() -> None:
    text = "{.reg .pred p; L: ld.acquire.gpu.global.u32 %0, [%1]; setp.ne.u32 p, %0, %2; @p bra L;}"
    found = result(text, ["d"], ["flag", "want"])
    assert found.loops
    assert found.ops[0].name == "ld.acquire" and found.ops[0].mods["blocking"] is True


def test_counted_loop_is_marked() -> None:
    text = (
        "{.reg .pred p; .reg .b32 i; mov.u32 i, 0; L: ld.acquire.gpu.global.u32 %0, [%1]; add.u32 i, i, 1;"
        " setp.lt.u32 p, i, 4; @p bra L;}"
    )
    found = result(text, ["d"], ["flag"])
    assert found.ops[0].mods.get("loop") is True and "blocking" not in found.ops[0].mods


def test_time_out_of_a_blocking_wait_is_left_out() -> None:
    text = "{.reg .pred P, T; LAB: " + WAIT + " @P bra DONE; setp.gt.u32 T, %2, 9; @T trap; bra LAB; DONE:}"
    found = result(text, [], ["b", "ph", "n"])
    assert [op.name for op in found.ops] == ["mbarrier.try_wait"]
    assert found.ops[0].mods.get("blocking") is True and not found.traps


def test_trap_under_a_condition() -> None:
    found = result("{.reg .pred p; setp.eq.u32 p, %0, 0; @p trap;}", [], ["x"])
    assert [op.name for op in found.ops] == ["thread.exit"] and found.traps
    assert show(found.ops[0].predicate) == "(x == 0)"


# ---------------------------------------------------------------------------------------------- hostile texts
@pytest.mark.parametrize(
    "text",
    [
        "{" * 5000,
        "mov.u32 %0, " + "{" * 5000,
        "add.u32 %0, %0, %0;" * 1500,
        "[" * 3000 + ";",
        "@" * 1000,
        "@p ",
        "L:" * 1000 + "bra L;" * 900,
        "".join(f"L{i}: mbarrier.try_wait.parity.shared.b64 P, [%0], 0; @!P bra L{i};" for i in range(600)),
        "!" * 2000 + "x;",
        "mbarrier.init.shared.b64 [%99999999999999999999], 1;",
        "bar.sync 99999999999999999999999999;",
        'trap; "unterminated',
        "\x00\xff\u2028;",
        "a" * 100_000,
        "/" * 50_000,
        "//x\n" * 5000,
        "/*" * 20_000,
        "L:" * 20_000,
        "s_nop " + "a[" * 30_000,
        "s_waitcnt " + "vmcnt(" * 20_000,
        ".reg " * 20_000,
        "".join(f"@p{i} bra L{i};" for i in range(900)) + "".join(f"L{i}: bar.sync 1, 32;" for i in range(900)),
        "x" * 2_000_000,
        "setp.ne.b32 p, %0, 0; " * 5000,
    ],
)
def test_hostile_text_ends(text: str) -> None:
    start = time.process_time()
    found = result(text, [("+r", "d")], ["a"])
    assert isinstance(found.ops, tuple)
    assert time.process_time() - start < 10


def test_expressions_stay_small() -> None:
    doubling = "add.u32 t, %1, %1;" + "add.u32 t, t, t;" * 40 + "mov.u32 %0, t;"
    assert size(result(doubling, ["d"], ["a"]).outputs[0]) <= MAX_NODES
    many = ", ".join(f"%{i}" for i in range(1, 200))
    assert result("mov.b64 %0, {" + many + "};", ["d"], [f"v{i}" for i in range(199)]).outputs == {}


def test_spans_are_those_of_the_statement() -> None:
    op = one("mbarrier.init.shared.b64 [%0], 3;", [], ["b"])
    count = op.operands["count"]
    assert isinstance(count, ast.Num) and (count.span.start, count.span.end) == (10, 20)


_PIECES = ["{", "}", "[", "]", "(", ")", ";", ",", "@", "!", "|", "%0", "%1", "%%p", "%[x]", "p", "_", "L:", "bra L", "+", "-", "8",
           ".reg .pred p", "mov.u32", "setp.ne.b32", "elect.sync", "mbarrier.try_wait.parity.shared.b64", "bar.sync", "s_barrier",
           "s_waitcnt vmcnt(0)", "\n", " ", "//", "/*", "*/", '"', "::", "tcgen05.mma.cta_group::%1.kind::f16"]  # fmt: skip


@given(st.lists(st.sampled_from(_PIECES), max_size=40), st.integers(0, 2), st.integers(0, 2))
def test_any_text_is_read(pieces: list[str], outs: int, ins: int) -> None:
    """Whatever the text, it is classified, the same each time, and operands are expressions."""
    text = " ".join(pieces)
    names = ["a", "b"]
    first = result(text, names[:outs], names[:ins])
    assert first == result(text, names[:outs], names[:ins])
    for op in first.ops:
        assert all(isinstance(value, ast.Expr) for value in op.operands.values())
    assert all(0 <= index < outs for index in first.outputs)
