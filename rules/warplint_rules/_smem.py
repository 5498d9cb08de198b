"""How much shared memory there is: declared, launched with, and built into the hardware."""

from __future__ import annotations

from warplint.program.ir import Symbol
from warplint.threads.facts import Roles

# Bytes per block: static limit of the compiler, and most of all kinds together (CUDA Programming Guide; ptxas 13.0
# accepts static arrays above 48 KiB only for the `a` targets).
_STATIC_DEFAULT = 48 * 1024
_KIB = 1024
_PER_BLOCK = {
    "80": 163 * _KIB,
    "87": 163 * _KIB,
    "86": 99 * _KIB,
    "89": 99 * _KIB,
    "90": 227 * _KIB,
    "100": 227 * _KIB,
    "103": 227 * _KIB,
    "120": 99 * _KIB,
    "121": 99 * _KIB,
}
_LDS = {"gfx950": 160 * _KIB, "gfx1250": 320 * _KIB}
_LDS_DEFAULT = 64 * _KIB
"""LLVM's limit for the other AMD targets."""


def per_block_limit(roles: Roles) -> tuple[int, str] | None:
    """The most shared memory (LDS) a block can have, and whose limit that is; None for an unknown architecture."""
    arch = roles.launch.arch
    if arch.startswith("gfx"):
        return _LDS.get(arch.split(":")[0], _LDS_DEFAULT), arch
    number = arch.removeprefix("sm_").rstrip("af")
    return (_PER_BLOCK[number], arch) if number in _PER_BLOCK else None


def static_limit(roles: Roles) -> tuple[int, str] | None:
    """The most shared memory a kernel can declare statically, and whose limit that is; None when unknown."""
    found = per_block_limit(roles)
    arch = roles.launch.arch
    if found is None or arch.startswith("gfx") or arch.endswith("a"):
        return found
    return min(found[0], _STATIC_DEFAULT), f"a static declaration on {arch}"


def dynamic_limit(roles: Roles) -> tuple[int, str] | None:
    """The bytes of the dynamic pool, or at least what the hardware can give, and where that is known from."""
    smem = roles.launch.smem
    if smem is not None:
        return smem.value[0], f" ({smem.origin})" if smem.origin else ""
    found = per_block_limit(roles)
    return None if found is None else (found[0], f" (the most that {found[1]} gives a block)")


def static_bytes(roles: Roles) -> tuple[int, tuple[Symbol, ...]]:
    """The bytes of all static shared variables whose size is known, each declaration once, and those variables.

    Each is placed at the next multiple of its alignment, as compilers do in order of falling alignment or better;
    the sum without padding is therefore a floor, and that is what is returned.
    """
    chosen: dict[tuple[str, int], Symbol] = {}
    for symbol in roles.kernel.shared:
        if symbol.kind == "shared" and symbol.bytes:
            chosen.setdefault((symbol.name, symbol.span.start), symbol)
    symbols = tuple(chosen.values())
    return sum(symbol.bytes or 0 for symbol in symbols), symbols
