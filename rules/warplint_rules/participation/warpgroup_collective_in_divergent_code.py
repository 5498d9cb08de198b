"""A warpgroup-wide operation (`wgmma`, `setmaxnreg`) that only part of a warpgroup executes.

## Why
A warpgroup is four consecutive warps that start at a multiple of four. `wgmma` and `setmaxnreg` are one operation
of all 128 threads: on an H200, `wgmma` by 1, 32 or 100 threads never completes, and `setmaxnreg` by fewer than four
warps has no effect or waits for the rest.

## Bad
```cuda
__device__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
extern "C" __global__ void __launch_bounds__(256) mainloop(float* out) {
  if (threadIdx.x < 64) {
    wgmma_fence();
    wgmma_commit();
    wgmma_wait();
  }
  out[threadIdx.x] = 0.f;
}
```

## Good
```cuda
__device__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
extern "C" __global__ void __launch_bounds__(256) mainloop(float* out) {
  if (threadIdx.x < 128) {
    wgmma_fence();
    wgmma_commit();
    wgmma_wait();
  }
  out[threadIdx.x] = 0.f;
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.rule import Rule
from warplint.threads.facts import Roles, warps_of
from warplint_rules._say import (
    Reporter,
    condition_place,
    guard_places,
    location,
    reached,
    spelled,
    threads,
    under,
    who,
)
from warplint_rules.participation._lanes import Gap, by_cause, gap, with_participation

RULE = Rule(Level.ERROR, Symptom.DEADLOCK, spoils="schedule")
SAY = Reporter(__name__, RULE)

_GROUP = with_participation("warpgroup_all")
_WARPGROUP_WARPS = 4


def check(roles: Roles) -> Iterator[Finding]:
    """One finding for each condition that narrows warpgroup operations."""
    size = roles.launch.warp_size
    group = size * _WARPGROUP_WARPS
    reallocating = 0
    for event in reached(roles, "setmaxnreg"):
        reallocating |= event.reach.threads
    gaps: list[Gap] = []
    for event in reached(roles):
        if event.name not in _GROUP:
            continue
        found = gap(roles, event, group, exited_count=False)
        if event.name == "setmaxnreg" and found is not None and not event.reach.elected:
            # Branches of single warps may cover the group together; whether they agree is setmaxnreg-divergent's.
            lanes = gap(roles, event, size, exited_count=False)
            covered = found.condition is None and not found.absent & ~reallocating
            found = lanes if covered or found.condition is not None else found
        if found is not None:
            gaps.append(found)
    for together in by_cause(gaps):
        yield _finding(roles, together)


def _finding(roles: Roles, together: list[Gap]) -> Finding:
    first = together[0]
    event, condition = first.event, first.condition
    if condition is not None and not event.reach.elected:
        message = (
            f"{spelled(event)} depends on {condition_place(roles, condition)}, "
            "on which the threads of a warpgroup disagree."
        )
    else:
        message = f"{spelled(event)} is executed by {who(roles, event.reach)}{under(roles, event.guards)}" + (
            f"; {threads(roles, first.absent)} of the same warpgroup do not execute it." if first.absent else "."
        )
    numbers = sorted({warp // _WARPGROUP_WARPS for warp in warps_of(event.reach.threads, roles.launch.warp_size)})
    names = " and ".join(f"{n * _WARPGROUP_WARPS}-{n * _WARPGROUP_WARPS + _WARPGROUP_WARPS - 1}" for n in numbers[:3])
    return SAY.at(
        roles,
        event,
        message,
        why="It is one operation of four consecutive warps starting at a multiple of four, all 128 threads together; "
        "with some "
        "of them missing it never completes (wgmma) or the registers are never reallocated (setmaxnreg).",
        remedy=f"Let all 128 threads of the warpgroup (warps {names}) execute it, and guard single threads only "
        "around what "
        "follows.",
        related=[
            *guard_places(roles, event.guards)[-3:],
            *(location(roles, other.event.op.span, "under the same condition") for other in together[1:]),
        ],
    )
