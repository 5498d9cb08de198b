"""`__activemask()` is used as the member mask of a later `*_sync` operation.

## Why
`__activemask()` tells which lanes happen to run together at that instant, not which lanes took the branch: the
scheduler may run a branch lane by lane. The mask then misses lanes that took the same path, and the collective
works on a part of the group that changes from run to run.

## Bad
```cuda
extern "C" __global__ void __launch_bounds__(32) total(int* out, const int* in) {
  int v = in[threadIdx.x];
  if (v > 0) {
    unsigned mask = __activemask();
    int sum = __reduce_add_sync(mask, v);
    out[threadIdx.x] = sum;
  }
}
```

## Good
```cuda
extern "C" __global__ void __launch_bounds__(32) total(int* out, const int* in) {
  int v = in[threadIdx.x];
  unsigned mask = __ballot_sync(0xffffffffu, v > 0);
  if (v > 0) {
    int sum = __reduce_add_sync(mask, v);
    out[threadIdx.x] = sum;
  }
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.rule import Rule
from warplint.threads.facts import Event, Roles, Uniformity, warps_of
from warplint_rules._say import Reporter, line, location, reached, spelled
from warplint_rules.participation._dataflow import origins
from warplint_rules.participation._lanes import once, with_participation

RULE = Rule(Level.WARNING, Symptom.WRONG_RESULT)
SAY = Reporter(__name__, RULE)

_MASKED = with_participation("warp_mask", "wave_mask")


def check(roles: Roles) -> Iterator[Finding]:
    """Masks whose value comes from `__activemask()` through locals."""
    taken = {id(event.op): event for event in reached(roles, "activemask")}
    if not taken:
        return
    uses: dict[int, list[Event]] = {}
    for event in once(reached(roles), lambda event: event.name in _MASKED and event.name != "activemask"):
        mask = event.op.operands.get("mask")
        origin = origins(roles.kernel, mask, "activemask") if mask is not None else None
        if origin is not None and id(origin) in taken:
            uses.setdefault(id(origin), []).append(event)
    for key, events in uses.items():
        yield _finding(roles, taken[key], events)


def _finding(roles: Roles, origin: Event, events: list[Event]) -> Finding:
    first = events[0]
    # Where no condition divides the warp the mask is right as long as the lanes have not drifted apart.
    together = _whole_warps(roles, origin)
    return SAY.at(
        roles,
        first,
        f"{spelled(first)} takes its member mask from `__activemask()` at line {line(roles, origin.op.span)}"
        + (", where all lanes of the warp come." if together else "."),
        level=Level.NOTE if together else Level.WARNING,
        why="`__activemask()` reads which lanes run together at that moment; lanes that took the same branch but are "
        "scheduled apart are missing from it, differently from run to run.",
        remedy="Use the full mask, since every lane comes here."
        if together
        else "Compute the mask before the branch with `__ballot_sync(full, condition)`, or pass the mask of the lanes "
        "that are known to be here.",
        related=[
            location(roles, origin.op.span, "the mask is taken here"),
            *(location(roles, other.op.span, "the same mask") for other in events[1:]),
        ],
    )


def _whole_warps(roles: Roles, event: Event) -> bool:
    """No lane of the warps that come here is known or suspected to be elsewhere."""
    reach, size = event.reach, roles.launch.warp_size
    live = warps_of(event.live, size)
    whole = all(lanes == live.get(warp) for warp, lanes in warps_of(reach.threads, size).items())
    return whole and not reach.elected and reach.split > Uniformity.LANE
