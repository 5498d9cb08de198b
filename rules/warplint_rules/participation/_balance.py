"""Whether the threads of a block take part in its CTA barrier equally often, and where they do not.

A CTA barrier has no sites: the hardware counts warps. So a barrier in one branch is judged together with its
siblings. Barriers that every live thread reaches are anchors; between two anchors, each class of threads (those
with the same guards) must execute as many barriers as any other. Unknown trip counts and unknown uniform conditions
stay symbols: two roles that run `for (k < n) __syncthreads()` are equal when the loop tests read the same, and are
not compared when they do not.

Conditions whose value is unknown divide the threads only where it is established that it varies inside the block;
both arms of such a condition are compared with one another in the same way. Where several such conditions stand side
by side (`if (role <= 3) ... if (role >= 4) ...` with a role that nobody knows), threads left out by one may be taken by
another, and nothing is claimed. Threads that have returned are not waited for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from warplint.memo import remembered
from warplint.program.ir import Kernel, walk
from warplint.threads.facts import Condition, Event, Known, Opaque, Reach, Roles, Uniformity, warps_of
from warplint_rules._say import reached
from warplint_rules.participation._dataflow import rests_on_unknown

BARRIERS = ("bar.sync.cta", "bar.red.cta", "hip.__syncthreads", "amd.s_barrier", "grid.sync")

Terms = Mapping[tuple[str, ...], int]
"""How often: symbolic factors (loop tests, conditions) -> coefficient. `{(): 2}` is twice."""


class Imbalance(Struct, frozen=True):
    """Barriers that some live threads execute and others do not."""

    events: tuple[Event, ...]
    """The sites, in program order; all between the same two anchors."""
    missing: int
    """Live threads that do not (all of them, or those that fail `condition`)."""
    condition: Condition | None
    """The condition of unknown value that divides the threads, if that is the cause."""
    later: Event | None
    """A barrier that missing threads may still come to; None when they can only leave the kernel."""


class Split(Struct, frozen=True):
    """Different sites at which different threads take part in the same generations of the barrier."""

    events: tuple[Event, ...]
    within_warp: bool
    """Lanes of one warp stand at different sites; they do not merge there."""
    condition: Condition | None = None


class Balance(Struct, frozen=True):
    """What was found, each in program order."""

    imbalances: tuple[Imbalance, ...]
    splits: tuple[Split, ...]


def barriers(roles: Roles) -> list[Event]:
    """Events that are barrier 0 of the whole block, however spelled."""
    found = []
    for event in reached(roles, *BARRIERS, "bar.sync.named", "barrier.nonaligned"):
        if event.name in BARRIERS:
            found.append(event)
        elif event.constant("id") == 0:
            count = event.constant("threads")
            if count == roles.threads or (count in (None, 0) and not isinstance(event.values.get("threads"), Opaque)):
                found.append(event)
    return found


@remembered(4)
def balance(roles: Roles) -> Balance:
    """Judges the CTA barriers of a kernel."""
    return compare(roles, barriers(roles))


def compare(roles: Roles, events: list[Event]) -> Balance:
    """Judges one barrier's events, all of them given."""
    anchors = [event for event in events if _anchor(roles, event)]
    if len(anchors) == len(events):
        return Balance((), ())
    work = _Work(roles, events)
    groups: dict[int, list[Event]] = {}
    for event in events:
        if not _anchor(roles, event):
            before = [a for a in anchors if a.order < event.order and a.loops == event.loops[: len(a.loops)]]
            groups.setdefault(before[-1].order if before else -1, []).append(event)
    kept = [work.settle(group, 0) for group in groups.values()]
    if work.total_is_even([event for group in kept for event in group]):
        # A role that is one barrier ahead of another and falls back later (ping-pong) is even in sum.
        for group in kept:
            work.split(group)
    else:
        for group in kept:
            work.judge(group)
    work.imbalances.sort(key=lambda found: found.events[0].order)
    work.splits.sort(key=lambda found: found.events[0].order)
    return Balance(tuple(work.imbalances), tuple(work.splits))


# ---------------------------------------------------------------------------------------------- conditions
def divides(kernel: Kernel, guard: Condition, level: Uniformity = Uniformity.CTA) -> bool:
    """A condition of unknown value that is established to differ between live threads of one group of the level.

    Returns are no such condition: threads that have left are not waited for.
    """
    if guard.kind == "exit":
        return False
    before, after, value = guard.before, guard.after, guard.value
    if after.elected and not before.elected:
        return True
    if after.split >= level or not after.varies:
        return False
    if guard.kind not in ("break", "continue") and isinstance(value, Opaque):
        varies = value.varies and value.uniformity < level
    else:
        # What is left behind a jump: several conditions may have led to it, the reach says what they amount to.
        varies = after.split < before.split or not before.varies
    return varies and not (guard.stmt is not None and rests_on_unknown(kernel, guard.stmt))


def leaves(kernel: Kernel, guard: Condition, level: Uniformity = Uniformity.CTA) -> bool:
    """A return that is established to take some threads of a group away and to keep others."""
    if guard.kind != "exit":
        return False
    before, after = guard.before, guard.after
    if after.threads != before.threads and level >= Uniformity.CTA:
        return True
    varies = after.split < level and after.varies and (after.split < before.split or not before.varies)
    return varies and not (guard.stmt is not None and rests_on_unknown(kernel, guard.stmt))


def granularity(guard: Condition) -> Uniformity:
    """The groups that a dividing condition keeps together."""
    if guard.after.elected and not guard.before.elected:
        return Uniformity.LANE
    if guard.kind not in ("break", "continue") and isinstance(guard.value, Opaque) and guard.value.varies:
        return guard.value.uniformity
    return guard.after.split


def _dividing(roles: Roles, event: Event) -> list[Condition]:
    return [guard for guard in event.guards if divides(roles.kernel, guard)]


def _anchor(roles: Roles, event: Event) -> bool:
    """Every live thread of the block executes it, or none does."""
    return event.live & ~event.reach.threads == 0 and not event.reach.elected and not _dividing(roles, event)


def _same(guard: Condition, event: Event) -> tuple[object, ...]:
    return (id(guard.stmt) if guard.stmt is not None else guard.span, event.iteration)


# ---------------------------------------------------------------------------------------------- comparison
def terms(roles: Roles, events: Iterable[Event]) -> dict[tuple[str, ...], int]:
    """How often the events happen, as symbols and numbers."""
    total: dict[tuple[str, ...], int] = {}
    for event in events:
        factors: list[str] = []
        times = 1
        known = [loop for loop in event.loops if loop.trips is not None]
        for loop in known[len(event.iteration) :]:
            times *= loop.trips or 0
        loops = {id(loop.stmt) for loop in event.loops}
        factors.extend(f"loop {_flat(loop.text)}" for loop in event.loops if loop.trips is None)
        for guard in event.guards:
            if guard.kind in ("exit", "loop") or id(guard.stmt) in loops or divides(roles.kernel, guard):
                continue
            if not isinstance(guard.value, Known):
                factors.append(f"{'' if guard.taken else '!'}{_flat(guard.text)}")
        key = tuple(factors)
        total[key] = total.get(key, 0) + times
    return total


def _flat(text: str) -> str:
    return "".join(text.split())


def less(small: Terms, large: Terms) -> bool:
    """Established to be fewer, whatever the unknowns are."""
    return small != large and all(count <= large.get(key, 0) for key, count in small.items())


class _Work:
    """Collects the findings of one comparison."""

    def __init__(self, roles: Roles, events: list[Event]) -> None:
        self.roles = roles
        self.events = events
        self.imbalances: list[Imbalance] = []
        self.splits: list[Split] = []

    def settle(self, events: list[Event], depth: int) -> list[Event]:
        """Compares the arms of dividing conditions and leaves one arm of each, as if everyone took it."""
        kept: list[Event] = []
        arms: dict[tuple[object, ...], tuple[Condition, list[Event], list[Event]]] = {}
        for event in events:
            guards = _dividing(self.roles, event)
            if len(guards) <= depth:
                kept.append(event)
                continue
            guard = guards[depth]
            _, yes, no = arms.setdefault(_same(guard, event), (guard, [], []))
            (yes if guard.taken else no).append(event)
        for guard, yes, no in arms.values():
            yes, no = self.settle(yes, depth + 1), self.settle(no, depth + 1)
            of_yes, of_no = terms(self.roles, yes), terms(self.roles, no)
            if of_yes == of_no:
                self.splits.append(Split(_ordered(yes, no), granularity(guard) == Uniformity.LANE, guard))
            elif len(arms) > 1:
                pass  # several conditions of unknown value: what one leaves out another may take
            elif less(of_no, of_yes):
                self._uneven(yes, guard.before.threads, guard)
            elif less(of_yes, of_no):
                self._uneven(no, guard.before.threads, guard)
            kept.extend(yes if less(of_no, of_yes) or of_yes == of_no else no)
        kept.sort(key=lambda event: event.order)
        return kept

    def classes(self, events: list[Event]) -> list[tuple[int, list[Event]]]:
        """Live threads by which of the events they execute."""
        live = self.roles.everyone
        for event in events:
            live &= event.live
        parts: list[tuple[int, list[Event]]] = [(live, [])]
        for event in events:
            divided: list[tuple[int, list[Event]]] = []
            threads = _threads(event)
            for part, of in parts:
                if inside := part & threads:
                    divided.append((inside, [*of, event]))
                if outside := part & ~threads:
                    divided.append((outside, of))
            parts = divided
        return [part for part in parts if part[0]]

    def total_is_even(self, events: list[Event]) -> bool:
        """Every thread of the block executes as many barriers as any other, though not between the same anchors."""
        parts = self.classes(events)
        counts = [terms(self.roles, of) for _, of in parts]
        return bool(counts) and all(count == counts[0] for count in counts)

    def judge(self, events: list[Event]) -> None:
        """Compares the classes of threads of one stretch between anchors."""
        parts = self.classes(events)
        counts = [terms(self.roles, of) for _, of in parts]
        if all(count == counts[0] for count in counts):
            self.split(events)
            return
        reported: set[int] = set()
        for index, (_, of) in enumerate(parts):
            fewer = [other for other in range(len(parts)) if less(counts[other], counts[index])]
            extra = [e for e in of if any(e not in parts[other][1] for other in fewer) and id(e.op) not in reported]
            if extra and not any(less(counts[index], count) for count in counts):
                reported.update(id(event.op) for event in extra)
                missing = 0
                for other in fewer:
                    missing |= parts[other][0]
                self._uneven(extra, missing, None)

    def split(self, events: list[Event]) -> None:
        """Notes that equal counts come from different sites."""
        parts = [(part, of) for part, of in self.classes(events) if of]
        if len({tuple(id(event.op) for event in of) for _, of in parts}) < 2:
            return
        size = self.roles.launch.warp_size
        seen: dict[int, tuple[int, ...]] = {}
        within = False
        for part, of in parts:
            at = tuple(id(event.op) for event in of)
            for warp in warps_of(part, size):
                within |= seen.setdefault(warp, at) != at
        self.splits.append(Split(_ordered(*(of for _, of in parts)), within))

    def _uneven(self, events: list[Event], missing: int, condition: Condition | None) -> None:
        if events and missing:
            later = self._later(events[0], missing, condition)
            self.imbalances.append(Imbalance(tuple(events), missing, condition, later))

    def _later(self, site: Event, missing: int, condition: Condition | None) -> Event | None:
        """A barrier that threads which missed `site` may come to: after it, or on the next turn of a common loop."""
        around = {id(loop) for loop in site.loops}
        for event in self.events:
            if event.op is site.op and not (condition is not None and event.loops):
                continue
            if not _threads(event) & missing:
                continue
            if condition is not None and _once(condition, event):
                continue  # it stands behind the same condition, which they have failed for good
            if event.order > site.order or any(id(loop) in around for loop in event.loops):
                return event
        for event in self.roles.of("barrier.cluster.wait"):
            # They cannot leave either: the cluster barrier before their exit waits for the threads that stand here.
            if event.order > site.order and _threads(event) & missing and _threads(event) & _threads(site):
                return event
        return None


def _once(condition: Condition, event: Event) -> bool:
    """The event stands under the same side of the condition, which no loop around the event asks again."""
    if condition.stmt is None:
        return False
    if not any(guard.stmt is condition.stmt and guard.taken == condition.taken for guard in event.guards):
        return False
    return not any(stmt is condition.stmt for loop in event.loops for stmt in walk(loop.stmt))


def _threads(event: Event) -> int:
    reach: Reach = event.reach
    return reach.threads


def _ordered(*groups: Iterable[Event]) -> tuple[Event, ...]:
    """All events once, in program order."""
    found = {id(event): event for group in groups for event in group}
    return tuple(sorted(found.values(), key=lambda event: event.order))
