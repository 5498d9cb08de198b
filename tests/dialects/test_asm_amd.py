# ruff: noqa: E501 (tables read better a row a line)
"""What AMDGCN in inline assembly means."""

from __future__ import annotations

import pytest

import warplint.ops as ops
from tests.dialects.build import operands, result, show
from warplint.ops.counters import generation, waitcnt_fields

CASES = [
    ("s_barrier", [], "", "amd.s_barrier", "", {}),
    ("s_waitcnt vmcnt(0)", [], "", "amd.s_waitcnt", "vmcnt=0", {}),
    ("s_waitcnt vmcnt(2) lgkmcnt(0)", [], "", "amd.s_waitcnt", "lgkmcnt=0 vmcnt=2", {}),
    ("s_waitcnt vmcnt(2) & lgkmcnt(1)", [], "", "amd.s_waitcnt", "lgkmcnt=1 vmcnt=2", {}),
    ("s_waitcnt lgkmcnt(%0)", [], [("n", 3)], "amd.s_waitcnt", "lgkmcnt=3", {}),
    ("s_waitcnt 0xc07f", [], "", "amd.s_waitcnt", "imm=49279", {}),
    ("s_waitcnt_vscnt null, 0", [], "", "amd.s_waitcnt", "vscnt=0", {}),
    ("s_wait_dscnt 0x0", [], "", "amd.s_waitcnt", "dscnt=0", {}),
    ("s_wait_loadcnt_dscnt 0x102", [], "", "amd.s_waitcnt", "dscnt=2 loadcnt=1", {}),
    ("s_wait_asynccnt 1", [], "", "amd.s_waitcnt", "asynccnt=1", {}),
    ("s_barrier_signal -1", [], "", "amd.s_barrier_signal_wait", "id=-1", {"kind": "signal"}),
    ("s_barrier_wait -1", [], "", "amd.s_barrier_signal_wait", "id=-1", {"kind": "wait"}),
    ("s_barrier_join 2", [], "", "amd.named_barrier", "id=2", {"kind": "join"}),
    ("s_setprio 1", [], "", "amd.s_setprio", "value=1", {}),
    ("buffer_load_dword %0, %1, 0 offen offset:%2 lds", [], ["v", "r", ("n", 4)], "amd.load_to_lds", "bytes=4 offset=4 src=v", {}),
    ("global_load_lds_dwordx4 %0, off", [], "a", "amd.load_to_lds", "bytes=16 src=a", {}),
    ("global_load_async_to_lds_b128 %0, %1, off", [], "da", "amd.async_lds", "bytes=16 dst=d src=a", {"store": False}),
    ("tensor_load_to_lds s[0:3], s[4:11]", [], "", "amd.tensor_lds", "", {"store": False}),
    ("ds_read_b128 %0, %1 offset:16", ["d"], "a", "amd.ds_read", "bytes=16 offset=16 src=a", {}),
    ("ds_write_b64 %0, %1", [], "av", "amd.ds_write", "bytes=8 dst=a", {"atomic": False}),
    ("ds_add_u32 %0, %1", [], "av", "amd.ds_write", "bytes=4 dst=a", {"atomic": True}),
    ("ds_bpermute_b32 %0, %1, %2", ["d"], "lv", "amd.ds_bpermute", "lane=l value=v", {}),
    ("v_readfirstlane_b32 %0, %1", ["d"], "v", "amd.readfirstlane", "value=v", {}),
    ("v_readlane_b32 %0, %1, 3", ["d"], "v", "amd.readlane", "lane=3 value=v", {}),
    ("v_mov_b32_dpp %0, %1 quad_perm:[1,0,3,2] row_mask:0xf", ["d"], "v", "amd.dpp", "value=v", {}),
    ("v_mfma_f32_32x32x8f16 %0, %1, %2, %0", [("+v", "d")], "ab", "amd.mfma", "a=a b=b c=?", {}),
    ("v_wmma_f32_16x16x16_f16 %0, %1, %2, %0", [("+v", "d")], "ab", "amd.wmma", "a=a b=b c=?", {}),
    ("global_load_dwordx4 %0, %1, off", ["d"], "a", "amd.vmem_load", "bytes=16", {}),
    ("buffer_store_dword %0, %1, %2, 0 offen", [], "vor", "amd.vmem_store", "bytes=4", {"atomic": False}),
    ("s_mov_b32 m0, %0\n\tbuffer_load_dword %1, %2, 0 offen lds", [], "dvr", "amd.load_to_lds", "bytes=4 dst=d src=v", {}),
    ("s_endpgm", [], "", "thread.exit", "", {"trap": False}),
]  # fmt: skip


@pytest.mark.parametrize(("template", "outputs", "inputs", "name", "roles", "mods"), CASES, ids=[c[0] for c in CASES])
def test_instruction(template, outputs, inputs, name, roles, mods) -> None:
    found = result(template, outputs, list(inputs))
    assert found.unknown == ()
    assert [op.name for op in found.ops] == [name]
    assert operands(found.ops[0]) == roles
    assert mods.items() <= found.ops[0].mods.items()
    assert set(found.ops[0].operands) <= set(ops.spec(name).operands)


def test_lines_and_comments() -> None:
    found = result("s_waitcnt lgkmcnt(0) ; all LDS work\n\ts_barrier // now meet\n; s_barrier\n")
    assert [op.name for op in found.ops] == ["amd.s_waitcnt", "amd.s_barrier"]


def test_moves_and_arithmetic() -> None:
    assert show(result("v_mov_b32 %0, %1", ["d"], ["a"]).outputs[0]) == "a"
    plain = result("v_add_u32 %0, %1, %1\ns_nop 4", ["d"], ["a"])
    assert show(plain.outputs[0]) == "v_add_u32(a)" and plain.ops == () and plain.unknown == ()
    assert result("v_add_u32 %0, %1, v7", ["d"], ["a"]).outputs == {}


@pytest.mark.parametrize("template", ["s_mov_b64 exec, 0", "s_cbranch_scc1 loop", "s_setpc_b64 s[0:1]"])
def test_control_is_not_followed(template: str) -> None:
    assert result(template).unknown


@pytest.mark.parametrize(
    ("imm", "arch", "fields"),
    [
        (0xC07F, "gfx942", {"lgkmcnt": 0}),
        (0x0F70, "gfx90a", {"vmcnt": 0}),
        (0x0070, "gfx942", {"vmcnt": 0, "lgkmcnt": 0}),
        (0xCF7F, "gfx942", {}),
        (0x4F72, "gfx942", {"vmcnt": 18}),
        (0xFC07, "gfx1100", {"lgkmcnt": 0}),
        (0x03F7, "gfx1100", {"vmcnt": 0}),
        (0, "gfx1200", {}),
        (0, "sm_90", {}),
    ],
)
def test_waitcnt_immediate(imm: int, arch: str, fields: dict[str, int]) -> None:
    assert waitcnt_fields(imm, arch) == fields


# LLVM, AMDGPUBaseInfo.cpp (getVmcntBitShiftLo, getExpcntBitShift, getLgkmcntBitShift and the widths): for each major
# version the pieces (shift, width) of the field, low bits first.
ENCODING = {
    6: {"vmcnt": [(0, 4)], "expcnt": [(4, 3)], "lgkmcnt": [(8, 4)]},
    7: {"vmcnt": [(0, 4)], "expcnt": [(4, 3)], "lgkmcnt": [(8, 4)]},
    8: {"vmcnt": [(0, 4)], "expcnt": [(4, 3)], "lgkmcnt": [(8, 4)]},
    9: {"vmcnt": [(0, 4), (14, 2)], "expcnt": [(4, 3)], "lgkmcnt": [(8, 4)]},
    10: {"vmcnt": [(0, 4), (14, 2)], "expcnt": [(4, 3)], "lgkmcnt": [(8, 6)]},
    11: {"vmcnt": [(10, 6)], "expcnt": [(0, 3)], "lgkmcnt": [(4, 6)]},
}
ARCHS = {6: "gfx600", 7: "gfx701", 8: "gfx803", 9: "gfx90a", 10: "gfx1030", 11: "gfx1151"}


def encoded(major: int, values: dict[str, int]) -> int:
    word = 0
    for name, pieces in ENCODING[major].items():
        value = values[name]
        for shift, width in pieces:
            word |= (value & (1 << width) - 1) << shift
            value >>= width
    return word


@pytest.mark.parametrize("major", ENCODING)
def test_every_packed_immediate(major: int) -> None:
    """All values of all fields, alone (the others saturated) and together with their neighbours."""
    tops = {name: (1 << sum(width for _, width in pieces)) - 1 for name, pieces in ENCODING[major].items()}
    for name, top in tops.items():
        for value in range(top + 1):
            word = encoded(major, tops | {name: value})
            assert waitcnt_fields(word, ARCHS[major]) == ({name: value} if value < top else {})
    for vm in range(tops["vmcnt"] + 1):
        for lgkm in range(tops["lgkmcnt"] + 1):
            values = {"vmcnt": vm, "lgkmcnt": lgkm, "expcnt": vm % 8}
            wanted = {name: value for name, value in values.items() if value < tops[name]}
            assert waitcnt_fields(encoded(major, values), ARCHS[major]) == wanted


def test_generations() -> None:
    named = {"gfx803": 8, "gfx9": 9, "gfx90a": 9, "gfx942": 9, "gfx950": 9, "gfx1030": 10, "gfx1100": 11, "gfx1151": 11}
    named |= {"gfx1201": 12, "gfx1250": 12, "sm_90a": 0, "": 0}
    assert {arch: generation(arch) for arch in named} == named
