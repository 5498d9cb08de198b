"""A warp arrives at a named barrier again before it can know that the generation it arrived in is complete.

## Why
`bar.arrive` does not wait, and the hardware counts arrivals, not warps: a warp that comes again at once fills the
place of one that is late. The generation completes without the late warp, which then waits for partners that have
gone on (seen on an H200: the slower side hangs). Between two arrivals of one warp there must be something that it
waits for.

## Bad
```cuda
__device__ void bar_sync(int id, int n) { asm volatile("barrier.sync %0, %1;" ::"r"(id), "r"(n) : "memory"); }
__device__ void bar_arrive(int id, int n) { asm volatile("barrier.arrive %0, %1;" ::"r"(id), "r"(n) : "memory"); }
extern "C" __global__ void __launch_bounds__(64) feed(float* out, const float* in, int n) {
  __shared__ float slot[32];
  if (threadIdx.x < 32) {
    for (int i = 0; i < n; ++i) {
      bar_arrive(1, 64);
    }
  } else {
    for (int i = 0; i < n; ++i) {
      bar_sync(1, 64);
      out[i * 32 + threadIdx.x - 32] = 1.f;
    }
  }
}
```

## Good
```cuda
__device__ void bar_sync(int id, int n) { asm volatile("barrier.sync %0, %1;" ::"r"(id), "r"(n) : "memory"); }
__device__ void bar_arrive(int id, int n) { asm volatile("barrier.arrive %0, %1;" ::"r"(id), "r"(n) : "memory"); }
extern "C" __global__ void __launch_bounds__(64) feed(float* out, const float* in, int n) {
  __shared__ float slot[32];
  if (threadIdx.x < 32) {
    for (int i = 0; i < n; ++i) {
      bar_arrive(1, 64);
      bar_sync(2, 64);
    }
  } else {
    for (int i = 0; i < n; ++i) {
      bar_sync(1, 64);
      out[i * 32 + threadIdx.x - 32] = 1.f;
      bar_arrive(2, 64);
    }
  }
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.ops import SPECS
from warplint.program.ir import walk
from warplint.rule import Rule
from warplint.threads.facts import Event, LoopFact, Roles
from warplint_rules._say import Reporter, line, location, reached, spelled, warps, who
from warplint_rules.named_barrier._ids import Barrier, Use, named

RULE = Rule(Level.ERROR, Symptom.DEADLOCK, spoils="schedule")
SAY = Reporter(__name__, RULE)

_WAITING = frozenset(
    name
    for name, spec in SPECS.items()
    if "waits" in spec.effects or ("barrier" in spec.effects and name != "bar.arrive.named")
) | {"ld.acquire", "ld.volatile", "ld.relaxed"}


def check(roles: Roles) -> Iterator[Finding]:
    """Arrivals from which the same warps come to the barrier again with nothing in between that waits."""
    found = named(roles)
    if not any(use.event.name == "bar.arrive.named" for barrier in found.barriers for use in barrier.uses):
        return
    waits = [event for event in reached(roles) if event.name in _WAITING]
    for barrier in found.barriers:
        size = roles.launch.warp_size
        distinct = frozenset().union(*(use.warps for use in barrier.uses))
        if len(distinct) * size < barrier.count:
            continue  # some warps count twice by design: one arrives and then waits with the others
        for use in barrier.uses:
            if use.event.name == "bar.arrive.named" and (again := _again(barrier, use, waits, size)):
                yield _finding(roles, barrier, use.event, again)
                break


def _again(barrier: Barrier, use: Use, waits: list[Event], size: int) -> Event | None:
    """The next place where warps of the arrival certainly come to the barrier, if nothing on the way there waits.

    A place under an unknown condition counts only together with one on the other side of the condition. A place whose
    id differs from warp to warp is this barrier for some and another one, at which they may wait, for the rest.
    """
    arrive = use.event
    own = {other.event for other in barrier.uses if other.warps & use.warps}
    elsewhere = {event for event in waits if event not in own}
    threads = sum(((1 << size) - 1) << warp * size for warp in use.warps) & arrive.reach.threads
    events = sorted({*elsewhere, *own}, key=lambda event: event.order)
    mine = [event for event in events if event.reach.threads & threads]
    loop = arrive.loops[-1] if arrive.loops else None
    rest = [e for e in mine if e.order > arrive.order and not _exclusive(arrive, e) and (not loop or loop in e.loops)]
    found, ended = _first_certain(rest, own, {id(guard.stmt) for guard in arrive.guards})
    if ended or loop is None or loop.trips == 1 or arrive.iteration:
        return found
    around = {id(guard.stmt) for guard in arrive.guards[: _depth(arrive, loop)]}
    return _first_certain([event for event in mine if loop in event.loops], own, around)[0]


def _first_certain(path: list[Event], own: set[Event], settled: set[int]) -> tuple[Event | None, bool]:
    """Along a path: the first certain place of the barrier, and whether something ended the search."""
    sides: dict[int, tuple[bool, Event]] = {}
    for event in path:
        if event not in own:
            return None, True  # something that waits, or may wait, comes first
        open_guards = [guard for guard in event.guards if not guard.known and id(guard.stmt) not in settled]
        if not open_guards:
            return event, True
        guard = open_guards[0]
        other = sides.setdefault(id(guard.stmt), (guard.taken, event))
        if len(open_guards) == 1 and other[0] != guard.taken:
            return other[1], True
    return None, bool(sides)


def _depth(arrive: Event, loop: LoopFact) -> int:
    """How many of the arrival's conditions stand around the loop (the loop's own test included)."""
    for index, guard in enumerate(arrive.guards):
        if guard.stmt is loop.stmt:
            return index + 1
    inside = {id(stmt) for stmt in walk(loop.stmt)}
    return sum(1 for guard in arrive.guards if id(guard.stmt) not in inside)


def _exclusive(one: Event, other: Event) -> bool:
    """They stand on different sides of one condition (or one jumps past the other)."""
    sides = {id(guard.stmt): guard.taken for guard in one.guards if guard.stmt is not None}
    return any(sides.get(id(guard.stmt), guard.taken) != guard.taken for guard in other.guards)


def _finding(roles: Roles, barrier: Barrier, arrive: Event, again: Event) -> Finding:
    same = again.op is arrive.op
    where = "here again in the next iteration" if same else f"at line {line(roles, again.op.span)}"
    return SAY.at(
        roles,
        arrive,
        f"{spelled(arrive)} on barrier {barrier.id} by {who(roles, arrive.reach)} does not wait, and the same warps "
        f"come to it {where} with nothing between that waits.",
        why="The hardware counts arrivals: the second one takes the place of a warp that has not come yet, the "
        "generation completes without it, and that warp waits for partners that have gone on.",
        remedy=f"Let {warps(roles, arrive.reach.threads)} wait between the two (`bar.sync` instead of `bar.arrive`, or "
        "a barrier that the waiting side arrives on).",
        related=[] if same else [location(roles, again.op.span, "the second arrival")],
    )
