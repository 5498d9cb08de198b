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

from msgspec import Struct

from warplint.finding import Finding, Level, Symptom
from warplint.program.ir import Break, Exit, If, Loop, Seq, Stmt, Symbol, children
from warplint.rule import Rule
from warplint.source import Span
from warplint.threads.facts import LoopFact, Reach, Roles, Uniformity, UseFact, WriteFact
from warplint_rules._say import Reporter, guard_places, line, location, narrowing, threads, under, warps, who
from warplint_rules.participation._dataflow import looks_at_data

RULE = Rule(
    Level.ERROR,
    Symptom.DEADLOCK,
    guide=True,
    supersedes=("cta-barrier-in-divergent-code", "uniform-branch-on-divergent-value"),
    spoils="schedule",
)
SAY = Reporter(__name__, RULE)


class _Need(Struct, frozen=True):
    """Threads that read a local in a loop in order to go on together."""

    symbol: Symbol
    reach: Reach
    loop: LoopFact
    span: Span
    what: str


class _Fault(Struct, frozen=True):
    """A local that threads need and do not write."""

    need: _Need
    writes: list[WriteFact]
    behind: int


def check(roles: Roles) -> Iterator[Finding]:
    """Locals that a loop's exit, a wait's parity or a barrier's address depends on, against who writes them."""
    writes: dict[int, list[WriteFact]] = {}
    for write in roles.writes:
        if write.reach.threads:
            writes.setdefault(id(write.symbol), []).append(write)
    causes: dict[tuple[int, object], list[_Fault]] = {}
    said: set[int] = set()
    for need in _needs(roles, writes):
        if id(need.symbol) in said:
            continue
        inside = [write for write in writes.get(id(need.symbol), ()) if need.loop in write.loops]
        behind = _left_behind(need, inside)
        if inside and behind:
            said.add(id(need.symbol))
            narrow = narrowing(inside[0].guards)
            guard = id(narrow[-1].stmt) if narrow else None
            causes.setdefault((id(need.loop), guard), []).append(_Fault(need, inside, behind))
    for faults in causes.values():
        yield _finding(roles, faults)


def _needs(roles: Roles, writes: dict[int, list[WriteFact]]) -> Iterator[_Need]:
    for loop in roles.loops:
        if _ends_by_data(loop):
            continue
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
    if need.reach.split == Uniformity.LANE and not need.reach.elected:
        return 0  # which lanes come here is not known: perhaps only those that write
    behind = need.reach.threads
    for write in writes:
        # Elections of one warp pick the same lane.
        if not write.reach.elected or need.reach.elected:
            behind &= ~write.reach.threads
    return behind


def _ends_by_data(loop: LoopFact) -> bool:
    """An exit of the loop looks at memory or at the result of an operation: it may come without any write of ours."""
    if not isinstance(loop.stmt, Loop):
        return True
    tests = [loop.stmt.test] if loop.stmt.test is not None else []
    # Each statement with the `if`s around it: those around a jump decide whether it is taken.
    stack: list[tuple[Stmt, tuple[If, ...]]] = [(loop.stmt.body, ())]
    while stack:
        inner, ifs = stack.pop()
        if isinstance(inner, Seq):
            stack.extend((one, ifs) for one in inner.body)
            continue
        if isinstance(inner, (Break, Exit)):
            tests.extend(one.test for one in ifs)
        elif isinstance(inner, If):
            ifs = (*ifs, inner)
        stack.extend((seq, ifs) for seq in children(inner))
    return any(looks_at_data(test.expr) for test in tests)


def _finding(roles: Roles, faults: list[_Fault]) -> Finding:
    need, writes, behind = faults[0].need, faults[0].writes, faults[0].behind
    write = writes[0]
    names = [f"`{name}`" for name in dict.fromkeys(fault.need.symbol.name for fault in faults)]
    several = len(names) > 1
    what = f"{', '.join(names[:-1])} and {names[-1]}" if several else names[0]
    decides = f"which decide{'' if several else 's'} {need.what} at line {line(roles, need.span)}"
    message = (
        f"{what}, {decides}, {'are' if several else 'is'} advanced by {_writers(roles, write.reach)}"
        f"{under(roles, write.guards)}, but {_behind(roles, write, behind)} stay in the loop and keep the old value."
    )
    return SAY.at(
        roles,
        write.span,
        message,
        threads=_writers(roles, write.reach),
        guards=write.guards,
        why="Every thread has its own copy: those that do not advance it repeat the iteration or wait for a phase "
        "that is over, while the others go on; the barriers and waits of the loop then no longer meet.",
        remedy=(
            "Advance it outside the elected branch, with all threads that use it."
            if any(other.reach.elected for other in writes)
            else "Advance it unconditionally at the end of the iteration, with all threads of the loop."
        ),
        related=[
            *(location(roles, fault.need.span, f"decides {fault.need.what}") for fault in faults),
            *guard_places(roles, write.guards)[-2:],
            *(location(roles, other.span, "written here too") for fault in faults for other in fault.writes[1:]),
        ],
    )


def _behind(roles: Roles, write: WriteFact, behind: int) -> str:
    """Who keeps the old value; the elected lane is not among them, but which lane it is nobody knows."""
    return f"the other lanes of {warps(roles, behind)}" if write.reach.elected else threads(roles, behind)


def _writers(roles: Roles, reach: Reach) -> str:
    """Who advances, at most: the loop's own test, which the fault makes differ, says nothing to a reader."""
    return who(roles, reach) if reach.elected else threads(roles, reach.threads)
