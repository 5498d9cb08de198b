"""A `setmaxnreg` count that the hardware does not take, or that moves the wrong way.

## Why
The count is a multiple of 8 from 24 to 256. `setmaxnreg.inc` must not ask for fewer registers than the warp has, nor
`setmaxnreg.dec` for more: PTX leaves both undefined. ptxas refuses a bad literal, but accepts a wrong direction.

## Bad
```cuda
__device__ void release_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 20;"); }
extern "C" __global__ void __launch_bounds__(256, 1) roles(float* out) {
  if (threadIdx.x < 128) {
    release_registers();
  } else {
    out[threadIdx.x] = 1.f;
  }
}
```

## Good
```cuda
__device__ void release_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 24;"); }
extern "C" __global__ void __launch_bounds__(256, 1) roles(float* out) {
  if (threadIdx.x < 128) {
    release_registers();
  } else {
    out[threadIdx.x] = 1.f;
  }
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.rule import Rule
from warplint.threads.facts import Event, Known, Roles
from warplint_rules._say import Reporter, line, location, reached, spelled, who
from warplint_rules.registers._counts import Request, at_entry, by_warp

RULE = Rule(Level.ERROR, Symptom.CRASH)
SAY = Reporter(__name__, RULE)

_LOWEST, _HIGHEST, _STEP = 24, 256, 8


def check(roles: Roles) -> Iterator[Finding]:
    """Counts outside the range, then directions against what the same warps had before."""
    said: set[int] = set()
    for event in reached(roles, "setmaxnreg"):
        count = event.constant("registers")
        if count is not None and id(event.op) not in said and not _legal(count):
            said.add(id(event.op))
            yield _value(roles, event, count)
    for requests in by_warp(roles).values():
        for before, now in zip([None, *requests], requests, strict=False):
            if id(now.event.op) not in said and (finding := _direction(roles, before, now)):
                said.add(id(now.event.op))
                yield finding


def _legal(count: int) -> bool:
    return _LOWEST <= count <= _HIGHEST and count % _STEP == 0


def _value(roles: Roles, event: Event, count: int) -> Finding:
    fault = f"is outside {_LOWEST}..{_HIGHEST}" if not _LOWEST <= count <= _HIGHEST else f"is not a multiple of {_STEP}"
    near = min(max(-(-count // _STEP) * _STEP, _LOWEST), _HIGHEST)
    return SAY.at(
        roles,
        event,
        f"{spelled(event)} asks for {count} registers, which {fault}.",
        why="PTX takes a multiple of 8 from 24 to 256; ptxas refuses other literals.",
        remedy=f"Use {near}, and keep the sum over all warpgroups within the block's registers.",
    )


def _direction(roles: Roles, before: Request | None, now: Request) -> Finding | None:
    count, event = now.registers, now.event
    if count is None or not _legal(count):
        return None
    if before is None:
        start = at_entry(roles)
        if now.direction != "dec" or start is None or count <= start:
            return None
        return SAY.at(
            roles,
            event,
            f"{spelled(event)} lowers the registers to {count}, but the kernel starts with at most {start} per thread.",
            why=f"{roles.threads} threads share 65536 registers, so no thread has {count} to give back; a `dec` "
            "above the "
            "current count is undefined.",
            remedy=f"Use a count of at most {start}, or `setmaxnreg.inc` where the warpgroup needs more.",
        )
    if before.registers is None or not _certain(before.event, event):
        return None
    wrong = count < before.registers if now.direction == "inc" else count > before.registers
    if not wrong or now.direction not in ("inc", "dec"):
        return None
    return SAY.at(
        roles,
        event,
        f"{spelled(event)} {'raises' if now.direction == 'inc' else 'lowers'} the registers to {count}, but "
        f"{who(roles, event.reach)} have {before.registers} since line {line(roles, before.event.op.span)}.",
        why=f"A `{now.direction}` in the other direction is undefined.",
        remedy=f"Use `setmaxnreg.{'dec' if now.direction == 'inc' else 'inc'}` here, or another count.",
        related=[location(roles, before.event.op.span, f"{before.registers} registers from here")],
    )


def _certain(before: Event, now: Event) -> bool:
    """The earlier request is certain to be the last one before: straight-line code, no unknown conditions."""
    if before.loops or now.loops:
        return False
    if any(guard.kind in ("break", "continue") for guard in now.guards):
        return False
    # Where both stand under one condition they must be on the same side of it.
    sides = {id(guard.stmt): guard.taken for guard in now.guards}
    return all(
        isinstance(guard.value, Known) or sides.get(id(guard.stmt)) == guard.taken for guard in before.guards
    ) and all(sides.get(id(guard.stmt), guard.taken) == guard.taken for guard in before.guards)
