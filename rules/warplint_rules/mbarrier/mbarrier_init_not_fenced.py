r"""No `fence.mbarrier_init` makes the init visible before another CTA, or a copy engine, uses the barrier.

## Why
A relaxed cluster arrive publishes nothing. Without `fence.mbarrier_init.release.cluster` in the initialising
thread, or a cluster arrive with release semantics, a peer CTA that passes the cluster barrier may still see the old
word; its remote arrival, multicast or paired copy is then lost and somebody hangs. For copies inside one CTA the
fence is customary and costs nothing (a note).

## Bad
```cuda
__device__ unsigned smem(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void init(unsigned long long* b, unsigned n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(smem(b)), "r"(n) : "memory");
}
__device__ void wait(unsigned long long* b, unsigned parity) {
  asm volatile("{\n .reg .pred p;\n W_%=:\n mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n @!p bra W_%=;\n}"
               :: "r"(smem(b)), "r"(parity) : "memory");
}
__device__ void arrive_remote(unsigned long long* b, unsigned cta) {
  asm volatile("{\n .reg .b32 r;\n mapa.shared::cluster.u32 r, %0, %1;\n"
               " mbarrier.arrive.release.cluster.shared::cluster.b64 _, [r];\n}" :: "r"(smem(b)), "r"(cta) : "memory");
}
__device__ void cluster_arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed.aligned;"); }
__device__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(32) greet(int* out) {
  __shared__ unsigned long long peer_ready;
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) init(&peer_ready, 1);
  __syncthreads();
  cluster_arrive_relaxed();
  cluster_wait();
  if (threadIdx.x == 0) arrive_remote(&peer_ready, rank ^ 1u);
  wait(&peer_ready, 0);
  out[blockIdx.x * 32 + threadIdx.x] = 1;
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
__device__ void fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
__device__ void wait(unsigned long long* b, unsigned parity) {
  asm volatile("{\n .reg .pred p;\n W_%=:\n mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n @!p bra W_%=;\n}"
               :: "r"(smem(b)), "r"(parity) : "memory");
}
__device__ void arrive_remote(unsigned long long* b, unsigned cta) {
  asm volatile("{\n .reg .b32 r;\n mapa.shared::cluster.u32 r, %0, %1;\n"
               " mbarrier.arrive.release.cluster.shared::cluster.b64 _, [r];\n}" :: "r"(smem(b)), "r"(cta) : "memory");
}
__device__ void cluster_arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed.aligned;"); }
__device__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(32) greet(int* out) {
  __shared__ unsigned long long peer_ready;
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) {
    init(&peer_ready, 1);
    fence_init();
  }
  __syncthreads();
  cluster_arrive_relaxed();
  cluster_wait();
  if (threadIdx.x == 0) arrive_remote(&peer_ready, rank ^ 1u);
  wait(&peer_ready, 0);
  out[blockIdx.x * 32 + threadIdx.x] = 1;
  cluster_arrive();
  cluster_wait();
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.rule import Rule
from warplint.threads.facts import Event, Roles
from warplint_rules._order import CLUSTER_WAITS, order_of
from warplint_rules._say import Reporter, line, location, spelled, who
from warplint_rules._words import Barriers, Clustered, barriers, capital, clustered, label

RULE = Rule(Level.ERROR, Symptom.DEADLOCK)
SAY = Reporter(__name__, RULE)

_INIT_FENCES = ("fence.mbarrier_init.release.cluster", "fence.acq_rel.cluster")
_LOCAL_FENCES = ("fence.mbarrier_init.release.cluster", "fence.proxy.async")
_LOCAL_COPIES = ("cp.async.bulk.g2s", "cp.async.bulk.tensor.load")


def check(roles: Roles) -> Iterator[Finding]:
    """The remote fault, else the note about copies inside the CTA; one finding per kernel."""
    known = barriers(roles)
    if known.opaque or known.blind or not known.inits or order_of(roles).uncertain:
        return
    said = False
    for finding in _remote(roles, known):
        said = True
        yield finding
    if not said:
        yield from _local(roles, known)


def _remote(roles: Roles, known: Barriers) -> Iterator[Finding]:
    for use in known.uses:
        if not use.remote:
            continue
        inits = known.inits_of(use) or list(known.inits)
        bare = [site for site in inits if _relaxed_only(roles, site.event, use.event)]
        # Another init of the same use that is published would leave it open which one counts.
        if not bare or len(bare) < len(inits):
            continue
        init = max(bare, key=lambda site: site.event.order)
        arrive = _arrive_after(roles, init.event)
        assert arrive is not None
        sure = clustered(roles) is Clustered.YES
        yield SAY.at(
            roles,
            init.event,
            f"The init of {label(init)} by {who(roles, init.event.reach)} is not published to the cluster: the cluster "
            f"arrive at line {line(roles, arrive.op.span)} is relaxed, no `fence.mbarrier_init` stands before it, and "
            f"{spelled(use.event)} (line {line(roles, use.event.op.span)}) reaches the word of another CTA.",
            level=None if sure else Level.WARNING,
            why="A relaxed arrive orders nothing: the peer may pass the cluster barrier and still find the old word; "
            "what it sends there is lost, and a waiter hangs.",
            remedy="Execute `fence.mbarrier_init.release.cluster` in the initialising thread right after its inits, or "
            "arrive with `.release` (the default).",
            related=[
                location(roles, arrive.op.span, "relaxed: publishes nothing"),
                location(roles, use.event.op.span, "first use in another CTA"),
                *(location(roles, site.event.op.span, "the same init block") for site in bare if site is not init),
            ],
        )
        return


def _arrive_after(roles: Roles, init: Event) -> Event | None:
    """The first cluster arrive of the initialising threads behind the init."""
    mine = init.reach.threads
    later = (e for e in roles.of("barrier.cluster.arrive") if e.order > init.order and e.reach.threads & mine)
    return next(later, None)


def _relaxed_only(roles: Roles, init: Event, use: Event) -> bool:
    """The init is followed by a relaxed cluster arrive and, before that, by nothing that publishes it."""
    arrive = _arrive_after(roles, init)
    if arrive is None or arrive.op.mods.get("sem") != "relaxed":
        return False
    waits = [e for e in roles.of(*sorted(CLUSTER_WAITS)) if e.order > arrive.order]
    if not waits:
        return False
    return not any(
        init.order < e.order < arrive.order and e.reach.threads & init.reach.threads and _publishes(e)
        for e in roles.of(*_INIT_FENCES)
    )


def _publishes(fence: Event) -> bool:
    if fence.name == "fence.mbarrier_init.release.cluster":
        return True
    return fence.op.mods.get("scope") != "cta" and fence.op.mods.get("sem") != "acquire"


def _local(roles: Roles, known: Barriers) -> Iterator[Finding]:
    for use in known.uses:
        if use.event.name not in _LOCAL_COPIES or use.remote:
            continue
        inits = known.inits_of(use)
        if not inits or any(_fenced_locally(roles, site.event, use.event) for site in inits):
            continue
        init = max(inits, key=lambda site: site.event.order)
        yield SAY.at(
            roles,
            init.event,
            f"{capital(label(init))} is initialised by {who(roles, init.event.reach)} and named in a copy (line "
            f"{line(roles, use.event.op.span)}) with no `fence.mbarrier_init` between.",
            level=Level.NOTE,
            why="The copy engine completes on the word by itself. Within one CTA a barrier suffices by the current PTX "
            "text; older text and most libraries fence the init.",
            remedy="Execute `fence.mbarrier_init.release.cluster` right after the inits.",
            related=[location(roles, use.event.op.span, "the copy that completes on it")],
        )
        return


def _fenced_locally(roles: Roles, init: Event, use: Event) -> bool:
    fences = [*roles.of(*_LOCAL_FENCES), *(e for e in roles.of("barrier.cluster.arrive"))]
    return any(
        e.order > init.order
        and (e.order < use.order or not e.reach.threads & use.reach.threads)
        and e.reach.threads & init.reach.threads
        and e.op.mods.get("sem") != "relaxed"
        for e in fences
    )
