"""The id of a named barrier is not one of the sixteen, or is the one that `__syncthreads` uses.

## Why
A block has barriers 0 to 15. ptxas refuses a larger literal; in a register 16 acts on barrier 0 (seen on an H200),
so the group mixes with `__syncthreads()`. Barrier 0 with a count of its own beside `__syncthreads()` is the same
mix.

## Bad
```cuda
__device__ void bar_sync(int id, int n) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n) : "memory"); }
extern "C" __global__ void __launch_bounds__(256) groups(float* out) {
  __shared__ float s[256];
  s[threadIdx.x] = 1.f;
  bar_sync(15 + threadIdx.x / 128, 128);
  out[threadIdx.x] = s[threadIdx.x ^ 1];
}
```

## Good
```cuda
__device__ void bar_sync(int id, int n) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n) : "memory"); }
extern "C" __global__ void __launch_bounds__(256) groups(float* out) {
  __shared__ float s[256];
  s[threadIdx.x] = 1.f;
  bar_sync(14 + threadIdx.x / 128, 128);
  out[threadIdx.x] = s[threadIdx.x ^ 1];
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.rule import Rule
from warplint.threads.facts import Event, Roles
from warplint_rules._say import Reporter, line, location, reached, sites, spelled, who
from warplint_rules.named_barrier._ids import Barrier, named
from warplint_rules.participation._balance import BARRIERS

RULE = Rule(Level.ERROR, Symptom.CRASH, spoils="schedule")
SAY = Reporter(__name__, RULE)

_LAST = 15


def check(roles: Roles) -> Iterator[Finding]:
    """Known ids outside 0..15, and barrier 0 with a count beside the CTA barrier."""
    said: set[int] = set()
    for barrier in named(roles).barriers:
        event = barrier.uses[0].event
        if id(event.op) in said:
            continue
        if not 0 <= barrier.id <= _LAST:
            said.add(id(event.op))
            yield SAY.at(
                roles,
                event,
                f"{spelled(event)} names barrier {barrier.id}; a block has barriers 0 to {_LAST}.",
                why="ptxas refuses such a literal; from a register, 16 acts on barrier 0 (seen on an H200), which "
                "`__syncthreads` uses.",
                remedy=f"Use an id in 1..{_LAST} that no other group uses at the same time.",
            )
        elif barrier.id == 0 and barrier.count != roles.threads and (meeting := _meeting(roles, barrier)):
            said.add(id(event.op))
            yield SAY.at(
                roles,
                event,
                f"{spelled(event)} uses barrier 0 for {barrier.count} threads ({who(roles, event.reach)} here), and "
                f"`{meeting[0].op.spelling}` (line {line(roles, meeting[0].op.span)}) for the whole block.",
                symptom=Symptom.DEADLOCK,
                why="Both are the same hardware barrier with two counts: arrivals of one complete or block the other.",
                remedy=f"Give the group an id of its own in 1..{_LAST}.",
                related=[location(roles, other.op.span, "barrier 0 for the whole block") for other in meeting[:4]],
            )


def _meeting(roles: Roles, barrier: Barrier) -> list[Event]:
    """CTA barriers that other threads may wait at while the group uses barrier 0.

    Those that everybody has left before are over: barrier 0 may serve a group after the last `__syncthreads`.
    """
    first = min(use.event.order for use in barrier.uses)
    around = {id(loop) for use in barrier.uses for loop in use.event.loops}
    return sites(
        event
        for event in reached(roles, *BARRIERS)
        if event.order > first or event.live & ~event.reach.threads or any(id(loop) in around for loop in event.loops)
    )
