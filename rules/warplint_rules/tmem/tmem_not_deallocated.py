"""A tensor-memory allocation is live when the kernel ends.

## Why
Tensor memory is not given back at the end of a block. The next block on the SM, of this kernel or of another, waits
for columns that never come free, or the launch ends with an error.

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
from warplint.program.ir import Exit, walk
from warplint.rule import Rule
from warplint.threads.facts import Event, ExitFact, Roles
from warplint_rules._say import Reporter, guard_places, line, location, narrowing, sites, spelled, threads, under, who
from warplint_rules._say import warps as warps_text
from warplint_rules._tmem import Tmem, tmem
from warplint_rules._words import has_opaque

RULE = Rule(Level.ERROR, Symptom.CRASH)
SAY = Reporter(__name__, RULE)


def check(roles: Roles) -> Iterator[Finding]:
    """No deallocation at all, or a way out of the kernel that goes past it."""
    known = tmem(roles)
    if not known.allocs or has_opaque(roles):
        return
    if not known.deallocs:
        yield _never(roles, known)
        return
    yield from _ways_out(roles, known.allocs, known.deallocs)


def _never(roles: Roles, known: Tmem) -> Finding:
    alloc = known.allocs[0]
    by = warps_text(roles, alloc.reach.threads)
    why = "The columns stay taken after the block has ended: the next block on the SM waits for them for ever."
    remedy = (
        "Let one whole warp execute `tcgen05.dealloc` with the same columns, after all accesses and before the kernel "
        "ends."
    )
    others = [location(roles, event.op.span, "also allocated here") for event in sites(known.allocs[1:])]
    if known.unreached:
        dead = known.unreached[0]
        return SAY.at(
            roles,
            dead,
            f"No thread reaches {spelled(dead)}{under(roles, dead.guards)}, and {by} allocates tensor memory (line "
            f"{line(roles, alloc.op.span)}).",
            why=why,
            remedy=remedy,
            related=[
                location(roles, alloc.op.span, "allocated here"),
                *guard_places(roles, narrowing(dead.guards)),
                *others,
            ],
        )
    last = [event for event in roles.events[-1:] if event not in known.relinquishes]
    return SAY.at(
        roles,
        alloc,
        f"{spelled(alloc)} by {by} allocates tensor memory that is never deallocated.",
        why=why,
        remedy=remedy,
        related=[
            *(location(roles, event.op.span, "relinquished here, not freed") for event in sites(known.relinquishes)),
            *(location(roles, event.op.span, "the last operation of the kernel") for event in last),
            *others,
        ],
    )


def _ways_out(roles: Roles, allocs: tuple[Event, ...], deallocs: tuple[Event, ...]) -> Iterator[Finding]:
    traps = {stmt.span for stmt in walk(roles.kernel.body) if isinstance(stmt, Exit) and stmt.trap}
    giving = 0
    for event in deallocs:
        giving |= event.reach.threads
    for leaving in roles.exits:
        gone = leaving.reach.threads & giving
        held = [event for event in allocs if event.order < leaving.order and not _apart(event, leaving)]
        missed = [event for event in deallocs if event.order > leaving.order]
        if not gone or not held or not missed or leaving.span in traps:
            continue
        if any(event.order < leaving.order and not _apart(event, leaving) for event in deallocs):
            continue  # given back on this way too, or it cannot be told
        if missed and not all(_all_leave(event, leaving) for event in missed):
            continue
        alloc = held[-1]
        yield SAY.at(
            roles,
            leaving.span,
            f"{threads(roles, gone)} can leave the kernel here before the deallocation at line "
            f"{line(roles, missed[0].op.span)}, with the tensor memory of line {line(roles, alloc.op.span)} allocated.",
            threads=who(roles, leaving.reach),
            guards=leaving.guards,
            why="The columns stay taken after the block has ended: the next block on the SM waits for them for ever.",
            remedy="Deallocate before this return, or return before the allocation.",
            related=[
                location(roles, alloc.op.span, "allocated here"),
                location(roles, missed[0].op.span, "the deallocation that is skipped"),
            ],
        )
        return


def _all_leave(dealloc: Event, leaving: ExitFact) -> bool:
    """Whoever deallocates is among those that leave, for certain when the condition holds."""
    return dealloc.reach.threads & ~leaving.reach.threads == 0 and leaving.reach.exact


def _apart(event: Event, leaving: ExitFact) -> bool:
    """The event is on the other side of a condition of the exit."""
    sides = {id(guard.stmt): guard.taken for guard in leaving.guards if guard.stmt is not None}
    return any(sides.get(id(guard.stmt), guard.taken) != guard.taken for guard in event.guards if guard.stmt)
