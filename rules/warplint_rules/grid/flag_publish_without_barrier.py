"""One thread publishes data that other threads of its block wrote, with no barrier before.

## Why
A release orders what the releasing thread itself has written or has seen. Writes of other threads are covered only
after a barrier has joined them. Without it the flag is up while some of the data is still on its way, and the
reader in another block takes the old values.

## Bad
```cuda
extern "C" __global__ void __launch_bounds__(256) produce(float* data, int* ready, const float* in) {
  data[blockIdx.x * 256 + threadIdx.x] = 2.f * in[blockIdx.x * 256 + threadIdx.x];
  if (threadIdx.x == 0) {
    asm volatile("red.release.gpu.global.add.s32 [%0], %1;" ::"l"(ready), "r"(1) : "memory");
  }
}
```

## Good
```cuda
extern "C" __global__ void __launch_bounds__(256) produce(float* data, int* ready, const float* in) {
  data[blockIdx.x * 256 + threadIdx.x] = 2.f * in[blockIdx.x * 256 + threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("red.release.gpu.global.add.s32 [%0], %1;" ::"l"(ready), "r"(1) : "memory");
  }
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.rule import Rule
from warplint.threads.facts import Event, Roles
from warplint_rules._say import Reporter, line, location, reached, sites, spelled, under, who
from warplint_rules.grid._global import by_others, last_join, writes

RULE = Rule(Level.WARNING, Symptom.WRONG_RESULT)
SAY = Reporter(__name__, RULE)

_PUBLISHING = ("st.release", "red.release", "red", "atom", "atom.release")
_SCOPES = ("gpu", "sys")


def check(roles: Roles) -> Iterator[Finding]:
    """Releases by one thread, and stores of the others since the last barrier."""
    for event in sites(reached(roles, *_PUBLISHING)):
        if not _publishes(roles, event):
            continue
        joined = last_join(roles, event)
        for write in writes(roles.kernel):
            start = write.stmt.span.start
            if joined <= start < event.op.span.start and by_others(roles, write, event):
                name = f"`{write.symbol.name}`" if write.symbol is not None else "global memory"
                yield SAY.at(
                    roles,
                    event,
                    f"{spelled(event)} by {who(roles, event.reach)}{under(roles, event.guards)} publishes {name}, "
                    f"which all threads store at line {line(roles, write.stmt.span)}, with no barrier between.",
                    why="A release covers what its own thread has written or seen; the stores of the other threads may "
                    "still be on their way when the flag is up.",
                    remedy="Put `__syncthreads()` between the stores and the publishing thread.",
                    related=[location(roles, write.stmt.span, "stored by all threads here")],
                )
                break


def _publishes(roles: Roles, event: Event) -> bool:
    """A release at GPU or system scope to global memory by one thread of several."""
    released = "release" in event.name or str(event.mod("sem") or "") in ("release", "acq_rel")
    if not released or event.mod("space") == "shared" or str(event.mod("scope") or "gpu") not in _SCOPES:
        return False
    return event.reach.count(roles.launch.warp_size) == 1 and roles.threads > 1
