"""Loops whose state repeats: skipping what is proved shows exactly what executing all of it shows."""

from __future__ import annotations

from collections.abc import Hashable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.machine.build import TID, Builder, bar, run
from warplint.machine import values as v
from warplint.machine.line import FOREVER, Line, Trial
from warplint.machine.lines import bare, truth
from warplint.machine.outcome import Outcome
from warplint.program import ir

LANES = 32


def number(value: int | ir.Expr) -> ir.Expr:
    return ir.Const(value) if isinstance(value, int) else value


def binary(op: str, left: int | ir.Expr, right: int | ir.Expr) -> ir.Expr:
    return ir.Binary(op, number(left), number(right))


def shown(outcome: Outcome) -> set[Hashable]:
    """Everything an outcome shows, without numbers of phases."""
    found: set[Hashable] = {("blocked", b.what, b.span, b.parity, b.who) for b in outcome.blocked}
    found |= {("hazard", h.first.span, h.second.span, h.order) for h in outcome.hazards}
    found |= {("fault", f.kind, f.span) for f in outcome.faults}
    found |= {("left", f.kind, f.span) for f in outcome.leftovers}
    for record in outcome.barriers.values():
        found |= {("late", w.span, w.parity, w.who) for w in record.waits if w.late}
        found |= {("racing", record.label, a.span) for a in record.racing}
        found |= {(kind, record.label, a.span) for kind, a in record.faults}
        found.add(("end", record.label, len(record.phases) & 1, record.pending, record.tx))
    return found


class Ring:
    """A producer warp and a consumer warp over a ring of slots, each in a loop of its own."""

    def __init__(self, depth: int, counted: bool) -> None:
        self.b = Builder()
        self.depth = depth
        self.counted = counted
        """Stage and parity from the iteration number, rather than from variables that are advanced."""

    def side(self, name: str, trips: int, first: int, body) -> list[ir.Stmt]:
        """A loop; `body` makes its statements from stage, parity and iteration."""
        b = self.b
        i, stage, parity = (ir.Symbol(f"{name}_{what}", "local") for what in ("i", "stage", "parity"))
        if self.counted:
            at = binary("%", ir.Var(i), self.depth)
            phase = binary("^", binary("&", binary("/", ir.Var(i), self.depth), 1), first)
            return [*b.repeat(i, trips, *body(at, phase, ir.Var(i)))]
        wrap = b.when(
            binary("==", ir.Var(stage), self.depth),
            b.set(stage, ir.Const(0)),
            b.set(parity, binary("^", ir.Var(parity), 1)),
        )
        advance = (b.set(stage, binary("+", ir.Var(stage), 1)), wrap)
        loop = b.repeat(i, trips, *body(ir.Var(stage), ir.Var(parity), ir.Var(i)), *advance)
        return [b.set(stage, ir.Const(0)), b.set(parity, ir.Const(first)), *loop]

    def program(
        self, produced: int, consumed: int, *, first: int = 1, odd: tuple[str, str, int] | None = None
    ) -> list[ir.Stmt]:
        """`odd`: an operation (`wait`, `arrive`) of one side that is left out where the comparison holds."""
        b, depth = self.b, self.depth

        def unless(what: str, iteration: ir.Expr, stmt: ir.Stmt) -> ir.Stmt:
            if odd is None or odd[0] != what:
                return stmt
            return b.when(ir.Unary("!", binary(odd[1], iteration, odd[2])), stmt)

        def wait(index: ir.Expr, parity: ir.Expr) -> ir.Stmt:
            return b.op("mbarrier.try_wait", mods={"blocking": True}, barrier=bar(index), parity=parity)

        def fill(at: ir.Expr, parity: ir.Expr, i: ir.Expr) -> list[ir.Stmt]:
            slot = binary("*", at, 4)
            return [
                unless("wait", i, wait(binary("+", at, depth), parity)),
                b.store(slot),
                unless("arrive", i, b.op("mbarrier.arrive", barrier=bar(at))),
            ]

        def drain(at: ir.Expr, parity: ir.Expr, i: ir.Expr) -> list[ir.Stmt]:
            slot = binary("*", at, 4)
            return [
                unless("full", i, wait(at, parity)),
                b.read(slot),
                unless("free", i, b.op("mbarrier.arrive", barrier=bar(binary("+", at, depth)))),
            ]

        inits = [b.op("mbarrier.init", barrier=bar(at), count=1) for at in range(2 * depth)]
        return [
            b.when(binary("==", TID, 0), *inits),
            b.op("bar.sync.cta"),
            b.when(binary("==", TID, 0), *self.side("p", produced, first, fill)),
            b.when(binary("==", TID, LANES), *self.side("c", consumed, 0, drain)),
        ]


def both(ring: Ring, *trips: int, **change) -> tuple[Outcome, Outcome]:
    program = ring.program(*trips, **change)
    return run(program), run(program, repeats=False)


@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("depth", [1, 2, 3, 5])
def test_a_good_ring_is_skipped_and_nothing_is_shown(depth: int, counted: bool) -> None:
    skipped, whole = both(Ring(depth, counted), 200, 200)
    assert skipped.repeats
    assert not skipped.blocked
    assert not skipped.hazards
    assert shown(skipped) == shown(whole)
    assert len(skipped.steps) < len(whole.steps) / 2


@pytest.mark.parametrize("trips", [(120, 119), (119, 120), (150, 90)])
@pytest.mark.parametrize("counted", [False, True])
def test_unequal_ends_are_found_behind_what_was_skipped(trips: tuple[int, int], counted: bool) -> None:
    skipped, whole = both(Ring(3, counted), *trips)
    assert skipped.repeats
    assert shown(skipped) == shown(whole)
    assert skipped.blocked or any(len(record.phases) for record in skipped.barriers.values())


@pytest.mark.parametrize("what", ["wait", "arrive", "full", "free"])
def test_a_fault_of_one_late_iteration_is_not_skipped(what: str) -> None:
    skipped, whole = both(Ring(2, True), 200, 200, odd=(what, "==", 131))
    assert skipped.repeats
    assert shown(skipped) == shown(whole)
    assert skipped.blocked or skipped.hazards or any(w.late for r in skipped.barriers.values() for w in r.waits)


def test_a_fault_in_every_iteration_is_shown_once_more_or_less_often() -> None:
    skipped, whole = both(Ring(2, False), 200, 200, odd=("full", ">=", 0))
    assert skipped.hazards
    assert shown(skipped) == shown(whole)


def test_a_shared_address_that_grows_is_executed() -> None:
    b = Builder()
    i = ir.Symbol("i", "local")
    body = [*b.repeat(i, 100, b.store(binary("*", ir.Var(i), 4)), b.op("bar.sync.cta"))]
    assert not run(body).repeats


def test_a_repeated_state_that_ends_in_a_race_far_away() -> None:
    b = Builder()
    i = ir.Symbol("i", "local")
    late = b.when(binary(">", ir.Var(i), 170), b.read(binary("*", binary("^", TID, 33), 4)))
    body = [*b.repeat(i, 200, b.store(binary("*", TID, 4)), late, b.op("bar.sync.cta"))]
    outcome = run(body)
    assert outcome.repeats
    assert outcome.hazards


@st.composite
def loops(draw: st.DrawFn) -> tuple[int, bool, tuple[int, int], dict]:
    trips = draw(st.integers(30, 90))
    ends = draw(st.sampled_from([(trips, trips), (trips, trips), (trips, trips - 1), (trips, trips + 1)]))
    change: dict = {"first": draw(st.sampled_from([1, 1, 1, 0]))}
    if draw(st.booleans()):
        operation = draw(st.sampled_from(["wait", "arrive", "full", "free"]))
        change["odd"] = (operation, draw(st.sampled_from(["==", ">=", "<", "!="])), draw(st.integers(0, trips)))
    return draw(st.integers(1, 4)), draw(st.booleans()), ends, change


@settings(max_examples=60, deadline=None)
@given(loops())
def test_random_rings(made: tuple[int, bool, tuple[int, int], dict]) -> None:
    depth, counted, trips, change = made
    skipped, whole = both(Ring(depth, counted), *trips, **change)
    assert shown(skipped) == shown(whole)


# ------------------------------------------------------------------------------------------------ lines
OPERATORS = ["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "<", "<=", ">", ">=", "==", "!=", "&&", "||"]


@settings(max_examples=400, deadline=None)
@given(
    st.sampled_from(OPERATORS),
    st.tuples(st.integers(0, 60), st.integers(-9, 16)),
    st.tuples(st.integers(-4, 40), st.sampled_from([0, 0, 0, 3, 8])),
    st.booleans(),
    st.integers(1, 30),
)
def test_a_line_is_what_it_says_in_every_repetition(
    op: str, one: tuple[int, int], two: tuple[int, int], turned: bool, far: int
) -> None:
    """As far as the trial says it holds."""
    if op in ("<<", ">>") and not 0 <= two[0] < 20:
        return
    trial = Trial()
    left: v.Value = Line(one[0], one[1], trial) if one[1] else one[0]
    right: v.Value = Line(two[0], two[1], trial) if two[1] else two[0]
    left, right, first, second = (right, left, two, one) if turned else (left, right, one, two)
    result = v.binary(op, left, right)
    if trial.failed or isinstance(result, v.Unknown) or (isinstance(result, Line) and result.step is None):
        return
    for repetition in range(min(far, trial.last) + 1):
        really = v.binary(op, first[0] + first[1] * repetition, second[0] + second[1] * repetition)
        said = result.value + result.step * repetition if isinstance(result, Line) else result  # type: ignore[operator]
        assert int(said) == int(really)  # type: ignore[arg-type]


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(v.WIDTH)), st.integers(-130, 300), st.integers(-40, 40).filter(bool), st.integers(1, 30))
def test_a_conversion_holds_until_it_wraps(kind: str, value: int, step: int, far: int) -> None:
    trial = Trial()
    result = v.cast(kind, Line(value, step, trial))
    if isinstance(result, Line) and result.step is not None:
        for repetition in range(min(far, trial.last) + 1):
            assert result.value + result.step * repetition == v.wrap(kind, value + step * repetition)  # type: ignore[operator]


def test_what_nobody_understands_fails_when_it_is_looked_at() -> None:
    trial = Trial()
    strange = v.binary("*", Line(3, 2, trial), Line(4, 1, trial))
    assert bare(strange) == 12
    assert not trial.failed
    assert isinstance(strange, Line)
    assert truth(strange)
    assert trial.failed
    assert trial.last == FOREVER
