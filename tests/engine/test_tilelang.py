"""TileLang's helpers as users meet them: what they do is what their templates (TileLang 0.1.15) do."""

from __future__ import annotations

import pytest

from warplint.dialects import names, tilelang_reduce
from warplint.engine import Settings, lint_bytes
from warplint.finding import FileReport, Level, Verdict

HEAD = 'extern "C" __global__ void __launch_bounds__(%d) k(float* out, const float* in, int* ints) {\n'


def lint(body: str, threads: int = 256, arch: str = "sm_90a", cluster: int = 1) -> FileReport:
    shape = (cluster, 1, 1) if cluster > 1 else None
    text = HEAD % threads + body + "\n}\n"
    return lint_bytes("k.cu", text.encode(), Settings(arch=arch, cluster=shape, level=Level.NOTE))


def loud(body: str, threads: int = 256, arch: str = "sm_90a", cluster: int = 1) -> set[str]:
    """The rules that speak above note; a reason for an incomplete verdict counts as such."""
    (kernel,) = lint(body, threads, arch, cluster).kernels
    said = {finding.rule for finding in kernel.findings if finding.level is not Level.NOTE}
    return said | {reason.text for reason in kernel.reasons}


# ------------------------------------------------------------------------------------------------- AllReduce
REDUCE = """  __shared__ __align__(16) float work[%d];
  float v = in[threadIdx.x];
  %s v = tl::AllReduce<tl::SumOp, %s>::run(v, (&(((float*)work)[0])));
  %s
  out[threadIdx.x] = v;"""


def test_all_reduce_meets_at_named_barriers_or_at_the_block_barrier() -> None:
    assert loud(REDUCE % (256, "", "256, 1, 0, tl::NamedBarrier<256>", "")) == set()
    assert loud(REDUCE % (256, "", "256, 1, 0", "")) == set()
    assert loud(REDUCE % (256, "", "128, 1, 0, tl::NamedBarrier<256>", "")) == set()


def test_all_reduce_of_a_part_needs_the_count_of_that_part() -> None:
    branch = "if (threadIdx.x >= 128)"
    assert loud(REDUCE % (128, branch, "128, 1, 128, tl::NamedBarrier<128>", "")) == set()
    assert "named-barrier-count-mismatch" in loud(REDUCE % (128, branch, "128, 1, 128, tl::NamedBarrier<256>", ""))
    assert "cta-barrier-in-divergent-code" in loud(REDUCE % (128, branch, "128, 1, 128", ""))


def test_all_reduce_uses_its_buffer() -> None:
    assert "smem-out-of-bounds" in loud(REDUCE % (64, "", "256, 1, 0", ""))
    assert "smem-race" in loud(REDUCE % (256, "", "256, 1, 0", "work[threadIdx.x ^ 128] = 1.f;"))
    assert loud(REDUCE % (256, "", "256, 1, 0", "__syncthreads(); work[threadIdx.x ^ 128] = 1.f;")) == set()


def test_all_reduce_within_a_warp_needs_no_buffer() -> None:
    body = "  float v = in[threadIdx.x]; v = tl::AllReduce<tl::MaxOp, 32, 1, 0>::run(v); out[threadIdx.x] = v;"
    assert loud(body) == set()
    assert "warp-collective-in-divergent-code" in loud(
        "  float v = 0; if (threadIdx.x % 32 < 8) v = tl::AllReduce<tl::MaxOp, 4, 1, 0>::run(v); out[threadIdx.x] = v;"
    )


@pytest.mark.parametrize(
    ("parameters", "rounds", "shuffles"),
    [("128,1,0", 2, 5), ("1024,1", 5, 5), ("64,16,0", 1, 1), ("256,64,0", 2, 0), ("32,1,0", 0, 5), ("64,64,0", 0, 0)],
)
def test_all_reduce_halves_the_distance_down_to_its_scale(parameters: str, rounds: int, shuffles: int) -> None:
    row = tilelang_reduce.systematic(f"tl::AllReduce<tl::SumOp,{parameters}>::run")
    assert row is not None
    assert row.code is not None
    assert row.code.body.count("__syncthreads") == 2 * rounds
    assert row.code.body.count("__shfl_xor_sync") == shuffles


def test_all_reduce_in_batches_shares_its_barriers() -> None:
    row = tilelang_reduce.systematic("tl::AllReduce<tl::SumOp,64,1,0,tl::NamedBarrier<64>,2,64>::run_batch")
    assert row is not None
    assert row.code is not None
    assert row.code.body.count("bar.sync") == 2
    assert "b[(threadIdx.x - 0) + 64] = x[1];" in row.code.body
    assert row.code.body.count("__shfl_xor_sync") == 10


@pytest.mark.parametrize("parameters", ["96,1,0", "64,3,0", "64,0,0", "4096,1,0", "64,1,0,tl::Other"])
def test_parameters_that_the_template_refuses_are_not_guessed(parameters: str) -> None:
    assert tilelang_reduce.systematic(f"tl::AllReduce<tl::SumOp,{parameters}>::run") is None


# ---------------------------------------------------------------------------------------------- other helpers
def test_a_commit_of_a_pair_arrives_in_both_ctas() -> None:
    """`tcgen05_mma_arrive<true>(bar)` is the multicast form with mask 3, `<false>` looks at no mask."""
    from tests.dialects.test_names import call

    pair = call("tl::tcgen05_mma_arrive", "&b", targs=("true",)).ops[-1]
    assert pair.mods["cta_group"] == 2
    assert "cta_mask" in pair.operands
    alone = call("tl::tcgen05_mma_arrive", "&b", targs=("false",)).ops[-1]
    assert alone.mods["cta_group"] == 1
    assert "cta_mask" not in alone.operands
    assert "cta_mask" not in call("tl::tcgen05_mma_arrive", "&b").ops[-1].operands


CLC = """  __shared__ __align__(16) unsigned result[4];
  __shared__ __align__(16) uint64_t arrived_mem[1];
  auto arrived = reinterpret_cast<Barrier*>(arrived_mem);
  if (threadIdx.x == 0) arrived[0].init(1);
  __syncthreads();
  for (int turn = 0; turn < 8; ++turn) {
    if (threadIdx.x == 0) {
      arrived[0].arrive_and_expect_tx(16);
      tl::clc_try_cancel((&(result[0])), (&(arrived[0])));
    }
    %s
    int more = tl::clc_is_canceled((&(result[0])));
    unsigned next = tl::clc_get_first_ctaid_x((&(result[0])));
    if (more == 0) break;
    out[next] = 1.f;
    __syncthreads();
  }"""


def test_the_response_of_a_launch_query_is_read_from_shared_memory() -> None:
    assert loud(CLC % "arrived[0].wait(turn & 1);", 64, "sm_100a") == set()
    assert any(
        "CLC response" in said or said == "async-data-used-before-wait" for said in loud(CLC % "", 64, "sm_100a")
    )


def test_helpers_of_full_warps_are_collectives() -> None:
    for call in ("tl::shfl_xor_sync(uint32_t(-1), v, 1)", "tl::warp_reduce_sum(v)"):
        body = f"  float v = in[threadIdx.x]; if (threadIdx.x %% 32 == 0) v = {call}; out[threadIdx.x] = v;"
        assert "warp-collective-in-divergent-code" in loud(body.replace("%%", "%"))


def test_a_role_by_warp_or_group_index_is_known() -> None:
    for test in ("tl::get_warp_group_idx() == 0", "tl::get_warp_idx() < 4", "tl::get_warp_idx(32) / 4 == 0"):
        assert "cta-barrier-in-divergent-code" in loud(f"  if ({test}) __syncthreads(); out[threadIdx.x] = 0.f;")
        body = f"  if ({test}) {{ tl::__sync_thread_partial(1, 128); }} out[threadIdx.x] = 0.f;"
        assert loud(body) == set()


def test_accesses_of_a_fixed_width_are_accesses() -> None:
    body = """  __shared__ __align__(16) unsigned tile[256];
  tl::store_shared_32((&(tile[threadIdx.x])), 1u); %s
  out[threadIdx.x] = tl::load_shared_32((&(tile[threadIdx.x ^ 64])));"""
    assert loud(body % "__syncthreads();") == set()
    assert loud(body % "") == {"smem-race"}


@pytest.mark.parametrize("arch", ["sm_90a", "gfx942"])
def test_a_scan_is_done_by_one_warp(arch: str) -> None:
    body = """  __shared__ int line[256];
  line[threadIdx.x] = ints[threadIdx.x]; %s
  tl::CumSum1D<256, false>::run((&(line[0])), (&(line[0])), 256); %s
  out[threadIdx.x] = line[threadIdx.x];"""
    assert loud(body % ("__syncthreads();", "__syncthreads();"), arch=arch) == set()
    assert loud(body % ("__syncthreads();", ""), arch=arch) == {"smem-race"}


def test_a_descriptor_names_the_memory_that_an_mma_reads() -> None:
    body = """  __shared__ __align__(1024) half_t tile[8192];
  float c[64];
  tile[threadIdx.x] = 1;
  %s __syncthreads();
  tl::GmmaDescriptor desc_a; tl::GmmaDescriptor desc_b;
  tl::initialize_wgmma_descriptor<1, 1, 64>(desc_a, (&(tile[0])));
  tl::initialize_wgmma_descriptor<1, 1, 64>(desc_b, (&(tile[4096])));
  tl::increase_descriptor_offset<int>(desc_a, 32);
  tl::warpgroup_arrive();
  tl::wgmma_ss<tl::DataType::kFloat16, tl::DataType::kFloat16, tl::DataType::kFloat32, 64, 64, 16, false, false, 1, 1>
    (uint64_t(desc_a), uint64_t(desc_b), ((uint32_t*)(c + 0)), 1);
  tl::warpgroup_commit_batch();
  tl::warpgroup_wait<0>();
  out[threadIdx.x] = c[0];"""
    assert loud(body % "tl::fence_proxy_async();", 128) == set()
    assert loud(body % "", 128) == {"missing-proxy-fence"}


def test_a_pair_load_counts_its_bytes_in_the_even_cta() -> None:
    row = names.lookup("tl::tma_load_2sm", names.NVIDIA, 5)
    assert row is not None
    assert row.code is not None
    assert "0xFEFFFFFF" in row.code.body


# --------------------------------------------------------------------------------------------- what waits idle
RING = """  __shared__ __align__(16) uint64_t bars_mem[2];
  auto bars = reinterpret_cast<Barrier*>(bars_mem);
  __shared__ __align__(128) float tile[32];
  if (tl::tl_shuffle_elect<0>()) { bars[0].init(1); bars[1].init(32); }
  tl::fence_barrier_init();
  __syncthreads();
  if (threadIdx.x < 64) {
    for (int i = 0; i < 8; ++i) {
      bars[1].wait((i & 1) ^ 1);
      if (tl::tl_shuffle_elect<64>()) {
        bars[0].arrive_and_expect_tx(128);
        tl::tma_load((&(tile[0])), (&(in[i * 32])), bars[0], 128);
      }
      %s
    }
  } else {
    for (int i = 0; i < 8; ++i) {
      bars[0].wait(i & 1);
      out[i] = tile[threadIdx.x - 64];
      bars[1].arrive();
    }
  }"""


def test_warps_that_only_wait_are_worth_a_note() -> None:
    (kernel,) = lint(RING % "", 96).kernels
    assert ("mbarrier-phase-error", Level.NOTE) in {(f.rule, f.level) for f in kernel.findings}
    assert not [f.rule for f in kernel.findings if f.level is not Level.NOTE]
    assert kernel.verdict is not Verdict.INCOMPLETE


def test_warps_that_wait_and_then_work_are_worth_a_warning() -> None:
    (kernel,) = lint(RING % "if (threadIdx.x >= 32) out[64] = tile[threadIdx.x - 32];", 96).kernels
    assert ("mbarrier-phase-error", Level.NOTE) not in {(f.rule, f.level) for f in kernel.findings}
    assert [f for f in kernel.findings if f.level is not Level.NOTE]


# ------------------------------------------------------------------------------- races between parts of a block
@pytest.mark.parametrize("before", ["", "if (threadIdx.x == 0) flag[0] = 0;", "if (threadIdx.x < 48) flag[1] = 0;"])
def test_a_warp_divided_before_hides_no_race(before: str) -> None:
    body = """  __shared__ int bins[320], flag[2];
  %s
  __syncthreads();
  int other = bins[threadIdx.x + 64]; %s
  bins[threadIdx.x] = other;
  __syncthreads();
  out[threadIdx.x] = bins[threadIdx.x];"""
    assert loud(body % (before, "")) == {"smem-race"}
    assert loud(body % (before, "__syncthreads();")) == set()
