"""The counting objects against the documented semantics (PTX ISA 9.7.13.15; the phase table was measured on
hardware)."""

from __future__ import annotations

import pytest

from warplint.machine.barriers import Arrival, ClusterBarrier, Mbarrier, NamedBarrier
from warplint.source import Span

HERE = Span(0, 1)


def arrival(count: int = 1, expect: int = 0, complete: int = 0) -> Arrival:
    return Arrival(0, 1, HERE, count, expect, complete)


@pytest.mark.parametrize(
    ("completions", "passes_zero", "passes_one"), [(0, False, True), (1, True, False), (2, False, True)]
)
def test_phase_table(completions: int, passes_zero: bool, passes_one: bool) -> None:
    barrier = Mbarrier(0, "bar", 1, HERE)
    for _ in range(completions):
        assert not barrier.arrive(arrival(), {})
    assert barrier.passes(0) is passes_zero
    assert barrier.passes(1) is passes_one


def test_a_phase_needs_all_arrivals_and_all_bytes() -> None:
    barrier = Mbarrier(0, "bar", 2, HERE)
    barrier.arrive(arrival(1, expect=512), {})
    barrier.arrive(arrival(1), {})
    assert barrier.completed == 0, "bytes are still expected"
    barrier.arrive(arrival(0, complete=512), {})
    assert barrier.completed == 1


def test_bytes_may_arrive_before_they_are_expected() -> None:
    barrier = Mbarrier(0, "bar", 1, HERE)
    barrier.arrive(arrival(0, complete=512), {})
    assert barrier.tx == -512
    assert barrier.completed == 0
    barrier.arrive(arrival(1, expect=512), {})
    assert barrier.completed == 1


def test_arrive_without_expect_flips_before_the_data_lands() -> None:
    barrier = Mbarrier(0, "bar", 1, HERE)
    barrier.arrive(arrival(1), {})
    barrier.arrive(arrival(0, complete=512), {})
    assert barrier.completed == 1
    assert barrier.tx == -512, "the late bytes leave the next phase short"


def test_over_arrival_is_a_fault_and_changes_nothing_else() -> None:
    barrier = Mbarrier(0, "bar", 1, HERE)
    assert barrier.arrive(arrival(2), {}) == "over-arrival"
    assert barrier.completed == 0


def test_waiters_learn_what_the_arrivals_of_the_phase_released() -> None:
    barrier = Mbarrier(0, "bar", 2, HERE)
    barrier.arrive(arrival(), {"a": 3})
    barrier.arrive(arrival(), {"b": 5})
    assert barrier.handed[0] == {"a": 3, "b": 5}


def test_arrive_drop_lowers_later_phases() -> None:
    barrier = Mbarrier(0, "bar", 2, HERE)
    barrier.drop(1)
    barrier.arrive(arrival(2), {})
    assert barrier.pending == 1


def test_named_barrier_counts_warps_and_faults_on_another_count() -> None:
    barrier = NamedBarrier(0, 1)
    assert not barrier.arrive(0, 2, HERE, True, {})
    assert not barrier.complete()
    assert barrier.arrive(1, 3, HERE, True, {}) == "count-differs"
    assert not barrier.arrive(1, 2, HERE, False, {"x": 1})
    assert barrier.complete()
    assert barrier.handed[0] == {"x": 1}


def test_named_barrier_counts_executions_by_warps_not_distinct_warps() -> None:
    """Measured on an H200: `bar.arrive 1, 64` and then `bar.sync 1, 64` by one warp alone completes."""
    barrier = NamedBarrier(0, 1)
    assert not barrier.arrive(0, 2, HERE, False, {}, 0xFFFFFFFF)
    assert not barrier.complete()
    assert not barrier.arrive(0, 2, HERE, True, {}, 0xFFFFFFFF)
    assert barrier.complete()


def test_lanes_of_a_warp_that_come_apart_are_one_execution_of_a_named_barrier() -> None:
    """Measured on an H200: lane 0 at `barrier.arrive` and lane 1 at `barrier.sync`, count 64, hang."""
    barrier = NamedBarrier(0, 1)
    assert not barrier.arrive(0, 2, HERE, False, {}, 0b01)
    assert not barrier.arrive(0, 2, HERE, True, {}, 0b10)
    assert not barrier.complete()


def test_cluster_barrier_waits_for_every_live_thread_of_every_cta() -> None:
    barrier = ClusterBarrier()
    assert not barrier.arrive(0, 0b11, {})
    assert not barrier.complete({0: 0b11, 1: 0b11})
    assert barrier.arrive(0, 0b01, {}) == "re-arrival"
    assert not barrier.arrive(1, 0b01, {})
    assert barrier.complete({0: 0b11, 1: 0b01}), "an exited thread is not waited for"
