"""PTX copies: asynchronous, bulk and tensor, with their groups.

Source: PTX ISA 9.1, 9.7.9.25 and 9.7.9.27.
"""

from __future__ import annotations

from warplint.dialects.forms import Form, Mods, group, make, space, word


def describe(parts: list[str]) -> Form | None:
    """`cp.async`, `cp.async.bulk`, `cp.async.bulk.tensor`, `cp.reduce.async.bulk` and their groups."""
    if parts[1:2] == ["reduce"]:
        return _bulk_reduce(parts)
    if parts[1:2] != ["async"]:
        return None
    rest = parts[2:]
    if rest[:1] == ["bulk"]:
        return _bulk(parts)
    if rest[:2] == ["mbarrier", "arrive"]:
        return make("cp.async.mbarrier.arrive", "barrier", {"noinc": "noinc" in parts} | space(parts))
    if rest[:1] == ["commit_group"]:
        return make("cp.async.commit_group")
    if rest[:1] == ["wait_group"]:
        return make("cp.async.wait_group", "group")
    if rest[:1] == ["wait_all"]:
        return Form("cp.async.wait_group", (), {"all": True}, {"group": 0})
    if rest[:1] in (["ca"], ["cg"]):
        return make("cp.async", "dst src bytes src_bytes? *?", {"cache": rest[0]})
    return None


def _bulk(parts: list[str]) -> Form | None:
    verb = word(parts, 3)
    if verb == "commit_group":
        return make("cp.async.bulk.commit_group")
    if verb == "wait_group":
        return make("cp.async.bulk.wait_group", "group", {"read": "read" in parts})
    if verb == "prefetch":
        if "tensor" in parts:
            return make("cp.async.bulk.prefetch", "map+ *? *?", _tensor_mods(parts))
        return make("cp.async.bulk.prefetch", "src bytes *?")
    tensor = verb == "tensor"
    spaces = [p for p in parts if p in ("global", "shared", "shared::cta", "shared::cluster")]
    if len(spaces) < 2:
        return None
    dst, src = spaces[0], spaces[1]
    mods = _tensor_mods(parts) if tensor else {}
    mods["space"] = dst
    mods["multicast"] = "multicast::cluster" in parts
    mask = " cta_mask" if mods["multicast"] else ""
    if dst == "global":
        if tensor:
            return make("cp.async.bulk.tensor.store", "map+ src *? *?", mods)
        return make("cp.async.bulk.s2g", "dst src bytes *? *?", mods)
    if tensor:
        return make("cp.async.bulk.tensor.load", f"dst map+ barrier {{im2col}}?{mask} *?", mods)
    if src == "global":
        return make("cp.async.bulk.g2s", f"dst src bytes barrier{mask} *? *? *?", mods)
    return make("cp.async.bulk.s2s", "dst src bytes barrier", mods | {"remote": True})


def _tensor_mods(parts: list[str]) -> Mods:
    mods: Mods = {"tensor": True, "mode": "tile"}
    for part in parts:
        if len(part) == 2 and part[1] == "d" and part[0].isdigit():
            mods["dim"] = int(part[0])
        elif part.startswith("cta_group::"):
            mods["cta_group"] = group(part)
        elif part.startswith(("tile", "im2col")):
            mods["mode"] = part
    return mods


def _bulk_reduce(parts: list[str]) -> Form | None:
    if parts[2:4] != ["async", "bulk"]:
        return None
    mods: Mods = _tensor_mods(parts) if "tensor" in parts else {"tensor": False}
    spaces = [p for p in parts if p in ("global", "shared::cta", "shared::cluster")]
    mods["space"] = spaces[0] if spaces else "global"
    for part in parts:
        if part in ("add", "min", "max", "inc", "dec", "and", "or", "xor"):
            mods["reduce"] = part
    if "tensor" in parts:
        return make("cp.reduce.async.bulk", "map+ src *? *?", mods)
    if mods["space"] == "shared::cluster":
        return make("cp.reduce.async.bulk", "dst src bytes barrier", mods | {"remote": True})
    return make("cp.reduce.async.bulk", "dst src bytes *?", mods)
