"""A slot is handed back before the threads that hand it back have read it for the last time.

## Why
An arrival on the empty barrier of a slot says: I am through with it. A read that comes after the arrival races with the
producer, which may refill the slot at once. The result is right as long as the producer is slow.

## Bad
```cuda
namespace ptx = cuda::ptx;
extern "C" __global__ void __launch_bounds__(64) relay(float* out, const float* in, int n) {
  __shared__ float slot[32];
  __shared__ unsigned long long full, empty;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 32);
    ptx::mbarrier_init(&empty, 32);
  }
  __syncthreads();
  for (int i = 0; i < n; ++i) {
    if (threadIdx.x < 32) {
      while (!ptx::mbarrier_try_wait_parity(&empty, (i & 1) ^ 1)) {}
      slot[threadIdx.x] = in[i * 32 + threadIdx.x];
      ptx::mbarrier_arrive(&full);
    } else {
      while (!ptx::mbarrier_try_wait_parity(&full, i & 1)) {}
      ptx::mbarrier_arrive(&empty);
      out[i * 32 + threadIdx.x - 32] = slot[63 - threadIdx.x];
    }
  }
}
```

## Good
```cuda
namespace ptx = cuda::ptx;
extern "C" __global__ void __launch_bounds__(64) relay(float* out, const float* in, int n) {
  __shared__ float slot[32];
  __shared__ unsigned long long full, empty;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 32);
    ptx::mbarrier_init(&empty, 32);
  }
  __syncthreads();
  for (int i = 0; i < n; ++i) {
    if (threadIdx.x < 32) {
      while (!ptx::mbarrier_try_wait_parity(&empty, (i & 1) ^ 1)) {}
      slot[threadIdx.x] = in[i * 32 + threadIdx.x];
      ptx::mbarrier_arrive(&full);
    } else {
      while (!ptx::mbarrier_try_wait_parity(&full, i & 1)) {}
      out[i * 32 + threadIdx.x - 32] = slot[63 - threadIdx.x];
      ptx::mbarrier_arrive(&empty);
    }
  }
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
from warplint_rules.mbarrier._causes import release_before

RULE = Rule(
    Level.ERROR,
    Symptom.WRONG_RESULT,
    executes=True,
    supersedes=("smem-race", "missing-syncwarp", "tmem-load-not-waited", "async-data-used-before-wait"),
)
SAY = Reporter(__name__, RULE)


def check_execution(execution: Execution) -> Iterator[Finding]:
    """Reads after the arrival that released their slot."""
    said = set()
    for outcome, hazard in hazards(execution, _overwritten):
        first = hazard.first
        arrival = release_before(outcome, hazard)
        if arrival is None or first.span in said:
            continue
        said.add(first.span)
        yield SAY.at(
            execution.roles,
            first.span,
            f"The {first.what} by {made_by(execution, first)} reads {storage(first)} after these threads have "
            "handed it back "
            f"(line {at(execution, arrival.span)}).",
            threads=made_by(execution, first),
            why="Whoever waits for that arrival may overwrite it at once (line "
            f"{at(execution, hazard.second.span)}): the read "
            "sees data of the next turn.",
            remedy="Move the arrival behind the last read of the slot.",
            related=[
                location(execution.roles, arrival.span, "the slot is handed back here"),
                place(execution, hazard.second, "overwrites it"),
            ],
            steps=steps(execution, outcome, arrival.span, first.span, hazard.second.span),
        )


def _overwritten(hazard: Hazard) -> bool:
    return hazard.order in (Order.UNJOINED, Order.INCOMPLETE) and not hazard.first.write and hazard.second.write
