"""The number of tensor-memory columns is not one the allocator takes, or dealloc gives back another number.

## Why
`tcgen05.alloc` takes a power of two from 32 to 512 columns, and an SM has 512. Another number, or a `dealloc` that
names other columns than the allocation, leaves the allocator in an undefined state: the next allocation blocks or
overlaps, in this block or in the next one on the SM. The assembler checks literals only.

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
  fence_before();
  __syncthreads();
  fence_after();
  unsigned base = slot;
  out[threadIdx.x] = tmem_read(base + ((unsigned)(warp * 32) << 16));
  fence_before();
  __syncthreads();
  fence_after();
  if (warp == 0) tmem_dealloc(base, 32);
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
from warplint_rules._say import Reporter, line, location, sites, spelled, unique
from warplint_rules._say import warps as warps_text
from warplint_rules._tmem import COLUMNS, matching, tmem
from warplint_rules._words import exclusive

RULE = Rule(Level.ERROR, Symptom.CRASH)
SAY = Reporter(__name__, RULE)

SMALLEST = 32


def check(roles: Roles) -> Iterator[Finding]:
    """Illegal sizes, then deallocations that differ, then the sum over allocations."""
    known = tmem(roles)
    yield from unique(_sizes(roles, known.allocs))
    yield from unique(_differences(roles, known.deallocs))
    yield from _total(roles, known.allocs, known.deallocs)


def _sizes(roles: Roles, allocs: tuple[Event, ...]) -> Iterator[Finding]:
    for event in allocs:
        columns = event.constant("columns")
        if columns is None or _legal(columns) or _exclusive(event):
            continue
        yield SAY.at(
            roles,
            event,
            f"{spelled(event)} by {warps_text(roles, event.reach.threads)} asks for {columns} columns of tensor "
            f"memory, which is not a power of two from {SMALLEST} to {COLUMNS}.",
            why="The allocator is left in an undefined state: the request blocks, or columns overlap.",
            remedy=f"Allocate {_next(columns)} columns and deallocate the same number.",
        )


def _exclusive(event: Event) -> bool:
    """An allocation of all of tensor memory, of which newer architectures have more; its sizes are not known here."""
    return bool(event.op.mods.get("exclusive")) or "exclusive" in event.op.spelling


def _legal(columns: int) -> bool:
    return SMALLEST <= columns <= COLUMNS and columns & (columns - 1) == 0


def _next(columns: int) -> int:
    """The smallest legal number that holds as many columns, as far as there is one."""
    size = SMALLEST
    while size < columns and size < COLUMNS:
        size *= 2
    return size


def _differences(roles: Roles, deallocs: tuple[Event, ...]) -> Iterator[Finding]:
    for event in deallocs:
        columns = event.constant("columns")
        allocs = [alloc for alloc in matching(roles, event) if not exclusive(alloc, event)]
        sizes = [alloc.constant("columns") for alloc in allocs]
        if columns is None or not sizes or None in sizes or columns in sizes:
            continue
        alloc = allocs[0]
        yield SAY.at(
            roles,
            event,
            f"{spelled(event)} gives back {columns} columns of tensor memory, and the allocation at line "
            f"{line(roles, alloc.op.span)} took {sizes[0]}.",
            why="The columns must be those of the allocation: the rest stays allocated, and later allocations on this "
            "SM block or overlap.",
            remedy=f"Deallocate {sizes[0]} columns.",
            related=[location(roles, alloc.op.span, f"allocated here: {sizes[0]} columns") for alloc in sites(allocs)],
        )


def _total(roles: Roles, allocs: tuple[Event, ...], deallocs: tuple[Event, ...]) -> Iterator[Finding]:
    if any(event.loops or _exclusive(event) for event in allocs) or len(allocs) < 2:
        return
    for index, last in enumerate(allocs):
        together = [
            event
            for event in allocs[: index + 1]
            if not exclusive(event, last) and not any(event.order < d.order < last.order for d in deallocs)
        ]
        sizes = [event.constant("columns") for event in together]
        legal = [size for size in sizes if size is not None and _legal(size)]
        if len(legal) == len(sizes) and sum(legal) > COLUMNS:
            yield SAY.at(
                roles,
                last,
                f"{spelled(last)} by {warps_text(roles, last.reach.threads)} raises the tensor memory held by the "
                f"block to {sum(legal)} columns; an SM has {COLUMNS}.",
                why="The allocation waits for columns that this block itself holds: it never returns.",
                remedy="Allocate less, or deallocate first.",
                related=[
                    location(roles, event.op.span, f"{size} columns")
                    for event, size in zip(together, legal, strict=True)
                    if event is not last
                ],
            )
            return
