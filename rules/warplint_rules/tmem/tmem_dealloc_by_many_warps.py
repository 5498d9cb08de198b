"""More than one warp deallocates, or relinquishes for, one tensor-memory allocation.

## Why
`tcgen05.dealloc` is one operation of one warp. A guard that holds in several warps, such as `warp % 4 == 0` in a
block of two warpgroups, frees the same columns more than once: by then they may belong to another block on the SM.
It goes unnoticed while one block at a time runs there.

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
__global__ void __launch_bounds__(256) epilogue(unsigned* out) {
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
  out[threadIdx.x] = tmem_read(base + ((unsigned)(warp % 4 * 32) << 16));
  fence_before();
  __syncthreads();
  fence_after();
  if (warp % 4 == 0) tmem_dealloc(base, 64);
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
__global__ void __launch_bounds__(256) epilogue(unsigned* out) {
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
  out[threadIdx.x] = tmem_read(base + ((unsigned)(warp % 4 * 32) << 16));
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
from warplint_rules._say import Reporter, line, location, spelled, under
from warplint_rules._say import warps as warps_text
from warplint_rules._tmem import matching, tmem
from warplint_rules._words import exclusive, warps

RULE = Rule(Level.WARNING, Symptom.CRASH)
SAY = Reporter(__name__, RULE)


def check(roles: Roles) -> Iterator[Finding]:
    """One finding per kernel: the first operation that several warps execute for one allocation."""
    known = tmem(roles)
    if not known.allocs or not all(event.reach.exact for event in known.allocs):
        return
    repeated = [event for event in (*known.deallocs, *known.relinquishes) if _too_many(roles, event)]
    if repeated:
        event = next((one for one in repeated if one.name == "tcgen05.dealloc"), repeated[0])
        count = len(warps(roles, event.reach.threads))
        alloc = matching(roles, event)[0]
        yield SAY.at(
            roles,
            event,
            f"{spelled(event)} is executed by {count} warps ({warps_text(roles, event.reach.threads)})"
            f"{under(roles, event.guards)} for one allocation by {warps_text(roles, alloc.reach.threads)} (line "
            f"{line(roles, alloc.op.span)}).",
            why="It is one operation of one warp. The second one gives back columns that may belong to another block "
            "on the SM by then; that goes unnoticed while a single block runs there.",
            remedy="Let exactly one warp of the block execute it: test the warp's index in the block, not its index in "
            "the warpgroup.",
            related=[
                location(roles, alloc.op.span, "allocated here"),
                *(location(roles, other.op.span, "so is this") for other in repeated if other is not event),
            ],
        )
        return
    yield from _two_sites(roles, [event for event in known.deallocs if event.reach.exact])


def _too_many(roles: Roles, event: Event) -> bool:
    """More warps give back than allocated, from one site."""
    if not event.reach.exact:
        return False
    count = len(warps(roles, event.reach.threads))
    if count < 2:
        return False
    if event.name == "tcgen05.relinquish_alloc_permit":
        allocating = 0
        for alloc in tmem(roles).allocs:
            allocating |= alloc.reach.threads
        return count > len(warps(roles, allocating))
    return count > sum(len(warps(roles, alloc.reach.threads)) for alloc in matching(roles, event))


def _two_sites(roles: Roles, deallocs: list[Event]) -> Iterator[Finding]:
    """Two sites by different warps, both executed whatever the data, for the only allocation there is."""
    allocs = tmem(roles).allocs
    if len(allocs) != 1 or len(warps(roles, allocs[0].reach.threads)) != 1:
        return
    certain = [event for event in deallocs if not event.loops and all(guard.known for guard in event.guards)]
    for index, event in enumerate(certain):
        mine = warps(roles, event.reach.threads).keys()
        for other in certain[:index]:
            if exclusive(other, event) or mine & warps(roles, other.reach.threads).keys():
                continue
            yield SAY.at(
                roles,
                event,
                f"{spelled(event)} by {warps_text(roles, event.reach.threads)} deallocates what "
                f"{warps_text(roles, other.reach.threads)} deallocates as well (line {line(roles, other.op.span)}).",
                why="The second one gives back columns that may belong to another block on the SM by then.",
                remedy="Let exactly one warp of the block deallocate.",
                related=[location(roles, other.op.span, "the other deallocation")],
            )
            return
