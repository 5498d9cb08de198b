"""Random protocols: what some interleaving can break, the machine reports; what none can, it does not."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.machine.build import TID, Builder, bar, run
from tests.machine.explorer import Protocol, Step, explore
from warplint.machine.outcome import Outcome
from warplint.program import ir

LANES = 32


def program(protocol: Protocol) -> list[ir.Stmt]:
    """The protocol as a kernel: lane 0 of each warp runs its steps, except that whole warps meet at named barriers."""
    b = Builder()
    inits = [b.op("mbarrier.init", barrier=bar(i), count=count) for i, count in enumerate(protocol.counts)]
    body: list[ir.Stmt] = [b.when(ir.Binary("==", TID, ir.Const(0)), *inits), b.op("bar.sync.cta")]
    for warp, steps in enumerate(protocol.warps):
        mine = ir.Binary("==", TID, ir.Const(warp * LANES))
        body.append(b.when(mine, *(_statement(b, step) for step in steps)))
    return body


def _statement(b: Builder, step: Step) -> ir.Stmt:
    if step.kind == "arrive":
        return b.op("mbarrier.arrive", barrier=bar(step.object))
    if step.kind == "wait":
        return b.op("mbarrier.try_wait", mods={"blocking": True}, barrier=bar(step.object), parity=step.parity)
    if step.kind == "sync":
        return b.op("barrier.nonaligned", id=step.object + 1, threads=step.count * LANES)
    if step.kind == "write":
        return b.store(ir.Const(4 * step.object))
    return b.read(ir.Const(4 * step.object))


def late(outcome: Outcome) -> bool:
    return any(record.racing or any(wait.late for wait in record.waits) for record in outcome.barriers.values())


def over(outcome: Outcome) -> bool:
    return any(record.faults for record in outcome.barriers.values())


def steps(barriers: int, warps: int) -> st.SearchStrategy[Step]:
    return st.one_of(
        st.builds(Step, st.just("arrive"), st.integers(0, barriers - 1)),
        st.builds(Step, st.just("arrive"), st.integers(0, barriers - 1)),
        st.builds(Step, st.just("wait"), st.integers(0, barriers - 1), st.integers(0, 1)),
        st.builds(Step, st.just("wait"), st.integers(0, barriers - 1), st.integers(0, 1)),
        st.builds(Step, st.just("sync"), st.integers(0, 1), st.just(0), st.integers(2, warps)),
        st.builds(Step, st.sampled_from(["read", "write"]), st.integers(0, 1)),
    )


@st.composite
def protocols(draw: st.DrawFn) -> Protocol:
    warps = draw(st.integers(2, 4))
    barriers = draw(st.integers(1, 3))
    counts = tuple(draw(st.integers(1, 2)) for _ in range(barriers))
    bodies = []
    named: dict[int, int] = {}
    for _ in range(warps):
        body: list[Step] = []
        for step in draw(st.lists(steps(barriers, warps), max_size=5)):
            if step.kind == "sync":
                # One id has one count: two counts are a fault of their own, tested elsewhere.
                step = Step("sync", step.object, 0, named.setdefault(step.object, step.count))
            body.append(step)
        bodies.append(tuple(body * draw(st.integers(1, 2))) if len(body) <= 3 else tuple(body))
    return Protocol(tuple(bodies), counts)


@st.composite
def rings(draw: st.DrawFn) -> Protocol:
    """Producer and consumer over a ring of slots, with trip counts and first parities that may be wrong."""
    depth = draw(st.integers(1, 2))
    produced, consumed = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    first = draw(st.sampled_from([1, 1, 1, 0]))
    full_first = draw(st.sampled_from([0, 0, 0, 1]))
    skip = draw(st.sampled_from(["", "", "", "full", "empty"]))
    producer: list[Step] = []
    for i in range(produced):
        slot, phase = i % depth, i // depth & 1
        if skip != "empty":
            producer.append(Step("wait", depth + slot, phase ^ first))
        producer += [Step("write", slot), Step("arrive", slot)]
    consumer: list[Step] = []
    for i in range(consumed):
        slot, phase = i % depth, i // depth & 1
        if skip != "full":
            consumer.append(Step("wait", slot, phase ^ full_first))
        consumer += [Step("read", slot), Step("arrive", depth + slot)]
    return Protocol((tuple(producer), tuple(consumer)), (1,) * (2 * depth))


def agree(protocol: Protocol) -> None:
    verdict = explore(protocol)
    if verdict.states >= 60_000:
        return
    outcome = run(program(protocol), threads=LANES * len(protocol.warps))
    assert not outcome.incomplete
    reported = bool(outcome.blocked) or over(outcome) or late(outcome) or bool(outcome.faults)
    if verdict.blocks or verdict.over_arrives:
        assert reported, "some interleaving blocks or arrives too often, and the machine says nothing"
    elif not late(outcome):
        assert not outcome.blocked
        assert not over(outcome)
    if not late(outcome) and not over(outcome) and not outcome.faults:
        assert bool(outcome.hazards) == verdict.races


@settings(max_examples=250, deadline=None)
@given(protocols())
def test_random_protocols(protocol: Protocol) -> None:
    agree(protocol)


@settings(max_examples=150, deadline=None)
@given(rings())
def test_rings(protocol: Protocol) -> None:
    agree(protocol)
