"""The oracle: every interleaving of a small protocol, by brute force.

A protocol is one straight list of steps for each warp (loops unrolled). Copies run on their own: each lands at any time
after its issue. Nothing here is shared with the machine: no clocks, no agents, only states and what can happen next.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

GROUPED = ("cp", "store")


@dataclass(frozen=True)
class Step:
    """`arrive` (object = barrier, `bytes` more expected), `expect` (the same without an arrival), `wait` (object,
    parity), `sync` (object = named barrier of `count` warps), `write`, `read` (object = word), `fence` (proxy fence);
    copies: `load` (word, lands as `bytes` on `barrier`), `cp` (word, written), `store` (word, read by the async proxy);
    `commit` and `drain` (group kind 0 = cp, 1 = store; `count` groups may stay open)."""

    kind: str
    object: int
    parity: int = 0
    count: int = 0
    bytes: int = 0
    barrier: int = 0


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
    unfenced: bool = False
    """The async proxy reads a word while no proxy fence of its writer has followed the write."""
    states: int = 0


class Flight(NamedTuple):
    """A copy that has been issued and has not landed."""

    warp: int
    how: str
    word: int
    barrier: int
    bytes: int
    group: int


class State(NamedTuple):
    """Everything that distinguishes two situations."""

    counters: tuple[int, ...]
    """Program counters (doubled: odd = waits inside a named barrier)."""
    barriers: tuple[tuple[int, int, int], ...]
    """(phase, pending arrivals, bytes still expected) of each mbarrier."""
    named: tuple[tuple[int, frozenset[int]], ...] = ()
    flights: tuple[Flight, ...] = ()
    groups: tuple[tuple[int, int], ...] = ()
    """Groups that each warp has committed: cp, store."""
    dirty: frozenset[tuple[int, int]] = frozenset()
    """(word, warp): written and not fenced since."""


def explore(protocol: Protocol, limit: int = 60_000) -> Verdict:
    """Visit every reachable state."""
    verdict = Verdict()
    warps = len(protocol.warps)
    start = State((0,) * warps, tuple((0, count, 0) for count in protocol.counts), groups=((0, 0),) * warps)
    seen = {start}
    stack = [start]
    while stack and verdict.states < limit:
        state = stack.pop()
        verdict.states += 1
        if not verdict.races and _racing(protocol, state):
            verdict.races = True
        moves = [*_moves(protocol, state, verdict), *_landings(protocol, state)]
        unfinished = any(pc < 2 * len(steps) for pc, steps in zip(state.counters, protocol.warps, strict=True))
        if not moves and unfinished:
            verdict.blocks = True
        for after in moves:
            if after not in seen:
                seen.add(after)
                stack.append(after)
    return verdict


def _next(protocol: Protocol, state: State, warp: int) -> Step | None:
    pc = state.counters[warp]
    steps = protocol.warps[warp]
    return steps[pc // 2] if pc % 2 == 0 and pc // 2 < len(steps) else None


def _racing(protocol: Protocol, state: State) -> bool:
    ready = [_next(protocol, state, warp) for warp in range(len(protocol.warps))]
    accesses = [(s.object, s.kind == "write", "") for s in ready if s is not None and s.kind in ("read", "write")]
    # cp.async of one thread into one word twice is taken as one: nothing else conflicts with the one and not the other.
    accesses += [(f.word, f.how != "store", f"{f.warp}" if f.how == "cp" else "") for f in state.flights]
    return any(
        one[0] == two[0] and (one[1] or two[1]) and not (one[2] and one[2] == two[2])
        for index, one in enumerate(accesses)
        for two in accesses[index + 1 :]
    )


def _counted(protocol: Protocol, state: State, index: int, arrivals: int, transfer: int) -> tuple:
    """The barriers after arrivals and a change of the expected bytes; a phase that has everything is over."""
    phase, pending, tx = state.barriers[index]
    pending, tx = pending - arrivals, tx + transfer
    after = (phase, pending, tx) if pending or tx else (phase + 1, protocol.counts[index], 0)
    return (*state.barriers[:index], after, *state.barriers[index + 1 :])


def _landings(protocol: Protocol, state: State) -> Iterator[State]:
    for index, flight in enumerate(state.flights):
        if index and flight == state.flights[index - 1]:
            continue
        rest = (*state.flights[:index], *state.flights[index + 1 :])
        barriers = state.barriers
        if flight.how == "load":
            barriers = _counted(protocol, state, flight.barrier, 0, -flight.bytes)
        yield state._replace(flights=rest, barriers=barriers)


def _moves(protocol: Protocol, state: State, verdict: Verdict) -> Iterator[State]:
    for warp in range(len(protocol.warps)):
        step = _next(protocol, state, warp)
        if step is None:
            continue
        onward = _put(state.counters, warp, state.counters[warp] + 2)
        on = state._replace(counters=onward)
        match step.kind:
            case "read":
                yield on
            case "write":
                yield on._replace(dirty=state.dirty | {(step.object, warp)})
            case "fence":
                yield on._replace(dirty=frozenset(d for d in state.dirty if d[1] != warp))
            case "wait":
                if step.parity != state.barriers[step.object][0] & 1:
                    yield on
            case "arrive":
                if state.barriers[step.object][1] == 0:
                    verdict.over_arrives = True
                    continue
                yield on._replace(barriers=_counted(protocol, state, step.object, 1, step.bytes))
            case "expect":
                yield on._replace(barriers=_counted(protocol, state, step.object, 0, step.bytes))
            case "load" | "cp" | "store":
                if step.kind == "store" and any(word == step.object for word, _ in state.dirty):
                    verdict.unfenced = True
                group = state.groups[warp][GROUPED.index(step.kind)] if step.kind in GROUPED else -1
                flight = Flight(warp, step.kind, step.object, step.barrier, step.bytes, group)
                yield on._replace(flights=tuple(sorted((*state.flights, flight))))
            case "commit":
                mine = list(state.groups[warp])
                mine[step.object] += 1
                yield on._replace(groups=_put(state.groups, warp, tuple(mine)))
            case "drain":
                first_open = state.groups[warp][step.object] - step.count
                how = GROUPED[step.object]
                if not any(f.warp == warp and f.how == how and f.group < first_open for f in state.flights):
                    yield on
            case _:
                yield _sync(state, warp, step, onward)


def _sync(state: State, warp: int, step: Step, onward: tuple[int, ...]) -> State:
    table = dict(state.named)
    arrived = table.get(step.object, frozenset()) | {warp}
    if len(arrived) == step.count:
        table.pop(step.object, None)
        counters = tuple(
            state.counters[other] // 2 * 2 + 2 if other in arrived else counter
            for other, counter in enumerate(state.counters)
        )
        return state._replace(counters=counters, named=tuple(sorted(table.items())))
    table[step.object] = arrived
    inside = _put(state.counters, warp, state.counters[warp] + 1)
    return state._replace(counters=inside, named=tuple(sorted(table.items(), key=lambda item: item[0])))


def _put(values: tuple, index: int, value: object) -> tuple:
    return (*values[:index], value, *values[index + 1 :])
