"""Good HIP fixtures with one wait or barrier deleted: each deletion must be noticed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fixtures import expectations
from warplint.engine import lint_bytes
from warplint.finding import Level

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
SYNC = re.compile(
    r'asm volatile\("[^"]*s_waitcnt[^"]*"[^;]*;|__builtin_amdgcn_s_(?:wait\w+|barrier\w*)\([^)]*\);'
    r"|wait_(?:vm|lgkm)<\d>\(\);|__syncthreads\(\);|(?<!:)block_sync_lds\(\);"
)
EQUIVALENT = {
    ("pingpong_direct_loads.hip", 25): "the stagger itself: without it all waves go in step",
    ("hip_barriers_in_both_roles.hip", 21): "the value was used on the line before",
}
"""Deletions that change nothing, with the reason."""
GOOD = [
    "amd/waitcnt-too-weak/gemm_three_stages.hip",
    "amd/waitcnt-too-weak/pingpong_direct_loads.hip",
    "amd/waitcnt-too-weak/prefetch_drained.hip",
    "amd/s-barrier-without-waitcnt/gemm_double_buffer.hip",
    "amd/s-barrier-without-waitcnt/ck_double_buffer.hip",
    "amd/s-barrier-without-waitcnt/packed_wait.hip",
    "amd/s-barrier-without-waitcnt/split_barrier_gfx12.hip",
    "amd/waitcnt-wrong-counter/hipkittens_buffer_load.hip",
    "amd/waitcnt-wrong-counter/load_to_lds_waited.hip",
    "participation/cta-barrier-in-divergent-code/hip_barriers_in_both_roles.hip",
]


@pytest.mark.parametrize("name", GOOD)
def test_each_deletion_is_noticed(name: str) -> None:
    text = (FIXTURES / name).read_text()
    options = expectations.settings(text)
    survivors, deleted = [], 0
    for match in SYNC.finditer(text, text.index("__global__")):
        deleted += 1
        report = lint_bytes("k.hip", (text[: match.start()] + ";" + text[match.end() :]).encode(), options)
        said = [finding for kernel in report.kernels for finding in kernel.findings if finding.level is not Level.NOTE]
        line = text.count("\n", 0, match.start()) + 1
        if not said and ((Path(name).name, line) not in EQUIVALENT):
            survivors.append(f"line {line}: {match[0]}")
    assert deleted > 2
    assert not survivors
