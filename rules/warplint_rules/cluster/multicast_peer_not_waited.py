r"""A multicast copy overwrites a slot that another CTA of the cluster may still be reading.

## Why
A multicast copy writes the same offset in every CTA of its mask. The CTA that issues it has to know that the
readers of all of them are done: their arrivals must go to the issuer's barrier too. Waiting for the readers of its
own CTA lets the copy overrun a slower peer.

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
__device__ void arrive_remote(unsigned long long* b, unsigned cta) {
  asm volatile("{\n .reg .b32 r;\n mapa.shared::cluster.u32 r, %0, %1;\n"
               " mbarrier.arrive.release.cluster.shared::cluster.b64 _, [r];\n}" :: "r"(smem(b)), "r"(cta) : "memory");
}
__device__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ unsigned cluster_rank() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ void load_multicast(void* dst, const void* src, unsigned bytes, unsigned long long* b, unsigned short mask) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
               "[%0], [%1], %2, [%3], %4;"
               :: "r"(smem(dst)), "l"(src), "r"(bytes), "r"(smem(b)), "h"(mask) : "memory");
}
__device__ void expect(unsigned long long* b, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(smem(b)), "r"(bytes) : "memory");
}
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(160) share(float* out, const float* in, int n) {
  __shared__ alignas(128) float tile[128];
  __shared__ unsigned long long full, empty;
  if (threadIdx.x == 0) {
    init(&full, 1);
    init(&empty, 128);
    fence_init();
  }
  cluster_arrive();
  cluster_wait();
  if (threadIdx.x == 128) {
    for (int i = 0; i < n; ++i) {
      wait(&empty, (i & 1) ^ 1);
      expect(&full, 512);
      if (cluster_rank() == 0) load_multicast(tile, in + i * 128, 512, &full, 3);
    }
  } else if (threadIdx.x < 128) {
    for (int i = 0; i < n; ++i) {
      wait(&full, i & 1);
      out[(i * 2 + cluster_rank()) * 128 + threadIdx.x] = tile[threadIdx.x];
      arrive(&empty);
    }
  }
  cluster_arrive();
  cluster_wait();
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
__device__ void arrive_remote(unsigned long long* b, unsigned cta) {
  asm volatile("{\n .reg .b32 r;\n mapa.shared::cluster.u32 r, %0, %1;\n"
               " mbarrier.arrive.release.cluster.shared::cluster.b64 _, [r];\n}" :: "r"(smem(b)), "r"(cta) : "memory");
}
__device__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ unsigned cluster_rank() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ void load_multicast(void* dst, const void* src, unsigned bytes, unsigned long long* b, unsigned short mask) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
               "[%0], [%1], %2, [%3], %4;"
               :: "r"(smem(dst)), "l"(src), "r"(bytes), "r"(smem(b)), "h"(mask) : "memory");
}
__device__ void expect(unsigned long long* b, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(smem(b)), "r"(bytes) : "memory");
}
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(160) share(float* out, const float* in, int n) {
  __shared__ alignas(128) float tile[128];
  __shared__ unsigned long long full, empty;
  if (threadIdx.x == 0) {
    init(&full, 1);
    init(&empty, 256);
    fence_init();
  }
  cluster_arrive();
  cluster_wait();
  if (threadIdx.x == 128) {
    for (int i = 0; i < n; ++i) {
      wait(&empty, (i & 1) ^ 1);
      expect(&full, 512);
      if (cluster_rank() == 0) load_multicast(tile, in + i * 128, 512, &full, 3);
    }
  } else if (threadIdx.x < 128) {
    for (int i = 0; i < n; ++i) {
      wait(&full, i & 1);
      out[(i * 2 + cluster_rank()) * 128 + threadIdx.x] = tile[threadIdx.x];
      arrive_remote(&empty, 0);
      arrive_remote(&empty, 1);
    }
  }
  cluster_arrive();
  cluster_wait();
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.machine import Execution
from warplint.machine.memory import Hazard, Order
from warplint.rule import Rule
from warplint_rules._executed import at, made_by, place, storage
from warplint_rules._hazards import grouped
from warplint_rules._say import Reporter

RULE = Rule(Level.ERROR, Symptom.WRONG_RESULT, executes=True, supersedes=("smem-race", "async-data-used-before-wait"))
SAY = Reporter(__name__, RULE)


def check_execution(execution: Execution) -> Iterator[Finding]:
    """One finding per access that a copy issued by another CTA may overtake."""
    for first, hazards in grouped(execution, _overrun):
        second = hazards[0].second
        yield SAY.at(
            execution.roles,
            second.span,
            f"The multicast {second.what} by {made_by(execution, second)} may overwrite {storage(second)} in CTA "
            f"{first.cta} before the {first.what} of {made_by(execution, first)} (line {at(execution, first.span)}).",
            threads=made_by(execution, second),
            why="The issuing CTA has not learned that the readers of the other CTA are done.",
            remedy="Let the readers of every receiving CTA arrive on the issuer's barrier (`mapa` and a remote "
            "arrive), and count them in its init.",
            related=[place(execution, first, "the access in the other CTA")],
        )


def _overrun(hazard: Hazard) -> bool:
    first, second = hazard.first, hazard.second
    return (
        first.cta != second.cta
        and second.write
        and second.proxy == "async"
        and not first.write
        and hazard.order in (Order.UNJOINED, Order.INCOMPLETE)
    )
