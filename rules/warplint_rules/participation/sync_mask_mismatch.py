"""The member mask of a `*_sync` operation does not name the lanes that execute it.

## Why
The lanes of a mask are the contract: each of them must execute the operation with the same mask, and nobody else. A
lane that executes it without being named gets an undefined value; a named lane that is alive and does not come
stops the others. Lanes that have exited, or that the last warp of the block does not have, are not waited for.

## Bad
```cuda
extern "C" __global__ void __launch_bounds__(128) broadcast(int* out) {
  int w = (int)threadIdx.x / 32;
  w = __shfl_sync(0x1f, w, 0);
  out[threadIdx.x] = w;
}
```

## Good
```cuda
extern "C" __global__ void __launch_bounds__(128) broadcast(int* out) {
  int w = (int)threadIdx.x / 32;
  w = __shfl_sync(0xffffffffu, w, 0);
  out[threadIdx.x] = w;
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from warplint.finding import Finding, Level, Symptom
from warplint.rule import Rule
from warplint.threads.facts import Event, Known, Roles, Uniformity
from warplint_rules._say import Reporter, guard_places, lanes_of, reached, spelled, under, who
from warplint_rules.participation._lanes import with_participation

RULE = Rule(Level.ERROR, Symptom.WRONG_RESULT, spoils="schedule")
SAY = Reporter(__name__, RULE)

_MASKED = with_participation("warp_mask")


class _Mismatch(Struct, frozen=True):
    warp: int
    mask: int
    unnamed: int
    """Lanes that execute it and are not in their own mask."""
    absent: int
    """Lanes that the mask names, alive, and never here."""


def check(roles: Roles) -> Iterator[Finding]:
    """Masks that are known, against the lanes that are known to come."""
    seen: set[int] = set()
    for event in reached(roles):
        if event.name not in _MASKED or id(event.op) in seen:
            continue
        mask = event.values.get("mask")
        if not isinstance(mask, Known) or event.reach.elected:
            continue
        found = _mismatch(roles, event, mask)
        if found is not None:
            seen.add(id(event.op))
            yield _finding(roles, event, found)


def _mismatch(roles: Roles, event: Event, mask: Known) -> _Mismatch | None:
    size = roles.launch.warp_size
    full = (1 << size) - 1
    constant = mask.constant
    if constant is not None and constant & full == full:
        return None  # a full mask in divergent code is warp-collective-in-divergent-code's
    live = lanes_of(event.live, size)
    whole = event.reach.split > Uniformity.LANE
    for warp, lanes in lanes_of(event.reach.threads, size).items():
        if constant is not None:
            named, unnamed, shown = constant & full, lanes & ~constant, constant & full
        else:
            own = {lane: mask.at(warp * size + lane) & full for lane in range(size) if lanes >> lane & 1}
            named, unnamed, shown = 0, 0, next(iter(own.values()))
            for lane, lane_mask in own.items():
                named |= lane_mask
                unnamed |= 0 if lane_mask >> lane & 1 else 1 << lane
            if named == full:
                continue
        # A lane counts as here when it may come; one that cannot come is absent however unknown the rest is.
        absent = named & live.get(warp, 0) & ~lanes
        if (unnamed and whole) or absent:
            return _Mismatch(warp, shown, unnamed if whole else 0, absent)
    return None


def _finding(roles: Roles, event: Event, found: _Mismatch) -> Finding:
    size = roles.launch.warp_size
    mask = f"0x{found.mask:0{size // 4}x}"
    name = "wave" if size == 64 else "warp"
    if found.unnamed:
        message = (
            f"{spelled(event)} has the member mask {mask}, which does not name {_lanes(found.unnamed)} of {name} "
            f"{found.warp} "
            f"that execute it{under(roles, event.guards)}."
        )
        why = (
            "A lane outside the mask takes part in nothing: its result is undefined, and it is not kept together "
            "with the others."
        )
    else:
        message = (
            f"{spelled(event)} has the member mask {mask}, but {_lanes(found.absent)} of {name} {found.warp} never "
            "execute it"
            f"{under(roles, event.guards)}."
        )
        why = "The lanes that came wait for every lane of the mask that is alive; those named here never come."
    here = event.reach.threads >> (found.warp * size) & ((1 << size) - 1)
    return SAY.at(
        roles,
        event,
        message,
        symptom=Symptom.WRONG_RESULT if found.unnamed else Symptom.DEADLOCK,
        why=why,
        remedy=f"It is executed by {who(roles, event.reach)}: the mask for {name} {found.warp} is "
        f"0x{here:0{size // 4}x}, or let "
        "exactly the named lanes execute it.",
        related=guard_places(roles, event.guards)[-2:],
    )


def _lanes(bits: int) -> str:
    from warplint.threads.bits import members, ranges

    lanes = members(bits)
    return f"lane{'s' if len(lanes) != 1 else ''} {ranges(lanes)}"
