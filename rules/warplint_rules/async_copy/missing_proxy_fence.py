r"""Shared memory written by ordinary stores is read by a copy engine or tensor core with no `fence.proxy.async`.

## Why
Ordinary stores and the asynchronous units reach shared memory by different ways (proxies). A barrier orders the
threads, not the proxies: without `fence.proxy.async` in each writing thread, between its stores and the barrier,
the TMA store, `wgmma` or `tcgen05.mma` may read the old bytes. On an H200 one kernel without it gave wrong results
in a third to most of its launches. (Before a refill the fence is customary only in PTX's own example: a note.)

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
from warplint_rules._say import Reporter

RULE = Rule(Level.ERROR, Symptom.WRONG_RESULT, guide=True, executes=True, local=True)
SAY = Reporter(__name__, RULE)


def check_execution(execution: Execution) -> Iterator[Finding]:
    """One finding for each group of stores; the refill of a slot after ordinary reads is a note."""
    for first, hazards in grouped(execution, lambda h: h.order is Order.NO_FENCE):
        second = hazards[0].second
        yield SAY.at(
            execution.roles,
            second.span,
            f"The {second.what} by {made_by(execution, second)} reads {storage(second)}, which "
            f"{made_by(execution, first)} wrote (line {at(execution, first.span)}) with no `fence.proxy.async` since.",
            threads=made_by(execution, second),
            why="A barrier does not order ordinary stores before the asynchronous proxy: it may read the old bytes.",
            remedy="Execute `fence.proxy.async.shared::cta` in every writing thread, after its stores and before the "
            "barrier that hands over.",
            related=[
                place(execution, first, "the write"),
                *(place(execution, hazard.second, "also read") for hazard in hazards[1:]),
            ],
        )
    for first, hazards in grouped(execution, lambda h: h.order is Order.READ_NO_FENCE):
        second = hazards[0].second
        yield SAY.at(
            execution.roles,
            second.span,
            f"The {second.what} by {made_by(execution, second)} refills {storage(second)} after ordinary reads (line "
            f"{at(execution, first.span)}) with no `fence.proxy.async` between.",
            level=Level.NOTE,
            threads=made_by(execution, second),
            why="The PTX ISA orders ordinary reads before asynchronous writes by a proxy fence in the reader; most "
            "libraries rely on the barrier alone.",
            remedy="Execute `fence.proxy.async.shared::cta` in the readers before they release the slot.",
            related=[place(execution, first, "the read")],
        )
