"""A constant offset into shared memory lies past the end of its array, or of the dynamic pool.

## Why
The access reaches another variable, or memory the block does not own: a neighbour's data changes, or the kernel
ends with an illegal access. A barrier that lies behind the pool, because it was allocated after the size was fixed,
is the common case in generated code.

## Bad
```cuda
__global__ void __launch_bounds__(128) shift(float* out, const float* in) {
  __shared__ float tile[128];
  tile[threadIdx.x] = in[threadIdx.x];
  if (threadIdx.x == 0) tile[128] = 0.f;
  __syncthreads();
  out[threadIdx.x] = tile[127 - threadIdx.x];
}
```

## Good
```cuda
__global__ void __launch_bounds__(128) shift(float* out, const float* in) {
  __shared__ float tile[129];
  tile[threadIdx.x] = in[threadIdx.x];
  if (threadIdx.x == 0) tile[128] = 0.f;
  __syncthreads();
  out[threadIdx.x] = tile[128 - threadIdx.x];
}
```
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from warplint.finding import Finding, Level, Symptom
from warplint.machine import Execution
from warplint.machine.footprint import Access
from warplint.machine.outcome import Outcome, Party
from warplint.program.ir import Symbol
from warplint.rule import Rule
from warplint.source import Span
from warplint.threads.facts import AccessFact, Condition, Event, Known, Roles
from warplint_rules._executed import party
from warplint_rules._regions import MIN_COPY, places
from warplint_rules._say import Reporter, location, spelled, threads
from warplint_rules._smem import dynamic_limit
from warplint_rules._words import WORD_BYTES, barriers, capital, threads_in

RULE = Rule(Level.ERROR, Symptom.CRASH, executes=True, local=True)
SAY = Reporter(__name__, RULE)

_WHY = "It touches another variable or memory that the block does not own: silent corruption, or an illegal access."
_SIZED = frozenset({"cp.async.bulk.g2s", "cp.async.bulk.s2g"})
_SHARED_ROLES = {
    "cp.async.bulk.g2s": ("dst",),
    "cp.async.bulk.tensor.load": ("dst",),
    "cp.async.bulk.s2g": ("src",),
    "cp.async.bulk.tensor.store": ("src",),
    "cp.reduce.async.bulk": ("src",),
}


class _Touch(Struct, frozen=True):
    """One place that certainly touches bytes `[start, end)`, when it is reached."""

    symbol: Symbol
    start: int
    end: int
    what: str
    span: Span
    order: int
    threads: int
    guards: tuple[Condition, ...]


def check(roles: Roles) -> Iterator[Finding]:
    """One finding per variable: the first place past its end, the others as related locations."""
    outside: dict[Symbol, list[_Touch]] = {}
    sizes: dict[Symbol, tuple[int, str] | None] = {}
    for touch in _touches(roles):
        if touch.symbol not in sizes:
            sizes[touch.symbol] = _size(roles, touch.symbol)
        size = sizes[touch.symbol]
        if size is not None and (touch.end > size[0] or touch.start < 0):
            outside.setdefault(touch.symbol, []).append(touch)
    for symbol, found in outside.items():
        found.sort(key=lambda touch: touch.order)
        first, size = found[0], sizes[symbol]
        assert size is not None
        past = f"{first.end - size[0]} bytes past" if first.end > size[0] else f"{-first.start} bytes before"
        side = "the end" if first.end > size[0] else "the start"
        # A condition that is the same for the block but not known may never hold.
        certain = all(guard.known for guard in first.guards)
        yield SAY.at(
            roles,
            first.span,
            f"{capital(first.what)} at bytes {first.start}-{first.end - 1} of `{symbol.name}` reaches {past} {side} of "
            f"its {size[0]} bytes{size[1]}.",
            level=None if certain else Level.WARNING,
            threads=threads(roles, first.threads),
            guards=first.guards,
            why=_WHY,
            remedy=f"Make `{symbol.name}` at least {max(touch.end for touch in found)} bytes large, or correct the "
            "offset.",
            related=[location(roles, other.span, "also outside") for other in found[1:] if other.span != first.span],
        )


def check_execution(execution: Execution) -> Iterator[Finding]:
    """Places that the structural half has no constant for: loads in expressions, indices of loops and stages."""
    roles = execution.roles
    shown = [outcome for outcome in execution.outcomes if outcome.established]
    for symbol in dict.fromkeys(key for outcome in shown for key in outcome.extents if isinstance(key, Symbol)):
        size = _size(roles, symbol)
        if size is None:
            continue
        for start in (True, False):
            found = _outside(shown, symbol, size[0], start, roles.assumed_block)
            if found is not None and not any(
                touch.symbol is symbol and (touch.end > size[0] or touch.start < 0) for touch in _touches(roles)
            ):
                yield _passed(execution, symbol, size, found)
                break


def _outside(outcomes: Sequence[Outcome], symbol: Symbol, size: int, start: bool, assumed: bool) -> Access | None:
    """The access that goes farthest outside of a variable, if that does not depend on unknown inputs.

    Either nothing was asked for, or executions with other numbers for everything they asked for go as far.
    """
    by_place: dict[int, list[tuple[Outcome, Access]]] = {}
    for outcome in outcomes:
        extent = outcome.extents.get(symbol)
        if extent is not None and (extent.low < 0 if start else extent.high > size):
            place, access = (extent.low, extent.lowest) if start else (extent.high, extent.highest)
            if assumed and access.offsets is not None:
                continue  # a smaller block may be launched
            by_place.setdefault(place, []).append((outcome, access))
    for place in sorted(by_place, reverse=not start):
        alike = by_place[place]
        asked = [
            {key: value for key, value in outcome.asked.items() if not isinstance(key, str)} for outcome, _ in alike
        ]
        if all(len({numbers.get(key) for numbers in asked}) > 1 for key in set().union(*asked)):
            return alike[0][1]
    return None


def _passed(execution: Execution, symbol: Symbol, size: tuple[int, str], access: Access) -> Finding:
    roles = execution.roles
    end = access.hi > size[0]
    past = f"{access.hi - size[0]} bytes past the end" if end else f"{-access.lo} bytes before the start"
    outside = access.threads
    if access.offsets is not None:
        outside = sum(1 << thread for thread, at in access.offsets if at < 0 or at + access.width > size[0])
    return SAY.at(
        roles,
        access.span,
        f"{capital(access.what)} by {party(execution, Party(access.cta, outside))} reaches {past} of the {size[0]} "
        f"bytes of `{symbol.name}`{size[1]}.",
        level=Level.WARNING if symbol.kind == "dynamic_shared" and roles.launch.smem is None else None,
        threads=threads(roles, outside),
        why=_WHY,
        remedy=f"Make `{symbol.name}` larger, or keep the index inside (bytes {access.lo} to {access.hi - 1}).",
    )


def _touches(roles: Roles) -> Iterator[_Touch]:
    known = barriers(roles)
    for site in (*known.inits, *known.uses):
        event = site.event
        for word, members in site.words or ():
            if (event.reach.exact and not event.reach.elected) or len(site.words or ()) == 1:
                start = word.offset
                yield _Touch(
                    word.symbol, start, start + WORD_BYTES, "the barrier word", event.op.span, event.order, members,
                    event.guards,
                )  # fmt: skip
    for event in roles.events:
        if event.name in _SHARED_ROLES and event.reach.threads:
            yield from _copies(roles, event)
    for access in roles.accesses:
        yield from _accesses(access, roles.assumed_block)


def _copies(roles: Roles, event: Event) -> Iterator[_Touch]:
    size = event.constant("bytes") if event.name in _SIZED else None
    for role in _SHARED_ROLES[event.name]:
        for symbol, start in places(roles, event, role):
            yield _Touch(
                symbol,
                start,
                start + (size or MIN_COPY),
                f"{'the destination' if role == 'dst' else 'the source'} of {spelled(event)}",
                event.op.span,
                event.order,
                event.reach.threads,
                event.guards,
            )


def _accesses(access: AccessFact, assumed: bool) -> Iterator[_Touch]:
    """Of a block whose size is assumed only what every thread touches alike: smaller blocks may be launched."""
    if not isinstance(access.offset, Known) or not access.reach.threads or not access.bytes:
        return
    each = access.offset.each
    if isinstance(each, int):
        offsets: Iterable[int] = (each,)
    elif access.reach.exact and not access.reach.elected and not assumed:
        mine = [each[thread] for thread in threads_in(access.reach.threads)]
        offsets = sorted({min(mine), max(mine)})
    else:
        return
    what = "this write" if access.write else "this read"
    for start in offsets:
        yield _Touch(
            access.symbol, start, start + access.bytes, what, access.span, access.order, access.reach.threads,
            access.guards,
        )  # fmt: skip


def _size(roles: Roles, symbol: Symbol) -> tuple[int, str] | None:
    """The bytes of a variable, and where a size that is not its own comes from."""
    if symbol.kind == "dynamic_shared":
        return dynamic_limit(roles)
    size = symbol.bytes
    return None if size is None or size == 0 else (size, "")
