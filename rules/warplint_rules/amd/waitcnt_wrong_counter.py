r"""The wait before a barrier names another counter than the one that tracks the operation.

## Why
Each kind of memory operation has a counter of its own: LDS reads and writes lgkmcnt (dscnt from gfx12), direct loads
to LDS vmcnt (loadcnt), asynchronous copies asynccnt. Waiting for one says nothing about the others: the barrier passes
while the operation is still under way, and the buffer is read too early or refilled while it is being read.

## Bad
```cuda
// warplint: --arch gfx1250
#include <hip/hip_runtime.h>
extern "C" __global__ void __launch_bounds__(128) stream(float* out, const float* in, int n) {
  __shared__ float buf[128];
  float acc = 0.f;
  buf[threadIdx.x] = 0.f;
  __syncthreads();
  for (int i = 0; i < n; ++i) {
    float v = buf[127 - threadIdx.x];
    asm volatile("s_wait_asynccnt 0" ::: "memory");
    asm volatile("s_barrier_signal -1\n\ts_barrier_wait -1" ::: "memory");
    asm volatile("global_load_async_to_lds_b32 %0, %1, off"
                 ::"v"((unsigned)(unsigned long long)&buf[threadIdx.x]), "v"(in + i * 128 + threadIdx.x) : "memory");
    acc += v;
  }
  out[threadIdx.x] = acc;
}
```

## Good
```cuda
// warplint: --arch gfx1250
#include <hip/hip_runtime.h>
extern "C" __global__ void __launch_bounds__(128) stream(float* out, const float* in, int n) {
  __shared__ float buf[128];
  float acc = 0.f;
  buf[threadIdx.x] = 0.f;
  __syncthreads();
  for (int i = 0; i < n; ++i) {
    float v = buf[127 - threadIdx.x];
    asm volatile("s_wait_dscnt 0" ::: "memory");
    asm volatile("s_wait_asynccnt 0" ::: "memory");
    asm volatile("s_barrier_signal -1\n\ts_barrier_wait -1" ::: "memory");
    asm volatile("global_load_async_to_lds_b32 %0, %1, off"
                 ::"v"((unsigned)(unsigned long long)&buf[threadIdx.x]), "v"(in + i * 128 + threadIdx.x) : "memory");
    acc += v;
  }
  out[threadIdx.x] = acc;
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.program.ir import Assign, Store, Var, walk
from warplint.rule import Rule
from warplint.threads.facts import Event, Pointer, Roles
from warplint_rules._expr import parts
from warplint_rules._say import Reporter, line, location, reached, spelled
from warplint_rules.amd._counters import FILLS, LDS, joins, lds_loads, named, raw_barriers, releases, waits

RULE = Rule(Level.ERROR, Symptom.WRONG_RESULT, supersedes=("s-barrier-without-waitcnt", "smem-race"))
SAY = Reporter(__name__, RULE)


def check(roles: Roles) -> Iterator[Finding]:
    """Reads that a refill overtakes and fills that nobody waits for, where only other counters are waited for."""
    if not roles.kernel.is_amd:
        return
    counters = waits(roles)
    if not counters:
        return
    said: set[int] = set()
    for barrier in raw_barriers(roles):
        found = _read(roles, barrier, counters) or _fill(roles, barrier, counters)
        if found is not None and id(barrier.op) not in said:
            said.add(id(barrier.op))
            yield found


def _read(roles: Roles, barrier: Event, counters: list[Event]) -> Finding | None:
    """An LDS read whose value is used behind the barrier, and a fill of the same variable there."""
    wrong = _wrong(roles, barrier, LDS, counters)
    if wrong is None:
        return None
    fills = [
        event
        for event in reached(roles, *FILLS)
        if event.order > barrier.order or any(loop in barrier.loops for loop in event.loops)
    ]
    start = _previous(roles, barrier)
    for stmt in walk(roles.kernel.body):
        if not isinstance(stmt, Assign) or not start <= stmt.span.start < barrier.op.span.start:
            continue
        for symbol in lds_loads(stmt.value.expr):
            fill = next((event for event in fills if _fills(event, symbol)), None)
            if fill is not None and not _used_before(roles, stmt, barrier):
                return SAY.at(
                    roles,
                    barrier,
                    f"{spelled(barrier)} lets `{symbol.name}` be refilled at line {line(roles, fill.op.span)} while "
                    f"the read at line {line(roles, stmt.span)} may be under way: {spelled(wrong)} waits for another "
                    "counter.",
                    why="LDS reads are tracked by lgkmcnt (dscnt from gfx12); the wait before the barrier names none "
                    "of these.",
                    remedy="Add `s_waitcnt lgkmcnt(0)` (`s_wait_dscnt 0`) before the barrier.",
                    related=[
                        location(roles, stmt.span, "the read"),
                        location(roles, wrong.op.span, "the wait"),
                        location(roles, fill.op.span, "the refill"),
                    ],
                )
    return None


def _fill(roles: Roles, barrier: Event, counters: list[Event]) -> Finding | None:
    """A fill before the barrier that only other counters are waited for."""
    start = max((join.order for join in joins(roles) if join.order < barrier.order), default=0)
    for fill in reached(roles, *FILLS):
        if not start < fill.order < barrier.order:
            continue
        own = FILLS[fill.name]
        between = [wait for wait in counters if fill.order < wait.order < barrier.order]
        if between and not any(named(wait, own) or _some(wait, own) for wait in between):
            return SAY.at(
                roles,
                barrier,
                f"{spelled(barrier)} hands over what {spelled(fill)} at line {line(roles, fill.op.span)} brings, and "
                f"{spelled(between[-1])} before it waits for another counter.",
                why=f"The copy is tracked by {' or '.join(own)}; the other waves may read before it has landed.",
                remedy=f"Wait for {own[0]} before the barrier.",
                related=[location(roles, fill.op.span, "the copy"), location(roles, between[-1].op.span, "the wait")],
            )
    return None


def _some(wait: Event, own: tuple[str, ...]) -> bool:
    return any(counter in wait.op.operands for counter in own)


def _wrong(roles: Roles, barrier: Event, own: tuple[str, ...], counters: list[Event]) -> Event | None:
    """The last wait since the previous barrier, if none of them (and no fence) covers the counters."""
    start = max((join.order for join in joins(roles) if join.order < barrier.order), default=0)
    between = [wait for wait in counters if start < wait.order < barrier.order]
    covered = any(named(wait, own) or _some(wait, own) for wait in between)
    fenced = any(start < fence.order < barrier.order for fence in releases(roles))
    return between[-1] if between and not covered and not fenced else None


def _previous(roles: Roles, barrier: Event) -> int:
    """Where in the text the stretch before the barrier begins."""
    return max((join.op.span.end for join in joins(roles) if join.order < barrier.order), default=0)


def _fills(event: Event, symbol: object) -> bool:
    target = event.values.get("dst")
    return isinstance(target, Pointer) and target.symbol is symbol


def _used_before(roles: Roles, read: Assign, barrier: Event) -> bool:
    """The value is used before the barrier: the compiler waits for it there."""
    for stmt in walk(roles.kernel.body):
        if not isinstance(stmt, Assign | Store) or not read.span.end <= stmt.span.start < barrier.op.span.start:
            continue
        stack = [stmt.value.expr]
        while stack:
            top = stack.pop()
            if isinstance(top, Var) and top.symbol is read.symbol:
                return True
            stack.extend(parts(top))
    return False
