"""The register counts of all warpgroups together pass what the block was launched with.

## Why
`setmaxnreg.inc` waits until the block's own pool has the registers. The pool is what the block started with; it
never grows. If the counts that the warpgroups end up with sum to more, the last increase waits for ever.

## Bad
```cuda
__device__ void give() { asm volatile("setmaxnreg.dec.sync.aligned.u32 40;"); }
__device__ void take() { asm volatile("setmaxnreg.inc.sync.aligned.u32 240;"); }
extern "C" __global__ void __launch_bounds__(384, 1) roles(float* out) {
  if (threadIdx.x < 128) {
    give();
  } else {
    take();
    out[threadIdx.x] = 1.f;
  }
}
```

## Good
```cuda
__device__ void give() { asm volatile("setmaxnreg.dec.sync.aligned.u32 40;"); }
__device__ void take() { asm volatile("setmaxnreg.inc.sync.aligned.u32 232;"); }
extern "C" __global__ void __launch_bounds__(384, 1) roles(float* out) {
  if (threadIdx.x < 128) {
    give();
  } else {
    take();
    out[threadIdx.x] = 1.f;
  }
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.rule import Rule
from warplint.threads.facts import Roles
from warplint_rules._say import Reporter, line, location, spelled
from warplint_rules.registers._counts import WARPGROUP, Request, at_entry, by_warp

RULE = Rule(Level.ERROR, Symptom.DEADLOCK, spoils="schedule")
SAY = Reporter(__name__, RULE)


def check(roles: Roles) -> Iterator[Finding]:
    """The final counts of all warpgroups against the largest pool that the block can have."""
    start = at_entry(roles)
    warps, rest = divmod(roles.threads, roles.launch.warp_size)
    if start is None or roles.assumed_block or rest or warps % WARPGROUP:
        return
    requests = by_warp(roles)
    last: dict[int, Request] = {}
    for group in range(warps // WARPGROUP):
        own = [requests.get(warp, []) for warp in range(group * WARPGROUP, (group + 1) * WARPGROUP)]
        # Only where every warp of the group surely makes one request; otherwise its final count is not established.
        if any(len(each) != 1 or not each[0].event.reach.exact or each[0].registers is None for each in own):
            return
        if len({each[0].registers for each in own}) != 1 or _optional(own[0][0]):
            return
        last[group] = own[0][0]
    pool = start * (warps // WARPGROUP)
    asked = sum(request.registers or 0 for request in last.values())
    raising = [request for request in last.values() if request.direction == "inc"]
    if asked <= pool or not raising:
        return
    first = raising[0].event
    parts = " + ".join(str(request.registers) for request in last.values())
    kept = sum(request.registers or 0 for request in last.values() if request.direction != "inc")
    most = max((pool - kept) // len(raising) // 8 * 8, 24)
    yield SAY.at(
        roles,
        first,
        f"{spelled(first)} can never be granted to every warpgroup: together they ask for {parts} = {asked} "
        "registers per lane, "
        f"and the block starts with at most {pool} ({warps // WARPGROUP} x {start}).",
        why="An increase waits until the block's pool has the registers, and the pool never grows beyond what the "
        "block was "
        "launched with.",
        remedy=f"Lower the counts until they sum to at most {pool} (for example {most} here).",
        related=[
            location(roles, request.event.op.span, f"warpgroup {group}: {request.registers}")
            for group, request in last.items()
            if line(roles, request.event.op.span) != line(roles, first.op.span)
        ],
    )


def _optional(request: Request) -> bool:
    """Under a condition that is not known: it may not happen at all."""
    return any(not guard.known for guard in request.event.guards)
