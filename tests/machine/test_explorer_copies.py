"""Random protocols with asynchronous copies, proxy fences and two CTAs, against every interleaving.

Copies land at any time after their issue in the oracle; the machine executes one order. What the oracle can break must
be reported, what is reported must be breakable.
"""

from __future__ import annotations

import os
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.machine.build import DATA, TID, Builder, bar, run
from tests.machine.explorer import Protocol, Step, explore
from tests.machine.test_explorer import LANES, late, over
from warplint.machine.memory import Order
from warplint.machine.outcome import Outcome
from warplint.program import ir

LIMIT = 30_000
EXAMPLES = int(os.environ.get("WARPLINT_EXAMPLES", "40"))
"""Protocols of each kind; a few thousand are run by hand after changes of the machine."""
BYTES = 16
GENERIC, FILLED, COPIED = (0, 1), (2, 3), (4,)
"""Words that ordinary stores write, that bulk loads fill, that cp.async fills: what writes a word decides its proxy."""
FENCES = {Order.NO_FENCE, Order.LATE_FENCE, Order.ISSUER_FENCE}
RACES = {Order.UNJOINED, Order.INCOMPLETE, Order.SAME_WARP}


def word(index: int) -> ir.Expr:
    return ir.Address(DATA, ir.Const(BYTES * index))


def program(protocol: Protocol, ctas: int = 1) -> list[ir.Stmt]:
    """Lane 0 of each warp runs its steps. With two CTAs, warps, words and barriers of odd number belong to CTA 1."""
    b = Builder()
    inits = [b.op("mbarrier.init", barrier=bar(i), count=count) for i, count in enumerate(protocol.counts)]
    first = ir.Binary("==", TID, ir.Const(0))
    body: list[ir.Stmt] = [b.when(first, *inits)]
    meet = ("barrier.cluster.arrive", "barrier.cluster.wait") if ctas > 1 else ("bar.sync.cta",)
    body += [b.op(name) for name in meet]
    for warp, steps in enumerate(protocol.warps):
        mine = ir.Binary("==", TID, ir.Const(warp // ctas * LANES))
        if ctas > 1:
            rank = ir.Binary("==", ir.Special("cluster_ctarank"), ir.Const(warp % ctas))
            mine = ir.Binary("&&", mine, rank)
        body.append(b.when(mine, *(statement(b, step, ctas) for step in steps)))
    return [*body, *(b.op(name) for name in meet if ctas > 1)]


def statement(b: Builder, step: Step, ctas: int) -> ir.Stmt:
    peer: Any = {"cta": step.object % ctas} if ctas > 1 else {}
    match step.kind:
        case "arrive" if step.bytes:
            return b.op("mbarrier.arrive.expect_tx", barrier=bar(step.object), bytes=step.bytes, **peer)
        case "arrive":
            return b.op("mbarrier.arrive", barrier=bar(step.object), **peer)
        case "expect":
            return b.op("mbarrier.expect_tx", barrier=bar(step.object), bytes=step.bytes, **peer)
        case "wait":
            return b.op("mbarrier.try_wait", mods={"blocking": True}, barrier=bar(step.object), parity=step.parity)
        case "sync":
            return b.op("barrier.nonaligned", id=step.object + 1, threads=step.count * LANES)
        case "load":
            return b.op("cp.async.bulk.g2s", dst=word(step.object), bytes=step.bytes, barrier=bar(step.barrier))
        case "store":
            return b.op("cp.async.bulk.s2g", src=word(step.object), bytes=BYTES)
        case "cp":
            return b.op("cp.async", dst=word(step.object), bytes=BYTES)
        case "commit":
            return b.op(("cp.async.commit_group", "cp.async.bulk.commit_group")[step.object])
        case "drain":
            mods = {"read": True} if step.object else {}
            return b.op(("cp.async.wait_group", "cp.async.bulk.wait_group")[step.object], mods=mods, group=step.count)
        case "fence":
            return b.op("fence.proxy.async")
        case "write":
            return b.store(ir.Const(BYTES * step.object))
        case _:
            return b.read(ir.Const(BYTES * step.object))


def unfinished(outcome: Outcome) -> bool:
    """Bytes that never balanced: a copy may have landed in another phase than the one that expects it."""
    return any(record.tx or record.unexpected for record in outcome.barriers.values())


def agree(protocol: Protocol, ctas: int = 1) -> None:
    verdict = explore(protocol, LIMIT)
    if verdict.states >= LIMIT:
        return
    outcome = run(program(protocol, ctas), threads=LANES * -(-len(protocol.warps) // ctas), ctas=ctas)
    assert not outcome.incomplete
    loose = late(outcome) or unfinished(outcome)
    wrong = bool(outcome.blocked) or over(outcome) or bool(outcome.faults)
    if verdict.blocks or verdict.over_arrives:
        assert wrong or loose, "some interleaving blocks or arrives too often, and the machine says nothing"
    elif not loose:
        assert not outcome.blocked
        assert not over(outcome)
    if loose or wrong:
        return
    orders = {hazard.order for hazard in outcome.hazards}
    assert bool(orders & RACES) == verdict.races
    if not verdict.races:
        assert bool(orders & FENCES) == verdict.unfenced


# ---------------------------------------------------------------------------------------------- protocols
def transfers(barriers: int) -> st.SearchStrategy[Step]:
    index = st.integers(0, barriers - 1)
    size = st.sampled_from([BYTES, BYTES, 2 * BYTES])
    return st.one_of(
        st.builds(Step, st.just("arrive"), index, st.just(0), st.just(0), st.sampled_from([0, 0, BYTES, BYTES])),
        st.builds(Step, st.just("expect"), index, st.just(0), st.just(0), size),
        st.builds(Step, st.just("load"), st.sampled_from(FILLED), st.just(0), st.just(0), st.just(BYTES), index),
        st.builds(Step, st.just("wait"), index, st.integers(0, 1)),
        st.builds(Step, st.just("wait"), index, st.just(0)),
        st.builds(Step, st.just("read"), st.sampled_from(FILLED)),
    )


def grouped() -> st.SearchStrategy[Step]:
    return st.one_of(
        st.builds(Step, st.just("cp"), st.sampled_from(COPIED)),
        st.builds(Step, st.just("store"), st.sampled_from(GENERIC)),
        st.builds(Step, st.just("commit"), st.integers(0, 1)),
        st.builds(Step, st.just("drain"), st.integers(0, 1), st.just(0), st.integers(0, 1)),
        st.builds(Step, st.just("read"), st.sampled_from((*GENERIC, *COPIED))),
        st.builds(Step, st.just("write"), st.sampled_from(GENERIC)),
        st.just(Step("fence", 0)),
        st.just(Step("sync", 0)),
        st.just(Step("sync", 0)),
    )


@st.composite
def transactions(draw: st.DrawFn) -> Protocol:
    barriers = draw(st.integers(1, 2))
    counts = tuple(draw(st.integers(1, 2)) for _ in range(barriers))
    bodies = [draw(st.lists(transfers(barriers), max_size=5)) for _ in range(draw(st.integers(1, 3)))]
    return Protocol(tuple(map(tuple, bodies)), counts)


@st.composite
def groups(draw: st.DrawFn) -> Protocol:
    warps = draw(st.integers(1, 3))
    bodies = []
    for _ in range(warps):
        body = draw(st.lists(grouped(), max_size=6))
        bodies.append(tuple(Step("sync", 0, 0, warps) if s.kind == "sync" and warps > 1 else s for s in body
                            if s.kind != "sync" or warps > 1))  # fmt: skip
    return Protocol(tuple(bodies), ())


@st.composite
def pipelines(draw: st.DrawFn) -> Protocol:
    """A ring of slots filled by bulk loads, each end with one possible fault."""
    depth = draw(st.integers(1, 3))
    turns = draw(st.integers(1, 4))
    fault = draw(st.sampled_from(
        ["", "", "", "no full wait", "no empty wait", "full parity", "empty parity", "half", "double", "no expect",
         "no arrive", "early release", "one turn less", "one turn more", "phase kept", "late expect", "no release",
         "expect only"]
    ))  # fmt: skip
    at = draw(st.integers(0, turns - 1))
    producer: list[Step] = []
    consumer: list[Step] = []
    for i in range(turns - (fault == "one turn less")):
        slot, phase = i % depth, (0 if fault == "phase kept" else i // depth & 1)
        here = fault if i == at or "parity" in fault else ""
        full, empty, target = slot, depth + slot, FILLED[0] + slot
        expected = {"half": BYTES // 2, "double": 2 * BYTES, "no expect": 0}.get(here, BYTES)
        expect = [] if here == "no arrive" else [Step("arrive", full, bytes=expected)]
        expect = [Step("expect", full, bytes=expected)] if here == "expect only" else expect
        load = [Step("load", target, bytes=BYTES, barrier=full)]
        if here != "no empty wait":
            producer.append(Step("wait", empty, phase ^ (here != "empty parity")))
        producer += [*load, *expect] if here == "late expect" else [*expect, *load]
    for i in range(turns + (fault == "one turn more")):
        slot, phase = i % depth, i // depth & 1
        here = fault if i == at or "parity" in fault else ""
        full, empty, target = slot, depth + slot, FILLED[0] + slot
        if here != "no full wait":
            consumer.append(Step("wait", full, phase ^ (here == "full parity")))
        use, release = Step("read", target), Step("arrive", empty)
        consumer += [release, use] if here == "early release" else [use] if here == "no release" else [use, release]
    return Protocol((tuple(producer), tuple(consumer)), (1,) * (2 * depth))


@st.composite
def pairs(draw: st.DrawFn) -> Protocol:
    """Two or four warps in two CTAs: arrivals and expectations go anywhere, waits and accesses stay at home."""
    warps = draw(st.sampled_from([2, 2, 4]))
    barriers = draw(st.sampled_from([2, 4]))
    bodies = []
    for warp in range(warps):
        home = [index for index in range(barriers) if index % 2 == warp % 2]
        body = draw(st.lists(st.one_of(
            st.builds(Step, st.just("arrive"), st.integers(0, barriers - 1)),
            st.builds(Step, st.just("arrive"), st.integers(0, barriers - 1)),
            st.builds(Step, st.just("wait"), st.sampled_from(home), st.integers(0, 1)),
            st.builds(Step, st.just("wait"), st.sampled_from(home), st.just(0)),
            st.builds(Step, st.sampled_from(["read", "write"]), st.just(warp % 2)),
        ), max_size=5))  # fmt: skip
        bodies.append(tuple(body))
    return Protocol(tuple(bodies), tuple(draw(st.integers(1, 2)) for _ in range(barriers)))


def test_a_copy_that_lands_before_it_is_expected() -> None:
    """16 bytes too many keep the phase open that the plain arrive is to complete."""
    load = Step("load", FILLED[0], bytes=BYTES, barrier=0)
    body = (load, Step("arrive", 0), Step("wait", 0, 0), Step("expect", 0, bytes=BYTES))
    agree(Protocol((body,), (1,)))
    agree(Protocol(((load, Step("arrive", 0, bytes=BYTES), Step("wait", 0, 0)),), (1,)))


@settings(max_examples=EXAMPLES, deadline=None)
@given(transactions())
def test_random_transactions(protocol: Protocol) -> None:
    agree(protocol)


@settings(max_examples=EXAMPLES, deadline=None)
@given(groups())
def test_random_groups_and_proxy_fences(protocol: Protocol) -> None:
    agree(protocol)


@settings(max_examples=EXAMPLES, deadline=None)
@given(pipelines())
def test_pipelines_with_one_fault(protocol: Protocol) -> None:
    agree(protocol)


@settings(max_examples=EXAMPLES, deadline=None)
@given(pairs())
def test_random_pairs_of_ctas(protocol: Protocol) -> None:
    agree(protocol, ctas=2)
