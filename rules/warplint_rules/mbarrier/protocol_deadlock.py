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

from warplint.finding import Finding, Level, Location, Symptom
from warplint.machine import Execution
from warplint.machine.outcome import BlockedRecord
from warplint.rule import Rule
from warplint_rules._executed import MAX_STEPS, at, party
from warplint_rules._say import Reporter, location
from warplint_rules.mbarrier._causes import causes

RULE = Rule(Level.ERROR, Symptom.DEADLOCK, executes=True, last_resort=True)
SAY = Reporter(__name__, RULE)

MAX_TOLD = 4
"""Waiters of whom the reason tells."""


def check_execution(execution: Execution) -> Iterator[Finding]:
    """A blocked state for which no rule knows the cause, explained as `warplint handoffs` explains it."""
    for cause in causes(execution):
        if cause.rule != SAY.slug:
            continue
        # Executes the kernel once more, with recorders: only where it hangs and nothing else says why.
        from warplint.handoffs import why

        blocked = cause.outcome.blocked
        deadlock = why(execution, cause.outcome)
        waiting = deadlock.waiting if deadlock is not None else ()
        told = [f"{row.who} (line {row.line}) waits for {row.what}{_needs(row.needs)}" for row in waiting[:MAX_TOLD]]
        summary = deadlock.summary if deadlock is not None else f"{party(execution, blocked[0].who)} is never woken"
        ring = [_step(execution, blocked, text) for text in deadlock.cycle] if deadlock is not None else []
        yield SAY.at(
            execution.roles,
            cause.span,
            f"The kernel hangs: {summary}.",
            threads=party(execution, blocked[0].who),
            why=f"Nobody who is left can go on: {'; '.join(told)}." if told else "Nobody who is left can go on.",
            remedy="Let one of those in the cycle arrive before it waits."
            if ring
            else "Make sure that what is waited for is executed as often as it is waited for, by somebody who does not "
            "wait for the waiter first.",
            related=[
                location(execution.roles, one.span, f"{party(execution, one.who)} waits here for {_what(one)}")
                for one in blocked
                if one.span != cause.span
            ],
            steps=ring
            or [
                location(execution.roles, step.span, f"{party(execution, step.who)}: {step.text}")
                for step in cause.outcome.steps[-MAX_STEPS:]
            ],
        )


def _needs(needs: tuple[str, ...]) -> str:
    hopeless = [text.removeprefix("nobody: ") for text in needs if "nobody" in text]
    if hopeless:
        return f" ({hopeless[0]})"
    return f", which needs {' or '.join(needs[:2])}" if needs else ""


def _what(one: BlockedRecord) -> str:
    """What somebody waits for, where the barrier's name does not matter."""
    return {"warp": "the other lanes of its warp", "mbarrier": "a phase", "shared word": "a store"}.get(
        one.what, f"a {one.what}"
    )


def _step(execution: Execution, blocked: list[BlockedRecord], text: str) -> Location:
    """A wait of the cycle, at the line that it names."""
    span = next((one.span for one in blocked if f" at line {at(execution, one.span)} for " in text), blocked[0].span)
    return location(execution.roles, span, text)
