"""Which inputs are tried: units by data flow, loops inside loops, rings, and what kernels compare their inputs with."""

from __future__ import annotations

import pytest

from warplint.machine.inputs import Inputs, Reader
from warplint.machine.scenarios import Chooser, Plan
from warplint.machine.semantics import handlers
from warplint.machine.slicing import cut
from warplint.machine.world import Trips
from warplint.program import Options, lower
from warplint.source import SourceFile
from warplint.syntax import parse
from warplint.threads import analyze

HEAD = """
__global__ void __launch_bounds__(128) k(float* out, const int* table, int M, int N, int K) {
  __shared__ float s[8][256];
"""


def plan(body: str) -> Plan:
    source = SourceFile("k.cu", f"{HEAD}{body}\n}}\n".encode())
    (kernel,) = lower(parse(source), source, Options(arch="sm_90a")).kernels
    return Plan(analyze(kernel)[0], cut(kernel, handlers(False).keys()))


GEMM = """
  int tiles = (M / 64) * (N / 16), kt = (K + 31) / 32, it = 0;
  for (int t = blockIdx.x; t < tiles; t += gridDim.x)
    for (int k = 0; k < kt; ++k, ++it) {
      s[it % 3][threadIdx.x] = t; __syncthreads(); out[k] = s[it % 3][0]; __syncthreads();
    }
"""


def test_units_follow_every_division_on_the_way_to_a_bound() -> None:
    made = plan(GEMM)
    inputs = made.inputs
    assert inputs.units[("param", "K")] == 32 and inputs.units[("param", "N")] == 16
    assert inputs.units[("param", "M")] == 64 * made.grid["nctaid.x"], "a step of the whole grid"
    assert ("param", "K") in inputs.inner and ("param", "M") in inputs.outer
    assert ("param", "N") in inputs.factors and inputs.stages == 3


def test_every_number_of_inner_rounds_meets_several_outer_ones() -> None:
    made = plan(GEMM)
    asked = {("param", "M"): 0, ("param", "N"): 0, ("param", "K"): 0, "ctaid.x": 0}
    seen = set()
    for scenario in (made.first(), *made.others(made.first(), asked)):
        m, n, k = (scenario.choose(("param", name)) for name in "MNK")
        start, step = scenario.coordinates["ctaid.x"], made.grid["nctaid.x"]
        seen.add((len(range(start, (m // 64) * (n // 16), step)), (k + 31) // 32))
    assert {(3, inner) for inner in (0, 1, 2, 4)} <= seen
    assert {inner for _, inner in seen} == {0, 1, 2, 3, 4, 7}
    assert max(outer for outer, _ in seen) == 3


@pytest.mark.parametrize(
    ("ring", "depth"),
    [
        ("s[i % 5][threadIdx.x] = i;", 5),
        ("s[i & 3][threadIdx.x] = i;", 4),
        ("s[j][threadIdx.x] = i; if (++j == 6) j = 0;", 6),
        ("s[j][threadIdx.x] = i; if (3 <= ++j) j -= 3;", 3),
        ("s[j][threadIdx.x] = i; j = j == 4 ? 0 : j + 1;", 5),
        ("s[0][threadIdx.x % 4] = i;", 0),
        ('s[0][threadIdx.x] = i; asm volatile("cp.async.wait_group 3;");', 4),
    ],
)
def test_rings_are_known_by_how_their_index_comes_round(ring: str, depth: int) -> None:
    assert plan(f"int j = 0; for (int i = 0; i < K; ++i) {{ {ring} __syncthreads(); }}").inputs.stages == depth


def test_a_step_of_many_blocks_is_a_unit() -> None:
    made = plan("for (int t = blockIdx.x; t < M; t += 148) { s[0][threadIdx.x] = t; __syncthreads(); }")
    assert made.inputs.units[("param", "M")] == 148


def test_numbers_of_an_array_go_the_way_its_differences_need() -> None:
    rising = plan("for (int i = 0; i < table[blockIdx.x + 1] - table[blockIdx.x]; ++i) __syncthreads();").inputs
    record = "for (int i = 0; i < table[blockIdx.x * 8 + 3] - table[blockIdx.x * 8 + 4]; ++i) __syncthreads();"
    falling = plan(record).inputs
    assert not rising.falling and len(falling.falling) == 1


def load(inputs: Inputs, at: int) -> int:
    (key,) = inputs.inner
    return Chooser(inputs, Trips(2, 3), 1, 1)(("load", key[1], 4 * at, 4, 0, 0))  # type: ignore[index]


def test_differences_of_neighbours_are_the_wanted_number_of_rounds() -> None:
    rising = plan("for (int i = 0; i < table[blockIdx.x + 1] - table[blockIdx.x]; ++i) __syncthreads();").inputs
    assert load(rising, 1) - load(rising, 0) == load(rising, 7) - load(rising, 6) == 3
    falling = plan("for (int i = 0; i < table[blockIdx.x] - table[blockIdx.x + 1]; ++i) __syncthreads();").inputs
    assert load(falling, 3) - load(falling, 4) == 3


def test_counters_hand_out_each_tile_once_and_come_to_an_end() -> None:
    choose = Chooser(Inputs(), Trips(3, 2), 1, 1)
    drawn = [choose(("ticket", 1, 0, number, number)) for number in range(6)]
    assert drawn[:3] == [0, 1, 2] and drawn == sorted(set(drawn)) and drawn[3] > 1 << 19


def test_conditions_on_constants_alone_are_fixed() -> None:
    source = SourceFile("k.cu", f"""{HEAD}
      int a = 3, b = K; int c = a * 2; int d = 0;
      if (b > 4) d = 1;
      if (c == 7) __syncthreads();
      if (d == 1) __syncthreads();
    }}""".encode())  # fmt: skip
    (kernel,) = lower(parse(source), source, Options(arch="sm_90a")).kernels
    from warplint.program import ir

    reader = Reader(kernel, cut(kernel, handlers(False).keys()), {})
    tests = [stmt.test.expr for stmt in ir.walk(kernel.body) if isinstance(stmt, ir.If)]
    assert [reader.fixed(test) for test in tests] == [False, True, False]


def test_rounds_that_threads_share_out_are_no_unit() -> None:
    body = "int w = threadIdx.x / 32; for (int i = w; i < M; i += 4) { s[0][i] = 0; __syncthreads(); }"
    shared = plan(body)
    assert shared.inputs.units[("param", "M")] == 1, "a bound that is no multiple shows who has one round more"
