"""Two groups of warps that can be in flight at once use one named barrier.

## Why
The hardware does not know groups: it counts warps on an id. If two warpgroups sync on the same id at the same time, a
generation completes from half of one and half of the other, and each goes on before its own members have written.

## Bad
```cuda
__device__ void warpgroup_sync(int id) { asm volatile("bar.sync %0, 128;" ::"r"(id) : "memory"); }
extern "C" __global__ void __launch_bounds__(256) groups(float* out) {
  __shared__ float s[256];
  s[threadIdx.x] = 1.f;
  if (threadIdx.x < 128) {
    warpgroup_sync(8);
    out[threadIdx.x] = s[127 - threadIdx.x];
  } else {
    warpgroup_sync(8);
    out[threadIdx.x] = s[383 - threadIdx.x];
  }
}
```

## Good
```cuda
__device__ void warpgroup_sync(int id) { asm volatile("bar.sync %0, 128;" ::"r"(id) : "memory"); }
extern "C" __global__ void __launch_bounds__(256) groups(float* out) {
  __shared__ float s[256];
  s[threadIdx.x] = 1.f;
  if (threadIdx.x < 128) {
    warpgroup_sync(8);
    out[threadIdx.x] = s[127 - threadIdx.x];
  } else {
    warpgroup_sync(9);
    out[threadIdx.x] = s[383 - threadIdx.x];
  }
}
```
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from warplint.finding import Finding, Level, Symptom
from warplint.rule import Rule
from warplint.threads.facts import Event, Roles
from warplint_rules._say import Reporter, location, reached, spelled, warps
from warplint_rules.named_barrier._ids import Use, named
from warplint_rules.participation._balance import barriers

RULE = Rule(Level.WARNING, Symptom.WRONG_RESULT, supersedes=("smem-race",))
SAY = Reporter(__name__, RULE)

_MAX_PAIRS = 2_000


def check(roles: Roles) -> Iterator[Finding]:
    """Sites of one id that disjoint groups complete each for itself, with no CTA barrier between."""
    joins = [*barriers(roles), *reached(roles, "barrier.cluster.wait")]
    size = roles.launch.warp_size
    for barrier in named(roles).barriers:
        alone = [
            use
            for use in barrier.uses
            if use.event.name != "bar.arrive.named" and use.event.reach.exact and len(use.warps) * size == barrier.count
        ]
        for count, (one, other) in enumerate(combinations(alone, 2)):
            if count > _MAX_PAIRS:
                break
            if not one.warps & other.warps and _together(one, other, joins):
                yield _finding(roles, barrier.id, barrier.count, one, other)
                break


def _together(one: Use, other: Use, joins: list[Event]) -> bool:
    """No CTA-wide join separates the two sites, so both groups may be there at once."""
    first, second = sorted((one.event, other.event), key=lambda event: event.order)
    if any(loop in second.loops for loop in first.loops):
        return True
    return not any(first.order < join.order < second.order for join in joins)


def _finding(roles: Roles, number: int, count: int, one: Use, other: Use) -> Finding:
    first, second = one.event, other.event
    return SAY.at(
        roles,
        second,
        f"{spelled(second)} uses barrier {number} for {warps(roles, second.reach.threads)}, and "
        f"{warps(roles, first.reach.threads)} use the same barrier for themselves: both may be there at once.",
        why=f"Each group alone makes up the {count} threads; when they come together, a generation completes from some "
        "warps of each, which go on before their own partners have come.",
        remedy="Give each group an id of its own (`(warp_id >> 2) + base`).",
        related=[location(roles, first.op.span, f"{warps(roles, first.reach.threads)} use it here")],
    )
