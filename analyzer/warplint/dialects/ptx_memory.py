"""PTX loads, stores, atomics and tensor maps.

Source: PTX ISA 9.1, 9.7.9, 9.7.13.5, 9.7.13.6, 9.7.13.16.
"""

from __future__ import annotations

from collections.abc import Callable

from warplint.dialects.forms import Form, Mods, common, make, width, word


def ld(parts: list[str]) -> Form | None:
    """`ld`, `ldu`."""
    mods = common(parts)
    sem = mods.setdefault("sem", "weak")
    name = {"acquire": "ld.acquire", "relaxed": "ld.relaxed", "volatile": "ld.volatile", "mmio": "ld.relaxed"}.get(
        str(sem), "ld"
    )
    return _memory(name, "=value src *?", mods, parts)


def st(parts: list[str]) -> Form | None:
    """`st`, `st.async`, `st.bulk`."""
    if parts[1:2] == ["async"]:
        return _remote("st.async", parts)
    if parts[1:2] == ["bulk"]:
        return make("st", "dst bytes *?", common(parts) | {"sem": "weak"})
    mods = common(parts)
    sem = mods.setdefault("sem", "weak")
    name = {"release": "st.release", "relaxed": "st.relaxed", "volatile": "st.volatile", "mmio": "st.relaxed"}.get(
        str(sem), "st"
    )
    return _memory(name, "dst value *?", mods, parts)


def red(parts: list[str]) -> Form | None:
    """`red`, `red.async`."""
    if parts[1:2] == ["async"]:
        return _remote("red.async", parts)
    mods = _atomic(parts)
    name = "red.release" if mods["sem"] in ("release", "acq_rel") else "red"
    return _memory(name, "dst value *?", mods, parts)


def atom(parts: list[str]) -> Form | None:
    """`atom`."""
    mods = _atomic(parts)
    layout = "=value dst compare value *?" if mods.get("reduce") == "cas" else "=value dst value *?"
    return _memory("atom", layout, mods, parts)


def _atomic(parts: list[str]) -> Mods:
    mods = common(parts)
    mods.setdefault("sem", "relaxed")
    mods.setdefault("scope", "gpu")
    for part in parts[1:]:
        if part in ("add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"):
            mods["reduce"] = part
    return mods


def _memory(name: str, layout: str, mods: Mods, parts: list[str]) -> Form:
    size = width(parts)
    if mods.get("space") == "shared::cluster":
        mods["remote"] = True
    return Form(name, tuple(layout.split()), mods, {} if size is None else {"bytes": size})


def _remote(name: str, parts: list[str]) -> Form:
    mods = common(parts)
    size = width(parts)
    constants = {} if size is None else {"bytes": size}
    if any(p.startswith("mbarrier::") for p in parts):
        return Form(name, ("dst", "value", "barrier"), mods | {"remote": True}, constants)
    return Form(name, ("dst", "value"), mods, constants)


def multimem(parts: list[str]) -> Form | None:
    """`multimem`: as the plain access, on a multicast address."""
    verb = word(parts, 1)
    readers: dict[str, Callable[[list[str]], Form | None]] = {"ld_reduce": ld, "st": st, "red": red}
    form = readers[verb](parts[1:]) if verb in readers else None
    return None if form is None else Form(form.op, form.layout, {**form.mods, "multimem": True}, form.constants)


def prefetch(parts: list[str]) -> Form:
    """`prefetch`, `prefetchu`."""
    return make("prefetch", "src", {"kind": ".".join(parts[1:])})


def tensormap(parts: list[str]) -> Form | None:
    """`tensormap.replace`, `tensormap.cp_fenceproxy`."""
    if parts[1:2] == ["replace"]:
        return make("tensormap.replace", "map *? value", common(parts) | {"field": word(parts, 3)})
    if parts[1:2] == ["cp_fenceproxy"]:
        return make("tensormap.cp_fenceproxy", "dst src bytes", common(parts) | {"aligned": True})
    return None


# ------------------------------------------------------------------------------------------------- control
