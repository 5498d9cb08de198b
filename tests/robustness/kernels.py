"""The kernels that the robustness tests damage, and what every report must be whatever the bytes were."""

from __future__ import annotations

from functools import cache

from warplint.engine import Settings, lint_bytes
from warplint.finding import FileReport, Finding, Level

SETTINGS = Settings(arch="sm_90a", level=Level.NOTE)

# About 4 kB in the shape of generated code: helpers with inline assembly, a pool, a ring of barriers, two roles.
PIPELINE = r"""#include <cuda.h>
#include <cuda_fp16.h>
#define STAGES 3
#define FULL(s) (full_base + (s) * 8)
#define EMPTY(s) (full_base + (STAGES + (s)) * 8)

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define UNROLL _Pragma("unroll 1")
#else
#error "this kernel needs bulk tensor copies"
#endif

struct __align__(8) Params { const half* bias; int tiles; float scale; };

static __device__ __forceinline__ unsigned smem_u32(const void* pointer) {
  return (unsigned)__cvta_generic_to_shared(pointer);
}
__device__ __forceinline__ void barrier_init(unsigned bar, int count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;\n" :: "r"(bar), "r"(count) : "memory");
}
__device__ __forceinline__ void expect_bytes(unsigned bar, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" :: "r"(bar), "r"(bytes) : "memory");
}
__device__ __forceinline__ void arrive(unsigned bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];\n" :: "r"(bar) : "memory");
}
__device__ __forceinline__ void wait(unsigned bar, int parity) {
  asm volatile("{\n.reg .pred done;\nAGAIN:\n"
               "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
               "@done bra FINISHED;\nbra AGAIN;\nFINISHED:\n}\n" :: "r"(bar), "r"(parity) : "memory");
}
__device__ __forceinline__ void load_tile(unsigned dst, const CUtensorMap* map, unsigned bar, int x, int y) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
               " [%0], [%1, {%3, %4}], [%2];\n" :: "r"(dst), "l"(map), "r"(bar), "r"(x), "r"(y) : "memory");
}

template <int kLanes>
__device__ __forceinline__ float reduce(float value) {
  for (int distance = kLanes / 2; distance > 0; distance >>= 1) {
    value += __shfl_xor_sync(0xffffffffu, value, distance);
  }
  return value;
}

// A kernel of its own: whatever happens to the text behind it, what is said about this one stays the same.
extern "C" __global__ void __launch_bounds__(128) row_sums(const float* __restrict__ in, float* __restrict__ out) {
  __shared__ float part[4];
  float value = reduce<32>(in[blockIdx.x * 128 + threadIdx.x]);
  if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;
  __syncthreads();
  if (threadIdx.x == 0) out[blockIdx.x] = part[0] + part[1] + part[2] + part[3];
}

extern "C" __global__ void __launch_bounds__(256, 1)
pipeline(const __grid_constant__ CUtensorMap map, Params params, float* __restrict__ out) {
  extern __shared__ __align__(1024) unsigned char pool[];
  const unsigned tile_base = smem_u32(pool);
  const unsigned full_base = tile_base + STAGES * 8192;
  const int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x >> 5, 0);
  const int lane = threadIdx.x & 31;
  if (threadIdx.x == 0) {
    for (int s = 0; s < STAGES; ++s) {
      barrier_init(FULL(s), 1);
      barrier_init(EMPTY(s), 128);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (warp == 4) {
    if (lane == 0) {
      UNROLL for (int k = 0; k < 8; ++k) {
        int s = k % STAGES;
        wait(EMPTY(s), ((k / STAGES) & 1) ^ 1);
        expect_bytes(FULL(s), 8192);
        load_tile(tile_base + s * 8192, &map, FULL(s), k * 64, blockIdx.x * 64);
      }
    }
  } else if (warp < 4) {
    float sum = 0.f; /* one value a thread: "enough" for a test */
    for (int k = 0; k < 8; ++k) {
      int s = k % STAGES;
      wait(FULL(s), (k / STAGES) & 1);
      sum += __half2float(((const half*)(pool + s * 8192))[threadIdx.x]) * params.scale;
      arrive(EMPTY(s));
    }
    asm volatile("bar.sync 1, 128;" ::: "memory");
    sum = reduce<32>(sum);
    switch (warp) {
      case 0:
        out[blockIdx.x * 4] = lane == 0 ? sum : 0.f;
        break;
      default:
        if (lane == 0) out[blockIdx.x * 4 + warp] = sum;
    }
  } else {
    auto idle = [&](int id) { return id > 4 ? '5' : '\''; };
    (void)idle(warp);
  }
  __syncthreads();
}

// The host side: what a generator writes beside its kernel, with the launch that says how many threads there are.
void launch(dim3 grid, CUtensorMap map, Params params, float* out) {
  pipeline<<<grid, 256, STAGES * 8192 + 64>>>(map, params, out);
}
"""

BARRIER = """\
__global__ void __launch_bounds__(256) broken(float* out) {
  if (threadIdx.x < 32) {
    __syncthreads();
  }
  __syncthreads();
  out[threadIdx.x] = 0.0f;
}
"""
"""One known fault, at line 3."""


def lint(data: bytes | str, settings: Settings = SETTINGS) -> FileReport:
    """A report of bytes, checked for what must hold of every report."""
    raw = data.encode() if isinstance(data, str) else data
    report = lint_bytes("kernel.cu", raw, settings)
    check(report, raw)
    return report


def check(report: FileReport, data: bytes) -> None:
    """No fault of our own, and every line that is named exists."""
    assert report.problem == "", report.problem
    lines = data.count(b"\n") + data.count(b"\r") + 1
    for kernel in report.kernels:
        assert 1 <= kernel.line <= lines
        assert all(0 <= reason.line <= lines and reason.text for reason in kernel.reasons)
    for finding in findings(report):
        for place in (finding.location, *finding.related, *finding.steps):
            assert 1 <= place.line <= lines


def findings(report: FileReport) -> list[Finding]:
    """All findings of a file."""
    return [*report.findings, *(finding for kernel in report.kernels for finding in kernel.findings)]


def loud(report: FileReport) -> list[tuple[str, int]]:
    """Rules and lines of what is worse than a note."""
    return [(f.rule, f.location.line) for f in findings(report) if f.level is not Level.NOTE]


@cache
def whole() -> FileReport:
    """The undamaged pipeline kernel."""
    return lint(PIPELINE)
