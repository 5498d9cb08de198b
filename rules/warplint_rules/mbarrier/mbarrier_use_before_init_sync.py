r"""A barrier is used by another thread with no barrier of the CTA or cluster between its init and that use.

## Why
`mbarrier.init` writes an ordinary word of shared memory. A thread that arrives or waits on it before it has learned
of the init, through a CTA barrier, works on whatever the word held: an arrival on zeros is a launch failure, one on
stale bits is lost when the init comes later, and the waiters hang. A CTA barrier says nothing about other CTAs:
before a remote arrival, a multicast or a pair's copy, the cluster has to join.

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
__global__ void __launch_bounds__(128) exchange(float* out, const float* in) {
  __shared__ float tile[128];
  __shared__ unsigned long long ready;
  if (threadIdx.x == 0) init(&ready, 128);
  tile[threadIdx.x] = in[threadIdx.x];
  arrive(&ready);
  wait(&ready, 0);
  out[threadIdx.x] = tile[127 - threadIdx.x];
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
__global__ void __launch_bounds__(128) exchange(float* out, const float* in) {
  __shared__ float tile[128];
  __shared__ unsigned long long ready;
  if (threadIdx.x == 0) init(&ready, 128);
  __syncthreads();
  tile[threadIdx.x] = in[threadIdx.x];
  arrive(&ready);
  wait(&ready, 0);
  out[threadIdx.x] = tile[127 - threadIdx.x];
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Location, Symptom
from warplint.rule import Rule
from warplint.threads.facts import Event, Roles
from warplint_rules._init import unordered
from warplint_rules._order import CLUSTER_WAITS, CTA_BARRIERS, order_of
from warplint_rules._place import belongs_behind
from warplint_rules._say import Reporter, line, location, spelled, threads, under, who
from warplint_rules._words import WAITS, Barriers, Clustered, Site, barriers, clustered, exclusive, label

RULE = Rule(Level.ERROR, Symptom.DEADLOCK, guide=True, supersedes=("mbarrier-init-not-fenced",))
SAY = Reporter(__name__, RULE)


def check(roles: Roles) -> Iterator[Finding]:
    """One finding per kernel and scope: the earliest use that nothing orders after the init."""
    yield from _local(roles)
    yield from _remote(roles)


def _local(roles: Roles) -> Iterator[Finding]:
    found = [one for one in unordered(roles) if one.late is None]
    if not found:
        return
    first = min(found, key=lambda one: one.use.event.order)
    init = max(first.inits, key=lambda site: site.event.order).event
    yield SAY.at(
        roles,
        first.use.event,
        f"{threads(roles, first.threads)} {_verb(first.threads)} {spelled(first.use.event)} on {label(first.use)}"
        f"{under(roles, first.use.event.guards)} with no CTA barrier after its init by {who(roles, init.reach)} "
        f"(line {line(roles, init.op.span)}).",
        threads=threads(roles, first.threads),
        why="These threads may get here while the word still holds whatever shared memory held: an arrival is lost or "
        "traps, a wait passes or never ends.",
        remedy=f"Put a CTA barrier (`__syncthreads()`) that all threads reach behind the init at line "
        f"{line(roles, init.op.span)} and before the first use.",
        related=[
            location(roles, init.op.span, f"initialised here by {who(roles, init.reach)}"),
            belongs_behind(roles, init, first.use.event.order, "the CTA barrier belongs behind this"),
            *_others(roles, [one.use for one in found], first.use, "so is this use"),
        ],
    )


def _remote(roles: Roles) -> Iterator[Finding]:
    known = barriers(roles)
    if known.opaque or known.blind or not known.inits or order_of(roles).uncertain:
        return
    remote = [(use, known.inits_of(use) or list(known.inits)) for use in known.uses if use.remote]
    lacking = [(use, inits) for use, inits in remote if not _joined(roles, use, inits)]
    if lacking and len(lacking) < len(remote):
        # Some CTA has joined the cluster before its remote operations, and may have told this one through a barrier.
        lacking = [(use, inits) for use, inits in lacking if not _told(roles, known, use, inits)]
    if not lacking:
        return
    use, inits = min(lacking, key=lambda pair: pair[0].event.order)
    init = max(inits, key=lambda site: site.event.order).event
    sure = clustered(roles) is Clustered.YES
    yield SAY.at(
        roles,
        use.event,
        f"{spelled(use.event)} by {who(roles, use.event.reach)} reaches {label(use)} in another CTA of the cluster "
        f"with no cluster barrier after the init (line {line(roles, init.op.span)})"
        f"{'' if sure else ', if the kernel is launched with a cluster'}.",
        level=None if sure else Level.WARNING,
        why="A CTA barrier orders the init in its own CTA only. The peer may not have initialised its word yet, or may "
        "not even have started: the arrival is lost, and the peer's waiters hang.",
        remedy="After the inits: `fence.mbarrier_init.release.cluster` in the initialising thread, then "
        "`barrier.cluster.arrive` and `barrier.cluster.wait` in all threads.",
        related=[
            location(roles, init.op.span, f"initialised here by {who(roles, init.reach)}"),
            belongs_behind(roles, init, use.event.order, "the cluster barrier belongs behind this"),
            *_others(roles, [other for other, _ in lacking], use, "so is this use"),
        ],
    )


def _joined(roles: Roles, use: Site, inits: list[Site]) -> bool:
    """Some cluster barrier may stand between the inits and the use, on the way of the use's threads."""
    for event in roles.of(*sorted(CLUSTER_WAITS)):
        if event.order >= use.event.order or not event.reach.threads & use.threads:
            continue
        if all(event.order > init.event.order or not event.reach.threads & init.threads for init in inits):
            return True
    return any(exclusive(init.event, use.event) for init in inits)


def _told(roles: Roles, known: Barriers, use: Site, inits: list[Site]) -> bool:
    """The use's threads wait for something between the inits and the use, so a peer may have told them."""
    after = min(init.event.order for init in inits)
    return any(
        after < event.order < use.event.order
        and event.reach.threads & use.threads
        and (event.name in WAITS or event.name in CTA_BARRIERS or event.name == "bar.sync.named")
        for event in roles.events
    )


def _others(roles: Roles, uses: list[Site], chosen: Site, message: str) -> Iterator[Location]:
    """The first such use of each other group of threads, then the rest."""
    seen: set[int] = {chosen.threads}
    rest: list[Event] = []
    for use in uses:
        if use.event.op is chosen.event.op:
            continue
        if use.threads in seen:
            rest.append(use.event)
            continue
        seen.add(use.threads)
        yield location(roles, use.event.op.span, message)
    for event in rest:
        yield location(roles, event.op.span, message)


def _verb(members: int) -> str:
    return "executes" if members.bit_count() == 1 else "execute"
