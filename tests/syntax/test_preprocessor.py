"""Which branch of a conditional is read."""

from __future__ import annotations

import pytest

from tests.syntax.helpers import calls, parsed

BRANCHES = [
    ("#if 0\nA();\n#else\nB();\n#endif", "B"),
    ("#if 1\nA();\n#else\nB();\n#endif", "A"),
    ("#ifdef UNKNOWN\nA();\n#else\nB();\n#endif", "A"),
    ("#ifndef UNKNOWN\nA();\n#else\nB();\n#endif", "A"),
    ("#ifdef __CUDACC_RTC__\nA();\n#else\nB();\n#endif", "B"),
    ("#if defined(__CUDACC_RTC__) || 0\nA();\n#elif 1\nB();\n#endif", "B"),
    ("#if __CUDA_ARCH__ >= 900\nA();\n#else\nB();\n#endif", "A"),
    ("#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ < 800)\nA();\n#else\nB();\n#endif", "B"),
    ("#if !defined(__CUDA_ARCH__) || (__CUDA_ARCH__ >= 530)\nA();\n#else\nB();\n#endif", "A"),
    ("#if __CUDA_ARCH__ == 900\nA();\n#elif __CUDA_ARCH__ == 1000\nB();\n#endif", "A"),
    ("#define ON 1\n#if ON\nA();\n#else\nB();\n#endif", "A"),
    ("#define ON 0\n#if ON\nA();\n#else\nB();\n#endif", "B"),
    ("#define N (2 * 3)\n#if N == 6 && N << 1 > 11\nA();\n#else\nB();\n#endif", "A"),
    ("#define ON\n#undef ON\n#ifdef ON\nA();\n#else\nB();\n#endif", "B"),
    ("#ifdef LATER\nA();\n#else\nB();\n#endif\n#define LATER", "A"),
    ("#if 0\n#if 1\nA();\n#else\nC();\n#endif\n#else\nB();\n#endif", "B"),
    ("#if 1\n#if 0\nA();\n#else\nB();\n#endif\n#else\nC();\n#endif", "B"),
    ("#if 0\nit's \" /* broken }}}\n#else\nB();\n#endif", "B"),
    ("#if __has_include(<x.h>)\nA();\n#else\nB();\n#endif", "A"),
    ("#if UNKNOWN(1, (2)) && 0\nA();\n#else\nB();\n#endif", "B"),
    ("#if (UNKNOWN and 1) or not 0\nA();\n#else\nB();\n#endif", "A"),
    ("#if 1 ? 0 : 1\nA();\n#else\nB();\n#endif", "B"),
    ("#if 0x10 == 16 && 010 == 8 && 5 / 2 == 2 && -1 < 0\nA();\n#else\nB();\n#endif", "A"),
    ("#if 1 / 0\nA();\n#else\nB();\n#endif", "A"),
    ("# if 0\nA();\n# else\nB();\n# endif", "B"),
    ("#if \\\n 0\nA();\n#else // words\nB();\n#endif /* words */", "B"),
    ("#ifdef __HIP_PLATFORM_AMD__\nA();\n#else\nB();\n#endif", "B"),
    ("#if defined(__HIPCC__)\nA();\n#else\nB();\n#endif", "B"),
]


@pytest.mark.parametrize(("text", "taken"), BRANCHES, ids=[text for text, _ in BRANCHES])
@pytest.mark.parametrize("newline", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_branches(text: str, taken: str, newline: str) -> None:
    file = parsed(("__global__ void k() {\n" + text + "\n}").replace("\n", newline))
    assert file.gaps == ()
    assert calls(file.functions[0].body()) == [taken]


@pytest.mark.parametrize(("path", "include"), [("a.hip", ""), ("a.cpp", "#include <hip/hip_runtime.h>\n")])
def test_hip_files_take_the_amd_branch(path: str, include: str) -> None:
    text = (
        include + "__global__ void k() {\n#ifdef __HIP_PLATFORM_AMD__\nA();\n#elif defined(__CUDACC__)\nB();\n#endif\n}"
    )
    assert calls(parsed(text, path).functions[0].body()) == ["A"]


def test_macros_of_branches_not_taken_are_not_defined() -> None:
    file = parsed("#if 0\n#define A 1\n#include <no.h>\n#else\n#define A 2\n#endif\n#define B(x, ...) x // words")
    assert [(m.name, m.params, m.body) for m in file.macros] == [("A", None, "2"), ("B", ("x", "..."), "x")]
    assert file.includes == ()


def test_a_kernel_in_an_unread_branch_is_a_gap() -> None:
    file = parsed("#ifdef WHO_KNOWS\n__global__ void a() {}\n#else\n__global__ void b() {}\n#endif")
    assert [function.name for function in file.functions] == ["a"]
    (gap,) = file.gaps
    assert "branch that was not read" in gap.reason


def test_a_kernel_behind_if_0_is_no_gap() -> None:
    file = parsed("#if 0\n__global__ void a() {}\n#else\n__global__ void b() {}\n#endif")
    assert [function.name for function in file.functions] == ["b"]
    assert file.gaps == ()


def test_conditionals_left_open_are_a_gap() -> None:
    (gap,) = parsed("#if X\n#if Y\nint a;").gaps
    assert gap.reason == "2 #if without #endif"


def test_stray_endings_are_passed_over() -> None:
    assert calls(parsed("#endif\n#else\n#elif 1\nvoid k() { f(); }").functions[0].body()) == ["f"]
