r"""A pair of CTAs allocates tensor memory together before a cluster barrier shows that both run.

## Why
`tcgen05.alloc.cta_group::2` is one operation of two CTAs. The documents ask that the peer is known to run, which a
cluster barrier shows; the allocation may otherwise wait for a CTA that is not there yet. Clusters are scheduled
together, so it works today (a warning).

## Bad
```cuda
__device__ unsigned smem(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void tmem_alloc_pair(unsigned* slot, unsigned columns) {
  asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], %1;"
               :: "r"(smem(slot)), "r"(columns) : "memory");
}
__device__ void tmem_dealloc_pair(unsigned base, unsigned columns) {
  asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, %1;" :: "r"(base), "r"(columns));
}
__device__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128) pair(unsigned* out) {
  __shared__ unsigned slot;
  if (threadIdx.x < 32) tmem_alloc_pair(&slot, 64);
  __syncthreads();
  unsigned base = slot;
  out[blockIdx.x * 128 + threadIdx.x] = base;
  cluster_arrive();
  cluster_wait();
  if (threadIdx.x < 32) tmem_dealloc_pair(base, 64);
}
```

## Good
```cuda
__device__ unsigned smem(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void tmem_alloc_pair(unsigned* slot, unsigned columns) {
  asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], %1;"
               :: "r"(smem(slot)), "r"(columns) : "memory");
}
__device__ void tmem_dealloc_pair(unsigned base, unsigned columns) {
  asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, %1;" :: "r"(base), "r"(columns));
}
__device__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128) pair(unsigned* out) {
  __shared__ unsigned slot;
  cluster_arrive();
  cluster_wait();
  if (threadIdx.x < 32) tmem_alloc_pair(&slot, 64);
  __syncthreads();
  unsigned base = slot;
  out[blockIdx.x * 128 + threadIdx.x] = base;
  cluster_arrive();
  cluster_wait();
  if (threadIdx.x < 32) tmem_dealloc_pair(base, 64);
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.machine import Execution
from warplint.rule import Rule
from warplint_rules._executed import party
from warplint_rules._hazards import faults
from warplint_rules._say import Reporter

RULE = Rule(Level.WARNING, Symptom.DEADLOCK, executes=True)
SAY = Reporter(__name__, RULE)


def check(execution: Execution) -> Iterator[Finding]:
    """One finding per allocation of a pair that nothing orders after the start of the peer."""
    for fault in faults(execution, "tmem-pair-not-synced"):
        yield SAY.at(
            execution.roles,
            fault.span,
            f"The `cta_group::2` allocation by {party(execution, fault.who)} comes before any cluster barrier: nothing "
            "shows that the peer CTA runs.",
            threads=party(execution, fault.who),
            why="The allocation is one operation of both CTAs and may block for the peer.",
            remedy="Put `barrier.cluster.arrive` and `wait` in front of it.",
        )
