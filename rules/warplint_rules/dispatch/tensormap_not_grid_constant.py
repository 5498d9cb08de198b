"""A tensor map is passed by value without `const __grid_constant__`.

## Why
TMA reads the descriptor by its address in constant parameter space. Without `__grid_constant__` the compiler may
copy the parameter to the thread's local memory and pass that address: the copy faults with an illegal address (seen
on an H200).

## Bad
```cuda
__device__ void prefetch(const void* map) { asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory"); }
extern "C" __global__ void __launch_bounds__(128) load(const CUtensorMap a_map, float* out) {
  if (threadIdx.x == 0) prefetch(&a_map);
  out[threadIdx.x] = 0.f;
}
```

## Good
```cuda
__device__ void prefetch(const void* map) { asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory"); }
extern "C" __global__ void __launch_bounds__(128) load(const __grid_constant__ CUtensorMap a_map, float* out) {
  if (threadIdx.x == 0) prefetch(&a_map);
  out[threadIdx.x] = 0.f;
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.rule import Rule
from warplint.threads.facts import Roles
from warplint_rules._say import Reporter

RULE = Rule(Level.WARNING, Symptom.CRASH)
SAY = Reporter(__name__, RULE)

_TYPES = ("CUtensorMap", "CUtensorMap_st", "TmaDescriptor")


def check(roles: Roles) -> Iterator[Finding]:
    """Parameters that are tensor maps by value."""
    for symbol in roles.kernel.params:
        kind = symbol.type.rpartition("::")[2]
        if kind in _TYPES and not symbol.pointer and not symbol.dims and not symbol.grid_constant:
            yield SAY.at(
                roles,
                symbol.span,
                f"The tensor map `{symbol.name}` is a by-value parameter without `const __grid_constant__`.",
                why="TMA needs the descriptor's own address in parameter space; the compiler may otherwise hand it a "
                "local copy, "
                "which faults.",
                remedy=f"Declare it `const __grid_constant__ {kind} {symbol.name}`, or pass a pointer to global "
                "memory.",
            )
