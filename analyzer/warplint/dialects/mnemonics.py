"""PTX mnemonics: the form of an instruction by its mnemonic (`forms` says what a form is)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from warplint.dialects import ptx_copies, ptx_matrix, ptx_memory, ptx_sync
from warplint.dialects.forms import HARMLESS, Form, make, word
from warplint.dialects.ptx_arith import ARITHMETIC, FOLLOWED

__all__ = ["HARMLESS", "Form", "describe"]


@lru_cache(maxsize=4096)
def describe(mnemonic: str) -> Form | None:
    """The form of a PTX mnemonic, or None when it is not known."""
    parts = mnemonic.split(".")
    head = parts[0]
    reader = _HEADS.get(head)
    if reader is not None:
        return reader(parts)
    return _arithmetic(parts) if head in ARITHMETIC else None


def _arithmetic(parts: list[str]) -> Form:
    """Register arithmetic: results are followed only for what addresses and predicates are made of."""
    head = parts[0]
    if head == "setp":
        return Form("", arith="setp")
    if head in FOLLOWED:
        floating = any(p in ("f32", "f64", "f16", "bf16", "f16x2", "bf16x2", "f32x2") for p in parts[1:])
        return HARMLESS if floating else Form("", arith=head)
    if head in ("mul", "mad") and "lo" in parts:
        return Form("", arith=head)
    return HARMLESS


def _elect(parts: list[str]) -> Form | None:
    return make("elect.sync", "=lane|value mask") if parts[1:2] == ["sync"] else None


def _shfl(parts: list[str]) -> Form | None:
    if parts[1:2] != ["sync"]:
        return None
    return make("shfl.sync", "=value|inbounds value lane clamp mask", {"mode": word(parts, 2)})


def _vote(parts: list[str]) -> Form | None:
    if "sync" not in parts[1:3]:
        return None
    mode = next((part for part in parts[1:3] if part != "sync"), "")  # `vote.ballot.sync` is an accepted order
    return make("vote.sync", "=value value mask", {"mode": mode})


def _match(parts: list[str]) -> Form | None:
    if parts[2:3] != ["sync"]:
        return None
    return make("match.sync", "=value|all value mask", {"mode": parts[1]})


def _redux(parts: list[str]) -> Form | None:
    if parts[1:2] != ["sync"]:
        return None
    return make("redux.sync", "=value value mask", {"reduce": word(parts, 2)})


def _activemask(parts: list[str]) -> Form:
    return make("activemask", "=value")


# -------------------------------------------------------------------------------------------------- wgmma


def _exit(parts: list[str]) -> Form:
    return make("thread.exit", "", {"trap": parts[0] == "trap"})


_HEADS: dict[str, Callable[[list[str]], Form | None]] = {
    "mbarrier": ptx_sync.mbarrier,
    "cp": ptx_copies.describe,
    "fence": ptx_sync.fence,
    "membar": ptx_sync.membar,
    "bar": ptx_sync.bar,
    "barrier": ptx_sync.bar,
    "elect": _elect,
    "activemask": _activemask,
    "shfl": _shfl,
    "vote": _vote,
    "match": _match,
    "redux": _redux,
    "ldmatrix": ptx_matrix.matrix,
    "stmatrix": ptx_matrix.matrix,
    "movmatrix": ptx_matrix.matrix,
    "mma": ptx_matrix.mma,
    "wmma": ptx_matrix.mma,
    "wgmma": ptx_matrix.wgmma,
    "tcgen05": ptx_matrix.tcgen05,
    "setmaxnreg": ptx_matrix.setmaxnreg,
    "griddepcontrol": ptx_sync.griddep,
    "clusterlaunchcontrol": ptx_sync.clc,
    "nanosleep": lambda parts: make("nanosleep", "value"),
    "ld": ptx_memory.ld,
    "ldu": ptx_memory.ld,
    "st": ptx_memory.st,
    "red": ptx_memory.red,
    "atom": ptx_memory.atom,
    "multimem": ptx_memory.multimem,
    "prefetch": ptx_memory.prefetch,
    "prefetchu": ptx_memory.prefetch,
    "tensormap": ptx_memory.tensormap,
    "mapa": lambda parts: Form("mapa", ("=value", "src", "cta"), fold="mapa"),
    "cvta": lambda parts: Form("", ("=value", "a"), fold="cvta"),
    "exit": _exit,
    "trap": _exit,
    "brkpt": lambda parts: HARMLESS,
}


_HEADS: dict[str, Callable[[list[str]], Form | None]] = {
    "mbarrier": ptx_sync.mbarrier,
    "cp": ptx_copies.describe,
    "fence": ptx_sync.fence,
    "membar": ptx_sync.membar,
    "bar": ptx_sync.bar,
    "barrier": ptx_sync.bar,
    "elect": _elect,
    "activemask": _activemask,
    "shfl": _shfl,
    "vote": _vote,
    "match": _match,
    "redux": _redux,
    "ldmatrix": ptx_matrix.matrix,
    "stmatrix": ptx_matrix.matrix,
    "movmatrix": ptx_matrix.matrix,
    "mma": ptx_matrix.mma,
    "wmma": ptx_matrix.mma,
    "wgmma": ptx_matrix.wgmma,
    "tcgen05": ptx_matrix.tcgen05,
    "setmaxnreg": ptx_matrix.setmaxnreg,
    "griddepcontrol": ptx_sync.griddep,
    "clusterlaunchcontrol": ptx_sync.clc,
    "nanosleep": lambda parts: make("nanosleep", "value"),
    "ld": ptx_memory.ld,
    "ldu": ptx_memory.ld,
    "st": ptx_memory.st,
    "red": ptx_memory.red,
    "atom": ptx_memory.atom,
    "multimem": ptx_memory.multimem,
    "prefetch": ptx_memory.prefetch,
    "prefetchu": ptx_memory.prefetch,
    "tensormap": ptx_memory.tensormap,
    "mapa": lambda parts: Form("mapa", ("=value", "src", "cta"), fold="mapa"),
    "cvta": lambda parts: Form("", ("=value", "a"), fold="cvta"),
    "exit": _exit,
    "trap": _exit,
    "brkpt": lambda parts: HARMLESS,
}
