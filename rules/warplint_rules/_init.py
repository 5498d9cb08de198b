"""Barrier uses that nothing orders after the init of the barrier, for the rules that report them."""

from __future__ import annotations

from msgspec import Struct

from warplint.memo import remembered
from warplint.threads.facts import Condition, Roles
from warplint_rules._order import CTA_BARRIERS, order_of
from warplint_rules._say import narrowing
from warplint_rules._words import Barriers, Site, barriers, exclusive, warps


class Unordered(Struct, frozen=True):
    """A local use, the threads of other warps that reach it with nothing that orders it after the init, the inits."""

    use: Site
    threads: int
    inits: tuple[Site, ...]
    late: Condition | None
    """The role branch in which the init stands behind the barrier that let the other roles go, if it does."""


@remembered(2)
def unordered(roles: Roles) -> tuple[Unordered, ...]:
    """All such uses in program order. Empty when threads may synchronise in ways that are not seen."""
    known = barriers(roles)
    order = order_of(roles)
    if not known.inits or known.blind or known.opaque or order.uncertain:
        return ()
    first_learns: dict[tuple[int, ...], dict[int, int]] = {}
    found = []
    for use in known.uses:
        if use.remote or not use.event.reach.exact:
            continue
        for threads, inits in _pairs(known, use):
            if not all(init.event.reach.exact for init in inits):
                continue
            key = tuple(id(init.event) for init in inits)
            if key not in first_learns:
                first_learns[key] = _learns(roles, inits)
            learns = first_learns[key]
            size = roles.launch.warp_size
            missed = 0
            for warp, lanes in warps(roles, threads).items():
                # -1: the warp is one of those that initialise, and is in program order with the init.
                if learns.get(warp, use.event.order) >= use.event.order:
                    missed |= lanes << warp * size
            if missed and not any(exclusive(init.event, use.event) for init in inits):
                found.append(Unordered(use, missed, tuple(inits), _late(roles, known, inits, use, missed)))
    return tuple(found)


def _pairs(known: Barriers, use: Site) -> list[tuple[int, list[Site]]]:
    """(threads of the use, the inits of what they name); every init of the symbol when the word is not known."""
    if use.symbol is None:
        return []
    if use.words is None or known.unknown_init(use.symbol):
        inits = known.inits_of(Site(use.event, use.symbol, None, use.remote))
        return [(use.threads, inits)] if inits else []
    pairs = []
    for word, threads in use.words:
        inits = [init for init in known.inits if init.words and any(w == word for w, _ in init.words)]
        if inits:
            pairs.append((threads, inits))
    return pairs


def _learns(roles: Roles, inits: list[Site]) -> dict[int, int]:
    """For each warp the order of the first operation by which it may learn of one of the inits; -1 for their own."""
    order = order_of(roles)
    learns: dict[int, int] = {}
    for init in inits:
        for warp in warps(roles, init.threads):
            learns[warp] = -1
            for other, at in order.after(init.event, warp).items():
                learns[other] = min(at, learns.get(other, at))
    return learns


def _late(roles: Roles, known: Barriers, inits: list[Site], use: Site, missed: int) -> Condition | None:
    """The init stands in a branch of one role, after a CTA barrier that the users of the word had passed before."""
    if any(init.event.order > use.event.order and init.event.loops for init in inits):
        return None
    first = min(inits, key=lambda init: init.event.order).event
    released = any(
        event.name in CTA_BARRIERS and event.order < first.order and event.reach.threads & missed == missed
        for event in roles.events
    )
    if not released:
        return None
    for guard in narrowing(first.guards):
        apart = guard.after.threads & missed == 0
        if apart and guard.after.threads.bit_count() >= roles.launch.warp_size and _is_role(known, guard):
            return guard
    return None


def _is_role(known: Barriers, guard: Condition) -> bool:
    """The branch holds hand-offs of its own, so it is a role and not just a guard around the init."""
    return any(
        other.stmt is guard.stmt and other.taken == guard.taken
        for site in known.uses
        for other in site.event.guards
        if other.stmt is not None
    )
