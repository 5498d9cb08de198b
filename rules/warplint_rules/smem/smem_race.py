"""Two threads access one word of shared memory, one of them writes, and nothing orders the accesses.

## Why
Warps of a block run in any order. Unless a barrier (or a release and an acquire) stands between a write and another
thread's access of the same word, the reader sees the old value, the new one, or a mixture, and which of them
changes from run to run. Loops hide half of these faults: the barrier after the write protects this iteration's
read, and the next iteration's write overtakes a slow reader.

## Bad
```cuda
extern "C" __global__ void __launch_bounds__(256) mirror(float* out, const float* in) {
  __shared__ float tile[256];
  tile[threadIdx.x] = in[threadIdx.x];
  out[threadIdx.x] = tile[255 - threadIdx.x];
}
```

## Good
```cuda
extern "C" __global__ void __launch_bounds__(256) mirror(float* out, const float* in) {
  __shared__ float tile[256];
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[255 - threadIdx.x];
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.machine import Execution
from warplint.machine.memory import Access, Hazard, Order
from warplint.rule import Rule
from warplint.source import Span
from warplint.threads.facts import Event
from warplint_rules._executed import at, hazards, made_by, place, storage
from warplint_rules._flags import weak
from warplint_rules._say import Reporter

RULE = Rule(Level.ERROR, Symptom.WRONG_RESULT, executes=True)
SAY = Reporter(__name__, RULE)


def check_execution(execution: Execution) -> Iterator[Finding]:
    """Ordinary accesses of different warps with no order between them; each pair of places once."""
    said: set[frozenset[Span]] = set()
    for outcome, hazard in hazards(execution, _ordinary):
        pair = frozenset((hazard.first.span, hazard.second.span))
        if pair not in said and not weak(outcome, hazard):
            said.add(pair)
            yield (_of_ctas if hazard.first.cta != hazard.second.cta else _of_warps)(execution, hazard)


def _of_warps(execution: Execution, hazard: Hazard) -> Finding:
    first, second = hazard.first, hazard.second
    kind = {(True, False): "read", (False, True): "overwrite", (True, True): "overwrite"}[first.write, second.write]
    earlier = "write" if first.write else "read"
    same = "the same place" if first.span == second.span else f"line {at(execution, first.span)}"
    return SAY.at(
        execution.roles,
        second.span,
        f"The {second.what} by {made_by(execution, second)} may {kind} {storage(second)} before the {earlier} at "
        f"{same} has happened: nothing orders the two.",
        threads=made_by(execution, second),
        why="The threads belong to different warps, which run in any order: the value seen depends on the schedule "
        "and changes from run to run.",
        remedy="Put a barrier that all threads of both accesses execute between them"
        + (" (at the end of the loop body, too)." if first.span.start >= second.span.start else "."),
        related=[place(execution, first, f"the {earlier} it is not ordered after")],
    )


def _of_ctas(execution: Execution, hazard: Hazard) -> Finding:
    """Which of two CTAs came first in the execution says nothing: the remote access is the one to look at."""
    far, near = hazard.second, hazard.first
    if far.region.cta == far.cta:
        far, near = near, far
    return SAY.at(
        execution.roles,
        far.span,
        f"The {far.what} by {made_by(execution, far)} reaches {storage(far)} of CTA {far.region.cta}, and nothing "
        f"orders it with the {near.what} of {made_by(execution, near)} (line {at(execution, near.span)}).",
        threads=made_by(execution, far),
        why="The CTAs of a cluster run in any order: the access may come before or after the other one, and the value "
        "seen changes from run to run.",
        remedy="Put a cluster barrier (`barrier.cluster.arrive` and `wait`) between the two"
        + (", and in a loop one at the end of its body as well." if _looped(execution, far, near) else "."),
        related=[place(execution, near, "not ordered with it")],
    )


def _looped(execution: Execution, far: Access, near: Access) -> bool:
    """Both stand in one loop, so that each comes before the other."""
    loops = [
        {id(loop) for loop in fact.loops}
        for access in (far, near)
        for fact in (*execution.roles.events, *execution.roles.accesses)
        if (fact.op.span if isinstance(fact, Event) else fact.span) == access.span
    ]
    return len(loops) > 1 and bool(set.intersection(*loops))


def _ordinary(hazard: Hazard) -> bool:
    """Between ordinary accesses, or an ordinary write that a bulk store or MMA reads without being joined to it."""
    first, second = hazard.first, hazard.second
    if hazard.order is not Order.UNJOINED or first.tensor or first.proxy != "generic" or first.pending or first.done:
        return False
    return (second.proxy == "generic" and not second.pending) or (first.write and not second.write)
