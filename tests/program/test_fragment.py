"""Pasted excerpts: read as a kernel's body, with the lines and columns of the file, helpers and macros included."""

from __future__ import annotations

import pytest

from warplint.engine import Settings, lint_bytes
from warplint.finding import KernelReport, Verdict

EXCERPT = """if (threadIdx.x < 32) __syncthreads();
mystery();
__syncwarp();
"""


def lint(text: str, fragment: bool | None = None, **settings) -> tuple[KernelReport, ...]:
    chosen = Settings(block=(128, 1, 1), fragment=fragment, tree=True, **settings)
    return lint_bytes("part.cu", text.encode(), chosen).kernels


def places(kernel: KernelReport) -> list[tuple[str, int, int]]:
    return [(finding.rule, finding.location.line, finding.location.column) for finding in kernel.findings]


def test_a_text_without_functions_is_an_excerpt_and_its_places_are_the_files() -> None:
    (kernel,) = lint(EXCERPT)
    assert places(kernel) == [("cta-barrier-in-divergent-code", 1, 23)]
    assert [(place.line, place.column) for place in kernel.findings[0].related] == [(1, 5)]
    assert [reason.line for reason in kernel.reasons] == [2]
    assert kernel.tree is not None
    assert [item.line for item in kernel.tree.items] == [1, 3]


def test_line_ends_and_a_macro_in_the_first_line() -> None:
    text = "#define WARP 32\r\nif (threadIdx.x < WARP)\r\n  __syncthreads();\r\n"
    (kernel,) = lint(text)
    assert places(kernel) == [("cta-barrier-in-divergent-code", 3, 3)]


HELPERS = """struct Box { int x; };
template <int N>
__device__ bool first(const Box& b) { return b.x < N; }
Box b; b.x = threadIdx.x;
if (first<32>(b)) meet();
__device__ void meet() {
  __syncthreads();
}
"""


def test_helpers_beside_the_excerpt_are_known_when_it_is_said_to_be_one() -> None:
    assert lint(HELPERS) == ()  # it has functions: it may be a header
    (kernel,) = lint(HELPERS, True)
    assert places(kernel) == [("cta-barrier-in-divergent-code", 5, 19)]
    assert lint(HELPERS, False) == ()


def test_a_file_with_kernels_is_never_an_excerpt() -> None:
    kernels = lint('extern "C" __global__ void k() { __syncthreads(); }\n', True)
    assert [kernel.name for kernel in kernels] == ["k"]


def test_no_fragment_forbids_it() -> None:
    assert lint(EXCERPT, False) == ()


def test_unknown_names_are_variables_of_the_part_left_out() -> None:
    (kernel,) = lint("if (warp_id_in_cta == 1) __syncwarp();\nif (role == 3) value = value + 1;\n__syncthreads();\n")
    assert kernel.verdict is Verdict.CLEAN


def test_findings_in_an_excerpt_can_be_suppressed() -> None:
    assert (
        places(lint(EXCERPT.replace(";\n", ";  // warplint: ignore[cta-barrier-in-divergent-code] seen\n", 1))[0]) == []
    )
    assert places(lint(EXCERPT + "// warplint: ignore-kernel[participation] seen\n")[0]) == []


@pytest.mark.parametrize("text", ["}", "{", "if (", "/*", '"', "#if 1", "void f(", "struct {", "\n\n", "x;" * 2000])
def test_any_text_is_read(text: str) -> None:
    for fragment in (None, True):
        report = lint_bytes("part.cu", text.encode(), Settings(fragment=fragment))
        assert not report.problem
