"""The first wait on a fresh barrier blocks where it must pass, or passes where it must block.

## Why
On a barrier that has just been initialised a wait for parity 1 passes at once and a wait for parity 0 blocks until
the first phase completes. So the side that must go first, the producer waiting for an empty slot, starts with
parity 1, and the side that needs something to have happened starts with parity 0. Two sides that start with 0 wait
for each other; a consumer that starts with 1 reads the slot before anything is in it.

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
        while (!ptx::mbarrier_try_wait_parity(&empty, i & 1)) {}
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
from warplint_rules.mbarrier._causes import causes

RULE = Rule(Level.ERROR, Symptom.DEADLOCK, guide=True, executes=True)
SAY = Reporter(__name__, RULE)


def check_execution(execution: Execution) -> Iterator[Finding]:
    """First waits that block everybody, and first waits that let a reader through."""
    for cause in causes(execution):
        record, wait = cause.record, cause.wait
        if cause.rule != SAY.slug or record is None or wait is None:
            continue
        who = party(execution, wait.who)
        if cause.kind == "blocks":
            lines = ", ".join(str(at(execution, span)) for span in cause.others)
            message = (
                f"The first wait of {who} on `{record.label}` blocks on the fresh barrier: it waits for parity "
                f"{wait.parity}, and what would arrive stands behind the "
                f"wait{'s' if len(cause.others) > 1 else ''} at line {lines}."
                if cause.others
                else f"The first wait of {who} on `{record.label}` blocks on the fresh barrier: it waits for parity "
                f"{wait.parity}, and nothing arrives before it."
            )
            why = "No phase has completed yet, so every role waits for another: the kernel hangs at its first hand-off."
            remedy = f"Start this side in phase 1: wait for parity {wait.parity ^ 1} first."
        else:
            message = (
                f"The first wait of {who} on `{record.label}` passes on the fresh barrier: parity {wait.parity} "
                "is that of the phase before the first."
            )
            why = "It reads the storage before the operation that fills it is over, and one phase early from then on."
            remedy = f"Start this side in phase 0: wait for parity {wait.parity ^ 1} first."
        yield SAY.at(
            execution.roles,
            cause.span,
            message,
            threads=who,
            why=why,
            remedy=remedy,
            related=[
                *(
                    location(execution.roles, span, "waits in turn" if cause.kind == "blocks" else "of this hand-off")
                    for span in cause.others
                ),
                location(execution.roles, record.init, "initialised here"),
            ],
            steps=steps(execution, cause.outcome, target=record.key),
        )
