r"""A CTA of a cluster can exit while a peer may still access its shared memory or barriers.

## Why
Shared memory of a CTA is gone when the CTA has exited. A remote load, store or arrival that comes later faults or
is lost. Every CTA that others access has to wait for them before it ends, usually at a last cluster barrier.

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
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(32) greet(int* out) {
  __shared__ unsigned long long peer;
  if (threadIdx.x == 0) {
    init(&peer, 1);
    fence_init();
  }
  cluster_arrive();
  cluster_wait();
  if (threadIdx.x == 0) arrive_remote(&peer, cluster_rank() ^ 1u);
  if (cluster_rank() == 0) wait(&peer, 0);
  out[blockIdx.x * 32 + threadIdx.x] = 1;
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
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(32) greet(int* out) {
  __shared__ unsigned long long peer;
  if (threadIdx.x == 0) {
    init(&peer, 1);
    fence_init();
  }
  cluster_arrive();
  cluster_wait();
  if (threadIdx.x == 0) arrive_remote(&peer, cluster_rank() ^ 1u);
  if (cluster_rank() == 0) wait(&peer, 0);
  out[blockIdx.x * 32 + threadIdx.x] = 1;
  cluster_arrive();
  cluster_wait();
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.machine import Execution
from warplint.rule import Rule
from warplint.threads.facts import Roles
from warplint_rules._cluster import remote_accesses
from warplint_rules._executed import party
from warplint_rules._hazards import faults
from warplint_rules._order import CLUSTER_WAITS, CTA_BARRIERS
from warplint_rules._say import Reporter, location, sites, spelled, who
from warplint_rules._words import WAITS, Clustered, clustered, has_opaque

RULE = Rule(Level.ERROR, Symptom.CRASH, executes=True)
SAY = Reporter(__name__, RULE)


def check_execution(execution: Execution) -> Iterator[Finding]:
    """One finding per kernel: the first access whose target may be gone, the others as related places."""
    found = list(_executed(execution))
    if not found and not all(outcome.established for outcome in execution.outcomes):
        found = _loads(execution.roles)
    yield from found


def _loads(roles: Roles) -> Iterator[Finding]:
    """A remote load or store behind which nothing at all holds the other CTA."""
    if clustered(roles) is not Clustered.YES or has_opaque(roles):
        return
    holding = CLUSTER_WAITS | WAITS
    last = max((event.order for event in roles.events if event.name in holding), default=-1)
    late = sites(event for event, _ in remote_accesses(roles) if event.order > last)
    if late:
        yield SAY.at(
            roles,
            late[0],
            f"{spelled(late[0])} by {who(roles, late[0].reach)} accesses the shared memory of another CTA, and nothing "
            "behind it keeps that CTA from exiting first.",
            why="The shared memory of an exited CTA is gone: the access faults.",
            remedy="End the kernel with a cluster barrier (`barrier.cluster.arrive` and `wait`) that all threads reach "
            "after the last access.",
            related=[location(roles, event.op.span, "so does this") for event in late[1:]],
        )


def _executed(execution: Execution) -> Iterator[Finding]:
    roles = execution.roles
    # Asynchronous accesses (of an MMA, a multicast) end with completions that the peer may learn of in ways that are
    # not modelled. Arrivals may be known to have come by what they led to: a last cluster barrier settles that.
    joins = [event for event in roles.of("barrier.cluster.wait") if event.reach.threads == roles.everyone]
    last = max((event.op.span.start for event in joins if not event.loops), default=-1)
    data = {event.op.span for event, _ in remote_accesses(roles)}
    found = [
        fault
        for fault in faults(execution, "exited-peer")
        if fault.detail != "asynchronous" and (fault.span in data or fault.span.start > last)
    ]
    if not found:
        return
    # An arrival that nobody waits for any more is lost with the CTA: latent, where a load or store is a fault.
    arrivals = {event.op.span for event in roles.of("mbarrier.arrive*", "tcgen05.commit")}
    fault = found[0]
    later = [event for event in sites(roles.events) if event.op.span.start > fault.span.start]
    joins = [event for event in later if event.name in CTA_BARRIERS] or later
    yield SAY.at(
        roles,
        fault.span,
        f"This access of {party(execution, fault.who)} to the shared memory of another CTA may come after that CTA has "
        "exited.",
        level=Level.WARNING if all(one.span in arrivals for one in found) else None,
        threads=party(execution, fault.who),
        why="The shared memory of an exited CTA is gone: the access faults or is lost.",
        remedy="End the kernel with a cluster barrier (`barrier.cluster.arrive` and `wait`) that all threads reach "
        "after the last access.",
        related=[
            *(location(roles, event.op.span, "a cluster barrier belongs here") for event in joins[-1:]),
            *(location(roles, other.span, "so may this") for other in found[1:]),
        ],
    )
