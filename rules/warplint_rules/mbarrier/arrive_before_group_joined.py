"""One thread hands a slot back for its group before the others are through with it.

## Why
When one thread arrives for a whole warp or group, its arrival says only what that thread has done. Another thread
of the group may not even have looked at the phase yet: it then reads a slot that is being refilled, or sees the
parity flipped twice and waits for ever. The group has to be joined (`__syncwarp`, a named barrier) between its last
access and the arrival.

## Bad
```cuda
namespace ptx = cuda::ptx;
extern "C" __global__ void __launch_bounds__(160) stream(float* out, const float* in, int n) {
  __shared__ alignas(128) float tile[128];
  __shared__ unsigned long long full, empty;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&full, 1);
    ptx::mbarrier_init(&empty, 1);
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
      if (threadIdx.x == 0) ptx::mbarrier_arrive(&empty);
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
from warplint.machine.memory import Hazard, Order
from warplint.machine.outcome import Handed, Outcome, Party
from warplint.rule import Rule
from warplint_rules._executed import at, hazards, made_by, party, place, steps, storage
from warplint_rules._flags import raised_for
from warplint_rules._say import Reporter, location
from warplint_rules.mbarrier._causes import arrival_for, causes

RULE = Rule(Level.ERROR, Symptom.WRONG_RESULT, executes=True, supersedes=("smem-race", "missing-syncwarp"))
SAY = Reporter(__name__, RULE)


def check_execution(execution: Execution) -> Iterator[Finding]:
    """Arrivals by one thread that let the rest of its group be overtaken."""
    said = set()
    # With a phase gone wrong, everything behind it is unordered, whoever arrived for whom.
    explained = any(cause.rule != SAY.slug for cause in causes(execution))
    for outcome, hazard in hazards(execution, _overtaken):
        flag = raised_for(outcome, hazard, joined=False)
        if flag is not None and flag.span not in said:
            said.add(flag.span)
            yield _early_flag(execution, outcome, hazard, flag)
        arrival = arrival_for(outcome, hazard) if flag is None else None
        if arrival is None or arrival.span in said:
            continue
        if explained and arrival.threads & (arrival.threads - 1):
            continue
        said.add(arrival.span)
        first = hazard.first
        who = party(execution, Party(arrival.cta, arrival.threads))
        yield SAY.at(
            execution.roles,
            arrival.span,
            f"{who} arrives here for its group, but nothing joins the group first: other threads of "
            f"{made_by(execution, first)} may still {'write' if first.write else 'read'} {storage(first)} "
            f"(line {at(execution, first.span)}).",
            threads=who,
            why="Its arrival hands the storage over while they are still using it: the other side sees "
            "half-written data or "
            "overwrites what is still being read.",
            remedy="Join the group between its last access and the arrival: `__syncwarp()` for a warp, a named "
            "barrier for "
            "several, or let every thread arrive and count them all.",
            related=[
                place(execution, first, "not covered by the arrival"),
                place(execution, hazard.second, "overtakes it"),
            ],
            steps=steps(execution, outcome, arrival.span, first.span, hazard.second.span),
        )
    for cause in causes(execution):
        if cause.rule != SAY.slug or cause.span in said or cause.record is None or cause.wait is None:
            continue
        who = party(execution, cause.wait.who)
        yield SAY.at(
            execution.roles,
            cause.span,
            f"This arrival speaks for a group that is not joined: {who} may still wait for `{cause.record.label}` "
            f"(line {at(execution, cause.wait.span)}) when the next phase completes.",
            why="The laggards see the parity flipped twice: they wait for ever, or read the slot while it is refilled.",
            remedy="Join the group after its wait and before this arrival, or let every thread arrive and count "
            "them all.",
            related=[
                location(execution.roles, cause.wait.span, "the wait that may lag"),
                location(execution.roles, cause.record.init, "initialised here"),
            ],
            steps=steps(execution, cause.outcome, target=cause.record.key),
        )


def _early_flag(execution: Execution, outcome: Outcome, hazard: Hazard, flag: Handed) -> Finding:
    first, who = hazard.first, party(execution, flag.by)
    return SAY.at(
        execution.roles,
        flag.span,
        f"{who[:1].upper()}{who[1:]} sets `{flag.label}` here for its group, but nothing joins the group first: other "
        f"threads of {made_by(execution, first)} may still {'write' if first.write else 'read'} {storage(first)} "
        f"(line {at(execution, first.span)}).",
        threads=who,
        why=f"A release covers what its own thread has done. {party(execution, flag.to)[:1].upper()}"
        f"{party(execution, flag.to)[1:]}, who waited for it (line {at(execution, flag.wait)}), then access"
        f"{'es' if flag.to.threads & (flag.to.threads - 1) == 0 else ''} the same storage while the others still do.",
        remedy="Join the group between its last access and the store: `__syncwarp()` for a warp, a named barrier for "
        "several.",
        related=[
            place(execution, first, "not covered by the store"),
            place(execution, hazard.second, "overtakes it"),
            location(execution.roles, flag.wait, "waits for the store"),
        ],
        steps=steps(execution, outcome, flag.span, flag.wait, first.span, hazard.second.span),
    )


def _overtaken(hazard: Hazard) -> bool:
    return hazard.order in (Order.UNJOINED, Order.SAME_WARP) and hazard.first.proxy == "generic"
