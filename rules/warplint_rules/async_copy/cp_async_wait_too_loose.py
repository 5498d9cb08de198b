r"""`cp.async.wait_group N` leaves the group pending whose data is read next.

## Why
`wait_group N` returns as soon as at most N of the newest groups are pending. When the group with the needed tile is
among those N, the read finds old bytes. The right number is that of the groups committed after the needed one.

## Bad
```cuda
__device__ unsigned smem(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void copy16(void* dst, const void* src) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(smem(dst)), "l"(src) : "memory");
}
__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__global__ void __launch_bounds__(128) stream(float* out, const float* in, int n) {
  __shared__ alignas(16) float tile[2][512];
  copy16(&tile[0][threadIdx.x * 4], in + threadIdx.x * 4);
  commit();
  for (int i = 0; i < n; ++i) {
    copy16(&tile[(i + 1) & 1][threadIdx.x * 4], in + (i + 1) * 512 + threadIdx.x * 4);
    commit();
    asm volatile("cp.async.wait_group 2;" ::: "memory");
    __syncthreads();
    out[i * 128 + threadIdx.x] = tile[i & 1][511 - threadIdx.x];
    __syncthreads();
  }
}
```

## Good
```cuda
__device__ unsigned smem(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void copy16(void* dst, const void* src) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(smem(dst)), "l"(src) : "memory");
}
__device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
__global__ void __launch_bounds__(128) stream(float* out, const float* in, int n) {
  __shared__ alignas(16) float tile[2][512];
  copy16(&tile[0][threadIdx.x * 4], in + threadIdx.x * 4);
  commit();
  for (int i = 0; i < n; ++i) {
    copy16(&tile[(i + 1) & 1][threadIdx.x * 4], in + (i + 1) * 512 + threadIdx.x * 4);
    commit();
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    __syncthreads();
    out[i * 128 + threadIdx.x] = tile[i & 1][511 - threadIdx.x];
    __syncthreads();
  }
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.machine import Execution
from warplint.rule import Rule
from warplint_rules._executed import at, made_by, place, storage
from warplint_rules._hazards import grouped, loose_waits, pending_copy
from warplint_rules._say import Reporter, location

RULE = Rule(Level.ERROR, Symptom.WRONG_RESULT, executes=True, local=True)
SAY = Reporter(__name__, RULE)


def check_execution(execution: Execution) -> Iterator[Finding]:
    """Copies that are still pending at a read although their threads wait for some group."""
    roles = execution.roles
    for first, hazards in grouped(execution, pending_copy):
        waits = loose_waits(roles, first)
        if not waits:
            continue  # cp-async-not-waited
        wait, second = waits[0], hazards[0].second
        yield SAY.at(
            roles,
            wait.op.span,
            f"`cp.async.wait_group {wait.constant('group')}` leaves the copy at line {at(execution, first.span)} "
            f"pending when {made_by(execution, second)} access{'es' if second.threads.bit_count() == 1 else ''} "
            f"{storage(second)} (line {at(execution, second.span)}).",
            threads=made_by(execution, first),
            why="The data may not have arrived: the read finds what lay in the buffer before.",
            remedy="Wait for a smaller number: that of the groups committed after the needed one.",
            related=[
                place(execution, first, "the copy"),
                place(execution, second, "the access"),
                *(location(roles, other.op.span, "also waits here") for other in waits[1:]),
            ],
        )
