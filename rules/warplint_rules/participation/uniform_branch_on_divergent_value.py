"""A branch that holds warp-wide waits or barriers tests a value that differs from lane to lane.

## Why
A blocking wait or a barrier inside a branch is meant for the whole warp. When the condition is a per-lane value
(loaded per thread, or computed per thread), only some lanes go in: a named barrier counts the warp once for each
group of lanes, and the lanes that stayed out run ahead of data that the wait was to guard.

## Bad
```cuda
__device__ void group_sync() { asm volatile("bar.sync 1, 64;" ::: "memory"); }
extern "C" __global__ void __launch_bounds__(64) rows(float* out, const int* live) {
  __shared__ float s[64];
  s[threadIdx.x] = 0.f;
  if (live[threadIdx.x] > 0) {
    s[threadIdx.x] = 1.f;
    group_sync();
    out[threadIdx.x] = s[63 - threadIdx.x];
  }
}
```

## Good
```cuda
__device__ void group_sync() { asm volatile("bar.sync 1, 64;" ::: "memory"); }
extern "C" __global__ void __launch_bounds__(64) rows(float* out, const int* live) {
  __shared__ float s[64];
  s[threadIdx.x] = 0.f;
  if (live[threadIdx.x] > 0) {
    s[threadIdx.x] = 1.f;
  }
  group_sync();
  if (live[threadIdx.x] > 0) out[threadIdx.x] = s[63 - threadIdx.x];
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.rule import Rule
from warplint.threads.facts import Condition, Event, Opaque, Roles, Uniformity
from warplint_rules._say import Reporter, condition_text, line, location, reached, sites, spelled
from warplint_rules.participation._balance import barriers, divides

RULE = Rule(Level.WARNING, Symptom.DEADLOCK)
SAY = Reporter(__name__, RULE)

_NAMED = ("bar.sync.named", "bar.arrive.named")


def check(roles: Roles) -> Iterator[Finding]:
    """One finding for each per-lane condition around named barriers."""
    cta = {id(event) for event in barriers(roles)}
    groups: dict[int, tuple[Condition, list[Event]]] = {}
    for event in reached(roles, *_NAMED):
        if id(event) in cta:
            continue  # cta-barrier-in-divergent-code speaks
        for guard in event.guards:
            if _per_lane(guard) and divides(roles.kernel, guard, Uniformity.WARP):
                groups.setdefault(id(guard.stmt or guard), (guard, []))[1].append(event)
                break
    for guard, events in groups.values():
        first, *rest = sites(events)
        yield SAY.at(
            roles,
            guard.span,
            f"`{condition_text(guard)}` differs from lane to lane, and {spelled(first)} at line "
            f"{line(roles, first.op.span)} "
            "inside it is an operation of whole warps.",
            guards=[other for other in first.guards if other is not guard],
            why="A named barrier counts warps: lanes of one warp that come apart count twice, and lanes that stay "
            "out run ahead of "
            "the hand-over.",
            remedy="Move the operation out of the branch and guard only the loads and stores, or make the condition "
            "the same for "
            "the warp (`__any_sync`, `__shfl_sync`).",
            related=[location(roles, event.op.span, f"{spelled(event)}") for event in [first, *rest]],
        )


def _per_lane(guard: Condition) -> bool:
    """Unknown, established to differ between lanes, and not a return (exited lanes are not waited for)."""
    if guard.kind == "exit" or not isinstance(guard.value, Opaque):
        return False
    return guard.value.varies and guard.value.uniformity == Uniformity.LANE and guard.after.split == Uniformity.LANE
