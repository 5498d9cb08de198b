"""HIP kernels as projects write them (fixtures/libraries/hip), each with one fault: the right rule must speak."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures import expectations
from warplint.engine import lint_bytes
from warplint.finding import Level

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "libraries" / "hip"
BARRIER = "    __builtin_amdgcn_s_barrier();\n"
SYNC = "  __syncthreads();\n"
FAULTS = [
    ("block_reduce_two_widths", "int numLanes = WARP_SIZE", "int numLanes = 32", "warp-size-assumption"),
    ("block_reduce_two_widths", f"  {SYNC}    val = (thr", "    val = (thr", "smem-race"),
    ("dot_product_by_waves", "  return 32;\n#endif", "  return 64;\n#endif", "warp-size-assumption"),
    ("dot_product_by_waves", f"sumf;\n  {SYNC}", "sumf;\n", "smem-race"),
    ("dot_product_by_waves", f"{SYNC}  if (warp > 0)", "  if (warp > 0)", "smem-race"),
    ("block_reduce_policy", "C10_WARP_SIZE >> 1", "32 >> 1", "warp-size-assumption"),
    ("block_reduce_policy", f"shared[wid] = val;\n{SYNC}", "shared[wid] = val;\n", "smem-race"),
    ("attention_direct_loads", 'asm volatile("s_waitcnt vmcnt(0)" ::: "memory");', "", "s-barrier-without-waitcnt"),
    ("attention_direct_loads", "s_waitcnt vmcnt(0)", "s_waitcnt vmcnt(4)", "waitcnt-too-weak"),
    ("attention_direct_loads", "s_waitcnt vmcnt(0)", "s_waitcnt lgkmcnt(0)", "waitcnt-wrong-counter"),
    ("attention_direct_loads", BARRIER, "", "smem-race"),
    ("attention_direct_loads", "p_lds[wave]", "p_lds[wave & 1]", "smem-race"),
    ("named_barriers_gfx1250", "full_bar, 8", "full_bar, 4", "smem-race"),
    ("named_barriers_gfx1250", "full_bar, 8", "full_bar, 9", "protocol-deadlock"),
    ("named_barriers_gfx1250", "__builtin_amdgcn_s_wait_dscnt(0);", "", "s-barrier-without-waitcnt"),
    ("radix_rank", f"{SYNC}  if (threadIdx.x < 16)", "  if (threadIdx.x < 16)", "smem-race"),
    ("radix_rank", "1ull << __lane_id()", "1u << __lane_id()", "wave64-mask-truncation"),
    ("radix_rank", "const unsigned long long vote", "const unsigned vote", "wave64-mask-truncation"),
    ("roles_with_equal_barriers", f"float s = 0.f;\n{BARRIER}", "float s = 0.f;\n", "cta-barrier-in-divergent-code"),
    ("roles_with_equal_barriers", "__builtin_amdgcn_s_waitcnt(0xc07f);", "", "s-barrier-without-waitcnt"),
    ("roles_with_equal_barriers", "0xc07f", "0x0f70", "waitcnt-wrong-counter"),
    ("cooperative_tiles", "  block.sync();\n", "", "smem-race"),
    ("gemm_composable_kernel", "__builtin_amdgcn_s_waitcnt(0xc07f); ", "", "s-barrier-without-waitcnt"),
    ("gemm_composable_kernel", "store(cur ^ 1)", "store(cur)", "smem-race"),
    ("gemm_pingpong", "  if (warp_row == 0) __builtin_amdgcn_s_barrier();\n", "", "cta-barrier-in-divergent-code"),
    ("gemm_pingpong", f"{BARRIER}{BARRIER}", BARRIER, "smem-race"),
    ("three_buffers_gfx950", "0x0f71", "0x0f72", "waitcnt-too-weak"),
    ("three_buffers_gfx950", "% 3", "% 2", "smem-race"),
    ("three_buffers_gfx950", BARRIER, "", "smem-race"),
    ("gemm_wmma_gfx12", "    __builtin_amdgcn_s_wait_dscnt(0);\n", "", "s-barrier-without-waitcnt"),
    ("gemm_wmma_gfx12", "    __builtin_amdgcn_s_barrier_wait(-1);\n", "", "smem-race"),
    ("gemm_wmma_gfx12", "buf ^= 1", "buf = 0", "smem-race"),
    ("block_scan", f"{SYNC}  if (flat < N)", "  if (flat < N)", "smem-race"),
    ("attention_ck_tile", "    block_sync_lds();\n    f4 s", "    f4 s", "smem-race"),
    ("attention_ck_tile", "    block_sync_lds();\n    half4 vb", "    half4 vb", "smem-race"),
    ("attention_ck_tile", "__builtin_amdgcn_s_waitcnt(0xc07f);", "", "s-barrier-without-waitcnt"),
    ("attention_ck_tile", "threadIdx.x / 64); }", "threadIdx.x / 32); }", "warp-size-assumption"),
    ("persistent_swizzled", "      __syncthreads();\n", "", "smem-race"),
    ("persistent_swizzled", "buf = k & 1", "buf = 0", "smem-race"),
    ("async_copies_gfx1250", "asynccnt(1)", "asynccnt(2)", "waitcnt-too-weak"),
    ("async_copies_gfx1250", "t % 3", "t % 2", "smem-race"),
    ("async_copies_gfx1250", "asynccnt", "dscnt", "waitcnt-wrong-counter"),
    ("compact_by_votes", "const unsigned long long mask", "const unsigned mask", "wave64-mask-truncation"),
    ("compact_by_votes", "__popcll", "__popc", "wave64-mask-truncation"),
    ("compact_by_votes", "lane = __lane_id()", "lane = threadIdx.x % 32", "warp-size-assumption"),
    ("loads_by_assembly", "lgkmcnt(0)\\n\\ts_barrier", "vmcnt(0)\\n\\ts_barrier", "waitcnt-wrong-counter"),
    ("loads_by_assembly", 'asm volatile("s_waitcnt vmcnt(0)" : "+v"(r) :: "memory");', "", "waitcnt-too-weak"),
    ("loads_by_assembly", "i & 1", "0", "smem-race"),
    ("transpose", SYNC, "", "smem-race"),
    ("tensor_copies_gfx1250", "s_wait_tensorcnt(1)", "s_wait_tensorcnt(2)", "waitcnt-too-weak"),
    ("tensor_copies_gfx1250", "s_wait_tensorcnt(0)", "s_wait_asynccnt(0)", "waitcnt-too-weak"),
    ("tensor_copies_gfx1250", "&ring[(t + 1) & 1][0]", "&ring[t & 1][0]", "waitcnt-too-weak"),
    ("tensor_copies_gfx1250", "if (wave == 0) __builtin_amdgcn_s_barrier_signal(-3);", "", "protocol-deadlock"),
]


@pytest.mark.parametrize(("name", "text", "instead", "rule"), FAULTS, ids=lambda value: str(value)[:30].strip())
def test_a_fault_is_found(name: str, text: str, instead: str, rule: str) -> None:
    source = (FIXTURES / f"{name}.hip").read_text()
    assert text in source
    report = lint_bytes(f"{name}.hip", source.replace(text, instead).encode(), expectations.settings(source))
    said = {finding.rule for kernel in report.kernels for finding in kernel.findings if finding.level is not Level.NOTE}
    assert rule in said
