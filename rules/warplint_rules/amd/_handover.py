"""Accesses that reach another thread before the wave that made them has waited for their counter, in words."""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Location
from warplint.machine import Execution
from warplint.machine.footprint import Access, Counted
from warplint.machine.memory import Hazard, Order
from warplint.ops.counters import generation
from warplint.source import Span
from warplint.threads.facts import Roles
from warplint_rules._executed import hazards, place
from warplint_rules._say import location, spelled

_OLD = {"ds": "lgkmcnt", "load": "vmcnt", "async": "asynccnt", "tensor": "tensorcnt"}
_NEW = {**_OLD, "ds": "dscnt", "load": "loadcnt"}


def early(execution: Execution, how: str) -> Iterator[tuple[Hazard, Counted]]:
    """Each pair of places once: an access of a counter that is not over when another one of its bytes is made.

    `how` its waves waited before the barrier: `weak`, `other` or `fence` (only that), or "" for not at all.
    """
    for _, hazard in hazards(execution, lambda h: h.order is Order.INCOMPLETE and h.first.counted is not None):
        counted = hazard.first.counted
        if counted is not None and waited(counted) == how:
            yield hazard, counted


def waited(counted: Counted) -> str:
    """How the waves waited for an access that was not over: the strongest attempt."""
    kinds = {kind for _, kind in counted.waits}
    return next((kind for kind in ("weak", "other", "fence") if kind in kinds), "")


def attempt(counted: Counted, how: str) -> Span:
    """The last wait of that kind before the barrier."""
    return [span for span, kind in counted.waits if kind == how][-1]


def counter(roles: Roles, counted: Counted) -> str:
    """The counter's name on this target."""
    names = _NEW if generation(roles.launch.arch) >= 12 else _OLD
    return names[counted.counter]


def wait_text(roles: Roles, counted: Counted) -> str:
    """The instruction that waits for all of the counter."""
    name = counter(roles, counted)
    if generation(roles.launch.arch) >= 12 or counted.counter in ("async", "tensor"):
        return f"`s_wait_{name} 0`"
    return f"`s_waitcnt {name}(0)`"


def named_at(roles: Roles, span: Span, otherwise: str) -> str:
    """The operation at a span as the source spells it."""
    event = next((event for event in roles.events if event.op.span == span), None)
    return otherwise if event is None else spelled(event)


def places(execution: Execution, hazard: Hazard, *more: tuple[Span | None, str]) -> list[Location]:
    """Both accesses, and other places in words."""
    related = [place(execution, hazard.first, "the earlier access"), place(execution, hazard.second, "the later one")]
    return [*related, *(location(execution.roles, span, text) for span, text in more if span is not None)]


def deed(access: Access) -> str:
    """What an access does, as a noun: "the write", "the read", "the load into LDS"."""
    if access.what in ("ordinary store", "LDS write"):
        return "the write"
    if access.what in ("ordinary load", "LDS read"):
        return "the read"
    return f"the {access.what}"
