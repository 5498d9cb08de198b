"""The parity of a wait does not follow the uses of its barrier.

## Why
A wait names a phase only by its parity. It has to flip each time the same barrier is used again: once for each turn
on a single slot, once for each round on a ring of several. A parity that is not flipped, is flipped twice, or is
reset for each tile makes the wait pass on the phase before (stale data) or wait for one that is already over (a
hang two phases later). A waiter may lag by one phase at most: if the next phase can complete before it has looked,
it sees the parity flipped twice.

That is a warning where the overtaken threads go on to read, write or arrive. Where they only wait (the idle warps of
a producer warpgroup in which one elected lane issues everything, as generators write it) it is a note: an overtaken
wait passes late and never early, so no data can be wrong, and it is stuck only if the warp is not scheduled for as
long as a whole turn of the ring takes to load, to be used and to be released. A warp that is ready is not kept away
for so long, and nothing hangs on today's hardware; what the source lacks is the guarantee.

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
        while (!ptx::mbarrier_try_wait_parity(&empty, ((i >> 1) & 1) ^ 1)) {}
        ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full, 512);
        ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, tile, in + i * 128, 512, &full);
      }
    }
  } else {
    float sum = 0.f;
    for (int i = 0; i < n; ++i) {
      while (!ptx::mbarrier_try_wait_parity(&full, (i >> 1) & 1)) {}
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

RULE = Rule(Level.ERROR, Symptom.WRONG_RESULT, guide=True, executes=True)
SAY = Reporter(__name__, RULE)

_SAYS = {
    "repeats": "waits for parity {parity} of `{label}` again, though it has just passed with that parity: the phase "
    "was not flipped",
    "drift": "waits for parity {parity} of `{label}`, whose phase {phase} cannot complete any more",
    "passes": "passes on an older phase of `{label}` (parity {parity}) and goes on before the operation it needs "
    "is over",
    "late": "may still wait for parity {parity} of `{label}` when the next phase completes: it then sees the parity "
    "flipped twice",
    "latent": "may still wait for parity {parity} of `{label}` when the next phase completes: nothing orders it "
    "before that",
    "idle": "may still wait for parity {parity} of `{label}` when the next phase completes; these threads do nothing "
    "but wait",
}
_LEVELS = {"latent": Level.WARNING, "idle": Level.NOTE}
_WHY = {
    "latent": "Today's schedule hides it; on another one the wait blocks for ever or the data of the wrong turn is "
    "used.",
    "idle": "No data depends on them. They would be stuck only if their warp were not scheduled for a whole turn of "
    "the ring.",
}
_REMEDY = {
    "latent": "Join the group after the wait (a barrier of its threads before anyone hands the slot back).",
    "idle": "Let only the warp that issues the operations run this loop, or leave it: it costs issue slots only.",
}


def check_execution(execution: Execution) -> Iterator[Finding]:
    """Waits whose parity has lost the phase it means."""
    for cause in causes(execution):
        record, wait = cause.record, cause.wait
        if cause.rule != SAY.slug or record is None or wait is None:
            continue
        who = party(execution, wait.who)
        says = _SAYS[cause.kind].format(parity=wait.parity, label=record.label, phase=wait.phase)
        yield SAY.at(
            execution.roles,
            cause.span,
            f"The wait of {who} at line {at(execution, cause.span)} {says}.",
            level=_LEVELS.get(cause.kind, Level.ERROR),
            threads=who,
            why=_WHY.get(
                cause.kind,
                "The wait blocks for ever, or lets its threads through one phase early: stale data or a hang.",
            ),
            remedy=_REMEDY.get(
                cause.kind,
                "Flip the parity once each time this barrier is used again, on all paths, and do not reset it.",
            ),
            related=[
                *(location(execution.roles, span, "of this hand-off") for span in cause.others),
                location(execution.roles, record.init, "initialised here"),
            ],
            steps=steps(execution, cause.outcome, target=record.key),
        )
