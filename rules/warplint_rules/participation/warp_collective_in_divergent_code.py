"""A warp-wide collective that only some lanes of a warp execute.

## Why
A `.sync.aligned` operation is one operation of the whole warp: `tcgen05.alloc` under a lane guard blocks or
corrupts the allocator, `tcgen05.ld` and `mma.sync` return garbage without any error, and a full-mask shuffle, vote
or `__syncwarp` waits for lanes that never come. The compiler accepts all of it.

## Bad
```cuda
__device__ void tmem_alloc(unsigned slot, unsigned columns) {
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;"
               ::"r"(slot), "r"(columns) : "memory");
}
__device__ void tmem_dealloc(unsigned base, unsigned columns) {
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(base), "r"(columns));
}
extern "C" __global__ void __launch_bounds__(128) accumulate(unsigned* out) {
  __shared__ unsigned slot;
  int warp_id = (int)threadIdx.x >> 5;
  if (warp_id == 0 && threadIdx.x % 32 == 0) {
    tmem_alloc((unsigned)__cvta_generic_to_shared(&slot), 128);
  }
  __syncthreads();
  out[threadIdx.x] = slot;
  __syncthreads();
  if (warp_id == 0) tmem_dealloc(slot, 128);
}
```

## Good
```cuda
__device__ void tmem_alloc(unsigned slot, unsigned columns) {
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;"
               ::"r"(slot), "r"(columns) : "memory");
}
__device__ void tmem_dealloc(unsigned base, unsigned columns) {
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(base), "r"(columns));
}
extern "C" __global__ void __launch_bounds__(128) accumulate(unsigned* out) {
  __shared__ unsigned slot;
  int warp_id = (int)threadIdx.x >> 5;
  if (warp_id == 0) {
    tmem_alloc((unsigned)__cvta_generic_to_shared(&slot), 128);
  }
  __syncthreads();
  out[threadIdx.x] = slot;
  __syncthreads();
  if (warp_id == 0) tmem_dealloc(slot, 128);
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.rule import Rule
from warplint.threads.facts import Elected, Event, Known, Roles, warps_of
from warplint_rules._say import (
    Reporter,
    condition_place,
    guard_places,
    location,
    reached,
    spelled,
    threads,
    under,
    warps,
    who,
)
from warplint_rules.participation._lanes import Gap, by_cause, gap, missing_only_exit, with_participation

RULE = Rule(
    Level.ERROR,
    Symptom.CRASH,
    guide=True,
    supersedes=("sync-mask-mismatch", "uniform-branch-on-divergent-value"),
    spoils="schedule",
)
SAY = Reporter(__name__, RULE)

_ALIGNED = with_participation("warp_all", "wave_all")
_MASKED = with_participation("warp_mask")


_UNDOCUMENTED = frozenset({"amd.mfma", "amd.wmma"})


def check(roles: Roles) -> Iterator[Finding]:
    """One finding for each condition that narrows collectives."""
    size = roles.launch.warp_size
    gaps: list[Gap] = []
    for event in reached(roles):
        aligned = event.name in _ALIGNED
        if not (aligned or (event.name in _MASKED and _full_mask(event, size))):
            continue
        found = gap(roles, event, size, exited_count=aligned and not roles.kernel.is_amd)
        if found is not None:
            gaps.append(found)
    for group in by_cause(gaps):
        yield _finding(roles, group)


def _full_mask(event: Event, size: int) -> bool:
    """The member mask names the whole warp; an operation without a mask operand means the same."""
    mask = event.values.get("mask")
    if mask is None:
        return True
    full = (1 << size) - 1
    return isinstance(mask, Known) and mask.constant is not None and mask.constant & full == full


def _finding(roles: Roles, group: list[Gap]) -> Finding:
    first = group[0]
    event, condition = first.event, first.condition
    if first.exited:
        message = (
            f"{spelled(event)} is executed by warps of which lanes have returned"
            + (f" under {condition_place(roles, condition)}" if condition else "")
            + "."
        )
    elif condition is not None and isinstance(condition.value, Elected):
        message = f"{spelled(event)} is executed by {who(roles, event.reach)}, the others of the warp skip it."
    elif condition is not None and not event.reach.elected:
        message = (
            f"{spelled(event)} depends on {condition_place(roles, condition)}, on which the lanes of a warp disagree."
        )
    else:
        message = f"{spelled(event)} is executed by {who(roles, event.reach)}{under(roles, event.guards)}" + (
            f"; {threads(roles, first.absent)} of the same warps do not execute it." if first.absent else "."
        )
    masked = event.name in _MASKED
    # What a matrix instruction of AMD does with lanes that EXEC leaves out is not documented: no certain fault.
    level = Level.WARNING if first.exited or event.name in _UNDOCUMENTED else Level.ERROR
    if masked and not first.exited and missing_only_exit(roles, first):
        message += " The lanes that miss it can only leave the kernel, and exited lanes are not waited for."
        level = Level.NOTE if condition is not None and condition.kind in ("loop", "break") else Level.WARNING
    others = [
        location(roles, other.event.op.span, f"{spelled(other.event)} under the same condition") for other in group[1:]
    ]
    return SAY.at(
        roles,
        event,
        message,
        level=level,
        symptom=Symptom.DEADLOCK if masked else Symptom.CRASH,
        why=_why(roles, event, masked),
        remedy=_remedy(roles, event, masked, first.exited),
        related=[*guard_places(roles, event.guards)[-3:], *others],
    )


def _why(roles: Roles, event: Event, masked: bool) -> str:
    if masked:
        return (
            "Its member mask names the whole warp: the lanes that came wait for lanes that are alive and never "
            "execute it, "
            "and the warp hangs (lanes that have exited are not waited for)."
        )
    if event.name.startswith("tcgen05."):
        return (
            "It is `.sync.aligned`: all lanes of the warp must execute it together. With lanes missing the "
            "tensor-memory "
            "allocator or data path gets a partial request: a hang, a fault, or garbage, with no diagnostic."
        )
    if roles.kernel.is_amd:
        return "It is one operation of the whole wave; with lanes disabled its result is not defined."
    return (
        "It is `.sync.aligned`: with lanes missing the result is undefined (half a warp in mma.sync computes "
        "garbage silently)."
    )


def _remedy(roles: Roles, event: Event, masked: bool, exited: bool) -> str:
    count = len(warps_of(event.reach.threads, roles.launch.warp_size))
    group = warps(roles, event.reach.threads) if count <= 4 else "the warp"
    if exited:
        return "Do not return before it: keep all lanes and guard the loads and stores instead."
    if masked:
        return (
            f"Let all lanes of {group} execute it and guard only what the result is used for, or name exactly the "
            "lanes that "
            "take part in the mask."
        )
    return f"Take the lane condition away: guard with the warp only, so that all lanes of {group} execute it."
