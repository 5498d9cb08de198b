"""What a warp executes together: its accesses to tensor memory follow one another."""

from __future__ import annotations

from tests.machine.build import BARS, Builder, bar, below, run
from warplint.machine.footprint import Order
from warplint.program import ir

SHAPE = {"shape": "32x32b", "num": "x8"}


def loaded_then_stored(waits: bool, first: int = 32, second: int = 32) -> set[Order]:
    """`first` threads load eight columns, `second` threads store to them."""
    b = Builder()
    load = [b.op("tcgen05.ld", mods=SHAPE, src=0)]
    if waits:
        load.append(b.op("tcgen05.wait", mods={"kind": "ld"}))
    body: list[ir.Stmt] = [b.when(below(first), *load), b.when(below(second), b.op("tcgen05.st", mods=SHAPE, dst=0))]
    return {hazard.order for hazard in run(body, threads=160).hazards}


def test_a_warp_may_overwrite_what_it_has_loaded_and_waited_for() -> None:
    assert not loaded_then_stored(waits=True)


def test_without_the_wait_the_load_may_still_be_under_way() -> None:
    assert loaded_then_stored(waits=False) == {Order.INCOMPLETE}


def test_another_warp_of_the_same_quarter_is_not_ordered() -> None:
    b = Builder()
    load = [b.op("tcgen05.ld", mods=SHAPE, src=0), b.op("tcgen05.wait", mods={"kind": "ld"})]
    fifth = b.when(ir.Unary("!", below(128)), b.op("tcgen05.st", mods=SHAPE, dst=0))
    hazards = run([b.when(below(32), *load), fifth], threads=160).hazards
    assert {hazard.order for hazard in hazards} == {Order.UNJOINED}


def test_all_lanes_of_a_warp_see_the_address_that_its_allocation_wrote() -> None:
    b = Builder()
    word = ir.Address(BARS, ir.Const(0))
    read = ir.Read(b.span(), ir.Deferred(lambda: word), 4)
    body: list[ir.Stmt] = [b.when(below(32), b.op("tcgen05.alloc", slot=bar(0), columns=32), read)]
    assert not run(body).hazards


def test_another_warp_does_not_see_it_without_a_barrier() -> None:
    b = Builder()
    word = ir.Address(BARS, ir.Const(0))
    read = ir.Read(b.span(), ir.Deferred(lambda: word), 4)
    body = [b.when(below(32), b.op("tcgen05.alloc", slot=bar(0), columns=32)), read]
    assert {hazard.order for hazard in run(body).hazards} == {Order.UNJOINED}
