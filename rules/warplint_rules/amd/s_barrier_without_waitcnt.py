"""A raw `s_barrier` hands shared memory over with nothing that waits for the stores.

## Why
`s_barrier` joins the waves and orders no memory. An LDS store may still be in the queue when the wave passes it;
another wave then reads the old contents. The same holds for a load straight into LDS, and for an LDS read whose value
nobody has used yet when another wave overwrites its place. `__syncthreads()` contains the fences; the built-in does
not. A wait that stands behind the barrier covers the waiting wave's own operations, not those of the others.

## Bad
```cuda
// warplint: --arch gfx942
#include <hip/hip_runtime.h>
extern "C" __global__ void __launch_bounds__(256) mirror(float* out, const float* in) {
  __shared__ float tile[256];
  tile[threadIdx.x] = in[threadIdx.x];
  __builtin_amdgcn_s_barrier();
  out[threadIdx.x] = tile[255 - threadIdx.x];
}
```

## Good
```cuda
// warplint: --arch gfx942
#include <hip/hip_runtime.h>
extern "C" __global__ void __launch_bounds__(256) mirror(float* out, const float* in) {
  __shared__ float tile[256];
  tile[threadIdx.x] = in[threadIdx.x];
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
  out[threadIdx.x] = tile[255 - threadIdx.x];
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.machine import Execution
from warplint.rule import Rule
from warplint.source import Span
from warplint_rules._executed import at, made_by, storage
from warplint_rules._say import Reporter
from warplint_rules.amd._handover import deed, early, named_at, places, wait_text

RULE = Rule(Level.ERROR, Symptom.WRONG_RESULT, executes=True, supersedes=("smem-race",))
SAY = Reporter(__name__, RULE)


def check_execution(execution: Execution) -> Iterator[Finding]:
    """What a wave has under way at a raw barrier, with no wait before it, and another wave then touches."""
    roles = execution.roles
    said: set[Span] = set()
    for hazard, counted in early(execution, ""):
        first, second, barrier = hazard.first, hazard.second, counted.barrier
        if barrier is None or barrier in said:
            continue
        said.add(barrier)
        direct = first.what not in ("ordinary store", "ordinary load", "LDS write", "LDS read")
        fence = f'`__builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup")` or {wait_text(roles, counted)}'
        yield SAY.at(
            roles,
            barrier,
            f"{named_at(roles, barrier, 'the barrier')} hands over {storage(first)}, and nothing waits for "
            f"{deed(first)} at line {at(execution, first.span)} before it.",
            threads=made_by(execution, first),
            why="The barrier orders execution only: "
            + ("what the load brings" if direct else "the access" if not first.write else "the store")
            + f" may still be under way when {made_by(execution, second)} "
            + ("overwrites the place." if second.write else "reads."),
            remedy=f"Put {wait_text(roles, counted) if direct else fence} before the barrier"
            + (", or use `__syncthreads()`." if not direct else "."),
            related=places(execution, hazard),
        )
