r"""Ordinary stores are published by `cp.async.mbarrier.arrive` alone.

## Why
`cp.async.mbarrier.arrive` arrives when the thread's earlier `cp.async` copies are done. It says nothing about
ordinary stores, such as the zeros that pad a partial tile: a reader that waits on the barrier may not see them.
They need a release of their own: `mbarrier.arrive`, or a barrier.

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
__device__ void copy16(void* dst, const void* src) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(smem(dst)), "l"(src) : "memory");
}
__global__ void __launch_bounds__(64) gather(float* out, const float* in, int n) {
  __shared__ alignas(16) float tile[128];
  __shared__ unsigned long long full;
  if (threadIdx.x == 0) init(&full, 32);
  __syncthreads();
  if (threadIdx.x < 32) {
    int i = threadIdx.x * 4;
    if (i < n) {
      copy16(&tile[i], in + i);
    } else {
      tile[i] = 0.f;
    }
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(smem(&full)) : "memory");
  } else {
    wait(&full, 0);
    out[threadIdx.x - 32] = tile[(63 - threadIdx.x) * 4];
  }
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
__device__ void copy16(void* dst, const void* src) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(smem(dst)), "l"(src) : "memory");
}
__global__ void __launch_bounds__(64) gather(float* out, const float* in, int n) {
  __shared__ alignas(16) float tile[128];
  __shared__ unsigned long long full;
  if (threadIdx.x == 0) init(&full, 64);
  __syncthreads();
  if (threadIdx.x < 32) {
    int i = threadIdx.x * 4;
    if (i < n) {
      copy16(&tile[i], in + i);
    } else {
      tile[i] = 0.f;
    }
    arrive(&full);
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(smem(&full)) : "memory");
  } else {
    wait(&full, 0);
    out[threadIdx.x - 32] = tile[(63 - threadIdx.x) * 4];
  }
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.machine import Execution
from warplint.machine.memory import Order
from warplint.rule import Rule
from warplint_rules._executed import at, made_by, place, storage
from warplint_rules._hazards import grouped
from warplint_rules._say import Reporter, location, reached, sites

RULE = Rule(Level.ERROR, Symptom.WRONG_RESULT, executes=True, supersedes=("smem-race",))
SAY = Reporter(__name__, RULE)


def check_execution(execution: Execution) -> Iterator[Finding]:
    """Stores that nothing publishes, in threads that publish their copies through an mbarrier."""
    roles = execution.roles
    arrivals = sites(reached(roles, "cp.async.mbarrier.arrive"))
    if not arrivals:
        return
    for first, hazards in grouped(
        execution, lambda h: h.order is Order.UNJOINED and h.first.what == "ordinary store" and not h.second.write
    ):
        second = hazards[0].second
        after = [a for a in arrivals if a.reach.threads & first.threads and a.op.span.start > first.span.start]
        if not after:
            continue
        yield SAY.at(
            roles,
            first.span,
            f"The ordinary store to {storage(first)} by {made_by(execution, first)} is published only by "
            f"`cp.async.mbarrier.arrive` (line {at(execution, after[0].op.span)}), which covers `cp.async` copies "
            f"alone; {made_by(execution, second)} read it at line {at(execution, second.span)}.",
            threads=made_by(execution, first),
            why="The arrival waits for the asynchronous copies of the thread and orders nothing else: the reader may "
            "see what lay in the buffer before.",
            remedy="Let the storing threads also execute `mbarrier.arrive` (counted in the init), or use zero-filling "
            "copies (`cp.async` with a smaller source size) instead of stores.",
            related=[
                location(roles, after[0].op.span, "this arrival does not cover it"),
                place(execution, second, "the read"),
            ],
        )
