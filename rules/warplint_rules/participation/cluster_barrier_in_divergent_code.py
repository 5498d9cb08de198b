r"""A cluster barrier that some live threads of the block do not take part in.

## Why
`barrier.cluster.arrive` counts every thread of every block of the cluster that has not exited, once per phase. A
thread that passes it by holds up all blocks of the cluster, and a thread that arrives twice completes a phase that
its peers have not reached.

## Bad
```cuda
__device__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.aligned;\n barrier.cluster.wait.aligned;" ::: "memory");
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128) exchange(float* out) {
  __shared__ float s[128];
  s[threadIdx.x] = (float)threadIdx.x;
  if (threadIdx.x < 32) cluster_sync();
  out[threadIdx.x] = s[threadIdx.x];
  cluster_sync();
}
```

## Good
```cuda
__device__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.aligned;\n barrier.cluster.wait.aligned;" ::: "memory");
}
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(128) exchange(float* out) {
  __shared__ float s[128];
  s[threadIdx.x] = (float)threadIdx.x;
  cluster_sync();
  out[threadIdx.x] = s[threadIdx.x];
  cluster_sync();
}
```
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.machine import Execution
from warplint.rule import Rule
from warplint.threads.facts import Event, Roles
from warplint_rules._hazards import faults
from warplint_rules._say import (
    Reporter,
    condition_place,
    guard_places,
    line,
    location,
    reached,
    sites,
    spelled,
    threads,
    under,
    who,
)
from warplint_rules.participation._balance import Imbalance, compare
from warplint_rules.participation._lanes import by_cause, gap

RULE = Rule(Level.ERROR, Symptom.DEADLOCK, executes=True, spoils="schedule")
SAY = Reporter(__name__, RULE)


def check(roles: Roles) -> Iterator[Finding]:
    """Arrivals that threads miss; waits of part of a warp."""
    said: set[int] = set()
    arrivals = list(reached(roles, "barrier.cluster.arrive"))
    for imbalance in compare(roles, arrivals).imbalances:
        fresh = [event for event in sites(imbalance.events) if id(event.op) not in said]
        if fresh:
            said.update(id(event.op) for event in fresh)
            yield _missed(roles, imbalance, fresh)
    yield from _not_waited(roles, arrivals)
    lines = {line(roles, event.op.span) for event in arrivals if id(event.op) in said}
    aligned = (
        event
        for event in reached(roles, "barrier.cluster.arrive", "barrier.cluster.wait")
        if event.mod("aligned") and line(roles, event.op.span) not in lines
    )
    gaps = (gap(roles, event, roles.launch.warp_size, exited_count=False) for event in aligned)
    for together in by_cause(found for found in gaps if found is not None):
        event = together[0].event
        yield SAY.at(
            roles,
            event,
            f"{spelled(event)} is executed by {who(roles, event.reach)}{under(roles, event.guards)}, part of a warp.",
            why="The `.aligned` form is one operation of the whole warp; with lanes missing its effect is undefined.",
            remedy="Let all lanes of the warp execute it, or use the form without `.aligned`.",
            related=guard_places(roles, event.guards)[-3:],
        )


def check_execution(execution: Execution) -> Iterator[Finding]:
    """A barrier to which only some CTAs of the cluster come (a guard on the cluster rank)."""
    for fault in faults(execution, "cluster-barrier-unmatched"):
        roles = execution.roles
        most, least, other = fault.detail.split()
        event = next((e for e in roles.of("barrier.cluster.arrive") if e.op.span == fault.span), None)
        yield SAY.at(
            roles,
            event or fault.span,
            f"CTA {fault.who.cta} of the cluster arrives here and CTA {other} never does: they execute the cluster "
            f"barrier {most} and {least} times.",
            why="Every thread of the cluster that has not exited must arrive once per phase: a CTA that comes alone "
            "meets the others at their next barrier, phases no longer mean the same to both, and in the end it waits "
            "for a CTA that has left (a launch failure or a hang on an H200).",
            remedy="Move the cluster barrier out of the branch, so that every CTA of the cluster executes it.",
            related=[] if fault.other is None else [location(roles, fault.other, "both CTAs come here")],
        )


def _not_waited(roles: Roles, arrivals: list[Event]) -> Iterator[Finding]:
    """Threads that arrive a second time and have not waited for the phase in which they arrived first."""
    waits = list(reached(roles, "barrier.cluster.wait"))
    for first, second in itertools.pairwise(event for event in arrivals if _certain(event)):
        both = first.reach.threads & second.reach.threads
        between = [wait for wait in waits if first.order < wait.order < second.order]
        for wait in between:
            both &= ~wait.reach.threads
        if not both:
            continue
        where = between[0] if between else second
        message = (
            f"{spelled(where)} is executed by {who(roles, where.reach)}{under(roles, where.guards)}; "
            f"{threads(roles, both)} arrive again at line {line(roles, second.op.span)} without having waited."
            if between
            else f"{spelled(second)} arrives a second time with no wait since line {line(roles, first.op.span)}."
        )
        yield SAY.at(
            roles,
            where,
            message,
            why="A thread must wait for the phase in which it has arrived before it arrives in the next one; otherwise "
            "it may complete a phase that its peers have not reached, and nothing orders its accesses after theirs.",
            remedy="Let every thread that arrives execute the wait.",
            related=[
                location(roles, first.op.span, "arrives here"),
                location(roles, second.op.span, "arrives again here"),
                *guard_places(roles, where.guards)[-2:],
            ],
        )


def _certain(event: Event) -> bool:
    """Executed once by all of its threads, whatever is not known."""
    return event.reach.exact and not event.loops and all(guard.known for guard in event.guards)


def _missed(roles: Roles, imbalance: Imbalance, events: list[Event]) -> Finding:
    event, condition, later = events[0], imbalance.condition, imbalance.later
    if condition is not None:
        message = (
            f"{spelled(event)} depends on {condition_place(roles, condition)}, on which threads of the block disagree."
        )
    else:
        message = (
            f"{spelled(event)} is reached by {who(roles, event.reach)}{under(roles, event.guards)}; "
            f"{threads(roles, imbalance.missing)} never arrive in that phase."
        )
    if later is None:
        message += " They can only leave the kernel, which counts as arriving."
    return SAY.at(
        roles,
        event,
        message,
        level=Level.ERROR if later is not None else Level.WARNING,
        why="Every thread of the cluster that has not exited must arrive once per phase; one that is missing holds "
        "up all blocks "
        "of the cluster.",
        remedy="Move the cluster barrier out of the branch, or let each role execute it exactly once per phase.",
        related=[
            *guard_places(roles, event.guards),
            *(location(roles, other.op.span, "missed by the same threads") for other in events[1:]),
        ],
    )
