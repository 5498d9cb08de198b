"""Data is read after a spin on a flag that does not acquire, with no fence between.

## Why
Seeing the flag says nothing about the data unless the load that saw it acquires, or a fence follows it. The
hardware and the compiler may have read the data earlier; `volatile` only keeps the load of the flag itself.

## Bad
```cuda
extern "C" __global__ void __launch_bounds__(32) consume(const float* data, const volatile int* ready, float* out) {
  while (*ready == 0) {
  }
  out[threadIdx.x] = data[threadIdx.x];
}
```

## Good
```cuda
extern "C" __global__ void __launch_bounds__(32) consume(const float* data, const volatile int* ready, float* out) {
  while (*ready == 0) {
  }
  __threadfence();
  out[threadIdx.x] = data[threadIdx.x];
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.machine import Execution
from warplint.program.ir import Assign, Expr, Load, Store, parts, walk
from warplint.rule import Rule
from warplint.source import Span
from warplint.threads.facts import Event, Roles
from warplint_rules._executed import at, hazards, party, place, storage
from warplint_rules._flags import generic, unacquired
from warplint_rules._say import Reporter, line, location, reached
from warplint_rules.grid._global import Spin, base, fences, spins

RULE = Rule(Level.WARNING, Symptom.WRONG_RESULT, executes=True)
SAY = Reporter(__name__, RULE)

_MAX_NODES = 2_000


def check(roles: Roles) -> Iterator[Finding]:
    """Relaxed spins, and the first load of other memory behind them with no fence between."""
    relaxed = [spin for spin in spins(roles.kernel) if not spin.ordered and spin.symbol is not None]
    if not relaxed:
        return
    # A later acquire (of another flag) is taken as what makes the data visible.
    acquires = (e.op.span for e in reached(roles, "ld.acquire", "atom", "atom.acquire") if _acquires(e))
    order = [place.start for place in (*fences(roles), *acquires)]
    for spin in relaxed:
        read = _first_read(roles, spin)
        if read is None or any(spin.span.start < at < read.start for at in order):
            continue
        assert spin.symbol is not None
        yield SAY.at(
            roles,
            spin.span,
            f"This loop waits for `{spin.symbol.name}` with a load that does not acquire, and line "
            f"{line(roles, read)} reads other memory behind it with no fence between.",
            why="The load of the data may have been performed before the flag was seen; a volatile or relaxed load of "
            "the flag orders nothing else.",
            remedy="Load the flag with `ld.acquire.gpu`, or put `__threadfence()` behind the loop.",
            related=[location(roles, read, "read behind the loop")],
        )


def check_execution(execution: Execution) -> Iterator[Finding]:
    """The same for flags in shared memory."""
    said: set[Span] = set()
    for outcome, hazard in hazards(execution, generic):
        flag = unacquired(outcome, hazard)
        if flag is None or flag.wait in said:
            continue
        said.add(flag.wait)
        second = hazard.second
        yield SAY.at(
            execution.roles,
            flag.wait,
            f"This loop waits for `{flag.label}` with a load that does not acquire, and line "
            f"{at(execution, second.span)} accesses {storage(second)} behind it with no fence between.",
            threads=party(execution, flag.to),
            why="The access may be performed before the flag was seen; a volatile or relaxed load of the flag orders "
            "nothing else.",
            remedy="Load the flag with `ld.acquire.cta`, or put `__threadfence_block()` behind the loop.",
            related=[
                place(execution, second, "behind the loop"),
                place(execution, hazard.first, "the other access"),
                location(execution.roles, flag.span, "the flag is raised here"),
            ],
        )


def _acquires(event: Event) -> bool:
    return "acquire" in event.name or str(event.mod("sem") or "") in ("acquire", "acq_rel")


def _first_read(roles: Roles, spin: Spin) -> Span | None:
    """The first load through another pointer parameter in the text behind the loop."""
    places = []
    for stmt in walk(roles.kernel.body):
        if stmt.span.start <= spin.loop.span.end or not isinstance(stmt, Assign | Store):
            continue
        exprs = [stmt.value.expr] if isinstance(stmt, Assign) else [stmt.pointer.expr, stmt.value.expr]
        if any(_loads_other(expr, spin) for expr in exprs):
            places.append(stmt.span)
    return min(places, key=lambda span: span.start, default=None)


def _loads_other(expr: Expr, spin: Spin) -> bool:
    stack, seen = [expr], 0
    while stack and seen < _MAX_NODES:
        seen += 1
        top = stack.pop()
        if isinstance(top, Load):
            symbol = base(top.pointer)
            if symbol is not None and symbol.kind in ("param", "global") and symbol is not spin.symbol:
                return True
        stack.extend(parts(top))
    return False
