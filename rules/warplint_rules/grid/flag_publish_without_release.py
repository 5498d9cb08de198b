"""A flag that another block waits for is raised with no release and no fence before it.

## Why
Stores of one thread become visible to other blocks in any order. A relaxed store, a volatile store or an ordinary
atomic orders nothing: the flag may be seen before the data. The publishing operation needs `.release` (at GPU
scope), or `__threadfence()` between data and flag.

## Bad
```cuda
__device__ int ld_acquire(const int* p) {
  int v;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
extern "C" __global__ void __launch_bounds__(32) chain(float* data, int* ready, float* out) {
  if (threadIdx.x == 0) {
    data[blockIdx.x] = 1.f;
    asm volatile("red.relaxed.gpu.global.add.s32 [%0], %1;" ::"l"(ready), "r"(1) : "memory");
    while (ld_acquire(ready) < 2) {
    }
    out[blockIdx.x] = data[blockIdx.x ^ 1];
  }
}
```

## Good
```cuda
__device__ int ld_acquire(const int* p) {
  int v;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
extern "C" __global__ void __launch_bounds__(32) chain(float* data, int* ready, float* out) {
  if (threadIdx.x == 0) {
    data[blockIdx.x] = 1.f;
    asm volatile("red.release.gpu.global.add.s32 [%0], %1;" ::"l"(ready), "r"(1) : "memory");
    while (ld_acquire(ready) < 2) {
    }
    out[blockIdx.x] = data[blockIdx.x ^ 1];
  }
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.machine import Execution
from warplint.program.ir import Symbol
from warplint.rule import Rule
from warplint.source import Span
from warplint.threads.facts import Event, Roles
from warplint_rules._executed import at, hazards, party, place
from warplint_rules._flags import generic, unreleased
from warplint_rules._say import Reporter, line, location, reached, sites, spelled
from warplint_rules.grid._global import base, fences, spins, writes

RULE = Rule(Level.WARNING, Symptom.WRONG_RESULT, executes=True)
SAY = Reporter(__name__, RULE)

_RELEASES = ("st.release", "red.release", "atom.release", "red", "atom")
_OPERATIONS = ("st", "st.relaxed", "st.volatile", "red", "atom")


def check(roles: Roles) -> Iterator[Finding]:
    """Operations on a flag that a loop of the kernel waits for, with data written before and no order between."""
    flags = {id(spin.symbol): spin for spin in spins(roles.kernel) if spin.symbol is not None}
    if not flags or fences(roles) or any(_releases(event) for event in reached(roles, *_RELEASES)):
        return  # the kernel releases somewhere: which flag stands for which data is not known
    said: set[int] = set()
    for symbol, span, what, around in sorted(_raised(roles), key=lambda raised: raised[1].start):
        spin = flags.get(id(symbol))
        if spin is None or id(symbol) in said:
            continue
        before = [
            write
            for write in writes(roles.kernel)
            if write.stmt.span.start < span.start
            and write.symbol is not symbol
            # Only what is certain to have run before: no condition of its own.
            and all((id(test), side) in around for test, side in write.around)
        ]
        if not before:
            continue
        data = before[-1]
        said.add(id(symbol))
        yield SAY.at(
            roles,
            span,
            f"{what} raises the flag `{symbol.name}` with no release after the store at line "
            f"{line(roles, data.stmt.span)}.",
            why="Another block may see the flag before the data: nothing orders the two stores for it.",
            remedy="Publish with a release at GPU scope (`red.release.gpu`, `st.release.gpu`), or put "
            "`__threadfence()` before it.",
            related=[
                location(roles, data.stmt.span, "the data"),
                location(roles, spin.span, "the flag is waited for here"),
            ],
        )


def check_execution(execution: Execution) -> Iterator[Finding]:
    """The same for flags in shared memory: the execution shows which data they were to hand over."""
    said: set[Span] = set()
    for outcome, hazard in hazards(execution, generic):
        flag = unreleased(outcome, hazard)
        if flag is None or flag.span in said:
            continue
        said.add(flag.span)
        first = hazard.first
        yield SAY.at(
            execution.roles,
            flag.span,
            f"This store raises the flag `{flag.label}` with no release after the {first.what} at line "
            f"{at(execution, first.span)}.",
            threads=party(execution, flag.by),
            why="The other warp may see the flag before the data: nothing orders the two stores for it.",
            remedy="Store the flag with `st.release.cta`, or put `__threadfence_block()` before it.",
            related=[
                place(execution, first, "the data"),
                location(execution.roles, flag.wait, "the flag is waited for here"),
                place(execution, hazard.second, "and the data accessed here"),
            ],
        )


def _releases(event: Event) -> bool:
    return "release" in event.name or str(event.mod("sem") or "") in ("release", "acq_rel", "sc")


def _raised(roles: Roles) -> Iterator[tuple[Symbol, Span, str, set[tuple[int, bool]]]]:
    """Unordered writes of words through pointers (operations, ordinary stores), with the conditions around them."""
    for event in sites(reached(roles, *_OPERATIONS)):
        address = event.op.operands.get("dst") or event.op.operands.get("src")
        symbol = base(address) if address is not None else None
        if not _releases(event) and event.mod("space") != "shared" and symbol is not None:
            yield symbol, event.op.span, spelled(event), {(id(guard.stmt), guard.taken) for guard in event.guards}
    for write in writes(roles.kernel):
        if write.symbol is not None and (write.stmt.atomic or write.stmt.volatile):
            what = "This atomic" if write.stmt.atomic else "This volatile store"
            yield write.symbol, write.stmt.span, what, {(id(test), side) for test, side in write.around}
