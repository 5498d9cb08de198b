"""PTX matrix instructions: warp, warpgroup and tensor-memory ones, and register reallocation.

Source: PTX ISA 9.1, 9.7.14, 9.7.15, 9.7.16 and 9.7.19.5.
"""

from __future__ import annotations

from warplint.dialects.forms import Form, Mods, group, make, space, word

_NARROW = frozenset({"b8", "b4x16", "b6x16_p32", "b4x16_p64"})


def matrix(parts: list[str]) -> Form | None:
    """`ldmatrix`, `stmatrix`, `movmatrix`."""
    if parts[0] == "movmatrix":
        return make("movmatrix", "=value value", {"aligned": True})
    mods: Mods = {"aligned": True} | space(parts)
    number = next((int(p[1:]) for p in parts if p[:1] == "x" and p[1:].isdigit()), 1)
    shape = next((p for p in parts if p[:1] == "m" and p[1:2].isdigit()), "m8n8")
    element = 1 if any(p in _NARROW for p in parts) else 2
    rows = shape[1:].split("n")
    mods["shape"], mods["num"] = shape, number
    size = int(rows[0]) * int(rows[1]) * element * number if len(rows) == 2 and all(r.isdigit() for r in rows) else 0
    constants = {"bytes": size} if size else {}
    if parts[0] == "ldmatrix":
        return Form("ldmatrix", ("=value", "src"), mods, constants)
    return Form("stmatrix", ("dst", "value"), mods, constants)


def mma(parts: list[str]) -> Form | None:
    """`mma.sync`, `wmma`."""
    if parts[0] == "wmma":
        verb = word(parts, 1)
        if verb == "load":
            return make("wmma.load", "=value src *?", {"aligned": True} | space(parts))
        if verb == "store":
            return make("wmma.store", "dst value *?", {"aligned": True} | space(parts))
        return make("mma.sync", "=value * * *", {"aligned": True}) if verb == "mma" else None
    if "sync" not in parts:
        return None
    shape = next((p for p in parts if p[:1] == "m" and p[1:2].isdigit()), "")
    return make("mma.sync", "=value * * * *? *? *? *? *? *?", {"aligned": True, "shape": shape})


def wgmma(parts: list[str]) -> Form | None:
    """`wgmma`."""
    verb = word(parts, 1)
    if verb == "fence":
        return make("wgmma.fence", "", {"aligned": True})
    if verb == "commit_group":
        return make("wgmma.commit_group", "", {"aligned": True})
    if verb == "wait_group":
        return make("wgmma.wait_group", "group", {"aligned": True})
    if verb == "mma_async":
        shape = next((p for p in parts if p[:1] == "m" and p[1:2].isdigit()), "")
        sparse = "sp" in parts
        layout = "=value {a}/desc_a desc_b" + (" * *" if sparse else "") + " accumulate? *? *? *? *?"
        return make("wgmma.mma_async", layout, {"aligned": True, "shape": shape})
    return None


def setmaxnreg(parts: list[str]) -> Form | None:
    """`setmaxnreg`."""
    direction = word(parts, 1)
    if direction not in ("inc", "dec"):
        return None
    return make("setmaxnreg", "registers", {"direction": direction, "aligned": True})


# ------------------------------------------------------------------------------------------------- tcgen05


def tcgen05(parts: list[str]) -> Form | None:
    """`tcgen05`."""
    verb = word(parts, 1)
    mods: Mods = {}
    for part in parts[1:]:
        if part.startswith("cta_group::"):
            mods["cta_group"] = group(part)
        elif part.startswith("kind::"):
            mods["kind"] = part[6:]
    if verb == "alloc":
        return make("tcgen05.alloc", "slot columns", mods | {"aligned": True})
    if verb == "dealloc":
        return make("tcgen05.dealloc", "address columns", mods | {"aligned": True})
    if verb == "relinquish_alloc_permit":
        return make("tcgen05.relinquish_alloc_permit", "", mods | {"aligned": True})
    if verb in ("ld", "st"):
        for part in parts[2:]:
            if "x" in part and part[:1].isdigit():
                mods["shape"] = part
            elif part[:1] == "x" and part[1:].isdigit():
                mods["num"] = int(part[1:])
        mods["aligned"] = True
        if verb == "st":
            return make("tcgen05.st", "[address] *? value", mods)
        reduction = " =reduced" if "red" in parts else ""
        mods["red"] = bool(reduction)
        return make("tcgen05.ld", f"=value{reduction} [address] *?", mods)
    if verb.startswith("wait::"):
        return make("tcgen05.wait", "", {"kind": verb[6:], "aligned": True})
    if verb.startswith("fence::"):
        return make("tcgen05.fence." + verb[7:]) if verb[7:] in ("before_thread_sync", "after_thread_sync") else None
    if verb == "commit":
        mods["multicast"] = "multicast::cluster" in parts
        return make("tcgen05.commit", "barrier" + (" cta_mask" if mods["multicast"] else ""), mods)
    if verb == "cp":
        shape = next((p for p in parts[2:] if "x" in p and p[:1].isdigit()), "")
        return make("tcgen05.cp", "address desc_a", mods | {"shape": shape})
    if verb == "shift":
        return make("tcgen05.shift", "address", mods)
    if verb == "mma":
        return _tcgen05_mma(parts, mods)
    return None


def _tcgen05_mma(parts: list[str], mods: Mods) -> Form:
    mods["ws"] = "ws" in parts
    mods["block_scale"] = "block_scale" in parts
    sparse = " [*]" if "sp" in parts else ""
    scales = " [scale_a] [scale_b]" if mods["block_scale"] else ""
    mask = "" if mods["ws"] or mods["block_scale"] else " {disable_lanes}?"
    return make(
        "tcgen05.mma", f"[address] [a_address]/desc_a desc_b{sparse} idesc{scales}{mask} accumulate *? *?", mods
    )


# ---------------------------------------------------------------------------------------------------- grid
