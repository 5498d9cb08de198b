"""Branches on data: what may be called established when nothing says which way they are taken."""

from __future__ import annotations

import pytest

from warplint.machine import Execution, execute
from warplint.machine.ways import Way, others
from warplint.machine.world import Budget
from warplint.program import Options, lower
from warplint.source import SourceFile, Span
from warplint.syntax import parse
from warplint.threads import analyze
from warplint.threads.facts import Uniformity


def executed(body: str, budget: Budget | None = None) -> Execution:
    """A kernel of 128 threads that may use `p` (global), `n` (a size) and `s` (shared)."""
    text = "__global__ void __launch_bounds__(128) k(int *p, int n) {\n  __shared__ int s[256];\n" + body + "\n}\n"
    text += "int main() { k<<<1, 128>>>(0, 0); }\n"
    source = SourceFile("k.cu", text.encode())
    (kernel,) = lower(parse(source), source, Options(arch="sm_90a")).kernels
    return execute(analyze(kernel)[0], budget)


def reasons(execution: Execution) -> str:
    return "; ".join(reason.reason for reason in execution.incomplete)


def remarks(execution: Execution) -> str:
    return "; ".join(text for outcome in execution.outcomes for text, _ in outcome.remarks)


def test_a_barrier_that_counts_on_warps_chosen_by_data_is_not_established() -> None:
    execution = executed('  if (p[threadIdx.x / 32] <= 1) { asm volatile("bar.sync 1, 64;"); }')
    assert "depends on data" in reasons(execution)
    assert "wait for ever" in reasons(execution)


def test_a_barrier_of_each_warp_alone_holds_whoever_takes_the_branch() -> None:
    body = '  if (p[threadIdx.x / 32] <= 1) { asm volatile("bar.sync %0, 32;" :: "r"((int)threadIdx.x / 32 + 1)); }'
    execution = executed(body)
    assert not execution.incomplete
    assert "nothing changes" in remarks(execution)


def test_cta_barrier_under_data_of_the_warp_is_not_established() -> None:
    body = "  s[threadIdx.x] = 1;\n  if (p[threadIdx.x / 32]) __syncthreads();\n  p[0] = s[127 - threadIdx.x];"
    assert "depends on data" in reasons(executed(body))


def test_a_race_that_every_way_shows_is_established() -> None:
    body = '  if (p[threadIdx.x / 32]) { asm volatile("bar.sync %0, 32;" :: "r"((int)threadIdx.x / 32 + 1)); }'
    (outcome, *_) = executed(body + "\n  s[threadIdx.x] = 1; p[0] = s[127 - threadIdx.x];").outcomes
    assert outcome.hazards
    assert not outcome.guesses


def test_what_all_threads_reduced_is_the_same_for_all() -> None:
    body = "  if (__syncthreads_or(p[threadIdx.x])) { s[threadIdx.x] = 1; __syncthreads(); p[0] = s[1]; }"
    execution = executed(body)
    assert not execution.incomplete
    assert not any(outcome.blocked or outcome.hazards for outcome in execution.outcomes)


COPIES = """
  int mine = p[threadIdx.x];
  for (int i = 0; i < mine; ++i) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;"
                 :: "r"((unsigned)__cvta_generic_to_shared(&s[threadIdx.x])), "l"(p + i));
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group 0;");
    p[i] = s[SLOT];
  }
"""


def test_a_loop_that_data_ends_with_copies_of_each_thread_alone() -> None:
    execution = executed(COPIES.replace("SLOT", "threadIdx.x"))
    assert not execution.incomplete
    assert not any(outcome.hazards for outcome in execution.outcomes)


def test_the_same_loop_reading_another_threads_copy_is_a_hazard() -> None:
    assert any(outcome.hazards for outcome in executed(COPIES.replace("SLOT", "127 - threadIdx.x")).outcomes)


def test_an_assertion_on_data_is_taken_to_hold() -> None:
    execution = executed("  if (p[threadIdx.x] < 0) { __trap(); }\n  s[threadIdx.x] = 1; __syncthreads(); p[1] = s[0];")
    assert not execution.incomplete


SPIN = "  if (threadIdx.x == 0) {{ while (*(volatile int *){word} == 0) {{ }} }}\n  __syncthreads();"


def test_a_wait_for_global_memory_is_taken_to_end_and_leaves_the_verdict_open() -> None:
    execution = executed(SPIN.format(word="p"))
    assert "taken to end" in reasons(execution)
    assert all(outcome.established for outcome in execution.outcomes)


def test_a_wait_for_shared_memory_is_not_established() -> None:
    assert "waits for a word of memory" in reasons(executed(SPIN.format(word="&s[0]")))


LONG_LOOP = "  for (int i = 0; i < {count}; ++i) {{ s[threadIdx.x] = i; __syncthreads(); }}"


def test_an_execution_that_is_too_long_is_tried_with_smaller_sizes() -> None:
    execution = executed("  int many = (n + 4095) / 4096 * 400;\n" + LONG_LOOP.format(count="many * (n > 3)"))
    assert execution.outcomes[0].finished


def test_a_long_loop_of_fixed_size_gets_more_patience_than_a_given_budget() -> None:
    loop = LONG_LOOP.replace("s[threadIdx.x]", "s[threadIdx.x ^ (i * i & 31)]")  # nothing repeats
    body = "".join(loop.format(count=500) for _ in range(32))
    assert "stopped" in reasons(executed(body, Budget()))
    assert not executed(body).incomplete


def test_a_long_loop_that_does_the_same_again_is_not_executed_to_its_end() -> None:
    body = "".join(LONG_LOOP.format(count=5000) for _ in range(40))
    (outcome,) = executed(body, Budget()).outcomes
    assert outcome.finished
    assert not outcome.incomplete
    assert all(repeat.times > 4900 for repeat in outcome.repeats)


@pytest.mark.parametrize(
    ("floor", "ways"),
    [
        (Uniformity.CTA, {Way.ALWAYS, Way.NEVER}),
        (Uniformity.WARP, {Way.ALWAYS, Way.NEVER, Way.WARPS, Way.ONE, Way.OTHERS}),
        (Uniformity.LANE, {*Way} - {Way.TURNS}),
    ],
)
def test_how_far_a_value_is_uniform_decides_who_may_differ(floor: Uniformity, ways: set[Way]) -> None:
    assert {*others({("branch", Span(0, 1)): floor})} == ways


WARP_COPIES = """
  __shared__ unsigned long long bars[4];
  int warp = threadIdx.x / 32;
  unsigned bar = (unsigned)__cvta_generic_to_shared(&bars[warp]);
  unsigned to = (unsigned)__cvta_generic_to_shared(&s[warp * 32]);
  if (threadIdx.x % 32 == 0) {
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(bar));
    asm volatile("fence.mbarrier_init.release.cluster;");
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 128;" :: "r"(bar) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 128, [%2];"
                 :: "r"(to), "l"(p), "r"(bar) : "memory");
    asm volatile("{ .reg .pred q; W: mbarrier.try_wait.parity.shared.b64 q, [%0], 0; @!q bra W; }" :: "r"(bar));
  }
  JOIN
  p[threadIdx.x] = s[threadIdx.x];
"""


@pytest.mark.parametrize(("join", "raced"), [("__syncwarp();", False), ("", True)])
def test_a_warp_need_not_know_of_other_warps_copies(join: str, raced: bool) -> None:
    execution = executed(WARP_COPIES.replace("JOIN", join))
    assert not execution.incomplete
    assert any(outcome.hazards for outcome in execution.outcomes) is raced
