"""A blocked kernel: who waits for whom, the cycle, or the arrival that cannot come any more."""

from __future__ import annotations

from tests.handoffs.kernels import CROSSED, GEMM, NAMED, line_of, tables, traced
from warplint.tables import Deadlock


def blocked(text: str) -> Deadlock:
    made = tables(text).deadlock
    assert made is not None
    return made


def test_crossed_waits_are_a_cycle():
    made = blocked(CROSSED)
    waits = [line_of(CROSSED, "try_wait_parity(&a"), line_of(CROSSED, "try_wait_parity(&b")]
    arrives = [line_of(CROSSED, "arrive(&a"), line_of(CROSSED, "arrive(&b")]
    assert made.established and len(made.cycle) == 2
    assert {row.line for row in made.waiting} == set(waits)
    for wait, arrive in zip(waits, arrives, strict=True):
        step = next(step for step in made.cycle if f"waits at line {wait} " in step)
        assert f"which needs arrive at line {arrive} by" in step
    assert made.summary.startswith("a cycle of waits")


def test_named_barriers_that_both_wait_first():
    made = blocked(NAMED)
    assert len(made.cycle) == 2
    assert {row.line for row in made.waiting} == {line_of(NAMED, "bar.sync 1"), line_of(NAMED, "bar.sync 2")}


def test_an_end_that_has_left_its_loop_is_named():
    """The TMA loop runs 15 of 16 k tiles: the MMA warp waits for a copy that nobody issues any more."""
    text = GEMM.replace("for (int k = 0; k < 16; ++k)", "for (int k = 0; k < 15; ++k)")
    made = blocked(text)
    expect = line_of(text[text.index("gemm_step7_kernel(const") :], "arrive_expect_tx") + text[
        : text.index("gemm_step7_kernel(const")
    ].count("\n")
    assert f"line {expect}: nobody comes there any more" in made.summary
    assert made.summary.startswith("MMA (line ")
    assert not made.cycle, "no cycle: the chain ends in a loop that is over"


def test_a_count_that_is_too_large_is_counted():
    text = GEMM.replace(
        "(uint)128);\n  }\n  if ((warp_id_in_cta >> 2) == 0)", "(uint)129);\n  }\n  if ((warp_id_in_cta >> 2) == 0)"
    )
    assert text != GEMM
    made = blocked(text)
    row = next(row for row in made.waiting if row.role == "MMA")
    assert row.has.startswith("128 of 129 arrivals")
    assert "every place that arrives on it has done so" in row.needs[0]
    assert "128 of 129 arrivals" in made.summary


def test_bytes_that_nobody_brings_are_counted():
    text = CROSSED.replace(
        "    while (!ptx::mbarrier_try_wait_parity(&a, 0)) {}\n    ptx::mbarrier_arrive(&b);",
        "    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &a, 64);\n"
        "    while (!ptx::mbarrier_try_wait_parity(&a, 0)) {}\n    ptx::mbarrier_arrive(&b);",
    )
    row = next(row for row in blocked(text).waiting if "a" in row.what and "bytes" in row.has)
    assert "2048 bytes still missing" in row.has
    assert "no copy brings" in row.needs[0]


def test_a_wait_that_missed_its_phase_says_so():
    """Wrong initial parity of the accumulator barrier: the first wait needs a phase that waits for it."""
    text = GEMM.replace("wb_ps_phase_ptr[0] = 0;", "wb_ps_phase_ptr[0] = 1;", 1)
    made = blocked(text)
    assert len(made.cycle) == 2
    assert any("completed" in row.has and "passes only when" in row.has for row in made.waiting)


def test_lanes_that_wait_for_their_warp_come_last():
    text = GEMM.replace("for (int k = 0; k < 16; ++k)", "for (int k = 0; k < 15; ++k)")
    made = blocked(text)
    assert made.waiting[0].what.startswith("phase") and "the other lanes" in made.waiting[-1].what


def test_blocked_waits_are_marked_in_the_graph():
    made = tables(CROSSED)
    assert [edge.kind for edge in made.edges if edge.blocked] == ["waits", "waits"]


def test_a_block_that_rests_on_loaded_data_is_not_established():
    text = """\
namespace ptx = cuda::ptx;
extern "C" __global__ void __launch_bounds__(64) f(const int* n, float* out) {
  __shared__ unsigned long long a;
  if (threadIdx.x == 0) { ptx::mbarrier_init(&a, 32); }
  __syncthreads();
  int rounds = n[blockIdx.x];
  if (threadIdx.x < 32) {
    for (int i = 0; i < rounds; ++i) { while (!ptx::mbarrier_try_wait_parity(&a, i & 1)) {} }
  } else {
    for (int i = 0; i < 2; ++i) { ptx::mbarrier_arrive(&a); }
  }
}
"""
    recorded = traced(text).recorded
    assert recorded is not None
    blocks = [at for at, name in enumerate(recorded.scenarios) if name.endswith("(blocks)")]
    assert blocks and recorded.chosen not in blocks, "what rests on no facts is not what is shown first"
    made = tables(text, blocks[0]).deadlock
    assert made is not None and not made.established


def test_an_outcome_can_be_explained_afterwards():
    """For rules: the same explanation for an execution that was made without recorders."""
    from warplint.handoffs import why
    from warplint.machine import execute

    recorded = traced(CROSSED).recorded
    assert recorded is not None
    execution = execute(recorded.roles)
    made = why(execution, execution.outcomes[0])
    assert made == tables(CROSSED, 0).deadlock
    assert why(execute(traced(GEMM).recorded.roles), execution.outcomes[0].__class__("")) is None  # type: ignore[union-attr]


def test_bytes_that_are_not_expected_are_counted():
    """Half of the bytes expected: the phase stays open with a negative transaction count (hangs on an H200)."""
    from tests.handoffs.kernels import ARTIFACTS

    text = (ARTIFACTS.parent / "hardware" / "ring_half_the_bytes.cu").read_text()
    made = blocked(text)
    assert "copies brought 2048 bytes more than the phase expects" in made.summary
    full = [row for row in tables(text).handoffs if any(p.how == "copy" for p in row.producers)]
    assert [row.words for row in full] == [("full[0]", "full[1]")]


def test_an_expectation_alone_is_no_arrival():
    from tests.handoffs.kernels import ARTIFACTS

    text = (ARTIFACTS.parent / "hardware" / "ring_expect_without_arrive.cu").read_text()
    assert "only expects bytes: it does not arrive" in blocked(text).summary


def test_too_many_arrivals_are_not_counted_as_too_few():
    """All 32 lanes commit to a barrier of count 1: the barrier is broken, it does not wait for a 33rd arrival."""
    from tests.handoffs.kernels import ARTIFACTS

    text = (ARTIFACTS / "gemm_step7_commit_outside_elect_tvm026.cu").read_text()
    made = tables(text)
    assert made.deadlock is not None
    row = next(row for row in made.deadlock.waiting if row.role == "TMA load")
    assert row.has.startswith("32 arrivals, though its count is 1")
    assert "more often than the count leaves" in made.deadlock.summary
    assert any("32 arrivals, count 1" in text for handoff in made.handoffs for text in handoff.left)
