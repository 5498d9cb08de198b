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
from warplint.machine import Execution
from warplint.rule import Rule
from warplint.threads.facts import Event, LoopFact, Roles
from warplint_rules._executed import party, steps
from warplint_rules._say import Reporter, line, location, sites, spelled, who
from warplint_rules.named_barrier._ids import Barrier, Named, Use, named
from warplint_rules.named_barrier._stuck import Stuck, stuck

RULE = Rule(
    Level.ERROR,
    Symptom.DEADLOCK,
    executes=True,
    supersedes=("named-barrier-arrive-reissued", "protocol-deadlock", "cta-barrier-in-divergent-code"),
    spoils="schedule",
)
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


def check_execution(execution: Execution) -> Iterator[Finding]:
    """Barriers at which warps are left waiting though nobody who is left could come to them."""
    for one in stuck(execution):
        yield _left_waiting(execution, one)


def _left_waiting(execution: Execution, one: Stuck) -> Finding:
    roles, size = execution.roles, execution.roles.launch.warp_size
    expected, come = one.record.need * size, len(one.record.came) * size
    before = one.record.completed
    when = f" in generation {before + 1}" if before else ""
    rest = (
        f"{before} generation{'s' if before > 1 else ''} completed before: the two ends come to it different numbers "
        "of times, and those that are missing have left the kernel or wait for those that wait here."
        if before
        else "Those that are missing never come: they have left the kernel, or wait for those that wait here."
    )
    return SAY.at(
        roles,
        one.blocked[0].span,
        f"Named barrier {one.record.ident} waits for {expected} threads, and only {come} come{when}: "
        f"{party(execution, one.who)} are left waiting.",
        threads=party(execution, one.who),
        why=f"The barrier counts whole warps and completes at its thread count. {rest}",
        remedy="Let every role that the count includes come to the barrier equally often (`bar.arrive` or `bar.sync`)."
        if before
        else f"Set the count to the threads that come ({come} if only these do), or let the missing warps come to it.",
        related=[
            *(location(roles, span, "who comes") for span in dict.fromkeys(came.span for came in one.record.came)),
            *(location(roles, span, "another place that comes to this barrier") for span in one.sites),
        ],
        steps=steps(execution, one.outcome, target=one.blocked[0].target),
    )


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
        total, loop = _total(barrier, size)
        if total % barrier.count:
            return _sum_off(roles, barrier, total, loop)
    return None


def _total(barrier: Barrier, size: int) -> tuple[int, LoopFact | None]:
    """Threads over all sites when each is certain to happen, a known number of times; else in one turn of the loop that
    holds all sites, if that much is known. (0, None) when neither is.
    """
    whole = [_times(use, None) for use in barrier.uses]
    if all(times is not None for times in whole):
        return sum(len(use.warps) * size * (times or 0) for use, times in zip(barrier.uses, whole, strict=True)), None
    for loop in reversed(barrier.uses[0].event.loops):
        turn = [_times(use, loop) for use in barrier.uses]
        if all(times is not None for times in turn):
            return sum(len(use.warps) * size * (n or 0) for use, n in zip(barrier.uses, turn, strict=True)), loop
    return 0, None


def _times(use: Use, inside: LoopFact | None) -> int | None:
    """How often the warps of a site come to it: in all, or in one turn of a loop. None when that is not certain."""
    event = use.event
    loops, guards = list(event.loops), list(event.guards)
    if inside is not None:
        if inside not in loops:
            return None
        loops = loops[loops.index(inside) + 1 :]
        starts = [index for index, guard in enumerate(guards) if guard.stmt is inside.stmt]
        if not starts:
            return None
        guards = guards[starts[-1] + 1 :]
    if not event.reach.exact or any(not guard.known and guard.kind != "loop" for guard in guards):
        return None
    if event.iteration:
        # Unrolled loops have an event for each turn; which loops those are is only clear when it is all of them.
        return 1 if len(event.iteration) == len(event.loops) and inside is None else None
    times = 1
    for loop in loops:
        if loop.trips is None:
            return None
        times *= loop.trips
    return times


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


def _sum_off(roles: Roles, barrier: Barrier, total: int, loop: LoopFact | None) -> Finding:
    over = f"in each turn of the loop at line {line(roles, loop.span)}" if loop else "over all its sites"
    return _at(
        roles,
        barrier,
        barrier.uses[0].event,
        f"Named barrier {barrier.id} expects {barrier.count} threads, but {total} come to it {over}.",
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
