"""Tensor memory is deallocated while other warps may still access it.

## Why
The deallocating warp does not wait for the others by itself. Without a join between their last access and `dealloc`
(a CTA barrier, a named barrier that the readers take part in, an mbarrier they arrive on) the columns may be given
to another block while they are read: wrong data, or an illegal access.

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
from warplint.machine import Execution
from warplint.machine.memory import Access, Hazard, Order
from warplint.rule import Rule
from warplint.source import Span
from warplint.threads.facts import Event, Roles
from warplint_rules._executed import at, hazards, made_by, place
from warplint_rules._order import CTA_BARRIERS, order_of
from warplint_rules._say import Reporter, guard_places, line, location, sites, spelled, under
from warplint_rules._say import warps as warps_text
from warplint_rules._tmem import ACCESSES, tmem
from warplint_rules._words import exclusive, warps

RULE = Rule(
    Level.ERROR,
    Symptom.CRASH,
    guide=True,
    executes=True,
    supersedes=("cluster-exit-before-peer-done", "async-data-used-before-wait"),
)
SAY = Reporter(__name__, RULE)

FREES = "tcgen05.dealloc"


def check(roles: Roles) -> Iterator[Finding]:
    """One finding per deallocation site, with all accesses that nothing orders before it."""
    known = tmem(roles)
    order = order_of(roles)
    if order.uncertain or len(sites(known.allocs)) != 1:
        return
    for dealloc in sites(known.deallocs):
        if not dealloc.reach.exact:
            continue
        late: list[tuple[Event, int]] = []
        joined = order.base(dealloc)
        for access in known.accesses:
            if not joined < access.order < dealloc.order or not access.reach.exact or exclusive(access, dealloc):
                continue
            others = _unordered(roles, access, dealloc)
            if others:
                late.append((access, others))
        if late:
            yield _finding(roles, dealloc, late)


def check_execution(execution: Execution) -> Iterator[Finding]:
    """One finding per deallocation that some access, of the peer CTA too, may still be under way at."""
    late: dict[Span, list[tuple[Access, Access]]] = {}
    for _, hazard in hazards(execution, _freed_early):
        # Where nothing joins the two, which of them the execution came to first says nothing.
        pair = (hazard.first, hazard.second)
        access, dealloc = pair if hazard.second.what == FREES else (hazard.second, hazard.first)
        late.setdefault(dealloc.span, []).append((access, dealloc))
    for found in late.values():
        yield _freed(execution, found)


def _freed_early(hazard: Hazard) -> bool:
    first, second = hazard.first, hazard.second
    if first.what == FREES:
        return second.what in ACCESSES and hazard.order is Order.UNJOINED and first.cta != second.cta
    # A load of the same threads that nobody has waited for is `tmem-load-not-waited`.
    return (
        second.what == FREES
        and first.what in ACCESSES
        and not first.pending
        and hazard.order in (Order.UNJOINED, Order.INCOMPLETE)
    )


def _freed(execution: Execution, found: list[tuple[Access, Access]]) -> Finding:
    roles, dealloc = execution.roles, found[0][1]
    first = max((access for access, _ in found), key=lambda access: access.span.start)
    peer = first.cta != dealloc.cta
    events = [event for event in sites(roles.of("tcgen05.dealloc")) if event.op.span == dealloc.span]
    before = [event for event in roles.of(*CTA_BARRIERS) if event.op.span.end <= dealloc.span.start]
    kind = "a cluster barrier" if peer else "a CTA barrier"
    nothing = "nothing shows that it has completed" if first.done else "nothing joins them after it"
    commits = [event for event in sites(roles.of("tcgen05.commit")) if event.op.span.start > first.span.start]
    return SAY.at(
        roles,
        events[0] if events else dealloc.span,
        f"The tcgen05.dealloc by {made_by(execution, dealloc)} may come while the {first.what} by "
        f"{made_by(execution, first)} (line {at(execution, first.span)}) is still under way: {nothing}.",
        threads=made_by(execution, dealloc),
        why="The columns may be given to another block while they are still used: foreign data is read, or the access "
        "faults." + (" With `cta_group::2` the deallocation is one operation of both CTAs." if peer else ""),
        remedy=f"Put `tcgen05.fence::before_thread_sync`, {kind} that all users of tensor memory reach, and "
        "`tcgen05.fence::after_thread_sync` in front of the deallocation.",
        related=[
            *(guard_places(roles, events[0].guards[:2]) if events else ()),
            *(
                location(roles, event.op.span, f"this joins one CTA only: {kind} belongs here")
                for event in before[-1:]
                if peer
            ),
            *(location(roles, event.op.span, "completes here") for event in commits[:1] if first.done),
            *(
                place(execution, one, "not ordered before the deallocation")
                for one in {access.span: access for access, _ in found}.values()
            ),
        ],
    )


def _unordered(roles: Roles, access: Event, dealloc: Event) -> int:
    """The threads whose access nothing orders before the deallocation, as far as they are not in its warps."""
    order = order_of(roles)
    givers = warps(roles, dealloc.reach.threads)
    missed = 0
    for warp, lanes in warps(roles, access.reach.threads).items():
        if warp in givers:
            continue
        if not any(order.ordered(access, warp, dealloc, giver) for giver in givers):
            missed |= lanes << warp * roles.launch.warp_size
    return missed


def _finding(roles: Roles, dealloc: Event, late: list[tuple[Event, int]]) -> Finding:
    last, readers = max(late, key=lambda pair: pair[0].order)
    first_of: dict[int, Event] = {}
    for access, _ in late:
        first_of.setdefault(id(access.op), access)
    return SAY.at(
        roles,
        dealloc,
        f"{spelled(dealloc)} by {warps_text(roles, dealloc.reach.threads)}{under(roles, dealloc.guards)} has no join "
        f"with {warps_text(roles, readers)} after their {spelled(last)} (line {line(roles, last.op.span)}).",
        why="The columns may be given to another block while these warps still use them: they read foreign data, or "
        "the access faults.",
        remedy="Put `tcgen05.fence::before_thread_sync`, a CTA barrier that all users of tensor memory reach, and "
        "`tcgen05.fence::after_thread_sync` in front of the deallocation.",
        related=[
            *guard_places(roles, dealloc.guards[:2]),
            *(
                location(roles, access.op.span, f"{spelled(access)}, not ordered before the deallocation")
                for access in sorted(first_of.values(), key=lambda event: -event.order)
            ),
        ],
    )
