"""Every construct that the grammar cannot read: after masking it leaves no gap, and nothing behind it is lost."""

from __future__ import annotations

import pytest

from tests.syntax.helpers import body, calls, found, parsed
from warplint.syntax import ast
from warplint.syntax.mask import mask

# One snippet per line of the table of known grammar damage; each calls `here()` where structure would get lost.
CONSTRUCTS = {
    "qualifier macro": "CUTE_DEVICE void k(int a) { here(); }",
    "qualifier macro in a template": "template <int N> CUTLASS_HOST_DEVICE static constexpr auto k() { here(); }",
    "qualifier macro on a method": "struct S { TL_DEVICE void k() { here(); } };",
    "unknown qualifier macro": "FOO_INTERNAL void k(int a) { here(); }",
    "unknown qualifier before a named type": "QUX ns::T<int> k(int a) { here(); }",
    "_CCCL macro": "_CCCL_HIDE_FROM_ABI _CCCL_DEVICE void k() { here(); }",
    "loop macro": "void k() { CUTE_UNROLL for (int i = 0; i < 4; ++i) { here(); } }",
    "loop macro after a condition": "void k() { if (x) CUTE_UNROLL\n for (;;) { here(); } }",
    "loop macro with a number": "void k() { UNROLL_N(4) for (;;) { here(); } }",
    "no-unroll macro": "void k() { CUTLASS_PRAGMA_NO_UNROLL\n for (;;) { here(); } }",
    "__align__ on a variable": "void k() { __shared__ __align__(16) float x[128]; here(); }",
    "__align__ on dynamic shared memory": "void k() { extern __shared__ __align__(1024) uchar b[]; here(); }",
    "__align__ on a struct": "struct __align__(8) S { int a; void k() { here(); } };",
    "CUTE_ALIGNAS": "struct CUTE_ALIGNAS(16) S { int a; void k() { here(); } };",
    "__cluster_dims__": "__global__ void __cluster_dims__(2, 1, 1) k(int a) { here(); }",
    "__maxnreg__": "__global__ __maxnreg__(93) void k() { here(); }",
    "__block_size__": 'extern "C" __global__ void __block_size__((192, 1, 1), (2, 1, 1)) k(int a) { here(); }',
    "__launch_bounds__ with three arguments": "__global__ void __launch_bounds__(256, 1, 2) k() { here(); }",
    "__launch_bounds__ with a comparison": "__global__ void __launch_bounds__((N < 2 ? 3 : f(4))) k() { here(); }",
    "__launch_bounds__ in front": "__launch_bounds__(32) __global__ void k() { here(); }",
    "__launch_bounds__ before void": "__global__ __launch_bounds__(32) void k() { here(); }",
    "typename value": "void k() { f(typename X{}); here(); }",
    "typename in decltype": "void k() { int a = decltype(f(typename X::Y<3>{}))::value; here(); }",
    "typename call": "void k() { g(typename T::U(3)); here(); }",
    "lambda qualifier": "void k() { auto f = [=] __device__(int i) { here(); }; }",
    "lambda with two qualifiers": "void k() { run(n, [=] __host__ __device__(int i) { here(); }); }",
    "lambda attribute": "void k() { h([&](auto i) __attribute__((always_inline)) { here(); }); }",
    "attribute on a variable": "void k() { int a __attribute__((aligned(16))); here(); }",
    "attribute on a type": "using v4 = float __attribute__((ext_vector_type(4)));\nvoid k() { here(); }",
    "address space": "void k() { __attribute__((address_space(3))) int *p = q; here(); }",
    "AMD attribute": "__attribute__((amdgpu_flat_work_group_size(1, 256))) __global__ void k() { here(); }",
    "__declspec": "__declspec(noinline) void k() { here(); }",
    "bit cast": "void k() { int a = __builtin_bit_cast(int, x); float b = __builtin_bit_cast(float,y); here(); }",
    "#if around half a signature": "void k(\n#ifdef A\n int a) {\n#else\n int b) {\n#endif\n here(); }",
    "#if around half a statement": "void k() {\n#if defined(X) and X\n if (a) {\n#else\n {\n#endif\n here(); } }",
    "#if inside an argument list": "void k() { f(1,\n#if A\n 2\n#else\n 3\n#endif\n ); here(); }",
    "call operator specialisation": "struct S { template <> void operator()<A, B>(int x) { here(); } };",
    "conversion operator": "struct S { constexpr operator int() const noexcept { return a; } void k() { here(); } };",
    "unnamed bit-fields": "struct S { uint8_t : 1, b : 3, : 2; int c : 3, : 5; uint16_t : 2; void k() { here(); } };",
    "asm with a string macro": 'void k() { asm volatile("a" STR ".b" :: "r"(x) : "memory"); here(); }',
    "_Pragma": 'void k() { _Pragma("unroll") for (;;) here(); }',
    "macro without a semicolon": "void k() { CUTE_STATIC_ASSERT_V(x == y)\n  here(); }",
    "HIP_DYNAMIC_SHARED": "void k() { HIP_DYNAMIC_SHARED(float, p)\n here(); }",
    "own qualifier macro": "#define dev_fn __device__ __forceinline__\ndev_fn int k() { here(); return 1; }",
    "own loop macro": '#define my_unroll _Pragma("unroll 2")\nvoid k() { my_unroll for (;;) here(); }',
    "byte order mark": "\ufeffvoid k() { here(); }",
    "double braces": "void k() {{ here(); }}",
    "form feed": "\fvoid k()\f{ here(); }",
}


@pytest.mark.parametrize("text", CONSTRUCTS.values(), ids=CONSTRUCTS.keys())
@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_a_construct_leaves_no_gap_and_loses_nothing(text: str, newline: str) -> None:
    file = parsed(text.replace("\n", newline))
    assert file.gaps == ()
    assert [name for function in file.functions for name in calls(function.body()) if name == "here"] == ["here"]
    assert not found(tuple(function.body() for function in file.functions), ast.Gap, ast.Unparsed)


@pytest.mark.parametrize("text", CONSTRUCTS.values(), ids=CONSTRUCTS.keys())
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"], ids=["lf", "crlf", "cr"])
def test_masking_keeps_length_and_line_ends(text: str, newline: str) -> None:
    data = text.replace("\n", newline).encode()
    masked = mask(data)
    for made in (masked.text, masked.code):
        assert len(made) == len(data)
        assert [at for at, byte in enumerate(made) if byte in b"\r\n"] == [
            at for at, byte in enumerate(data) if byte in b"\r\n"
        ]


def test_nothing_is_masked_inside_strings_and_comments() -> None:
    text = (
        'void k() { puts("__align__(8) CUTE_UNROLL for // x /* y"); '
        'puts(R"q(__launch_bounds__(1) " )" #if 0)q"); c = \'"\'; }'
    )
    masked = mask(text.encode())
    assert masked.text.decode() == text
    assert masked.marks == ()


def test_comments_and_directives_hide_code() -> None:
    masked = mask(b"/* __align__(8) */ // __launch_bounds__(3)\n#define A __align__(4)\nint x; // it's\nint y;")
    assert masked.marks == ()
    assert masked.text.split() == [b"int", b"x;", b"int", b"y;"]


def test_digit_separators_open_no_character_literal() -> None:
    assert calls(body("int a = 1'000'000; f(); int b = 0xFF'FFu; g();")) == ["f", "g"]


@pytest.mark.parametrize(
    ("text", "factor"),
    [
        ("#pragma unroll\n", -1),
        ("#pragma unroll 4\n", 4),
        ("#pragma unroll(8)\n", 8),
        ("#pragma unroll 1\n// words\n/* more */\n", 1),
        ("#pragma nounroll\n", 1),
        ("#define DEPTH 3\n#pragma unroll DEPTH\n", 3),
        ("#pragma unroll UNKNOWN\n", -1),
        ("#pragma unroll 2\n#pragma diag_suppress 1\n", 2),
        ('_Pragma("unroll 6") ', 6),
        ("CUTE_UNROLL\n", -1),
        ("CUTLASS_PRAGMA_NO_UNROLL ", 1),
        ("UNROLL_N(5) ", 5),
        ("", 0),
        ("#pragma once\n", 0),
    ],
)
def test_unroll_pragmas_reach_their_loop(text: str, factor: int) -> None:
    loops = found(body(f"for (;;) f();\n{text}for (;;) g();\nfor (;;) h();"), ast.For)
    assert [loop.unroll for loop in loops] == [0, factor, 0]


def test_attributes_are_read_before_they_are_blanked() -> None:
    file = parsed(
        "__global__ void __cluster_dims__(2, C, 1) __launch_bounds__(256, 1, 2) a(int x) {}\n"
        "void plain() {}\n"
        'extern "C" __global__ void __block_size__((192, 1, 1), (2, 1, 1)) __maxnreg__(93) b(int x) {}\n'
        "#define BOUNDS __launch_bounds__(64 * 2)\n"
        "template <int N> __global__ void BOUNDS c() {}\n"
        "__attribute__((amdgpu_waves_per_eu(2))) __global__ void __attribute__((reqd_work_group_size(64, 1, 1))) d() {}"
    )
    functions = {function.name: function.attributes for function in file.functions}
    assert [arg.value for arg in functions["a"].launch_bounds if isinstance(arg, ast.Num)] == [256, 1, 2]
    first, second, third = functions["a"].cluster_dims
    assert (first, second, third) == (
        ast.Num(first.span, 2),
        ast.Name(first.span, "C"),
        ast.Num(first.span, 1),
    )
    assert functions["plain"] == ast.Attributes()
    assert [[arg.value for arg in group if isinstance(arg, ast.Num)] for group in functions["b"].block_size] == [
        [192, 1, 1],
        [2, 1, 1],
    ]
    assert [arg.value for arg in functions["b"].maxnreg if isinstance(arg, ast.Num)] == [93]
    (bound,) = functions["c"].launch_bounds
    assert isinstance(bound, ast.Binary) and bound.op == "*"
    assert functions["d"].waves == ("amdgpu_waves_per_eu(2)", "reqd_work_group_size(64, 1, 1)")
    kernels = [function.name for function in file.functions if "__global__" in function.specifiers]
    assert kernels == ["a", "b", "c", "d"]


def test_alignment_is_read_before_it_is_blanked() -> None:
    statements = body(
        "__shared__ __align__(16) float a[8]; extern __shared__ __align__(1024) char b[]; alignas(64) int c[1];\n"
        "int d; CUTE_ALIGNAS(32) int e; int f __attribute__((aligned(8)));"
    )
    items = {item.name: item.alignment for decl in found(statements, ast.Decl) for item in decl.items}
    assert items == {"a": 16, "b": 1024, "c": 64, "d": 0, "e": 32, "f": 8}
    records = parsed("struct __align__(8) A { int x; }; struct alignas(16) B { int x; }; struct C { int x; };").records
    assert [(record.name, record.alignment) for record in records] == [("A", 8), ("B", 16), ("C", 0)]


def test_qualifier_macros_say_what_they_stand_for() -> None:
    file = parsed("CUTE_HOST_DEVICE void a() {}\nCUTLASS_DEVICE void b() {}\nCUTLASS_GLOBAL void c() {}\nvoid d() {}")
    assert {function.name: function.specifiers for function in file.functions} == {
        "a": {"__host__", "__device__"},
        "b": {"__device__"},
        "c": {"__global__"},
        "d": set(),
    }


def test_a_capital_name_that_is_a_type_is_no_macro() -> None:
    (first, second, third) = body("TYPE x = f(); DTYPE *y = &x; VALUE z[4];")
    assert [item.type.name for s in (first, second, third) if isinstance(s, ast.Decl) for item in s.items] == [
        "TYPE",
        "DTYPE",
        "VALUE",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "TYPE const x = f();",
        "TYPE const *x = f();",
        "TYPE volatile x = 3;",
        "TYPE half = 3;",
        "TYPE x(3);",
        "TYPE x{3};",
        "TYPE<3> x;",
        "TYPE::U x;",
        "a = IS_HOST and b;",
        "return ON_DEVICE or c;",
        "LIMIT * x;",
    ],
)
def test_capitals_that_stand_for_values_and_types_stay(text: str) -> None:
    data = ("void k() { " + text + " }").encode()
    assert mask(data).text == data


def test_capitals_that_return_types_stay() -> None:
    file = parsed(
        "struct S { HALF2 operator+(int x) { return y; } TYPE get() { return z; } TYPE const &ref() { return z; } };"
    )
    assert [(function.name, function.result.name) for function in file.functions] == [
        ("S::operator+", "HALF2"),
        ("S::get", "TYPE"),
        ("S::ref", "TYPE"),
    ]
