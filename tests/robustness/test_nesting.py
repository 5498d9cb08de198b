"""Nesting 5,000 deep in every construct: bounded, said, and the rest of the file judged as ever."""

from __future__ import annotations

import time

import pytest

from tests.robustness.kernels import BARRIER, lint, loud
from warplint.finding import Verdict

DEEP = 5000
SECONDS = 10
"""Generous: each takes well under one; what is not linear takes minutes."""

BODIES = {
    "parentheses": "int y = " + "(" * DEEP + "x" + ")" * DEEP + ";",
    "signs": "int y = " + "-(" * DEEP + "x" + ")" * DEEP + ";",
    "braces": "{" * DEEP + "x = 1;" + "}" * DEEP,
    "ifs": "if (x) {" * DEEP + "x = 1;" + "}" * DEEP,
    "thread ifs": "".join(f"if (threadIdx.x > {i}) {{" for i in range(DEEP)) + "x = 1;" + "}" * DEEP,
    "else ifs": "".join(f"if (x == {i}) x = 1; else " for i in range(DEEP)) + "x = 2;",
    "loops": "for (int i = 0; i < 2; ++i) {" * DEEP + "x = 1;" + "}" * DEEP,
    "whiles": "while (x) {" * DEEP + "x = 1;" + "}" * DEEP,
    "switches": "switch (x) { case 1: " * DEEP + "x = 2;" + "}" * DEEP,
    "sums": "x = x" + " + x" * DEEP + ";",
    "conditionals": "x = " + "x ? 1 : " * DEEP + "1;",
    "ands": "if (x" + " && x" * DEEP + ") x = 1;",
    "subscripts": "x = p" + "[1]" * DEEP + ";",
    "calls": "x = " + "f(" * DEEP + "1" + ")" * DEEP + ";",
    "casts": "x = " + "(int)" * DEEP + "1;",
    "templates": "A<" * DEEP + "int" + ">" * DEEP + " y;",
    "lambdas": "auto f = " + "[&] { return " * DEEP + "1;" + "}; " * DEEP,
    "macros": "x = " + "M(" * DEEP + "1" + ")" * DEEP + ";",
    "conditional groups": "\n" + "#if 1\n" * DEEP + "x = 1;\n" + "#endif\n" * DEEP,
    "untaken groups": "\n" + "#if 0\n" * DEEP + "x = 1;\n" + "#endif\n" * DEEP,
    "else groups": "\n" + "#if A\n#else\n" * DEEP + "x = 1;\n" + "#endif\n" * DEEP,
    "asm operands": 'asm volatile("" :: ' + ", ".join(['"r"(x)'] * DEEP) + ");",
    "asm braces": 'asm volatile("' + "{" * DEEP + "}" * DEEP + '");',
    "asm lines": 'asm volatile("' + "add.u32 a, a, 1; " * DEEP + '");',
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_in_a_kernel(body: str) -> None:
    text = f"#define M(x) (x)\n__global__ void deep(int x, int* p) {{ {body} }}\n"
    start = time.process_time()
    report = lint(BARRIER + text)
    assert time.process_time() - start < SECONDS
    assert loud(report) == [("cta-barrier-in-divergent-code", 3)]
    broken = next(kernel for kernel in report.kernels if kernel.name == "broken")
    assert broken.verdict is Verdict.FINDINGS
    assert report.reasons or any(kernel.name == "deep" for kernel in report.kernels)  # never passed over


@pytest.mark.parametrize("body", ["if (x) {" * DEEP, "(" * DEEP, "{" * DEEP, "#if 1\n" * DEEP, '"' * DEEP, "[" * DEEP])
def test_never_closed(body: str) -> None:
    report = lint(BARRIER + f"__global__ void deep(int x) {{\n{body}")
    assert report.reasons or any(kernel.reasons for kernel in report.kernels)
    assert ("cta-barrier-in-divergent-code", 3) in loud(report)


FILES = {
    "namespaces": "namespace n { " * DEEP + "__global__ void deep() {}" + "}" * DEEP,
    "records": "struct s { " * DEEP + "int x;" + "};" * DEEP,
    "extern blocks": 'extern "C" { ' * DEEP + "__global__ void deep() {}" + "}" * DEEP,
    "attributes": "__attribute__((" * DEEP + "))" * DEEP + " int x;",
    "template parameters": "template <template <" * DEEP + "> class> class" * DEEP + " T> void f();",
    "macros of macros": "".join(f"#define A{i} A{i + 1}\n" for i in range(DEEP)) + "int x = A0;",
    "helpers of helpers": "".join(
        f"__device__ void f{i}() {{ {f'f{i + 1}();' if i + 1 < DEEP else '__syncthreads();'} }}\n" for i in range(DEEP)
    )
    + "__global__ void deep() { f0(); }",
    "helpers that double": "".join(f"__device__ void f{i}() {{ f{i + 1}(); f{i + 1}(); }}\n" for i in range(60))
    + "__device__ void f60() { __syncthreads(); }\n__global__ void deep() { f0(); }",
    "recursion": "__device__ void f(int n) { if (n) f(n - 1); __syncthreads(); }\n__global__ void deep() { f(9); }",
    "templates of templates": "template <int N> __device__ void f() { f<N + 1>(); }\n"
    "__global__ void deep() { f<0>(); }",
    "typedefs of typedefs": "typedef int t0;\n"
    + "".join(f"typedef t{i} t{i + 1};\n" for i in range(DEEP))
    + f"__global__ void deep(t{DEEP} x) {{}}",
    "endless loop": "__global__ void deep() { while (1) { __syncthreads(); } }",
    "long loop": "__global__ void deep() { for (int i = 0; i < 2000000000; ++i) { __syncthreads(); } }",
    "loops in loops": "__global__ void deep() { "
    + "".join(f"for (int i{n} = 0; i{n} < 1000; ++i{n}) " for n in range(8))
    + "{ __syncthreads(); } }",
}


@pytest.mark.parametrize("text", FILES.values(), ids=FILES.keys())
def test_in_a_file(text: str) -> None:
    start = time.process_time()
    report = lint(BARRIER + text + "\n")
    assert time.process_time() - start < SECONDS
    assert loud(report) == [("cta-barrier-in-divergent-code", 3)]


def test_many_kernels(count: int = 300) -> None:
    start = time.process_time()
    kernels = "".join(f"__global__ void k{i}(int x) {{ if (x > {i}) x = 1; __syncthreads(); }}\n" for i in range(count))
    report = lint(BARRIER + kernels)
    assert len(report.kernels) == count + 1
    assert loud(report) == [("cta-barrier-in-divergent-code", 3)]
    assert time.process_time() - start < SECONDS
