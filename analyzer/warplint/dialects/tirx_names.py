"""Reads the systematic helper names of TIRx 0.27: the name is the instruction.

`tvm_builtin_ptx_<entry>_<modifiers>[_<immediates>][_addr<n>_p<bytes>][_sink_<...>][_<types>][_pred[_keep|_undef]]`,
with `.` written `_` and `::` written `__`. Parameters are the instruction's operands in PTX order, vectors flattened,
results by reference, the predicate last. The modifiers repeat the second word of the entry
(`mbarrier_arrive_arrive_shared_b64` is `mbarrier.arrive.shared.b64`), which is where they are found.
"""

from __future__ import annotations

import re

from warplint.dialects import mnemonics
from warplint.dialects.name_rows import NameOp, NameRow, Where
from warplint.dialects.ptx_arith import ARITHMETIC
from warplint.patterns import late

PREFIX = "tvm_builtin_ptx_"
_PREDICATED = late(r"(?<!vote_sync_any)(?<!vote_sync_all)(?<!vote_sync_uni)_pred(?:_keep|_undef)?\Z")
_OFFSET = late(r"_addr(\d+)_([pm])(\d+)")
_SINK = late(r"_sink_[A-Za-z_]+?(\d+)")
_IMMEDIATE = late(r"_(m?\d+)((?:_(?:u|s|f|b)\d+|_bf16|_f16)*)\Z")
_COMPOUND = late(
    r"(?<![A-Za-z0-9])(arrive_drop|expect_tx|complete_tx|try_wait|test_wait|pending_count|commit_group|wait_group|wait_all"
    r"|bulk_group|cta_group|cache_hint|(?<=fence_)mbarrier_init|(?<=mbarrier_init_)mbarrier_init(?=_release)|acq_rel|launch_dependents|relinquish_alloc_permit|mma_async"
    r"|try_cancel|query_cancel|is_canceled|get_first_ctaid|cp_fenceproxy|after_thread_sync|before_thread_sync"
    r"|block_scale|scale_vec|no_allocate|evict_first|evict_last|evict_normal|evict_unchanged|ignore_src|src_size"
    r"|global_address|global_dim|global_stride|no_hint|ld_reduce|sync_restrict)(?![A-Za-z0-9])"
)
_OTHER_STYLE = late(r"(?:_|\A)(?:u?int\d+|float\d+|bfloat16|plain|scalar|values|from_src|to_dst\d*)(?:_|\Z)")
"""Words that only the names of TIRx 0.26 hold, whose parameters stand in another order."""
_EXTRAS = 4
"""Trailing operands that have no role here: cache policies, masks, hints."""
_ROOTS = ("shfl", "vote", "elect", "redux")
_DROPPED = {"shfl": ("p",), "redux": ("bitwise", "f32"), "vote": ()}
_VECTOR = late(r"_v(\d)(?:_|\Z)")


def systematic(name: str, arity: int | None = None) -> NameRow | None:
    """The row of a systematic name; None when it spells no known instruction, or has another number of operands."""
    text = name.removeprefix(PREFIX)
    if _OTHER_STYLE.search(text):
        return None
    predicated = _PREDICATED.search(text)
    if predicated:
        text = text[: predicated.start()]
    offsets = {int(slot): int(size) * (1 if sign == "p" else -1) for slot, sign, size in _OFFSET.findall(text)}
    sunk = sum(len(lanes) for lanes in _SINK.findall(text))
    text = _SINK.sub("", _OFFSET.sub("", text))
    for form, immediates in _readings(text):
        row = _row(text, form, immediates, offsets, sunk, bool(predicated), arity)
        if row is not None:
            return row
    return None


def _readings(text: str) -> list[tuple[mnemonics.Form, tuple[int, ...]]]:
    """Possible forms: with a trailing number as an immediate, then without."""
    readings = []
    immediate = _IMMEDIATE.search(text)
    if immediate:
        number = immediate.group(1)
        value = -int(number[1:]) if number[0] == "m" else int(number)
        form = _form(text[: immediate.start()])
        if form is not None:
            readings.append((form, (value,)))
    form = _form(text)
    if form is not None:
        readings.append((form, ()))
    return readings


def _form(text: str) -> mnemonics.Form | None:
    glued = _COMPOUND.sub(lambda match: match.group(0).replace("_", "\0"), text.replace("__", "::"))
    words = [word.replace("\0", "_") for word in glued.split("_")]
    head = words[0]
    if head in _ROOTS and words[1:2] == ["sync"]:
        rest = [word for word in words[2:] if word not in _DROPPED.get(head, ())]
        mnemonic = ".".join([head, "sync", *rest])
    elif head in ("ld", "st", "red", "atom", "multimem", "mapa", "prefetch", "nanosleep", "cvta"):
        mnemonic = ".".join(words)
    elif head == "tensormap" and words[1:2] == ["replace"]:
        mnemonic = ".".join(["tensormap", "replace", *words[3:]])
    elif head == "wgmma":
        verbs = ("mma_async", "fence", "commit_group", "wait_group")
        start = max((index for index, word in enumerate(words) if word in verbs), default=1)
        mnemonic = ".".join([head, *words[start:]])
    elif len(words) > 1:
        second = words[1]
        start = max(
            index for index, word in enumerate(words) if index and (word == second or word.startswith(second + "::"))
        )
        mnemonic = ".".join([head, *words[start:]])
    else:
        mnemonic = head
    form = mnemonics.describe(mnemonic)
    if form is None and head.rstrip("0123456789") in ARITHMETIC:
        form = mnemonics.HARMLESS
    return form


def _row(
    text: str,
    form: mnemonics.Form,
    immediates: tuple[int, ...],
    offsets: dict[int, int],
    sunk: int,
    predicated: bool,
    arity: int | None,
) -> NameRow | None:
    if not form.op:
        return NameRow((), writes=(0,))
    slots = _slots(text, form)
    constants = list(immediates)
    operands: list[tuple[str, Where]] = []
    outputs: list[tuple[int, str]] = []
    position = addresses = 0
    for slot in slots:
        role, width, kind = slot
        if kind == "immediate":
            if not constants:
                if role in form.constants or f"{role}?" in form.layout:
                    continue
                return None
            value = constants.pop(0)
            if role != "*":
                operands.append((role, Where("const", value)))
            continue
        if kind == "output":
            width = max(0, width - sunk)
            names = role.split("|")
            for lane in range(width):
                label = names[lane] if len(names) > 1 and lane < len(names) else role if lane == 0 else f"{role}.{lane}"
                outputs.append((position + lane, label))
        else:
            shift = 0
            if kind == "address":
                shift = offsets.get(addresses, 0)
                addresses += 1
            if role != "*":
                if role == "coords":
                    operands.extend((f"coords.{lane}", Where("arg", position + lane)) for lane in range(width))
                else:
                    operands.append((role, Where("arg", position, offset=shift)))
        position += width
    if constants or (arity is not None and not _fits(form.op, arity, position + predicated)):
        return None
    known = {role for role, _ in operands}
    operands.extend((role, Where("const", value)) for role, value in form.constants.items() if role not in known)
    predicate = Where("arg", -1) if predicated else None
    return NameRow((NameOp(form.op, tuple(operands), form.mods, predicate, tuple(outputs)),))


def _fits(op: str, arity: int, taken: int) -> bool:
    """Whether a call with `arity` arguments can be this entry, whose operands with a role take `taken`."""
    return op in _MANY_REGISTERS or taken <= arity <= taken + _EXTRAS


_MANY_REGISTERS = frozenset({"mma.sync", "wgmma.mma_async"})
"""Their register operands are flattened; how many there are is not worked out."""
_ADDRESSES = frozenset({"barrier", "dst", "src", "map", "slot", "address"})
_IMMEDIATES = {
    "cp.async.wait_group": ("group",),
    "cp.async.bulk.wait_group": ("group",),
    "wgmma.wait_group": ("group",),
    "setmaxnreg": ("registers",),
    "cp.async": ("bytes",),
    "fence.proxy.tensormap": ("bytes",),
    "tensormap.cp_fenceproxy": ("bytes",),
}


def _slots(text: str, form: mnemonics.Form) -> list[tuple[str, int, str]]:
    """(role, parameters taken, kind) in parameter order; kind is output, address, value or immediate."""
    op, mods = form.op, form.mods
    immediate = _IMMEDIATES.get(op, ())
    slots: list[tuple[str, int, str]] = []
    for slot in form.layout:
        optional = slot[-1] == "?"
        name = slot.rstrip("?")
        if name[0] == "=":
            if name == "=state" and not _has_state(text):
                continue
            if (op == "match.sync" and "_p_" not in text) or (op == "shfl.sync" and not text.startswith("shfl_sync_p")):
                name = "=value"
            width = _width(text, form) if name == "=value" else 2 if "|" in name else 1
            slots.append((name[1:], width, "output"))
        elif name == "map+":
            slots += [("map", 1, "address"), ("coords", _coordinates(form), "value")]
        elif name in immediate:
            slots.append((name, 1, "immediate"))
        elif "/" in name:
            tensor = "_ts_" in text or text.endswith("_ts")
            slots.append(
                (
                    name.partition("/")[0][1:-1] if tensor else name.partition("/")[2],
                    1,
                    "address" if tensor else "value",
                )
            )
        elif name == "{disable_lanes}":
            slots.append(("*", 8 if mods.get("cta_group") == 2 else 4, "value"))
        elif op in ("tcgen05.ld", "tcgen05.st") and name == "*":
            if "_split" in text.split("_sync", 1)[0]:
                slots.append(("*", 1, "immediate"))
        elif (optional and not _present(text, op, name)) or name[0] == "*":
            continue
        elif name == "value" and op in ("st", "st.async", "tcgen05.st", "stmatrix", "red", "red.release", "atom"):
            width = _width(text, form)
            slots.append(("value" if width == 1 and op != "stmatrix" else "*", width, "value"))
        else:
            role = name.strip("[]{}")
            slots.append((role, 1, "address" if role in _ADDRESSES or name[0] == "[" else "value"))
    return slots


def _has_state(text: str) -> bool:
    return "_state" in text.split("_shared", 1)[0]


def _present(text: str, op: str, role: str) -> bool:
    """Whether an optional operand is a parameter of this entry."""
    if role == "count":
        return "nocount" not in text and not re.search(r"arrive(?:_drop)?_state", text)
    if role == "threads":
        return "_count" in text or text.startswith("bar_arrive") or text in ("bar_sync", "barrier_sync")
    if role == "src_bytes":
        return "src_size" in text
    if role in ("map", "bytes"):
        return op != "fence.proxy.tensormap" or "acquire" in text
    return False


def _coordinates(form: mnemonics.Form) -> int:
    return (
        5
        if "gather4" in str(form.mods.get("mode")) or "scatter4" in str(form.mods.get("mode"))
        else int(form.mods.get("dim", 0))
    )


def _width(text: str, form: mnemonics.Form) -> int:
    """Registers of a result or vector operand."""
    mods = form.mods
    if form.op in ("tcgen05.ld", "tcgen05.st"):
        per = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}.get(str(mods.get("shape")), 1)
        return per * int(mods.get("num", 1))
    if form.op in ("ldmatrix", "stmatrix"):
        return int(mods.get("num", 1)) * (2 if "m16n16" in text and form.op == "ldmatrix" else 1)
    vector = _VECTOR.search(text)
    return int(vector.group(1)) if vector else 1
