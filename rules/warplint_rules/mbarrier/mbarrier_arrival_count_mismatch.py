"""The arrivals of a phase differ from the count that the barrier was initialised with.

## Why
A phase completes when exactly as many arrivals have come as `mbarrier.init` said: one for each executing thread of
a plain arrive, one for `arrive.expect_tx`, one for each `tcgen05.commit`, none for `expect_tx` alone. With one too
few every waiter hangs; with one too many the pending count passes below zero, which is undefined and ends in a
launch failure.

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
from warplint.rule import Rule
from warplint_rules._executed import party, steps
from warplint_rules._say import Reporter, location
from warplint_rules.mbarrier._causes import Cause, causes, described, waiter

RULE = Rule(Level.ERROR, Symptom.DEADLOCK, guide=True, executes=True)
SAY = Reporter(__name__, RULE)


def check_execution(execution: Execution) -> Iterator[Finding]:
    """Counts that cannot be met, and arrivals beyond the count."""
    for cause in causes(execution):
        if cause.rule == SAY.slug:
            yield {"over": _over, "small": _small}.get(cause.kind, _under)(execution, cause)


def _under(execution: Execution, cause: Cause) -> Finding:
    record = cause.record
    assert record is not None
    got = sum(arrival.count for arrival in record.current)
    if cause.kind == "peer":
        twin = cause.detail["twin"]
        message = (
            f"Barrier `{record.label}` of CTA {record.cta} gets no arrival at all, while that of CTA "
            f"{getattr(twin, 'cta', 0)} completes its phases: the arrivals go to one CTA only."
        )
        remedy = "Let the commit or arrive reach both CTAs (multicast with the mask of the pair, or a remote arrive)."
    elif cause.kind == "nobody":
        message = (
            f"No thread ever arrives on barrier `{record.label}`, which is waited for here (count {record.count})."
        )
        remedy = (
            "Add the arrival that hands the slot over: after the last use of what it guards, by as many threads as "
            "the count says."
        )
    elif cause.kind == "expect-only":
        message = (
            f"Barrier `{record.label}` gets expected bytes but no arrival: its count is {record.count} and `expect_tx` "
            "alone does not arrive."
        )
        remedy = "Use `mbarrier.arrive.expect_tx`, or let the issuing thread arrive as well."
    else:
        message = (
            f"Barrier `{record.label}` is initialised with {record.count} and gets {got} "
            f"arrival{'s' if got != 1 else ''} "
            f"in a phase: {described(execution, record.current)}."
        )
        remedy = (
            f"Initialise it with {got}, or let all {record.count} threads arrive; if one arrival speaks for a group, "
            "join the group first."
            if got < record.count
            else f"Initialise it with {got}, or let {record.count} of the threads arrive, each for a group that it has "
            "joined first."
        )
    return SAY.at(
        execution.roles,
        cause.span,
        message,
        threads=party(execution, record.init_by) if cause.span == record.init else "",
        why=f"{waiter(execution, cause)} for ever: the phase never completes.",
        remedy=remedy,
        related=[
            location(
                execution.roles, span, "the count is set here" if span == record.init else "takes part in this phase"
            )
            for span in cause.others
        ],
        steps=steps(execution, cause.outcome, target=record.key),
    )


def _small(execution: Execution, cause: Cause) -> Finding:
    record = cause.record
    assert record is not None
    arrivals = cause.detail["arrivals"]
    assert isinstance(arrivals, list)
    total = sum(arrival.count for arrival in arrivals)
    return SAY.at(
        execution.roles,
        cause.span,
        f"Barrier `{record.label}` is initialised with {record.count}, but {total} threads arrive in each turn: "
        f"{described(execution, arrivals)}.",
        why=f"The phase completes when the first {record.count} have arrived: the slot is handed back while the "
        "others still "
        "use it, and the phases run ahead of the waiter.",
        remedy=f"Initialise it with {total}: every thread of every CTA that arrives on it counts.",
        related=[location(execution.roles, span, "arrives on it or waits for it") for span in cause.others],
        steps=steps(execution, cause.outcome, target=record.key),
    )


def _over(execution: Execution, cause: Cause) -> Finding:
    record = cause.record
    assert record is not None
    arrival = next(a for kind, a in record.faults if kind == "over-arrival")
    again = any(
        a is not arrival and a.count and (a.span, a.cta, a.threads) == (arrival.span, arrival.cta, arrival.threads)
        for a in (*record.current, *(earlier for phase in record.phases for earlier in phase))
    )
    message = (
        f"Barrier `{record.label}` is initialised with {record.count}, and its phase has all of them when "
        f"more arrive: {described(execution, [arrival])}."
    )
    if again:
        message += " The same threads have arrived for an earlier round: nothing makes them wait until it is over."
        remedy = "Wait for the barrier that hands the slot back before arriving on it for the next round."
    else:
        remedy = (
            "Let only as many threads arrive as the count says (guard the arrive or elect one thread), or raise the "
            "count."
        )
    return SAY.at(
        execution.roles,
        cause.span,
        message,
        why="The pending count passes below zero: the phase bits are corrupted or the kernel ends with a launch "
        "failure.",
        remedy=remedy,
        related=[location(execution.roles, record.init, f"initialised with {record.count}")],
        steps=steps(execution, cause.outcome, target=record.key),
    )
