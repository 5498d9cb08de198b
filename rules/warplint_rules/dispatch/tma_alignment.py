"""A constant address, size or coordinate breaks the alignment that a bulk copy needs.

## Why
A bulk copy moves multiples of 16 bytes between addresses that are 16-byte aligned; a tensor copy needs a 128-byte
aligned shared address in every swizzle mode. ptxas checks literals only: with a register the copy faults, or never
completes (a size of 20 bytes hangs on an H200).

## Bad
```cuda
__device__ void bulk_store(void* dst, unsigned src, unsigned bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
               ::"l"(dst), "r"(src), "r"(bytes) : "memory");
}
extern "C" __global__ void __launch_bounds__(128) flush(float* out) {
  __shared__ alignas(128) float tile[128];
  tile[threadIdx.x] = 1.f;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    bulk_store(out, (unsigned)__cvta_generic_to_shared(tile), 500);
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
```

## Good
```cuda
__device__ void bulk_store(void* dst, unsigned src, unsigned bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
               ::"l"(dst), "r"(src), "r"(bytes) : "memory");
}
extern "C" __global__ void __launch_bounds__(128) flush(float* out) {
  __shared__ alignas(128) float tile[128];
  tile[threadIdx.x] = 1.f;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    bulk_store(out, (unsigned)__cvta_generic_to_shared(tile), 512);
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.rule import Rule
from warplint.threads.facts import Event, Known, Pointer, Roles
from warplint_rules._say import Reporter, location, reached, spelled
from warplint_rules.participation._lanes import once

RULE = Rule(Level.ERROR, Symptom.CRASH)
SAY = Reporter(__name__, RULE)

_BULK = ("cp.async.bulk.g2s", "cp.async.bulk.s2g", "cp.async.bulk.s2s", "cp.reduce.async.bulk")
_TENSOR = ("cp.async.bulk.tensor.load", "cp.async.bulk.tensor.store")
_BULK_ALIGNMENT = 16
_TENSOR_ALIGNMENT = 128


def check(roles: Roles) -> Iterator[Finding]:
    """Constants only: sizes, offsets into shared variables of known alignment, start coordinates of stores."""
    for event in once(reached(roles), lambda event: event.name in _BULK or event.name in _TENSOR):
        yield from _size(roles, event)
        yield from _addresses(roles, event)
        if event.name == "cp.async.bulk.tensor.store":
            yield from _coordinates(roles, event)


def _size(roles: Roles, event: Event) -> Iterator[Finding]:
    size = event.constant("bytes")
    if event.name in _BULK and size is not None and size % _BULK_ALIGNMENT:
        yield SAY.at(
            roles,
            event,
            f"{spelled(event)} copies {size} bytes, which is not a multiple of {_BULK_ALIGNMENT}.",
            why="ptxas refuses such a literal; from a register the copy never completes and its waiters hang.",
            remedy=f"Copy {-(-size // _BULK_ALIGNMENT) * _BULK_ALIGNMENT} bytes (pad the buffer), or the remainder "
            "with ordinary "
            "stores.",
        )


def _addresses(roles: Roles, event: Event) -> Iterator[Finding]:
    tensor = event.name in _TENSOR or (event.name == "cp.reduce.async.bulk" and "map" in event.values)
    needed = _TENSOR_ALIGNMENT if tensor else _BULK_ALIGNMENT
    for role in ("dst", "src"):
        value = event.values.get(role)
        if not isinstance(value, Pointer) or value.symbol.kind not in ("shared", "dynamic_shared"):
            continue
        if not isinstance(value.offset, Known) or value.offset.constant is None:
            continue
        # Only what the alignment of the variable itself lets us know: an address is off by offset modulo that.
        known = min(value.symbol.alignment, needed)
        if known and value.offset.constant % known:
            yield SAY.at(
                roles,
                event,
                f"{spelled(event)} uses `{value.symbol.name}` at byte {value.offset.constant}, which is not "
                f"{needed}-byte aligned.",
                why=f"The shared address of {'a tensor copy' if tensor else 'a bulk copy'} must be {needed}-byte "
                "aligned; other "
                "addresses fault.",
                remedy=f"Move the buffer to a multiple of {needed} bytes.",
                related=[location(roles, value.symbol.span, f"declared with an alignment of {value.symbol.alignment}")],
            )
            return


def _coordinates(roles: Roles, event: Event) -> Iterator[Finding]:
    for role in sorted(event.values):
        start = event.constant(role)
        if role.startswith("coords") and start is not None and _signed(start) < 0:
            yield SAY.at(
                roles,
                event,
                f"{spelled(event)} starts at coordinate {_signed(start)}; a store must not start below 0.",
                why="Loads fill what lies outside with zeros; a store with a negative start coordinate is undefined.",
                remedy="Clamp the start and shift the tile in shared memory.",
            )
            return


def _signed(value: int) -> int:
    """Coordinates are 32-bit signed."""
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value
