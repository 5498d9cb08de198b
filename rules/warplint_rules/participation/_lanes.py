"""Who of a warp or warpgroup executes an operation, compared with who would have to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from warplint.memo import remembered
from warplint.ops import SPECS
from warplint.threads.facts import Condition, Event, Roles, Uniformity, warps_of
from warplint_rules._say import narrowing, reached
from warplint_rules.participation._balance import divides, leaves


class Gap(Struct, frozen=True):
    """An operation that part of a group executes."""

    event: Event
    absent: int
    """Threads of the groups involved that are known not to execute it; 0 when `condition` divides them."""
    condition: Condition | None = None
    """The condition, of unknown value, on which the threads of a group are established to differ."""
    exited: bool = False
    """The absent threads have returned before."""


def with_participation(*classes: str) -> frozenset[str]:
    """Names of the operations of the given participation classes."""
    return frozenset(name for name, spec in SPECS.items() if spec.participation in classes)


def gap(roles: Roles, event: Event, group: int, *, exited_count: bool) -> Gap | None:
    """Whether some group of `group` consecutive threads (a warp, a warpgroup) executes the event in part.

    With `exited_count`, threads that have returned are missed too (`.sync.aligned` with an exited lane is undefined).
    """
    level = Uniformity.WARP if group == roles.launch.warp_size else Uniformity.WARPGROUP
    reach = event.reach
    if reach.elected:
        condition = next((guard for guard in event.guards if guard.after.elected), None)
        full = expected(roles, event, group)
        if full.bit_count() > len(warps_of(reach.threads, roles.launch.warp_size)):
            return Gap(event, 0, condition)
    absent = expected(roles, event, group) & ~reach.threads
    if absent:
        return Gap(event, absent)
    for guard in event.guards if reach.varies and reach.split < level else ():
        # (A reach that keeps the groups whole stays so, whatever the else of an elected lane was on the way to it.)
        if divides(roles.kernel, guard, level):
            return Gap(event, 0, guard)
        if exited_count and leaves(roles.kernel, guard, level):
            return Gap(event, 0, guard, exited=True)
    if exited_count:
        gone = expected(roles, event, group, alive=False) & ~reach.threads
        if gone:
            return Gap(event, gone, exited=True)
    return None


def expected(roles: Roles, event: Event, group: int, *, alive: bool = True) -> int:
    """The threads of every group that takes part: those alive at the place, or all that the block has."""
    return _groups(event.reach.threads, group) & (event.live if alive else roles.everyone)


@remembered(1024)
def _groups(threads: int, group: int) -> int:
    """The set with every group of `group` consecutive threads made whole of which it holds one."""
    full = (1 << group) - 1
    result, rest, at = 0, threads, 0
    while rest:
        if rest & full:
            result |= full << at
        rest >>= group
        at += group
    return result


_MEETING = with_participation(
    "warp_mask",
    "warp_all",
    "warpgroup_all",
    "cta_all",
    "cta_n_threads",
    "cluster_all",
    "grid_all",
    "wave_all",
    "wave_mask",
) | frozenset(name for name, spec in SPECS.items() if "waits" in spec.effects)


def missing_only_exit(roles: Roles, found: Gap) -> bool:
    """The threads that miss the operation come to nothing any more at which anybody meets or waits: they leave."""
    event, condition = found.event, found.condition
    around = {id(loop) for loop in event.loops}
    missing = found.absent or _groups(event.reach.threads, roles.launch.warp_size)
    for other in reached(roles):
        if other.name not in _MEETING or other.op is event.op or not other.reach.threads & missing:
            continue
        if other.order < event.order and not any(id(loop) in around for loop in other.loops):
            continue
        same_side = condition is not None and any(
            guard.stmt is condition.stmt and guard.taken == condition.taken for guard in other.guards
        )
        if not same_side:
            return False
    return True


def by_cause(gaps: Iterable[Gap]) -> Iterator[list[Gap]]:
    """Gaps of one cause together: those under one narrowing condition. Sites of unrolled loops count once."""
    groups: dict[object, list[Gap]] = {}
    seen: set[int] = set()
    for found in gaps:
        if id(found.event.op) in seen:
            continue
        seen.add(id(found.event.op))
        groups.setdefault(cause(found.event, found.condition), []).append(found)
    yield from groups.values()


def cause(event: Event, condition: Condition | None = None) -> object:
    """What identifies the reason of a thread set: the innermost condition that narrows it."""
    if condition is None:
        narrow = narrowing(event.guards)
        condition = narrow[-1] if narrow else None
    if condition is None:
        return None
    return id(condition.stmt) if condition.stmt is not None else condition.span


def once(events: Iterable[Event], keep: Callable[[Event], bool]) -> Iterator[Event]:
    """The events that satisfy `keep`, each operation site once."""
    seen: set[int] = set()
    for event in events:
        if id(event.op) not in seen and keep(event):
            seen.add(id(event.op))
            yield event
