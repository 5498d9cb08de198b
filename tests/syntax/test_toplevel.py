"""Functions, records, globals, aliases, macros, includes and launches."""

from __future__ import annotations

import pytest

from tests.syntax.helpers import parsed
from tests.syntax.test_expressions import shape
from warplint.syntax import ast

FILE = """\
#include <cuda_runtime.h>
#include "mine.h"
#define SIZE 4
#define ADD(a, b) \\
  ((a) + (b))
namespace outer { namespace x::y {
  struct S : P<int>, public Q {
    int a[SIZE], *b; static constexpr int N = 4; int c = 3;
    enum { A, B = 5, C };
    static __device__ void m(int q) { f(q); }
    template <int K> void t();
    struct I { float f; };
    S() = default;
    operator bool() const { return true; }
    T operator()(int) { return 0; }
  };
  template <int K> void S::t() { g<K>(1); }
} }
enum class E : int { X, Y = 7, Z };
using U = unsigned;
typedef struct { int q; } TD;
typedef int *IP;
constexpr int G = 3, H = G + 1;
__device__ int dv;
extern "C" { void inside() {} }
extern "C" __global__ void kernel(const __grid_constant__ CUtensorMap map, float *__restrict__ out, int n = 3) { h(); }
void prototype(int);
template <typename T, int N = 3, template <class> class TT, typename... Ts, bool> __global__ void many(T a) {}
auto trailing() -> int { return 1; }
const char *const *pointers() { return 0; }
"""


@pytest.fixture(scope="module")
def file() -> ast.File:
    made = parsed(FILE)
    assert made.gaps == ()
    return made


def test_functions(file: ast.File) -> None:
    functions = {function.name: function for function in file.functions}
    assert list(functions) == [
        "outer::x::y::S::m",
        "outer::x::y::S::operator bool",
        "outer::x::y::S::operator()",
        "outer::x::y::S::t",
        "inside",
        "kernel",
        "many",
        "trailing",
        "pointers",
    ]
    assert functions["outer::x::y::S::m"].record == functions["outer::x::y::S::t"].record == "outer::x::y::S"
    assert functions["outer::x::y::S::m"].specifiers == {"static", "__device__"}
    assert functions["outer::x::y::S::t"].template == ("K",)
    assert functions["many"].template == ("T", "N", "TT", "Ts", "")
    assert functions["trailing"].result.name == "int"
    assert (functions["pointers"].result.name, functions["pointers"].result.pointer) == ("char", 2)
    kernel = functions["kernel"]
    assert kernel.specifiers == {"extern", "__global__"}
    assert [(p.name, p.type.name, p.type.pointer) for p in kernel.params] == [
        ("map", "CUtensorMap", 0),
        ("out", "float", 1),
        ("n", "int", 0),
    ]
    assert kernel.params[0].type.qualifiers == {"const", "__grid_constant__"}
    assert kernel.params[2].default is not None and shape(kernel.params[2].default.expr) == 3
    assert FILE[kernel.span.start :].startswith('extern "C" __global__') and FILE[: kernel.span.end].endswith("h(); }")
    assert FILE[kernel.name_span.start : kernel.name_span.end] == "kernel"
    assert FILE[functions["many"].span.start :].startswith("template <typename T")


def test_records(file: ast.File) -> None:
    records = {record.name: record for record in file.records}
    assert list(records) == ["outer::x::y::S", "outer::x::y::S::I", "TD"]
    outer = records["outer::x::y::S"]
    assert [(m.name, m.type.pointer) for m in outer.members] == [("a", 0), ("b", 1), ("N", 0), ("c", 0)]
    assert outer.bases == ("P<int>", "Q")
    assert shape(outer.members[3].init.expr if outer.members[3].init else None) == 3


def test_globals(file: ast.File) -> None:
    values = {item.name: shape(item.init.expr) if item.init else None for decl in file.globals for item in decl.items}
    assert values == {
        "outer::x::y::S::N": 4,
        "A": 0,
        "B": 5,
        "C": ("B", "+", 1),
        "E::X": 0,
        "E::Y": 7,
        "E::Z": ("E::Y", "+", 1),
        "G": 3,
        "H": ("G", "+", 1),
        "dv": None,
    }


def test_macros_includes_and_aliases(file: ast.File) -> None:
    assert [(m.name, m.params, m.body) for m in file.macros] == [
        ("SIZE", None, "4"),
        ("ADD", ("a", "b"), "((a) + (b))"),
    ]
    assert file.includes == ("cuda_runtime.h", "mine.h")
    assert [(name, kind.name, kind.pointer) for name, kind in file.aliases] == [("U", "unsigned", 0), ("IP", "int", 1)]


def test_aliases_inside_functions_are_listed() -> None:
    file = parsed("using A = int;\nvoid f() { using B = ns::X<3>; if (x) { using C = char; using A = float; } }")
    assert [(name, kind.name) for name, kind in file.aliases] == [("A", "int"), ("B", "ns::X<3>"), ("C", "char")]


def test_mentions() -> None:
    file = parsed('void f() { if (a) g (1); h<int, 3>(2); n::p(3); x.q(4); asm("r;"); int y = z; s("t("); /* u() */ }')
    (function,) = file.functions
    assert set(function.text_mentions) == {"g", "h", "p", "q", "s", "asm"}
    assert list(function.text_mentions) == sorted(function.text_mentions)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ('asm volatile("x;" :: "r"(a));', True),
        ('asm volatile("x;"); int y = 1; return y;', True),
        ('if (a) asm volatile("x;");', False),
        ('asm volatile("x;" :: "r"(a ? 1 : 2));', False),
        ("f();", False),
    ],
)
def test_asm_only(text: str, hint: bool) -> None:
    assert parsed("__device__ void f(int a) { " + text + " }").functions[0].asm_only is hint


LAUNCHES = [
    ("k<<<g, 128>>>(1);", ("k", "g", 128, None, "<<<>>>")),
    (
        "t<3><<<dim3(1, 2), dim3(b), 1024, s>>>(2);",
        ("t", ("call", "dim3", 1, 2), ("call", "dim3", "b"), 1024, "<<<>>>"),
    ),
    ("n::k<<<1, 1>>>();", ("n::k", 1, 1, None, "<<<>>>")),
    (
        "cudaLaunchCooperativeKernel((void *)k, g, 128, args, 64, s);",
        ("k", "g", 128, 64, "cudaLaunchCooperativeKernel"),
    ),
    ("cudaLaunchKernel((const void *)&t<3>, g, 64, args);", ("t", "g", 64, None, "cudaLaunchKernel")),
    ("hipLaunchKernelGGL(HIP_KERNEL_NAME(t<3>), g, 64, 0, s, 1);", ("t", "g", 64, 0, "hipLaunchKernelGGL")),
    ("hipLaunchKernelGGL((t<3>), g, 64, 0, s, 1);", ("t", "g", 64, 0, "hipLaunchKernelGGL")),
    ("hipLaunchCooperativeKernel(k, g, 64, args, 3, s);", ("k", "g", 64, 3, "hipLaunchCooperativeKernel")),
    (
        "cuLaunchKernel(k, 1, 2, 3, 4, 5, 6, 7, s, a, 0);",
        ("k", ("{}", "", 1, 2, 3), ("{}", "", 4, 5, 6), 7, "cuLaunchKernel"),
    ),
    ("cudaLaunchKernelEx(&cfg, t<3>, 1);", ("t", None, None, None, "cudaLaunchKernelEx")),
    (
        "cudaLaunchConfig_t c = {0}; c.gridDim = dim3(4); c.blockDim = 2 * n; cudaLaunchKernelEx(&c, k, 1);",
        ("k", ("call", "dim3", 4), (2, "*", "n"), None, "cudaLaunchKernelEx"),
    ),
    (
        "cudaLaunchConfig_t c{g, 32, 9}; cudaLaunchKernelExC(&c, (void *)k, a);",
        ("k", "g", 32, 9, "cudaLaunchKernelExC"),
    ),
    ("auto p = &t<4>; p<<<1, 2>>>(3);", ("t", 1, 2, None, "<<<>>>")),
    ("auto p = a ? x : y; p<<<1, 2>>>(3);", ("p", 1, 2, None, "<<<>>>")),
]


@pytest.mark.parametrize(("text", "expected"), LAUNCHES, ids=[text for text, _ in LAUNCHES])
def test_launches(text: str, expected: tuple) -> None:
    kernels = "template <int N> __global__ void t(int a) {}\n__global__ void k(int a) {}\n"
    file = parsed(kernels + "void host(int n) { " + text + " }")
    assert file.gaps == ()
    (launch,) = file.launches
    made = (launch.kernel, shape(launch.grid), shape(launch.block), shape(launch.smem), launch.api)
    assert made == expected
    assert launch.function == "host"
    assert launch.cluster is None


def test_cluster_of_a_launch() -> None:
    (launch,) = parsed(
        "__global__ void k() {}\nvoid host() { cudaLaunchConfig_t c = {g, 1}; cudaLaunchAttribute a[1];\n"
        "a[0].val.clusterDim.x = 2; a[0].val.clusterDim.y = 1; c.attrs = a; cudaLaunchKernelEx(&c, k); }"
    ).launches
    assert shape(launch.cluster) == ("{}", "", 2, 1, 1)


def test_words_in_comments_and_strings_launch_nothing() -> None:
    assert parsed('void h() { /* k<<<1, 2>>>(); */ puts("k<<<1, 2>>>()"); myLaunchKernel(1); }').launches == ()
