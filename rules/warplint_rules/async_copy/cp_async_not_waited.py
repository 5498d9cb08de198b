"""Data copied by `cp.async` is read with no wait for the copies.

## Why
`cp.async` returns at once; the bytes arrive later. A barrier does not wait for them. Only `cp.async.wait_group` or
`wait_all` in the copying thread, or an mbarrier that `cp.async.mbarrier.arrive` completes, says that they are
there. Without any of these the tile is read half filled.

## Bad
```cuda
__device__ void copy16(void* dst, const void* src) {
  unsigned to = (unsigned)__cvta_generic_to_shared(dst);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(src) : "memory");
}
__global__ void __launch_bounds__(128) stage(float* out, const float* in) {
  __shared__ alignas(16) float tile[512];
  copy16(&tile[threadIdx.x * 4], in + threadIdx.x * 4);
  asm volatile("cp.async.commit_group;" ::: "memory");
  __syncthreads();
  out[threadIdx.x] = tile[511 - threadIdx.x];
}
```

## Good
```cuda
__device__ void copy16(void* dst, const void* src) {
  unsigned to = (unsigned)__cvta_generic_to_shared(dst);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(src) : "memory");
}
__global__ void __launch_bounds__(128) stage(float* out, const float* in) {
  __shared__ alignas(16) float tile[512];
  copy16(&tile[threadIdx.x * 4], in + threadIdx.x * 4);
  asm volatile("cp.async.commit_group;" ::: "memory");
  asm volatile("cp.async.wait_group 0;" ::: "memory");
  __syncthreads();
  out[threadIdx.x] = tile[511 - threadIdx.x];
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.machine import Execution
from warplint.machine.memory import Hazard, Order
from warplint.rule import Rule
from warplint_rules._executed import at, made_by, place, storage
from warplint_rules._hazards import grouped, loose_waits, pending_copy
from warplint_rules._say import Reporter, location, reached, sites

RULE = Rule(Level.ERROR, Symptom.WRONG_RESULT, executes=True, supersedes=("smem-race",))
SAY = Reporter(__name__, RULE)


def check_execution(execution: Execution) -> Iterator[Finding]:
    """Copies that nobody waits for, and copies that only their own threads know to be complete."""
    roles = execution.roles
    waits = sites(reached(roles, "cp.async.wait_group", "cp.async.wait_all"))
    for first, hazards in grouped(execution, _early):
        pending = hazards[0].order is Order.INCOMPLETE
        if pending and loose_waits(roles, first):
            continue  # cp-async-wait-too-loose
        second = hazards[0].second
        missing = (
            "with no wait for the copy"
            if pending
            else "with no barrier after the wait, so that only the copying threads know that it is complete"
        )
        yield SAY.at(
            roles,
            second.span,
            f"{storage(second)[:1].upper()}{storage(second)[1:]} is accessed by {made_by(execution, second)} {missing} "
            f"(`cp.async` at line {at(execution, first.span)} by {made_by(execution, first)}).",
            threads=made_by(execution, second),
            why="The copies are asynchronous and a barrier does not wait for them; a wait covers the copies of the "
            "executing thread alone. The access may find old bytes.",
            remedy="Execute `cp.async.wait_group` (or `wait_all`) in the copying threads, then a barrier, before the "
            "access.",
            related=[
                place(execution, first, "the copy"),
                *(location(roles, wait.op.span, "waits here") for wait in waits if wait.reach.threads & first.threads),
            ],
        )


def _early(hazard: Hazard) -> bool:
    if pending_copy(hazard):
        return True
    unjoined = hazard.order in (Order.UNJOINED, Order.SAME_WARP)
    return hazard.first.what == "cp.async" and unjoined and not hazard.second.write
