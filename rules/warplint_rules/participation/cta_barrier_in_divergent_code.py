"""A CTA-wide barrier that some live threads of the block do not execute.

## Why
`__syncthreads()` waits for every thread of the block that has not left the kernel. When a condition lets some of
them pass it by, the block waits for ever, or the threads that went on meet a later barrier with a generation that
is not theirs: from then on every hand-over through shared memory is off by one. Threads that can only leave the
kernel are counted as arrived by the hardware, so there the barrier completes today, though PTX calls it undefined.

## Bad
```cuda
extern "C" __global__ void __launch_bounds__(256) tile_sum(float* out, const float* in) {
  __shared__ float part[256];
  part[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  if (threadIdx.x < 128) {
    part[threadIdx.x] += part[threadIdx.x + 128];
    __syncthreads();
  }
  __syncthreads();
  out[threadIdx.x] = part[threadIdx.x & 127];
}
```

## Good
```cuda
extern "C" __global__ void __launch_bounds__(256) tile_sum(float* out, const float* in) {
  __shared__ float part[256];
  part[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  if (threadIdx.x < 128) {
    part[threadIdx.x] += part[threadIdx.x + 128];
  }
  __syncthreads();
  out[threadIdx.x] = part[threadIdx.x & 127];
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.rule import Rule
from warplint.threads.facts import Condition, Event, Roles, Uniformity, warps_of
from warplint_rules._say import (
    Reporter,
    condition_place,
    guard_places,
    line,
    location,
    sites,
    spelled,
    threads,
    under,
    warps,
    who,
)
from warplint_rules.participation._balance import Imbalance, Split, balance, granularity

RULE = Rule(Level.ERROR, Symptom.DEADLOCK, guide=True, supersedes=("exit-before-cta-barrier",), spoils="schedule")
SAY = Reporter(__name__, RULE)


def check(roles: Roles) -> Iterator[Finding]:
    """Barriers that threads miss, and lanes of one warp that wait at different barriers."""
    found = balance(roles)
    said: set[int] = set()
    for imbalance in found.imbalances:
        fresh = [event for event in sites(imbalance.events) if id(event.op) not in said]
        if imbalance.later is None:  # waves that have ended do not count, as AMD documents for its own instruction
            fresh = [event for event in fresh if event.name != "amd.s_barrier"]
        if fresh:
            said.update(id(event.op) for event in fresh)
            yield _missed(roles, imbalance, fresh)
    for split in found.splits:
        if split.within_warp and not all(id(event.op) in said for event in split.events):
            said.update(id(event.op) for event in split.events)
            yield _torn(roles, split)


def _missed(roles: Roles, imbalance: Imbalance, events: list[Event]) -> Finding:
    event, condition, later = events[0], imbalance.condition, imbalance.later
    if condition is not None:
        verb = {"continue": "skip it with `continue`", "break": "leave the loop before it"}.get(
            condition.kind, "do not reach it"
        )
        message = (
            f"{spelled(event)} depends on {condition_place(roles, condition)}, on which "
            f"{_parts(condition)} of the block disagree: those for which it fails {verb}."
        )
    else:
        message = (
            f"{spelled(event)} is reached by {who(roles, event.reach)}{under(roles, event.guards)}; "
            f"{threads(roles, imbalance.missing)} never come to it."
        )
    if later is None:
        message += " They can only leave the kernel, which the hardware counts as arriving and PTX does not promise."
        why = "Exited threads are not waited for, so the barrier completes once they have all left."
    else:
        where = line(roles, later.op.span)
        why = (
            "A CTA barrier waits for every thread that has not exited, at one instruction. "
            + (
                f"The missing threads are alive and come to the barrier at line {where} instead: "
                if later.op is not event.op
                else "The missing threads come back to it on another iteration: "
            )
            + "the block hangs, or each side meets the other's barrier and works on data that is not ready."
        )
    related = guard_places(roles, event.guards)
    related += [location(roles, other.op.span, "missed by the same threads") for other in events[1:]]
    if later is not None and later.op is not event.op:
        related.append(location(roles, later.op.span, "the missing threads come here"))
    return SAY.at(
        roles,
        event,
        message,
        level=Level.ERROR if later is not None else Level.WARNING,
        why=why,
        remedy=_remedy(roles, event, condition),
        related=related,
    )


def _torn(roles: Roles, split: Split) -> Finding:
    event = split.events[0]
    others = sites(split.events)[1:]
    message = (
        f"{spelled(event)} stands in both arms of a condition that divides the lanes of a warp"
        f"{under(roles, event.guards)}: lanes of one warp wait at different barriers."
    )
    return SAY.at(
        roles,
        event,
        message,
        why="The two arms do not merge at a barrier: each arm arrives for the warp on its own, so one barrier in "
        "each arm "
        "makes two generations, and the threads of other warps are released early.",
        remedy="Move the barrier behind the branch, so that all lanes of the warp execute the same one.",
        related=[
            *guard_places(roles, event.guards),
            *(location(roles, other.op.span, "other lanes of the warp wait here") for other in others),
        ],
    )


def _parts(condition: Condition) -> str:
    level = granularity(condition)
    return {Uniformity.LANE: "threads", Uniformity.WARP: "warps"}.get(level, "warpgroups")


def _remedy(roles: Roles, event: Event, condition: Condition | None) -> str:
    """Suggests a narrower barrier only where whole warps, all known, would meet at it."""
    if condition is not None:
        if condition.kind in ("continue", "break"):
            return (
                "Keep every thread in the iteration: turn the jump into a flag, run the barrier for all threads and "
                "guard "
                "only the work."
            )
        return "Move the barrier out of the condition, or make the condition the same for all threads of the block."
    size = roles.launch.warp_size
    present = event.reach.threads
    full = warps_of(event.live, size)
    whole = event.reach.exact and not event.reach.elected
    whole = whole and all(lanes == full.get(warp) for warp, lanes in warps_of(present, size).items())
    count = len(warps_of(present, size)) * size
    if not whole or roles.kernel.is_amd or event.name == "grid.sync":
        return "Move the barrier out of the branch, so that every live thread of the block executes it."
    if count == size:
        return (
            f"If only {warps(roles, present)} must meet here, use `__syncwarp()`; otherwise move the barrier out of "
            "the branch."
        )
    return (
        f"If only these {count} threads must meet here, use a named barrier of their own (`bar.sync <id>, {count}` "
        "with an id "
        "that no other group uses); otherwise move the barrier out of the branch."
    )
