r"""A tensor-memory access follows a barrier or mbarrier wait with no tcgen05 thread-sync fence.

## Why
Barriers order ordinary memory. The asynchronous tcgen05 operations are ordered after a barrier or wait by
`tcgen05.fence::after_thread_sync`, and before one by `tcgen05.fence::before_thread_sync`. Most shipped kernels run
without them today; the PTX ISA does not promise it.

## Bad
```cuda
__device__ unsigned smem(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void init(unsigned long long* b, unsigned n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(smem(b)), "r"(n) : "memory");
}
__device__ void arrive(unsigned long long* b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(smem(b)) : "memory");
}
__device__ void wait(unsigned long long* b, unsigned parity) {
  asm volatile("{\n .reg .pred p;\n W_%=:\n mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n @!p bra W_%=;\n}"
               :: "r"(smem(b)), "r"(parity) : "memory");
}
__device__ void fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ void tmem_alloc(unsigned* slot, unsigned columns) {
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;"
               :: "r"(smem(slot)), "r"(columns) : "memory");
}
__device__ void tmem_dealloc(unsigned base, unsigned columns) {
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" :: "r"(base), "r"(columns));
}
__device__ void mma(unsigned d, unsigned long long a, unsigned long long b, unsigned accumulate) {
  asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %3, 0;\n"
               " tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, 0, p;\n}"
               :: "r"(d), "l"(a), "l"(b), "r"(accumulate) : "memory");
}
__device__ void mma_commit(unsigned long long* b) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];"
               :: "r"(smem(b)) : "memory");
}
__device__ unsigned tmem_load(unsigned address) {
  unsigned value;
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}
__device__ void tmem_store(unsigned address, unsigned value) {
  asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" :: "r"(address), "r"(value) : "memory");
}
__device__ void wait_load() { asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory"); }
__device__ void wait_store() { asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory"); }
__device__ void fence_before() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
__device__ void fence_after() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }
__global__ void __launch_bounds__(160) tiles(unsigned* out, unsigned long long da, unsigned long long db, int n) {
  __shared__ unsigned slot;
  __shared__ unsigned long long full, empty;
  if (threadIdx.x == 0) {
    init(&full, 1);
    init(&empty, 128);
    fence_init();
  }
  if (threadIdx.x < 32) tmem_alloc(&slot, 32);
  fence_before();
  __syncthreads();
  fence_after();
  unsigned base = slot;
  if (threadIdx.x == 128) {
    for (int i = 0; i < n; ++i) {
      wait(&empty, (i & 1) ^ 1);
      fence_after();
      mma(base, da, db, 0);
      mma_commit(&full);
    }
  } else if (threadIdx.x < 128) {
    for (int i = 0; i < n; ++i) {
      wait(&full, i & 1);
      unsigned value = tmem_load(base + ((threadIdx.x / 32 * 32u) << 16));
      wait_load();
      fence_before();
      arrive(&empty);
      out[i * 128 + threadIdx.x] = value;
    }
  }
  fence_before();
  __syncthreads();
  fence_after();
  if (threadIdx.x < 32) tmem_dealloc(base, 32);
}
```

## Good
```cuda
__device__ unsigned smem(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void init(unsigned long long* b, unsigned n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(smem(b)), "r"(n) : "memory");
}
__device__ void arrive(unsigned long long* b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(smem(b)) : "memory");
}
__device__ void wait(unsigned long long* b, unsigned parity) {
  asm volatile("{\n .reg .pred p;\n W_%=:\n mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n @!p bra W_%=;\n}"
               :: "r"(smem(b)), "r"(parity) : "memory");
}
__device__ void fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ void tmem_alloc(unsigned* slot, unsigned columns) {
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;"
               :: "r"(smem(slot)), "r"(columns) : "memory");
}
__device__ void tmem_dealloc(unsigned base, unsigned columns) {
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" :: "r"(base), "r"(columns));
}
__device__ void mma(unsigned d, unsigned long long a, unsigned long long b, unsigned accumulate) {
  asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, %3, 0;\n"
               " tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, 0, p;\n}"
               :: "r"(d), "l"(a), "l"(b), "r"(accumulate) : "memory");
}
__device__ void mma_commit(unsigned long long* b) {
  asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];"
               :: "r"(smem(b)) : "memory");
}
__device__ unsigned tmem_load(unsigned address) {
  unsigned value;
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}
__device__ void tmem_store(unsigned address, unsigned value) {
  asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" :: "r"(address), "r"(value) : "memory");
}
__device__ void wait_load() { asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory"); }
__device__ void wait_store() { asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory"); }
__device__ void fence_before() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }
__device__ void fence_after() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }
__global__ void __launch_bounds__(160) tiles(unsigned* out, unsigned long long da, unsigned long long db, int n) {
  __shared__ unsigned slot;
  __shared__ unsigned long long full, empty;
  if (threadIdx.x == 0) {
    init(&full, 1);
    init(&empty, 128);
    fence_init();
  }
  if (threadIdx.x < 32) tmem_alloc(&slot, 32);
  fence_before();
  __syncthreads();
  fence_after();
  unsigned base = slot;
  if (threadIdx.x == 128) {
    for (int i = 0; i < n; ++i) {
      wait(&empty, (i & 1) ^ 1);
      fence_after();
      mma(base, da, db, 0);
      mma_commit(&full);
    }
  } else if (threadIdx.x < 128) {
    for (int i = 0; i < n; ++i) {
      wait(&full, i & 1);
      fence_after();
      unsigned value = tmem_load(base + ((threadIdx.x / 32 * 32u) << 16));
      wait_load();
      fence_before();
      arrive(&empty);
      out[i * 128 + threadIdx.x] = value;
    }
  }
  fence_before();
  __syncthreads();
  fence_after();
  if (threadIdx.x < 32) tmem_dealloc(base, 32);
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Location, Symptom
from warplint.machine import Execution
from warplint.machine.memory import Access, Hazard, Order
from warplint.rule import Rule
from warplint_rules._executed import at, hazards, made_by, storage
from warplint_rules._say import Reporter, location, reached, sites
from warplint_rules._words import WAITS

RULE = Rule(Level.WARNING, Symptom.WRONG_RESULT, guide=True, executes=True, local=True)
SAY = Reporter(__name__, RULE)

_KINDS = (Order.NO_AFTER_FENCE, Order.NO_BEFORE_FENCE)


def check_execution(execution: Execution) -> Iterator[Finding]:
    """One finding for the whole kernel; every place is related."""
    found = [hazard for _, hazard in hazards(execution, lambda hazard: hazard.order in _KINDS)]
    if not found:
        return
    hazard = found[0]
    first, second = hazard.first, hazard.second
    after = hazard.order is Order.NO_AFTER_FENCE
    fence = "after" if after else "before"
    here = second if after else first
    other = first if after else second
    yield SAY.at(
        execution.roles,
        here.span,
        f"The {here.what} of {storage(here)} by {made_by(execution, here)} has no `tcgen05.fence::{fence}_thread_sync` "
        f"between it and the synchronisation with the {other.what} at line {at(execution, other.span)}.",
        threads=made_by(execution, here),
        why="A barrier or mbarrier wait does not order asynchronous tensor-memory operations by itself.",
        remedy="Put `tcgen05.fence::after_thread_sync` behind the wait and `tcgen05.fence::before_thread_sync` in "
        "front of the arrival.",
        related=[
            *_waits(execution, here),
            *_places(execution, found, here.span.start),
        ],
    )


def _waits(execution: Execution, here: Access) -> Iterator[Location]:
    """The nearest waits of the accessing threads in front of the access: the fence belongs behind one of them."""
    waits = [
        event
        for event in sites(reached(execution.roles, *sorted(WAITS)))
        if event.reach.threads & here.threads and event.op.span.start < here.span.start
    ]
    for event in waits[-2:]:
        yield location(execution.roles, event.op.span, "a wait of the same threads")


def _places(execution: Execution, found: list[Hazard], skip: int) -> Iterator[Location]:
    seen = {skip}
    for hazard in found:
        after = hazard.order is Order.NO_AFTER_FENCE
        here = hazard.second if after else hazard.first
        if here.span.start not in seen:
            seen.add(here.span.start)
            kind = "after" if after else "before"
            yield location(execution.roles, here.span, f"{here.what}: no fence::{kind}_thread_sync here either")
    other = found[0].first if found[0].order is Order.NO_AFTER_FENCE else found[0].second
    if other.span.start not in seen:
        yield location(execution.roles, other.span, f"the other access: {other.what} by {made_by(execution, other)}")
