"""The oracle: every interleaving of a small protocol, by brute force.

A protocol is one straight list of steps for each warp (loops unrolled). Nothing here is shared with the machine: no
clocks, no
agents, only states and what can happen next.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """`arrive` (object = barrier), `wait` (object, parity), `sync` (object = named barrier of `count` warps), `write`,
    `read`
    (object = word)."""

    kind: str
    object: int
    parity: int = 0
    count: int = 0


@dataclass(frozen=True)
class Protocol:
    """Steps of each warp, and the arrival counts of the mbarriers."""

    warps: tuple[tuple[Step, ...], ...]
    counts: tuple[int, ...]


@dataclass
class Verdict:
    """What can happen in some interleaving."""

    blocks: bool = False
    over_arrives: bool = False
    races: bool = False
    states: int = 0


State = tuple[tuple[int, ...], tuple[tuple[int, int], ...], tuple[tuple[int, frozenset[int]], ...]]
"""Program counters (doubled: odd = waits inside a named barrier), (phase, pending) of each mbarrier, (id, arrived
warps)."""


def explore(protocol: Protocol, limit: int = 60_000) -> Verdict:
    """Visit every reachable state."""
    verdict = Verdict()
    start: State = (
        (0,) * len(protocol.warps),
        tuple((0, count) for count in protocol.counts),
        (),
    )
    seen: set[State] = {start}
    stack: list[State] = [start]
    while stack and verdict.states < limit:
        state = stack.pop()
        verdict.states += 1
        if _racing(protocol, state):
            verdict.races = True
        moves = list(_moves(protocol, state, verdict))
        unfinished = any(pc < 2 * len(steps) for pc, steps in zip(state[0], protocol.warps, strict=True))
        if not moves and unfinished:
            verdict.blocks = True
        for after in moves:
            if after not in seen:
                seen.add(after)
                stack.append(after)
    return verdict


def _next(protocol: Protocol, state: State, warp: int) -> Step | None:
    pc = state[0][warp]
    steps = protocol.warps[warp]
    return steps[pc // 2] if pc % 2 == 0 and pc // 2 < len(steps) else None


def _racing(protocol: Protocol, state: State) -> bool:
    ready = [_next(protocol, state, warp) for warp in range(len(protocol.warps))]
    accesses = [step for step in ready if step is not None and step.kind in ("read", "write")]
    return any(
        one.object == two.object and "write" in (one.kind, two.kind)
        for index, one in enumerate(accesses)
        for two in accesses[index + 1 :]
    )


def _moves(protocol: Protocol, state: State, verdict: Verdict):
    counters, barriers, named = state
    for warp in range(len(protocol.warps)):
        step = _next(protocol, state, warp)
        if step is None:
            continue
        onward = (*counters[:warp], counters[warp] + 2, *counters[warp + 1 :])
        if step.kind in ("read", "write"):
            yield onward, barriers, named
        elif step.kind == "wait":
            if step.parity != barriers[step.object][0] & 1:
                yield onward, barriers, named
        elif step.kind == "arrive":
            phase, pending = barriers[step.object]
            if pending == 0:
                verdict.over_arrives = True
                continue
            pending -= 1
            after = (phase, pending) if pending else (phase + 1, protocol.counts[step.object])
            yield onward, (*barriers[: step.object], after, *barriers[step.object + 1 :]), named
        else:
            table = dict(named)
            arrived = table.get(step.object, frozenset()) | {warp}
            if len(arrived) == step.count:
                table.pop(step.object, None)
                released = list(counters)
                for other in arrived:
                    released[other] = counters[other] // 2 * 2 + 2
                yield tuple(released), barriers, tuple(sorted(table.items()))
            else:
                table[step.object] = arrived
                inside = (*counters[:warp], counters[warp] + 1, *counters[warp + 1 :])
                yield inside, barriers, tuple(sorted(table.items(), key=lambda item: item[0]))
