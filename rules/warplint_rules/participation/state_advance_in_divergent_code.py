"""Per-thread state that a group of threads needs in step is advanced by some of them only.

## Why
Tile index, ring stage and phase are locals: every thread has its own. A thread that skips `next_tile()` never sees
its loop end, or works on the old tile; a thread that does not flip its phase waits for a phase that is over. The
group then meets its barriers a different number of times, and the kernel hangs.

## Bad
```cuda
extern "C" __global__ void __launch_bounds__(128) persistent(float* out, const float* in, int tiles) {
  __shared__ float s[128];
  int tile = blockIdx.x;
  while (tile < tiles) {
    s[threadIdx.x] = in[tile * 128 + threadIdx.x];
    __syncthreads();
    out[tile * 128 + threadIdx.x] = s[127 - threadIdx.x];
    __syncthreads();
    if (threadIdx.x < 64) tile += gridDim.x;
  }
}
```

## Good
```cuda
extern "C" __global__ void __launch_bounds__(128) persistent(float* out, const float* in, int tiles) {
  __shared__ float s[128];
  int tile = blockIdx.x;
  while (tile < tiles) {
    s[threadIdx.x] = in[tile * 128 + threadIdx.x];
    __syncthreads();
    out[tile * 128 + threadIdx.x] = s[127 - threadIdx.x];
    __syncthreads();
    tile += gridDim.x;
  }
}
```
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from warplint.finding import Finding, Level, Symptom
from warplint.program.ir import Symbol
from warplint.rule import Rule
from warplint.source import Span
from warplint.threads.facts import LoopFact, Reach, Roles, UseFact, WriteFact
from warplint_rules._say import Reporter, guard_places, line, location, threads, under, who

RULE = Rule(
    Level.ERROR,
    Symptom.DEADLOCK,
    guide=True,
    supersedes=("cta-barrier-in-divergent-code", "uniform-branch-on-divergent-value"),
)
SAY = Reporter(__name__, RULE)


@dataclass(frozen=True, slots=True)
class _Need:
    """Threads that read a local in a loop in order to go on together."""

    symbol: Symbol
    reach: Reach
    loop: LoopFact
    span: Span
    what: str


def check(roles: Roles) -> Iterator[Finding]:
    """Locals that a loop's exit, a wait's parity or a barrier's address depends on, against who writes them."""
    said: set[int] = set()
    writes: dict[int, list[WriteFact]] = {}
    for write in roles.writes:
        writes.setdefault(id(write.symbol), []).append(write)
    for need in _needs(roles, writes):
        if id(need.symbol) in said:
            continue
        inside = [write for write in writes.get(id(need.symbol), ()) if need.loop in write.loops]
        behind = _left_behind(need, inside)
        if not inside or not behind:
            continue
        said.add(id(need.symbol))
        yield _finding(roles, need, inside, behind)


def _needs(roles: Roles, writes: dict[int, list[WriteFact]]) -> Iterator[_Need]:
    for loop in roles.loops:
        # Another variable that these threads do write may end the loop for them: then nothing is established.
        for symbol in loop.state:
            others = (other for other in loop.state if other is not symbol)
            rescued = 0
            for other in others:
                for write in writes.get(id(other), ()):
                    if loop in write.loops:
                        rescued |= write.reach.threads
            if loop.body.threads & ~rescued:
                reach = Reach(loop.body.threads & ~rescued, loop.body.elected, loop.body.split, loop.body.varies)
                yield _Need(symbol, reach, loop, loop.span, "the loop's exit")
    for use in roles.uses:
        loop = _common_loop(use, writes.get(id(use.symbol), ()))
        if loop is not None and use.kind != "loop-test":
            what = {"parity": "the phase of a wait", "barrier": "the barrier of a wait"}.get(use.kind, "an operand")
            yield _Need(use.symbol, use.reach, loop, use.span, what)


def _common_loop(use: UseFact, writes: list[WriteFact] | tuple[WriteFact, ...]) -> LoopFact | None:
    """The innermost loop around the use that also writes the local."""
    for loop in reversed(use.loops):
        if any(loop in write.loops for write in writes):
            return loop
    return None


def _left_behind(need: _Need, writes: list[WriteFact]) -> int:
    """Threads that need the local and execute none of its writes in the loop."""
    behind = need.reach.threads
    for write in writes:
        if not write.reach.elected:
            behind &= ~write.reach.threads
        elif need.reach.elected:
            # Elections of one warp pick the same lane.
            behind &= ~write.reach.threads
    if behind and need.reach.elected:
        return behind
    return behind


def _finding(roles: Roles, need: _Need, writes: list[WriteFact], behind: int) -> Finding:
    write = writes[0]
    name = need.symbol.name
    message = (
        f"`{name}`, which decides {need.what} at line {line(roles, need.span)}, is advanced by "
        f"{who(roles, write.reach)}"
        f"{under(roles, write.guards)}, but {threads(roles, behind)} also stay in the loop and keep the old value."
    )
    elected = any(other.reach.elected for other in writes)
    return SAY.at(
        roles,
        write.span,
        message,
        threads=who(roles, write.reach),
        guards=write.guards,
        why="Every thread has its own copy: those that do not advance it repeat the iteration or wait for a phase "
        "that is over, "
        "while the others go on; the barriers and waits of the loop then no longer meet.",
        remedy=(
            "Advance it outside the elected branch, with all threads that use it."
            if elected
            else "Advance it unconditionally at the end of the iteration, with all threads of the loop."
        ),
        related=[
            location(roles, need.span, f"it decides {need.what} here"),
            *guard_places(roles, write.guards)[-2:],
            *(location(roles, other.span, "written here too") for other in writes[1:]),
        ],
    )
