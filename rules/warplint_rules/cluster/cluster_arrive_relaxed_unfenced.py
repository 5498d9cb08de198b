r"""Data for another CTA is published over a relaxed cluster arrive with no fence.

## Why
`barrier.cluster.arrive.relaxed` orders nothing. A peer that passes the cluster barrier may still read the old bytes
of shared memory that was written before it. The arrive has to release (the default), or `fence.acq_rel.cluster` has
to stand in front of it.

## Bad
```cuda
__device__ unsigned smem(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ float peer_load(const float* p, unsigned cta) {
  float v;
  asm volatile("{\n .reg .b32 r;\n mapa.shared::cluster.u32 r, %1, %2;\n ld.shared::cluster.f32 %0, [r];\n}"
               : "=f"(v) : "r"(smem(p)), "r"(cta) : "memory");
  return v;
}
__device__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ void cluster_arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
__device__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(64) threshold(float* out, const float* in) {
  __shared__ float limit;
  if (threadIdx.x == 0) limit = in[blockIdx.x];
  __syncthreads();
  cluster_arrive_relaxed();
  cluster_wait();
  out[blockIdx.x * 64 + threadIdx.x] = peer_load(&limit, 0);
  cluster_arrive();
  cluster_wait();
}
```

## Good
```cuda
__device__ unsigned smem(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ float peer_load(const float* p, unsigned cta) {
  float v;
  asm volatile("{\n .reg .b32 r;\n mapa.shared::cluster.u32 r, %1, %2;\n ld.shared::cluster.f32 %0, [r];\n}"
               : "=f"(v) : "r"(smem(p)), "r"(cta) : "memory");
  return v;
}
__device__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ void cluster_arrive_relaxed() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
__device__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(64) threshold(float* out, const float* in) {
  __shared__ float limit;
  if (threadIdx.x == 0) limit = in[blockIdx.x];
  __syncthreads();
  cluster_arrive();
  cluster_wait();
  out[blockIdx.x * 64 + threadIdx.x] = peer_load(&limit, 0);
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
from warplint.threads.facts import AccessFact, Event, Roles
from warplint_rules._cluster import remote_accesses
from warplint_rules._executed import at, made_by, place, storage
from warplint_rules._hazards import grouped
from warplint_rules._say import Reporter, line, location, reached, spelled, who
from warplint_rules._words import Clustered, clustered, has_opaque

RULE = Rule(Level.WARNING, Symptom.WRONG_RESULT, executes=True)
SAY = Reporter(__name__, RULE)


def check(roles: Roles) -> Iterator[Finding]:
    """One finding per variable that a peer reads behind arrives which are all relaxed."""
    if has_opaque(roles) or clustered(roles) is Clustered.NO:
        return
    arrives = list(reached(roles, "barrier.cluster.arrive"))
    fences = [e for e in reached(roles, "fence.acq_rel.cluster") if e.mod("scope") != "cta"]
    said: set[int] = set()
    for read, symbol in remote_accesses(roles):
        if id(symbol) in said:
            continue
        for write in roles.accesses:
            if write.symbol is not symbol or not write.write or write.order > read.order:
                continue
            between = [event for event in arrives if write.order < event.order < read.order]
            if not between or any(event.mod("sem") != "relaxed" for event in between):
                continue
            if any(write.order < fence.order < read.order for fence in fences):
                continue
            said.add(id(symbol))
            yield _finding(roles, read, write, between[-1])
            break


def check_execution(execution: Execution) -> Iterator[Finding]:
    """One finding per write that only relaxed cluster barriers order before an access that needs it."""
    roles = execution.roles
    arrives = [event for event in reached(roles, "barrier.cluster.arrive") if event.mod("sem") == "relaxed"]
    for write, found in grouped(execution, _relaxed):
        read = found[0].second
        behind = [event for event in arrives if event.op.span.start > write.span.start] or arrives
        if not behind:
            continue
        yield SAY.at(
            roles,
            behind[0],
            f"{spelled(behind[0])} is relaxed and no fence stands before it, but the {read.what} by "
            f"{made_by(execution, read)} (line {at(execution, read.span)}) relies on it for {storage(write)}.",
            why="A relaxed arrive publishes nothing: the reader may see the bytes from before the write.",
            remedy="Arrive with `.release` (the default), or execute `fence.acq_rel.cluster` before the arrive.",
            related=[
                place(execution, write, "not published by it"),
                place(execution, read, "the access that relies on it"),
            ],
        )


def _relaxed(hazard: Hazard) -> bool:
    return hazard.order is Order.RELAXED and hazard.first.write


def _finding(roles: Roles, read: Event, write: AccessFact, arrive: Event) -> Finding:
    return SAY.at(
        roles,
        arrive,
        f"{spelled(arrive)} is relaxed and no fence stands before it, but {who(roles, read.reach)} read "
        f"`{write.symbol.name}` of another CTA behind it (line {line(roles, read.op.span)}).",
        why="A relaxed arrive publishes nothing: the peer may read the bytes from before the write.",
        remedy="Arrive with `.release` (the default), or execute `fence.acq_rel.cluster` before the arrive.",
        related=[
            location(roles, write.span, f"written here by {who(roles, write.reach)}"),
            location(roles, read.op.span, "read here by the peer"),
        ],
    )
