"""Facts of an outcome, in pairs: the program that shows one, and its twin that does not."""

from __future__ import annotations

from tests.machine.build import BARS, TID, Builder, bar, below, run
from warplint.machine.memory import Order
from warplint.machine.outcome import Outcome
from warplint.program import ir

WARP0 = below(32)
LEADER = ir.Binary("==", TID, ir.Const(0))
BLOCKING = {"blocking": True}


def kinds(outcome: Outcome) -> set[str]:
    return {fault.kind for fault in outcome.faults}


def orders(outcome: Outcome) -> set[Order]:
    return {hazard.order for hazard in outcome.hazards}


def lefts(outcome: Outcome) -> set[str]:
    return {left.kind for left in outcome.leftovers}


def initialised(b: Builder, *counts: int) -> list[ir.Stmt]:
    inits = [b.op("mbarrier.init", barrier=bar(index), count=count) for index, count in enumerate(counts)]
    return [b.when(LEADER, *inits), b.op("bar.sync.cta")]


def test_an_arrival_that_nothing_orders_after_the_phase_before_is_racing() -> None:
    def program(wait: bool) -> list[ir.Stmt]:
        b = Builder()
        second = [b.op("mbarrier.arrive", barrier=bar(0))]
        if wait:
            second.insert(0, b.op("mbarrier.try_wait", mods=BLOCKING, barrier=bar(0), parity=0))
        other = ir.Binary("==", TID, ir.Const(32))
        return [*initialised(b, 1), b.when(LEADER, b.op("mbarrier.arrive", barrier=bar(0))), b.when(other, *second)]

    (record,) = run(program(wait=False)).barriers.values()
    assert [arrival.threads for arrival in record.racing] == [1 << 32]
    (record,) = run(program(wait=True)).barriers.values()
    assert not record.racing


def test_a_waiter_that_may_see_two_flips_is_late() -> None:
    def program(answer: bool) -> list[ir.Stmt]:
        b = Builder()
        other = ir.Binary("==", TID, ir.Const(32))
        waiter = [b.op("mbarrier.try_wait", mods=BLOCKING, barrier=bar(0), parity=0)]
        maker = [b.op("mbarrier.arrive", barrier=bar(0))]
        if answer:
            waiter.append(b.op("mbarrier.arrive", barrier=bar(1)))
            maker.append(b.op("mbarrier.try_wait", mods=BLOCKING, barrier=bar(1), parity=0))
        maker.append(b.op("mbarrier.arrive", barrier=bar(0)))
        return [*initialised(b, 1, 1), b.when(LEADER, *maker), b.when(other, *waiter)]

    def late(outcome: Outcome) -> bool:
        return any(wait.late for record in outcome.barriers.values() for wait in record.waits)

    assert late(run(program(answer=False)))
    assert not late(run(program(answer=True)))


def tensor(before: bool, after: bool, waited: bool = True) -> list[ir.Stmt]:
    """Warp 0 loads columns, hands over, and warp 1 has an MMA write them."""
    b = Builder()
    alloc = b.when(WARP0, b.op("tcgen05.alloc", slot=ir.Address(BARS, ir.Const(120)), columns=32))
    load: list[ir.Stmt] = [b.op("tcgen05.ld", mods={"shape": "32x32b", "num": "32"}, address=0)]
    if waited:
        load.append(b.op("tcgen05.wait", mods={"kind": "ld"}))
    if before:
        load.append(b.op("tcgen05.fence.before_thread_sync"))
    load.append(b.op("mbarrier.arrive", barrier=bar(0)))
    multiply: list[ir.Stmt] = [b.op("mbarrier.try_wait", mods=BLOCKING, barrier=bar(0), parity=0)]
    if after:
        multiply.append(b.op("tcgen05.fence.after_thread_sync"))
    multiply.append(b.op("tcgen05.mma", address=0, accumulate=0, idesc=(128 // 16 << 24) | (32 // 8 << 17)))
    role = b.when(WARP0, *load, orelse=(b.when(ir.Binary("==", TID, ir.Const(32)), *multiply),))
    return [*initialised(b, 32), alloc, b.op("bar.sync.cta"), role]


def test_tensor_memory_needs_both_fences_and_the_wait() -> None:
    assert not orders(run(tensor(before=True, after=True)))
    assert orders(run(tensor(before=False, after=True))) == {Order.NO_BEFORE_FENCE}
    assert orders(run(tensor(before=True, after=False))) == {Order.NO_AFTER_FENCE}
    assert orders(run(tensor(before=True, after=True, waited=False))) == {Order.INCOMPLETE}


def test_columns_that_are_never_freed_are_left_over() -> None:
    def program(columns: int) -> list[ir.Stmt]:
        b = Builder()
        body: list[ir.Stmt] = [b.op("tcgen05.alloc", slot=ir.Address(BARS, ir.Const(120)), columns=64)]
        if columns:
            body.append(b.op("tcgen05.dealloc", address=0, columns=columns))
        return [b.when(WARP0, *body)]

    assert lefts(run(program(0))) == {"tmem"}
    assert kinds(run(program(32))) == {"tmem-columns-differ"}
    assert not lefts(run(program(64)))


def test_accumulating_on_columns_that_nothing_wrote() -> None:
    def program(accumulate: int) -> list[ir.Stmt]:
        b = Builder()
        return [
            b.when(WARP0, b.op("tcgen05.alloc", slot=ir.Address(BARS, ir.Const(120)), columns=32)),
            b.when(LEADER, b.op("tcgen05.mma", address=0, accumulate=accumulate)),
        ]

    assert "accumulates-uninitialised" in kinds(run(program(1)))
    assert "accumulates-uninitialised" not in kinds(run(program(0)))


def test_bulk_groups_left_at_exit() -> None:
    def program(commit: bool, wait: bool) -> list[ir.Stmt]:
        b = Builder()
        body: list[ir.Stmt] = [b.op("cp.async.bulk.s2g", src=ir.Address(BARS, ir.Const(0)), bytes=64)]
        if commit:
            body.append(b.op("cp.async.bulk.commit_group"))
        if wait:
            body.append(b.op("cp.async.bulk.wait_group", group=0))
        return [b.when(LEADER, *body)]

    assert lefts(run(program(commit=False, wait=True))) == {"uncommitted-bulk"}
    assert lefts(run(program(commit=True, wait=False))) == {"bulk-group"}
    assert not lefts(run(program(commit=True, wait=True)))


def test_a_phase_with_bytes_that_nobody_waits_for() -> None:
    def program(wait: bool) -> list[ir.Stmt]:
        b = Builder()
        body: list[ir.Stmt] = [
            b.op("mbarrier.arrive.expect_tx", barrier=bar(0), bytes=64),
            b.op("cp.async.bulk.g2s", dst=ir.Address(BARS, ir.Const(64)), bytes=64, barrier=bar(0)),
        ]
        if wait:
            body.append(b.op("mbarrier.try_wait", mods=BLOCKING, barrier=bar(0), parity=0))
        return [*initialised(b, 1), b.when(LEADER, *body)]

    assert lefts(run(program(wait=False))) == {"transaction-phase"}
    assert not lefts(run(program(wait=True)))


def test_a_copy_issued_by_many_lanes() -> None:
    def program(guard: ir.Expr, count: int) -> list[ir.Stmt]:
        b = Builder()
        copy = b.op("cp.async.bulk.g2s", dst=ir.Address(BARS, ir.Const(64)), bytes=64, barrier=bar(0))
        return [*initialised(b, count), b.when(guard, copy)]

    assert "copied-by-many" in kinds(run(program(WARP0, 1)))
    assert "copied-by-many" not in kinds(run(program(LEADER, 1)))


def test_a_shuffle_by_half_a_warp_hangs_only_while_the_rest_lives() -> None:
    def program(leave: bool) -> list[ir.Stmt]:
        b = Builder()
        half = below(16)
        shuffle = b.op("bar.warp.sync", mask=0xFFFFFFFF)
        rest: tuple[ir.Stmt, ...] = (ir.Exit(b.span()),) if leave else (b.op("bar.sync.cta"),)
        return [b.when(half, shuffle, orelse=rest), b.op("bar.sync.cta")]

    assert "warp" in {record.what for record in run(program(leave=False), threads=32).blocked}
    assert not run(program(leave=True), threads=32).blocked


def test_lanes_that_lag_are_awaited_by_the_next_election() -> None:
    b = Builder()
    inner = b.when(LEADER, b.op("mbarrier.try_wait", mods=BLOCKING, barrier=bar(0), parity=0))
    elect = b.op("elect.sync", mask=0xFFFFFFFF)
    arrive = b.when(ir.Binary("==", TID, ir.Const(32)), b.op("mbarrier.arrive", barrier=bar(0)))
    chosen = b.when(ir.OpValue(elect.op, "value"), b.op("mbarrier.arrive", barrier=bar(1)))
    outcome = run([*initialised(b, 1, 1), b.when(WARP0, inner, elect, chosen, orelse=(arrive,))])
    assert not outcome.blocked
    assert [len(record.phases) for record in outcome.barriers.values()] == [1, 1], "one lane is elected, once"


def test_init_must_be_ordered_before_its_use_by_a_peer() -> None:
    def program(sem: str, fence: bool) -> list[ir.Stmt]:
        b = Builder()
        init = [b.op("mbarrier.init", barrier=bar(0), count=1)]
        if fence:
            init.append(b.op("fence.mbarrier_init.release.cluster"))
        first = ir.Binary("==", ir.Special("cluster_ctarank"), ir.Const(0))
        return [
            b.when(LEADER, *init),
            b.op("barrier.cluster.arrive", mods={"sem": sem}),
            b.op("barrier.cluster.wait"),
            b.when(ir.Binary("&&", LEADER, first), b.op("mbarrier.arrive", barrier=bar(0), cta=1)),
            b.op("barrier.cluster.arrive", mods={"sem": "release"}),
            b.op("barrier.cluster.wait"),
        ]

    assert kinds(run(program("relaxed", fence=False), ctas=2)) == {"used-before-init-fence"}
    assert not kinds(run(program("relaxed", fence=True), ctas=2))
    assert not kinds(run(program("release", fence=False), ctas=2))


def test_a_peer_that_may_have_exited() -> None:
    def program(sync: bool) -> list[ir.Stmt]:
        b = Builder()
        first = ir.Binary("==", ir.Special("cluster_ctarank"), ir.Const(0))
        body: list[ir.Stmt] = [
            b.when(LEADER, b.op("mbarrier.init", barrier=bar(0), count=1)),
            b.op("barrier.cluster.arrive"),
            b.op("barrier.cluster.wait"),
            b.when(ir.Binary("&&", LEADER, first), b.op("mbarrier.arrive", barrier=bar(0), cta=1)),
        ]
        if sync:
            body += [b.op("barrier.cluster.arrive"), b.op("barrier.cluster.wait")]
        return body

    assert kinds(run(program(sync=False), ctas=2)) == {"exited-peer"}
    assert not kinds(run(program(sync=True), ctas=2))


def test_setmaxnreg_waits_for_registers_that_others_give_back() -> None:
    def program(given: int) -> list[ir.Stmt]:
        b = Builder()
        less = b.op("setmaxnreg", mods={"direction": "dec"}, registers=given)
        more = b.op("setmaxnreg", mods={"direction": "inc"}, registers=160)
        return [b.when(below(256), less, orelse=(more,))]

    # 512 threads start with 65536 / 512 = 128 registers each.
    assert not run(program(96), threads=512).blocked
    assert {record.what for record in run(program(112), threads=512).blocked} == {"setmaxnreg"}


def test_a_peek_that_fails_does_not_hang() -> None:
    b = Builder()
    peek = b.op("mbarrier.try_wait", barrier=bar(0), parity=0)
    assert not run([*initialised(b, 1), b.when(LEADER, peek)]).blocked
