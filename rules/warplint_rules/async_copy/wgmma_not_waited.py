r"""Operands or accumulators of `wgmma` are reused before `wgmma.wait_group` shows that it has finished.

## Why
`wgmma.mma_async` reads its shared-memory operands after it was issued. Until `wgmma.commit_group` and
`wgmma.wait_group` have been executed by the warpgroup, a refill of the stage changes the operands under it.

## Bad
```cuda
__device__ unsigned smem(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void init(unsigned long long* b, unsigned n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(smem(b)), "r"(n) : "memory");
}
__device__ void arrive(unsigned long long* b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(smem(b)) : "memory");
}
__device__ void wait(unsigned long long* b, unsigned parity) {
  asm volatile("{\n .reg .pred p;\n W_%=:\n mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n @!p bra W_%=;\n}"
               :: "r"(smem(b)), "r"(parity) : "memory");
}
__device__ void fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ unsigned long long descriptor(const void* p) { return (smem(p) & 0x3FFFF) >> 4 | 1ull << 16 | 8ull << 32; }
__device__ void multiply(float (&d)[4], unsigned long long a, unsigned long long b) {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b));
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
__device__ void wait_multiply() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
__global__ void __launch_bounds__(128) gemm(float* out, const uint4* in, int n) {
  __shared__ alignas(128) uint4 a[128];
  __shared__ alignas(128) uint4 b[16];
  float d[4] = {0.f, 0.f, 0.f, 0.f};
  for (int k = 0; k < n; ++k) {
    a[threadIdx.x] = in[k * 144 + threadIdx.x];
    if (threadIdx.x < 16) b[threadIdx.x] = in[k * 144 + 128 + threadIdx.x];
    fence_async();
    __syncthreads();
    multiply(d, descriptor(a), descriptor(b));
    __syncthreads();
  }
  wait_multiply();
  out[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
}
```

## Good
```cuda
__device__ unsigned smem(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void init(unsigned long long* b, unsigned n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(smem(b)), "r"(n) : "memory");
}
__device__ void arrive(unsigned long long* b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(smem(b)) : "memory");
}
__device__ void wait(unsigned long long* b, unsigned parity) {
  asm volatile("{\n .reg .pred p;\n W_%=:\n mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n @!p bra W_%=;\n}"
               :: "r"(smem(b)), "r"(parity) : "memory");
}
__device__ void fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ unsigned long long descriptor(const void* p) { return (smem(p) & 0x3FFFF) >> 4 | 1ull << 16 | 8ull << 32; }
__device__ void multiply(float (&d)[4], unsigned long long a, unsigned long long b) {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b));
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
__device__ void wait_multiply() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
__global__ void __launch_bounds__(128) gemm(float* out, const uint4* in, int n) {
  __shared__ alignas(128) uint4 a[128];
  __shared__ alignas(128) uint4 b[16];
  float d[4] = {0.f, 0.f, 0.f, 0.f};
  for (int k = 0; k < n; ++k) {
    a[threadIdx.x] = in[k * 144 + threadIdx.x];
    if (threadIdx.x < 16) b[threadIdx.x] = in[k * 144 + 128 + threadIdx.x];
    fence_async();
    __syncthreads();
    multiply(d, descriptor(a), descriptor(b));
    wait_multiply();
    __syncthreads();
  }
  out[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.machine import Execution
from warplint.machine.memory import Hazard, Order
from warplint.rule import Rule
from warplint_rules._executed import at, made_by, place, storage
from warplint_rules._hazards import grouped
from warplint_rules._say import Reporter, location, reached, sites

RULE = Rule(Level.ERROR, Symptom.WRONG_RESULT, executes=True, local=True)
SAY = Reporter(__name__, RULE)


def check_execution(execution: Execution) -> Iterator[Finding]:
    """One finding per wgmma whose operand is overwritten while it may still read it."""
    roles = execution.roles
    waits = sites(reached(roles, "wgmma.wait_group"))
    for first, hazards in grouped(execution, _running):
        second = hazards[0].second
        yield SAY.at(
            roles,
            first.span,
            f"The `{first.what}` by {made_by(execution, first)} may still read {storage(first)} when "
            f"{made_by(execution, second)} overwrite{'s' if second.threads.bit_count() == 1 else ''} it (line "
            f"{at(execution, second.span)}): no `wgmma.wait_group` stands between.",
            threads=made_by(execution, first),
            why="The multiplication reads shared memory after it was issued: it may take the new operands.",
            remedy="Execute `wgmma.commit_group` and `wgmma.wait_group` (with the number of newer groups that may "
            "stay) before the slot is released or rewritten.",
            related=[
                place(execution, second, "the next write"),
                *(location(roles, wait.op.span, "waits here") for wait in waits),
            ],
        )


def _running(hazard: Hazard) -> bool:
    return hazard.order is Order.INCOMPLETE and hazard.first.what.startswith("wgmma") and hazard.second.write
