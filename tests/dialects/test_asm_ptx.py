# ruff: noqa: E501 (tables read better a row a line)
"""What PTX in inline assembly means: operations, roles, modifiers, one family after the other."""

from __future__ import annotations

import pytest

import warplint.ops as ops
from tests.dialects.build import one, operands, result, show

# template, outputs, inputs, operation, operands, modifiers that must be there
CASES = [
    ("mbarrier.init.shared::cta.b64 [%0], %1;", [], "bn", "mbarrier.init", "barrier=b count=n", {}),
    ("mbarrier.init.b64 [%0], %1;", [], "bn", "mbarrier.init", "barrier=b count=n", {}),
    ("mbarrier.inval.shared::cta.b64 [%0];", [], "b", "mbarrier.inval", "barrier=b", {}),
    ("mbarrier.arrive.shared.b64 _, [%0];", [], "b", "mbarrier.arrive", "barrier=b count=1", {"sem": "release", "scope": "cta"}),
    ("mbarrier.arrive.shared.b64 _, [%0], %1;", [], "bn", "mbarrier.arrive", "barrier=b count=n", {}),
    ("mbarrier.arrive.relaxed.cluster.b64 _, [%0];", [], "b", "mbarrier.arrive", "barrier=b count=1", {"sem": "relaxed", "scope": "cluster"}),
    ("mbarrier.arrive.shared::cluster.b64 _, [%0];", [], "b", "mbarrier.arrive", "barrier=b count=1", {"remote": True}),
    ("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%1], %0;", [], "nb", "mbarrier.arrive.expect_tx", "barrier=b bytes=n count=1", {}),
    ("mbarrier.arrive.noComplete.release.cta.shared.b64 _, [%0], %1;", [], "bn", "mbarrier.arrive.noComplete", "barrier=b count=n", {}),
    ("mbarrier.arrive_drop.shared::cta.b64 _, [%0];", [], "b", "mbarrier.arrive_drop", "barrier=b count=1", {"expect_tx": False}),
    ("mbarrier.arrive_drop.expect_tx.shared::cta.b64 _, [%0], 64;", [], "b", "mbarrier.arrive_drop", "barrier=b bytes=64 count=1", {"expect_tx": True}),
    ("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;", [], "bn", "mbarrier.expect_tx", "barrier=b bytes=n", {}),
    ("mbarrier.complete_tx.shared::cluster.relaxed.cluster.b64 [%1], %0;", [], "nb", "mbarrier.complete_tx", "barrier=b bytes=n", {"remote": True}),
    ("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];", [], "b", "cp.async.mbarrier.arrive", "barrier=b", {"noinc": True}),
    ("cp.async.mbarrier.arrive.shared.b64 [%0];", [], "b", "cp.async.mbarrier.arrive", "barrier=b", {"noinc": False}),
    ("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;", [], "dsn", "cp.async", "bytes=16 dst=d src=s src_bytes=n", {"cache": "cg"}),
    ("cp.async.ca.shared.global [%0], [%1], %2;", [], "dsn", "cp.async", "bytes=n dst=d src=s", {}),
    ("{.reg .pred p; setp.ne.b32 p, %2, 0; cp.async.ca.shared.global [%0], [%1], 8, p;}", [], "dsi", "cp.async", "bytes=8 dst=d src=s", {}),
    ("cp.async.commit_group;", [], "", "cp.async.commit_group", "", {}),
    ("cp.async.wait_group 2;", [], "", "cp.async.wait_group", "group=2", {}),
    ("cp.async.wait_all;", [], "", "cp.async.wait_group", "group=0", {}),
    ("cp.async.bulk.commit_group;", [], "", "cp.async.bulk.commit_group", "", {}),
    ("cp.async.bulk.wait_group 0;", [], "", "cp.async.bulk.wait_group", "group=0", {"read": False}),
    ("cp.async.bulk.wait_group.read 3;", [], "", "cp.async.bulk.wait_group", "group=3", {"read": True}),
    ("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];", [], "dsnb",
     "cp.async.bulk.g2s", "barrier=b bytes=n dst=d src=s", {"multicast": False}),
    ("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;", [], "dsnbm",
     "cp.async.bulk.g2s", "barrier=b bytes=n cta_mask=m dst=d src=s", {"multicast": True}),
    ("cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;", [], "dsnbp",
     "cp.async.bulk.g2s", "barrier=b bytes=n dst=d src=s", {}),
    ("cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, %3;", [], "dsnp",
     "cp.async.bulk.s2g", "bytes=n dst=d src=s", {}),
    ("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];", [], "dsnb",
     "cp.async.bulk.s2s", "barrier=b bytes=n dst=d src=s", {"remote": True}),
    ("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%3, %4}], [%2], %5;", [], "dmbxyp",
     "cp.async.bulk.tensor.load", "barrier=b coords.0=x coords.1=y dst=d map=m", {"dim": 2, "multicast": False}),
    ("cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];", [], "dmbxy",
     "cp.async.bulk.tensor.load", "barrier=b coords.0=x coords.1=y dst=d map=m", {"cta_group": 2}),
    ("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint"
     " [%0], [%1, {%2, %3, %4}], [%5], %6, %7;", [], "dmxyzbkp",
     "cp.async.bulk.tensor.load", "barrier=b coords.0=x coords.1=y coords.2=z cta_mask=k dst=d map=m", {"multicast": True}),
    ("cp.async.bulk.tensor.4d.shared::cta.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};", [], "dmxyzwbij",
     "cp.async.bulk.tensor.load", "barrier=b coords.0=x coords.1=y coords.2=z coords.3=w dst=d map=m", {"mode": "im2col"}),
    ("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];", [], "mxys",
     "cp.async.bulk.tensor.store", "coords.0=x coords.1=y map=m src=s", {"dim": 2}),
    ("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2}], [%3];", [], "mxys",
     "cp.reduce.async.bulk", "coords.0=x coords.1=y map=m src=s", {"reduce": "add", "tensor": True}),
    ("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;", [], "dsn",
     "cp.reduce.async.bulk", "bytes=n dst=d src=s", {"tensor": False}),
    ("cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%0, {%1, %2}];", [], "mxy", "cp.async.bulk.prefetch", "coords.0=x coords.1=y map=m", {}),
    ("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.u32 [%0], {%1, %2, %3, %4}, [%5];", [], "dwxyzb",
     "st.async", "barrier=b bytes=16 dst=d", {"remote": True}),
    ("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%0], %1, [%2];", [], "dvb",
     "red.async", "barrier=b bytes=4 dst=d value=v", {}),
    ("fence.proxy.async;", [], "", "fence.proxy.async", "", {}),
    ("fence.proxy.async.shared::cta;", [], "", "fence.proxy.async", "", {"space": "shared::cta"}),
    ("fence.proxy.async.global;", [], "", "fence.proxy.async", "", {"space": "global"}),
    ("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;", [], "m", "fence.proxy.tensormap", "bytes=128 map=m", {"sem": "acquire"}),
    ("fence.proxy.tensormap::generic.release.gpu;", [], "", "fence.proxy.tensormap", "", {"sem": "release"}),
    ("fence.mbarrier_init.release.cluster;", [], "", "fence.mbarrier_init.release.cluster", "", {}),
    ("fence.acq_rel.cluster;", [], "", "fence.acq_rel.cluster", "", {"sem": "acq_rel", "scope": "cluster"}),
    ("fence.sc.sys;", [], "", "fence.acq_rel.cluster", "", {"sem": "sc", "scope": "sys"}),
    ("membar.gl;", [], "", "fence.acq_rel.cluster", "", {"sem": "sc", "scope": "gpu"}),
    ("bar.sync 0;", [], "", "bar.sync.cta", "", {"aligned": True}),
    ("barrier.sync.aligned 0;", [], "", "bar.sync.cta", "", {"aligned": True}),
    ("bar.sync 0, 128;", [], "", "bar.sync.named", "id=0 threads=128", {}),
    ("bar.sync %0, %1;", [], "in", "bar.sync.named", "id=i threads=n", {"aligned": True}),
    ("bar.sync %0;", [], "i", "bar.sync.named", "id=i", {}),
    ("bar.arrive %0, %1;", [], "in", "bar.arrive.named", "id=i threads=n", {}),
    ("barrier.sync %0, %1;", [], "in", "barrier.nonaligned", "id=i threads=n", {"aligned": False}),
    ("barrier.cta.sync %0, %1;", [], "in", "barrier.nonaligned", "id=i threads=n", {}),
    ("bar.warp.sync %0;", [], "m", "bar.warp.sync", "mask=m", {}),
    ("barrier.cluster.arrive.aligned;", [], "", "barrier.cluster.arrive", "", {"sem": "release", "aligned": True}),
    ("barrier.cluster.arrive.relaxed;", [], "", "barrier.cluster.arrive", "", {"sem": "relaxed", "aligned": False}),
    ("barrier.cluster.wait.acquire.aligned;", [], "", "barrier.cluster.wait", "", {"sem": "acquire", "aligned": True}),
    ("shfl.sync.idx.b32 %0, %1, %2, 0x1f, 0xffffffff;", ["d"], "vl", "shfl.sync", "clamp=31 lane=l mask=4294967295 value=v", {"mode": "idx"}),
    ("redux.sync.or.b32 %0, %1, %2;", ["d"], "vm", "redux.sync", "mask=m value=v", {}),
    ("match.any.sync.b32 %0, %1, %2;", ["d"], "vm", "match.sync", "mask=m value=v", {"mode": "any"}),
    ("activemask.b32 %0;", ["d"], "", "activemask", "", {}),
    ("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];", list("wxyz"), "a", "ldmatrix", "bytes=512 src=a", {}),
    ("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};", [], "awxyz", "stmatrix", "bytes=512 dst=a", {}),
    ("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%7,%8,%9,%10};", list("wxyz"), "abcdefg",
     "mma.sync", "", {"aligned": True}),
    ("wgmma.fence.sync.aligned;", [], "", "wgmma.fence", "", {}),
    ("wgmma.commit_group.sync.aligned;", [], "", "wgmma.commit_group", "", {}),
    ("wgmma.wait_group.sync.aligned %0;", [], [("n", 1)], "wgmma.wait_group", "group=1", {}),
    ("{.reg .pred p; setp.ne.b32 p, %4, 0; wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%0, %1}, %2, %3, p, 1, 1, 0, 0;}",
     [("+r", "c"), ("+r", "e")], "abs", "wgmma.mma_async", "accumulate=(s != 0) desc_a=a desc_b=b", {}),
    ("{.reg .pred p; setp.ne.b32 p, %7, 0; wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, %6, p, 1, 1, 0;}",
     [("+r", "c"), ("+r", "e")], "wxyzbs", "wgmma.mma_async", "accumulate=(s != 0) desc_b=b", {}),
    ("setmaxnreg.inc.sync.aligned.u32 200;", [], "", "setmaxnreg", "registers=200", {"direction": "inc"}),
    ("setmaxnreg.dec.sync.aligned.u32 %0;", [], [("n", 40)], "setmaxnreg", "registers=40", {"direction": "dec"}),
    ("tcgen05.alloc.cta_group::%2.sync.aligned.shared::cta.b32 [%0], %1;", [], ["s", "n", ("n", 2)], "tcgen05.alloc", "columns=n slot=s", {"cta_group": 2}),
    ("tcgen05.alloc.exclusive.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;", [], "sn", "tcgen05.alloc", "columns=n slot=s", {}),
    ("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;", [], "tn", "tcgen05.dealloc", "address=t columns=n", {"cta_group": 1}),
    ("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;", [], "", "tcgen05.relinquish_alloc_permit", "", {}),
    ("{.reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, {%5, %6, %7, %8}, p;}", [], "tabiswxyz",
     "tcgen05.mma", "accumulate=(s != 0) address=t desc_a=a desc_b=b idesc=i", {"cta_group": 1, "kind": "f16"}),
    ("{.reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma.cta_group::2.kind::f16 [%0], [%1], %2, %3, p;}", [], "tabis",
     "tcgen05.mma", "a_address=a accumulate=(s != 0) address=t desc_b=b idesc=i", {"cta_group": 2}),
    ("{.reg .pred p; setp.ne.b32 p, %6, 0; tcgen05.mma.cta_group::1.kind::mxf4.block_scale.scale_vec::2X [%0], %1, %2, %3, [%4], [%5], p;}", [], "tabixys",
     "tcgen05.mma", "accumulate=(s != 0) address=t desc_a=a desc_b=b idesc=i scale_a=x scale_b=y", {"block_scale": True}),
    ("tcgen05.mma.ws.cta_group::1.kind::f16 [%0], %1, %2, %3, 1;", [], "tabi", "tcgen05.mma", "accumulate=1 address=t desc_a=a desc_b=b idesc=i", {"ws": True}),
    ("tcgen05.mma.sp.cta_group::1.kind::f16 [%0], %1, %2, [%3], %4, {%5, %6, %7, %8}, 0;", [], "tabmiwxyz",
     "tcgen05.mma", "accumulate=0 address=t desc_a=a desc_b=b idesc=i", {}),
    ("wgmma.mma_async.sp.sync.aligned.m64n8k32.f16.f16.f16 {%0, %1}, %2, %3, %4, 0, 1, 1, 1;", [("+r", "c"), ("+r", "e")], "abm",
     "wgmma.mma_async", "accumulate=1 desc_a=a desc_b=b", {}),
    ("cp.async.bulk.tensor.2d.tile::scatter4.global.shared::cta.bulk_group [%0, {%1, %2, %3, %4, %5}], [%6];", [], "mvwxyzs",
     "cp.async.bulk.tensor.store", "coords.0=v coords.1=w coords.2=x coords.3=y coords.4=z map=m src=s", {"mode": "tile::scatter4"}),
    ("multimem.red.release.sys.global.add.u32 [%0], %1;", [], "av", "red.release", "bytes=4 dst=a value=v", {"multimem": True}),
    ("fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster;", [], "", "fence.proxy.async", "",
     {"sem": "acquire", "sync_restrict": "shared::cluster"}),
    ("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;", [], "td", "tcgen05.cp", "address=t desc_a=d", {}),
    ("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];", [], "b", "tcgen05.commit", "barrier=b", {"multicast": False}),
    ("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;", [], "bm",
     "tcgen05.commit", "barrier=b cta_mask=m", {"multicast": True, "cta_group": 2}),
    ("tcgen05.ld.sync.aligned.32x32b.x2.b32 {%0, %1}, [%2];", list("xy"), "t", "tcgen05.ld", "address=t", {"shape": "32x32b", "num": 2}),
    ("tcgen05.ld.red.sync.aligned.32x32b.x2.max.f32 {%0, %1}, %2, [%3];", list("xyz"), "t", "tcgen05.ld", "address=t", {"red": True}),
    ("tcgen05.st.sync.aligned.32x32b.x2.b32 [%0], {%1, %2};", [], "txy", "tcgen05.st", "address=t", {}),
    ("tcgen05.st.sync.aligned.16x32bx2.x1.b32 [%0], 16, {%1};", [], "tx", "tcgen05.st", "address=t", {"shape": "16x32bx2"}),
    ("tcgen05.wait::ld.sync.aligned;", [], "", "tcgen05.wait", "", {"kind": "ld"}),
    ("tcgen05.wait::st.sync.aligned;", [], "", "tcgen05.wait", "", {"kind": "st"}),
    ("tcgen05.fence::after_thread_sync;", [], "", "tcgen05.fence.after_thread_sync", "", {}),
    ("griddepcontrol.launch_dependents;", [], "", "griddepcontrol.launch_dependents", "", {}),
    ("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [%0], [%1];", [], "rb",
     "clusterlaunchcontrol.try_cancel", "barrier=b bytes=16 dst=r", {"multicast": True}),
    ("nanosleep.u32 100;", [], "", "nanosleep", "value=100", {}),
    ("ld.acquire.gpu.global.u32 %0, [%1];", ["d"], "a", "ld.acquire", "bytes=4 src=a", {"scope": "gpu", "space": "global"}),
    ("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];", list("wxyz"), "a", "ld", "bytes=16 src=a", {"sem": "weak"}),
    ("st.release.gpu.global.u32 [%0], %1;", [], "av", "st.release", "bytes=4 dst=a value=v", {}),
    ("st.global.release.sys.b32 [%0], %1;", [], "av", "st.release", "bytes=4 dst=a value=v", {"scope": "sys"}),
    ("red.release.gpu.global.add.s32 [%0], %1;", [], "av", "red.release", "bytes=4 dst=a value=v", {"reduce": "add"}),
    ("red.global.add.f32 [%0], %1;", [], "av", "red", "bytes=4 dst=a value=v", {"sem": "relaxed"}),
    ("atom.acq_rel.gpu.global.cas.b32 %0, [%1], %2, %3;", ["d"], "acv", "atom", "bytes=4 compare=c dst=a value=v", {"sem": "acq_rel"}),
    ("prefetch.tensormap [%0];", [], "m", "prefetch", "src=m", {"kind": "tensormap"}),
    ("tensormap.replace.tile.global_dim.global.b1024.b32 [%0], 2, %1;", [], "mv", "tensormap.replace", "map=m value=v", {"field": "global_dim"}),
    ("trap;", [], "", "thread.exit", "", {"trap": True}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("template", "outputs", "inputs", "name", "roles", "mods"), CASES, ids=[c[0][:48] for c in CASES]
)
def test_instruction(template, outputs, inputs, name, roles, mods) -> None:
    op = one(template, outputs, list(inputs))
    assert op.name == name
    assert operands(op) == roles
    assert mods.items() <= op.mods.items()
    assert op.predicate is None
    spec = ops.spec(op.name)
    assert {role.partition(".")[0] for role in op.operands} <= set(spec.operands)
    assert {output.partition(".")[0] for output in op.outputs} <= set(spec.outputs)


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("mbarrier.frobnicate.shared.b64 [%0];", "no such verb"),
        ("mbarrier.init.shared.b64 [%0];", "the count is missing"),
        ("cp.async.bulk.wait_group;", "the group is missing"),
        ("bar.arrive 1;", "the thread count is missing"),
        ("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0];", "no mask"),
        ("newthing.sync.aligned %0;", "unknown instruction"),
        ("call helper, (%0);", "calls are not followed"),
        ("ret;", "leaves in a way we do not model"),
    ],
)
def test_not_understood_is_said(template: str, why: str) -> None:
    found = result(template, [], ["b"])
    assert found.unknown, why
    assert not found.ops


@pytest.mark.parametrize(
    "template",
    [
        "ex2.approx.ftz.f32 %0, %1;",
        "{.reg .b32 t; add.s32 t, %1, 1; lop3.b32 %0, t, t, t, 0x80;}",
        "cvt.rn.satfinite.e4m3x2.f32 %0, %1, %1;",
        "// nothing but a comment\n",
        "createpolicy.fractional.L2::evict_last.b64 %0, 1.0;",
        "fma.rn.f32 %0, %1, 0f3F800000, %1;",
        "",
    ],
)
def test_arithmetic_is_harmless(template: str) -> None:
    found = result(template, ["d"], ["x"])
    assert found.ops == () and found.unknown == () and not found.exits


def test_macro_in_text_is_said() -> None:
    assert result(None).unknown


def test_outputs_of_vectors() -> None:
    found = result("tcgen05.ld.sync.aligned.32x32b.x2.b32 {%0, %1}, [%2];", ["x", "y"], ["t"])
    assert {index: show(value) for index, value in found.outputs.items()} == {0: "<0.value>", 1: "<0.value.1>"}
