"""Named-barrier operations by id and count, summed over all their sites."""

from __future__ import annotations

from msgspec import Struct, field

from warplint.memo import remembered
from warplint.threads.facts import Event, Known, Reach, Roles
from warplint_rules._say import lanes_of, reached

NAMED = ("bar.sync.named", "bar.arrive.named", "barrier.nonaligned")


class Use(Struct):
    """One site's part in one id and count: the warps that name them there."""

    event: Event
    warps: frozenset[int]
    """An upper bound unless the event's reach is exact."""


class Barrier(Struct):
    """One id with one thread count."""

    id: int
    count: int
    uses: list[Use] = field(default_factory=list)

    @property
    def arrivals(self) -> int:
        """The most warps that can come in one generation: each warp once at each site.

        A warp may arrive at one site and then wait at another one: it counts twice. To come to one site twice before
        the generation completes is a fault of its own.
        """
        at_site: dict[int, set[int]] = {}
        for use in self.uses:
            at_site.setdefault(id(use.event.op), set()).update(use.warps)
        return sum(map(len, at_site.values()))


class Named(Struct, frozen=True):
    """The named barriers of a kernel."""

    barriers: tuple[Barrier, ...]
    """By id and count, ascending."""
    unknown_id: tuple[Event, ...]
    """Operations whose id is not known: they may belong to any barrier."""
    unknown_count: dict[int, tuple[Event, ...]]
    """Operations of a known id whose count is not known."""


@remembered(4)
def named(roles: Roles) -> Named:
    """Sorts the operations by id and count, warp by warp (an id may be `warp / 4 + 1`)."""
    found: dict[tuple[int, int], Barrier] = {}
    unknown_id: list[Event] = []
    unknown_count: dict[int, list[Event]] = {}
    for event in reached(roles, *NAMED):
        ids = event.values.get("id")
        if not isinstance(ids, Known):
            unknown_id.append(event)
            continue
        counts = event.values.get("threads")
        for number, reach in _parts(roles, event.reach, ids):
            if counts is None:
                sizes = [(roles.threads, reach)]
            elif isinstance(counts, Known):
                sizes = _parts(roles, reach, counts)
            else:
                unknown_count.setdefault(number, []).append(event)
                continue
            for count, part in sizes:
                if count == 0 and event.name != "bar.arrive.named":
                    count = roles.threads
                warps = frozenset(lanes_of(part.threads, roles.launch.warp_size))
                if warps:
                    found.setdefault((number, count), Barrier(number, count)).uses.append(Use(event, warps))
    return Named(
        tuple(found[key] for key in sorted(found)),
        tuple(unknown_id),
        {number: tuple(events) for number, events in sorted(unknown_count.items())},
    )


def _parts(roles: Roles, reach: Reach, value: Known) -> list[tuple[int, Reach]]:
    """The threads of a reach by the value that each of them has."""
    constant = value.constant
    if constant is not None:
        return [(constant, reach)]
    by_value: dict[int, int] = {}
    for thread in range(roles.threads):
        if reach.threads >> thread & 1:
            each = value.at(thread)
            by_value[each] = by_value.get(each, 0) | 1 << thread
    return [(each, Reach(part, reach.elected, reach.split, reach.varies)) for each, part in sorted(by_value.items())]
