"""The result of a one-shot `try_wait` or `test_wait` does not control a retry.

## Why
`mbarrier.test_wait` looks once; `mbarrier.try_wait` gives up after a time limit that the hardware chooses. Either
may return false before the phase is complete. Code that goes on regardless, or just skips the work, reads data that
has not landed.

## Bad
```cuda
__device__ unsigned smem(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void init(unsigned long long* b, unsigned n) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(smem(b)), "r"(n) : "memory");
}
__device__ void arrive(unsigned long long* b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(smem(b)) : "memory");
}
__device__ bool try_wait(unsigned long long* b, unsigned parity) {
  unsigned done;
  asm volatile("{\n .reg .pred p;\n mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p;\n}"
               : "=r"(done) : "r"(smem(b)), "r"(parity) : "memory");
  return done != 0;
}
__global__ void __launch_bounds__(128) exchange(float* out, const float* in) {
  __shared__ float tile[128];
  __shared__ unsigned long long ready;
  if (threadIdx.x == 0) init(&ready, 128);
  __syncthreads();
  tile[threadIdx.x] = in[threadIdx.x];
  arrive(&ready);
  try_wait(&ready, 0);
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
__device__ bool try_wait(unsigned long long* b, unsigned parity) {
  unsigned done;
  asm volatile("{\n .reg .pred p;\n mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p;\n}"
               : "=r"(done) : "r"(smem(b)), "r"(parity) : "memory");
  return done != 0;
}
__global__ void __launch_bounds__(128) exchange(float* out, const float* in) {
  __shared__ float tile[128];
  __shared__ unsigned long long ready;
  if (threadIdx.x == 0) init(&ready, 128);
  __syncthreads();
  tile[threadIdx.x] = in[threadIdx.x];
  arrive(&ready);
  while (!try_wait(&ready, 0)) {
  }
  out[threadIdx.x] = tile[127 - threadIdx.x];
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.program.ir import Do, If, Loop, Stmt, walk
from warplint.rule import Rule
from warplint.threads.facts import Event, Roles
from warplint_rules._flow import Dependents, Flow, lost, site
from warplint_rules._say import Reporter, location, sites, spelled, under, who
from warplint_rules._words import WAITS, barriers, label

RULE = Rule(Level.WARNING, Symptom.WRONG_RESULT)
SAY = Reporter(__name__, RULE)


def check(roles: Roles) -> Iterator[Finding]:
    """Each one-shot wait whose result neither ends a loop nor decides about another wait."""
    known = barriers(roles)
    once = [
        event
        for event in sites(use.event for use in known.uses)
        if event.name in WAITS and not event.op.mods.get("blocking")
    ]
    if not once or known.opaque:
        return
    flow = Flow(roles.kernel)
    labels = {id(use.event.op): label(use) for use in known.uses}
    for event in once:
        dependents = flow.depends_on(event.op)
        if _retried(flow, event, dependents) or _leads_to_a_wait(flow, event, dependents):
            continue
        branches = list(dependents.branches())
        if not branches and any(isinstance(p.stmt, If) and lost(p.stmt.test) for p in flow.places):
            continue  # the result may be in a condition that was not understood
        yield SAY.at(
            roles,
            event,
            f"The result of {spelled(event)} on {labels[id(event.op)]} by {who(roles, event.reach)}"
            f"{under(roles, event.guards)} is {'tested once' if branches else 'not used'}, and no loop retries it.",
            why="A one-shot wait may return false before the phase is complete: try_wait gives up after a time limit, "
            "test_wait only looks. The code behind it then runs on data that has not arrived.",
            remedy="Repeat it until it returns true: `while (!try_wait(bar, parity)) {}`.",
            related=[location(roles, branch.test_span, "tested here, once") for branch in branches],
        )


def _retried(flow: Flow, event: Event, dependents: Dependents) -> bool:
    place = site(flow, event.op)
    if place is None:
        return True
    if any(dependents.controls(loop) for loop in place.loops):
        return True
    # `done = try_wait(); while (!done) done = try_wait();`
    return any(
        isinstance(p.stmt, Loop) and dependents.controls(p.stmt) and _holds_wait(p.stmt, event) for p in flow.places
    )


def _leads_to_a_wait(flow: Flow, event: Event, dependents: Dependents) -> bool:
    """The result decides whether a real wait follows, or goes into one (`wait(bar, parity, token)`)."""
    if any(_holds_wait(branch, event) for branch in dependents.branches()):
        return True
    for place in flow.places:
        if isinstance(place.stmt, Do) and place.stmt.op.name in WAITS and place.stmt.op is not event.op:
            op = place.stmt.op
            if dependents.has(op.predicate) or any(dependents.has(operand) for operand in op.operands.values()):
                return True
    return False


def _holds_wait(stmt: Stmt, event: Event) -> bool:
    return any(
        isinstance(inner, Do) and inner.op.name in WAITS and inner.op is not event.op for inner in walk(stmt)
    )
