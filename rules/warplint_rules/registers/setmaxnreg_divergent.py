"""The warps of one warpgroup do not execute the same `setmaxnreg`.

## Why
`setmaxnreg` is one operation of all four warps of a warpgroup: they must execute the same instruction with the same
count, and meet before the next one. Different counts leave the warpgroup's registers undefined, and an increase may
wait for ever. Branches of single warps that together cover the group with one count are fine.

## Bad
```cuda
template <int N> __device__ void reg_dec() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }
extern "C" __global__ void __launch_bounds__(256, 1) roles(float* out) {
  int warp = threadIdx.x / 32;
  if (warp == 4) {
    reg_dec<72>();
  } else if (warp > 4) {
    reg_dec<24>();
  }
  out[threadIdx.x] = 0.f;
}
```

## Good
```cuda
template <int N> __device__ void reg_dec() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }
extern "C" __global__ void __launch_bounds__(256, 1) roles(float* out) {
  int warp = threadIdx.x / 32;
  if (warp == 4) {
    reg_dec<72>();
  } else if (warp > 4) {
    reg_dec<72>();
  }
  out[threadIdx.x] = 0.f;
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.rule import Rule
from warplint.threads.facts import Roles
from warplint_rules._say import Reporter, location, spelled, under, who
from warplint_rules.registers._counts import WARPGROUP, Request, by_warp

RULE = Rule(Level.ERROR, Symptom.DEADLOCK, spoils="schedule")
SAY = Reporter(__name__, RULE)


def check(roles: Roles) -> Iterator[Finding]:
    """Warpgroups of which two warps execute different sequences of requests."""
    requests = by_warp(roles)
    said: set[int] = set()
    for group in sorted({warp // WARPGROUP for warp in requests}):
        members = [warp for warp in range(group * WARPGROUP, (group + 1) * WARPGROUP) if warp in requests]
        sequences = [(warp, _sequence(requests[warp])) for warp in members]
        for warp, sequence in sequences[1:]:
            first_warp, first = sequences[0]
            if sequence is None or first is None or sequence == first or len(sequence) != len(first):
                continue
            index = next(i for i, pair in enumerate(zip(first, sequence, strict=True)) if pair[0] != pair[1])
            one, other = requests[first_warp][index], requests[warp][index]
            if id(one.event.op) in said:
                continue
            said.add(id(one.event.op))
            yield _finding(roles, group, one, other)


def _sequence(requests: list[Request]) -> list[tuple[str, int]] | None:
    """The requests of one warp, None when one is not certain to happen or its count is not known."""
    found = []
    for request in requests:
        if request.registers is None or not request.event.reach.exact:
            return None
        found.append((request.direction, request.registers))
    return found


def _finding(roles: Roles, group: int, one: Request, other: Request) -> Finding:
    first, last = group * WARPGROUP, group * WARPGROUP + WARPGROUP - 1
    return SAY.at(
        roles,
        one.event,
        f"{spelled(one.event)} sets {one.registers} registers for {who(roles, one.event.reach)}"
        f"{under(roles, one.event.guards)}, and other warps of the same warpgroup (warps {first}-{last}) set "
        f"{other.registers}.",
        why="All four warps of a warpgroup must execute the same `setmaxnreg`; with different ones the result is "
        "undefined and "
        "an increase elsewhere may never be granted.",
        remedy=f"Execute one `setmaxnreg` for the whole warpgroup, before the branches of its warps ({one.registers} "
        "or "
        f"{other.registers}, the larger one if a warp needs it).",
        related=[location(roles, other.event.op.span, f"{who(roles, other.event.reach)} set {other.registers}")],
    )
