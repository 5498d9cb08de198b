"""The counting objects: mbarriers, named and CTA barriers, cluster barriers. Pure state, no schedule.

Semantics are those of the PTX ISA, sections 9.7.13.15 (mbarrier), 9.7.13.1 (bar) and 9.7.13.3 (barrier.cluster). An
object
does not know agents: it takes arrivals and says which generation completed. What was handed over travels as clocks
(`strands`): each generation collects the knowledge of its releases.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from msgspec import Struct, field

from warplint.machine.strands import raise_to
from warplint.program import ir
from warplint.source import Span

MAX_COUNT = (1 << 20) - 1


def label_of(key: Hashable) -> str:
    """A barrier word for people: `bars+8`."""
    assert isinstance(key, tuple)
    _, base, offset = key
    name = base.name if isinstance(base, ir.Symbol) else "shared"
    return f"{name}+{offset}" if offset else str(name)


class Arrival(Struct, frozen=True):
    """One contribution to a phase: who, from which line, how many arrivals, how many expected bytes."""

    cta: int
    threads: int
    span: Span
    count: int
    expect: int = 0
    complete: int = 0
    how: str = "arrive"
    """`arrive`, `expect_tx`, `commit`, `cp.async`, `copy` (complete_tx of a bulk copy)."""


class Mbarrier(Struct):
    """One mbarrier object in the shared memory of one CTA.

    `completed` counts phases that are over: the current phase is number `completed`, its parity `completed & 1`.
    `wait(P)` passes iff P differs from the parity of the current phase.
    """

    cta: int
    label: str
    count: int
    span: Span
    completed: int = 0
    pending: int = 0
    """Arrivals still missing in the current phase; negative after over-arrival."""
    tx: int = 0
    """Bytes still expected in the current phase; may be negative for a while."""
    arrivals: list[Arrival] = field(default_factory=list)
    history: list[list[Arrival]] = field(default_factory=list)
    """Arrivals of the completed phases, oldest first."""
    knowledge: dict[Hashable, int] = field(default_factory=dict)
    handed: list[Mapping[Hashable, int]] = field(default_factory=list)
    """What a waiter of each completed phase learns."""
    arrivers: list[tuple[int, int]] = field(default_factory=list)
    """(strand, time) of the arrivals of the current phase."""
    previous: list[tuple[int, int]] = field(default_factory=list)
    """Those of the phase before."""
    expectations: list[tuple[int, int, Arrival]] = field(default_factory=list)
    """(strand, time, record) of what only raised the expected bytes in the current phase and did not arrive."""
    released: dict[Hashable, int] = field(default_factory=dict)
    """What the arrivals since the first of these expectations released: the phase cannot be over before them."""
    watchers: dict[int, list[tuple[int, int, Any]]] = field(default_factory=dict)
    """Waits by the phase they aim at: (strand, time, record), until the next phase completes."""

    def __post_init__(self) -> None:
        self.pending = self.count

    @property
    def parity(self) -> int:
        """Parity of the current, incomplete phase."""
        return self.completed & 1

    def passes(self, parity: int) -> bool:
        """Whether a wait for `parity` returns true now."""
        return parity & 1 != self.parity

    def arrive(self, arrival: Arrival, knowledge: Mapping[Hashable, int]) -> str:
        """Account for one arrival, expect_tx or complete_tx. Returns a fault: "", "over-arrival", "count-overflow".

        Order inside one instruction is expect, then arrive (PTX `mbarrier.arrive.expect_tx`).
        """
        raise_to(self.knowledge, knowledge)
        if arrival.count and self.expectations:
            raise_to(self.released, knowledge)
        self.arrivals.append(arrival)
        self.tx += arrival.expect - arrival.complete
        if arrival.count > self.pending:
            return "over-arrival"
        self.pending -= arrival.count
        if abs(self.tx) > MAX_COUNT:
            return "tx-overflow"
        self._advance()
        return ""

    def _advance(self) -> None:
        if self.pending or self.tx:
            return
        self.completed += 1
        self.history.append(self.arrivals)
        self.handed.append(self.knowledge)
        self.arrivals = []
        self.previous, self.arrivers = self.arrivers, []
        # A waiter of a later phase has necessarily seen the earlier ones complete, so their knowledge carries on.
        self.knowledge = dict(self.knowledge)
        self.pending = self.count

    def raise_pending(self, by: int) -> None:
        """`cp.async.mbarrier.arrive` without `.noinc` first raises the pending count of the current phase."""
        self.pending += by

    def drop(self, by: int) -> None:
        """`mbarrier.arrive_drop` lowers the count of all later phases."""
        self.count -= by


class Came(Struct, frozen=True):
    """One warp-level execution of a barrier: the lanes that made it, where, and whether they wait."""

    warp: int
    span: Span
    waits: bool


class NamedBarrier(Struct):
    """Hardware barrier `id` of one CTA. `need` is in warps, None until the first arrival tells.

    What is counted is *executions by a warp*, not distinct warps and not lanes (measured on an H200): each
    `bar.arrive` or `bar.sync` that a warp executes adds 32, whatever its active lanes. One warp that arrives and then
    syncs fills a count of 64 alone. Lanes of one warp that come to the barrier apart from each other (at one site or
    at several) make one execution: lane 0 at an arrive and lane 1 at a sync count 32, and hang.
    """

    cta: int
    ident: int
    need: int | None = None
    span: Span = Span(0, 0)
    came: list[Came] = field(default_factory=list)
    """The executions of the current generation."""
    lanes: dict[int, int] = field(default_factory=dict)
    """Warp -> the lanes that belong to its latest execution in the current generation."""
    generation: int = 0
    knowledge: dict[Hashable, int] = field(default_factory=dict)
    handed: list[Mapping[Hashable, int]] = field(default_factory=list)
    distinct: set[int] = field(default_factory=set)
    """Warps that ever came."""

    def arrive(
        self, warp: int, need: int, span: Span, waits: bool, knowledge: Mapping[Hashable, int], lanes: int = -1
    ) -> str:
        """Lanes of one warp execute the barrier. Returns a fault: "" or "count-differs" (which traps)."""
        if self.need is None or not self.came:
            self.need, self.span = need, span
        elif self.need != need:
            return "count-differs"
        raise_to(self.knowledge, knowledge)
        before = self.lanes.get(warp, 0)
        if before and not before & lanes:
            # The rest of a warp that came in pieces.
            self.lanes[warp] = before | lanes
            return ""
        self.lanes[warp] = lanes
        self.distinct.add(warp)
        self.came.append(Came(warp, span, waits))
        return ""

    def complete(self, need: int | None = None) -> bool:
        """Close the generation if enough came. `need` overrides (the live warps of a CTA-wide barrier)."""
        wanted = self.need if need is None else need
        if not self.came or wanted is None or len(self.came) < wanted:
            return False
        self.generation += 1
        self.handed.append(self.knowledge)
        self.knowledge, self.came, self.lanes = {}, [], {}
        return True


class ClusterBarrier(Struct):
    """barrier.cluster: every live thread of every CTA of the cluster arrives once a generation."""

    generation: int = 0
    arrived: dict[int, int] = field(default_factory=dict)
    """CTA -> threads that have arrived in the current generation."""
    knowledge: dict[Hashable, int] = field(default_factory=dict)
    sites: dict[int, dict[Span, set[int]]] = field(default_factory=dict)
    """CTA -> where its threads have arrived, each with the generations."""
    handed: list[Mapping[Hashable, int]] = field(default_factory=list)

    def arrive(self, cta: int, threads: int, knowledge: Mapping[Hashable, int], span: Span = Span(0, 0)) -> str:
        """Threads of one CTA arrive. Returns a fault: "" or "re-arrival"."""
        self.sites.setdefault(cta, {}).setdefault(span, set()).add(self.generation)
        if self.arrived.get(cta, 0) & threads:
            return "re-arrival"
        self.arrived[cta] = self.arrived.get(cta, 0) | threads
        raise_to(self.knowledge, knowledge)
        return ""

    def complete(self, live: Mapping[int, int]) -> bool:
        """Close the generation if all live threads of all CTAs (CTA -> bitset) have arrived."""
        if not self.arrived or any(threads & ~self.arrived.get(cta, 0) for cta, threads in live.items()):
            return False
        self.generation += 1
        self.handed.append(self.knowledge)
        self.knowledge = {}
        self.arrived = {}
        return True
