"""Bulk stores are waited for but never committed to a group.

## Why
`cp.async.bulk.wait_group` waits for groups that the executing thread has committed. A store that belongs to no
group is not waited for: the wait returns at once, and the shared memory is rewritten, or the block ends, while the
copy engine still reads it.

## Bad
```cuda
__device__ unsigned smem(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void store(void* dst, const void* src, unsigned bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
               :: "l"(dst), "r"(smem(src)), "r"(bytes) : "memory");
}
__global__ void __launch_bounds__(128) write_back(float* out, const float* in, int tiles) {
  __shared__ alignas(128) float tile[128];
  for (int t = 0; t < tiles; ++t) {
    tile[threadIdx.x] = in[t * 128 + threadIdx.x] + 1.f;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
      store(out + t * 128, tile, 512);
      asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
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
__global__ void __launch_bounds__(128) write_back(float* out, const float* in, int tiles) {
  __shared__ alignas(128) float tile[128];
  for (int t = 0; t < tiles; ++t) {
    tile[threadIdx.x] = in[t * 128 + threadIdx.x] + 1.f;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
      store(out + t * 128, tile, 512);
      asm volatile("cp.async.bulk.commit_group;" ::: "memory");
      asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
    __syncthreads();
  }
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.rule import Rule
from warplint.threads.facts import Roles
from warplint_rules._say import Reporter, line, location, sites, spelled, under, who
from warplint_rules._words import has_opaque

RULE = Rule(Level.ERROR, Symptom.WRONG_RESULT, guide=True)
SAY = Reporter(__name__, RULE)

STORES = ("cp.async.bulk.s2g", "cp.async.bulk.tensor.store", "cp.reduce.async.bulk")


def check(roles: Roles) -> Iterator[Finding]:
    """Stores whose threads execute no commit anywhere in the kernel; one finding for all of them."""
    stores = [
        event
        for event in roles.of(*STORES)
        if event.reach.threads and "barrier" not in event.values  # into a cluster: completes on a barrier
    ]
    if not stores or has_opaque(roles):
        return
    committing = _threads(roles, "cp.async.bulk.commit_group")
    waiting = _threads(roles, "cp.async.bulk.wait_group")
    bare = [event for event in sites(stores) if not event.reach.threads & committing]
    if not bare:
        return
    first = bare[0]
    waits = [e for e in roles.of("cp.async.bulk.wait_group") if e.reach.threads & first.reach.threads]
    if waiting & first.reach.threads:
        message = (
            f"{spelled(first)} by {who(roles, first.reach)}{under(roles, first.guards)} is never committed: the wait "
            f"at line {line(roles, waits[0].op.span)} does not wait for it."
        )
    elif not first.loops:
        message = f"{spelled(first)} by {who(roles, first.reach)} is neither committed nor waited for before the end."
    else:
        return  # nothing waits: whether its source is rewritten is another question
    yield SAY.at(
        roles,
        first,
        message,
        level=None if waits else Level.NOTE,
        why="A store that is in no group of its thread is not waited for: its shared memory may change, or the block "
        "end, while it is still being read.",
        remedy="Execute `cp.async.bulk.commit_group` in the thread that issues the store, before it waits.",
        related=[
            *(location(roles, event.op.span, "this wait returns at once") for event in sites(waits)),
            *(location(roles, event.op.span, "nor is this store committed") for event in bare[1:]),
        ],
    )


def _threads(roles: Roles, name: str) -> int:
    members = 0
    for event in roles.of(name):
        members |= event.reach.threads
    return members
