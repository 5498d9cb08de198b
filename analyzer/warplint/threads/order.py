"""What is certain about the order of two places, from structure alone: dominance, and barriers in between.

Everything here is one-sided: True is established, False means "not established". Order across loop iterations is the
machine's business; these helpers look at one pass through the text.
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.threads.facts import Condition, Elected, Event, LoopFact, Roles

CTA_BARRIERS = frozenset(
    ["bar.sync.cta", "bar.red.cta", "hip.__syncthreads", "amd.s_barrier", "amd.s_barrier_signal_wait", "grid.sync"]
)
"""Operations at which every live thread of the CTA waits for the others."""
CLUSTER_WAITS = frozenset(["barrier.cluster.wait"])
NAMED_BARRIERS = frozenset(["bar.sync.named", "barrier.nonaligned"])
MBARRIER_WAITS = frozenset(["mbarrier.try_wait", "mbarrier.test_wait"])


def _implied(conditions: tuple[Condition, ...], here: tuple[Condition, ...]) -> bool:
    """Whether passing the conditions `here` implies `conditions`, for threads that are in both reaches."""
    held = set(map(id, here))
    elections = [guard.value.key for guard in here if isinstance(guard.value, Elected) and guard.taken]
    for condition in conditions:
        if id(condition) in held or condition.known:
            continue
        if (
            isinstance(condition.value, Elected)
            and condition.taken
            and _name(condition.value.key) in map(_name, elections)
        ):
            continue
        return False
    return True


def _name(key: object) -> object:
    """The member mask that an election was held over: one mask elects one lane."""
    return key[0] if isinstance(key, tuple) and key else key


def _surely_run(loops: tuple[LoopFact, ...], here: tuple[LoopFact, ...]) -> bool:
    inside = set(map(id, here))
    return all(id(loop) in inside or loop.always for loop in loops)


def always_before(a: Event, b: Event, same_threads: bool = True) -> bool:
    """Whether no thread executes `b` without `a` having been executed before it in the text.

    With `same_threads` it is the very thread that executes `b`; else any thread of `a` (which alone orders nothing
    between threads, see `barrier_between`).
    """
    if a.order >= b.order or not _surely_run(a.loops, b.loops) or not _implied(a.guards, b.guards):
        return False
    if same_threads and (b.reach.threads & ~a.reach.threads or (a.reach.elected and not b.reach.elected)):
        return False
    return a.reach.exact or _implied_strictly(a.guards, b.guards)


def _implied_strictly(conditions: tuple[Condition, ...], here: tuple[Condition, ...]) -> bool:
    held = set(map(id, here))
    return all(id(condition) in held or condition.known for condition in conditions)


def between(roles: Roles, a: Event, b: Event) -> Iterator[Event]:
    """Events after `a` and before `b` in program order."""
    for event in roles.events:
        if a.order < event.order < b.order:
            yield event


def barrier_between(roles: Roles, a: Event, b: Event, who: int, mbarriers: bool = False) -> bool:
    """Whether every thread of `who` surely passes a common barrier after `a` and before `b`.

    CTA and grid barriers, cluster waits, and named barriers of one id count, completed at one site or over several
    (sibling branches). With `mbarriers`, a wait that every thread of `who` that executes `b` passes counts as well:
    the caller then vouches that the wait is for `a`.
    """
    passed: dict[object, int] = {}
    for event in between(roles, a, b):
        if event.name in CTA_BARRIERS:
            key: object = "cta"
        elif event.name in CLUSTER_WAITS:
            key = "cluster"
        elif event.name in NAMED_BARRIERS:
            number = event.constant("id")
            if number is None:
                continue
            key = ("named", number)
        elif mbarriers and event.name in MBARRIER_WAITS and event.mod("blocking"):
            if always_before(event, b):
                return True
            continue
        else:
            continue
        if event.reach.elected or not _surely_run(event.loops, b.loops):
            continue
        if not (_implied(event.guards, b.guards) or _implied(event.guards, a.guards)):
            continue
        passed[key] = passed.get(key, 0) | event.reach.threads
        if who & ~passed[key] == 0:
            return True
    return False
