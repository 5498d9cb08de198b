"""A number stands for the width of a wave, and it is another on this target or on this side of the compiler.

## Why
A wave has 64 lanes on gfx9 (CDNA) and 32 from gfx10 on (RDNA, gfx1250), and a file is compiled once for the host and
once for each target: `__HIP_DEVICE_COMPILE__`, `__GFX9__` and their like are defined in device code only, so that a
macro made of them sizes the launch with one width and the kernel with the other. (HIP: `warpSize`, C++ language
extensions; `__launch_bounds__` is a promise, and a larger block does not start.) A reduction over 32 lanes leaves out
half of a wave of 64 where one lane of the wave speaks for all; a distance of 32 reaches no lane of a wave of 32.
Groups of 32 lanes inside a wave of 64 are fine as long as every group is heard.

## Bad
```cuda
// warplint: --arch gfx942
#include <hip/hip_runtime.h>
extern "C" __global__ void __launch_bounds__(64) total(float* out, const float* in) {
  float v = in[blockIdx.x * 64 + threadIdx.x];
  for (int o = 16; o > 0; o >>= 1) v += __shfl_down(v, o);
  if (threadIdx.x == 0) out[blockIdx.x] = v;
}
```

## Good
```cuda
// warplint: --arch gfx942
#include <hip/hip_runtime.h>
extern "C" __global__ void __launch_bounds__(64) total(float* out, const float* in) {
  float v = in[blockIdx.x * 64 + threadIdx.x];
  for (int o = warpSize / 2; o > 0; o >>= 1) v += __shfl_down(v, o);
  if (threadIdx.x == 0) out[blockIdx.x] = v;
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Location, Symptom
from warplint.program.ir import Address, HostLaunch, Special, walk
from warplint.rule import Rule
from warplint.threads.facts import Roles
from warplint_rules._say import Reporter, location
from warplint_rules.amd import _widths

RULE = Rule(Level.WARNING, Symptom.WRONG_RESULT)
SAY = Reporter(__name__, RULE)


def check(roles: Roles) -> Iterator[Finding]:
    """Launches of another width than the kernel's, and wave-level code of another width than the target's."""
    if not roles.kernel.is_amd:
        return
    for launch in roles.kernel.launches:
        found = list(_launched(roles, launch))
        yield from found
        if found:
            return  # what follows from a block of the wrong size is no other mistake
    if roles.launch.known_wave:
        yield from _widths.findings(SAY, roles, roles.launch.known_wave)


def _launched(roles: Roles, launch: HostLaunch) -> Iterator[Finding]:
    """A launch that host code sizes with another value than device code."""
    kernel, bound = roles.kernel, roles.launch.max_threads
    block, meant = _total(launch.block), _total(launch.device_block)
    names = [each for each in launch.differing if each.in_kernel] or list(launch.differing)
    if block is None:
        return
    said = ", ".join(f"`{each.name}` is {each.host} in host code and {each.device} in device code" for each in names)
    here = [location(roles, launch.span, "the launch")]
    if bound is not None and block > bound and (names or block == 2 * bound):
        yield SAY.at(
            roles,
            kernel.span,
            f"`{kernel.name}` is launched with {block} threads and compiled for {bound}"
            + (f": {said}." if said else " (`__launch_bounds__`)."),
            why="A block larger than `__launch_bounds__` does not start: the launch fails."
            + (" The macros of a target are defined in the device's pass only." if said else ""),
            remedy=_REMEDY,
            symptom=Symptom.CRASH,
            related=here,
        )
        return
    in_kernel = any(each.in_kernel for each in names)
    if meant is not None and meant != block and in_kernel and not (meant != bound and _asks_for_block(roles)):
        yield SAY.at(
            roles,
            kernel.span,
            f"`{kernel.name}` is launched with {block} threads where its own constants mean {meant}: {said}.",
            why="The host's compiler does not define the macros of a target, so the launch and the kernel disagree on "
            "how many threads share the work; some of it is done twice or not at all.",
            remedy=_REMEDY,
            related=here,
        )
    elif launch.smem is not None and launch.device_smem is not None and launch.smem < launch.device_smem and in_kernel:
        yield SAY.at(
            roles,
            kernel.span,
            f"`{kernel.name}` gets {launch.smem} bytes of dynamic shared memory where its own constants mean "
            f"{launch.device_smem}: {said}.",
            why="The host's compiler does not define the macros of a target, so the launch provides for another number "
            "of waves than the kernel has; what lies beyond is not the workgroup's.",
            remedy=_REMEDY,
            related=[*here, *_accesses(roles)],
            level=Level.NOTE,  # whether it is too little, `smem-out-of-bounds` says from the accesses
        )


_REMEDY = (
    "Ask the device on the host (`hipDeviceProp_t::warpSize`) and size the launch with that, or use a number that is "
    "the same in both passes."
)


def _total(block: tuple[int, ...] | None) -> int | None:
    if block is None:
        return None
    total = 1
    for extent in block:
        total *= extent
    return total


def _accesses(roles: Roles) -> Iterator[Location]:
    """Where dynamic shared memory is used."""
    for stmt in walk(roles.kernel.body):
        for part in _widths.expressions(stmt):
            if isinstance(part, Address) and part.symbol.kind == "dynamic_shared":
                yield location(roles, stmt.span, f"`{part.symbol.name}` is used here")
                break


def _asks_for_block(roles: Roles) -> bool:
    """The kernel reads `blockDim`: it may do with any block."""
    return any(
        isinstance(part, Special) and part.name.startswith("ntid") for stmt in walk(roles.kernel.body)
        for part in _widths.expressions(stmt)
    )  # fmt: skip
