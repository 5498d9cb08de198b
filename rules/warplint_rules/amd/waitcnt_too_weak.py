"""A wait leaves the operation pending that it is there for: the count it allows is too high.

## Why
`s_waitcnt vmcnt(N)` waits until at most the N latest operations of the wave are under way. Where the operation that the
next step needs is among these N, the wait passes at once, the barrier behind it hands the buffer over, and the data
lands later. Deep prefetch makes the count easy to get wrong: it has to be the number of operations issued *after* the
needed one, and the last rounds of a loop issue fewer.

## Bad
```cuda
// warplint: --arch gfx942
#include <hip/hip_runtime.h>
extern "C" __global__ void __launch_bounds__(256) fetch(float* out, const float* in) {
  __shared__ float tile[256];
  __builtin_amdgcn_global_load_lds(in + threadIdx.x, tile + (threadIdx.x & ~63), 4, 0, 0);
  asm volatile("s_waitcnt vmcnt(1)" ::: "memory");
  __builtin_amdgcn_s_barrier();
  out[threadIdx.x] = tile[255 - threadIdx.x];
}
```

## Good
```cuda
// warplint: --arch gfx942
#include <hip/hip_runtime.h>
extern "C" __global__ void __launch_bounds__(256) fetch(float* out, const float* in) {
  __shared__ float tile[256];
  __builtin_amdgcn_global_load_lds(in + threadIdx.x, tile + (threadIdx.x & ~63), 4, 0, 0);
  asm volatile("s_waitcnt vmcnt(0)" ::: "memory");
  __builtin_amdgcn_s_barrier();
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
from warplint_rules._hazards import faults
from warplint_rules._say import Reporter, location
from warplint_rules.amd._handover import attempt, counter, deed, early, named_at, places, wait_text

RULE = Rule(
    Level.ERROR,
    Symptom.WRONG_RESULT,
    executes=True,
    supersedes=("s-barrier-without-waitcnt", "waitcnt-wrong-counter", "smem-race"),
)
SAY = Reporter(__name__, RULE)


def check_execution(execution: Execution) -> Iterator[Finding]:
    """Waits for the right counter that leave the needed operation pending, and loads that nobody waits for."""
    roles = execution.roles
    said: set[Span] = set()
    for hazard, counted in early(execution, "weak"):
        first, second, wait = hazard.first, hazard.second, attempt(counted, "weak")
        if wait in said:
            continue
        said.update((wait, first.span))
        yield SAY.at(
            roles,
            wait,
            f"{named_at(roles, wait, 'the wait')} may leave {deed(first)} at line {at(execution, first.span)} pending: "
            "it is among the latest operations, which the wait allows to be under way.",
            threads=made_by(execution, first),
            why=f"{storage(first).capitalize() if storage(first)[0] != '`' else storage(first)} is "
            f"{'overwritten' if second.write else 'read'} by {made_by(execution, second)} at line "
            f"{at(execution, second.span)} before {counter(roles, counted)} says that it is over.",
            remedy="Allow only as many as are issued after it"
            + (f" (none here: {wait_text(roles, counted)})." if not _later(execution, first.span) else "."),
            related=places(execution, hazard, (counted.barrier, "the barrier that hands it over")),
        )
    for hazard, counted in early(execution, ""):
        if counted.barrier is not None or hazard.first.span in said:
            continue
        said.add(hazard.first.span)
        yield SAY.at(
            roles,
            hazard.second.span,
            f"{storage(hazard.first)} is {'overwritten' if hazard.second.write else 'read'} while {deed(hazard.first)} "
            f"at line {at(execution, hazard.first.span)} may be under way: nothing waits for "
            f"{counter(roles, counted)}.",
            threads=made_by(execution, hazard.second),
            why="The compiler does not wait for what inline assembly and asynchronous copies bring.",
            remedy=f"Put {wait_text(roles, counted)} before the access.",
            related=places(execution, hazard),
        )
    for fault in faults(execution, "used-before-counter"):
        if fault.detail == "other" or fault.other is None or fault.other in said:
            continue
        said.add(fault.other)
        asked = "the wait before allows it to be pending" if fault.detail else "nothing has waited for it"
        yield SAY.at(
            roles,
            fault.span,
            f"The value of {named_at(roles, fault.other, 'the load')} at line {at(execution, fault.other)} is used "
            f"here, and {asked}.",
            why="The compiler does not wait for what inline assembly loads: the register still holds its old value.",
            remedy="Wait for the counter that tracks the load, down to the operations issued after it.",
            related=[location(roles, fault.other, "the load")],
        )


def _later(execution: Execution, span: Span) -> bool:
    """Other copies are issued behind that place, or it stands in a loop: the right count is not plainly 0."""
    copies = list(execution.roles.of("amd.load_to_lds", "amd.async_lds", "amd.vmem_load"))
    own = [event for event in copies if event.op.span == span]
    return len({event.op.span for event in copies}) > 1 or any(event.loops for event in own)
