"""AMD wait counters: the generation of a target, and what a packed `s_waitcnt` operand means on it."""

from __future__ import annotations

from collections.abc import Mapping


def generation(arch: str) -> int:
    """The major version of a target: 9 of `gfx942` and `gfx90a`, 12 of `gfx1250`; also of a bare `gfx9`. 0: unknown.

    The last two hexadecimal digits are the minor version and the stepping (LLVM AMDGPUUsage, processors).
    """
    if not arch.startswith("gfx"):
        return 0
    digits = arch[3:]
    major = digits[:-2] if len(digits) > 2 else digits
    return int(major) if major.isdigit() and len(major) <= 2 else 0


def waitcnt_fields(imm: int, arch: str) -> Mapping[str, int]:
    """Counters that `s_waitcnt imm` waits for, by the encoding of `arch`; saturated fields (no wait) are left out.

    gfx6-8: vmcnt in bits 3..0, expcnt 6..4, lgkmcnt 11..8. gfx9: vmcnt has two more bits, 15..14. gfx10: lgkmcnt has
    bits 13..8. gfx11: expcnt 2..0, lgkmcnt 9..4, vmcnt 15..10. (LLVM, AMDGPUBaseInfo: getVmcntBitShiftLo and so on.)
    Empty when the architecture is not known to have the instruction (gfx12 has one instruction for each counter).
    """
    major = generation(arch)
    if 6 <= major <= 8:
        fields = {"vmcnt": (imm & 15, 15), "expcnt": (imm >> 4 & 7, 7), "lgkmcnt": (imm >> 8 & 15, 15)}
    elif major == 9:
        fields = {"vmcnt": (imm & 15 | imm >> 10 & 48, 63), "expcnt": (imm >> 4 & 7, 7), "lgkmcnt": (imm >> 8 & 15, 15)}
    elif major == 10:
        fields = {"vmcnt": (imm & 15 | imm >> 10 & 48, 63), "expcnt": (imm >> 4 & 7, 7), "lgkmcnt": (imm >> 8 & 63, 63)}
    elif major == 11:
        fields = {"vmcnt": (imm >> 10 & 63, 63), "expcnt": (imm & 7, 7), "lgkmcnt": (imm >> 4 & 63, 63)}
    else:
        return {}
    return {name: value for name, (value, top) in fields.items() if value < top}
