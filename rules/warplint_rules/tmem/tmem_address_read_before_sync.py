"""A warp reads the tensor-memory address with no barrier after the allocation that writes it.

## Why
`tcgen05.alloc` writes the address of the columns to a shared word, like an ordinary store. A warp that reads the
word with no barrier in between gets what lay there before: its tensor-memory accesses go to a wrong place.

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
    tmem_alloc(&slot, 64);
    tmem_relinquish();
  }
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
from warplint.threads.facts import Roles
from warplint_rules._order import order_of
from warplint_rules._place import belongs_behind
from warplint_rules._say import Reporter, line, location, threads, under
from warplint_rules._say import warps as warps_text
from warplint_rules._tmem import SlotRead, may_read_before, slot_reads, tmem, written_slots
from warplint_rules._words import warps

RULE = Rule(Level.ERROR, Symptom.CRASH)
SAY = Reporter(__name__, RULE)


def check(roles: Roles) -> Iterator[Finding]:
    """One finding per allocation: the first read that nothing orders after it."""
    order = order_of(roles)
    allocs = tmem(roles).allocs
    if order.uncertain:
        return
    for alloc in allocs:
        slots = written_slots(alloc)
        if not slots or not alloc.reach.exact:
            continue
        if any(other is not alloc and (written_slots(other) or slots) & slots for other in allocs):
            continue
        join = order.join_after(alloc)
        if join is not None and not may_read_before(roles, slots, join):
            continue  # the common case: a CTA barrier stands between
        writers = warps(roles, alloc.reach.threads)
        found: list[tuple[SlotRead, int]] = []
        for read in slot_reads(roles):
            if read.slot not in slots or not read.reach.exact or (read.loops and read.order < alloc.order):
                continue
            if order.joined(read.order, read.guards) > alloc.order:
                continue
            missed = 0
            for warp, lanes in warps(roles, read.reach.threads).items():
                if warp in writers:
                    continue
                if not any(order.before_first(alloc, writer, read.order, read.loops, warp) for writer in writers):
                    missed |= lanes << warp * roles.launch.warp_size
            if missed:
                found.append((read, missed))
        if found:
            read, missed = found[0]
            yield SAY.at(
                roles,
                read.span,
                f"{threads(roles, missed)} read the tensor-memory address{under(roles, read.guards)} with no barrier "
                f"after its allocation by {warps_text(roles, alloc.reach.threads)} "
                f"(line {line(roles, alloc.op.span)}).",
                threads=threads(roles, missed),
                guards=read.guards,
                why="The allocation writes the word like a store: without a barrier these warps may read what lay "
                "there before, and access tensor memory at a wrong address.",
                remedy="Put a CTA barrier that all of them reach between the allocation and the first read of the "
                "address.",
                related=[
                    location(roles, alloc.op.span, "the allocation"),
                    belongs_behind(roles, alloc, read.order, "the CTA barrier belongs behind this"),
                    *(location(roles, other.span, "also read here") for other, _ in found[1:]),
                ],
            )
