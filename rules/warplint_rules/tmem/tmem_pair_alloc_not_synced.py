r"""A pair of CTAs allocates tensor memory together before a cluster barrier shows that both run.

## Why
`tcgen05.alloc` and `dealloc` with `cta_group::2` are one operation of two CTAs: a warp of each must come to it, and it
may block for the peer (PTX ISA 9.7.16.7.1). So an error is what cannot meet: only one CTA of the pair comes, or one
comes before a cluster barrier and the other behind it, where each waits for the other.

The documents also ask that the peer is known to run, which a cluster barrier in front of the allocation shows. A
missing one is a warning: the CTAs of a cluster are scheduled together, the early one waits, and a third of the shipped
pair kernels (6 of 20) allocate without it and run.

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
from warplint.machine.outcome import Fault
from warplint.rule import Rule
from warplint_rules._executed import party
from warplint_rules._hazards import faults
from warplint_rules._say import Reporter, location

RULE = Rule(Level.ERROR, Symptom.DEADLOCK, executes=True)
SAY = Reporter(__name__, RULE)


def check_execution(execution: Execution) -> Iterator[Finding]:
    """Pair operations that cannot meet; else one finding per allocation with nothing that shows the peer."""
    apart = [*faults(execution, "tmem-pair-order"), *faults(execution, "tmem-pair-alone")]
    for fault in apart:
        yield _apart(execution, fault)
    for fault in () if apart else faults(execution, "tmem-pair-not-synced"):
        yield SAY.at(
            execution.roles,
            fault.span,
            f"The `cta_group::2` allocation by {party(execution, fault.who)} comes before any cluster barrier: nothing "
            "shows that the peer CTA runs.",
            level=Level.WARNING,
            threads=party(execution, fault.who),
            why="The allocation is one operation of both CTAs and may block for the peer.",
            remedy="Put `barrier.cluster.arrive` and `wait` in front of it.",
        )


def _apart(execution: Execution, fault: Fault) -> Finding:
    alone = fault.other is None
    missing = (
        "the other CTA of the pair never comes to it"
        if alone
        else "the other CTA of the pair comes to it on another side of a cluster barrier"
    )
    return SAY.at(
        execution.roles,
        fault.span,
        f"The `cta_group::2` {fault.detail} by {party(execution, fault.who)} cannot complete: {missing}.",
        threads=party(execution, fault.who),
        why="It is one operation of both CTAs and blocks until a warp of each has come"
        + ("." if alone else "; the one that waits for the other there never reaches the barrier."),
        remedy="Let one warp of each CTA of the pair execute it, between the same cluster barriers.",
        related=[] if fault.other is None else [location(execution.roles, fault.other, "the other CTA comes here")],
    )
