"""Every thread that is left waits, and nothing that they wait for can come.

## Why
The kernel has reached a state in which each role waits for an arrival that only another waiting role could make.
Nothing more specific was established about why; the finding says who waits for what.

## Bad
```cuda
namespace ptx = cuda::ptx;
extern "C" __global__ void __launch_bounds__(64) crossed(float* out) {
  __shared__ unsigned long long a, b;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&a, 32);
    ptx::mbarrier_init(&b, 32);
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    while (!ptx::mbarrier_try_wait_parity(&a, 0)) {}
    ptx::mbarrier_arrive(&b);
  } else {
    while (!ptx::mbarrier_try_wait_parity(&b, 0)) {}
    ptx::mbarrier_arrive(&a);
  }
  out[threadIdx.x] = 1.f;
}
```

## Good
```cuda
namespace ptx = cuda::ptx;
extern "C" __global__ void __launch_bounds__(64) crossed(float* out) {
  __shared__ unsigned long long a, b;
  if (threadIdx.x == 0) {
    ptx::mbarrier_init(&a, 32);
    ptx::mbarrier_init(&b, 32);
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    ptx::mbarrier_arrive(&b);
    while (!ptx::mbarrier_try_wait_parity(&a, 0)) {}
  } else {
    while (!ptx::mbarrier_try_wait_parity(&b, 0)) {}
    ptx::mbarrier_arrive(&a);
  }
  out[threadIdx.x] = 1.f;
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.machine import Execution
from warplint.rule import Rule
from warplint_rules._executed import at, party
from warplint_rules._say import Reporter, location
from warplint_rules.mbarrier._causes import causes

RULE = Rule(Level.ERROR, Symptom.DEADLOCK, executes=True, last_resort=True)
SAY = Reporter(__name__, RULE)


def check_execution(execution: Execution) -> Iterator[Finding]:
    """A blocked state for which no rule knows the cause."""
    for cause in causes(execution):
        if cause.rule != SAY.slug:
            continue
        blocked = cause.outcome.blocked
        told = []
        for one in blocked[:6]:
            record = cause.outcome.barriers.get(one.target)
            target = f"phase {one.phase} of `{record.label}`" if record is not None else f"a {one.what}"
            told.append(f"{party(execution, one.who)} (line {at(execution, one.span)}) for {target}")
        yield SAY.at(
            execution.roles,
            cause.span,
            f"The kernel hangs here: {party(execution, blocked[0].who)} and everybody else who is left wait for "
            "each other.",
            threads=party(execution, blocked[0].who),
            why=f"Who waits for what: {'; '.join(told)}.",
            remedy="Let one of them arrive before it waits.",
            related=[
                location(execution.roles, one.span, f"{party(execution, one.who)} waits here for a {one.what}")
                for one in blocked[1:]
            ],
            steps=[
                location(execution.roles, step.span, f"{party(execution, step.who)}: {step.text}")
                for step in cause.outcome.steps[-12:]
            ],
        )
