"""The state of one execution, and the schedule: agents run one after another until all are done or blocked.

Programs that synchronise only through counting barriers and waits are confluent: what can block in one schedule blocks
in
all, and a missing order is visible in any one. What breaks confluence (a recycled phase, a one-shot test) is checked or
recorded where it happens; `docs/MACHINE.md` says how.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from msgspec import Struct

from warplint.machine import values as v
from warplint.machine.agent import Agent, Split, Status, Wait, joined, members_of
from warplint.machine.barriers import ClusterBarrier, Mbarrier, NamedBarrier
from warplint.machine.compile import Code, Instruction
from warplint.machine.footprint import Access, Lanes
from warplint.machine.groups import Groups
from warplint.machine.line import Trial
from warplint.machine.memory import Memory
from warplint.machine.observe import Observer
from warplint.machine.outcome import Fault, Outcome, Party, Step
from warplint.machine.polls import Polls
from warplint.machine.repeats import Repeats
from warplint.machine.strands import Strand, Strands, raise_to
from warplint.machine.values import Value
from warplint.machine.ways import Way
from warplint.machine.words import Words
from warplint.program import ir
from warplint.source import Span
from warplint.threads.facts import Uniformity, warps_of

Handler = Callable[["World", Agent, Instruction, dict[str, Value], int], Wait | None]
"""Executes an operation for the threads given; returns a wait when the agent must block."""


MAX_ASKED = 400
"""Unknown inputs that are recorded."""


class Budget(Struct, frozen=True):
    """Bounds of one execution; reaching one makes the outcome incomplete."""

    steps: int = 40_000
    agents: int = 4_000
    work: int = 2_000_000
    """Comparisons between accesses to memory (weighted)."""
    iterations: int = 600
    """Executions of one loop test by one agent."""


LONG = Budget(steps=100_000, work=6_000_000)
"""For the first execution of a kernel when nothing smaller can be tried."""


RESPONSES = "responses"
"""Asked for: how often a request for the next cluster (cluster launch control) obtains work."""


class Trips(Struct, frozen=True):
    """How often the loops run that unknown inputs bound."""

    outer: int = 2
    """Loops over tiles: those around other such loops."""
    inner: int = 2
    block: int = 0
    """Index of the cluster that is executed."""
    growing: bool = False
    """Numbers that are loaded grow along every array."""
    others: str = "apart"
    """Inputs that bound no loop: `apart`, larger than all that do, so that no two are equal by chance; `alike`, as
    those; or `zero`: conditions on them are then the other way round."""


class Scenario(Struct, frozen=True):
    """The inputs of one execution. `choose` gives a number for an unknown that is uniform over the CTA."""

    name: str
    block: tuple[int, int, int]
    ctas: int
    coordinates: Mapping[str, int]
    """`ctaid.x`, `nctaid.x` ... of CTA 0; the other CTAs of the cluster follow in x, then in y and z."""
    choose: Callable[[Hashable], int]
    trips: int = 2
    """Iterations of a loop whose exit depends on data."""
    wave: int = 0
    """Lanes of a wave where the kernel does not tell (AMD); else 0."""
    way: Way = Way.TURNS
    """How branches on data are taken."""
    shape: tuple[int, int, int] = (1, 1, 1)
    """CTAs of the cluster in x, y and z."""
    rounds: Trips = Trips()
    """What the numbers of `choose` are made for."""


class Allocation(Struct):
    """Columns of tensor memory that one CTA holds."""

    cta: int
    first: int
    columns: int
    span: Span
    threads: int
    live: bool = True


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
        observer: Observer | None = None,
        repeats: bool = True,
    ) -> None:
        self.kernel, self.code, self.scenario, self.handlers, self.budget = kernel, code, scenario, handlers, budget
        self.deliver, self.observer = deliver, observer
        self.amd = kernel.is_amd
        self.warp_size = scenario.wave or kernel.launch.warp_size
        self.counting = code.counting
        self.waves: dict[tuple[int, int], Any] = {}
        """AMD: (cta, wave) -> what the wave has under way (`semantics.amd_counters`)."""
        self.block = scenario.block[0] * scenario.block[1] * scenario.block[2]
        self.everyone = (1 << self.block) - 1
        self.strands = Strands(self.warp_size)
        self.memory = Memory(self.strands, lockstep=self.amd)
        self.groups = Groups(self.strands)
        self.mbarriers: dict[Hashable, Mbarrier] = {}
        self.named: dict[tuple[int, int], NamedBarrier] = {}
        self.cluster = ClusterBarrier()
        self.grid = ClusterBarrier()
        """The barrier of the grid, as far as the cluster's CTAs are part of it."""
        self.outcome = Outcome(scenario.name)
        self.live = {cta: self.everyone for cta in range(scenario.ctas)}
        self.agents: list[Agent] = []
        self.numbers = 0
        self.splits = 0
        self.visits: dict[Hashable, int] = {}
        self.changed = True
        self.dirty: dict[Hashable, int] = {}
        """Versions of memory words, for keys of values loaded from them."""
        self.words = Words()
        self.tallied: set[Hashable] = set()
        """Variables of shared memory that the kernel counts in by atomic operations."""
        self.tickets: dict[Hashable, int] = {}
        """Numbers that atomic additions to one word of global memory have handed out."""
        self.extra: dict[Hashable, Any] = {}
        """State of the barriers' handlers, by key."""
        self.init_times: dict[Hashable, list[tuple[int, int]]] = {}
        self.init_fences: dict[int, int] = {}
        self.barrier_words: dict[Hashable, dict[int, Span]] = {}
        """(cta, variable) -> offsets of live barrier words, with the place of their init."""
        self.flights: list[Any] = []
        self.slots: dict[Hashable, int] = {}
        """Length of the slot that starts at (variable, offset), where an execution of a copy told it."""
        self.slot_starts: set[tuple[Any, int]] = set()
        self.lanes: dict[Hashable, Lanes] = {}
        self.elected: dict[int, tuple[Value, Value]] = {}
        self.memo: dict[Hashable, Value] = {}
        """Values of expressions that only depend on the variables in the key."""
        self.site_starts: dict[Hashable, list[int]] = {}
        """Where the copies of one site start in one variable, ascending."""
        self.fills: dict[int, tuple[Access, dict[int, int]]] = {}
        self.allocations: list[Allocation] = []
        self.paired: dict[tuple[int, str], tuple[list[tuple[Party, Span, int]], list[tuple[Party, Span, int]]]] = {}
        """Allocations and deallocations of the even and odd CTA of a pair: who, where, cluster barriers passed."""
        self.pipelines: dict[Hashable, int] = {}
        self.moves: dict[Hashable, list[Access]] = {}
        self.register_pools: dict[int, dict[str, int]] = {}
        self.registers: dict[int, dict[int, int]] = {}
        self.remote: dict[
            Hashable, tuple[Party, int, tuple[tuple[int, int], ...], tuple[Hashable, int] | None, Span]
        ] = {}
        self.exit_clocks: dict[int, dict[Hashable, int]] = {}
        self.doubtful = False
        """Which of the threads really do what is executed is not known: its condition rests on data."""
        self.executed = 0
        self.stopped = ""
        self.trial: Trial | None = None
        """The repetition that is executed with lines (`repeats`)."""
        self.repeats = Repeats(self) if repeats and not self.amd and not code.polls else None
        self.polls = Polls(self) if code.polls else None
        """Loops that wait for words of shared memory."""
        self._whole: dict[int, bool] = {}
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
        if name == "cluster_ctarank":
            return agent.cta
        width, height, _ = self.scenario.shape
        within = {"x": agent.cta % width, "y": agent.cta // width % height, "z": agent.cta // (width * height)}
        if name.startswith("cluster_ctaid."):
            return within[name[-1]]
        if name.startswith("cluster_nctaid."):
            return self.scenario.shape["xyz".index(name[-1])]
        known = self.scenario.coordinates.get(name)
        if known is not None:
            self.outcome.asked[name] = known
            return known + within[name[-1]] if name.startswith("ctaid.") else known
        return v.Unknown(("special", name, agent.cta), Uniformity.CTA)

    def choose(self, key: Hashable) -> int:
        """A number for an unknown that is uniform over the CTA."""
        value = self.scenario.choose(key)
        if len(self.outcome.asked) < MAX_ASKED:
            self.outcome.asked[key] = value
        return value

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

    def remark(self, reason: str, span: Span | None) -> None:
        """Something was not looked at; the protocol itself is known."""
        if (reason, span) not in self.outcome.remarks:
            self.outcome.remarks.append((reason, span))

    def assume(self, reason: str, span: Span | None) -> None:
        """Something outside the model was taken for granted: what is shown stands, and is not all there is."""
        if (reason, span) not in self.outcome.assumed:
            self.outcome.assumed.append((reason, span))

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
        from warplint.machine.conclude import conclude
        from warplint.machine.runner import run_agent

        while True:
            agent = self._next()
            if agent is None:
                break
            self.executed += run_agent(self, agent)
            over = "" if self.executed <= self.budget.steps else f"{self.executed} steps"
            over = over if self.numbers <= self.budget.agents else f"{self.numbers} agents"
            over = (
                over
                if self.memory.work <= self.budget.work
                else f"{self.executed} steps, with too many accesses to memory"
            )
            if over:
                self.stopped = f"execution was stopped after {over}"
                self.note(self.stopped, None)
                return self.outcome
        if self.repeats is not None:
            self.repeats.end()
        conclude(self)
        return self.outcome

    def go_on(self, budget: Budget) -> None:
        """Continue an execution that was stopped, within another budget."""
        self.budget = budget
        if self.stopped:
            self.outcome.incomplete.remove((self.stopped, None))
            self.run()

    def _next(self) -> Agent | None:
        """The next agent to run: a ready one, else one whose wait is over, else one that need not stay parked."""
        for agent in self.agents:
            if agent.status is Status.READY:
                return agent
        while True:
            for agent in self.agents:
                if agent.status is Status.BLOCKED and agent.wait is not None and agent.wait.ready():
                    if self.observer is not None:
                        self.observer.resumed(agent, agent.wait, False)
                    agent.status, agent.wait = Status.READY, None
                    return agent
            if not self.deliver(self):
                break
        parked = [agent for agent in self.agents if agent.status is Status.PARKED]
        if parked:
            # Independent thread scheduling: those who wait at a merge may as well run ahead.
            for first in sorted(parked, key=lambda a: (a.pc, a.number)):
                if self.amd and not self._leave_siblings(first):
                    continue
                first.status = Status.READY
                first.splits = first.splits[:-1]
                return first
        for agent in sorted(self.agents, key=lambda a: (a.wait.what != "mbarrier" if a.wait else True, a.pc, a.number)):
            if agent.status is Status.BLOCKED and agent.wait is not None and agent.wait.give_up is not None:
                if agent.wait.what == "warp" and self._others_stuck(agent):
                    continue
                agent.wait.give_up()
                if self.observer is not None:
                    self.observer.resumed(agent, agent.wait, True)
                agent.status, agent.wait = Status.READY, None
                return agent
        return None

    def _leave_siblings(self, agent: Agent) -> bool:
        """AMD: lanes of one wave wait for one another at a merge; only whole waves run ahead.

        Leaves the agent with the waves of which no lane is on another side of the split. False when there are none.
        """
        split = agent.splits[-1]
        bound = 0
        for other in self.agents:
            if other is not agent and other.cta == agent.cta and split in other.splits:
                bound |= other.threads
        full = (1 << self.warp_size) - 1
        held = agent.threads & sum(full << wave * self.warp_size for wave in warps_of(bound, self.warp_size))
        if held == agent.threads:
            return False
        if held:
            rest = Agent(0, agent.cta, held, agent.pc, dict(agent.env), dict(agent.results), agent.splits)
            rest.status = Status.PARKED
            self._renarrow(rest)
            self._new(rest)
            agent.threads &= ~held
            agent.members = members_of(agent.threads)
            self._renarrow(agent)
        return True

    def _others_stuck(self, agent: Agent) -> bool:
        """Other lanes of the agent's warps wait for something that does not come: that is the fault, not this place."""
        full = (1 << self.warp_size) - 1
        warps = warps_of(agent.threads, self.warp_size)
        lanes = sum(full << warp * self.warp_size for warp in warps)
        return any(
            other is not agent and other.cta == agent.cta and other.threads & lanes and other.wait is not None
            and other.wait.what in ("mbarrier", "named barrier", "cluster barrier", "setmaxnreg", "shared word")
            for other in self.agents
        )  # fmt: skip

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

    def divide(self, agent: Agent, groups: list[int]) -> None:
        """Divide an agent where it stands: it keeps the first group, each other group repeats the instruction."""
        self.splits += 1
        merge = agent.splits[-1].merge if agent.splits else -1
        split = Split(self.splits, merge, agent.threads)
        for threads in groups[1:]:
            other = Agent(0, agent.cta, threads, agent.pc, dict(agent.env), dict(agent.results), (*agent.splits, split))
            self._renarrow(other)
            self._new(other)
        agent.threads, agent.members = groups[0], members_of(groups[0])
        agent.splits = (*agent.splits, split)
        self._renarrow(agent)

    def count_visit(self, agent: Agent) -> int:
        """How often the agent had been where it is."""
        key = (agent.number, agent.pc, "visit")
        number = self.visits.get(key, 0)
        self.visits[key] = number + 1
        return number

    # ----------------------------------------------------------------------------------------- convergence
    def whole_warps(self, threads: int) -> bool:
        """The set consists of all threads of some warps."""
        known = self._whole.get(threads)
        if known is None:
            full = (1 << self.warp_size) - 1
            known = all(
                (lanes << warp * self.warp_size) & self.everyone == (full << warp * self.warp_size) & self.everyone
                for warp, lanes in warps_of(threads, self.warp_size).items()
            )
            self._whole[threads] = known
        return known

    def converge(self, agent: Agent, instruction: Instruction, mask: Value | None, strict: bool) -> Wait | None:
        """Wait for the other live lanes of the agent's warps (those in `mask`) at this instruction, and absorb them.

        When they cannot come any more, a strict operation blocks (elect, shuffles, `__syncwarp`: seen on hardware); any
        other is executed by the lanes that are there, which is recorded.
        """
        if agent.solo == agent.pc:
            agent.solo = -1
            return None
        pieces = warps_of(agent.threads, self.warp_size)
        wanted = 0
        for warp in pieces:
            lanes = mask & ((1 << self.warp_size) - 1) if isinstance(mask, int) else (1 << self.warp_size) - 1
            wanted |= lanes << warp * self.warp_size
        pc = agent.pc

        def ready() -> bool:
            here = [
                other
                for other in self.agents
                if other is not agent and other.cta == agent.cta and other.pc == pc and other.wait is not None
                and other.wait.what == "warp" and other.threads & wanted
            ]  # fmt: skip
            there = agent.threads
            for other in here:
                there |= other.threads
            if wanted & self.live[agent.cta] & ~there:
                return False
            for other in here:
                both = joined(other, agent, self.block)
                self.agents.remove(other)
                agent.threads, agent.members, agent.env = both.threads, both.members, both.env
                agent.results = both.results
                depth = 0
                while depth < min(len(agent.splits), len(other.splits)) and agent.splits[depth] == other.splits[depth]:
                    depth += 1
                agent.splits = agent.splits[:depth]
            return True

        def give_up() -> None:
            agent.solo = pc
            assert instruction.op is not None
            self.fault("partial-warp", agent, instruction.span, instruction.op.name)

        if ready():
            if not strict and not self.whole_warps(agent.threads):
                give_up()
                agent.solo = -1
            return None
        return Wait("warp", instruction.span, ready, ("warp", agent.cta, pc), give_up=None if strict else give_up)

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
        known = self.exit_clocks.setdefault(agent.cta, {})
        for strand in self.strands_of(agent):
            raise_to(known, strand.clock)
            known[strand.index] = strand.now
        self.live[agent.cta] &= ~agent.threads
        self.agents.remove(agent)
        self.changed = True
