r"""`fence.proxy.async` stands after the barrier that hands the data over, or only in the thread that issues the copy.

## Why
The fence orders the executing thread's own earlier stores. It belongs between the stores and the barrier: behind
the barrier it comes too late for the thread that has already issued the copy, and in the issuing thread alone it
does not cover what the others wrote.

## Bad
```cuda
__device__ unsigned smem(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void store(void* dst, const void* src, unsigned bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
               :: "l"(dst), "r"(smem(src)), "r"(bytes) : "memory");
}
__device__ void commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
__device__ void wait_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
__device__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__global__ void __launch_bounds__(128) write_back(float* out, const float* in, int tiles) {
  __shared__ alignas(128) float tile[128];
  for (int t = 0; t < tiles; ++t) {
    tile[threadIdx.x] = in[t * 128 + threadIdx.x] + 1.f;
    __syncthreads();
    if (threadIdx.x == 0) {
      fence_async();
      store(out + t * 128, tile, 512);
      commit();
      wait_read();
    }
    __syncthreads();
  }
}
```

## Good
```cuda
__device__ unsigned smem(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void store(void* dst, const void* src, unsigned bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
               :: "l"(dst), "r"(smem(src)), "r"(bytes) : "memory");
}
__device__ void commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
__device__ void wait_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
__device__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__global__ void __launch_bounds__(128) write_back(float* out, const float* in, int tiles) {
  __shared__ alignas(128) float tile[128];
  for (int t = 0; t < tiles; ++t) {
    tile[threadIdx.x] = in[t * 128 + threadIdx.x] + 1.f;
    fence_async();
    __syncthreads();
    if (threadIdx.x == 0) {
      store(out + t * 128, tile, 512);
      commit();
      wait_read();
    }
    __syncthreads();
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

RULE = Rule(Level.ERROR, Symptom.WRONG_RESULT, executes=True, local=True)
SAY = Reporter(__name__, RULE)


def check_execution(execution: Execution) -> Iterator[Finding]:
    """A fence behind the hand-over is an error; one in the issuing thread only, a warning."""
    roles = execution.roles
    fences = sites(reached(roles, "fence.proxy.async"))
    for order, level in ((Order.LATE_FENCE, None), (Order.ISSUER_FENCE, Level.WARNING)):
        for first, hazards in grouped(execution, lambda h, order=order: h.order is order):
            second = hazards[0].second
            where = "only in the issuing thread, after" if order is Order.ISSUER_FENCE else "after"
            yield SAY.at(
                roles,
                second.span,
                f"`fence.proxy.async` stands {where} the barrier that hands {storage(second)} from "
                f"{made_by(execution, first)} (line {at(execution, first.span)}) to the {second.what}.",
                level=level,
                threads=made_by(execution, second),
                why="The fence orders the stores of the thread that executes it, before that thread's barrier. Here "
                "the writers have passed the barrier without it, so the asynchronous proxy may read the old bytes.",
                remedy="Move it into every writing thread, between its stores and the barrier.",
                related=[
                    place(execution, first, "the write"),
                    *(location(roles, fence.op.span, "the fence") for fence in fences),
                ],
            )
