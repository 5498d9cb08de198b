r"""Tensor memory is released, rewritten or freed before `tcgen05.wait::ld` shows that a load of it has finished.

## Why
`tcgen05.ld` is asynchronous: registers and columns are settled only after `tcgen05.wait::ld`. An arrival that
releases the accumulator before it lets the next `tcgen05.mma` overwrite columns that are still being read. Code
that uses the loaded registers first is protected by that use in practice; the wait is then missing by the letter
only (a warning).

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
      fence_after();
      unsigned value = tmem_load(base + ((threadIdx.x / 32 * 32u) << 16));
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

from warplint.finding import Finding, Level, Symptom
from warplint.machine import Execution
from warplint.machine.memory import Access, Hazard, Order
from warplint.rule import Rule
from warplint.source import Span
from warplint_rules._consumed import consumed_before_release
from warplint_rules._executed import at, made_by, place, storage
from warplint_rules._hazards import grouped
from warplint_rules._say import Reporter, location

RULE = Rule(Level.ERROR, Symptom.WRONG_RESULT, executes=True, local=True)
SAY = Reporter(__name__, RULE)


def check_execution(execution: Execution) -> Iterator[Finding]:
    """Loads whose registers are used only after the release; all others of the kernel are one warning."""
    used_first: list[tuple[Access, Hazard]] = []
    for first, hazards in grouped(execution, _running):
        if consumed_before_release(execution.roles, first.span, first.threads):
            used_first.append((first, hazards[0]))
            continue
        yield _finding(execution, first, hazards[0], None, [])
    if used_first:
        first, hazard = used_first[0]
        yield _finding(execution, first, hazard, Level.WARNING, [access.span for access, _ in used_first[1:]])


def _finding(execution: Execution, first: Access, hazard: Hazard, level: Level | None, others: list[Span]) -> Finding:
    second = hazard.second
    return SAY.at(
        execution.roles,
        first.span,
        f"The {first.what} of {storage(first)} by {made_by(execution, first)} is not waited for before the "
        f"{second.what} at line {at(execution, second.span)}.",
        level=level,
        threads=made_by(execution, first),
        why="The load may still be reading the columns when they are overwritten or freed."
        if level is None
        else "The loaded registers are used before the release, which holds the load up in practice; the documents "
        "still ask for `tcgen05.wait::ld`.",
        remedy="Execute `tcgen05.wait::ld` (and `tcgen05.fence::before_thread_sync`) before the arrival or barrier "
        "that releases the columns.",
        related=[
            place(execution, second, "the next access"),
            *(location(execution.roles, span, "nor is this load waited for") for span in others),
        ],
    )


def _running(hazard: Hazard) -> bool:
    return hazard.order is Order.INCOMPLETE and hazard.first.what == "tcgen05.ld"
