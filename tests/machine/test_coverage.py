"""Operations that no execution comes to: which of them the source itself excludes, and which it does not."""

from __future__ import annotations

import pytest

from warplint.machine import execute
from warplint.machine.scenarios import Plan
from warplint.machine.semantics import handlers
from warplint.machine.slicing import cut
from warplint.program import Options, ir, lower
from warplint.source import SourceFile
from warplint.syntax import parse
from warplint.threads import analyze

HEAD = """
__global__ void __launch_bounds__(128) k(float* out, const int* table, int tiles, int n) {
  __shared__ float s[256];
"""
SYNC = "__syncthreads();"


def kernel_of(body: str) -> ir.Kernel:
    source = SourceFile("k.cu", f"{HEAD}{body}\n}}\n".encode())
    (kernel,) = lower(parse(source), source, Options(arch="sm_90a")).kernels
    return kernel


def missed(body: str) -> int:
    return len(execute(analyze(kernel_of(body))[0]).missed)


def fixed(body: str) -> bool:
    """Whether no input has a part in the last condition of a kernel."""
    kernel = kernel_of(body)
    reader = Plan(analyze(kernel)[0], cut(kernel, handlers(False).keys())).reader
    test = [stmt.test.expr for stmt in ir.walk(kernel.body) if isinstance(stmt, ir.If)][-1]
    return reader.fixed(test, (), id(test))


ROUNDS = "int c = 0; for (int t = blockIdx.x; t < tiles; t += gridDim.x)"


EXCLUDED = {
    "a loop of constants that has no round": f"""
      int c = 0, go = 1;
      while (true) {{
        if (!(go != 0)) break;
        c = 2; {SYNC}
        for (int i = 0; i + 2 < c; ++i) {{ {SYNC} }}
        go = 0;
      }}
      c = 3;""",
    "an endless loop that constants end at once": f"""
      int c = 0, go = 1;
      while (true) {{
        if (!(go != 0)) break;
        c = 2; {SYNC}
        int i = 0;
        while (true) {{ if (!(i + 2 < c)) break; {SYNC} i += 1; }}
        go = 0;
      }}
      c = 3;""",
    "numbers made anew in each round of a loop of unknown length": f"""
      int c = 0, t = blockIdx.x;
      while (true) {{
        if (!(t < tiles)) break;
        c = 32;
        int i = 0;
        while (true) {{
          if (!(i < (c + 3) / 4 * 4)) break;
          {SYNC} if (i + 1 == c) {{ {SYNC} }}
          i += 2;
        }}
        t += gridDim.x;
      }}""",
    "the same where the predicate of an instruction tells": """
      int c = 0, t = blockIdx.x;
      while (true) {
        if (!(t < tiles)) break;
        c = 32;
        int i = 0;
        while (true) {
          if (!(i < (c + 3) / 4 * 4)) break;
          asm volatile("{ .reg .pred p; setp.ne.b32 p, %0, 0; @p cp.async.commit_group; }" :: "r"((int)(i + 1 == c)));
          i += 2;
        }
        t += gridDim.x;
      }""",
}
NOT_EXCLUDED = {
    "a number that grows from round to round": f"""
      int c = 0;
      for (int t = blockIdx.x; t < tiles; t += gridDim.x) {{ {SYNC} if (c == 100) {{ {SYNC} }} c += 1; }}""",
    "a number that depends on how often an inner loop runs": f"""
      for (int t = blockIdx.x; t < tiles; t += gridDim.x) {{
        int c = 0;
        for (int i = 0; i < n; ++i) c += 1;
        {SYNC} if (c == 100) {{ {SYNC} }}
      }}""",
    "a number that is set under an input in this round": f"""
      for (int t = blockIdx.x; t < tiles; t += gridDim.x) {{
        int c = 0;
        if (n == 777) c = 5;
        {SYNC} if (c == 5) {{ {SYNC} }}
      }}""",
    "rounds that an input skips": f"""
      for (int t = blockIdx.x; t < tiles; t += gridDim.x) {{
        int c = 0;
        for (int i = 0; i < 4; ++i) {{ if (n != 777) continue; c += 1; }}
        {SYNC} if (c == 4) {{ {SYNC} }}
      }}""",
    "a value of the round before": f"""
      int c = 0;
      for (int t = blockIdx.x; t < tiles; t += gridDim.x) {{
        {SYNC} if (c == 5) {{ {SYNC} }}
        c = 4; if (n == 777) c = 5;
      }}""",
    "behind a way out that an input decides about": f"{SYNC} if (n != 777) return; {SYNC}",
    "a loop that an input never lets begin": f"{SYNC} for (int i = 0; i < (n == 777); ++i) {{ {SYNC} }}",
}


@pytest.mark.parametrize("name", EXCLUDED)
def test_what_constants_exclude_is_not_missed(name: str) -> None:
    assert missed(EXCLUDED[name]) == 0


@pytest.mark.parametrize("name", NOT_EXCLUDED)
def test_what_an_input_could_lead_to_is_missed(name: str) -> None:
    assert missed(NOT_EXCLUDED[name]) == 1


@pytest.mark.parametrize(
    ("body", "known"),
    [
        (f"{ROUNDS} {{ c = 4; for (int i = 0; i < c; ++i) {{ {SYNC} if (i + 1 == c) {{ {SYNC} }} }} }}", True),
        (f"{ROUNDS} {{ c = 4; {SYNC} c += 1; if (c == 4) {{ {SYNC} }} }}", True),
        (f"{ROUNDS} {{ {SYNC} c += 1; if (c == 4) {{ {SYNC} }} }}", False),
        (f"{ROUNDS} {{ c = 4; for (int i = 0; i < n; ++i) {{ {SYNC} if (i + 1 == c) {{ {SYNC} }} }} }}", False),
        (f"{ROUNDS} {{ c = 4; for (int i = 0; i < n; ++i) c += 1; {SYNC} if (c == 5) {{ {SYNC} }} }}", False),
        (f"{ROUNDS} {{ for (int i = 0; i < n; ++i) {{ c = 4; {SYNC} }} if (c == 4) {{ {SYNC} }} }}", False),
    ],
)
def test_only_what_follows_the_last_certain_assignment_counts(body: str, known: bool) -> None:
    assert fixed(body) is known


@pytest.mark.parametrize(
    "body",
    [
        f"if (table[0] == tiles) return; {SYNC}",
        f"for (int i = 0; i < n / 64; ++i) {{ {SYNC} }} if (n % 64 != 0) {{ {SYNC} }}",
    ],
)
def test_numbers_that_differ_and_divide_by_nothing_are_tried(body: str) -> None:
    assert missed(body) == 0


def test_numbers_that_break_the_kernel_leave_no_trace() -> None:
    body = 'if (table[0] == tiles) return; if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;");'
    execution = execute(analyze(kernel_of(body))[0])
    assert execution.missed and not any(outcome.blocked for outcome in execution.outcomes)
