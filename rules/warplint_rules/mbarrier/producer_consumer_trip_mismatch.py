"""The two ends of a hand-off run different numbers of turns.

## Why
Each turn of the producer completes one phase and each turn of the consumer waits for one. When one loop runs once
more than the other, the last hand-off has nobody at its other end: the longer side hangs, or a phase is left over
and the next tile starts out of step with it. It often passes with one tile and hangs on the second.

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
      for (int i = 0; i < n - 1; ++i) {
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
from warplint_rules._executed import at, party, steps
from warplint_rules._say import Reporter, location
from warplint_rules.mbarrier._cause import loop_of
from warplint_rules.mbarrier._causes import causes

RULE = Rule(Level.ERROR, Symptom.DEADLOCK, guide=True, executes=True)
SAY = Reporter(__name__, RULE)


def check_execution(execution: Execution) -> Iterator[Finding]:
    """Waits whose producers have left, and phases that nobody waited for."""
    for cause in causes(execution):
        record, wait = cause.record, cause.wait
        if cause.rule != SAY.slug or record is None or wait is None:
            continue
        who = party(execution, wait.who)
        made = len(record.phases)
        if cause.kind == "loops":
            turns, used = cause.detail["made"], cause.detail["used"]
            assert isinstance(turns, tuple) and isinstance(used, tuple)
            message = (
                f"The producer of `{record.label}` makes {turns[0]} turns (line {at(execution, turns[1])}) and "
                "its consumer "
                f"{used[0]} (line {at(execution, used[1])})."
            )
            why = "The phases drift apart with every tile: the longer side waits for a hand-off that nobody makes."
        elif cause.kind == "blocked":
            message = (
                f"{who} wait{'s' if who.startswith('1 ') else ''} for phase {wait.phase} of `{record.label}`, "
                "but those who "
                f"arrive on it have left after {made} phase{'s' if made != 1 else ''}."
            )
            why = "The wait can never be over: the kernel hangs."
        else:
            waited = made - record.unwaited
            message = (
                f"{made} phases of `{record.label}` are completed and {who} waits for {waited} of them: the two "
                "ends run "
                "different numbers of turns."
            )
            why = (
                "The phase that is left over puts the two ends out of step: the next tile hangs or uses the wrong data."
            )
        loops = [loop_of(execution.roles, span) for span in (cause.span, *cause.others)]
        yield SAY.at(
            execution.roles,
            cause.span,
            message,
            threads=who,
            why=why,
            remedy="Give both loops the same bounds.",
            related=[
                *(
                    location(execution.roles, span, f"the loop around line {at(execution, place)}")
                    for span, place in zip(loops, (cause.span, *cause.others), strict=True)
                    if span is not None
                ),
                *(location(execution.roles, span, "the other end") for span in cause.others),
                location(execution.roles, record.init, "initialised here"),
            ],
            steps=steps(execution, cause.outcome, target=record.key),
        )
