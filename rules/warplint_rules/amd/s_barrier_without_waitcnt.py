"""A raw `s_barrier` hands shared memory over with nothing that waits for the stores.

## Why
`s_barrier` joins the waves and orders no memory. An LDS store may still be in the queue when the wave passes it;
another wave then reads the old contents. `__syncthreads()` contains the fences; the built-in does not.

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
from warplint.program.ir import Assign, Store, walk
from warplint.rule import Rule
from warplint.threads.facts import AccessFact, Event, Roles
from warplint_rules._say import Reporter, line, location, spelled
from warplint_rules.amd._counters import LDS, joins, lds_loads, named, raw_barriers, releases, waits

RULE = Rule(Level.ERROR, Symptom.WRONG_RESULT, supersedes=("smem-race",))
SAY = Reporter(__name__, RULE)


def check(roles: Roles) -> Iterator[Finding]:
    """Raw barriers with a store since the last barrier, a load behind, and no wait between store and barrier."""
    if not roles.kernel.is_amd:
        return
    # A workgroup of one wave needs no barrier, and its LDS operations are in order.
    if roles.threads <= roles.launch.warp_size and not roles.assumed_block:
        return
    order = joins(roles)
    covers = [*releases(roles), *(wait for wait in waits(roles) if named(wait, LDS))]
    said: set[int] = set()
    for barrier in raw_barriers(roles):
        if id(barrier.op) in said:
            continue
        previous = max((join.order for join in order if join.order < barrier.order), default=0)
        store = _last_store(roles, previous, barrier)
        if store is None or any(store.order < cover.order < barrier.order for cover in covers):
            continue
        if not _read_later(roles, store, barrier):
            continue
        said.add(id(barrier.op))
        yield SAY.at(
            roles,
            barrier,
            f"{spelled(barrier)} hands `{store.symbol.name}` over, stored at line {line(roles, store.span)}, and "
            "nothing waits for the store before it.",
            why="The barrier orders execution only; the store may still be under way when another wave reads.",
            remedy='Put `__builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup")` (or `s_waitcnt lgkmcnt(0)`) before the '
            "barrier and an acquire fence behind it, or use `__syncthreads()`.",
            related=[location(roles, store.span, "the store")],
        )


def _last_store(roles: Roles, previous: int, barrier: Event) -> AccessFact | None:
    """The last store to shared memory since the previous barrier; in a loop, also one behind the barrier."""
    found = None
    for access in roles.accesses:
        if access.write and previous < access.order < barrier.order and access.reach.threads:
            found = access
    return found


def _read_later(roles: Roles, store: AccessFact, barrier: Event) -> bool:
    """The variable is read in the text behind the barrier (or anywhere, in a loop)."""
    for stmt in walk(roles.kernel.body):
        if isinstance(stmt, Assign):
            exprs = [stmt.value.expr]
        elif isinstance(stmt, Store):
            exprs = [stmt.value.expr, stmt.pointer.expr]
        else:
            continue
        behind = stmt.span.start > barrier.op.span.start or bool(barrier.loops)
        if behind and any(store.symbol in lds_loads(expr) for expr in exprs):
            return True
    return False
