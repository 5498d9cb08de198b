"""One generation of a barrier is completed from several `bar.sync`/`__syncthreads` sites.

## Why
The hardware counts warps, so role branches that each call the barrier once do complete it. PTX defines the aligned
form only where all threads execute the same instruction; a compiler may rely on that (it may move code across a
barrier that it thinks all threads pass together). `barrier.sync`, the form without `.aligned`, is defined for
different sites.

## Bad
```cuda
extern "C" __global__ void __launch_bounds__(128) halves(float* out, const float* in) {
  __shared__ float s[128];
  if (threadIdx.x < 64) {
    s[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
  } else {
    s[threadIdx.x] = 2.f * in[threadIdx.x];
    __syncthreads();
  }
  out[threadIdx.x] = s[127 - threadIdx.x];
}
```

## Good
```cuda
extern "C" __global__ void __launch_bounds__(128) halves(float* out, const float* in) {
  __shared__ float s[128];
  if (threadIdx.x < 64) {
    s[threadIdx.x] = in[threadIdx.x];
  } else {
    s[threadIdx.x] = 2.f * in[threadIdx.x];
  }
  __syncthreads();
  out[threadIdx.x] = s[127 - threadIdx.x];
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.rule import Rule
from warplint.threads.facts import Roles
from warplint_rules._say import Reporter, line, location, sites, spelled, warps
from warplint_rules.participation._balance import balance

RULE = Rule(Level.NOTE, Symptom.DEADLOCK)
SAY = Reporter(__name__, RULE)

_ALIGNED = ("bar.sync.cta", "bar.red.cta", "bar.sync.named")


def check(roles: Roles) -> Iterator[Finding]:
    """Sibling sites of the CTA barrier, split along warps."""
    said: set[int] = set()
    for split in balance(roles).splits:
        events = [event for event in sites(split.events) if event.name in _ALIGNED and id(event.op) not in said]
        if split.within_warp or len(sites(split.events)) < 2 or not events:
            continue
        said.update(id(event.op) for event in events)
        first, rest = events[0], sites(split.events)
        lines = ", ".join(sorted({str(line(roles, event.op.span)) for event in rest}, key=int))
        yield SAY.at(
            roles,
            first,
            f"{spelled(first)} completes one barrier together with other sites (lines {lines}): each role calls its "
            "own.",
            why="The hardware counts warps and the barrier completes; PTX defines the aligned form only for one common "
            "instruction, and a compiler may move code across it on that ground.",
            remedy="Use one barrier behind the branch, or `barrier.sync 0` (without `.aligned`), which is defined for "
            "different sites.",
            related=[
                location(roles, event.op.span, f"{warps(roles, event.reach.threads)} take part here")
                for event in rest
                if event.op is not first.op
            ],
        )
