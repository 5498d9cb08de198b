"""Control flow."""

from __future__ import annotations

from warplint.program import ir


def bare(lines):
    return [line.split(" {")[0] for line in lines]


def test_for(body):
    assert body("for (int i = 0; i < n; ++i) { if (i == 2) continue; if (i == 5) break; p[i] = 0; }") == [
        "  i = 0",
        "  loop",
        "   while (i < n)",
        "    if (i == 2)",
        "      continue",
        "    if (i == 5)",
        "      break",
        "    store (p + (i * 4)) : 4 = 0",
        "   step",
        "    i = (i + 1)",
    ]


def test_endless_loops(body):
    for head in ("for (;;)", "while (1)", "while (true)"):
        assert body(head + " { if (n) break; }") == ["  loop", "   while true", "    if n", "      break"]


def test_do_while(body):
    assert body("int i = 0; do { i += 2; } while (i < n);") == [
        "  i = 0",
        "  do-loop",
        "   while (i < n)",
        "    i = (i + 2)",
    ]


def test_do_while_zero_is_a_block(body):
    assert body("do { p[0] = 1; } while (0);") == ["  store p : 4 = 1"]
    assert body("do { if (n) break; p[0] = 1; } while (0);")[0] == "  do-loop"


def test_switch(body):
    assert body("switch (n) { case 0: p[0] = 1; break; case 1: case 2: p[0] = 2; break; default: p[0] = 3; }") == [
        "  inline switch #1",
        "    if (n == 0)",
        "      store p : 4 = 1",
        "    if ((n == 1) || (n == 2))",
        "      store p : 4 = 2",
        "    if (((n != 0) && (n != 1)) && (n != 2))",
        "      store p : 4 = 3",
    ]


def test_switch_falls_through(body):
    assert body(
        "switch (n) { case 0: p[0] = 1; case 1: p[1] = 2; if (p[3]) break; p[2] = 2; break; case 4: p[0] = 4; }"
    ) == [
        "  inline switch #1",
        "    if (n == 0)",
        "      store p : 4 = 1",
        "    if ((n == 0) || (n == 1))",
        "      store (p + 4) : 4 = 2",
        "      if load((p + 12))",
        "        leave #1",
        "      store (p + 8) : 4 = 2",
        "    if (n == 4)",
        "      store p : 4 = 4",
    ]


def test_switch_on_a_variable_that_changes_inside(body):
    found = body("int v = n; switch (v) { case 0: v = 1; break; case 1: p[0] = 1; break; }")
    assert found[1] == "  switch = v"
    assert found[3] == "    if (switch == 0)"


def test_break_of_a_loop_inside_a_switch(body):
    found = body("switch (n) { case 0: for (;;) { if (p[0]) break; } break; }")
    assert found[-1].strip() == "break"


def test_continue_inside_a_switch_belongs_to_the_loop(body):
    found = body("while (n) { switch (n) { case 0: continue; case 1: break; } p[0] = 1; }")
    assert [line.strip() for line in found if "continue" in line] == ["continue"]


def test_constexpr_if_drops_the_dead_branch(low):
    text = (
        "constexpr bool kA = false;\n__global__ void k(int* p) { if constexpr (kA) { p[0] = 1; } else { p[1] = 2; } }"
    )
    assert low(text) == ["  store (p + 4) : 4 = 2"]


def test_constexpr_if_on_a_template_parameter_stays(low):
    text = "template <bool A> __global__ void k(int* p) { if constexpr (A) { p[0] = 1; } }"
    assert low(text) == ["  if ?u<template parameter `A`>", "    store p : 4 = 1"]


def test_goto_is_opaque(body):
    assert any("goto" in line and "opaque" in line for line in body("again: p[0] = 1; if (n) goto again;"))


def test_statement_expression(body):
    assert bare(body("int v = ({ __syncwarp(); n + 1; });"))[-1] == "  v = lambda result"


def test_condition_text_is_as_written():
    from tests.program.build import module

    kernel = module("__global__ void k(int* p) {\n  if ((((int)threadIdx.x) % 32) == 0) p[0] = 1; }").kernels[0]
    first = kernel.body.body[0]
    assert isinstance(first, ir.If)
    assert first.text == "(((int)threadIdx.x) % 32) == 0"


def test_deep_nesting_ends(body):
    deep = "if (n) {" * 400 + "p[0] = 1;" + "}" * 400
    assert body(deep)
    assert body("p[0] = " + "(" * 3000 + "n" + ")" * 3000 + ";")
    assert body("p[0] = " + "n + " * 5000 + "1;")


def test_helpers_that_double_end():
    from tests.program.build import module

    chain = "__device__ void f0() { __syncthreads(); }\n" + "".join(
        f"__device__ void f{i}() {{ f{i - 1}(); f{i - 1}(); }}\n" for i in range(1, 22)
    )
    kernel = module(chain + "__global__ void k() { f21(); }").kernels[0]
    from warplint.program import ir

    assert any(isinstance(item, ir.Opaque) for item in ir.walk(kernel.body))
