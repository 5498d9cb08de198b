r"""The wait before a barrier names another counter than the one that tracks the operation.

## Why
Each kind of memory operation has a counter of its own: LDS reads and writes lgkmcnt (dscnt from gfx12), direct loads
to LDS vmcnt (loadcnt), asynchronous copies asynccnt. Waiting for one says nothing about the others: the barrier passes
while the operation is still under way, and the buffer is read too early or refilled while it is being read.

## Bad
```cuda
// warplint: --arch gfx1250
#include <hip/hip_runtime.h>
extern "C" __global__ void __launch_bounds__(128) stream(float* out, const float* in, int n) {
  __shared__ float buf[2][128];
  float acc = 0.f;
  buf[0][threadIdx.x] = buf[1][threadIdx.x] = 0.f;
  __syncthreads();
  for (int i = 0; i < n; ++i) {
    float v = buf[i & 1][127 - threadIdx.x];
    asm volatile("s_wait_asynccnt 0" ::: "memory");
    asm volatile("s_barrier_signal -1\n\ts_barrier_wait -1" ::: "memory");
    asm volatile("global_load_async_to_lds_b32 %0, %1, off"
                 ::"v"((unsigned)(unsigned long long)&buf[i & 1][threadIdx.x]),
                 "v"(in + i * 128 + threadIdx.x) : "memory");
    acc += v;
  }
  out[threadIdx.x] = acc;
}
```

## Good
```cuda
// warplint: --arch gfx1250
#include <hip/hip_runtime.h>
extern "C" __global__ void __launch_bounds__(128) stream(float* out, const float* in, int n) {
  __shared__ float buf[2][128];
  float acc = 0.f;
  buf[0][threadIdx.x] = buf[1][threadIdx.x] = 0.f;
  __syncthreads();
  for (int i = 0; i < n; ++i) {
    float v = buf[i & 1][127 - threadIdx.x];
    asm volatile("s_wait_dscnt 0" ::: "memory");
    asm volatile("s_wait_asynccnt 0" ::: "memory");
    asm volatile("s_barrier_signal -1\n\ts_barrier_wait -1" ::: "memory");
    asm volatile("global_load_async_to_lds_b32 %0, %1, off"
                 ::"v"((unsigned)(unsigned long long)&buf[i & 1][threadIdx.x]),
                 "v"(in + i * 128 + threadIdx.x) : "memory");
    acc += v;
  }
  out[threadIdx.x] = acc;
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.machine import Execution
from warplint.machine.memory import Order
from warplint.rule import Rule
from warplint.source import Span
from warplint.threads.facts import Event, Roles
from warplint_rules._executed import at, hazards, made_by, storage
from warplint_rules._hazards import faults
from warplint_rules._say import Reporter, line, location, reached, sites, spelled
from warplint_rules.amd._handover import attempt, counter, deed, early, named_at, places, wait_text

RULE = Rule(Level.ERROR, Symptom.WRONG_RESULT, executes=True, supersedes=("s-barrier-without-waitcnt", "smem-race"))
SAY = Reporter(__name__, RULE)


def check(roles: Roles) -> Iterator[Finding]:
    """Tensor copies into LDS that a barrier hands over in a kernel which never waits for tensorcnt."""
    if not roles.kernel.is_amd:
        return
    loads = [event for event in sites(reached(roles, "amd.tensor_lds")) if not event.mod("store")]
    waits = list(reached(roles, "amd.s_waitcnt"))
    if not loads or any("tensorcnt" in wait.op.operands or "imm" in wait.op.operands for wait in waits):
        return
    barrier = _barrier_behind(roles, loads[0])
    if barrier is None or roles.incomplete or roles.kernel.incomplete:
        return
    yield SAY.at(
        roles,
        barrier,
        f"{spelled(barrier)} hands over what {spelled(loads[0])} at line {line(roles, loads[0].op.span)} brings, and "
        "nothing in the kernel waits for tensorcnt.",
        why="A tensor copy is tracked by tensorcnt alone; neither a fence nor `__syncthreads()` waits for it.",
        remedy="Put `s_wait_tensorcnt 0` in the issuing wave before the barrier.",
        related=[location(roles, loads[0].op.span, "the tensor copy")],
    )


def _barrier_behind(roles: Roles, load: Event) -> Event | None:
    """The first barrier after a copy."""
    barriers = reached(roles, "hip.__syncthreads", "amd.s_barrier", "amd.s_barrier_signal_wait")
    return min((b for b in barriers if b.order > load.order), key=lambda b: b.order, default=None)


def check_execution(execution: Execution) -> Iterator[Finding]:
    """What a wave has under way at a barrier before which it has waited for other counters only."""
    roles = execution.roles
    said: set[Span] = set()
    for how in ("other", "fence"):
        for hazard, counted in early(execution, how):
            first, second = hazard.first, hazard.second
            where = counted.barrier or attempt(counted, how)
            if where in said:
                continue
            said.add(where)
            wait = attempt(counted, how)
            name = counter(roles, counted)
            by = named_at(roles, wait, "the wait")
            yield SAY.at(
                roles,
                where,
                f"{named_at(roles, where, 'the barrier')} hands over {storage(first)} while {deed(first)} at line "
                f"{at(execution, first.span)} may be under way: it is tracked by {name}, and "
                + (f"{by} waits for another counter." if where != wait else "that is not waited for here."),
                threads=made_by(execution, first),
                why=f"Only a wait for {name} tells that {deed(first)} is over; {made_by(execution, second)} may "
                + ("overwrite the place before." if second.write else "read the old contents."),
                remedy=f"Put {wait_text(roles, counted)} before the barrier.",
                related=places(execution, hazard, (wait, "the wait")),
            )
    yield from _left_to_fence(execution, said)
    for fault in faults(execution, "used-before-counter"):
        if fault.detail == "other" and fault.other is not None:
            yield SAY.at(
                roles,
                fault.span,
                f"The value of {named_at(roles, fault.other, 'the load')} at line {at(execution, fault.other)} is used "
                "here, and only other counters have been waited for.",
                why="The compiler does not wait for what inline assembly loads: the register still holds what it held "
                "before.",
                remedy="Wait for the counter that tracks the load before the use.",
                related=[location(roles, fault.other, "the load")],
            )


def _left_to_fence(execution: Execution, said: set[Span]) -> Iterator[Finding]:
    """Loads into LDS that only a fence waits for."""
    for _, hazard in hazards(execution, lambda h: h.order is Order.BY_FENCE):
        counted = hazard.first.counted
        if counted is None or counted.fence is None or counted.fence in said:
            continue
        said.add(counted.fence)
        yield SAY.at(
            execution.roles,
            counted.fence,
            f"{named_at(execution.roles, counted.fence, 'the fence')} is all that waits for {deed(hazard.first)} at "
            f"line {at(execution, hazard.first.span)}: compilers up to LLVM 19 make it wait for lgkmcnt only.",
            level=Level.WARNING,
            threads=made_by(execution, hazard.first),
            why=f"A load into LDS is tracked by {counter(execution.roles, counted)}; with an older compiler other "
            "waves read the buffer before the data has landed.",
            remedy=f"Put {wait_text(execution.roles, counted)} before the barrier.",
            related=places(execution, hazard),
        )
