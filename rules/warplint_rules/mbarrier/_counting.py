"""Barriers whose own arithmetic is wrong: more arrivals than the count, fewer, bytes that do not add up."""

from __future__ import annotations

from collections.abc import Iterator

from warplint.machine import Execution
from warplint.machine.outcome import BarrierRecord, Outcome
from warplint_rules.mbarrier._cause import ARRIVALS, Cause, blocked_threads, record_of, sites_of, spans_of


def over_arrivals(outcome: Outcome) -> Iterator[Cause]:
    for record in outcome.barriers.values():
        for kind, arrival in record.faults:
            if kind == "over-arrival":
                yield Cause("mbarrier-arrival-count-mismatch", arrival.span, outcome, record, kind="over",
                            others=(record.init,), detail={"arrival": arrival})  # fmt: skip
                break


def count_causes(execution: Execution, outcome: Outcome) -> Iterator[Cause]:
    """Barriers whose own arithmetic is wrong."""
    for record in outcome.barriers.values():
        for span, (expected, read) in record.consumed.items():
            if read > expected:
                yield Cause("mbarrier-tx-bytes-mismatch", span, outcome, record, kind="read",
                            detail={"expected": expected, "read": read})  # fmt: skip
    for blocked in outcome.blocked:
        record = record_of(outcome, blocked)
        if record is None:
            continue
        if record.pending == 0 and record.tx:
            expecting = [a for a in record.current if a.expect]
            span = expecting[0].span if expecting else record.init
            copies = tuple(a.span for a in record.current if a.how == "copy")
            yield Cause("mbarrier-tx-bytes-mismatch", span, outcome, record, blocked, others=(*copies, blocked.span))
        elif execution.roles.launch.cluster is not None and (twin := _twin(outcome, record)):
            yield Cause("mbarrier-arrival-count-mismatch", record.init, outcome, record, blocked, "peer",
                        others=(*spans_of(twin.phases[0]), blocked.span), detail={"twin": twin})  # fmt: skip
        elif not record.phases and not record.current and not sites_of(execution.roles, record, ARRIVALS, True):
            yield Cause("mbarrier-arrival-count-mismatch", blocked.span, outcome, record, blocked, "nobody",
                        others=(record.init,))  # fmt: skip
        elif record.pending > 0 and _final(execution, outcome, record):
            got = sum(a.count for a in record.current)
            expects = [a for a in record.current if a.expect and not a.count]
            if expects and not got:
                yield Cause("mbarrier-arrival-count-mismatch", expects[0].span, outcome, record, blocked, "expect-only",
                            others=(record.init, blocked.span))  # fmt: skip
            elif got:
                yield Cause("mbarrier-arrival-count-mismatch", record.init, outcome, record, blocked, "under",
                            others=(*spans_of(record.current), blocked.span))  # fmt: skip


def _final(execution: Execution, outcome: Outcome, record: BarrierRecord) -> bool:
    """Nobody who is still there would arrive on the barrier before the wait is over: its count cannot be met.

    Earlier phases that did complete tell that the count is right; then something else keeps the arrivals away.
    """
    if record.phases:
        return False
    present = blocked_threads(outcome)
    made = {a.span for a in record.current}
    for event in sites_of(execution.roles, record, ARRIVALS):
        if event.op.span not in made and event.reach.threads & present.get(record.cta, 0):
            return False
        if event.op.span not in made and event.mod("remote"):
            return False
    return True


def _twin(outcome: Outcome, record: BarrierRecord) -> BarrierRecord | None:
    """The same barrier word of another CTA, which completed phases while nothing at all came to this one."""
    if record.phases or record.current:
        return None
    assert isinstance(record.key, tuple)
    for other in outcome.barriers.values():
        assert isinstance(other.key, tuple)
        if other.key[1:] == record.key[1:] and other.cta != record.cta and other.phases:
            return other
    return None
