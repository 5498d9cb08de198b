r"""The source of a bulk store is rewritten before a wait shows that it has been read.

## Why
A TMA or bulk store reads shared memory some time after it is issued. Only `cp.async.bulk.wait_group` in the issuing
thread, strict enough for the group in question, says that it has; and only a barrier after that tells the threads
that rewrite the memory. Otherwise the next tile's bytes go out with this tile's store.

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
    fence_async();
    __syncthreads();
    if (threadIdx.x == 0) {
      store(out + t * 128, tile, 512);
      commit();
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
from warplint.machine.memory import Hazard, Order
from warplint.rule import Rule
from warplint_rules._executed import at, made_by, place, storage
from warplint_rules._hazards import STORES, grouped, leftovers
from warplint_rules._say import Reporter, location, reached, sites

RULE = Rule(Level.ERROR, Symptom.WRONG_RESULT, guide=True, executes=True, local=True)
SAY = Reporter(__name__, RULE)


def check_execution(execution: Execution) -> Iterator[Finding]:
    """One finding per store that is overtaken; a store that nobody waits for at the very end is a note."""
    roles = execution.roles
    uncommitted = {left.span for left in leftovers(execution, "uncommitted-bulk")}
    waits = sites(reached(roles, "cp.async.bulk.wait_group"))
    said = set(uncommitted)
    for first, hazards in grouped(execution, _overtaken):
        said.add(first.span)
        second = hazards[0].second
        mine = [wait for wait in waits if wait.reach.threads & first.threads]
        if first.span in uncommitted:
            missing = "which never commits it"
        elif hazards[0].order is not Order.INCOMPLETE:
            missing = "which has waited for it without telling the writer (no barrier after the wait)"
        elif mine:
            missing = "whose waits leave its group pending"
        else:
            missing = "which never waits for it"
        yield SAY.at(
            roles,
            first.span,
            f"The {first.what} by {made_by(execution, first)}, {missing}, may still read {storage(first)} when "
            f"{made_by(execution, second)} overwrite{'s' if second.threads.bit_count() == 1 else ''} it (line "
            f"{at(execution, second.span)}).",
            threads=made_by(execution, first),
            why="The store reads shared memory after it was issued: it may send the new bytes, or a mixture.",
            remedy="In the issuing thread: `commit_group`, then `wait_group.read 0` (or the number of newer groups "
            "that may stay); then a barrier with the threads that write.",
            related=[
                place(execution, second, "the next write"),
                *(location(roles, wait.op.span, "waits here") for wait in mine),
            ],
        )
    for left in leftovers(execution, "bulk-group"):
        if left.span not in said:
            said.add(left.span)
            yield SAY.at(
                roles,
                left.span,
                "The kernel ends with this bulk store committed and not waited for.",
                level=Level.NOTE,
                why="The documents ask for the wait before the block exits; nothing rewrites the memory here.",
                remedy="Execute `cp.async.bulk.wait_group.read 0` in the issuing thread before it returns.",
            )


def _overtaken(hazard: Hazard) -> bool:
    return (
        hazard.first.what in STORES
        and hazard.second.write
        and hazard.order in (Order.INCOMPLETE, Order.UNJOINED, Order.SAME_WARP)
    )
