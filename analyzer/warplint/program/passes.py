"""A launch as host code means it, beside what its text would mean in device code.

A file is compiled once for the host and once for each target. A macro or constant that `#if defined(
__HIP_DEVICE_COMPILE__)` and the like define twice sizes the launch with one value and the kernel with the other.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec.structs import replace

from warplint.patterns import late
from warplint.program import expr, ir, launch
from warplint.program.unit import Build, Unit, file_ctx
from warplint.syntax import ast
from warplint.syntax.preprocessor import wave_of

HOST_WAVE = 64
"""`warpSize` in host code, whatever the target (HIP headers before ROCm 7; from then on it is no constant)."""
_WORD = late(rb"[A-Za-z_]\w*")
_MAX_NAMES = 2000


def compared(host: Build, device: Build, found: ast.Launch, made: ir.HostLaunch, mentions: bytes) -> ir.HostLaunch:
    """A launch with what its text means with the values of device code; `mentions` is the text the kernel reaches."""
    ctx = launch.host_scope(device, found.function, width(device.unit))
    block = launch.extents(device, found.block, ctx)
    smem = expr.constant(device, found.smem, ctx) if found.smem is not None else made.smem
    if block == made.block and smem == made.smem:
        return made
    functions = host.unit.functions.get(found.function) or []
    data = host.unit.source.data
    spans = [fn.span for fn in functions] or [found.span]
    text = b"\n".join(data[span.start : span.end] for span in spans)
    differing = _differing(host, device, found, text, mentions)
    return replace(made, device_block=block, device_smem=smem, differing=differing)


def _differing(host: Build, device: Build, found: ast.Launch, text: bytes, mentions: bytes) -> tuple[ir.Differing, ...]:
    """Macros and constants that a text leads to, whose own definition (not what they are made of) is another."""
    used, kernel = _reached(host.unit, text), _reached(device.unit, mentions)
    values: dict[str, tuple[int, int]] = {}
    lanes = width(device.unit)
    if "warpSize" in used and lanes and lanes != HOST_WAVE:
        values["warpSize"] = (HOST_WAVE, lanes)
    for name in sorted(used):
        node = ast.Name(found.span, name)
        here, there = (expr.constant(side, node, file_ctx(side.unit)) for side in (host, device))
        if here is not None and there is not None and here != there:
            values[name] = (here, there)
    return tuple(
        ir.Differing(name, *pair, name in kernel)
        for name, pair in values.items()
        if not (_words(_definition(host.unit, name)) & values.keys())
    )


def width(unit: Unit) -> int:
    """Lanes of a wave of the target, 0 when it is not known or no AMD target."""
    return wave_of(unit.options.arch) if unit.is_amd else 0


def _definition(unit: Unit, name: str) -> bytes:
    """What a macro or constant stands for, as text."""
    macro = unit.macros.get(name)
    if macro is not None:
        return macro.body.encode() if macro.params is None else b""
    item = unit.globals.get(name)
    if item is None or item.init is None:
        return b""
    return unit.source.data[item.init.span.start : item.init.span.end]


def _words(text: bytes) -> set[str]:
    return {match[0].decode() for match in _WORD.finditer(text)}


def _reached(unit: Unit, text: bytes) -> Collection[str]:
    """Macros and constants that a text names, or that these are made of."""
    found: set[str] = set()
    pending = sorted(_words(text))
    while pending and len(found) < _MAX_NAMES:
        name = pending.pop()
        if name not in found and (name == "warpSize" or name in unit.macros or name in unit.globals):
            found.add(name)
            pending.extend(sorted(_words(_definition(unit, name))))
    return found
