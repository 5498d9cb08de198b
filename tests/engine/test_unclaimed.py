"""What an execution shows and no rule claims costs the verdict `clean`."""

from __future__ import annotations

from warplint.engine import Settings, lint_bytes
from warplint.finding import Verdict

LOADED = """
extern "C" __global__ void __launch_bounds__(64) walk(float* out, const float* in, const int* count) {
  __shared__ float tile[64];
  for (int i = 0; i < count[0]; ++i) {
    tile[threadIdx.x] = in[i * 64 + threadIdx.x];
    __syncthreads();
    out[i * 64 + threadIdx.x] = tile[63 - threadIdx.x];
  BARRIER
  }
}
"""


def test_a_race_that_rests_on_loaded_numbers_is_a_reason() -> None:
    (kernel,) = lint_bytes("walk.cu", LOADED.replace("BARRIER", "").encode(), Settings()).kernels
    assert not kernel.findings
    assert kernel.verdict is Verdict.INCOMPLETE
    (reason,) = kernel.reasons
    assert reason.text.startswith("nothing orders this ordinary store and the ordinary load at line 7, if the data")
    assert reason.line == 5


def test_the_same_with_a_barrier_is_clean() -> None:
    (kernel,) = lint_bytes("walk.cu", LOADED.replace("BARRIER", "__syncthreads();").encode(), Settings()).kernels
    assert kernel.verdict is Verdict.CLEAN
