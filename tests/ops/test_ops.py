# ruff: noqa: E501 (tables read better a row a line)
"""The operation table: well formed, complete, and spelled somewhere."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import warplint.ops as ops
from warplint.dialects import names, tirx_names

ROLES = set(
    [
        "barrier",
        "count",
        "parity",
        "state",
        "bytes",
        "dst",
        "src",
        "map",
        "coords",
        "id",
        "threads",
        "columns",
        "address",
        "slot",
        "mask",
        "cta_mask",
        "cta",
        "value",
        "lane",
        "group",
        "registers",
        "accumulate",
        "desc_a",
        "desc_b",
        "idesc",
        "a_address",
        "scale_a",
        "scale_b",
        "compare",
        "clamp",
        "width",
        "src_bytes",
        "imm",
        "offset",
        "scale",
        "base",
        "a",
        "b",
        "c",
    ]
)
COUNTERS = {role for role in ops.spec("amd.s_waitcnt").operands if role.endswith("cnt")}
KEYS = {"who", "args", "out", "mem", "proxy", "done", "arch", "src", "else", "fact"}
TABLE = tomllib.loads((Path(ops.__file__).parent / "ops.toml").read_text("utf-8"))


@pytest.mark.parametrize("name", sorted(TABLE))
def test_row_is_well_formed(name: str) -> None:
    row = TABLE[name]
    assert set(row) <= KEYS and {"who", "arch", "src", "else"} <= set(row)
    spec = ops.spec(name)
    assert spec.name == name
    assert spec.participation in ops.PARTICIPATION
    assert spec.effects <= ops.EFFECTS
    assert spec.proxy in ops.PROXIES
    assert spec.completion in ops.COMPLETIONS | {""}
    assert set(spec.operands) <= ROLES | COUNTERS
    assert spec.optional <= set(spec.operands)
    assert all(re.fullmatch(r"all|sm_\d+[af]?|gfx\w*", arch) for arch in spec.arch)
    # The sentence continues one of ours: no capital, no full stop.
    assert spec.otherwise[0].islower() and not spec.otherwise.endswith("."), spec.otherwise


def test_completion_follows_from_effects() -> None:
    """What completes bytes on a barrier is async, and waits or fences have nothing to complete."""
    for spec in ops.SPECS.values():
        if "completes" in spec.effects and spec.name != "mbarrier.complete_tx":
            assert spec.completion == "mbarrier_tx", spec.name
        if spec.effects == {"fence"} or spec.effects == {"waits"}:
            assert spec.completion == "", spec.name


def test_supported() -> None:
    assert ops.spec("mbarrier.try_wait").supported("sm_90a") is True
    assert ops.spec("mbarrier.try_wait").supported("sm_80") is False
    assert ops.spec("wgmma.mma_async").supported("sm_90a") is True
    assert ops.spec("wgmma.mma_async").supported("sm_90") is False
    assert ops.spec("tcgen05.alloc").supported("sm_100f") is True
    assert ops.spec("tcgen05.alloc").supported("sm_120a") is False
    assert ops.spec("setmaxnreg").supported("sm_100") is False
    assert ops.spec("amd.mfma").supported("gfx942") is True
    assert ops.spec("amd.mfma").supported("sm_90a") is False
    assert ops.spec("bar.sync.cta").supported("sm_75") is True
    assert ops.spec("bar.sync.cta").supported("") is None
    with pytest.raises(KeyError):
        ops.spec("no.such.op")


PTX = [
    "mbarrier.inval.shared.b64",
    "mbarrier.arrive.noComplete.shared.b64",
    "mbarrier.arrive_drop.shared.b64",
    "mbarrier.init.shared.b64",
    "mbarrier.arrive.shared.b64",
    "mbarrier.arrive.expect_tx.shared.b64",
    "mbarrier.expect_tx.relaxed.cta.shared::cta.b64",
    "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64",
    "mbarrier.test_wait.shared.b64",
    "mbarrier.try_wait.shared.b64",
    "cp.async.mbarrier.arrive.shared.b64",
    "fence.mbarrier_init.release.cluster",
    "fence.proxy.async",
    "fence.acq_rel.gpu",
    "fence.proxy.tensormap::generic.release.gpu",
    "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic",
    "tensormap.replace.tile.rank.global.b1024.b32",
    "elect.sync",
    "activemask.b32",
    "bar.warp.sync",
    "shfl.sync.idx.b32",
    "vote.sync.any.pred",
    "match.any.sync.b32",
    "redux.sync.add.u32",
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
    "stmatrix.sync.aligned.m8n8.x4.shared.b16",
    "movmatrix.sync.aligned.m8n8.trans.b16",
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16",
    "wmma.store.d.sync.aligned.row.m16n16k16.shared.f32",
    "nanosleep.u32",
    "bar.sync",
    "bar.arrive",
    "bar.red.popc.u32",
    "barrier.sync",
    "barrier.cluster.arrive",
    "barrier.cluster.wait",
    "cp.async.ca.shared.global",
    "cp.async.commit_group",
    "cp.async.wait_group",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes",
    "cp.async.bulk.global.shared::cta.bulk_group",
    "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes",
    "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes",
    "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32",
    "cp.async.bulk.commit_group",
    "cp.async.bulk.wait_group",
    "cp.async.bulk.prefetch.L2.global",
    "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32",
    "red.async.shared::cluster.mbarrier::complete_tx::bytes.add.u32",
    "clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128",
    "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128",
    "mapa.shared::cluster.u32",
    "prefetch.tensormap",
    "wgmma.fence.sync.aligned",
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16",
    "wgmma.commit_group.sync.aligned",
    "wgmma.wait_group.sync.aligned",
    "setmaxnreg.inc.sync.aligned.u32",
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32",
    "tcgen05.dealloc.cta_group::1.sync.aligned.b32",
    "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned",
    "tcgen05.mma.cta_group::1.kind::f16",
    "tcgen05.cp.cta_group::1.128x256b",
    "tcgen05.shift.cta_group::1.down",
    "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64",
    "tcgen05.ld.sync.aligned.32x32b.x1.b32",
    "tcgen05.st.sync.aligned.32x32b.x1.b32",
    "tcgen05.wait::ld.sync.aligned",
    "tcgen05.fence::before_thread_sync",
    "tcgen05.fence::after_thread_sync",
    "griddepcontrol.wait",
    "griddepcontrol.launch_dependents",
    "exit",
    "ld.shared.b32",
    "ld.acquire.gpu.global.b32",
    "ld.relaxed.gpu.global.b32",
    "ld.volatile.global.b32",
    "st.shared.b32",
    "st.release.gpu.global.b32",
    "st.relaxed.gpu.global.b32",
    "st.volatile.global.b32",
    "atom.global.add.u32",
    "red.global.add.u32",
    "red.release.gpu.global.add.u32",
]


def _spelled() -> set[str]:
    from warplint.dialects import amd_mnemonics, asm_text, mnemonics

    found = {"bar.sync.cta"}  # the literal-zero form of bar.sync.named; checked in tests/dialects
    for mnemonic in PTX:
        form = mnemonics.describe(mnemonic)
        assert form is not None, mnemonic
        found.add(form.op)
    for text in ("s_barrier", "s_waitcnt 0", "s_barrier_wait -1", "s_barrier_join 1", "global_load_lds_dword v0, v1, off",
                 "global_load_async_to_lds_b32 v0, v1, off", "tensor_load_to_lds s0, s1", "v_mfma_f32_4x4x1f32 a, b, c, d",
                 "v_wmma_f32_16x16x16_f16 a, b, c, d", "v_readfirstlane_b32 s0, v0", "v_readlane_b32 s0, v0, 1",
                 "ds_bpermute_b32 v0, v1, v2", "ds_swizzle_b32 v0, v1", "s_setprio 1", "ds_read_b32 v0, v1",
                 "ds_write_b32 v0, v1", "global_load_dword v0, v1, off", "global_store_dword v0, v1, off", "buffer_wbl2"):  # fmt: skip
        statement = asm_text.parse(text).statements[0]
        described = amd_mnemonics.describe(statement)
        assert described is not None, text
        found.add(described[0])
    for table in dict.fromkeys((*names.NVIDIA, *names.AMD)):
        for line in names.rows(table).values():
            row: names.NameRow | None = names.read(line, _Anything())
            while row is not None:
                found.update(op.name for op in row.ops)
                row = row.otherwise
    return found


class _Anything(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return "1"


def test_every_operation_is_spelled_and_every_spelling_is_an_operation() -> None:
    spelled = _spelled()
    real = {name for name, spec in ops.SPECS.items() if not spec.is_fact}
    assert real - spelled == set()
    assert {name for name in spelled if "$" not in name} - set(ops.SPECS) == set()


def test_systematic_reader_knows_only_operations() -> None:
    row = tirx_names.systematic("tvm_builtin_ptx_mbarrier_init_init_shared_b64")
    assert row is not None and row.ops[0].name in ops.SPECS


def test_the_quick_reader_agrees_with_the_library_and_leaves_to_it_what_it_does_not_know() -> None:
    text = (Path(ops.__file__).parent / "ops.toml").read_text("utf-8")
    assert ops.read_rows(text) == tomllib.loads(text)
    for other in (
        '[a]\nk = "x" # why\n',
        '["a"]\nk = "x\\n"\n',
        "[a]\nk= [1]\n",
        "[a]\nk = 'x'\n",
        '[a.b]\nk = "x"\n',
        '["a\\u0041"]\nk = true\n',
        '[[a]]\nk = "x"\n',
        '  [a]\n  k = "x"\n',
        '[a]\n"k" = """x"""\n',
        'k = "x"\n',
    ):
        assert ops.read_rows(other) == tomllib.loads(other)
    for wrong in ("[a]\n[a]\n", '[a]\nk = "x"\nk = "y"\n', "[a]\nk\n", "[a\n"):
        with pytest.raises(tomllib.TOMLDecodeError):
            ops.read_rows(wrong)
