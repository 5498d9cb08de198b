"""What one execution did, moment by moment: the recording that the tables and listings are derived from.

A recorder is an observer of the machine (`machine.observe`). How much it keeps is bounded, and what was cut off is
counted.
"""

from __future__ import annotations

from collections.abc import Hashable

from msgspec import Struct, field

from warplint.machine import values as v
from warplint.machine.agent import Agent, Wait
from warplint.machine.barriers import Arrival
from warplint.machine.compile import Instruction
from warplint.machine.footprint import Access, Region
from warplint.machine.values import Value
from warplint.machine.world import World
from warplint.source import Span

MAX_MOMENTS = 60_000
"""Moments kept of one execution."""
MAX_STARTS = 96
"""Start addresses told apart for one site; more are one area."""
WAITS = ("mbarrier.try_wait", "mbarrier.test_wait")
ORDINARY = ("ordinary store", "ordinary load")
DETAILS = ("columns", "registers", "group", "id", "threads", "size")
"""Operands that a person looks for in an operation that names no mbarrier."""


class Touch(Struct, frozen=True):
    """One access of a moment: bytes (columns in tensor memory) `lo..hi` of a region, end exclusive."""

    region: Region
    lo: int
    hi: int
    write: bool
    proxy: str
    what: str
    exact: bool
    known: bool
    """The length stands in the source, else it is a lower bound or inferred."""


class Moment(Struct, eq=False):
    """One executed operation on at most one object; ordinary accesses between two operations are one moment."""

    number: int
    cta: int
    threads: int
    span: Span
    op: str
    """Canonical operation, or `access` for ordinary loads and stores."""
    spelling: str = ""
    key: Hashable = None
    """The barrier word (cta, variable, offset), `("bar", cta, id)`, `("cta", cta)` or `"cluster"`."""
    phase: int = -2
    """mbarriers: the phase it arrives in, or whose completion it waits for (-1: a fresh barrier passes at once)."""
    parity: int = -1
    count: int = 0
    expect: int = 0
    complete: int = 0
    details: tuple[tuple[str, int], ...] = ()
    touches: list[Touch] = field(default_factory=list)
    waited: bool = False
    """It had to block."""
    passed: int = -1
    """Number of the moment at which the block was over; -1 while it is not, or when it never blocked."""
    gave_up: bool = False
    """A one-shot test that returned false."""
    times: int = 1
    """Ordinary accesses: how many."""
    places: dict[str, list[Span]] = field(default_factory=dict)
    """Ordinary accesses: where, by what they are (`ordinary store`)."""
    fence: str = ""
    """What kind of a fence or wait it is: modifiers such as `ld`, `st`, `read`."""


class Completion(Struct, frozen=True):
    """Phase `phase` of a barrier word completed after moment `number`; `how` was the last that it needed."""

    number: int
    key: Hashable
    phase: int
    how: str
    """`arrive`, `expect_tx`, `commit`, `cp.async` or `copy`."""
    span: Span


class Use(Struct):
    """All accesses of one site that start at one address of a region."""

    lo: int
    hi: int
    threads: int
    first: int
    last: int
    times: int = 1
    known: bool = True


class Site(Struct, frozen=True):
    """Which accesses a `Use` gathers."""

    region: Region
    span: Span
    what: str
    write: bool
    proxy: str
    cta: int
    exact: bool = True
    """False when the address is not known."""


class Recorder:
    """Keeps the moments of one execution."""

    def __init__(self) -> None:
        self.moments: list[Moment] = []
        self.cut = 0
        """Moments that were not kept."""
        self.number = 0
        self.completions: list[Completion] = []
        self.world: World | None = None
        """The machine, as the last operation left it."""
        self.uses: dict[Site, dict[int, Use]] = {}
        self.phases: dict[Hashable, int] = {}
        self._runs: dict[tuple[int, int], Moment] = {}
        self._blocked: dict[int, tuple[Wait, list[Moment]]] = {}
        self._steps = 0
        self._open: tuple[dict[str, Value], int] | None = None
        self._touched: list[Touch] = []
        self._counted: list[tuple[Hashable, Arrival, int]] = []

    # ---------------------------------------------------------------------------------------- the observer
    def before(
        self, world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
    ) -> None:
        """An operation begins."""
        for key in [k for k in self._runs if k[0] == agent.cta and k[1] & threads]:
            del self._runs[key]
        self.world = world
        self._steps = len(world.outcome.steps)
        self._open = (operands, threads)
        self._touched, self._counted = [], []

    def after(self, world: World, agent: Agent, instruction: Instruction, wait: Wait | None) -> None:
        """An operation ends: one moment for each object that it names."""
        assert self._open is not None and instruction.op is not None
        operands, threads = self._open
        self._open = None
        op = instruction.op
        threads &= agent.threads
        made: list[Moment] = []
        if op.name in WAITS:
            made.append(self._wait(world, agent, instruction, wait, threads))
        else:
            counted = {key: (arrival, phase) for key, arrival, phase in self._counted}
            named: list[tuple[Hashable, int]] = []
            for step in world.outcome.steps[self._steps :]:
                if isinstance(step.target, tuple) or step.target == "cluster":
                    named.append((step.target, step.who.threads))
            named = named or [(key, arrival.threads) for key, (arrival, _) in counted.items()]
            alone: Hashable = "cluster" if op.name == "barrier.cluster.wait" else None
            for key, by in named or [(alone, threads)]:
                moment = self._make(agent.cta, by, op.name, instruction, key)
                moment.details = _details(operands)
                if key in counted:
                    arrival, moment.phase = counted[key]
                    moment.count, moment.expect, moment.complete = arrival.count, arrival.expect, arrival.complete
                elif key in world.mbarriers:
                    moment.phase = self.phases.get(key, 0)
                made.append(moment)
            size = operands.get("bytes")
            if made and isinstance(size, int) and not made[0].expect:
                made[0].details = (*made[0].details, ("bytes", size))
        if made:
            made[0].touches = self._touched
            made[0].fence = str(op.mods.get("kind", "read" if op.mods.get("read") else ""))
        for moment in made:
            moment.waited = wait is not None
        if wait is not None:
            self._blocked[id(wait)] = (wait, made)

    def resumed(self, agent: Agent, wait: Wait, gave_up: bool) -> None:
        """A block is over."""
        found = self._blocked.pop(id(wait), None)
        if found is None:
            return
        self.number += 1
        for moment in found[1]:
            moment.passed, moment.gave_up = self.number, gave_up

    def touched(self, access: Access) -> None:
        """An access to shared or tensor memory."""
        known = access.tensor or not (access.inferred or (access.width == 1 and access.proxy == "async"))
        if self._open is not None and access.proxy == "async" and not access.write and not access.tensor:
            # What a store of unknown box reads is inferred by the machine from what was written.
            known = known and isinstance(self._open[0].get("bytes"), int)
        touch = Touch(access.region, access.lo, access.hi, access.write, access.proxy, access.what, access.exact, known)
        if self._open is not None:
            self._touched.append(touch)
        number = self.number + 1
        if self._open is None:
            number = self._ordinary(access, touch)
        site = Site(access.region, access.span, access.what, access.write, access.proxy, access.cta, access.exact)
        starts = self.uses.setdefault(site, {})
        use = starts.get(access.lo)
        if use is None and len(starts) >= MAX_STARTS:
            use = next(iter(starts.values()))
            use.lo = min(use.lo, access.lo)
        if use is None:
            starts[access.lo] = Use(access.lo, access.hi, access.threads, number, number, 1, known)
            return
        if known and not use.known:
            use.known, use.hi = True, access.hi
        use.hi = max(use.hi, access.hi)
        use.threads |= access.threads
        use.last = number
        use.times += 1

    def counted(self, key: Hashable, arrival: Arrival, completed: int) -> None:
        """A barrier word was told something."""
        phase = self.phases.get(key, 0)
        if self._open is not None:
            self._counted.append((key, arrival, phase))
        if completed != phase:
            self.phases[key] = completed
            self.completions.append(Completion(self.number + 1, key, phase, arrival.how, arrival.span))

    # --------------------------------------------------------------------------------------------- records
    def _make(self, cta: int, threads: int, op: str, instruction: Instruction | Access, key: Hashable) -> Moment:
        self.number += 1
        spelling = instruction.op.spelling if isinstance(instruction, Instruction) and instruction.op else ""
        moment = Moment(self.number, cta, threads, instruction.span, op, spelling, key)
        if len(self.moments) < MAX_MOMENTS:
            self.moments.append(moment)
        else:
            self.cut += 1
        return moment

    def _wait(self, world: World, agent: Agent, instruction: Instruction, wait: Wait | None, threads: int) -> Moment:
        assert instruction.op is not None
        target: Hashable = wait.target if wait is not None else None
        if target is None:
            steps = world.outcome.steps[self._steps :]
            target = steps[-1].target if steps else None
        moment = self._make(agent.cta, threads & agent.threads, instruction.op.name, instruction, target)
        record = world.outcome.barriers.get(target)
        if record is not None and record.waits:
            last = record.waits[-1]
            moment.phase, moment.parity = last.phase, last.parity
        return moment

    def _ordinary(self, access: Access, touch: Touch) -> int:
        """Ordinary accesses of the same threads with nothing in between are one moment."""
        run = self._runs.get((access.cta, access.threads))
        if run is None:
            run = self._make(access.cta, access.threads, "access", access, None)  # type: ignore[arg-type]
            run.times = 0
            self._runs[(access.cta, access.threads)] = run
        run.times += 1
        places = run.places.setdefault(touch.what, [])
        if access.span not in places and len(places) < MAX_STARTS:
            places.append(access.span)
        last = next((t for t in run.touches if (t.region, t.write) == (touch.region, touch.write)), None)
        if last is None:
            run.touches.append(touch)
        else:
            run.touches[run.touches.index(last)] = Touch(
                last.region, min(last.lo, touch.lo), max(last.hi, touch.hi), last.write, last.proxy, last.what,
                last.exact and touch.exact, last.known and touch.known,
            )  # fmt: skip
        return run.number


def _details(operands: dict[str, Value]) -> tuple[tuple[str, int], ...]:
    found = []
    for role in DETAILS:
        value = operands.get(role)
        if isinstance(value, int):
            found.append((role, value))
        elif isinstance(value, v.Place):
            continue
    return tuple(found)
