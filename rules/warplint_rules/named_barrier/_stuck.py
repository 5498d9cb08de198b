"""Named barriers that an execution leaves with waiting warps and nobody who could still come."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from warplint.machine import Execution
from warplint.machine.outcome import BlockedRecord, NamedRecord, Outcome, Party
from warplint.memo import remembered
from warplint.source import Span
from warplint.threads.facts import warps_of
from warplint_rules._executed import established
from warplint_rules.named_barrier._ids import named


class Stuck(Struct, frozen=True):
    """One barrier with those that wait at it for ever."""

    outcome: Outcome
    record: NamedRecord
    blocked: tuple[BlockedRecord, ...]
    sites: tuple[Span, ...]
    """Places that name the barrier and where nobody is."""

    @property
    def who(self) -> Party:
        """The threads that wait, of the first CTA in which some do."""
        threads = 0
        for one in self.blocked:
            if one.who.cta == self.blocked[0].who.cta:
                threads |= one.who.threads
        return Party(self.blocked[0].who.cta, threads)


@remembered(8)
def stuck(execution: Execution) -> tuple[Stuck, ...]:
    """Each barrier once, from the first established execution that shows it."""
    found: dict[int, Stuck] = {}
    for outcome in filter(established, execution.outcomes):
        for one in _of(execution, outcome):
            found.setdefault(one.record.ident, one)
    return tuple(found.values())


def _of(execution: Execution, outcome: Outcome) -> Iterator[Stuck]:
    at: dict[object, list[BlockedRecord]] = {}
    for blocked in outcome.blocked:
        at.setdefault(blocked.target, []).append(blocked)
    size = execution.roles.launch.warp_size
    for target, here in at.items():
        record = outcome.named.get(target)
        if record is None or here[0].what != "named barrier":
            continue
        elsewhere: set[int] = set()
        for other in outcome.blocked:
            if other.target != target and other.who.cta == record.cta:
                elsewhere |= warps_of(other.who.threads, size).keys()
        known = named(execution.roles)
        uses = [use for barrier in known.barriers if barrier.id == record.ident for use in barrier.uses]
        if known.unknown_id or any(use.warps & elsewhere for use in uses):
            continue  # someone who waits elsewhere might come: they wait for each other
        spans = {blocked.span for blocked in here} | {came.span for came in record.came}
        sites = dict.fromkeys(use.event.op.span for use in uses if use.event.op.span not in spans)
        yield Stuck(outcome, record, tuple(here), tuple(sites))
