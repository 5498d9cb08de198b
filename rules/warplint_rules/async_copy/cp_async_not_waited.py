"""Data copied by `cp.async` is read with no wait for the copies.

## Why
`cp.async` returns at once; the bytes arrive later. A barrier does not wait for them. Only `cp.async.wait_group` or
`wait_all` in the copying thread, or an mbarrier that `cp.async.mbarrier.arrive` completes, says that they are
there. Without any of these the tile is read half filled.

## Bad
```cuda
__device__ void copy16(void* dst, const void* src) {
  unsigned to = (unsigned)__cvta_generic_to_shared(dst);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(src) : "memory");
}
__global__ void __launch_bounds__(128) stage(float* out, const float* in) {
  __shared__ alignas(16) float tile[512];
  copy16(&tile[threadIdx.x * 4], in + threadIdx.x * 4);
  asm volatile("cp.async.commit_group;" ::: "memory");
  __syncthreads();
  out[threadIdx.x] = tile[511 - threadIdx.x];
}
```

## Good
```cuda
__device__ void copy16(void* dst, const void* src) {
  unsigned to = (unsigned)__cvta_generic_to_shared(dst);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(src) : "memory");
}
__global__ void __launch_bounds__(128) stage(float* out, const float* in) {
  __shared__ alignas(16) float tile[512];
  copy16(&tile[threadIdx.x * 4], in + threadIdx.x * 4);
  asm volatile("cp.async.commit_group;" ::: "memory");
  asm volatile("cp.async.wait_group 0;" ::: "memory");
  __syncthreads();
  out[threadIdx.x] = tile[511 - threadIdx.x];
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.program.ir import Symbol
from warplint.rule import Rule
from warplint.source import Span
from warplint.threads.facts import Event, Pointer, Roles
from warplint_rules._first import read_after
from warplint_rules._say import Reporter, line, location, sites, spelled, under, who
from warplint_rules._words import has_opaque

RULE = Rule(Level.ERROR, Symptom.WRONG_RESULT)
SAY = Reporter(__name__, RULE)

_WAITS = ("cp.async.wait_group", "cp.async.wait_all", "cp.async.mbarrier.arrive", "cuda::*")


def check(roles: Roles) -> Iterator[Finding]:
    """Copies of threads that execute no wait of any kind, into a variable that ordinary code reads afterwards."""
    copies = [event for event in roles.of("cp.async") if event.reach.threads]
    if not copies or has_opaque(roles):
        return
    waiting = 0
    for event in roles.of(*_WAITS):
        waiting |= event.reach.threads
    by_symbol: dict[Symbol, list[Event]] = {}
    for event in copies:
        value = event.values.get("dst")
        if isinstance(value, Pointer) and not event.reach.threads & waiting:
            by_symbol.setdefault(value.symbol, []).append(event)
    for symbol, events in by_symbol.items():
        first = events[0]
        read = read_after(roles, first.op, symbol)
        if read is not None:
            yield _finding(roles, symbol, sites(events), read)


def _finding(roles: Roles, symbol: Symbol, copies: list[Event], read: Span) -> Finding:
    first = copies[0]
    return SAY.at(
        roles,
        read,
        f"`{symbol.name}` is read here and no thread has waited for the {spelled(first)} that "
        f"{who(roles, first.reach)} issue{under(roles, first.guards)} (line {line(roles, first.op.span)}) to fill it.",
        why="The copies are asynchronous and a barrier does not wait for them: the read may find old bytes.",
        remedy="Execute `cp.async.wait_group` (or `wait_all`) in the copying threads, then a barrier, before the read.",
        related=[location(roles, event.op.span, "copied here") for event in copies],
    )
