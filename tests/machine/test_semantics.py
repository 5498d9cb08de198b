"""Objects that the other files leave out, each in pairs: the program that is right, and its twin with one fault."""

from __future__ import annotations

from typing import Any

import pytest

from tests.machine.build import BARS, DATA, TID, Builder, bar, below, run
from tests.machine.test_facts import BLOCKING, LEADER, WARP0, initialised, kinds, lefts, orders
from warplint.machine.barriers import MAX_COUNT
from warplint.machine.memory import Order
from warplint.program import ir

OTHER = ir.Binary("==", TID, ir.Const(32))
OTHER_WARP = ir.Binary(">=", TID, ir.Const(32))
FIRST = ir.Binary("==", ir.Special("cluster_ctarank"), ir.Const(0))
TIMES4 = ir.Binary("*", TID, ir.Const(4))
MIRROR = ir.Binary("-", ir.Const(252), TIMES4)


def both(left: ir.Expr, right: ir.Expr) -> ir.Expr:
    return ir.Binary("&&", left, right)


def tile(offset: int) -> ir.Expr:
    """A matrix descriptor of a place in `data`."""
    return ir.Binary(">>", ir.Binary("&", ir.Address(DATA, ir.Const(offset)), ir.Const(0x3FFFF)), ir.Const(4))


def blocking(b: Builder, index: int, parity: int) -> ir.Do:
    return b.op("mbarrier.try_wait", mods=BLOCKING, barrier=bar(index), parity=parity)


# ------------------------------------------------------------------------------------------ named barriers
@pytest.mark.parametrize("crossed", [False, True])
def test_warps_that_wait_at_barriers_of_their_own_go_on_independently(crossed: bool) -> None:
    """Two roles take turns by `bar.sync 1 + role` and `bar.arrive 2 - role`; without the first arrival nobody starts.

    An agent of all threads executes the one `bar.sync`: it must not wait for both barriers at once.
    """
    b = Builder()
    role = ir.Binary("/", TID, ir.Const(32))
    mine = ir.Binary("+", role, ir.Const(1))
    peer = ir.Binary("-", ir.Const(2), role)
    first = [] if crossed else [b.when(OTHER_WARP, b.op("bar.arrive.named", id=1, threads=64))]
    turn = [b.op("bar.sync.named", id=mine, threads=64), b.op("bar.arrive.named", id=peer, threads=64)]
    outcome = run([*first, *turn, *turn])
    assert {record.what for record in outcome.blocked} == ({"named barrier"} if crossed else set())


def test_arriving_at_a_named_barrier_hands_over_and_does_not_acquire() -> None:
    def program(writer_waits: bool) -> list[ir.Stmt]:
        b = Builder()
        come, wait = ("bar.arrive.named", "bar.sync.named") if not writer_waits else ("bar.sync.named",
                                                                                      "bar.arrive.named")  # fmt: skip
        return [b.when(WARP0, b.store(TIMES4), b.op(come, id=1, threads=64),
                       orelse=(b.op(wait, id=1, threads=64), b.read(MIRROR)))]  # fmt: skip

    assert not orders(run(program(writer_waits=False)))
    assert orders(run(program(writer_waits=True))) == {Order.UNJOINED}, "who only arrives has not waited"


# ---------------------------------------------------------------------------------------- cluster barriers
def test_a_relaxed_cluster_barrier_orders_execution_but_hands_no_memory_over() -> None:
    def program(sem: str) -> list[ir.Stmt]:
        b = Builder()
        return [
            b.when(WARP0, b.store(TIMES4)),
            b.op("barrier.cluster.arrive", mods={"sem": sem}),
            b.op("barrier.cluster.wait"),
            b.when(OTHER_WARP, b.read(MIRROR)),
        ]

    assert orders(run(program("relaxed"), ctas=2)) == {Order.RELAXED}
    assert not orders(run(program("release"), ctas=2))


def test_a_cluster_barrier_is_arrived_at_and_waited_for_in_turn() -> None:
    def program(*names: str) -> list[ir.Stmt]:
        b = Builder()
        return [b.op(f"barrier.cluster.{name}") for name in names]

    assert not kinds(run(program("arrive", "wait", "arrive", "wait"), ctas=2))
    assert kinds(run(program("arrive", "wait", "wait"), ctas=2)) == {"cluster-wait-without-arrive"}
    assert kinds(run(program("wait"), ctas=2)) == {"cluster-wait-without-arrive"}


def test_a_cluster_barrier_that_one_cta_does_not_reach_blocks() -> None:
    b = Builder()
    pair = [b.op("barrier.cluster.arrive"), b.op("barrier.cluster.wait")]
    stay = b.when(ir.Binary("==", ir.Special("cluster_ctarank"), ir.Const(1)), b.op("mbarrier.init", barrier=bar(0),
                  count=1), b.op("bar.sync.cta"), blocking(b, 0, 0))  # fmt: skip
    assert {r.what for r in run([stay, *pair], ctas=2).blocked} == {"mbarrier", "cluster barrier"}


# ----------------------------------------------------------------------------------------------- mbarriers
def test_bytes_beyond_the_range_of_the_counter() -> None:
    def program(size: int) -> list[ir.Stmt]:
        b = Builder()
        return [*initialised(b, 1), b.when(LEADER, b.op("mbarrier.expect_tx", barrier=bar(0), bytes=size))]

    def broken(size: int) -> list[str]:
        (record,) = run(program(size)).barriers.values()
        return [kind for kind, _ in record.faults]

    assert not broken(MAX_COUNT)
    assert broken(MAX_COUNT + 1) == ["tx-overflow"]


def test_an_expectation_that_no_arrival_comes_after_may_miss_its_phase() -> None:
    def program(same_thread: bool) -> list[ir.Stmt]:
        b = Builder()
        expect = b.op("mbarrier.expect_tx", barrier=bar(0), bytes=16)
        arrive = b.op("mbarrier.arrive", barrier=bar(0))
        copy = b.op("cp.async.bulk.g2s", dst=ir.Address(DATA, ir.Const(0)), bytes=16, barrier=bar(0))
        if same_thread:
            return [*initialised(b, 1), b.when(LEADER, expect, copy, arrive)]
        return [*initialised(b, 1), b.when(LEADER, expect, copy), b.when(OTHER, arrive)]

    def racing(same_thread: bool) -> int:
        (record,) = run(program(same_thread)).barriers.values()
        return len(record.racing)

    assert racing(same_thread=False) == 1
    assert racing(same_thread=True) == 0


def test_a_word_is_invalidated_only_when_nobody_waits_and_not_used_afterwards() -> None:
    def program(again: bool) -> list[ir.Stmt]:
        b = Builder()
        body = [b.op("mbarrier.arrive", barrier=bar(0)), blocking(b, 0, 0), b.op("mbarrier.inval", barrier=bar(0))]
        if again:
            body.append(b.op("mbarrier.arrive", barrier=bar(0)))
        return [*initialised(b, 1), b.when(LEADER, *body)]

    assert not kinds(run(program(again=False)))
    assert kinds(run(program(again=True))) == {"uninitialised"}


def test_a_live_word_is_initialised_once_unless_it_is_invalidated_between() -> None:
    def program(inval: bool) -> list[ir.Stmt]:
        b = Builder()
        init = [b.op("mbarrier.init", barrier=bar(0), count=1) for _ in range(2)]
        between = [b.op("mbarrier.inval", barrier=bar(0))] if inval else []
        return [b.when(LEADER, init[0], *between, init[1])]

    assert kinds(run(program(inval=False))) == {"reinitialised"}
    assert not kinds(run(program(inval=True)))


def test_who_leaves_by_arrive_drop_is_not_counted_again() -> None:
    def program(name: str) -> list[ir.Stmt]:
        b = Builder()
        stays = [b.op("mbarrier.arrive", barrier=bar(0)), blocking(b, 0, 0), b.op("mbarrier.arrive", barrier=bar(0)),
                 blocking(b, 0, 1)]  # fmt: skip
        return [*initialised(b, 2), b.when(LEADER, *stays), b.when(OTHER, b.op(name, barrier=bar(0)))]

    assert not run(program("mbarrier.arrive_drop")).blocked
    assert {record.what for record in run(program("mbarrier.arrive")).blocked} == {"mbarrier"}


def test_multicast_completes_bytes_in_every_cta_of_its_mask() -> None:
    def program(mask: int) -> list[ir.Stmt]:
        b = Builder()
        place = ir.Address(DATA, ir.Const(0))
        expect = b.op("mbarrier.arrive.expect_tx", barrier=bar(0), bytes=64)
        copy = b.op("multicast.cluster", dst=place, bytes=64, barrier=bar(0), cta_mask=mask)
        pair = [b.op("barrier.cluster.arrive"), b.op("barrier.cluster.wait")]
        init = b.when(LEADER, b.op("mbarrier.init", barrier=bar(0), count=1),
                      b.op("fence.mbarrier_init.release.cluster"))  # fmt: skip
        return [init, *pair, b.when(LEADER, expect, b.when(FIRST, copy), blocking(b, 0, 0)), *pair]

    assert not run(program(0b11), ctas=2).blocked
    assert {record.who.cta for record in run(program(0b01), ctas=2).blocked if record.what == "mbarrier"} == {1}


# --------------------------------------------------------------------------------------------------- wgmma
@pytest.mark.parametrize(("commit", "group", "order"), [(True, 0, None), (False, 0, "wgmma"), (True, 1, "wgmma")])
def test_operands_of_wgmma_are_read_until_their_group_is_waited_for(
    commit: bool, group: int, order: str | None
) -> None:
    b = Builder()
    multiply = [b.op("wgmma.mma_async", desc_a=tile(0), desc_b=tile(2048))]
    multiply += [b.op("wgmma.commit_group")] if commit else []
    body = [*multiply, b.op("wgmma.wait_group", group=group), b.op("bar.sync.cta"), b.store(TIMES4)]
    outcome = run(body, threads=128)
    assert orders(outcome) & {Order.INCOMPLETE} == ({Order.INCOMPLETE} if order else set())
    assert bool(lefts(outcome)) == bool(order)


# ------------------------------------------------------------------------------------------------- tcgen05
def accumulator(commit: bool, wait: bool, pair: bool = False, sync: bool = True) -> list[ir.Stmt]:
    """One thread multiplies and commits; a warp waits and loads. With `pair` the leader does it for two CTAs."""
    b = Builder()
    group = {"cta_group": 2} if pair else {}
    alloc = b.when(OTHER_WARP, b.op("tcgen05.alloc", mods=group, slot=ir.Address(BARS, ir.Const(120)), columns=32))
    shape = (128 // 16 << 24) | (32 // 8 << 17)
    multiply: list[ir.Stmt] = [b.op("tcgen05.mma", mods=group, address=0, accumulate=0, idesc=shape)]
    if commit:
        mask: Any = {"cta_mask": 3} if pair else {}
        multiply.append(b.op("tcgen05.commit", mods=group, barrier=bar(0), **mask))
    load: list[ir.Stmt] = [blocking(b, 0, 0)] if wait else []
    load += [b.op("tcgen05.fence.after_thread_sync"), b.op("tcgen05.ld", mods={"shape": "32x32b", "num": "32"},
             address=0), b.op("tcgen05.wait", mods={"kind": "ld"}),
             b.op("tcgen05.fence.before_thread_sync")]  # fmt: skip
    free = b.when(OTHER_WARP, b.op("tcgen05.fence.after_thread_sync"),
                  b.op("tcgen05.dealloc", mods=group, address=0, columns=32))  # fmt: skip
    meet = [b.op("barrier.cluster.arrive"), b.op("barrier.cluster.wait")] if pair else [b.op("bar.sync.cta")]
    init = b.when(LEADER, b.op("mbarrier.init", barrier=bar(0), count=1),
                  b.op("fence.mbarrier_init.release.cluster"))  # fmt: skip
    issuer = both(LEADER, FIRST) if pair else LEADER
    end = [b.op("bar.sync.cta")] if pair and not sync else meet
    ready = [*meet, alloc, *meet] if pair else [alloc, *meet]
    return [init, *ready, b.when(issuer, *multiply), b.when(OTHER_WARP, *load), *end, free]


def test_what_an_mma_writes_is_there_when_its_commit_has_been_observed() -> None:
    assert not orders(run(accumulator(commit=True, wait=True)))
    assert orders(run(accumulator(commit=True, wait=False))) & {Order.INCOMPLETE}
    assert "mbarrier" in {record.what for record in run(accumulator(commit=False, wait=True)).blocked}


def test_a_pair_frees_its_columns_when_both_ctas_are_through() -> None:
    assert not orders(run(accumulator(commit=True, wait=True, pair=True), ctas=2))
    assert orders(run(accumulator(commit=True, wait=True, pair=True, sync=False), ctas=2)) & {Order.UNJOINED}


def test_a_store_to_tensor_memory_is_published_after_its_wait() -> None:
    def program(wait: bool) -> list[ir.Stmt]:
        b = Builder()
        move = {"shape": "32x32b", "num": "32"}
        alloc = b.when(WARP0, b.op("tcgen05.alloc", slot=ir.Address(BARS, ir.Const(120)), columns=32))
        store: list[ir.Stmt] = [b.op("tcgen05.st", mods=move, address=0)]
        store += [b.op("tcgen05.wait", mods={"kind": "st"})] if wait else []
        store += [b.op("tcgen05.fence.before_thread_sync")]
        after = b.op("tcgen05.fence.after_thread_sync")
        shape = (128 // 16 << 24) | (32 // 8 << 17)
        multiply = b.when(OTHER, after, b.op("tcgen05.mma", address=0, accumulate=1, idesc=shape))
        return [alloc, b.op("bar.sync.cta"), b.when(WARP0, *store), b.op("bar.sync.cta"), multiply]

    assert not orders(run(program(wait=True)))
    assert orders(run(program(wait=False))) == {Order.INCOMPLETE}


# -------------------------------------------------------------------------------------------- proxy fences
def test_a_thread_fences_its_own_store_before_its_own_copy() -> None:
    def program(fence: bool) -> list[ir.Stmt]:
        b = Builder()
        between = [b.op("fence.proxy.async")] if fence else []
        copy = b.op("cp.async.bulk.s2g", src=ir.Address(DATA, ir.Const(0)), bytes=16)
        return [b.when(LEADER, b.store(ir.Const(0)), *between, copy)]

    assert not orders(run(program(fence=True)))
    assert orders(run(program(fence=False))) == {Order.NO_FENCE}


def test_a_thread_that_only_cp_async_covers_still_needs_a_barrier_for_others() -> None:
    def program(sync: bool) -> list[ir.Stmt]:
        b = Builder()
        place = ir.Address(DATA, TIMES4)
        copy = [
            b.op("cp.async", dst=place, bytes=4),
            b.op("cp.async.commit_group"),
            b.op("cp.async.wait_group", group=0),
        ]
        return [*copy, *([b.op("bar.sync.cta")] if sync else []), b.read(MIRROR)]

    assert not orders(run(program(sync=True)))
    assert orders(run(program(sync=False))) == {Order.UNJOINED}


def test_registers_are_taken_only_from_what_others_gave_back_before() -> None:
    """A warpgroup that exits without `setmaxnreg.dec` gives nothing to those that wait for more."""

    def program(given: bool) -> list[ir.Stmt]:
        b = Builder()
        less = [b.op("setmaxnreg", mods={"direction": "dec"}, registers=24)] if given else []
        more = b.op("setmaxnreg", mods={"direction": "inc"}, registers=240)
        return [b.when(below(128), *less, b.op("bar.warp.sync"), orelse=(more,))]

    assert not run(program(given=True), threads=384).blocked
    assert {record.what for record in run(program(given=False), threads=384).blocked} == {"setmaxnreg"}
