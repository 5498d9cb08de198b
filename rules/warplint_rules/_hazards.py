"""Grouping of hazards for the rules about asynchronous copies and tensor memory: one fault, one finding."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from warplint.machine import Execution
from warplint.machine.memory import Access, Hazard, Order
from warplint.machine.outcome import Fault, LeftOver
from warplint.source import Span
from warplint.threads.facts import Event, Roles
from warplint_rules._executed import established, hazards
from warplint_rules._say import reached, sites

STORES = frozenset({"TMA store", "bulk store", "bulk reduction", "TMA reduction"})
"""Copies out of shared memory, as `Access.what` calls them."""


def grouped(execution: Execution, wanted: Callable[[Hazard], bool]) -> Iterator[tuple[Access, list[Hazard]]]:
    """The wanted hazards by the place of their earlier access: what it conflicts with is one fault."""
    groups: dict[Span, list[Hazard]] = {}
    for _, hazard in hazards(execution, wanted):
        groups.setdefault(hazard.first.span, []).append(hazard)
    for found in groups.values():
        yield found[0].first, found


def leftovers(execution: Execution, kind: str) -> Iterator[LeftOver]:
    """What some execution left unfinished, each place once."""
    seen: set[Span] = set()
    for outcome in filter(established, execution.outcomes):
        for left in outcome.leftovers:
            if left.kind == kind and left.span not in seen:
                seen.add(left.span)
                yield left


def faults(execution: Execution, kind: str) -> Iterator[Fault]:
    """The faults of one kind, each place once."""
    seen: set[Span] = set()
    for outcome in filter(established, execution.outcomes):
        for fault in outcome.faults:
            if fault.kind == kind and fault.span not in seen:
                seen.add(fault.span)
                yield fault


def pending_copy(hazard: Hazard) -> bool:
    """A `cp.async` whose completion nobody has waited for."""
    return hazard.order is Order.INCOMPLETE and hazard.first.what == "cp.async"


def loose_waits(roles: Roles, copy: Access) -> list[Event]:
    """The waits of the copying threads that may leave groups pending."""
    waits = sites(reached(roles, "cp.async.wait_group"))
    return [wait for wait in waits if wait.reach.threads & copy.threads and wait.constant("group")]
