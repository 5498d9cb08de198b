"""The state of one execution, and the schedule: agents run one after another until all are done or blocked.

Programs that synchronise only through counting barriers and waits are confluent: what can block in one schedule blocks in
all, and a missing order is visible in any one. What breaks confluence (a recycled phase, a one-shot test) is checked or
recorded where it happens; `docs/MACHINE.md` says how.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field

from warplint.machine import values as v
from warplint.machine.agent import Agent, Split, Status, Wait, joined, members_of
from warplint.machine.barriers import ClusterBarrier, Mbarrier, NamedBarrier
from warplint.machine.compile import Code, Instruction, Kind
from warplint.machine.memory import Memory
from warplint.machine.outcome import BlockedRecord, Fault, Outcome, Party, Step
from warplint.machine.strands import Strand, Strands
from warplint.machine.values import Value
from warplint.program import ir
from warplint.source import Span
from warplint.threads.facts import Uniformity

Handler = Callable[["World", Agent, Instruction, dict[str, Value], int], Wait | None]
"""Executes an operation for the threads given; returns a wait when the agent must block."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Bounds of one execution; reaching one makes the outcome incomplete."""

    steps: int = 60_000
    agents: int = 4_000
    iterations: int = 600
    """Executions of one loop test by one agent."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """The inputs of one execution. `choose` gives a number for an unknown that is uniform over the CTA."""

    name: str
    block: tuple[int, int, int]
    ctas: int
    coordinates: Mapping[str, int]
    """`ctaid.x`, `nctaid.x` ... of CTA 0; the other CTAs of the cluster follow in x."""
    choose: Callable[[Hashable], int]


class World:
    """One execution in progress."""

    def __init__(
        self,
        kernel: ir.Kernel,
        code: Code,
        scenario: Scenario,
        cuts: list[int],
        handlers: Mapping[str, Handler],
        deliver: Callable[[World], bool],
        budget: Budget,
    ) -> None:
        self.kernel, self.code, self.scenario, self.handlers, self.budget = kernel, code, scenario, handlers, budget
        self.deliver = deliver
        self.warp_size = kernel.launch.warp_size
        self.block = scenario.block[0] * scenario.block[1] * scenario.block[2]
        self.everyone = (1 << self.block) - 1
        self.strands = Strands(self.warp_size)
        self.memory = Memory(self.strands)
        self.mbarriers: dict[Hashable, Mbarrier] = {}
        self.named: dict[tuple[int, int], NamedBarrier] = {}
        self.cluster = ClusterBarrier()
        self.outcome = Outcome(scenario.name)
        self.live = {cta: self.everyone for cta in range(scenario.ctas)}
        self.agents: list[Agent] = []
        self.numbers = 0
        self.splits = 0
        self.visits: dict[tuple[int, int], int] = {}
        self.changed = True
        self.dirty: dict[Hashable, int] = {}
        """Versions of memory words, for keys of values loaded from them."""
        self.words: dict[Hashable, Value] = {}
        """Shared-memory words whose value is known, by (cta, variable, offset): what tcgen05.alloc wrote."""
        self.extra: dict[Hashable, object] = {}
        """State of the handlers' own (groups, TMEM allocations), by key."""
        for cta in range(scenario.ctas):
            self.strands.add_cta(cta, self.everyone, cuts)
            self._new(Agent(0, cta, self.everyone, 0, {}, {}))
        self._coordinates = self._thread_coordinates()

    # ------------------------------------------------------------------------------------------ evaluation
    def _thread_coordinates(self) -> dict[str, Value]:
        bx, by, _ = self.scenario.block
        everyone = range(self.block)
        lane = tuple(t % self.warp_size for t in everyone)
        table: dict[str, Value] = {
            "tid.x": tuple(t % bx for t in everyone),
            "tid.y": tuple(t // bx % by for t in everyone),
            "tid.z": tuple(t // (bx * by) for t in everyone),
            "linear_tid": tuple(everyone),
            "laneid": lane,
            "warpid": tuple(t // self.warp_size for t in everyone),
            "lanemask_lt": tuple((1 << x) - 1 for x in lane),
            "lanemask_le": tuple((2 << x) - 1 for x in lane),
            "lanemask_eq": tuple(1 << x for x in lane),
            "lanemask_ge": tuple((1 << self.warp_size) - (1 << x) for x in lane),
            "lanemask_gt": tuple((1 << self.warp_size) - (2 << x) for x in lane),
            "warpsize": self.warp_size,
            "cluster_nctarank": self.scenario.ctas,
        }
        for axis, extent in zip("xyz", self.scenario.block, strict=True):
            table[f"ntid.{axis}"] = extent
            if extent == 1:
                table[f"tid.{axis}"] = 0
        return table

    def special(self, agent: Agent, name: str) -> Value:
        """A built-in coordinate for an agent."""
        value = self._coordinates.get(name)
        if value is not None:
            return agent.narrowed(value)
        if name in ("cluster_ctarank", "cluster_ctaid.x"):
            return agent.cta
        if name in ("cluster_ctaid.y", "cluster_ctaid.z"):
            return 0
        if name == "cluster_nctaid.x":
            return self.scenario.ctas
        if name in ("cluster_nctaid.y", "cluster_nctaid.z"):
            return 1
        known = self.scenario.coordinates.get(name)
        if known is not None:
            return known + agent.cta if name == "ctaid.x" else known
        return v.Unknown(("special", name, agent.cta), Uniformity.CTA)

    def party(self, agent: Agent, threads: int | None = None) -> Party:
        """Who an agent is, for the records."""
        return Party(agent.cta, agent.threads if threads is None else threads)

    def strands_of(self, agent: Agent, threads: int | None = None) -> list[Strand]:
        """The strands of an agent's threads (or of some of them)."""
        return self.strands.of(agent.cta, agent.threads if threads is None else threads)

    def note(self, reason: str, span: Span | None) -> None:
        """Something could not be established."""
        if (reason, span) not in self.outcome.incomplete:
            self.outcome.incomplete.append((reason, span))

    def fault(self, kind: str, agent: Agent, span: Span, detail: str = "", other: Span | None = None) -> None:
        """An operation broke a rule of its object."""
        if not any(f.kind == kind and f.span == span for f in self.outcome.faults):
            self.outcome.faults.append(Fault(kind, self.party(agent), span, detail, other))

    def step(self, agent: Agent, span: Span, text: str, target: Hashable = None, threads: int | None = None) -> None:
        """A line of the executed protocol."""
        self.outcome.steps.append(Step(self.party(agent, threads), span, text, target))

    # -------------------------------------------------------------------------------------------- schedule
    def _new(self, agent: Agent) -> Agent:
        self.numbers += 1
        agent.number = self.numbers
        self.agents.append(agent)
        return agent

    def run(self) -> Outcome:
        """Execute until every agent is done or blocked, or a bound is reached."""
        from warplint.machine.execute import run_agent

        steps = 0
        while True:
            agent = self._next()
            if agent is None:
                break
            steps += run_agent(self, agent)
            if steps > self.budget.steps or self.numbers > self.budget.agents:
                self.note(f"execution was stopped after {steps} steps and {self.numbers} agents", None)
                return self.outcome
        for agent in self.agents:
            if agent.status is Status.BLOCKED and agent.wait is not None:
                wait = agent.wait
                self.outcome.blocked.append(
                    BlockedRecord(self.party(agent), wait.span, wait.what, wait.target, wait.parity, wait.phase)
                )
        return self.outcome

    def _next(self) -> Agent | None:
        """The next agent to run: a ready one, else one whose wait is over, else one that need not stay parked."""
        for agent in self.agents:
            if agent.status is Status.READY:
                return agent
        while True:
            for agent in self.agents:
                if agent.status is Status.BLOCKED and agent.wait is not None and agent.wait.ready():
                    agent.status, agent.wait = Status.READY, None
                    return agent
            if not self.deliver(self):
                break
        parked = [agent for agent in self.agents if agent.status is Status.PARKED]
        if parked:
            # Independent thread scheduling: those who wait at a merge may as well run ahead.
            first = min(parked, key=lambda a: (a.pc, a.number))
            first.status = Status.READY
            first.splits = first.splits[:-1]
            return first
        for agent in self.agents:
            if agent.status is Status.BLOCKED and agent.wait is not None and agent.wait.give_up is not None:
                agent.wait.give_up()
                agent.status, agent.wait = Status.READY, None
                return agent
        return None

    def split(self, agent: Agent, mask: int, at: Instruction, yes: int, no: int) -> Agent:
        """Divide an agent: `mask` goes to `yes` (a new agent), the rest to `no` (this one)."""
        self.splits += 1
        split = Split(self.splits, at.merge, agent.threads)
        rest = agent.threads & ~mask
        other = Agent(0, agent.cta, mask, yes, dict(agent.env), dict(agent.results), (*agent.splits, split))
        self._renarrow(other)
        self._new(other)
        agent.threads, agent.members, agent.pc = rest, members_of(rest), no
        agent.splits = (*agent.splits, split)
        self._renarrow(agent)
        return other

    def _renarrow(self, agent: Agent) -> None:
        for key, value in agent.env.items():
            if isinstance(value, tuple | v.Place):
                agent.env[key] = agent.narrowed(value)

    def merge(self, agent: Agent) -> bool:
        """The agent stands at a merge. True when it may go on, False when it was parked or absorbed."""
        while agent.splits and agent.splits[-1].merge == agent.pc:
            split = agent.splits[-1]
            others = [
                other
                for other in self.agents
                if other is not agent and other.status is not Status.DONE and split in other.splits
            ]
            if not others:
                agent.splits = agent.splits[:-1]
                continue
            here = [o for o in others if o.pc == agent.pc and o.status is Status.PARKED and o.splits[-1] == split]
            if not here:
                agent.status = Status.PARKED
                return False
            both = joined(here[0], agent, self.block)
            self.agents.remove(here[0])
            agent.threads, agent.members, agent.env = both.threads, both.members, both.env
            agent.results = both.results
        return True

    def leave(self, agent: Agent) -> None:
        """The agent's threads exit the kernel."""
        agent.status = Status.DONE
        self.live[agent.cta] &= ~agent.threads
        self.agents.remove(agent)
        self.changed = True


@dataclass(slots=True)
class Groups:
    """Per-thread-set asynchronous groups of one mechanism: how many were committed, what is in each."""

    open: list[object] = field(default_factory=list)
    committed: int = 0
