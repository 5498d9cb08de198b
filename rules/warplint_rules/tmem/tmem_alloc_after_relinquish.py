"""A tensor-memory allocation follows `relinquish_alloc_permit`.

## Why
After `tcgen05.relinquish_alloc_permit` no thread of the block may allocate again. The hardware has handed the
permit to the next block: the allocation blocks for ever or is undefined.

## Bad
```cuda
__device__ unsigned smem(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void tmem_alloc(unsigned* slot, unsigned columns) {
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;"
               :: "r"(smem(slot)), "r"(columns) : "memory");
}
__device__ void tmem_relinquish() { asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"); }
__device__ void tmem_dealloc(unsigned base, unsigned columns) {
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" :: "r"(base), "r"(columns));
}
__device__ unsigned tmem_read(unsigned address) {
  unsigned value;
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=r"(value) : "r"(address) : "memory");
  asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
  return value;
}
__device__ void fence_before() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
__device__ void fence_after() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }
__global__ void __launch_bounds__(128) epilogue(unsigned* out) {
  __shared__ unsigned slot;
  int warp = threadIdx.x / 32;
  if (warp == 0) {
    tmem_relinquish();
    tmem_alloc(&slot, 64);
  }
  fence_before();
  __syncthreads();
  fence_after();
  unsigned base = slot;
  out[threadIdx.x] = tmem_read(base + ((unsigned)(warp * 32) << 16));
  fence_before();
  __syncthreads();
  fence_after();
  if (warp == 0) tmem_dealloc(base, 64);
}
```

## Good
```cuda
__device__ unsigned smem(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void tmem_alloc(unsigned* slot, unsigned columns) {
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;"
               :: "r"(smem(slot)), "r"(columns) : "memory");
}
__device__ void tmem_relinquish() { asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;"); }
__device__ void tmem_dealloc(unsigned base, unsigned columns) {
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" :: "r"(base), "r"(columns));
}
__device__ unsigned tmem_read(unsigned address) {
  unsigned value;
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=r"(value) : "r"(address) : "memory");
  asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
  return value;
}
__device__ void fence_before() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
__device__ void fence_after() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }
__global__ void __launch_bounds__(128) epilogue(unsigned* out) {
  __shared__ unsigned slot;
  int warp = threadIdx.x / 32;
  if (warp == 0) {
    tmem_alloc(&slot, 64);
    tmem_relinquish();
  }
  fence_before();
  __syncthreads();
  fence_after();
  unsigned base = slot;
  out[threadIdx.x] = tmem_read(base + ((unsigned)(warp * 32) << 16));
  fence_before();
  __syncthreads();
  fence_after();
  if (warp == 0) tmem_dealloc(base, 64);
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.rule import Rule
from warplint.threads.facts import Event, Roles
from warplint_rules._order import order_of
from warplint_rules._say import Reporter, line, location, spelled
from warplint_rules._say import warps as warps_text
from warplint_rules._tmem import tmem
from warplint_rules._words import exclusive, warps

RULE = Rule(Level.ERROR, Symptom.DEADLOCK)
SAY = Reporter(__name__, RULE)


def check(roles: Roles) -> Iterator[Finding]:
    """One finding per allocation site that comes after some relinquish."""
    known = tmem(roles)
    said: set[int] = set()
    for alloc in known.allocs:
        for relinquish in known.relinquishes:
            if id(alloc.op) in said or exclusive(relinquish, alloc):
                continue
            if _follows(roles, relinquish, alloc):
                said.add(id(alloc.op))
                yield _finding(roles, relinquish, alloc, "follows", None)
            elif (again := _next_trip(relinquish, alloc)) is not None:
                said.add(id(alloc.op))
                yield _finding(
                    roles,
                    relinquish,
                    alloc,
                    "is executed again in the second iteration, after",
                    None if again else Level.WARNING,
                )


def _finding(roles: Roles, relinquish: Event, alloc: Event, how: str, level: Level | None) -> Finding:
    return SAY.at(
        roles,
        alloc,
        f"{spelled(alloc)} by {warps_text(roles, alloc.reach.threads)} {how} the `relinquish_alloc_permit` of "
        f"{warps_text(roles, relinquish.reach.threads)} (line {line(roles, relinquish.op.span)}).",
        level=level,
        why="The block has given its right to allocate away: the allocation blocks for ever or is undefined.",
        remedy="Relinquish after the last allocation.",
        related=[location(roles, relinquish.op.span, "relinquished here")],
    )


def _follows(roles: Roles, relinquish: Event, alloc: Event) -> bool:
    """The relinquish certainly comes first: in program order of one warp, or before a barrier that both passed."""
    if relinquish.order > alloc.order:
        return False
    if warps(roles, relinquish.reach.threads).keys() & warps(roles, alloc.reach.threads).keys():
        return True
    return order_of(roles).base(alloc) > relinquish.order


def _next_trip(relinquish: Event, alloc: Event) -> bool | None:
    """Both stand in one loop: True when it certainly runs twice, False when it may, None when it does not."""
    shared = [loop for loop in alloc.loops if any(loop is other for other in relinquish.loops)]
    if not shared or shared[-1].trips == 1 or alloc.iteration:
        return None
    return bool(shared[-1].trips)
