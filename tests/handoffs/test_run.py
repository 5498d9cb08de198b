"""The executed protocol: steps in order, phases of barriers, filters, bounds, and that watching changes nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.handoffs.kernels import CROSSED, GEMM, executed, line_of, traced
from warplint.handoffs import recorder as recording
from warplint.handoffs.listing import Wanted
from warplint.machine import execute
from warplint.tables import Run, Step
from warplint_reports.protocol_run import Loop, folded, render


@pytest.fixture(scope="module")
def gemm() -> Run:
    return executed(GEMM)


def test_steps_of_a_role_are_in_program_order(gemm):
    load = [s for s in gemm.steps if s.role == "TMA load" and s.barrier]
    assert [s.op for s in load[:4]] == [
        "mbarrier.try_wait",
        "cp.async.bulk.tensor.load",
        "cp.async.bulk.tensor.load",
        "mbarrier.arrive.expect_tx",
    ]
    assert len(load) == 4 * 64
    assert [s.number for s in gemm.steps] == sorted(s.number for s in gemm.steps)
    arrives = [s for s in load if s.op == "mbarrier.arrive.expect_tx"]
    assert [s.phase for s in arrives] == [n // 2 for n in range(64)], "two stages, each phase once"
    assert {s.bytes for s in arrives} == {32768}


def test_a_wait_goes_on_after_what_it_waited_for(gemm):
    done = {}
    for step in gemm.steps:
        if step.op == "tcgen05.commit":
            done.setdefault((step.barrier, step.phase), []).append(step.number)
    waits = [s for s in gemm.steps if s.op == "mbarrier.try_wait" and s.role == "TMA load" and s.phase >= 0]
    assert waits and all(max(s.number, s.passed) > min(done[(s.barrier, s.phase)]) for s in waits), (
        "no slot is filled again before its release"
    )


def test_phases_of_a_barrier_word(gemm):
    full = [word for word in gemm.words if word.label in ("pool_buf_ptr + 8", "pool_buf_ptr + 16")]
    assert len(full) == 2
    for word in full:
        (row,) = word.phases
        assert (row.number, row.last, row.completed) == (0, 31, True)
        assert sorted(a.how for a in row.arrivals) == ["arrive.expect_tx", "copy", "copy"]
        assert {role for role, _ in row.waited} == {"MMA"}


def test_a_blocked_wait_and_its_phase():
    made = executed(CROSSED)
    blocked = [s for s in made.steps if s.blocked]
    assert {s.line for s in blocked} == {line_of(CROSSED, "parity(&a"), line_of(CROSSED, "parity(&b")}
    assert {one.line for one in made.blocked} == {s.line for s in blocked}
    assert all(one.text.startswith("waits for phase 0 (parity 0) of B") for one in made.blocked)
    assert all(word.phases[-1].missing == "32 arrivals" for word in made.words)


# -------------------------------------------------------------------------------------------------- filters
def test_filters_by_agent_barrier_and_cta(gemm):
    def steps(**chosen):
        return executed(GEMM, Wanted(**chosen)).steps

    assert {s.role for s in steps(agents=("mma",))} == {"MMA"}
    assert {s.role for s in steps(agents=("warp 7",)) if s.threads != "all 256"} == {"TMA load"}
    assert all(int(s.mask, 16) >> 128 & 1 for s in steps(agents=("thread 128",)))
    assert {s.barrier for s in steps(barriers=("B1",))} == {"B1"}
    assert {s.barrier for s in steps(barriers=("+ 48",))} == {"B4"}
    assert not steps(barriers=("pool_buf_ptr + 4",)), "a word, not the beginning of one"
    assert not steps(ctas=(1,))
    limited = executed(GEMM, Wanted(limit=5))
    assert len(limited.steps) == 5 and limited.cut == len(gemm.steps) - 5
    assert limited.steps == gemm.steps[:5]


# ---------------------------------------------------------------------------------------------- the recorder
def test_watching_changes_nothing():
    kernel = traced(GEMM)
    assert kernel.recorded is not None
    alone = execute(kernel.recorded.roles)
    watched = kernel.recorded.execution
    assert [o.steps for o in alone.outcomes] == [o.steps for o in watched.outcomes]
    assert [len(o.hazards) for o in alone.outcomes] == [len(o.hazards) for o in watched.outcomes]


def test_what_is_not_kept_is_counted(monkeypatch, gemm):
    monkeypatch.setattr(recording, "MAX_MOMENTS", 100)
    made = executed(GEMM)
    assert len(made.steps) <= 100
    assert made.cut > 400
    assert f"{made.cut} more steps are not given" in render([made])


# --------------------------------------------------------------------------------------------------- folding
def step(line: int, number: int) -> Step:
    return Step(number, 0, "r", "t", "1", line, "op", f"{line}", "", -2, 0, 0)


def unfolded(items: list) -> list[int]:
    found = []
    for item in items:
        if isinstance(item, Loop):
            for each in item.rounds:
                found += unfolded(list(each))
        else:
            found.append(item.number)
    return found


@given(st.lists(st.integers(1, 3), max_size=60))
def test_folding_loses_nothing(lines):
    steps = [step(line, number) for number, line in enumerate(lines)]
    assert unfolded(folded(steps)) == list(range(len(lines)))


def test_nested_loops_are_folded_inside_out():
    lines = [9]
    for tile in range(4):
        lines += [1, *([2, 3] * (5 + tile)), 4]
    made = folded([step(line, number) for number, line in enumerate(lines)])
    assert isinstance(made[0], Step)
    (outer,) = made[1:]
    assert isinstance(outer, Loop) and len(outer.rounds) == 4
    inner = [item for item in outer.rounds[2] if isinstance(item, Loop)]
    assert [len(loop.rounds) for loop in inner] == [7]


def test_the_text_says_what_it_leaves_out(gemm):
    text = render([gemm], limit=20)
    assert "more lines (--limit)" in text and "64 rounds:" in text
    assert "rounds:" not in render([gemm], fold=False)
    assert len(render([gemm], fold=False, limit=10**6).split("\n")) > len(gemm.steps)
