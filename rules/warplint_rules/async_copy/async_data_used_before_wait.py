"""Data of an asynchronous copy or MMA is used, and the barrier that tells of its completion is never waited for.

## Why
A TMA copy or an MMA runs on after its instruction: its result exists when the phase of its mbarrier completes. Code
that goes on without waiting for that phase reads whatever was in the storage before. It looks right on small sizes,
where the copy happens to be fast enough.

## Bad
```cuda
namespace ptx = cuda::ptx;
extern "C" __global__ void __launch_bounds__(128) fetch(float* out, const float* in) {
  __shared__ alignas(128) float tile[128];
  __shared__ unsigned long long full;
  if (threadIdx.x == 0) ptx::mbarrier_init(&full, 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full, 512);
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, tile, in, 512, &full);
  }
  out[threadIdx.x] = tile[threadIdx.x];
}
```

## Good
```cuda
namespace ptx = cuda::ptx;
extern "C" __global__ void __launch_bounds__(128) fetch(float* out, const float* in) {
  __shared__ alignas(128) float tile[128];
  __shared__ unsigned long long full;
  if (threadIdx.x == 0) ptx::mbarrier_init(&full, 1);
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full, 512);
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, tile, in, 512, &full);
  }
  while (!ptx::mbarrier_try_wait_parity(&full, 0)) {}
  out[threadIdx.x] = tile[threadIdx.x];
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.machine import Execution
from warplint.machine.memory import Hazard, Order
from warplint.rule import Rule
from warplint_rules._executed import at, hazards, made_by, place, steps, storage
from warplint_rules._say import Reporter, location
from warplint_rules.mbarrier._causes import causes, has_waited

RULE = Rule(Level.ERROR, Symptom.WRONG_RESULT, executes=True)
SAY = Reporter(__name__, RULE)
REMEDY = (
    "Wait for the phase of its mbarrier first, in every thread that uses the data (or in one, followed by a barrier)."
)


def check_execution(execution: Execution) -> Iterator[Finding]:
    """Uses without any wait, and barriers that nobody waits for."""
    said = set()
    explained = any(cause.rule != SAY.slug for cause in causes(execution))
    for outcome, hazard in hazards(execution, _unfinished) if not explained else ():
        second = hazard.second
        # Of tensor memory one finding for each access that is overrun: the MMAs of one tile overrun it together.
        place_of = hazard.first.span if _overrun(hazard) else second.span
        if place_of in said or has_waited(outcome, hazard):
            continue
        said.add(place_of)
        uses = "overwrites" if second.write and not hazard.first.write else "uses"
        yield SAY.at(
            execution.roles,
            second.span,
            f"The {second.what} by {made_by(execution, second)} {uses} {storage(second)} while the "
            f"{hazard.first.what} of line "
            f"{at(execution, hazard.first.span)} may still be under way: none of these threads has waited for it.",
            threads=made_by(execution, second),
            why="The operation is asynchronous: stale or partial data is used.",
            remedy=REMEDY,
            related=[place(execution, hazard.first, "still under way")],
            steps=steps(execution, outcome, second.span, hazard.first.span),
        )
    for cause in causes(execution):
        if cause.rule != SAY.slug or cause.record is None or said:
            continue
        record = cause.record
        yield SAY.at(
            execution.roles,
            cause.span,
            f"Nobody waits for barrier `{record.label}`, on which copies or MMAs end {len(record.phases)} phase"
            f"{'s' if len(record.phases) != 1 else ''} (line {at(execution, cause.others[0])}).",
            why="What completes on it is used while it may still be under way: stale or partial data.",
            remedy=REMEDY,
            related=[
                *(location(execution.roles, span, "completes on it") for span in cause.others),
                location(execution.roles, record.init, "initialised here"),
            ],
            steps=steps(execution, cause.outcome, target=record.key),
        )


def _unfinished(hazard: Hazard) -> bool:
    if _overrun(hazard):
        return True
    if hazard.order is not Order.INCOMPLETE or not hazard.first.done or not hazard.first.write:
        return False
    return hazard.second.what != "tcgen05.dealloc"  # the end of an allocation is tmem-dealloc-before-reads-finish


def _overrun(hazard: Hazard) -> bool:
    """Tensor memory that other threads still load or store: no wait tells the later access that they are through."""
    unjoined = hazard.order is Order.UNJOINED and hazard.first.tensor and hazard.first.what != "tcgen05.dealloc"
    return unjoined and hazard.second.what != "tcgen05.dealloc"
