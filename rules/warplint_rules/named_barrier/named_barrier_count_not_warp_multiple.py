"""The thread count of a named barrier is not a multiple of the warp size.

## Why
Named barriers count warps. A count that is no multiple of 32 is refused by ptxas when it is a literal; in a
register it traps with an illegal instruction (seen on an H200), and `bar.arrive` with 0 has no meaning.

## Bad
```cuda
__device__ void bar_sync(int id, int n) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n) : "memory"); }
extern "C" __global__ void __launch_bounds__(64) pack(float* out) {
  __shared__ float s[64];
  int n = 48;
  s[threadIdx.x] = 1.f;
  if (threadIdx.x < 48) bar_sync(3, n);
  out[threadIdx.x] = s[threadIdx.x];
}
```

## Good
```cuda
__device__ void bar_sync(int id, int n) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n) : "memory"); }
extern "C" __global__ void __launch_bounds__(64) pack(float* out) {
  __shared__ float s[64];
  int n = 64;
  s[threadIdx.x] = 1.f;
  bar_sync(3, n);
  out[threadIdx.x] = s[threadIdx.x];
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.rule import Rule
from warplint.threads.facts import Roles
from warplint_rules._say import Reporter, location, sites, spelled
from warplint_rules.named_barrier._ids import named

RULE = Rule(Level.ERROR, Symptom.CRASH, supersedes=("named-barrier-count-mismatch",), spoils="schedule")
SAY = Reporter(__name__, RULE)


def check(roles: Roles) -> Iterator[Finding]:
    """Known counts that are no whole number of warps."""
    size = roles.launch.warp_size
    for barrier in named(roles).barriers:
        zero = barrier.count == 0
        if barrier.count % size == 0 and barrier.count > 0:
            continue
        # Without a count the whole block takes part; a block that is no whole number of warps is legal.
        events = [
            event
            for event in sites(use.event for use in barrier.uses)
            if "threads" in event.values and event.constant("threads") != roles.threads
        ]
        for event in events[:1]:
            up = max(size, -(-barrier.count // size) * size)
            yield SAY.at(
                roles,
                event,
                f"{spelled(event)} on barrier {barrier.id} has a thread count of {barrier.count}, "
                + ("which `bar.arrive` must not have." if zero else f"which is not a multiple of {size}."),
                why="The barrier counts whole warps; a count that is none traps with an illegal instruction at run "
                "time, and ptxas "
                "refuses it as a literal.",
                remedy=f"Use the threads of all warps that take part: {up} for {up // size} "
                f"warp{'s' if up > size else ''}.",
                related=[location(roles, other.op.span, "the same count") for other in events[1:]],
            )
