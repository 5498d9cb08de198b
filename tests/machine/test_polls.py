"""Flags in shared memory: a queue of one slot between two warps, right, and with one fault each."""

from __future__ import annotations

import pytest

from warplint.engine import Settings, lint_bytes
from warplint.finding import KernelReport, Verdict

HELPERS = """
static __device__ __forceinline__ unsigned u32(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
static __device__ __forceinline__ int load(const int* p) {
  int v;
  asm volatile("ld.acquire.cta.shared.s32 %0, [%1];" : "=r"(v) : "r"(u32(p)) : "memory");
  return v;
}
static __device__ __forceinline__ void store(int* p, int v) {
  asm volatile("st.release.cta.shared.s32 [%0], %1;" :: "r"(u32(p)), "r"(v) : "memory");
}
static __device__ __forceinline__ void wait_for(const int* p, int x) {
  while (true) {
    if (load(p) == x) return;
    __nanosleep(20);
  }
}
"""
QUEUE = """
extern "C" __global__ void __launch_bounds__(64) queue(float* out, const float* in, int n) {
  __shared__ int flag;
  __shared__ float tile[32];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) flag = 0;
  __syncthreads();
  for (int i = 0; i < n; ++i) {
    if (warp == 0) {
      if (lane == 0) wait_for(&flag, 2 * i);
      __syncwarp();
      tile[lane] = in[i * 32 + lane];
      __syncwarp();
      if (lane == 0) store(&flag, 2 * i + 1);
    } else {
      if (lane == 0) wait_for(&flag, 2 * i + 1);
      __syncwarp();
      out[i * 32 + lane] = tile[31 - lane];
      __syncwarp();
      if (lane == 0) store(&flag, 2 * i + 2);
    }
  }
}
"""
VOLATILE = """
extern "C" __global__ void __launch_bounds__(64) queue(float* out, const float* in, int n) {
  __shared__ volatile int flag;
  __shared__ float tile[32];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  if (threadIdx.x == 0) flag = 0;
  __syncthreads();
  for (int i = 0; i < n; ++i) {
    if (warp == 0) {
      if (lane == 0) { while (flag != 2 * i) {} __threadfence_block(); }
      __syncwarp();
      tile[lane] = in[i * 32 + lane];
      __syncwarp();
      if (lane == 0) { __threadfence_block(); flag = 2 * i + 1; }
    } else {
      if (lane == 0) { while (flag != 2 * i + 1) {} __threadfence_block(); }
      __syncwarp();
      out[i * 32 + lane] = tile[31 - lane];
      __syncwarp();
      if (lane == 0) { __threadfence_block(); flag = 2 * i + 2; }
    }
  }
}
"""
AHEAD = """
extern "C" __global__ void __launch_bounds__(64) count(float* out, const float* in, int n) {
  __shared__ int flag;
  if (threadIdx.x == 0) flag = 0;
  __syncthreads();
  for (int i = 0; i < n; ++i) {
    if (threadIdx.x == 0) store(&flag, i + 1);
    if (threadIdx.x == 32) { while (load(&flag) < i + 1) {} }
  }
}
"""


def judged(source: str) -> KernelReport:
    report = lint_bytes("polls.cu", (HELPERS + source).encode(), Settings(arch="sm_90a"))
    (kernel,) = report.kernels
    return kernel


@pytest.mark.parametrize("source", [QUEUE, VOLATILE, AHEAD])
def test_a_loop_that_waits_for_a_known_store_is_a_wait(source: str) -> None:
    kernel = judged(source)
    assert (kernel.verdict, kernel.findings) == (Verdict.CLEAN, ())


@pytest.mark.parametrize(
    ("source", "old", "new", "rule"),
    [
        (QUEUE, "+ lane];\n      __syncwarp();", "+ lane];", "arrive-before-group-joined"),
        (QUEUE, "- lane];\n      __syncwarp();", "- lane];", "arrive-before-group-joined"),
        (QUEUE, "flag, 2 * i + 1);\n      __syncwarp();\n      out", "flag, 2 * i + 1);\n      out", "smem-race"),
        (QUEUE, "wait_for(&flag, 2 * i + 1)", "wait_for(&flag, 2 * i + 3)", "protocol-deadlock"),
        (QUEUE, "if (lane == 0) store(&flag, 2 * i + 2);", "", "protocol-deadlock"),
        (QUEUE, "flag = 0;\n  __syncthreads();", "flag = 0;", "smem-race"),
        (VOLATILE, "__threadfence_block(); flag = 2 * i + 1", "flag = 2 * i + 1", "flag-publish-without-release"),
        (VOLATILE, "!= 2 * i + 1) {} __threadfence_block();", "!= 2 * i + 1) {}", "flag-wait-without-acquire"),
        (VOLATILE, "+ lane];\n      __syncwarp();", "+ lane];", "arrive-before-group-joined"),
    ],
)
def test_one_fault_of_a_flag_is_one_finding(source: str, old: str, new: str, rule: str) -> None:
    assert source.count(old) == 1
    assert [finding.rule for finding in judged(source.replace(old, new)).findings] == [rule]


@pytest.mark.parametrize(
    ("source", "old", "new", "reason"),
    [
        (QUEUE, "if (lane == 0) wait_for(&flag, 2 * i);", "", "nothing orders this store and an earlier one"),
        (AHEAD, "< i + 1", "!= i + 1", "may miss the value"),
        (AHEAD, "store(&flag, i + 1)", "atomicAdd(&flag, 1)", "waits for a word of memory"),
        (AHEAD, "load(&flag) < i + 1", "atomicCAS(&flag, 0, 1) != 0", "waits for a word of memory"),
        (AHEAD, "store(&flag, i + 1)", "store(&flag, __float2int_rn(in[i]))", "wait for ever"),
    ],
)
def test_what_is_not_certain_is_a_reason(source: str, old: str, new: str, reason: str) -> None:
    assert source.count(old) == 1
    kernel = judged(source.replace(old, new))
    assert kernel.verdict is Verdict.INCOMPLETE
    assert any(reason in one.text for one in kernel.reasons), kernel.reasons
