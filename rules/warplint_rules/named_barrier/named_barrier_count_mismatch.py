"""The warps that take part in a named barrier do not add up to its thread count.

## Why
`bar.sync id, n` and `bar.arrive id, n` complete when n threads, counted in whole warps, have come with that id.
With too few the waiters hang; with too many the surplus completes or starts the next generation, and a warp passes
before its partners have written. One id used with two counts traps on an H200. What counts is the sum over all
sites of the id: a producer branch that arrives and a consumer branch that syncs share one count.

## Bad
```cuda
__device__ void bar_sync(int id, int n) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n) : "memory"); }
__device__ void bar_arrive(int id, int n) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(n) : "memory"); }
extern "C" __global__ void __launch_bounds__(160) hand_over(float* out, const float* in) {
  __shared__ float s[128];
  if (threadIdx.x < 128) {
    s[threadIdx.x] = in[threadIdx.x];
    bar_arrive(1, 64);
  } else {
    bar_sync(1, 64);
    out[threadIdx.x - 128] = s[threadIdx.x - 128];
  }
}
```

## Good
```cuda
__device__ void bar_sync(int id, int n) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(n) : "memory"); }
__device__ void bar_arrive(int id, int n) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(n) : "memory"); }
extern "C" __global__ void __launch_bounds__(160) hand_over(float* out, const float* in) {
  __shared__ float s[128];
  if (threadIdx.x < 128) {
    s[threadIdx.x] = in[threadIdx.x];
    bar_arrive(1, 160);
  } else {
    bar_sync(1, 160);
    out[threadIdx.x - 128] = s[threadIdx.x - 128];
  }
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.rule import Rule
from warplint.threads.facts import Event, Roles
from warplint_rules._say import Reporter, line, location, sites, spelled, who
from warplint_rules.named_barrier._ids import Barrier, Named, Use, named

RULE = Rule(Level.ERROR, Symptom.DEADLOCK, supersedes=("named-barrier-arrive-reissued", "protocol-deadlock"))
SAY = Reporter(__name__, RULE)


def check(roles: Roles) -> Iterator[Finding]:
    """Ids whose sum over all sites is known to be wrong."""
    found = named(roles)
    counts: dict[int, list[Barrier]] = {}
    for barrier in found.barriers:
        counts.setdefault(barrier.id, []).append(barrier)
    for barriers in counts.values():
        if any(barrier.count % roles.launch.warp_size or barrier.count <= 0 for barrier in barriers):
            continue  # named-barrier-count-not-warp-multiple speaks
        for barrier in barriers:
            finding = _judge(roles, found, barrier, [other for other in barriers if other is not barrier])
            if finding is not None:
                yield finding
                break  # one id, one cause


def _judge(roles: Roles, found: Named, barrier: Barrier, others: list[Barrier]) -> Finding | None:
    size = roles.launch.warp_size
    available = barrier.arrivals * size
    complete = not found.unknown_id and barrier.id not in found.unknown_count
    if complete and available < barrier.count:
        return _too_few(roles, barrier, others, available)
    for use in barrier.uses:
        if use.event.reach.exact and len(use.warps) * size > barrier.count:
            return _too_many_at_once(roles, barrier, use)
    if complete and not others:
        total = _total(barrier, size)
        if total is not None and total % barrier.count:
            return _sum_off(roles, barrier, total)
    return None


def _total(barrier: Barrier, size: int) -> int | None:
    """Threads over all sites when each is certain to happen, a known number of times; None otherwise."""
    total = 0
    for use in barrier.uses:
        event = use.event
        if not event.reach.exact or any(not guard.known and guard.kind != "loop" for guard in event.guards):
            return None
        times = 1
        known = [loop for loop in event.loops if loop.trips is not None]
        if len(known) != len(event.loops):
            return None
        for loop in known[len(event.iteration) :]:
            times *= loop.trips or 0
        total += len(use.warps) * size * times
    return total


def _too_few(roles: Roles, barrier: Barrier, others: list[Barrier], available: int) -> Finding:
    first = barrier.uses[0].event
    if others:
        rest = ", ".join(str(other.count) for other in others)
        message = (
            f"Named barrier {barrier.id} is used with {barrier.count} threads here and with {rest} elsewhere, and only "
            f"{available} threads ever come with {barrier.count}."
        )
        why = (
            "All participants of a generation must give the same count; with two counts the hardware traps or "
            "never completes."
        )
        remedy = (
            f"Give every site of barrier {barrier.id} the same count: the number of threads of all warps that "
            "take part."
        )
    else:
        message = (
            f"Named barrier {barrier.id} expects {barrier.count} threads, but over all its sites only {available} "
            "threads can ever "
            "take part."
        )
        why = (
            "The barrier counts whole warps and completes at its thread count; the missing warps never come, so "
            "the waiters hang."
        )
        remedy = f"Set the count to {available} at every site, or let the missing warps arrive (`bar.arrive`) or sync."
    return _at(roles, barrier, first, message, why, remedy, [event for other in others for event in _events(other)])


def _too_many_at_once(roles: Roles, barrier: Barrier, use: Use) -> Finding:
    came = len(use.warps) * roles.launch.warp_size
    return _at(
        roles,
        barrier,
        use.event,
        f"Named barrier {barrier.id} expects {barrier.count} threads, but {who(roles, use.event.reach)} execute this "
        "one site.",
        f"{came} threads come where {barrier.count} complete it: warps are released with the wrong partners, and the "
        "surplus is "
        "left in the next generation.",
        f"Set the count to the threads of all warps that take part ({came} if only these do), or give each group of "
        f"{barrier.count} threads an id of its own.",
        [],
    )


def _sum_off(roles: Roles, barrier: Barrier, total: int) -> Finding:
    return _at(
        roles,
        barrier,
        barrier.uses[0].event,
        f"Named barrier {barrier.id} expects {barrier.count} threads, but {total} come to it over all its sites.",
        "That is no whole number of generations: the last one never completes, or a warp passes before its partners "
        "have come.",
        f"Set the count to the sum of all threads that arrive or sync in one generation ({total} if there is one).",
        [],
    )


def _events(barrier: Barrier) -> list[Event]:
    return sites(use.event for use in barrier.uses)


def _at(
    roles: Roles, barrier: Barrier, event: Event, message: str, why: str, remedy: str, others: list[Event]
) -> Finding:
    related = [
        location(roles, other.op.span, f"{spelled(other)} by {who(roles, other.reach)}")
        for other in [*_events(barrier), *others]
        if line(roles, other.op.span) != line(roles, event.op.span)
    ]
    return SAY.at(roles, event, message, why=why, remedy=remedy, related=related)
