"""Names, constants, macros, types and templates."""

from __future__ import annotations

import pytest


def test_scopes_give_symbols_of_their_own(body):
    assert body("int x = 1; { int x = 2; p[0] = x; } p[1] = x;") == [
        "  x = 1",
        "  x'2 = 2",
        "  store p : 4 = x'2",
        "  store (p + 4) : 4 = x",
    ]


def test_a_later_declaration_does_not_capture_an_earlier_use(body):
    assert body("int x = 1; { int y = x; int x = 7; p[0] = y + x; }") == [
        "  x = 1",
        "  y = x",
        "  x'2 = 7",
        "  store p : 4 = (y + x'2)",
    ]


@pytest.mark.parametrize(
    ("before", "expression", "expected"),
    [
        ("#define WARP 32\n#define TWO (2 * WARP)", "n % TWO", "(n % 64)"),
        ("#define ADD(a, b) ((a) + (b))", "ADD(n, 1 << 3)", "(n + 8)"),
        ("constexpr int kA = 4; constexpr int kB = kA * 3;", "n / kB", "(n / 12)"),
        ("const int kA = 1 << 4;", "n & (kA - 1)", "(n & 15)"),
        ("enum { A, B = 5, C };", "n + C", "(n + 6)"),
        ("enum class Role : int { Load = 2, Math };", "n == (int)Role::Math", "(n == 3)"),
        ("struct Config { static constexpr int kStages = 3; };", "n % Config::kStages", "(n % 3)"),
        ("namespace a { constexpr int k = 9; }", "n - a::k", "(n - 9)"),
        ("using index_t = unsigned long long;", "sizeof(index_t) * n", "u64((8 * u64(n)))"),
        ("struct S { char a; double b; short c[3]; };", "n + (int)sizeof(S)", "(n + 24)"),
        ("struct alignas(32) S { int a; };", "n + (int)sizeof(S)", "(n + 32)"),
    ],
)
def test_constants_fold(body, before, expression, expected):
    assert body(f"p[0] = {expression};", before)[-1].endswith(
        f" = {expected}" if "u64" not in expected else f"i32({expected})"
    )


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("(uint)(n)", "u32(n)"),
        ("(int)threadIdx.x - 1 < 0", "((i32(@tid.x) - 1) < 0)"),
        ("threadIdx.x - 1 < 0", "(u32((@tid.x - 1)) < 0)"),
        ("n < threadIdx.x", "(u32(n) < @tid.x)"),
        ("min(n, 4)", "(n min 4)"),
        ("max(0, min(n, 4))", "(0 max (n min 4))"),
        ("0x80000000 >> 31", "1"),
        ("-7 / 2", "-3"),
        ("-7 % 2", "-1"),
        ("(unsigned char)300", "44"),
        ("~0u", "4294967295"),
        ("1ull << 40", "1099511627776"),
        ("n ? 1 : 0", "(n ? 1 : 0)"),
        ("n > 0 ? 1 : 0", "(n > 0)"),
        ("(n == 3) != 0", "(n == 3)"),
        ("warpSize", "@warpsize"),
    ],
)
def test_conversions_are_explicit(body, expression, expected):
    assert body(f"auto v = {expression};") == [f"  v = {expected}"]


def test_kernel_template_parameters_are_uniform_unknowns(low):
    text = "template <int N> __global__ void k(int* p) { p[0] = N; }"
    assert low(text) == ["  store p : 4 = ?u<template parameter `N`>"]
    assert low(text, defines={"N": "7"}) == ["  store p : 4 = 7"]


def test_kernel_template_parameters_come_from_the_only_launch(low):
    text = "template <int N> __global__ void k(int* p) { p[0] = N; }\nvoid f(int* p) { k<64><<<2, 128>>>(p); }"
    assert low(text)[-1] == "  store p : 4 = 64"


def test_template_arguments_of_helpers(body):
    before = "template <int N, typename T> __device__ T scale(T x) { return x * N; }"
    assert body("p[0] = scale<3, int>(n);", before) == ["  store p : 4 = (n * 3)"]


def test_template_type_is_deduced(body):
    before = "template <typename T> __device__ int width(T x) { return sizeof(T); }"
    assert body("p[0] = width(1ull);", before) == ["  store p : 4 = 8"]
    assert body("p[0] = width(n);", before) == ["  store p : 4 = 4"]


def test_macro_with_statements(body):
    before = "#define STEP(s, ph) do { s += 1; if (s == 2) { s = 0; ph ^= 1; } } while (0)"
    assert body("int s = 0, q = 1; STEP(s, q);", before) == [
        "  s = 0",
        "  q = 1",
        "  s = (s + 1)",
        "  if (s == 2)",
        "    s = 0",
        "    q = (q ^ 1)",
    ]


def test_macro_that_calls_itself_ends(body):
    assert body("p[0] = LOOP(n);", "#define LOOP(x) LOOP(x + 1)")


def test_one_element_arrays_are_scalars(body):
    assert body("alignas(64) int phase_ptr[1]; phase_ptr[0] = 0; phase_ptr[0] = (phase_ptr[0] ^ 1);") == [
        "  phase_ptr = 0",
        "  phase_ptr = (phase_ptr ^ 1)",
    ]


def test_arrays_keep_their_index(body):
    assert body("int a[4]; a[n & 3] = 5; p[0] = a[2];") == ["  a[(n & 3)] = 5", "  store p : 4 = a[2]"]


def test_two_dimensional_arrays_are_linear(body):
    assert body("int a[2][3]; a[1][n] = 5;") == ["  a[(3 + n)] = 5"]


def test_brace_initialised_array(body):
    assert body("int a[3] = {4, n}; p[0] = a[1];") == ["  a[0] = 4", "  a[1] = n", "  a[2] = 0", "  store p : 4 = a[1]"]


def test_references_are_other_names(body):
    assert body("int x = 0; int& y = x; y = 3; p[0] = x;") == ["  x = 0", "  x = 3", "  store p : 4 = x"]


def test_a_reference_to_an_element_keeps_the_element(body):
    assert body("int a[4]; int i = 0; int& r = a[i]; i = 1; r = 9;") == [
        "  i = 0",
        "  index = i",
        "  i = 1",
        "  a[index] = 9",
    ]


def test_writes_inside_expressions(body):
    assert body("int i = 0; p[i++] = n; int j = (i += 2) + 1;") == [
        "  i = 0",
        "  value = i",
        "  i = (i + 1)",
        "  store (p + (value * 4)) : 4 = n",
        "  i = (i + 2)",
        "  j = (i + 1)",
    ]


def test_floats_are_not_integers(body):
    assert body("bool b = (float)3 / 2 > 1.4f;") == ["  b = operator>(operator/(3, 2), ?u<a floating-point literal>)"]


def test_object_macro_sees_the_names_where_it_is_used(body):
    before = "#define BAR_ADDR (base + 8)\n#define SELF SELF + SELF\n"
    assert body("int base = n; p[0] = BAR_ADDR;", before) == ["  base = n", "  store p : 4 = (base + 8)"]
    assert body("int v = SELF;", before)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("(n) + (m) * 4", "(n + (m * 4))"),
        ("(n) - (m) + 1", "((n - m) + 1)"),
        ("(n) * (m) + 1", "((n * m) + 1)"),
        ("(n) + 1", "(n + 1)"),
        ("(n) + (m) * 4 << 1", "((n + (m * 4)) << 1)"),
        ("(int) + m", "m"),
    ],
)
def test_parenthesised_variables_are_no_casts(body, expression, expected):
    assert body(f"int m = 2; int v = {expression};") == ["  m = 2", f"  v = {expected}"]


def test_constants_of_the_standard_headers_are_known(body):
    assert body("p[0] = n & INT_MAX; p[1] = UINT_MAX > 7u;") == [
        "  store p : 4 = (n & 2147483647)",
        "  store (p + 4) : 4 = 1",
    ]
