"""A `*_sync` built-in of HIP gets a 32-bit member mask.

## Why
HIP's masks are 64 bits wide on all hardware: the headers refuse another type with a static assertion. A mask that was
copied from CUDA (`0xffffffff`) names only the lower half of a 64-lane wave even where it is converted.

## Bad
```cuda
// warplint: --arch gfx942
#include <hip/hip_runtime.h>
extern "C" __global__ void __launch_bounds__(64) total(float* out, const float* in) {
  float v = in[threadIdx.x];
  v += __shfl_down_sync(0xffffffffu, v, 32);
  out[threadIdx.x] = v;
}
```

## Good
```cuda
// warplint: --arch gfx942
#include <hip/hip_runtime.h>
extern "C" __global__ void __launch_bounds__(64) total(float* out, const float* in) {
  float v = in[threadIdx.x];
  v += __shfl_down_sync(0xffffffffffffffffull, v, 32);
  out[threadIdx.x] = v;
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.program.ir import Cast, Const, Expr, Var
from warplint.rule import Rule
from warplint.threads.facts import Roles
from warplint_rules._say import Reporter, reached, sites, spelled

RULE = Rule(Level.ERROR, Symptom.CRASH, supersedes=("sync-mask-mismatch",))
SAY = Reporter(__name__, RULE)

_WORDS = ("u32", "i32")
_FULL = 0xFFFFFFFF


def check(roles: Roles) -> Iterator[Finding]:
    """Masks that are 32-bit variables, or the full 32-bit mask on a 64-lane wave."""
    if not roles.kernel.is_amd:
        return
    for event in sites(reached(roles, "hip.warp_sync_builtins")):
        mask = event.op.operands.get("mask")
        if mask is None or not _narrow(mask, roles.launch.warp_size):
            continue
        yield SAY.at(
            roles,
            event,
            f"{spelled(event)} gets a 32-bit member mask.",
            why="HIP asks for a 64-bit mask (a static assertion in its headers); 32 bits name the lower half of "
            "a 64-lane wave only.",
            remedy="Pass a 64-bit mask (`0xffffffffffffffffull` for the whole wave), or use the form without `_sync`.",
        )


def _narrow(mask: Expr, warp_size: int) -> bool:
    match mask:
        case Const(value=value):
            return warp_size == 64 and value & ~_FULL in (0, ~_FULL) and value & _FULL == _FULL and value != -1
        case Var(symbol=symbol):
            return symbol.type in _WORDS
        case Cast(type=type_):
            return type_ in _WORDS
    return False
