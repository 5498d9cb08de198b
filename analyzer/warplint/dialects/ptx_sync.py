"""PTX synchronisation: mbarriers, fences, CTA, cluster and grid barriers.

Source: PTX ISA 9.1, 9.7.13.
"""

from __future__ import annotations

from warplint.dialects.forms import HARMLESS, Form, Mods, common, make, word


def mbarrier(parts: list[str]) -> Form | None:
    """`mbarrier`."""
    verb = word(parts, 1)
    mods = common(parts)
    space = mods.get("space")
    if space == "shared::cluster":
        mods["remote"] = True
    if verb == "init":
        return make("mbarrier.init", "barrier count", mods)
    if verb == "inval":
        return make("mbarrier.inval", "barrier", mods)
    if verb == "expect_tx":
        return make("mbarrier.expect_tx", "barrier bytes", mods)
    if verb == "complete_tx":
        return make("mbarrier.complete_tx", "barrier bytes", mods)
    if verb in ("arrive", "arrive_drop"):
        mods.setdefault("sem", "release")
        mods.setdefault("scope", "cta")
        expects = "expect_tx" in parts
        layout = "=state barrier bytes" if expects else "=state barrier count?"
        if any(part.startswith("multicast::") for part in parts):
            mods["multicast"] = True
            layout += " cta_mask"
        if verb == "arrive_drop":
            mods["expect_tx"] = expects
            mods["noComplete"] = "noComplete" in parts
            return make("mbarrier.arrive_drop", layout, mods, count=1)
        if expects:
            return make("mbarrier.arrive.expect_tx", layout, mods, count=1)
        if "noComplete" in parts:
            return make("mbarrier.arrive.noComplete", layout, mods, count=1)
        return make("mbarrier.arrive", layout, mods, count=1)
    if verb in ("try_wait", "test_wait"):
        mods.setdefault("sem", "acquire")
        mods.setdefault("scope", "cta")
        by = "parity" if "parity" in parts else "state"
        return make("mbarrier." + verb, f"=value barrier {by} *?", mods)
    if verb == "pending_count":
        return HARMLESS
    return None


# --------------------------------------------------------------------------------------------------- copies


def fence(parts: list[str]) -> Form | None:
    """`fence`: thread fences of every scope share one operation, told apart by `sem` and `scope`."""
    if parts[1:2] == ["mbarrier_init"]:
        return make("fence.mbarrier_init.release.cluster", "", {"sem": "release", "scope": "cluster"})
    if parts[1:2] == ["proxy"]:
        kind = word(parts, 2)
        mods = common(parts)
        if kind.startswith("async"):
            restrict = next((p.partition("::")[2] for p in parts if p.startswith("sync_restrict::")), "")
            if restrict:
                mods["sync_restrict"] = restrict
            return make("fence.proxy.async", "", mods)
        if kind.startswith("tensormap"):
            return make("fence.proxy.tensormap", "map? bytes?", mods)
        return HARMLESS if kind == "alias" else None
    mods = common(parts)
    mods.setdefault("sem", "acq_rel")
    mods.setdefault("scope", "sys")
    restrict = next((p.partition("::")[2] for p in parts if p.startswith("sync_restrict::")), "")
    if restrict:
        mods["sync_restrict"] = restrict
    return make("fence.acq_rel.cluster", "", mods)


def membar(parts: list[str]) -> Form | None:
    """`membar`."""
    if parts[1:2] == ["proxy"]:
        return HARMLESS
    scope = {"cta": "cta", "gl": "gpu", "sys": "sys"}.get(word(parts, 1))
    return None if scope is None else make("fence.acq_rel.cluster", "", {"sem": "sc", "scope": scope})


# ------------------------------------------------------------------------------------------------- barriers


def bar(parts: list[str]) -> Form | None:
    """`bar`, `barrier`, `barrier.cluster`."""
    if parts[1:3] == ["warp", "sync"]:
        return make("bar.warp.sync", "mask")
    rest = [p for p in parts[1:] if p != "cta"]
    if parts[:2] == ["barrier", "cluster"]:
        return _cluster(parts)
    aligned = parts[0] == "bar" or "aligned" in parts
    verb = rest[0] if rest else ""
    mods: Mods = {"aligned": aligned, "kind": verb}
    if verb == "sync":
        return make("bar.sync.named" if aligned else "barrier.nonaligned", "id threads?", mods)
    if verb == "arrive":
        return make("bar.arrive.named", "id threads", mods)
    if verb == "red":
        mods["reduce"] = rest[1] if len(rest) > 1 else ""
        return Form("bar.red.cta", ("=value", "id", "threads?", "value"), mods)
    return None


def _cluster(parts: list[str]) -> Form | None:
    verb = word(parts, 2)
    sem = next((p for p in parts if p in ("release", "relaxed", "acquire")), "")
    mods: Mods = {"aligned": "aligned" in parts, "scope": "cluster"}
    if verb == "arrive":
        return make("barrier.cluster.arrive", "", mods | {"sem": sem or "release"})
    if verb == "wait":
        return make("barrier.cluster.wait", "", mods | {"sem": sem or "acquire"})
    return None


# ------------------------------------------------------------------------------------------------ warp level


def griddep(parts: list[str]) -> Form | None:
    """`griddepcontrol`."""
    verb = word(parts, 1)
    return make("griddepcontrol." + verb) if verb in ("wait", "launch_dependents") else None


def clc(parts: list[str]) -> Form | None:
    """`clusterlaunchcontrol`."""
    if parts[1:2] == ["try_cancel"]:
        multicast = any(p.startswith("multicast::") for p in parts)
        return Form("clusterlaunchcontrol.try_cancel", ("dst", "barrier"), {"multicast": multicast}, {"bytes": 16})
    if parts[1:2] == ["query_cancel"]:
        return make("clusterlaunchcontrol.query_cancel", "=value value", {"kind": word(parts, 2)})
    return None


# -------------------------------------------------------------------------------------------------- memory
