"""The bytes expected in a phase differ from the bytes of the copies that complete on it.

## Why
A phase with transactions completes when all arrivals have come and the bytes still expected are zero. Expect more
than the copies bring and the waiters hang; expect less and the phase completes before the data has landed, while
the late bytes are counted against the next phase.

## Bad
```cuda
namespace ptx = cuda::ptx;
extern "C" __global__ void __launch_bounds__(160) stream(float* out, const float* in, int n) {
  __shared__ alignas(128) float tile[128];
  __shared__ unsigned long long full, empty;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::mbarrier_init(&empty, 128);
  }
  __syncthreads();
  if (threadIdx.x >= 128) {
    if (threadIdx.x == 128) {
      for (int i = 0; i < n; ++i) {
        while (!ptx::mbarrier_try_wait_parity(&empty, (i & 1) ^ 1)) {}
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full, 1024);
        ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, tile, in + i * 128, 512, &full);
      }
    }
  } else {
    float sum = 0.f;
    for (int i = 0; i < n; ++i) {
      while (!ptx::mbarrier_try_wait_parity(&full, i & 1)) {}
      sum += tile[threadIdx.x];
      ptx::mbarrier_arrive(&empty);
    }
    out[threadIdx.x] = sum;
  }
}
```

## Good
```cuda
namespace ptx = cuda::ptx;
extern "C" __global__ void __launch_bounds__(160) stream(float* out, const float* in, int n) {
  __shared__ alignas(128) float tile[128];
  __shared__ unsigned long long full, empty;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::mbarrier_init(&empty, 128);
  }
  __syncthreads();
  if (threadIdx.x >= 128) {
    if (threadIdx.x == 128) {
      for (int i = 0; i < n; ++i) {
        while (!ptx::mbarrier_try_wait_parity(&empty, (i & 1) ^ 1)) {}
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full, 512);
        ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, tile, in + i * 128, 512, &full);
      }
    }
  } else {
    float sum = 0.f;
    for (int i = 0; i < n; ++i) {
      while (!ptx::mbarrier_try_wait_parity(&full, i & 1)) {}
      sum += tile[threadIdx.x];
      ptx::mbarrier_arrive(&empty);
    }
    out[threadIdx.x] = sum;
  }
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.machine import Execution
from warplint.rule import Rule
from warplint_rules._executed import at, steps
from warplint_rules._say import Reporter, location
from warplint_rules.mbarrier._causes import causes, waiter

RULE = Rule(Level.ERROR, Symptom.DEADLOCK, executes=True)
SAY = Reporter(__name__, RULE)


def check_execution(execution: Execution) -> Iterator[Finding]:
    """Phases whose arrivals are complete and whose bytes are not."""
    for cause in causes(execution):
        record = cause.record
        if cause.rule != SAY.slug or record is None:
            continue
        if cause.kind == "read":
            yield SAY.at(
                execution.roles,
                cause.span,
                f"Barrier `{record.label}` expects {cause.detail['expected']} bytes in a phase, but the MMAs "
                "that wait for it "
                f"read {cause.detail['read']} bytes of what that phase fills.",
                why="The phase completes before all data has landed: the MMA reads stale or partial operands.",
                remedy="Expect the bytes of all copies that name the barrier in one phase.",
                related=[location(execution.roles, record.init, "initialised here")],
            )
            continue
        expected = sum(arrival.expect for arrival in record.current)
        brought = sum(arrival.complete for arrival in record.current)
        copies = [arrival.span for arrival in record.current if arrival.how == "copy"]
        where = f" (line {at(execution, copies[0])})" if copies else ""
        yield SAY.at(
            execution.roles,
            cause.span,
            f"A phase of barrier `{record.label}` expects {expected} bytes and its copies{where} bring {brought}.",
            why=f"{waiter(execution, cause)} for ever: {record.tx} bytes are still expected when everything has "
            "arrived."
            if record.tx > 0
            else "The phase completes before all data has landed: readers see stale or partial data.",
            remedy=f"Expect the bytes of all copies that name the barrier in one phase: {brought}.",
            related=[
                *(location(execution.roles, span, "a copy of this phase") for span in copies),
                location(execution.roles, record.init, "initialised here"),
            ],
            steps=steps(execution, cause.outcome, target=record.key),
        )
