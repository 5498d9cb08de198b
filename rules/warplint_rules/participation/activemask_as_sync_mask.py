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
from warplint.threads.facts import Roles
from warplint_rules._say import Reporter, line, location, spelled
from warplint_rules.participation._dataflow import origins
from warplint_rules.participation._lanes import once, with_participation

RULE = Rule(Level.WARNING, Symptom.WRONG_RESULT)
SAY = Reporter(__name__, RULE)

_MASKED = with_participation("warp_mask", "wave_mask")


def check(roles: Roles) -> Iterator[Finding]:
    """Masks whose value comes from `__activemask()` through locals."""
    if next(roles.of("activemask"), None) is None:
        return
    for event in once(roles.events, lambda event: event.name in _MASKED and event.name != "activemask"):
        mask = event.op.operands.get("mask")
        origin = origins(roles.kernel, mask, "activemask") if mask is not None else None
        if origin is None:
            continue
        yield SAY.at(
            roles,
            event,
            f"{spelled(event)} takes its member mask from `__activemask()` at line {line(roles, origin.span)}.",
            why="`__activemask()` reads which lanes run together at that moment; lanes that took the same branch but "
            "are scheduled "
            "apart are missing from it, differently from run to run.",
            remedy="Compute the mask before the branch with `__ballot_sync(full, condition)`, or pass the mask of "
            "the lanes that "
            "are known to be here.",
            related=[location(roles, origin.span, "the mask is taken here")],
        )
