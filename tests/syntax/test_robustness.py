"""Any bytes: no exception, bounded time, and what cannot be read is said."""

from __future__ import annotations

import inspect
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.syntax.helpers import calls, everything, found, parsed
from warplint.source import Span
from warplint.syntax import ast, parse_expression, parse_statements
from warplint.syntax.mask import mask
from warplint.syntax.nodes import MAX_DEPTH

KERNEL = """\
#include <cuda.h>
#define WAIT(bar) \\
  wait_on(bar)
struct __align__(8) Pair { half x; half y; constexpr operator uint64_t() const noexcept { return 0; } };
static __device__ __forceinline__ unsigned smem_u32(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void arrive(unsigned bar) {
  asm volatile("mbarrier.arrive" ".shared.b64 _, [%0];\\n" :: "r"(bar) : "memory");
}
#if __CUDA_ARCH__ >= 900
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(256, 1)
kernel(const __grid_constant__ CUtensorMap map, float *__restrict__ out, int tiles) {
  extern __shared__ __align__(1024) uchar pool[];
  int warp = __shfl_sync(0xffffffffu, (((int)threadIdx.x) >> 5), 0, 32); /* "uniform" */
  alignas(64) int stage[1];
  stage[0] = 0;
  if (warp == 0) {
    #pragma unroll 1
    for (int k = 0; k < tiles; ++k) {
      arrive(smem_u32(&(((uint64_t *)pool)[stage[0] + 1])));
      if (stage[0] == 2) { stage[0] = 0; } else { stage[0] = (stage[0] + 1); }
    }
  } else if ((warp & 3) == 1) {
    while (1) { if (!(stage[0] < 64)) { break; } WAIT(stage[0]); }
    switch (warp) { case 1: arrive(1u); break; default: out[0] = 1'000.f; }
  } else {
    auto f = [&](int i) { return i ? 'a' : '\\''; };
    float4 v{1, 2, 3, 4};
    do { f(1); } while (v.x > 3);
  }
  __syncthreads();
  out[threadIdx.x] = R"(text " )"[0];
}
#else
#error too old
#endif
void host(dim3 grid) { kernel<<<grid, 256, 1024>>>(map, out, 4); }
"""


def test_the_kernel_itself_is_read_whole() -> None:
    file = parsed(KERNEL)
    assert file.gaps == ()
    assert not found(file, ast.Gap, ast.Unparsed)
    assert [launch.kernel for launch in file.launches] == ["kernel"]


def test_truncated_at_every_byte() -> None:
    data = KERNEL.encode()
    start, end = KERNEL.index("extern __shared__"), KERNEL.index("#else\n#error")
    lost = []
    for size in range(len(data)):
        file = parsed(data[:size])
        nodes = list(everything(file))
        if start < size < end - 2:
            whole = any(function.name == "kernel" for function in file.functions)
            assert whole or any(gap.reason for gap in file.gaps), size
            assert file.gaps, size  # half a kernel is never passed over in silence
            if not whole:
                lost.append(size)
        assert all(0 <= node.span.start <= node.span.end for node in nodes if hasattr(node, "span"))
    # Most cuts still leave the kernel: only those inside parentheses or literals may cost it.
    assert len(lost) < (end - start) * 0.6


@pytest.mark.parametrize("size", range(0, len(KERNEL), 37))
def test_one_byte_replaced(size: int) -> None:
    data = KERNEL.encode()
    for byte in b"\0\"'{}()#\\/\xff":
        list(everything(parsed(data[:size] + bytes([byte]) + data[size + 1 :])))


PIECES = [
    b"{", b"}", b"(", b")", b"[", b"]", b"<", b">", b'"', b"'", b"\\", b"\n", b"\r", b"\x00", b"#if ",
    b"#else\n", b"#endif\n", b"#define X ", b"/*", b"*/", b"//", b'R"(', b')"', b"__global__ void k(",
    b"if (x) ", b"else ", b"for (;;) ", b"while (1) ", b"asm(", b"__attribute__((", b"__launch_bounds__(",
    b"CUTE_UNROLL ", b"FOO(x)\n ", b"template <", b"struct S ", b"x = ", b"f(", b"<<<", b">>>", b";", b",",
    b"a", b" ", b"1", b"typename T::X{", b"namespace n ", b"case 1: ", b"switch (a) ", b"[&](int i) ",
    b"operator ", b"__builtin_bit_cast(int, ", b": 3, : 2;", b"\xff", b"\xe9", b"enum E ", b"using X = ",
    b"cudaLaunchKernelEx(&c, ", b"goto a; ", b"a: ", b"do ", b"return ", b"? ", b": ", b'extern "C" ',
    b"HIP_DYNAMIC_SHARED(",
]  # fmt: skip


@settings(max_examples=250, deadline=None, derandomize=True)
@given(st.one_of(st.binary(max_size=200), st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join)))
def test_random_bytes(data: bytes) -> None:
    masked = mask(data)
    assert len(masked.text) == len(masked.code) == len(data)
    file = parsed(data)
    list(everything(file))
    assert file == parsed(data) or not file.functions  # bodies are compared by identity


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.sampled_from(PIECES), max_size=20).map(b"".join))
def test_random_expansions(data: bytes) -> None:
    text = data.decode("latin-1")
    list(everything(parse_expression(text, Span(0, 1))))
    list(everything(parse_statements(text, Span(0, 1))))


DEEP = 5000
NESTED = {
    "parentheses": "int y = " + "(-" * DEEP + "x" + ")" * DEEP + ";",
    "braces": "{" * DEEP + "x = 1;" + "}" * DEEP,
    "ifs in braces": "if (x) {" * DEEP + "x = 1;" + "}" * DEEP,
    "ifs": "if (x) " * DEEP + "x = 1;",
    "else ifs": "if (x) x = 1; else " * DEEP + "x = 1;",
    "loops": "for (;;) " * DEEP + "x = 1;",
    "switches": "switch (x) { case 1: " * DEEP + "}" * DEEP,
    "sums": "y = x" + " + x" * DEEP + ";",
    "assignments": "y = x" + " = x" * DEEP + ";",
    "signs": "y = " + "- " * DEEP + "x;",
    "subscripts": "y = x" + "[1]" * DEEP + ";",
    "calls of calls": "y = x" + "(1)" * DEEP + ";",
    "calls in calls": "y = " + "f(" * DEEP + "1" + ")" * DEEP + ";",
    "conditionals": "y = " + "x ? 1 : " * DEEP + "1;",
    "braced lists": "int y = " + "{" * DEEP + "1" + "}" * DEEP + ";",
    "template arguments": "A<" * DEEP + "int" + ">" * DEEP + " y;",
    "labels": "".join(f"l{i}: " for i in range(DEEP)) + "goto l1;",
}


@pytest.mark.parametrize("text", NESTED.values(), ids=NESTED.keys())
def test_deep_nesting_is_bounded_and_said(text: str) -> None:
    file = parsed("__global__ void k(int x) {\n" + text + "\n__syncthreads(); }")
    nodes = list(everything(file))
    said = [node for node in nodes if isinstance(node, ast.Gap | ast.Unparsed)]
    assert any("nested deeper than" in (node.reason if isinstance(node, ast.Gap) else node.text) for node in said)
    assert calls(file.functions[0].body())[-1] == "__syncthreads"


@pytest.mark.parametrize(
    "text",
    ["namespace a { " * DEEP + "__global__ void k() {}" + "}" * DEEP, "struct a { " * DEEP + "int x;" + "};" * DEEP],
    ids=["namespaces", "records"],
)
def test_deep_scopes_are_bounded_and_said(text: str) -> None:
    assert any("nested deeper than" in gap.reason for gap in parsed(text).gaps)


def test_any_number_of_parentheses_is_one_level() -> None:
    file = parsed("__global__ void k(int x) { y = " + "(" * DEEP + "x" + ")" * DEEP + "; }")
    (statement,) = file.functions[0].body().body
    assert isinstance(statement, ast.ExprStmt) and isinstance(statement.value.expr, ast.Assign)
    assert isinstance(statement.value.expr.value, ast.Name)


def test_building_takes_few_frames() -> None:
    """Others call us from deep inside their own recursion."""
    text = "{" * 50 + "f(" * 60 + "[&] { " * 20 + "g();" + " }" * 20 + ")" * 60 + ";" + "}" * 50
    file = parsed("__global__ void k(int x) { " + text + " h(" + "f(" * DEEP + ")" * DEEP + "); }")
    limit = sys.getrecursionlimit()
    frames = len(inspect.stack())
    sys.setrecursionlimit(frames + 550)
    try:
        list(everything(file))
    finally:
        sys.setrecursionlimit(limit)


def test_deep_braces_are_a_gap_of_the_file() -> None:
    text = "__global__ void k() { " + "{" * MAX_DEPTH + "f();" + "}" * MAX_DEPTH + "}"
    assert [gap.reason for gap in parsed(text).gaps] == [f"nested deeper than {MAX_DEPTH}"]


HOSTILE = {
    "attributes": "__attribute__(" * 20000,
    "launches": "k<<<" * 20000,
    "capitals": "FOO " * 40000,
    "one long capital": "A" * 300000,
    "one long name": "void f() { " + "a" * 300000 + " }",
    "quotes": '"' * 40001,
    "escaped quotes": '"\\' * 40000,
    "raw strings": 'R"(' * 20000,
    "comments": "/*" * 40000,
    "directives": "#if 1\n" * 20000,
    "comments in a directive": "#define X " + "/*" * 40000,
    "parentheses in a condition": "#if " + "(" * 20000 + "\n#endif",
    "doubling macros": "".join(f"#define A{i} A{i + 1} + A{i + 1}\n" for i in range(60)) + "#if A0\n#endif",
    "endless macro": "#define A A\n#if A\n#endif\n#pragma unroll A\n",
    "typenames": "typename A<a>::b" + "<a>::b" * 20000,
    "angles": "f<(a>(b" * 20000,
    "string macros": 'void k() { asm("x" ' + 'STR "x" ' * 10000 + "); }",
    "endless string macro": '#define STR STR\nvoid k() { asm("x" STR "y"); }',
    "mutual string macros": '#define P Q "q"\n#define Q P "p"\nvoid k() { asm("x" P "y"); }',
    "blanks": "FOO" + " " * 300000 + "(x)",
    "bit-fields": "struct S { " + "int : 1, " * 20000,
    "functions": "void f() {} " * 5000,
    "skipped branches": "#if 0\n#endif\n" * 10000 + 'asm("a" B "c");' * 100,
    "qualifier macros": "".join(f"#define M{i} __device__\n" for i in range(2000)) + "M1 void f() {}",
    "launch names": "void h() { " + "x = 1; " * 2000 + "x<<<1, 1>>>(); " * 900 + "}\n__global__ void k() {}",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_costs_little(text: str) -> None:
    start = time.process_time()
    file = parsed(text)
    for function in file.functions:
        list(everything(function))
        len(function.text_mentions)
    # Each takes well under a second; anything quadratic takes minutes.
    assert time.process_time() - start < 10


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"#", b"\\", b"\n" * 10])
def test_tiny_files(data: bytes) -> None:
    list(everything(parsed(data)))


def test_bytes_that_are_not_utf8() -> None:
    file = parsed(b'// \xe9t\xe9\n__global__ void k() { f("\xe9"); int \xe9 = 1; g(); }')
    assert calls(file.functions[0].body()) == ["f", "g"]


def test_nul_bytes_hide_nothing() -> None:
    file = parsed(b"__global__ void k() { f();\0 g(); }\n\0__global__ void l() { h(); }")
    assert [calls(function.body()) for function in file.functions] == [["f", "g"], ["h"]]


def test_broken_code_is_a_gap_and_the_rest_goes_on() -> None:
    text = "__global__ void a() { f(); }\nint @@@ broken;\n__global__ void b() { g(); int x = ; $$$ h(1, ; i(); }"
    file = parsed(text)
    assert [function.name for function in file.functions] == ["a", "b"]
    assert calls(file.functions[0].body()) == ["f"]
    assert "g" in calls(file.functions[1].body())
    assert all(text[gap.span.start : gap.span.end].strip() for gap in file.gaps)
    kernel = file.functions[1].span
    assert any(kernel.start <= gap.span.start and gap.span.end <= kernel.end for gap in file.gaps)
    assert any(gap.span.end <= kernel.start for gap in file.gaps)


@pytest.mark.parametrize(
    "text",
    [
        "f(1 g(); h();",
        "if (x f();",
        "for (int i = 0; i < 3 f();",
        "x = { 1, 2;",
        'asm volatile("a" : MAC(1), "r"(b)); f();',
    ],
)
def test_broken_statements_are_never_silent(text: str) -> None:
    file = parsed("__global__ void k(int x) { before(); " + text + " }")
    assert file.gaps
    kernels = [function for function in file.functions if function.name == "k"]
    assert (
        not kernels
        or found(kernels[0].body(), ast.Gap, ast.Unparsed)
        or all(kernels[0].span.start <= gap.span.start for gap in file.gaps)
    )


@pytest.mark.parametrize("text", ["MACRO(x)\n f();", "f(); MACRO(x)\nfor (;;) g();", "f(); CHECK(1) }\nvoid l() { "])
def test_a_macro_without_a_semicolon_is_no_gap(text: str) -> None:
    file = parsed("__global__ void k() { " + text + " }")
    assert file.gaps == ()
    assert "f" in calls(file.functions[0].body())
    assert not found(file, ast.Gap, ast.Unparsed)


@pytest.mark.parametrize(
    "text", ["f()", "x = 1\n f();", "if (x) f() else g();", "int x = 1\n f();", "if (x) return else f();", "return\n x"]
)
def test_a_missing_semicolon_is_said(text: str) -> None:
    source = "__global__ void k(int x) { " + text + " }"
    file = parsed(source)
    assert file.gaps
    kernels = [function for function in file.functions if function.name == "k"]
    assert kernels or "k(int x)" in source[file.gaps[0].span.start : file.gaps[0].span.end]


def test_a_file_cut_off_keeps_its_kernel_and_says_so() -> None:
    file = parsed("__global__ void k() { f(); if (x) { g();")
    assert [function.name for function in file.functions] == ["k"]
    assert calls(file.functions[0].body()) == ["f", "g"]
    assert [gap.reason for gap in file.gaps] == ["2 brace(s) not closed at the end of the file"]
    assert file.functions[0].span.end <= len("__global__ void k() { f(); if (x) { g();")
