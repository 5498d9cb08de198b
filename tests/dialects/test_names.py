# ruff: noqa: E501 (tables read better a row a line)
"""Calls by name: the tables are well formed, and names mean what the instructions of their helpers do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import warplint.ops as ops
from tests.dialects.build import HERE, operands, show
from warplint.dialects import names, tirx_names
from warplint.dialects.row_check import problem
from warplint.syntax import ast, parse_expression, parse_statements

TABLES = sorted(path.stem for path in (Path(names.__file__).parent / "tables").glob("*.toml"))
LINES = [(table, key, line) for table in TABLES for key, line in names.rows(table).items()]
REGISTERS = re.compile(
    r"(?:n?tid|n?ctaid|n?clusterid|cluster_n?ctaid)\.[xyz]|laneid|warpid|smid|clock|linear_tid|cluster_n?ctarank|\$\w+"
)


class Captured(dict[str, str]):
    """Stands for whatever a placeholder matched."""

    def __missing__(self, key: str) -> str:
        return "1"


def _all(row: names.NameRow | None):
    while row is not None:
        yield row
        row = row.otherwise


@pytest.mark.parametrize(("table", "key", "line"), LINES, ids=[f"{t}:{k.split()[0]}" for t, k, _ in LINES])
def test_line(table: str, key: str, line: str) -> None:
    """Every line names an operation with roles that it has, and results that exist."""
    assert problem(key, line) == ""
    placeholders = set(re.findall(r"\{(\w+)\}", key))
    assert set(re.findall(r"\$(\w+)", line)) <= placeholders
    for spelling in key.split():
        assert set(re.findall(r"\{(\w+)\}", spelling)) <= placeholders
        assert re.fullmatch(r"[\w:{}<>,~]+(/\d+)?", spelling), spelling
    captured = Captured({name: {"sem": "relaxed", "scope": "gpu"}.get(name, "1") for name in placeholders})
    for row in _all(names.read(line, captured)):
        for op in row.ops:
            spec = ops.spec(op.name)
            for role, where in op.operands:
                assert role.partition(".")[0] in spec.operands, (role, op.name)
                assert where.kind in ("arg", "targ", "const", "out")
            given = {role.partition(".")[0] for role, _ in op.operands}
            for role in spec.operands:
                if role in spec.optional or role in ("coords", "bytes", "id"):
                    continue
                assert role in given or op.name in _OPEN, f"{op.name} without {role}"
            for _, output in op.outputs:
                assert output in spec.outputs
        if row.code is not None:
            assert not row.ops and not row.result
            body = parse_statements(row.code.body + ";", HERE)
            assert not [stmt for stmt in body if isinstance(stmt, ast.Gap)]
            assert not isinstance(parse_expression(row.code.value or "0", HERE), ast.Unparsed)
        result = row.result
        if result.startswith("^"):
            assert result[1:] in ops.spec(row.ops[-2].name).outputs
        elif result.startswith("%"):
            assert REGISTERS.fullmatch(re.split("[/%]", result[1:])[0]) or "{" in key
        elif result and not result.startswith(("arg:", "#", "?")):
            assert result in ops.spec(row.ops[-1].name).outputs


_OPEN = {"tcgen05.cp", "tcgen05.ld", "tcgen05.st", "redux.sync", "atom", "amd.dpp", "shfl.sync", "stmatrix", "ldmatrix"}
"""Operations whose helper hides an operand behind its own address arithmetic."""


@pytest.mark.parametrize("family", sorted({re.sub(r"_[a-z]$", "", table) for table in TABLES}))
def test_no_spelling_twice(family: str) -> None:
    """Within one table (TIRx has a file for each generation) a spelling stands once."""
    spellings = [
        spelling
        for table in TABLES
        if re.sub(r"_[a-z]$", "", table) == family
        for key in names.rows(table)
        for spelling in key.split()
    ]
    assert sorted(spellings) == sorted(set(spellings))


# -------------------------------------------------------------------------------------------------- look-up
def call(name: str, *args: str | int, targs: tuple[int | str, ...] = (), tables=names.NVIDIA):
    row = names.lookup(name, tables, len(args))
    assert row is not None, name
    return names.bind(row, tuple(_expr(a) for a in args), tuple(_expr(t) for t in targs), HERE)


def _expr(value: str | int) -> ast.Expr:
    if isinstance(value, int):
        return ast.Num(HERE, value)
    if value[0] == "&":
        return ast.Unary(HERE, "&", _expr(value[1:]))
    return ast.Str(HERE, value[1:]) if value[0] == "'" else ast.Name(HERE, value)


def text(result: names.CallResult) -> str:
    parts = []
    for op in result.ops:
        predicate = f" @{show(op.predicate)}" if op.predicate is not None else ""
        parts.append(f"{op.name} {operands(op)}".strip() + predicate)
    return "; ".join(parts)


CALLS = [
    # CUDA
    ("__syncthreads", (), "bar.sync.cta"),
    ("::__syncthreads", (), "bar.sync.cta"),
    ("__syncthreads_or", ("p",), "bar.red.cta value=p"),
    ("__syncwarp", (), "bar.warp.sync mask=4294967295"),
    ("__syncwarp", ("m",), "bar.warp.sync mask=m"),
    ("__shfl_sync", ("m", "v", "l"), "shfl.sync lane=l mask=m value=v"),
    ("__shfl_xor_sync", ("m", "v", "l", 16), "shfl.sync lane=l mask=m value=v width=16"),
    ("__reduce_max_sync", ("m", "v"), "redux.sync mask=m value=v"),
    ("atomicCAS", ("a", "c", "v"), "atom compare=c dst=a value=v"),
    ("atomicAdd_system", ("a", "v"), "atom dst=a value=v"),
    ("cudaGridDependencySynchronize", (), "griddepcontrol.wait"),
    # TIRx 0.27
    ("tvm_builtin_ptx_mbarrier_init_init_shared_b64", ("b", "n"), "mbarrier.init barrier=b count=n"),
    ("tvm_builtin_ptx_mbarrier_arrive_arrive_shared_b64", ("b", "n"), "mbarrier.arrive barrier=b count=n"),
    ("tvm_builtin_ptx_mbarrier_arrive_nocount_arrive_shared__cluster_b64_pred", ("b", "p"), "mbarrier.arrive barrier=b count=1 @(p != 0)"),
    ("tvm_builtin_ptx_mbarrier_arrive_count_state_arrive_shared__cta_b64", ("s", "b", "n"), "mbarrier.arrive barrier=b count=n"),
    ("tvm_builtin_ptx_mbarrier_arrive_expect_tx_arrive_expect_tx_release_cta_shared__cta_b64", ("b", "n"),
     "mbarrier.arrive.expect_tx barrier=b bytes=n count=1"),
    ("tvm_builtin_ptx_mbarrier_expect_tx_expect_tx_relaxed_cta_shared__cta_b64", ("b", "n"), "mbarrier.expect_tx barrier=b bytes=n"),
    ("tvm_builtin_cuda_mbarrier_wait", ("b", "ph"), "mbarrier.try_wait barrier=b parity=ph"),
    ("tvm_builtin_ptx_mbarrier_try_wait_parity_no_hint_try_wait_parity_acquire_cta_shared__cta_b64", ("d", "b", "ph"),
     "mbarrier.try_wait barrier=b parity=ph"),
    ("tvm_builtin_ptx_cp_async_bulk_tensor_g2s_cluster_async_bulk_tensor_2d_shared__cluster_global_mbarrier__complete_tx__bytes_cta_group__1",
     ("d", "m", "x", "y", "b"), "cp.async.bulk.tensor.load barrier=b coords.0=x coords.1=y dst=d map=m"),
    ("tvm_builtin_ptx_cp_async_bulk_tensor_g2s_cluster_async_bulk_tensor_2d_shared__cluster_global_tile__gather4_mbarrier__complete_tx__bytes_cta_group__2_L2__cache_hint",
     ("d", "m", "x", "a", "e", "f", "g", "b", "p"),
     "cp.async.bulk.tensor.load barrier=b coords.0=x coords.1=a coords.2=e coords.3=f coords.4=g dst=d map=m"),
    ("tvm_builtin_ptx_cp_async_bulk_tensor_s2g_async_bulk_tensor_3d_global_shared__cta_tile_bulk_group_pred", ("m", "x", "y", "z", "s", "p"),
     "cp.async.bulk.tensor.store coords.0=x coords.1=y coords.2=z map=m src=s @(p != 0)"),
    ("tvm_builtin_ptx_cp_async_bulk_wait_group_async_bulk_wait_group_read_1", (), "cp.async.bulk.wait_group group=1"),
    ("tvm_builtin_ptx_cp_async_ca_src_size_async_ca_shared_global_16", ("d", "s", "n"), "cp.async bytes=16 dst=d src=s src_bytes=n"),
    ("tvm_builtin_ptx_setmaxnreg_inc_sync_aligned_u32_200", (), "setmaxnreg registers=200"),
    ("tvm_builtin_ptx_bar_sync_count_sync", ("i", "n"), "bar.sync.named id=i threads=n"),
    ("tvm_builtin_ptx_bar_sync_sync", ("i",), "bar.sync.named id=i"),
    ("tvm_builtin_ptx_bar_sync_sync", (0,), "bar.sync.cta"),
    ("tvm_builtin_ptx_barrier_sync_count_sync", ("i", "n"), "barrier.nonaligned id=i threads=n"),
    ("tvm_builtin_ptx_bar_arrive_arrive", ("i", "n"), "bar.arrive.named id=i threads=n"),
    ("tvm_builtin_ptx_barrier_cluster_arrive_cluster_arrive_relaxed_aligned", (), "barrier.cluster.arrive"),
    ("tvm_builtin_ptx_fence_mbarrier_init_mbarrier_init_release_cluster", (), "fence.mbarrier_init.release.cluster"),
    ("tvm_builtin_ptx_fence_proxy_proxy_async_shared__cta", (), "fence.proxy.async"),
    ("tvm_builtin_ptx_tcgen05_alloc_alloc_cta_group__2_sync_aligned_shared__cta_b32", ("s", "n"), "tcgen05.alloc columns=n slot=s"),
    ("tvm_builtin_ptx_tcgen05_mma_ss_mma_cta_group__1_kind__f16_pred", tuple("tabiwxyzep"),
     "tcgen05.mma accumulate=e address=t desc_a=a desc_b=b idesc=i @(p != 0)"),
    ("tvm_builtin_ptx_tcgen05_mma_ts_mma_cta_group__2_kind__f16", ("t", "a", "b", "i", *"stuvwxyz", "e"),
     "tcgen05.mma a_address=a accumulate=e address=t desc_b=b idesc=i"),
    ("tvm_builtin_ptx_tcgen05_commit_multicast_commit_cta_group__2_mbarrier__arrive__one_shared__cluster_multicast__cluster_b64", ("b", "k"),
     "tcgen05.commit barrier=b cta_mask=k"),
    ("tvm_builtin_ptx_tcgen05_ld_ld_sync_aligned_32x32b_x2_b32_f32", ("x", "y", "t"), "tcgen05.ld address=t"),
    ("tvm_builtin_ptx_tcgen05_wait_wait__st_sync_aligned", (), "tcgen05.wait"),
    ("tvm_builtin_ptx_tcgen05_fence_fence__after_thread_sync", (), "tcgen05.fence.after_thread_sync"),
    ("tvm_builtin_ptx_mapa_u32_shared__cluster_u32", ("d", "b", "r"), "mapa cta=r src=b"),
    ("tvm_builtin_ptx_ld_acquire_gpu_global_b32", ("d", "a"), "ld.acquire bytes=4 src=a"),
    ("tvm_builtin_ptx_vote_sync_any_pred", ("d", "v", "m"), "vote.sync mask=m value=v"),
    ("tvm_builtin_ptx_clusterlaunchcontrol_try_cancel_try_cancel_async_shared__cta_mbarrier__complete_tx__bytes_multicast__cluster__all_b128",
     ("r", "b"), "clusterlaunchcontrol.try_cancel barrier=b bytes=16 dst=r"),
    ("tvm_builtin_ptx_add_f32", ("d", "a", "b"), ""),
    # TIRx 0.26
    ("tvm_builtin_ptx_mbarrier_init", ("b", 1), "mbarrier.init barrier=b count=1"),
    ("tvm_builtin_ptx_mbarrier_arrive_shared", ("b",), "mbarrier.arrive barrier=b count=1"),
    ("tvm_builtin_ptx_mbarrier_arrive_shared_cluster_remote_pred", ("b", "r", "p"), "mbarrier.arrive barrier=b count=1 cta=r @(p != 0)"),
    ("tvm_builtin_ptx_mbarrier_arrive_expect_tx_shared", ("b", 32768), "mbarrier.arrive.expect_tx barrier=b bytes=32768 count=1"),
    ("tvm_builtin_ptx_mbarrier_arrive_expect_tx_shared_cluster_remote_pred", ("b", "n", "r", "p"),
     "mbarrier.arrive.expect_tx barrier=b bytes=n count=1 cta=r @(p != 0)"),
    ("tvm_builtin_ptx_mbarrier_complete_tx_relaxed_cluster_shared_cluster_remote_pred", ("b", "n", "r", "p"),
     "mbarrier.complete_tx barrier=b bytes=n cta=r @(p != 0)"),
    ("tvm_builtin_ptx_mbarrier_try_wait", ("b", "ph"), "mbarrier.try_wait barrier=b parity=ph"),
    ("ptx_cp_async_bulk_tensor_g2s_cluster_tile_2d", ("d", "b", "m", "k", "p", "x", "y"),
     "cp.async.bulk.tensor.load barrier=b coords.0=x coords.1=y dst=d map=m"),
    ("ptx_cp_async_bulk_tensor_g2s_cluster_tile_3d_multicast_cache_hint", ("d", "b", "m", "k", "p", "x", "y", "z"),
     "cp.async.bulk.tensor.load barrier=b coords.0=x coords.1=y coords.2=z cta_mask=k dst=d map=m"),
    ("ptx_cp_async_bulk_tensor_shared_to_global_2d", ("s", "m", "p", "x", "y"), "cp.async.bulk.tensor.store coords.0=x coords.1=y map=m src=s"),
    ("ptx_cp_async_bulk_wait_group_read_0", (), "cp.async.bulk.wait_group group=0"),
    ("ptx_tcgen05_mma_cta_1_kind_f16_SS", ("t", "a", "b", "i", "e", *"wxyz"), "tcgen05.mma accumulate=e address=t desc_a=a desc_b=b idesc=i"),
    ("ptx_tcgen05_mma_cta_2_kind_f16_TS_pred", ("t", "a", "b", "i", "e", *"stuvwxyz", "p"),
     "tcgen05.mma a_address=a accumulate=e address=t desc_b=b idesc=i @(p != 0)"),
    ("ptx_tcgen05_commit_cta_group_2_multicast", ("b", 3), "tcgen05.commit barrier=b cta_mask=3"),
    ("tvm_builtin_ptx_tcgen05_ld_32x32b_x2", ("x", "y", "t", 16, "c"), "tcgen05.ld address=((t + (16 << 16)) + c)"),
    ("tvm_builtin_ptx_setmaxnreg_dec_48", (), "setmaxnreg registers=48"),
    ("tvm_builtin_cuda_warpgroup_sync", (10,), "bar.sync.named id=10 threads=128"),
    ("tvm_builtin_cuda_cluster_sync", (), "barrier.cluster.arrive; barrier.cluster.wait"),
    ("tvm_builtin_ptx_mapa_u64", ("b", "r"), "mapa cta=r src=b"),
    ("tvm_builtin_ptx_ld_acquire_gpu_global_b32_uint32", ("a",), "ld.acquire src=a"),
    ("tvm_builtin_ptx_st_plain_shared_v4_u32_from_src", ("a", "s", "p"), "st dst=a"),
    ("tvm_builtin_ptx_red_scalar_release_gpu_global_add_u32", ("a", "v", "p"), "red.release dst=a value=v"),
    # TIRx before 0.25
    ("ptx_cp_async_bulk_tensor_g2cluster_tile_2d", ("d", "b", "m", "k", "p", "x", "y"),
     "cp.async.bulk.tensor.load barrier=b coords.0=x coords.1=y dst=d map=m"),
    # libraries
    ("cute::tma_store_arrive", (), "cp.async.bulk.commit_group"),
    ("cutlass::arch::umma_arrive_multicast", ("b", "k"), "elect.sync mask=4294967295; tcgen05.commit barrier=b cta_mask=k @<0.value>"),
    ("cute::initialize_barrier", ("b", 1), "mbarrier.init barrier=&b count=1"),
    ("tl::mbarrier_wait", ("b", "ph"), "mbarrier.try_wait barrier=&b parity=ph"),
    ("tl::tma_load", ("&s", "&g", "b", "n"), "cp.async.bulk.g2s barrier=&b bytes=n dst=&s src=&g"),
    ("tl::tma_load", ("m", "b", "s", "x"), "cp.async.bulk.tensor.load barrier=&b coords.0=x dst=s map=&m"),
    ("tl::tma_load", ("m", "b", "s", "x", "y"), "cp.async.bulk.tensor.load barrier=&b coords.0=x coords.1=y dst=s map=&m"),
    ("tl::tmem_deallocate", ("&c", 256), "tcgen05.dealloc address=c columns=256"),
    ("wmma::store_matrix_sync", ("p", "frag", 16, "layout"), "wmma.store dst=p"),
    ("nvcuda::wmma::load_matrix_sync", ("frag", "p", 16), "wmma.load src=p"),
    # methods: the object's address comes first
    ("Barrier::wait", ("&b", "ph"), "mbarrier.try_wait barrier=&b parity=ph"),
    ("Barrier::arrive", ("&b",), "mbarrier.arrive barrier=&b count=1"),
    ("Barrier::arrive", ("&b", 0), "mbarrier.arrive barrier=&b count=1 cta=0"),
    ("cutlass::arch::ClusterTransactionBarrier::arrive_and_expect_tx", ("&b", "n"), "mbarrier.arrive.expect_tx barrier=&b bytes=n count=1"),
    ("cuda::barrier::arrive_and_wait", ("&b",), "mbarrier.arrive barrier=&b count=1; mbarrier.try_wait barrier=&b state=<0.state>"),
    ("cooperative_groups::thread_block::sync", ("&g",), "bar.sync.cta"),
    ("cg::grid_group::sync", ("&g",), "grid.sync"),
    ("cuda::ptx::mbarrier_arrive_expect_tx", ("sem", "scope", "space", "b", "n"), "mbarrier.arrive.expect_tx barrier=b bytes=n count=1"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args", "expected"), CALLS, ids=[f"{c[0][:60]}/{len(c[1])}" for c in CALLS])
def test_call(name: str, args: tuple[str | int, ...], expected: str) -> None:
    assert text(call(name, *args)) == expected


@pytest.mark.parametrize(
    "name",
    ["tvm_builtin_ptx_add_frob_float32", "foo", "sync", "arrive", "wait", "init", "tvm_builtin_ptx_frobnicate_b32", "tl::gemm_ss", "my::__syncthreads",
     "tvm_builtin_ptx_mbarrier_frob_frob_shared_b64", "tvm_builtin_ptx_cp_async_bulk_wait_group_async_bulk_wait_group"],
)  # fmt: skip
def test_unknown_names(name: str) -> None:
    assert names.lookup(name) is None


def test_modifiers_from_template_arguments_and_captures() -> None:
    assert call("tl::tma_store_wait", targs=(1, "true")).ops[0].mods["read"] == 1
    assert call("tl::tma_store_wait", targs=(1, "false")).ops[0].mods["read"] == 0
    assert call("tl::tma_store_wait", targs=(1,)).ops[0].mods["read"] == 1
    assert operands(call("tl::tma_store_wait", targs=(2,)).ops[0]) == "group=2"
    assert call("tl::tmem_allocate", "&s", 64, targs=("true",)).ops[0].mods["cta_group"] == 2
    assert call("tl::tmem_allocate", "&s", 64).ops[0].mods["cta_group"] == 1
    assert call("ptx_tcgen05_commit_cta_group_2", "b").ops[0].mods["cta_group"] == 2
    assert call("tvm_builtin_ptx_setmaxnreg_dec_48").ops[0].mods["direction"] == "dec"
    fence = call("__builtin_amdgcn_fence", "__ATOMIC_RELEASE", "'workgroup", tables=names.AMD).ops[0]
    assert (fence.mods["sem"], fence.mods["scope"]) == ("__ATOMIC_RELEASE", "workgroup")


def test_helpers_that_elect_inside() -> None:
    for name, args in (("tl::tcgen05_mma_arrive", ("&b",)), ("cutlass::arch::umma_arrive", ("b",))):
        elect, commit = call(name, *args).ops
        assert (elect.name, commit.mods["elects"], show(commit.predicate)) == ("elect.sync", True, "<0.value>")
    assert "elects" not in call("cutlass::arch::umma_arrive_2x1SM_sm0", "b").ops[0].mods
    assert (
        "elects"
        not in call("tvm_builtin_ptx_tcgen05_commit_commit_cta_group__1_mbarrier__arrive__one_shared__cluster_b64", "b")
        .ops[0]
        .mods
    )


@pytest.mark.parametrize(
    ("every", "result"),
    [
        (32, "<0.value>"),
        (0, "(<0.value> && ((%linear_tid >> 5) == 0))"),
        (128, "(<0.value> && (((%linear_tid >> 5) % 4) == 0))"),
        (40, "(<0.value> && (((%linear_tid >> 5) % 2) == 0))"),
    ],
)
def test_election_in_every_so_many_threads(every: int, result: str) -> None:
    """TileLang's `intrin.h`: warps whose number is a multiple of ceil(extent / 32); 0 means warp 0 of the CTA."""
    assert show(call("tl::tl_shuffle_elect", targs=(every,)).result) == result


def test_results() -> None:
    assert show(call("tvm_builtin_elect_one_sync_op").result) == "<0.value>"
    assert show(call("tvm_builtin_cluster_ctaid_x").result) == "%cluster_ctarank"
    assert show(call("__cvta_generic_to_shared", "p").result) == "p"
    assert show(call("cuda::device::barrier_native_handle", "b").result) == "&b"
    assert call("__syncthreads").result is None
    assert show(call("tvm_builtin_make_float2", "a", "b").result) == "call(a, b)"
    assert show(call("tvm_builtin_pointer_offset", "p", 8).result) == "(p + 8)"
    assert show(call("get_tmem_addr", "t", 0, "c").result) == "((t + (0 << 16)) + c)"
    assert call("ptx_wgmma_encode_matrix_descriptor", "d", "p", 1, 64, 3).writes == (0,)
    written = call("tvm_builtin_ptx_elect_sync", "lane", "p", "m").outputs
    assert {position: show(value) for position, value in written.items()} == {0: "<0.lane>", 1: "<0.value>"}


def test_blocking_by_name() -> None:
    assert call("tvm_builtin_ptx_mbarrier_try_wait", "b", "ph").ops[0].mods["blocking"] is True
    once = call("tvm_builtin_ptx_mbarrier_try_wait_once", "b", "ph", 0)
    assert "blocking" not in once.ops[0].mods and show(once.result) == "<0.value>"


def test_hip_differs_from_cuda() -> None:
    assert call("__syncthreads", tables=names.AMD).ops[0].name == "hip.__syncthreads"
    assert call("__shfl_xor_sync", "m", "v", 1, tables=names.AMD).ops[0].name == "hip.warp_sync_builtins"
    assert operands(call("__builtin_amdgcn_s_waitcnt", 0xC07F, tables=names.AMD).ops[0]) == "imm=49279"
    assert text(call("ck::block_sync_lds", tables=names.AMD)) == "amd.s_waitcnt lgkmcnt=0; amd.s_barrier"
    assert names.lookup("ck::block_sync_lds") is None


def test_address_offsets_and_sinks_in_systematic_names() -> None:
    row = tirx_names.systematic("tvm_builtin_ptx_mbarrier_arrive_arrive_shared_b64_addr0_p16")
    assert row is not None
    bound = names.bind(row, (_expr("b"), _expr("n")), (), HERE)
    assert operands(bound.ops[0]) == "barrier=(cast b + 16) count=n"


def test_number_of_arguments_must_fit() -> None:
    name = "tvm_builtin_ptx_mbarrier_arrive_arrive_shared_b64"
    assert names.lookup(name, names.NVIDIA, 2) is not None
    assert names.lookup(name, names.NVIDIA, 1) is None
    assert names.lookup(name, names.NVIDIA, 9) is None


def test_tables_load_only_when_asked() -> None:
    names._load.cache_clear()
    names.lookup.cache_clear()
    names.lookup("__syncthreads")
    assert names._load.cache_info().currsize == 1
    names.lookup("some_helper")
    names.lookup("tvm_builtin_unheard_of")
    assert names._load.cache_info().currsize == 2
