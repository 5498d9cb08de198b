"""AMDGCN mnemonics: operations of inline assembly for AMD GPUs, and the counter fields of `s_waitcnt`.

Source: LLVM AMDGPU documentation (instruction syntax, memory model, DMA operations) and the AMD ISA documents.
Register arithmetic is not followed, except a plain move of an operand.
"""

from __future__ import annotations

from collections.abc import Mapping

from warplint.dialects.asm_flow import Draft, Shape
from warplint.dialects.asm_text import Arg, Imm, Ref, Reg, Statement, Text, Word
from warplint.dialects.leaf import Operand, OpOutput
from warplint.dialects.ptx_values import NOWHERE, computed, unknown
from warplint.patterns import late
from warplint.syntax import ast

_SIZES = {
    **dict.fromkeys(("ubyte", "sbyte", "byte", "b8", "u8", "i8"), 1),
    **dict.fromkeys(("ushort", "sshort", "short", "b16", "u16", "i16"), 2),
    **dict.fromkeys(("dword", "b32", "u32", "i32", "f32"), 4),
    **dict.fromkeys(("dwordx2", "b64", "u64", "i64", "f64"), 8),
    **dict.fromkeys(("dwordx3", "b96"), 12),
    **dict.fromkeys(("dwordx4", "b128"), 16),
}
_WAITS = late(r"s_wait_(\w+?)cnt(?:_(\w+)cnt)?\Z")
_WAITCNT = late(r"s_waitcnt_(\w+?)cnt\Z")
_CACHE = late(r"(?:s_dcache_(?:inv|wb)|buffer_(?:wbl2|invl2|inv|wbinvl1|gl[01]_inv)|global_(?:inv|wb|wbinv))")
_DPP = late(r"(?:quad_perm|row_\w+|wave_\w+|dpp8)(?::|\Z)")
_HARMLESS = late(r"(?:v|s)_\w+\Z|exp\Z|s_nop\Z")
_CONTROL = late(r"s_(?:cbranch|branch|setpc|swappc|call|rfe|sethalt|subvector_loop)\w*\Z")

_RESULTS = frozenset(
    {
        "amd.readfirstlane",
        "amd.readlane",
        "amd.dpp",
        "amd.ds_bpermute",
        "amd.ds_read",
        "amd.vmem_load",
        "amd.mfma",
        "amd.wmma",
    }
)

Roles = dict[str, Arg]


def shape(text: Text, names: tuple[str, ...], kept: tuple[bool, ...]) -> Shape:
    """The operations of an AMDGCN text; `kept` tells for each output operand whether it is an input too (`"+v"`)."""
    outputs = len(kept)
    index = {name: number for number, name in enumerate(names) if name}
    ops: list[Draft] = []
    results: dict[int, ast.Expr] = {place: Operand(NOWHERE, place) for place, plus in enumerate(kept) if plus}
    strange: list[str] = [text.trouble] if text.trouble else []
    exits = traps = loops = False
    base: ast.Expr | None = None
    for statement in text.statements:
        mnemonic = statement.mnemonic
        if not mnemonic:
            continue
        if _CONTROL.match(mnemonic):
            loops = True
            strange.append(mnemonic)
            continue
        if mnemonic.startswith("s_") and statement.args and _name(statement.args[0]) == "m0":
            plain = mnemonic.startswith("s_mov_b32") and len(statement.args) == 2
            base = _expr(statement.args[1], index, outputs) if plain else None
            continue
        found = describe(statement)
        target = _number(statement.args[0], index) if statement.args else None
        if found is None:
            if mnemonic in ("s_endpgm", "s_trap"):
                exits = True
                traps = traps or mnemonic == "s_trap"
                ops.append(Draft("thread.exit", {}, {"trap": mnemonic == "s_trap"}, None, mnemonic, ()))
            elif not _HARMLESS.match(mnemonic) or any(_name(arg) == "exec" for arg in statement.args[:1]):
                strange.append(mnemonic)
            elif target is not None and target < outputs:
                inputs = [_expr(arg, index, outputs) for arg in statement.args[1:]]
                known = [value for value in inputs if value is not None]
                if len(known) == len(inputs):
                    plain = mnemonic.startswith(("v_mov_b", "s_mov_b")) and len(known) == 1
                    value = known[0] if plain else computed(mnemonic, known)
                    if value is not None:
                        results[target] = value
                        continue
            if target is not None and target < outputs:
                results.pop(target, None)
            continue
        name, roles, mods = found
        operands: dict[str, ast.Expr] = {}
        mods = dict(mods)
        if "bytes" in mods:
            operands["bytes"] = ast.Num(NOWHERE, int(mods.pop("bytes")))
        for role, arg in roles.items():
            value = _expr(arg, index, outputs)
            operands[role] = unknown(f"the {role} of the instruction") if value is None else value
        if name == "amd.load_to_lds" and base is not None:
            operands["dst"] = base  # M0 holds the address in LDS
        gives = _gives(name) and target is not None and target < outputs
        ops.append(Draft(name, operands, mods, None, mnemonic, ("value",) if gives else ()))
        if gives and target is not None:
            results[target] = OpOutput(NOWHERE, len(ops) - 1, "value")
    return Shape(tuple(ops), results, tuple(strange), exits, traps, loops)


def describe(statement: Statement) -> tuple[str, Roles, Mapping[str, str | int | bool]] | None:
    """Operation, arguments by role and modifiers of one instruction; None when it synchronises nothing."""
    mnemonic, args = statement.mnemonic, statement.args
    if mnemonic == "s_barrier":
        return "amd.s_barrier", {}, {}
    if mnemonic.startswith("s_barrier_"):
        return _barrier(mnemonic[10:], args)
    if mnemonic == "s_waitcnt":
        return "amd.s_waitcnt", _counters(args), {}
    if match := _WAITCNT.match(mnemonic):
        return "amd.s_waitcnt", {match.group(1) + "cnt": args[-1]} if args else {}, {}
    if mnemonic in ("s_wait_idle", "s_wait_event", "s_wait_alu"):
        return None
    if match := _WAITS.match(mnemonic):
        first, second = match.groups()
        if not second or not args:
            return "amd.s_waitcnt", {first + "cnt": args[0]} if args else {}, {}
        return "amd.s_waitcnt", _combined(first, second, args[0]), {}
    if mnemonic == "s_setprio":
        return "amd.s_setprio", {"value": args[0]} if args else {}, {}
    if _CACHE.match(mnemonic):
        return "amd.fence", {}, {"kind": "invalidate" if "inv" in mnemonic else "writeback"}
    return _vector(mnemonic, args)


def _barrier(verb: str, args: tuple[Arg, ...]) -> tuple[str, Roles, Mapping[str, str | int | bool]]:
    roles: Roles = {"id": args[0]} if args else {}
    if verb.startswith(("signal", "wait")):
        kind = "wait" if verb.startswith("wait") else "signal"
        return "amd.s_barrier_signal_wait", roles, {"kind": kind}
    return "amd.named_barrier", roles, {"kind": verb}


def _counters(args: tuple[Arg, ...]) -> Roles:
    """`vmcnt(0) lgkmcnt(1)` as roles, an immediate as `imm`."""
    roles: Roles = {}
    for position, arg in enumerate(args):
        if isinstance(arg, Word) and arg.text.endswith("()"):
            if position + 1 < len(args):
                roles[arg.text[:-2]] = args[position + 1]
        elif position == 0:
            roles["imm"] = arg
    return roles


def _combined(first: str, second: str, arg: Arg) -> Roles:
    """`s_wait_loadcnt_dscnt`: the first counter in bits 13..8, the second in bits 5..0."""
    if not isinstance(arg, Imm) or arg.value is None:
        return {first + "cnt": arg, second + "cnt": arg} if not isinstance(arg, Imm) else {}
    return {first + "cnt": Imm(arg.value >> 8 & 63), second + "cnt": Imm(arg.value & 63)}


def _vector(mnemonic: str, args: tuple[Arg, ...]) -> tuple[str, Roles, Mapping[str, str | int | bool]] | None:
    size = next((_SIZES[part] for part in reversed(mnemonic.split("_")) if part in _SIZES), None)
    mods: dict[str, str | int | bool] = {} if size is None else {"bytes": size}  # becomes an operand
    family = mnemonic.split("_", 1)[0]
    if family == "v":
        if mnemonic.startswith("v_mfma") or mnemonic.startswith("v_smfmac"):
            return "amd.mfma", _roles(("a", "b", "c"), args[1:4]), {}
        if mnemonic.startswith(("v_wmma", "v_swmmac")):
            return "amd.wmma", _roles(("a", "b", "c"), args[1:4]), {}
        if mnemonic.startswith("v_readfirstlane"):
            return "amd.readfirstlane", _roles(("value",), args[1:2]), {}
        if mnemonic.startswith("v_readlane"):
            return "amd.readlane", _roles(("value", "lane"), args[1:3]), {}
        if mnemonic.startswith("v_permlane") or any(_DPP.match(_name(arg)) for arg in args[2:]):
            return "amd.dpp", _roles(("value",), args[1:2]), {}
        return None
    if family == "ds":
        if mnemonic.startswith(("ds_bpermute", "ds_permute")):
            return "amd.ds_bpermute", _roles(("lane", "value"), args[1:3]), {}
        if mnemonic.startswith("ds_swizzle"):
            return "amd.dpp", _roles(("value",), args[1:2]), {}
        if mnemonic.startswith(("ds_read", "ds_load")):
            return "amd.ds_read", _roles(("src",), args[1:2]) | _offset(args), mods
        if mnemonic.startswith("ds_nop"):
            return None
        atomic = not mnemonic.startswith(("ds_write", "ds_store"))
        return (
            "amd.ds_write",
            _roles(("dst",), args[1:2] if atomic and "_rtn_" in mnemonic else args[:1]) | _offset(args),
            mods | {"atomic": atomic},
        )
    if family == "tensor":
        return "amd.tensor_lds", {}, {"store": "store" in mnemonic}
    if "_async_" in mnemonic and family in ("global", "cluster"):
        store = "store" in mnemonic  # its first operand is the address in global memory, its second the one in LDS
        return "amd.async_lds", _roles(("dst", "src"), args[:2]) | _offset(args), mods | {"store": store}
    if family in ("global", "buffer", "flat", "scratch", "image", "tbuffer", "cluster"):
        if "_lds" in mnemonic or any(_name(arg) == "lds" for arg in args):
            return "amd.load_to_lds", _roles(("src",), args[:1]) | _offset(args), mods
        if "_load" in mnemonic or "_sample" in mnemonic or "_gather" in mnemonic:
            return "amd.vmem_load", {}, mods
        if "_prefetch" in mnemonic:
            return None
        return "amd.vmem_store", {}, mods | {"atomic": "_atomic" in mnemonic}
    return None


def _offset(args: tuple[Arg, ...]) -> Roles:
    """`offset:16`: bytes added to the address (a load into LDS adds them on both sides)."""
    for arg in args:
        text = _name(arg)
        if text.startswith("offset:"):
            number = text[7:]
            if number.startswith("%") and number[1:].isdigit() and len(number) < 9:
                return {"offset": Ref(int(number[1:]))}
            return {"offset": Imm(int(number, 0)) if number.isdigit() or number.startswith("0x") else arg}
    return {}


def _roles(roles: tuple[str, ...], args: tuple[Arg, ...]) -> Roles:
    return dict(zip(roles, args, strict=False))


def _gives(name: str) -> bool:
    return name in _RESULTS


def _name(arg: Arg) -> str:
    return arg.name if isinstance(arg, Reg) else arg.text if isinstance(arg, Word) else ""


def _number(arg: Arg, index: Mapping[str, int]) -> int | None:
    if not isinstance(arg, Ref):
        return None
    return arg.key if isinstance(arg.key, int) else index.get(arg.key)


def _expr(arg: Arg, index: Mapping[str, int], outputs: int) -> ast.Expr | None:
    if isinstance(arg, Imm):
        return ast.Num(NOWHERE, arg.value)
    number = _number(arg, index)
    return Operand(NOWHERE, number) if number is not None and number >= outputs else None
