"""Who executes what, on small kernels built by hand."""

from __future__ import annotations

import pytest

from tests.threads import build as B
from warplint.program import ir
from warplint.threads import analyze, order
from warplint.threads.facts import Elected, Event, Known, Opaque, Pointer, Roles, Uniformity

ALL_LANES = 0xFFFFFFFF
POOL = ir.Symbol("pool", "dynamic_shared")


def analysed(*body: ir.Stmt, **more: object) -> Roles:
    results = analyze(B.kernel(*body, **more))  # type: ignore[arg-type]
    assert len(results) == 1
    return results[0]


def only(roles: Roles, name: str) -> Event:
    events = list(roles.of(name))
    assert len(events) == 1, [event.name for event in roles.events]
    return events[0]


def warps(*numbers: int) -> int:
    return sum(0xFFFFFFFF << 32 * number for number in numbers)


def elect() -> ir.Operation:
    return B.op("elect.sync", {"mask": B.c(ALL_LANES)})


def shuffle(value: ir.Expr, lane: ir.Expr, mode: str = "idx") -> ir.Operation:
    return B.op("shfl.sync", {"value": value, "lane": lane, "mask": B.c(ALL_LANES)}, {"mode": mode})


WARP = B.b(">>", B.TID, 5)
FLAG = B.local("flag", "param")


# ----------------------------------------------------------------------------------------------- guards
def test_warp_index_by_broadcast_shuffle_is_known() -> None:
    warp, broadcast = B.local("warp"), shuffle(WARP, B.c(0))
    roles = analysed(
        B.run(broadcast),
        B.assign(warp, ir.OpValue(broadcast)),
        B.when(B.b("==", B.b(">>", B.var(warp), 2), 1), [B.do("work")]),
        threads=256,
    )
    assert only(roles, "work").reach.threads == warps(4, 5, 6, 7)
    assert only(roles, "work").reach.exact


def test_elected_lane_under_a_warp_guard() -> None:
    chosen = elect()
    roles = analysed(
        B.when(B.b("==", WARP, 3), [B.run(chosen), B.when(B.b("!=", ir.OpValue(chosen), 0), [B.do("work")])])
    )
    reach = only(roles, "work").reach
    assert (reach.threads, reach.elected, reach.exact, reach.count()) == (warps(3), True, True, 1)


def test_lanes_not_elected_are_not_exact() -> None:
    chosen = elect()
    roles = analysed(B.run(chosen), B.when(ir.OpValue(chosen), [B.do("one")], [B.do("rest")]))
    rest = only(roles, "rest").reach
    assert not rest.elected and rest.split == Uniformity.LANE and rest.varies


def test_negated_election_returns_early() -> None:
    chosen = elect()
    roles = analysed(B.run(chosen), B.when(ir.Unary("!", ir.OpValue(chosen)), [B.do("rest")], [B.do("one")]))
    assert only(roles, "one").reach.elected


def test_stored_predicate_guards_like_a_branch() -> None:
    chosen, stored = elect(), B.local("p")
    test = B.b("&&", B.b("==", WARP, 2), B.var(stored))
    roles = analysed(B.run(chosen), B.assign(stored, ir.OpValue(chosen)), B.when(test, [B.do("work")]))
    reach = only(roles, "work").reach
    assert (reach.threads, reach.elected, reach.exact) == (warps(2), True, True)


def test_stored_predicate_with_an_unknown_uniform_flag() -> None:
    chosen, stored = elect(), B.local("p")
    roles = analysed(
        B.run(chosen),
        B.assign(stored, B.b("&&", ir.OpValue(chosen), B.b("==", B.var(FLAG), 0))),
        B.do("work", predicate=B.var(stored)),
        params=[FLAG],
    )
    reach = only(roles, "work").reach
    assert reach.elected and reach.exact and reach.count() == 4


def test_predicate_narrows_the_event_only() -> None:
    roles = analysed(B.do("first", predicate=B.b("<", B.TID, 32)), B.do("second"))
    first = only(roles, "first")
    assert first.reach.threads == warps(0)
    assert [guard.kind for guard in first.guards] == ["predicate"]
    assert only(roles, "second").reach.threads == warps(0, 1, 2, 3)


def test_an_election_inside_an_election_chooses_the_same_lane() -> None:
    outer, inner = elect(), elect()
    roles = analysed(
        B.run(outer),
        B.run(inner),
        B.when(ir.OpValue(outer), [B.when(ir.OpValue(inner), [B.do("work")], [B.do("never")])]),
    )
    assert only(roles, "work").reach.exact
    assert not list(roles.of("never"))


@pytest.mark.parametrize("test", [B.var(FLAG), B.b("<", ir.Special("ctaid.x"), 3), ir.Load(ir.Var(FLAG))])
def test_uniform_unknowns_keep_the_block_together(test: ir.Expr) -> None:
    roles = analysed(B.when(test, [B.do("work")]), params=[FLAG])
    assert only(roles, "work").reach.exact


def test_unknown_mixed_with_the_thread_index_varies() -> None:
    roles = analysed(B.when(B.b("<", B.TID, B.var(FLAG)), [B.do("work")]), params=[FLAG])
    reach = only(roles, "work").reach
    assert (reach.split, reach.varies) == (Uniformity.LANE, True)


def test_result_of_an_unknown_function_is_not_known_to_vary() -> None:
    roles = analysed(B.when(ir.Pure("mystery", (), False), [B.do("work")]))
    reach = only(roles, "work").reach
    assert (reach.split, reach.varies) == (Uniformity.LANE, False)


def test_a_load_through_a_divergent_address_varies() -> None:
    table = ir.Symbol("table", "global")
    roles = analysed(B.when(ir.Load(ir.Address(table, B.b("*", B.TID, 4))), [B.do("work")]))
    assert only(roles, "work").reach.varies


def test_warp_uniform_unknown_decides_for_one_warp_as_a_whole() -> None:
    data = shuffle(ir.Load(ir.Address(ir.Symbol("t", "global"), B.TID)), B.c(0))
    body = [B.run(data), B.when(ir.OpValue(data), [B.do("work")])]
    assert not only(analysed(*body), "work").reach.exact
    assert only(analysed(B.when(B.b("==", WARP, 1), body)), "work").reach.exact


def test_one_thread_always_agrees_with_itself() -> None:
    body = [B.when(ir.Pure("mystery", (), False), [B.do("work")])]
    assert only(analysed(B.when(B.b("==", B.TID, 0), body)), "work").reach.exact


def test_the_same_unknown_condition_is_remembered() -> None:
    test = B.b("<", ir.Special("ctaid.x"), B.var(FLAG))
    again = B.b(">", B.var(FLAG), ir.Special("ctaid.x"))
    roles = analysed(B.when(test, [B.when(again, [B.do("yes")], [B.do("no")])]), params=[FLAG])
    assert [event.name for event in roles.events] == ["yes"]


def test_variables_keep_their_value_in_other_roles() -> None:
    phase = B.local("phase")
    roles = analysed(
        B.assign(phase, 0),
        B.when(B.b("==", WARP, 1), [B.assign(phase, ir.Load(B.var(FLAG)))]),
        B.when(B.b("==", WARP, 2), [B.do("work", parity=B.var(phase))]),
        B.when(B.b("==", WARP, 1), [B.do("other", parity=B.var(phase))]),
        params=[FLAG],
    )
    assert only(roles, "work").constant("parity") == 0
    other = only(roles, "other").values["parity"]
    assert isinstance(other, Opaque) and other.uniformity == Uniformity.GRID


def test_barrier_index_that_depends_on_the_warp() -> None:
    place = ir.Address(POOL, B.b("*", B.b("+", B.b(">>", WARP, 2), 39), 8))
    roles = analysed(B.do("mbarrier.arrive", barrier=place), threads=256)
    value = only(roles, "mbarrier.arrive").values["barrier"]
    assert isinstance(value, Pointer) and isinstance(value.offset, Known)
    assert {value.offset.at(thread) for thread in range(128)} == {39 * 8}
    assert {value.offset.at(thread) for thread in range(128, 256)} == {40 * 8}


def test_wave64() -> None:
    first = B.op("amd.readfirstlane", {"value": B.b(">>", B.TID, 6)})
    chosen = elect()
    roles = analysed(
        B.run(first),
        B.when(B.b("==", ir.OpValue(first), 1), [B.run(chosen), B.when(ir.OpValue(chosen), [B.do("work")])]),
        threads=256,
        arch="gfx942",
    )
    reach = only(roles, "work").reach
    assert reach.threads == ((1 << 64) - 1) << 64
    assert reach.elected and reach.count(64) == 1


# ------------------------------------------------------------------------------------------------ exits
def test_early_return_of_known_threads() -> None:
    roles = analysed(B.when(B.b(">=", B.TID, 100), [B.leave_kernel()]), B.do("bar.sync.cta"))
    event = only(roles, "bar.sync.cta")
    assert event.reach.threads == (1 << 100) - 1 == event.live
    assert event.reach.exact
    assert event.guards[-1].kind == "exit" and not event.guards[-1].taken
    assert roles.exits[0].reach.threads.bit_count() == 28


def test_early_return_of_whole_blocks_keeps_the_rest_exact() -> None:
    test = B.b(">=", ir.Special("ctaid.x"), B.var(FLAG))
    roles = analysed(B.when(test, [B.leave_kernel()]), B.do("bar.sync.cta"), params=[FLAG])
    event = only(roles, "bar.sync.cta")
    assert event.reach.exact and event.live == event.reach.threads == (1 << 128) - 1


def test_early_return_that_depends_on_the_thread() -> None:
    roles = analysed(B.when(B.b(">=", B.TID, B.var(FLAG)), [B.leave_kernel()]), B.do("bar.sync.cta"), params=[FLAG])
    reach = only(roles, "bar.sync.cta").reach
    assert (reach.split, reach.varies) == (Uniformity.LANE, True)


def test_a_role_that_returns_under_a_flag_divides_the_block() -> None:
    roles = analysed(
        B.when(B.b("==", WARP, 1), [B.when(B.var(FLAG), [B.leave_kernel()])]), B.do("bar.sync.cta"), params=[FLAG]
    )
    reach = only(roles, "bar.sync.cta").reach
    assert (reach.split, reach.varies) == (Uniformity.WARP, True)


def test_a_branch_that_everybody_leaves_by_several_returns() -> None:
    inner = B.when(B.b("==", WARP, 1), [B.leave_kernel()])
    roles = analysed(B.when(B.var(FLAG), [inner, B.leave_kernel()]), B.do("bar.sync.cta"), params=[FLAG])
    assert only(roles, "bar.sync.cta").reach.exact
    nested = analysed(
        B.when(B.c(1), [B.when(B.var(FLAG), [inner, B.leave_kernel()])]), B.do("bar.sync.cta"), params=[FLAG]
    )
    assert only(nested, "bar.sync.cta").reach.exact


def test_a_trap_is_no_exit() -> None:
    roles = analysed(B.when(B.b("==", B.TID, B.var(FLAG)), [B.leave_kernel(trap=True)]), B.do("bar.sync.cta"))
    assert only(roles, "bar.sync.cta").reach.exact and not roles.exits


def test_both_sides_return() -> None:
    roles = analysed(B.when(B.var(FLAG), [B.leave_kernel()], [B.leave_kernel()]), B.do("never"), params=[FLAG])
    assert not roles.events


def test_return_from_an_inlined_helper_comes_back() -> None:
    inner = B.seq(B.when(B.b("<", B.TID, 32), [ir.Leave(B.NOWHERE, 1)]), B.do("inside"))
    roles = analysed(ir.Inline(B.NOWHERE, 1, "helper", inner), B.do("after"))
    assert only(roles, "inside").reach.threads == warps(1, 2, 3)
    assert only(roles, "after").reach.threads == warps(0, 1, 2, 3) and not only(roles, "after").guards


# ------------------------------------------------------------------------------------------------ loops
I = B.local("i")  # noqa: E741
STEP = [B.assign(I, B.b("+", B.var(I), 1))]


def ring(stage: ir.Symbol, phase: ir.Symbol, depth: int) -> list[ir.Stmt]:
    wrap = [B.assign(stage, 0), B.assign(phase, B.b("^", B.var(phase), 1))]
    return [B.assign(stage, B.b("+", B.var(stage), 1)), B.when(B.b("==", B.var(stage), depth), wrap)]


def test_initialisations_in_a_loop_are_unrolled() -> None:
    place = ir.Address(POOL, B.b("*", B.var(I), 8))
    init = B.do("mbarrier.init", barrier=place, count=1)
    roles = analysed(B.when(B.b("==", B.TID, 0), [B.assign(I, 0), B.loop(B.b("<", B.var(I), 4), [init], STEP)]))
    offsets = [event.values["barrier"].offset.constant for event in roles.events]  # type: ignore[attr-defined]
    assert offsets == [0, 8, 16, 24]
    assert [event.iteration for event in roles.events] == [(0,), (1,), (2,), (3,)]
    assert roles.loops[0].trips == 4 and roles.loops[0].always


def test_lane_strided_loop_gives_each_iteration_its_threads() -> None:
    body = [B.do("mbarrier.init", barrier=ir.Address(POOL, B.b("*", B.var(I), 8)), count=1)]
    step = [B.assign(I, B.b("+", B.var(I), 32))]
    roles = analysed(B.when(B.b("==", WARP, 0), [B.assign(I, B.TID), B.loop(B.b("<", B.var(I), 40), body, step)]))
    assert [event.reach.threads for event in roles.events] == [(1 << 32) - 1, (1 << 8) - 1]
    assert all(event.reach.exact for event in roles.events)
    assert roles.loops[0].trips is None and roles.loops[0].always


def test_general_iteration_keeps_uniformity_and_counts_trips() -> None:
    stage, phase = B.local("stage"), B.local("phase")
    wait = B.do("mbarrier.try_wait", barrier=ir.Address(POOL, B.b("*", B.var(stage), 8)), parity=B.var(phase))
    roles = analysed(
        B.assign(stage, 0),
        B.assign(phase, 0),
        B.assign(I, 0),
        B.loop(B.b("<", B.var(I), 5000), [wait, *ring(stage, phase, 3)], STEP),
    )
    event = only(roles, "mbarrier.try_wait")
    assert event.reach.exact and event.iteration == ()
    parity = event.values["parity"]
    assert isinstance(parity, Opaque) and parity.uniformity == Uniformity.GRID
    fact = roles.loops[0]
    assert (fact.trips, fact.always, fact.state) == (5000, True, (I,))
    assert {write.symbol.name for write in roles.writes} == {"stage", "phase", "i"}
    assert {(use.symbol.name, use.kind) for use in roles.uses} == {
        ("stage", "barrier"),
        ("phase", "parity"),
        ("i", "loop-test"),
    }


def test_trip_count_that_depends_on_the_thread_divides_the_body() -> None:
    limit = B.b("+", B.var(FLAG), B.TID)
    roles = analysed(
        B.assign(I, 0), B.loop(B.b("<", B.var(I), limit), [B.do("work")], STEP), B.do("after"), params=[FLAG]
    )
    event = only(roles, "work")
    assert (event.reach.split, event.reach.varies) == (Uniformity.LANE, True)
    assert event.guards[-1].kind == "loop" and not roles.loops[0].always
    assert only(roles, "after").reach.exact


def test_a_counter_left_at_different_iterations_is_not_uniform_afterwards() -> None:
    limit = B.b("+", B.var(FLAG), WARP)
    roles = analysed(
        B.assign(I, 0),
        B.loop(B.b("<", B.var(I), limit), [B.do("work")], STEP),
        B.when(B.b("==", B.var(I), 7), [B.do("after")]),
        params=[FLAG],
    )
    reach = only(roles, "after").reach
    assert (reach.split, reach.varies) == (Uniformity.WARP, True)


def test_scheduler_loop_with_roles_inside() -> None:
    tile, phase = B.local("tile"), B.local("phase")
    roles = analysed(
        B.assign(tile, ir.Special("ctaid.x")),
        B.assign(phase, 0),
        B.loop(
            None,
            [
                B.when(ir.Unary("!", B.b("<", B.var(tile), 64)), [ir.Break(B.NOWHERE)]),
                B.when(
                    B.b("==", WARP, 1), [B.do("wait", parity=B.var(phase)), B.assign(phase, B.b("^", B.var(phase), 1))]
                ),
                B.when(B.b("==", WARP, 2), [B.do("other", parity=B.var(phase))]),
                B.do("bar.sync.cta"),
                B.assign(tile, B.b("+", B.var(tile), ir.Special("nctaid.x"))),
            ],
        ),
        B.do("last"),
    )
    assert only(roles, "bar.sync.cta").reach.exact
    assert only(roles, "last").reach.exact
    assert isinstance(only(roles, "wait").values["parity"], Opaque)
    assert only(roles, "other").constant("parity") == 0
    assert [symbol.name for symbol in roles.loops[0].state] == ["tile"]


def test_state_advanced_by_a_part_of_the_threads_divides_the_loop() -> None:
    tile = B.local("tile")
    advance = B.assign(tile, B.b("+", B.var(tile), 148))
    roles = analysed(
        B.assign(tile, ir.Special("ctaid.x")),
        B.loop(B.b("<", B.var(tile), 64), [B.when(B.b("==", B.TID, 0), [advance]), B.do("bar.sync.cta")]),
    )
    reach = only(roles, "bar.sync.cta").reach
    assert not reach.exact and reach.varies
    assert roles.writes[-1].reach.threads == 1


def test_break_that_depends_on_the_thread_divides_later_iterations() -> None:
    roles = analysed(
        B.loop(None, [B.do("work"), B.when(B.b("==", B.TID, B.var(FLAG)), [ir.Break(B.NOWHERE)])]), params=[FLAG]
    )
    reach = only(roles, "work").reach
    assert (reach.split, reach.varies) == (Uniformity.LANE, True)


def test_do_while_zero_is_no_loop() -> None:
    value = B.local("x")
    roles = analysed(
        B.assign(value, 1),
        B.loop(B.c(0), [B.do("work", a=B.var(value)), B.assign(value, 2)], after=True),
        B.do("b", a=B.var(value)),
    )
    assert only(roles, "work").constant("a") == 1
    assert only(roles, "b").constant("a") == 2


def test_endless_role_never_comes_back() -> None:
    roles = analysed(B.when(B.b("==", WARP, 0), [B.loop(None, [B.do("spin")])]), B.do("after"))
    assert only(roles, "after").reach.threads == warps(1, 2, 3)


def test_polling_loop() -> None:
    poll = B.op("mbarrier.try_wait", {"barrier": ir.Address(POOL, B.c(0)), "parity": B.c(0)})
    roles = analysed(B.loop(ir.Unary("!", ir.OpValue(poll)), [], prelude=[B.run(poll)]), B.do("after"))
    assert only(roles, "mbarrier.try_wait").reach.exact
    assert only(roles, "after").reach.exact


# --------------------------------------------------------------------------------------------- the rest
def test_opaque_statements_make_the_kernel_incomplete() -> None:
    value = B.local("x")
    roles = analysed(
        B.assign(value, 0),
        ir.Opaque(B.NOWHERE, "`foo` is not defined in this file", (value,)),
        B.when(B.var(value), [B.do("work")]),
    )
    assert [entry.reason for entry in roles.incomplete] == ["`foo` is not defined in this file"]
    assert (only(roles, "work").reach.split, only(roles, "work").reach.varies) == (Uniformity.LANE, False)


def test_accesses_with_constant_offsets() -> None:
    tile = ir.Symbol("tile", "shared", dims=(64,), element_bytes=4)
    store = ir.Store(B.NOWHERE, B.later(ir.Address(tile, B.b("*", B.TID, 4))), B.later(0), 4)
    roles = analysed(store)
    (access,) = roles.accesses
    assert access.symbol is tile and access.write and isinstance(access.offset, Known) and access.offset.at(5) == 20


def test_tree_holds_branches_with_operations_only() -> None:
    roles = analysed(
        B.when(B.b("==", WARP, 0), [B.do("a")], [B.do("b")], text="warp == 0"), B.when(B.b("==", WARP, 9), [B.do("c")])
    )
    assert [(node.kind, node.label, node.reach.threads) for node in roles.tree.items] == [  # type: ignore[union-attr]
        ("if", "warp == 0", warps(0)),
        ("else", "warp == 0", warps(1, 2, 3)),
    ]


def test_unknown_block_is_assumed_and_large_enough() -> None:
    found = analyze(B.kernel(B.when(B.b("==", WARP, 9), [B.do("work")]), threads=None))
    assert len(found) > 1 and all(roles.assumed_block and roles.threads >= 320 for roles in found)
    assert found[0].threads == 320


def test_vote_and_reduction_are_exact_when_known() -> None:
    ballot = B.op("vote.sync", {"value": B.b("<", B.TID, 40), "mask": B.c(ALL_LANES)}, {"mode": "ballot"})
    total = B.op("redux.sync", {"value": B.TID, "mask": B.c(ALL_LANES)}, {"reduce": "max"})
    roles = analysed(B.run(ballot), B.run(total), B.do("work", a=ir.OpValue(ballot), d=ir.OpValue(total)))
    event = only(roles, "work")
    ballots, maxima = event.values["a"], event.values["d"]
    assert isinstance(ballots, Known) and isinstance(maxima, Known)
    assert [ballots.at(thread) for thread in (0, 33, 64)] == [ALL_LANES, 0xFF, 0]
    assert [maxima.at(thread) for thread in (0, 33, 127)] == [31, 63, 127]


def test_deep_nesting_is_incomplete_not_a_crash() -> None:
    body: list[ir.Stmt] = [B.do("work")]
    for _ in range(400):
        body = [B.when(B.var(FLAG), body)]
    roles = analysed(*body, params=[FLAG])
    assert any("nested deeper" in entry.reason for entry in roles.incomplete)


def test_deep_expressions_are_unknown_not_a_crash() -> None:
    test: ir.Expr = B.TID
    for _ in range(3000):
        test = ir.Unary("~", test)
    reach = only(analysed(B.when(test, [B.do("work")])), "work").reach
    assert reach.split == Uniformity.LANE


def test_election_value_is_public() -> None:
    chosen = elect()
    roles = analysed(B.run(chosen), B.do("work", a=ir.OpValue(chosen)))
    assert isinstance(only(roles, "work").values["a"], Elected)


# ------------------------------------------------------------------------------------------------ order
def test_barrier_between_initialisation_and_use() -> None:
    first = B.when(B.b("==", B.TID, 0), [B.do("mbarrier.init")])
    use = B.when(B.b("==", WARP, 1), [B.do("use")])
    everyone = (1 << 128) - 1
    good = analysed(first, B.do("bar.sync.cta"), use)
    assert order.barrier_between(good, only(good, "mbarrier.init"), only(good, "use"), everyone)
    bad = analysed(first, B.when(B.b("<", WARP, 2), [B.do("bar.sync.named", id=1, threads=64)]), use)
    assert not order.barrier_between(bad, only(bad, "mbarrier.init"), only(bad, "use"), everyone)
    assert order.barrier_between(bad, only(bad, "mbarrier.init"), only(bad, "use"), warps(0, 1))


def test_barrier_completed_by_sibling_branches() -> None:
    roles = analysed(
        B.do("a"),
        B.when(B.b("<", WARP, 2), [B.do("bar.sync.cta")], [B.do("bar.sync.cta")]),
        B.do("b"),
    )
    assert order.barrier_between(roles, only(roles, "a"), only(roles, "b"), (1 << 128) - 1)


def test_dominance() -> None:
    roles = analysed(
        B.do("a"),
        B.when(B.b("==", WARP, 1), [B.do("b")]),
        B.when(B.var(FLAG), [B.do("c")]),
        B.when(B.b("==", WARP, 1), [B.do("d")]),
        params=[FLAG],
    )
    a, b, c, d = (only(roles, name) for name in "abcd")
    assert order.always_before(a, d) and order.always_before(b, d)
    assert not order.always_before(c, d)
    assert not order.always_before(d, a)
    assert not order.always_before(b, c)


def test_operations_that_nobody_reaches_are_recorded_with_an_empty_reach() -> None:
    inner = B.when(B.b("==", B.TID, 0), [B.do("mbarrier.init", count=1)], text="tid == 0")
    roles = analysed(B.when(B.b("==", WARP, 1), [inner, B.do("work")]))
    event = only(roles, "mbarrier.init")
    assert event.reach.threads == 0 and event.constant("count") == 1
    last = event.guards[-1]
    assert (last.text, last.before.threads, last.after.threads, last.known) == ("tid == 0", warps(1), 0, True)
    unmet = analysed(B.do("tcgen05.dealloc", predicate=B.b("<", B.TID, 0)))
    assert only(unmet, "tcgen05.dealloc").reach.threads == 0


# ------------------------------------------------------------------------------------- index arithmetic
CTAID = ir.Special("ctaid.x")
GLOBAL = B.b("+", B.b("*", CTAID, 256), B.TID)


def reach_under(test: ir.Expr, threads: int = 256) -> tuple[int, bool]:
    reach = only(analysed(B.when(test, [B.do("work")]), threads=threads, params=[FLAG]), "work").reach
    return reach.threads, reach.exact


def test_lane_and_warp_of_a_global_index() -> None:
    assert reach_under(B.b("==", B.b("%", GLOBAL, 32), 0)) == (sum(1 << t for t in range(0, 256, 32)), True)
    assert reach_under(B.b("<", B.b("&", GLOBAL, 31), 8)) == (sum(0xFF << t for t in range(0, 256, 32)), True)
    roles = analysed(B.when(B.b("<", B.b("/", GLOBAL, 32), B.var(FLAG)), [B.do("work")]), threads=256, params=[FLAG])
    assert only(roles, "work").reach.split == Uniformity.WARP


def test_whole_blocks_decide_together_on_multiples_of_the_block() -> None:
    assert reach_under(B.b("<", GLOBAL, 1024)) == ((1 << 256) - 1, True)
    assert reach_under(B.b("<", GLOBAL, B.b("*", B.var(FLAG), 256))) == ((1 << 256) - 1, True)
    assert not reach_under(B.b("<", GLOBAL, 1000))[1]


def test_the_first_thread_of_the_grid() -> None:
    assert reach_under(B.b("==", GLOBAL, 0)) == (1, True)


def test_thread_terms_cancel() -> None:
    lane = B.b("&", B.TID, 31)
    row = B.b("+", B.var(FLAG), lane)
    assert reach_under(B.b("==", B.b("-", row, lane), 64)) == ((1 << 256) - 1, True)
    assert reach_under(B.b("<", row, B.b("+", B.var(FLAG), 16))) == (sum(0xFFFF << t for t in range(0, 256, 32)), True)


def test_low_bits_of_an_aligned_sum_are_uniform() -> None:
    address = B.b("+", ir.Cast("u64", B.var(FLAG)), B.b("*", ir.Cast("u64", B.b("*", B.TID, 4)), 4))
    assert reach_under(B.b("==", B.b("&", address, 15), 0)) == ((1 << 256) - 1, True)


def test_strided_loop_over_a_global_index_keeps_lanes() -> None:
    stride = B.b("*", ir.Special("nctaid.x"), 256)
    body = [B.when(B.b("==", B.b("%", B.var(I), 32), 0), [B.do("work")])]
    step = [B.assign(I, B.b("+", B.var(I), stride))]
    roles = analysed(
        B.assign(I, GLOBAL),
        B.loop(B.b("<", B.var(I), B.b("*", B.var(FLAG), 256)), body, step),
        threads=256,
        params=[FLAG],
    )
    reach = only(roles, "work").reach
    assert reach.exact and reach.threads == sum(1 << t for t in range(0, 256, 32))


def test_loop_that_adds_what_differs_between_lanes_does_not_count_up() -> None:
    step = [B.assign(I, B.b("+", B.var(I), B.TID))]
    body = [B.when(B.b("==", B.b("%", B.var(I), 32), 0), [B.do("work")])]
    roles = analysed(B.assign(I, B.TID), B.loop(B.b("<", B.var(I), B.var(FLAG)), body, step), params=[FLAG])
    assert not only(roles, "work").reach.exact


# ------------------------------------------------------------------------------- what stays certain
def test_the_other_warps_surely_take_the_else_side_of_an_election() -> None:
    chosen = elect()
    test = B.b("&&", B.b("==", WARP, 0), B.b("!=", ir.OpValue(chosen), 0))
    nested = B.when(B.b("==", WARP, 1), [B.do("other")], [B.when(B.b("==", WARP, 0), [B.do("rest")])])
    roles = analysed(B.run(chosen), B.when(test, [B.do("one")], [nested]))
    assert only(roles, "one").reach.elected and only(roles, "one").reach.exact
    assert only(roles, "other").reach.exact and only(roles, "other").reach.threads == warps(1)
    assert not only(roles, "rest").reach.exact


def test_a_role_that_may_return_leaves_the_other_roles_exact() -> None:
    leaves = B.when(B.b("==", WARP, 1), [B.when(B.var(FLAG), [B.leave_kernel()])])
    roles = analysed(leaves, B.when(B.b("==", WARP, 2), [B.do("work")]), B.do("bar.sync.cta"), params=[FLAG])
    assert only(roles, "work").reach.exact
    assert not only(roles, "bar.sync.cta").reach.exact


def test_what_is_only_not_understood_does_not_become_established() -> None:
    test = B.b("==", ir.Pure("mystery", (), False), WARP)
    reach = only(analysed(B.when(test, [B.do("work")])), "work").reach
    assert (reach.split, reach.varies) == (Uniformity.LANE, False)


def test_loops_nested_beyond_reason_are_incomplete_and_quick() -> None:
    body: list[ir.Stmt] = [B.do("work")]
    for level in range(120):
        count, phase = B.local(f"i{level}"), B.local(f"p{level}")
        role = B.when(
            B.b("==", WARP, level % 4), [B.assign(phase, B.b("^", B.var(phase), 1)), B.do("w", a=B.var(phase))]
        )
        step = [B.assign(count, B.b("+", B.var(count), 1))]
        body = [
            B.assign(count, 0),
            B.assign(phase, 0),
            B.loop(B.b("<", B.var(count), B.var(FLAG)), [*body, role], step),
        ]
    roles = analysed(*body, params=[FLAG])
    assert any("loops nested deeper" in entry.reason for entry in roles.incomplete)
    assert roles.events


@pytest.mark.parametrize("op", ["+", "-", "*", "<<", ">>", "/", "%", "&", "<", "==", "!="])
@pytest.mark.parametrize("huge", [(1 << 64) - 1, -(1 << 64) + 1, 1 << 63, 0, -1])
def test_enormous_constants_are_unknown_not_a_crash(op: str, huge: int) -> None:
    for left in (B.var(FLAG), B.TID, GLOBAL, B.b("+", B.var(FLAG), huge), B.b("*", GLOBAL, huge)):
        for test in (B.b(op, left, huge), B.b(op, B.c(huge), left), B.b("==", B.b(op, left, huge), 7)):
            analysed(B.when(test, [B.do("work")]), params=[FLAG])
