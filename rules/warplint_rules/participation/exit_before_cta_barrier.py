"""Some threads return before a CTA barrier that the others reach.

## Why
The hardware does not wait for threads that have left, so the barrier completes; CUDA and PTX still require every
thread of the block to execute it. `__syncthreads_count/and/or` then count the survivors only, warp collectives
after the return miss lanes, and shared memory that the returned threads should have filled stays unwritten.

## Bad
```cuda
extern "C" __global__ void __launch_bounds__(128) reverse(float* out, const float* in, int n) {
  __shared__ float s[128];
  int i = blockIdx.x * 128 + threadIdx.x;
  if (i >= n) return;
  s[threadIdx.x] = in[i];
  __syncthreads();
  out[i] = s[127 - threadIdx.x];
}
```

## Good
```cuda
extern "C" __global__ void __launch_bounds__(128) reverse(float* out, const float* in, int n) {
  __shared__ float s[128];
  int i = blockIdx.x * 128 + threadIdx.x;
  bool active = i < n;
  s[threadIdx.x] = active ? in[i] : 0.f;
  __syncthreads();
  if (active) out[i] = s[127 - threadIdx.x];
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.program.ir import Exit, Stmt, walk
from warplint.rule import Rule
from warplint.threads.facts import Condition, Event, Roles
from warplint_rules._say import Reporter, condition_text, line, location, spelled, threads
from warplint_rules.participation._balance import barriers, leaves

RULE = Rule(Level.WARNING, Symptom.DEADLOCK)
SAY = Reporter(__name__, RULE)


def check(roles: Roles) -> Iterator[Finding]:
    """Each return on which the threads of the block disagree, with the barriers behind it."""
    left: dict[int, tuple[Condition, list[Event]]] = {}
    for event in barriers(roles):
        if event.name == "amd.s_barrier":
            continue  # a wave that has ended is not waited for, and any lane of a wave arrives for it: by design
        for guard in event.guards:
            if leaves(roles.kernel, guard) and not _traps(guard.stmt):
                left.setdefault(id(guard.stmt or guard), (guard, []))[1].append(event)
    for guard, events in left.values():
        first = events[0]
        gone = guard.before.threads & ~guard.after.threads
        # The guard says who stays; a person reads who leaves.
        leaving = condition_text(guard)[2:-1] if not guard.taken else f"!({condition_text(guard)})"
        whom = threads(roles, gone) if gone else "the threads"
        counting = [event for event in events if event.name == "bar.red.cta"]
        yield SAY.at(
            roles,
            guard.span,
            f"{whom[0].upper()}{whom[1:]} for which `{leaving}` return before {spelled(first)} at line "
            f"{line(roles, first.op.span)}, which the rest of the block executes.",
            threads=threads(roles, gone) if gone else "",
            guards=[other for other in first.guards if other.kind != "exit" and other.span.start < guard.span.start],
            why="Exited threads count as arrived in hardware, so the barrier completes; the language calls it "
            "undefined, and "
            "shared memory that the returned threads should have filled is read unwritten."
            + (" The reduction counts the survivors only." if counting else ""),
            remedy="Keep the threads: compute the condition once, run the barriers with all threads and guard only "
            "the loads "
            "and stores with it.",
            related=[location(roles, event.op.span, "the others wait here") for event in events],
        )


def _traps(stmt: Stmt | None) -> bool:
    """The branch ends in a trap: an assertion, not an early return."""
    exits = [inner for inner in walk(stmt) if isinstance(inner, Exit)] if stmt is not None else []
    return bool(exits) and all(leaving.trap for leaving in exits)
