r"""The result of a one-shot `try_wait` or `test_wait` does not control a retry.

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
from warplint.program.ir import Seq
from warplint.rule import Rule
from warplint.source import Span
from warplint.threads.facts import Event, Roles
from warplint_rules._flow import Flow, Place, flow_of, lost
from warplint_rules._say import Reporter, location, sites, spelled, under, who
from warplint_rules._words import WAITS, barriers, label

RULE = Rule(Level.WARNING, Symptom.WRONG_RESULT)
SAY = Reporter(__name__, RULE)


def check(roles: Roles) -> Iterator[Finding]:
    """Each one-shot wait whose result neither ends a loop nor decides about another wait."""
    known = barriers(roles)
    waits = sites(use.event for use in known.uses if use.event.name in WAITS)
    once = [event for event in waits if not event.op.mods.get("blocking")]
    if not once or known.opaque:
        return
    flow = flow_of(roles)
    labels = {id(use.event.op): label(use) for use in known.uses}
    for event in once:
        others = [other for other in waits if other.op is not event.op]
        if _retried(flow, event, others) or _leads_to_a_wait(flow, event, others):
            continue
        branches = [branch for branch in flow.branches if flow.decides(event.op, branch.test)]
        if not branches and lost(branch.test for branch in flow.branches):
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


def _retried(flow: Flow, event: Event, others: list[Event]) -> bool:
    place = flow.ops.get(id(event.op))
    if place is None or any(flow.ends(event.op, loop) for loop in place.loops):
        return True
    # `done = try_wait(); while (!done) done = try_wait();`
    holding = {id(loop): loop for other in others for loop in _around(flow, other).loops}
    return any(flow.ends(event.op, loop) for loop in holding.values())


def _leads_to_a_wait(flow: Flow, event: Event, others: list[Event]) -> bool:
    """The result decides whether a real wait follows, or goes into one (`wait(bar, parity, token)`)."""
    holding = {id(branch): branch for other in others for branch in _around(flow, other).ifs}
    if any(flow.decides(event.op, branch.test) for branch in holding.values()):
        return True
    return any(
        flow.decides(event.op, value)
        for other in others
        for value in (other.op.predicate, *(other.op.operands.get(role) for role in ("parity", "state", "value")))
    )


def _around(flow: Flow, event: Event) -> Place:
    return flow.ops.get(id(event.op), _NOWHERE)


_NOWHERE = Place(Seq(Span(0, 0), ()), (), ())
