"""A hand-made run: what the renderers are shown, with no analysis involved."""

from warplint.finding import (
    FileReport,
    Finding,
    Guard,
    KernelReport,
    Level,
    Location,
    Reason,
    RuleInfo,
    Symptom,
    TreeNode,
    TreeOp,
    Verdict,
)
from warplint_reports.report import Report

SOURCE = b"""\
#include <cuda_runtime.h>

extern "C" __global__ void __launch_bounds__(256) gemm(float* out, int n) {
  __shared__ float tile[256];
  int warp_id = threadIdx.x / 32;
  tile[threadIdx.x] = out[threadIdx.x];
  if (warp_id == 4) {
    __syncthreads();
    tile[0] = 1.0f;
  }
  while (n > 0) {
    __syncthreads();
    --n;
  }
  out[threadIdx.x] = tile[0];
}
"""

RULES = (
    RuleInfo(
        "cta-barrier-in-divergent-code",
        "participation",
        Level.ERROR,
        Symptom.DEADLOCK,
        "A CTA-wide barrier that some threads of the block never reach",
        "The barrier counts arrivals. Threads that take the other branch never arrive, and the block hangs.",
        "if (threadIdx.x < 32) {\n  __syncthreads();\n}",
        "if (threadIdx.x < 32) {\n  work();\n}\n__syncthreads();",
        guide=True,
    ),
    RuleInfo(
        "smem-race",
        "smem",
        Level.ERROR,
        Symptom.WRONG_RESULT,
        "Two threads access one word with no barrier between them",
        "Without a barrier the order of the accesses is not defined.",
        "a[tid] = x;\ny = a[tid ^ 1];",
        "a[tid] = x;\n__syncthreads();\ny = a[tid ^ 1];",
    ),
)

BARRIER = Finding(
    rule="cta-barrier-in-divergent-code",
    level=Level.ERROR,
    symptom=Symptom.DEADLOCK,
    message="`__syncthreads()` is reached by 32 of 256 threads",
    location=Location("artifacts/gemm.cu", 8, 5, 8, 20),
    kernel="gemm",
    threads="32 of 256 threads: warp 4",
    guards=(Guard("warp_id == 4", "32 of 256 threads: warp 4", 7),),
    why="The other 224 threads never arrive at barrier 0, so that warp 4 waits forever.",
    remedy="Move the barrier out of the branch, or use bar.sync with an id of its own and a count of 32.",
    related=(Location("artifacts/gemm.cu", 7, 7, 7, 19, "this condition depends on the thread"),),
    fingerprint="0123456789abcdef",
)
RACE = Finding(
    rule="smem-race",
    level=Level.WARNING,
    symptom=Symptom.WRONG_RESULT,
    message="tile[0] is written by warp 4 and read by all threads",
    location=Location("artifacts/gemm.cu", 9, 5, 9, 12),
    kernel="gemm",
    steps=(
        Location("artifacts/gemm.cu", 9, 5, 9, 12, "warp 4 writes tile[0]"),
        Location("artifacts/gemm.cu", 15, 22, 15, 29, "warp 0 reads it, nothing orders the two"),
    ),
    fingerprint="fedcba9876543210",
)
TREE = TreeNode(
    "kernel",
    "gemm",
    3,
    "all 256 threads",
    "f" * 64,
    256,
    True,
    (
        TreeNode(
            "if",
            "warp_id == 4",
            7,
            "32 of 256 threads: warp 4",
            format(((1 << 32) - 1) << 128, "x"),
            32,
            True,
            (TreeOp("bar.sync.cta", "__syncthreads", 8, "32 of 256 threads: warp 4"),),
        ),
        TreeNode(
            "loop",
            "n > 0",
            11,
            "all 256 threads",
            "f" * 64,
            256,
            True,
            (TreeOp("bar.sync.cta", "__syncthreads", 12, "all 256 threads"),),
        ),
    ),
)
GEMM = KernelReport(
    name="gemm",
    path="artifacts/gemm.cu",
    line=3,
    verdict=Verdict.FINDINGS,
    findings=(BARRIER, RACE),
    tree=TREE,
    facts=(("block", "256 x 1 x 1 from __launch_bounds__"), ("checks", "structural checks only")),
)
ATTENTION = KernelReport(
    name="attention",
    path="artifacts/attention.cu",
    line=1,
    verdict=Verdict.INCOMPLETE,
    reasons=(Reason("`produce` takes a barrier and is not defined in this file", 4),),
)
FILES = (
    FileReport("artifacts/gemm.cu", kernels=(GEMM,), data=SOURCE),
    FileReport(
        "artifacts/attention.cu", kernels=(ATTENTION,), data=b"__global__ void attention() {\n\n\n produce(b);\n}\n"
    ),
    FileReport("artifacts/gone.cu", problem="cannot be read: Permission denied"),
    FileReport("artifacts/huge.cu", reasons=(Reason("not analysed: larger than 16777216 bytes"),)),
)
REPORT = Report(FILES, RULES, "0.1.0")
