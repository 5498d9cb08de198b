r"""The fast path that was expected is not in the generated kernel.

## Why
A generator falls back silently when a shape, a layout or a target does not fit: the kernel is right and several
times slower, because it copies with the threads instead of TMA or multiplies without the tensor core instruction of
its architecture. The source shows it at once.

## Bad
```cuda
// warplint: --arch sm_90a
__device__ void copy16(unsigned dst, const void* src) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(dst), "l"(src) : "memory");
}
__device__ void copies_done() { asm volatile("cp.async.commit_group;\n cp.async.wait_group 0;" ::: "memory"); }
extern "C" __global__ void __launch_bounds__(128) stage(float* out, const float* in) {
  __shared__ alignas(128) float s[512];
  copy16((unsigned)__cvta_generic_to_shared(&s[threadIdx.x * 4]), in + threadIdx.x * 4);
  copies_done();
  __syncthreads();
  out[threadIdx.x] = s[511 - threadIdx.x];
}
```

## Good
```cuda
// warplint: --arch sm_90a
extern "C" __global__ void __launch_bounds__(128) stage(float* out, const float* in) {
  __shared__ alignas(128) float s[512];
  s[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = s[127 - threadIdx.x];
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.rule import Rule
from warplint.threads.facts import Event, Roles
from warplint_rules._say import Reporter, line, location, spelled

RULE = Rule(Level.NOTE, Symptom.SLOW, guide=True)
SAY = Reporter(__name__, RULE)

_PATHS = {
    "tma": ("cp.async.bulk.*", "cp.reduce.async.bulk"),
    "tcgen05": ("tcgen05.mma",),
    "wgmma": ("wgmma.mma_async",),
    "mfma": ("amd.mfma", "amd.wmma"),
}
_TITLES = {
    "tma": "TMA or bulk copies (`cp.async.bulk`)",
    "tcgen05": "the tensor core of Blackwell (`tcgen05.mma`)",
    "wgmma": "the tensor core of Hopper (`wgmma.mma_async`)",
    "mfma": "matrix instructions (MFMA/WMMA)",
}
# (architecture prefix, path, what a kernel of it uses instead): then the path is suggested though nobody asked for it.
_SUGGESTED = (
    ("sm_90a", "wgmma", ("mma.sync",)),
    ("sm_100", "tcgen05", ("mma.sync", "wgmma.mma_async")),
    ("sm_103", "tcgen05", ("mma.sync", "wgmma.mma_async")),
    ("sm_90", "tma", ("cp.async",)),
    ("sm_100", "tma", ("cp.async",)),
    ("sm_103", "tma", ("cp.async",)),
)


def check(roles: Roles) -> Iterator[Finding]:
    """Paths named by the user, then those that the architecture and the slower operations suggest."""
    if _hidden(roles):
        return
    for path in roles.launch.expect:
        if path in _PATHS and _first(roles, *_PATHS[path]) is None:
            yield SAY.at(
                roles,
                roles.kernel.span,
                f"The kernel does not use {_TITLES[path]}, which was expected of it.",
                level=Level.WARNING,
                why="The generator fell back to another path: the result is right and slower.",
                remedy=_remedy(path),
            )
    for arch, path, instead in _SUGGESTED:
        if not roles.launch.arch.startswith(arch) or path in roles.launch.expect:
            continue
        slow = _first(roles, *instead)
        if slow is not None and _first(roles, *_PATHS[path]) is None:
            yield SAY.at(
                roles,
                roles.kernel.span,
                f"The kernel for {roles.launch.arch} uses {spelled(slow)} (line {line(roles, slow.op.span)}) and not "
                f"{_TITLES[path]}.",
                level=Level.NOTE,
                why="If the shape allows it, the path of this architecture is several times faster.",
                remedy=_remedy(path),
                related=[location(roles, slow.op.span, "used instead")],
            )


def _first(roles: Roles, *names: str) -> Event | None:
    return next(roles.of(*names), None)


def _hidden(roles: Roles) -> bool:
    """The path may be in what is not shown: an excerpt of a kernel, or something that could not be read."""
    return bool(roles.kernel.incomplete) or b"__global__" not in roles.kernel.source.data


def _remedy(path: str) -> str:
    return {
        "tma": "Check alignment (16 bytes), contiguous inner dimension and target of the copy that should be TMA.",
        "tcgen05": "Check the tile shape, operand layouts and target (sm_100a or sm_100f, not sm_100).",
        "wgmma": "Check that the M tile is a multiple of 64 per warpgroup and the target is sm_90a, not sm_90.",
        "mfma": "Check the tile shape and data type against what the target's matrix instructions take.",
    }[path]
