"""Headers on disk: found where they may be, read once, within bounds, and never outside the folders that were named."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from warplint import headers
from warplint.cli import warplint
from warplint.engine import Settings, lint_bytes
from warplint.finding import FileReport, Verdict
from warplint.headers import with_headers
from warplint.source import SourceFile

WAIT = """#pragma once
__device__ inline void wait(uint64_t* bar, int parity) {
  int done = 0;
  while (!done)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"((unsigned)__cvta_generic_to_shared(bar)), "r"(parity));
}
"""
BARRIER = """#ifndef BARRIER_H
#define BARRIER_H
#include "detail/wait.h"
#define ARRIVE(bar) \\
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"((unsigned)__cvta_generic_to_shared(bar)))
#define HAS_BARRIER 1
constexpr int THREADS = 128;
namespace acme {
template <int COUNT>
__device__ inline void init(uint64_t* bar) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"((unsigned)__cvta_generic_to_shared(bar)), "n"(COUNT));
}
struct Barrier {
  uint64_t* word;
  __device__ void arrive() { ARRIVE(word); }
};
}
#endif
"""
HEAD = 'extern "C" __global__ void __launch_bounds__(64) k(float* o) {\n'
KERNEL = """#include "barrier.h"
extern "C" __global__ void __launch_bounds__(THREADS) k(float* out) {
  __shared__ uint64_t bar;
  if (threadIdx.x == 0) acme::init<COUNT_OF_ARRIVALS>(&bar);
  __syncthreads();
#if HAS_BARRIER
  acme::Barrier b{&bar};
  b.arrive();
#endif
  wait(&bar, 0);
  out[threadIdx.x] = 1;
}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "detail").mkdir()
    (tmp_path / "detail" / "wait.h").write_text(WAIT)
    (tmp_path / "barrier.h").write_text(BARRIER)
    return tmp_path


def lint(source: str, path: str = "k.cu", **settings) -> FileReport:
    settings = {"folder": os.path.dirname(path) or ".", **settings}
    return lint_bytes(path, source.encode(), Settings(**settings))


def rules(report: FileReport) -> list[str]:
    return [finding.rule for kernel in report.kernels for finding in kernel.findings]


def test_definitions_macros_constants_and_templates_are_read(folder) -> None:
    good = lint(KERNEL.replace("COUNT_OF_ARRIVALS", "THREADS"))
    assert [(kernel.verdict, kernel.reasons) for kernel in good.kernels] == [(Verdict.CLEAN, ())]
    assert dict(good.kernels[0].facts)["block"].startswith("128 ")
    bad = lint(KERNEL.replace("COUNT_OF_ARRIVALS", "THREADS + 1"))
    assert rules(bad) == ["mbarrier-arrival-count-mismatch"]
    assert {finding.location.path for finding in bad.kernels[0].findings} == {"k.cu"}


def test_without_the_headers_the_kernel_is_incomplete(folder) -> None:
    (folder / "barrier.h").unlink()
    assert lint(KERNEL).kernels[0].verdict is Verdict.INCOMPLETE


def test_standard_input_has_no_folder(folder) -> None:
    report = lint(KERNEL, folder="")
    assert report.kernels[0].verdict is Verdict.INCOMPLETE and report.read == ()


def test_include_folders(folder) -> None:
    source = KERNEL.replace("COUNT_OF_ARRIVALS", "128")
    (folder / "src").mkdir()
    assert lint(source, "src/k.cu").kernels[0].verdict is Verdict.INCOMPLETE
    assert lint(source, "src/k.cu", include=(".",)).kernels[0].verdict is Verdict.CLEAN
    angled = source.replace('"barrier.h"', "<barrier.h>")
    assert lint(angled).kernels[0].verdict is Verdict.INCOMPLETE  # not beside the file
    assert lint(angled, include=(".",)).kernels[0].verdict is Verdict.CLEAN


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../outside.h", "sub/../../outside.h", "link.h", "C:/x.h", "..\\\\outside.h"]
)
def test_nothing_outside_is_opened(folder, monkeypatch, name) -> None:
    inside = folder / "inside"
    inside.mkdir()
    (inside / "sub").mkdir()
    (folder / "outside.h").write_text("#define OUTSIDE 1\n")
    (inside / "link.h").symlink_to(folder / "outside.h")
    opened: list[str] = []
    real = open
    monkeypatch.setattr(
        headers, "open", lambda path, *rest: opened.append(str(path)) or real(path, *rest), raising=False
    )
    made = with_headers(SourceFile("inside/k.cu", f'#include "{name}"\n'.encode()), "inside", ("inside",))
    assert made.source.parts == () and opened == []


def test_a_folder_that_was_named_may_lie_anywhere(folder) -> None:
    (folder / "a").mkdir()
    (folder / "a" / "k.cu").write_text('#include "../barrier.h"\n')
    source = SourceFile("a/k.cu", b'#include "../barrier.h"\n')
    assert with_headers(source, "a", ()).source.parts == ()
    found = with_headers(source, "a", (".",))
    assert [part.file.path for part in found.source.parts] == ["barrier.h", "detail/wait.h"]


def test_cycles_and_guards(folder) -> None:
    (folder / "a.h").write_text('#include "b.h"\n__device__ void a() { __syncthreads(); }\n')
    (folder / "b.h").write_text('#include "a.h"\n#include "b.h"\n__device__ void b() { a(); }\n')
    source = """#include "b.h"
#include "a.h"
extern "C" __global__ void __launch_bounds__(64) k(float* out) {
  if (threadIdx.x < 32) b();
  out[threadIdx.x] = 1;
}
"""
    report = lint(source)
    assert rules(report) == ["cta-barrier-in-divergent-code"]
    assert report.kernels[0].findings[0].location.line == 4


def test_a_branch_that_is_not_taken_includes_nothing(folder) -> None:
    (folder / "real.h").write_text("__device__ void meet() { __syncthreads(); }\n")
    (folder / "none.h").write_text("__device__ void meet() {}\n")
    source = """#ifdef __CUDACC__
#include "%s.h"
#else
#include "%s.h"
#endif
extern "C" __global__ void __launch_bounds__(64) k(float* out) {
  if (threadIdx.x < 32) meet();
  out[threadIdx.x] = 1;
}
"""
    assert rules(lint(source % ("real", "none"))) == ["cta-barrier-in-divergent-code"]
    assert rules(lint(source % ("none", "real"))) == []


def test_an_include_inside_a_function_is_said(folder) -> None:
    (folder / "body.inc").write_text("__syncthreads();\n")
    report = lint('extern "C" __global__ void __launch_bounds__(64) k() {\n#include "body.inc"\n}\n')
    (kernel,) = report.kernels
    assert kernel.verdict is Verdict.INCOMPLETE
    assert [(reason.text, reason.line) for reason in kernel.reasons] == [
        ('`#include "body.inc"` inside a function is not read', 2)
    ]


def test_kernels_of_headers_are_not_judged_and_lines_stay(folder) -> None:
    (folder / "other.h").write_text("\n" * 40 + "__global__ void other() { if (threadIdx.x < 3) __syncthreads(); }\n")
    source = '#include "other.h"\nextern "C" __global__ void __launch_bounds__(64) k(float* o) {\n  o[0] = 1;\n}\n'
    report = lint(source)
    assert [(kernel.name, kernel.line) for kernel in report.kernels] == [("k", 2)]


def test_a_guard_in_a_header_carries_its_name(folder) -> None:
    (folder / "half.h").write_text("\n\n__device__ void meet() {\n  if (threadIdx.x < 32) __syncthreads();\n}\n")
    source = '#include "half.h"\n' + HEAD + "  meet();\n  o[0] = 1;\n}\n"
    (finding,) = lint(source, "sub/k.cu", folder=".").kernels[0].findings
    assert (finding.location.path, finding.location.line) == ("sub/k.cu", 3)
    assert ("sub/half.h", 4) in [(place.path, place.line) for place in finding.related]


def test_a_row_of_a_table_holds_against_a_header(folder) -> None:
    """A library's header says the same as the row, by templates that nobody can follow."""
    (folder / "cute.h").write_text("namespace cute { void cluster_arrive() { magic(); } }\n")
    source = '#include "cute.h"\n' + HEAD + "  cute::cluster_arrive();\n  cute::cluster_wait();\n}\n"
    assert lint(source).kernels[0].verdict is Verdict.CLEAN
    own = "namespace cute { __device__ void cluster_arrive() { magic(); } }\n" + source
    assert lint(own).kernels[0].verdict is Verdict.INCOMPLETE


def test_bounds(folder, monkeypatch) -> None:
    for number in range(40):
        (folder / f"h{number}.h").write_text(f'#include "h{number + 1}.h"\nconstexpr int C{number} = 1;\n')
    source = SourceFile("k.cu", b'#include "h0.h"\n')
    made = with_headers(source, ".", ())
    assert len(made.source.parts) == headers.MAX_DEPTH and "nested deeper" in made.left
    monkeypatch.setattr(headers, "MAX_FILES", 3)
    made = with_headers(source, ".", ())
    assert len(made.source.parts) == 3 and "3 headers" in made.left
    monkeypatch.setattr(headers, "MAX_BYTES", 10)
    assert with_headers(source, ".", ()).source.parts == ()
    report = lint('#include "h0.h"\nextern "C" __global__ void __launch_bounds__(64) k() {}\n')
    assert [reason.text for reason in report.reasons] == ["not all headers were read: more than 0 MiB of headers"]


@pytest.mark.parametrize(
    "content", [b"\xff\xfeu\0", b"\0\0", b"#if 1\n{{{", b'"', b"/*", b"#include", b"}}} namespace x {"]
)
def test_broken_headers_do_no_harm(folder, content) -> None:
    (folder / "odd.h").write_bytes(content)
    source = '#include "odd.h"\n' + HEAD + "  if (threadIdx.x < 32) __syncthreads();\n  o[threadIdx.x] = 1;\n}\n"
    assert rules(lint(source)) == ["cta-barrier-in-divergent-code"]


def test_what_was_read_is_told_for_the_cache(folder) -> None:
    report = lint(KERNEL, include=("inc",))
    read = dict(report.read)
    assert read["barrier.h"] == hashlib.sha256(BARRIER.encode()).hexdigest()
    assert read["detail/wait.h"] == hashlib.sha256(WAIT.encode()).hexdigest()
    (folder / "detail" / "wait.h").unlink()
    assert dict(lint(KERNEL).read)["detail/wait.h"] == ""  # looked for, and not there


def test_command_line_cache_and_uris(folder) -> None:
    (folder / "k.cu").write_text(KERNEL.replace("COUNT_OF_ARRIVALS", "128"))
    arguments = ["lint", "k.cu", "--format", "sarif", "--cache", "cache", "--strict"]

    def run(*more: str) -> tuple[int, dict]:
        result = CliRunner().invoke(warplint, [*arguments, *more], standalone_mode=False)
        return result.return_value, json.loads(result.stdout)

    assert run()[0] == 0
    (folder / "barrier.h").write_text(BARRIER.replace('"n"(COUNT)', '"n"(COUNT + 1)'))  # the entry is no longer true
    code, report = run()
    assert code == 1
    (result,) = report["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "k.cu"
    (folder / "include").mkdir()
    (folder / "barrier.h").rename(folder / "include" / "barrier.h")
    (folder / "detail").rename(folder / "include" / "detail")
    assert "not defined" in json.dumps(run()[1])
    assert run("-I", "include")[1]["runs"][0]["results"][0]["ruleId"] == result["ruleId"]
    (folder / "warplint.toml").write_text('include = ["include"]\n')
    assert run()[1]["runs"][0]["results"][0]["ruleId"] == result["ruleId"]
    (folder / "warplint.toml").write_text('include = ["missing"]\n')
    with pytest.raises(Exception, match="there is no folder 'missing'"):
        CliRunner().invoke(warplint, arguments, standalone_mode=False, catch_exceptions=False)


def test_definitions_that_we_bring_serve_where_the_header_is_not_found(folder) -> None:
    source = SourceFile("k.cu", b"#include <cuda/pipeline>\n")
    assert [part.file.path for part in with_headers(source, ".", ()).source.parts] == ["<warplint>/cuda__pipeline.cuh"]
    (folder / "cuda").mkdir()
    (folder / "cuda" / "pipeline").write_text("#define OWN 1\n")
    assert [part.file.path for part in with_headers(source, ".", (".",)).source.parts] == ["cuda/pipeline"]
