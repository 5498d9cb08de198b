"""A memory fence stands where threads have to wait for one another.

## Why
`__threadfence()` and `__threadfence_block()` order the accesses of the thread that executes them; they wait for
nobody. A reader behind the fence may run before the writer has stored at all.

## Bad
```cuda
extern "C" __global__ void __launch_bounds__(128) mirror(float* out, const float* in) {
  __shared__ float tile[128];
  tile[threadIdx.x] = in[threadIdx.x];
  __threadfence_block();
  out[threadIdx.x] = tile[127 - threadIdx.x];
}
```

## Good
```cuda
extern "C" __global__ void __launch_bounds__(128) mirror(float* out, const float* in) {
  __shared__ float tile[128];
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[127 - threadIdx.x];
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.machine import Execution
from warplint.machine.memory import Hazard, Order
from warplint.rule import Rule
from warplint.threads.facts import Event
from warplint_rules._executed import hazards, made_by, place, storage
from warplint_rules._flags import handed
from warplint_rules._say import Reporter, reached, spelled
from warplint_rules._spins import spins

RULE = Rule(Level.ERROR, Symptom.WRONG_RESULT, executes=True, supersedes=("smem-race", "missing-syncwarp"))
SAY = Reporter(__name__, RULE)

_FENCES = ("fence.acq_rel.*", "amd.fence")


def check_execution(execution: Execution) -> Iterator[Finding]:
    """Unordered accesses with a fence and no barrier between them in the text."""
    fences = list(reached(execution.roles, *_FENCES))
    if not fences or spins(execution.roles):
        return  # a fence beside a spin flag is part of a hand-over that is not followed
    said: set[int] = set()
    for outcome, hazard in hazards(execution, _ordinary):
        if handed(outcome, hazard):
            continue
        first, second = hazard.first, hazard.second
        fence = _between(fences, hazard)
        if fence is None or id(fence.op) in said:
            continue
        said.add(id(fence.op))
        yield SAY.at(
            execution.roles,
            fence,
            f"{spelled(fence)} orders the accesses of each thread and waits for none: the {second.what} by "
            f"{made_by(execution, second)} may come before the {first.what} to {storage(first)}.",
            why="A fence is no barrier: a thread behind it has no reason to believe that any other thread has stored.",
            remedy="Use `__syncthreads()` (for a single warp `__syncwarp()`), which waits and orders.",
            related=[place(execution, first, "the first access"), place(execution, second, "the second access")],
        )


def _ordinary(hazard: Hazard) -> bool:
    return hazard.order in (Order.UNJOINED, Order.SAME_WARP) and all(
        access.proxy == "generic" and not access.pending and not access.done and not access.tensor
        for access in (hazard.first, hazard.second)
    )


def _between(fences: list[Event], hazard: Hazard) -> Event | None:
    """A fence by the threads of the first access that stands between the two in the text."""
    start, end = hazard.first.span.start, hazard.second.span.start
    for fence in fences:
        if start < fence.op.span.start < end and fence.reach.threads & hazard.first.threads:
            return fence
    return None
