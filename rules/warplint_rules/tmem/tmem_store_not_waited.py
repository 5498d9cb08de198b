r"""What `tcgen05.st` wrote is handed over before `tcgen05.wait::st` shows that it is there.

## Why
`tcgen05.st` is asynchronous. An arrival or barrier does not wait for it: the MMA or load that follows may find the
old columns. `tcgen05.wait::st` in the storing threads has to come before the hand-over.

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
__global__ void __launch_bounds__(160) scaled(unsigned* out, unsigned long long db, int n) {
  __shared__ unsigned slot;
  __shared__ unsigned long long ready, done;
  if (threadIdx.x == 0) {
    init(&ready, 128);
    init(&done, 1);
    fence_init();
  }
  if (threadIdx.x < 32) tmem_alloc(&slot, 32);
  fence_before();
  __syncthreads();
  fence_after();
  unsigned base = slot;
  if (threadIdx.x < 128) {
    tmem_store(base + ((threadIdx.x / 32 * 32u) << 16), threadIdx.x);
    fence_before();
    arrive(&ready);
  } else if (threadIdx.x == 128) {
    wait(&ready, 0);
    fence_after();
    mma(base, 0, db, 1);
    mma_commit(&done);
    wait(&done, 0);
    fence_after();
    out[0] = 1;
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
__global__ void __launch_bounds__(160) scaled(unsigned* out, unsigned long long db, int n) {
  __shared__ unsigned slot;
  __shared__ unsigned long long ready, done;
  if (threadIdx.x == 0) {
    init(&ready, 128);
    init(&done, 1);
    fence_init();
  }
  if (threadIdx.x < 32) tmem_alloc(&slot, 32);
  fence_before();
  __syncthreads();
  fence_after();
  unsigned base = slot;
  if (threadIdx.x < 128) {
    tmem_store(base + ((threadIdx.x / 32 * 32u) << 16), threadIdx.x);
    wait_store();
    fence_before();
    arrive(&ready);
  } else if (threadIdx.x == 128) {
    wait(&ready, 0);
    fence_after();
    mma(base, 0, db, 1);
    mma_commit(&done);
    wait(&done, 0);
    fence_after();
    out[0] = 1;
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
from warplint.machine.memory import Order
from warplint.rule import Rule
from warplint_rules._executed import at, made_by, place, storage
from warplint_rules._hazards import grouped
from warplint_rules._say import Reporter

RULE = Rule(Level.ERROR, Symptom.WRONG_RESULT, executes=True, local=True)
SAY = Reporter(__name__, RULE)


def check_execution(execution: Execution) -> Iterator[Finding]:
    """One finding per store that is overtaken by an access."""
    for first, hazards in grouped(
        execution, lambda hazard: hazard.order is Order.INCOMPLETE and hazard.first.what == "tcgen05.st"
    ):
        second = hazards[0].second
        yield SAY.at(
            execution.roles,
            first.span,
            f"The {first.what} to {storage(first)} by {made_by(execution, first)} is not waited for before the "
            f"{second.what} at line {at(execution, second.span)}.",
            threads=made_by(execution, first),
            why="The store may not have reached tensor memory: the access finds the old columns.",
            remedy="Execute `tcgen05.wait::st` (and `tcgen05.fence::before_thread_sync`) in the storing threads before "
            "the arrival or barrier that hands over.",
            related=[place(execution, hazard.second, "the access") for hazard in hazards],
        )
