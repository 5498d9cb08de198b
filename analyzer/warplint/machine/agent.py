"""Agents: groups of threads of one CTA that follow one path."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from enum import Enum, auto

from msgspec import Struct, field

from warplint.machine import values as v
from warplint.machine.line import Line
from warplint.machine.values import Value
from warplint.program import ir
from warplint.source import Span


class Status(Enum):
    """What an agent is doing."""

    READY = auto()
    BLOCKED = auto()
    PARKED = auto()
    """Waits at a merge for the threads it was split from; goes on alone when nothing else can run."""
    DONE = auto()


class Wait(Struct, eq=False):
    """Why an agent is blocked. `ready` is asked again whenever something changed; it completes the wait when it can."""

    what: str
    """`mbarrier`, `named barrier`, `cta barrier`, `cluster barrier`, `warp`."""
    span: Span
    ready: Callable[[], bool]
    target: Hashable = None
    """The object waited for."""
    parity: int = -1
    phase: int = -1
    """For mbarriers: number of the phase whose completion it waits for."""
    generation: int = -1
    """For named and cluster barriers: number of the generation it waits for."""
    give_up: Callable[[], None] | None = None
    """For one-shot tests: makes the test fail, so that the agent can go on; used only when nothing else runs."""


class Split(Struct, frozen=True):
    """A divergence that may heal: its sides meet at code address `merge`."""

    number: int
    merge: int
    threads: int
    """All threads that were together before."""


class Agent(Struct, eq=False):
    """A group of threads with one program counter."""

    number: int
    cta: int
    threads: int
    pc: int
    env: dict[Hashable, Value]
    results: dict[tuple[ir.Operation | ir.Store, str], Value]
    splits: tuple[Split, ...] = ()
    status: Status = Status.READY
    wait: Wait | None = None
    members: list[int] = field(default_factory=list)
    """The thread indices of `threads`, ascending."""
    last: Span = Span(0, 0)
    steps: int = 0
    solo: int = -1
    """Address of a warp collective that is executed without the lanes that cannot come."""

    def __post_init__(self) -> None:
        self.members = members_of(self.threads)

    def narrowed(self, value: Value) -> Value:
        """A value as this agent sees it: a tuple that is constant over its threads is an int."""
        return v.narrow(value, self.members) if isinstance(value, tuple | v.Place) else value

    def mask_where(self, value: Value) -> int | None:
        """The threads of the agent for which a value is non-zero; None when unknown."""
        if isinstance(value, int):
            return self.threads if value else 0
        if isinstance(value, v.Place):
            return self.threads
        if isinstance(value, tuple):
            mask = 0
            for thread in self.members:
                if value[thread]:
                    mask |= 1 << thread
            return mask
        if isinstance(value, Line):
            return self.mask_where(v.truth(value))
        return None

    def per_thread(self, value: Value) -> list[tuple[int, int]] | None:
        """(thread, value) for each thread; None when unknown."""
        if isinstance(value, int):
            return [(thread, value) for thread in self.members]
        if isinstance(value, tuple):
            return [(thread, value[thread]) for thread in self.members]
        return None


def members_of(threads: int) -> list[int]:
    """Indices of the set bits, ascending."""
    result = []
    while threads:
        low = threads & -threads
        result.append(low.bit_length() - 1)
        threads ^= low
    return result


def joined(first: Agent, second: Agent, block: int) -> Agent:
    """The two sides of a split after they met: one agent with both thread sets and a mixed environment."""
    env: dict[Hashable, Value] = {}
    for key in sorted({*first.env, *second.env}, key=id):
        one, two = first.env.get(key), second.env.get(key)
        if one is None or two is None:
            # Assigned on one side only: its other threads never look at it, or read an undefined value.
            env[key] = one if two is None else two  # type: ignore[assignment]
        elif one is two or one == two:
            env[key] = one
        else:
            env[key] = v.mix(one, two, second.members, block)
    results = {**first.results, **second.results}
    for key in first.results.keys() & second.results.keys():
        one, two = first.results[key], second.results[key]
        results[key] = one if one == two else v.mix(one, two, second.members, block)
    return Agent(
        min(first.number, second.number),
        first.cta,
        first.threads | second.threads,
        first.pc,
        env,
        results,
        first.splits,
    )
