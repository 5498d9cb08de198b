"""Protocols executed by the machine: paired programs, one right and one with a single fault."""

from __future__ import annotations

from tests.machine.build import BARS, TID, Builder, bar, below, run
from warplint.machine.memory import Order
from warplint.program import ir

TIMES4 = ir.Binary("*", TID, ir.Const(4))
MIRROR = ir.Binary("-", ir.Const(252), ir.Binary("*", TID, ir.Const(4)))


def orders(outcome) -> list[Order]:
    return [hazard.order for hazard in outcome.hazards]


def test_cta_barrier_orders_a_store_before_a_load() -> None:
    b = Builder()
    outcome = run([b.store(TIMES4), b.op("bar.sync.cta"), b.read(MIRROR)])
    assert not outcome.hazards
    assert not outcome.blocked


def test_without_the_barrier_the_load_races() -> None:
    b = Builder()
    assert orders(run([b.store(TIMES4), b.read(MIRROR)])) == [Order.UNJOINED]


def test_own_words_need_no_barrier() -> None:
    b = Builder()
    assert not run([b.store(TIMES4), b.read(TIMES4)]).hazards


def test_lanes_of_one_warp_need_a_syncwarp() -> None:
    b = Builder()
    neighbour = ir.Binary("^", TIMES4, ir.Const(4))
    assert orders(run([b.store(TIMES4), b.read(neighbour)])) == [Order.SAME_WARP]
    b = Builder()
    assert not run([b.store(TIMES4), b.op("bar.warp.sync"), b.read(neighbour)]).hazards


def test_syncwarp_does_not_join_warps() -> None:
    b = Builder()
    assert orders(run([b.store(TIMES4), b.op("bar.warp.sync"), b.read(MIRROR)])) == [Order.UNJOINED]


def handover(b: Builder, count: int, *, wait: bool = True) -> list[ir.Stmt]:
    """Warp 0 writes and arrives; warp 1 waits and reads."""
    init = b.when(ir.Binary("==", TID, ir.Const(0)), b.op("mbarrier.init", barrier=bar(0), count=count))
    consumer = [b.op("mbarrier.try_wait", mods={"blocking": True}, barrier=bar(0), parity=0)] if wait else []
    role = b.when(
        below(32),
        b.store(TIMES4),
        b.op("mbarrier.arrive", barrier=bar(0)),
        orelse=(*consumer, b.read(ir.Binary("-", TIMES4, ir.Const(128)))),
    )
    return [init, b.op("bar.sync.cta"), role]


def test_arrivals_of_all_writers_hand_over() -> None:
    outcome = run(handover(Builder(), 32))
    assert not outcome.blocked
    assert not outcome.hazards
    assert not outcome.faults


def test_too_high_a_count_blocks_the_waiter() -> None:
    outcome = run(handover(Builder(), 33))
    assert [record.what for record in outcome.blocked] == ["mbarrier"]
    (record,) = outcome.barriers.values()
    assert record.pending == 1
    assert sum(a.count for a in record.current) == 32


def test_over_arrival_is_recorded() -> None:
    outcome = run(handover(Builder(), 31))
    (record,) = outcome.barriers.values()
    assert [kind for kind, _ in record.faults] == ["over-arrival"]


def test_reading_without_the_wait_races() -> None:
    outcome = run(handover(Builder(), 32, wait=False))
    assert Order.UNJOINED in orders(outcome)


def ring(b: Builder, produced: int, consumed: int, producer_phase: int = 1) -> list[ir.Stmt]:
    """A ring of two stages: full barriers 0 and 1, empty barriers 2 and 3; one thread fills, one warp consumes."""
    i, j = ir.Symbol("i", "local"), ir.Symbol("j", "local")

    def stage(symbol: ir.Symbol) -> ir.Expr:
        return ir.Binary("%", ir.Var(symbol), ir.Const(2))

    def phase(symbol: ir.Symbol) -> ir.Expr:
        return ir.Binary("&", ir.Binary("/", ir.Var(symbol), ir.Const(2)), ir.Const(1))

    inits = [b.op("mbarrier.init", barrier=bar(s), count=1 if s < 2 else 32) for s in range(4)]
    blocking = {"blocking": True}
    where = ir.Binary("*", stage(i), ir.Const(1024))
    producer = b.repeat(
        i,
        produced,
        b.op("mbarrier.try_wait", mods=blocking, barrier=bar(ir.Binary("+", stage(i), ir.Const(2))),
             parity=ir.Binary("^", phase(i), ir.Const(producer_phase))),
        b.op("mbarrier.arrive.expect_tx", barrier=bar(stage(i)), bytes=1024),
        b.op("cp.async.bulk.g2s", barrier=bar(stage(i)), bytes=1024, dst=ir.Address(BARS, ir.Binary("+", where,
        ir.Const(4096)))),
    )  # fmt: skip
    consumer = b.repeat(
        j,
        consumed,
        b.op("mbarrier.try_wait", mods=blocking, barrier=bar(stage(j)), parity=phase(j)),
        b.op("mbarrier.arrive", barrier=bar(ir.Binary("+", stage(j), ir.Const(2)))),
    )
    return [
        b.when(ir.Binary("==", TID, ir.Const(0)), *inits),
        b.op("bar.sync.cta"),
        b.when(below(32), *consumer, orelse=(b.when(ir.Binary("==", TID, ir.Const(32)), *producer),)),
    ]


def test_a_ring_runs_through() -> None:
    outcome = run(ring(Builder(), 9, 9))
    assert not outcome.blocked
    assert not outcome.hazards
    assert all(record.pending != 0 for record in outcome.barriers.values())


def test_a_consumer_that_runs_longer_blocks() -> None:
    outcome = run(ring(Builder(), 8, 9))
    assert len(outcome.blocked) == 1


def test_a_producer_that_starts_in_phase_zero_blocks_both_ends() -> None:
    outcome = run(ring(Builder(), 8, 8, producer_phase=0))
    assert len(outcome.blocked) == 2


def test_store_needs_a_proxy_fence_before_a_bulk_store() -> None:
    def program(fence: str) -> list[ir.Stmt]:
        b = Builder()
        issue = b.when(
            ir.Binary("==", TID, ir.Const(0)),
            *([b.op("fence.proxy.async")] if fence == "issuer" else []),
            b.op("cp.async.bulk.s2g", src=ir.Address(BARS, ir.Const(0)), bytes=256),
        )
        body: list[ir.Stmt] = [
            ir.Store(b.span(), ir.Deferred(lambda: ir.Address(BARS, TIMES4)), ir.Deferred(lambda: ir.Const(0)), 4)
        ]
        if fence == "writer":
            body.append(b.op("fence.proxy.async"))
        body.append(b.op("bar.sync.cta"))
        if fence == "late":
            body.append(b.op("fence.proxy.async"))
        return [*body, issue]

    assert not run(program("writer")).hazards
    assert set(orders(run(program("none")))) == {Order.NO_FENCE}
    assert set(orders(run(program("late")))) & {Order.LATE_FENCE, Order.ISSUER_FENCE}
    assert set(orders(run(program("issuer")))) == {Order.ISSUER_FENCE}


def test_named_barrier_with_missing_warps_blocks() -> None:
    b = Builder()
    half = b.when(below(32), b.op("bar.sync.named", id=1, threads=64))
    assert [record.what for record in run([half]).blocked] == ["named barrier"]
    b = Builder()
    both = b.when(
        below(32), b.op("bar.arrive.named", id=1, threads=64), orelse=(b.op("bar.sync.named", id=1, threads=64),)
    )
    assert not run([both]).blocked
