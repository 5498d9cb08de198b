"""Where a missing barrier belongs."""

from __future__ import annotations

from warplint.finding import Location
from warplint.source import Span
from warplint.threads.facts import Event, Roles
from warplint_rules._say import location, narrowing

_FENCES = ("fence.mbarrier_init.release.cluster", "fence.proxy.async", "fence.acq_rel.cluster")


def belongs_behind(roles: Roles, event: Event, before: float, message: str) -> Location:
    """The place behind which all can meet after an event: its last fence before `before`, or the end of its branch."""
    mine = event.reach.threads
    last = None
    for fence in roles.of(*_FENCES):
        if event.order < fence.order < before and fence.reach.threads & mine and not fence.loops:
            last = fence
    if last is not None:
        return location(roles, last.op.span, message)
    branches = [guard.stmt for guard in narrowing(event.guards) if guard.stmt is not None and guard.kind == "if"]
    span = branches[0].span if branches else event.op.span
    return location(roles, Span(max(span.start, span.end - 1), span.end), message)
