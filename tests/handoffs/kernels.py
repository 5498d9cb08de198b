"""Kernels for the protocol tables: the generated GEMMs of the demo, and small ones that hang in known ways."""

from __future__ import annotations

from pathlib import Path

from warplint.engine import Settings
from warplint.handoffs import protocol, run
from warplint.handoffs.listing import Wanted
from warplint.tables import Protocol, Run
from warplint.traced import Traced, trace_bytes

ARTIFACTS = Path(__file__).resolve().parents[2] / "fixtures" / "artifacts"
GEMM = (ARTIFACTS / "gemm_step7_good_tvm027.cu").read_text()
CLUSTER = (ARTIFACTS / "gemm_step7_cluster_good_tvm026.cu").read_text()

CROSSED = """\
namespace ptx = cuda::ptx;
extern "C" __global__ void __launch_bounds__(64) crossed(float* out) {
  __shared__ unsigned long long a, b;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&a, 32);
    ptx::mbarrier_init(&b, 32);
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    while (!ptx::mbarrier_try_wait_parity(&a, 0)) {}
    ptx::mbarrier_arrive(&b);
  } else {
    while (!ptx::mbarrier_try_wait_parity(&b, 0)) {}
    ptx::mbarrier_arrive(&a);
  }
  out[threadIdx.x] = 1.f;
}
"""
NAMED = """\
extern "C" __global__ void __launch_bounds__(128) both_wait(float* out) {
  if (threadIdx.x < 64) {
    asm volatile("bar.sync 1, 128;" ::: "memory");
    asm volatile("bar.arrive 2, 128;" ::: "memory");
  } else {
    asm volatile("bar.sync 2, 128;" ::: "memory");
    asm volatile("bar.arrive 1, 128;" ::: "memory");
  }
  out[threadIdx.x] = 1.f;
}
"""


def traced(text: str | bytes, **settings: object) -> Traced:
    """The first kernel of a source, executed."""
    data = text.encode() if isinstance(text, str) else text
    file = trace_bytes("kernel.cu", data, Settings(**settings))  # type: ignore[arg-type]
    assert not file.problem, file.problem
    return file.kernels[0]


def tables(text: str | bytes, scenario: int | None = None, **settings: object) -> Protocol:
    kernel = traced(text, **settings)
    assert kernel.recorded is not None, kernel.unexecuted
    at = kernel.recorded.chosen if scenario is None else scenario
    return protocol(kernel.recorded, at, kernel.facts, kernel.incomplete)


def executed(text: str | bytes, wanted: Wanted | None = None, **settings: object) -> Run:
    kernel = traced(text, **settings)
    assert kernel.recorded is not None, kernel.unexecuted
    return run(kernel.recorded, kernel.recorded.chosen, kernel.facts, kernel.incomplete, wanted or Wanted())


def line_of(text: str, part: str, nth: int = 0) -> int:
    """The line of the nth occurrence of a part of the source."""
    found = [number for number, line in enumerate(text.split("\n"), 1) if part in line]
    return found[nth]
