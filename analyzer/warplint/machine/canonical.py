"""The state of an execution, without what does not matter for how it goes on.

Two states with equal canonical forms go on alike, but for the variables that `State.values` lists. Left out or made
relative are:

- times of strands, of tensor pipelines and of other completions: they are only compared with each other, one component
  at a time, so their order is all that counts (`Strands`, `Memory`);
- numbers of completed phases: what counts is the parity, and how far behind the newest phase a number is; one that is
  more than `NEAR` behind can only be late (`semantics.mbarriers.wait`), its order and parity are kept;
- keys of unknown values: they are only compared with each other;
- what is only recorded (steps, phases, waits).

Everything else is kept as it is. AMD kernels (`World.waves`) are not covered.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from warplint.machine import values as v
from warplint.machine.agent import Agent, Status
from warplint.machine.footprint import Access
from warplint.machine.line import Line
from warplint.machine.memory import FenceLog
from warplint.machine.ways import turns

if TYPE_CHECKING:
    from warplint.machine.world import World

NEAR = 3
"""Phases behind the newest for which the exact distance is kept."""

Spot = tuple[Hashable, ...]
"""Where a value lies: (`env` or `results`, position of the agent, key), and `offset` behind it inside an address."""


class State(Struct, eq=False):
    """One state: equal `form` means that it goes on alike, up to `values`."""

    form: tuple[Hashable, ...]
    values: dict[Spot, v.Value]
    """Numbers of the program: ints, per-thread tuples, and offsets of addresses."""


def outline(world: World) -> Hashable:
    """A part of the state that is quickly made and that must be equal as well."""
    agents = tuple(
        (a.cta, a.threads, a.pc, a.status.value, a.wait.span.start if a.wait is not None else -1) for a in world.agents
    )
    barriers = tuple((b.completed & 1, b.pending, b.tx) for b in world.mbarriers.values())
    return agents, barriers, len(world.flights)


class Canon:
    """Makes canonical forms of one world; numbers given to objects stay the same from one to the next."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.numbers: dict[Hashable, int] = {}
        self.keys: dict[Hashable, int] = {}
        """Numbers of the keys of clocks."""
        self.components: list[int] = []
        """By number of a key: that of the key whose times it is compared with."""
        self.handed: dict[int, tuple[Mapping[Hashable, int], list[tuple[int, int]]]] = {}
        """Clocks that never change any more, by identity, with their entries in order."""

    def take(self) -> State:
        """The present state."""
        return _Taking(self.world, self).state()

    def key(self, key: Hashable) -> int:
        """The number of a key of clocks."""
        number = self.keys.get(key)
        if number is None:
            number = self.keys[key] = len(self.keys)
            self.components.append(number)
            if isinstance(key, tuple) and key[0] in ("exec", "relaxed"):
                self.components[number] = self.key(key[1])
        return number


class _Taking:
    """One pass over the state. Times go to `times` and are ranked at the end."""

    def __init__(self, world: World, canon: Canon) -> None:
        self.world = world
        self.canon = canon
        self.out: list[Hashable] = []
        self.times: list[tuple[int, int]] = []
        """(number of a key, time), in the order of the pass."""
        self.values: dict[Spot, v.Value] = {}
        self.unknowns: dict[Hashable, int] = {}
        self.splits: dict[int, int] = {}
        self.clocks: dict[int, int] = {}
        self.phases = {key: barrier.completed for key, barrier in world.mbarriers.items()}

    def state(self) -> State:
        """Everything."""
        self._agents()
        self._strands()
        self._barriers()
        self._memory()
        self._rest()
        return State((tuple(self.out), self._ranks()), self.values)

    # ---------------------------------------------------------------------------------------------- pieces
    def number(self, key: Hashable) -> int:
        """A number for an object, the same in all states of this world."""
        numbers = self.canon.numbers
        number = numbers.get(key)
        if number is None:
            number = numbers[key] = len(numbers)
        return number

    def time(self, key: Hashable, value: int) -> None:
        """A time or count of one component of the clocks."""
        self.times.append((self.canon.key(key), value))

    def clock(self, clock: Mapping[Hashable, int], final: bool = False) -> None:
        """A vector clock; one that several strands share is told once. `final`: it never changes any more."""
        known = self.clocks.get(id(clock))
        if known is not None:
            self.out.append(("clock", known))
            return
        self.clocks[id(clock)] = len(self.clocks)
        held = self.canon.handed.get(id(clock)) if final else None
        if held is None:
            key = self.canon.key
            entries = sorted([(key(component), value) for component, value in clock.items()])
            if final:
                self.canon.handed[id(clock)] = (clock, entries)
        else:
            entries = held[1]
        self.out.append(len(entries))
        self.times += entries

    def stamps(self, stamps: Iterable[tuple[int, int]]) -> None:
        """(strand, time) pairs."""
        for strand, time in stamps:
            self.out.append(strand)
            self.times.append((self.canon.key(strand), time))
        self.out.append(None)

    def access(self, access: Access) -> None:
        """A recorded access."""
        lanes = access.lanes
        self.out.append((
            self.number(access.region), access.lo, access.hi, access.write, access.proxy, access.span, access.what,
            access.cta, access.threads, access.pending, id(lanes) if lanes is not None else 0, access.exact,
            self.number(access.pipeline), access.open, access.quarters, access.atomic, access.inferred,
        ))  # fmt: skip
        self.stamps(access.strands)
        for component, value in access.done:
            self.out.append(self.number(component))
            self.time(component, value)

    def value(self, spot: Spot, value: v.Value) -> None:
        """A value of the program."""
        kind: Hashable
        if isinstance(value, int | tuple | Line):
            self.values[spot] = value
            kind = "number"
        elif isinstance(value, v.Unknown):
            kind = ("unknown", self.unknowns.setdefault(value.key, len(self.unknowns)), value.floor)
        elif isinstance(value, v.Place | v.Packed):
            place = value if isinstance(value, v.Place) else value.place
            kind = ("place", self.number(place.base), place.cta, 0 if place is value else value.unit)  # type: ignore[union-attr]
            self.value((*spot, "offset"), place.offset)
        else:
            kind = ("token", value.phase & 1)
        self.out.append(kind)

    # ---------------------------------------------------------------------------------------------- passes
    def _agents(self) -> None:
        world = self.world
        order = sorted(range(len(world.agents)), key=lambda at: world.agents[at].number)
        self.out.append(tuple(order))
        for at, agent in enumerate(world.agents):
            self.out.append((agent.cta, agent.threads, agent.pc, agent.status.value, agent.solo))
            for split in agent.splits:
                self.out.append((self.splits.setdefault(split.number, len(self.splits)), split.merge, split.threads))
            if agent.status is Status.BLOCKED and agent.wait is not None:
                self._wait(agent)
            for name, table in (("env", agent.env), ("results", agent.results)):
                self.out.append(len(table))
                for key, own, value in sorted([(self.number(k), k, x) for k, x in table.items()], key=_first):
                    self.out.append(key)
                    if isinstance(own, str):
                        # Counts of the machine itself: generations of the cluster barrier.
                        assert isinstance(value, int)
                        self.out.append(world.cluster.generation - value)
                    else:
                        self.value((name, at, own), value)

    def _wait(self, agent: Agent) -> None:
        wait = agent.wait
        assert wait is not None
        self.out.append((wait.what, wait.span, self.number(wait.target), wait.parity, wait.give_up is not None))
        if wait.what == "mbarrier":
            self.out.append(self.phases.get(wait.target, 0) - wait.phase)
        elif wait.what in ("named barrier", "cta barrier"):
            _, cta, ident = wait.target  # type: ignore[misc]
            self._generation(self.world.named[(cta, ident)], wait.generation)
        elif wait.what == "cluster barrier":
            self._generation(self.world.cluster, wait.generation)
        elif wait.what == "grid barrier":
            self._generation(self.world.grid, wait.generation)

    def _generation(self, barrier: Any, generation: int) -> None:
        behind = barrier.generation - generation
        self.out.append(behind)
        if behind:
            self.clock(barrier.handed[generation], final=True)

    def _strands(self) -> None:
        world = self.world
        self.out.append(len(world.strands.all))
        for cta, strands in world.strands.parts():
            alive = world.live.get(cta, 0)
            for strand in strands:
                if not strand.threads & alive:
                    continue
                for time in (strand.now, strand.warp_joined, strand.met):
                    self.time(strand.index, time)
                self.clock(strand.clock)
                self.clock(strand.fenced)
                fence = world.extra.get(("cluster-fence", strand.index))
                if fence is not None:
                    self.time(strand.index, fence)

    def _barriers(self) -> None:
        world = self.world
        clocks = [
            strand.clock
            for cta, strands in world.strands.parts()
            for strand in strands
            if strand.threads & world.live.get(cta, 0)
        ]
        for key, barrier in world.mbarriers.items():
            self.out.append((self.number(key), barrier.completed & 1, barrier.pending, barrier.tx, barrier.count))
            self.out.append(tuple((a.cta, a.threads, a.span, a.count, a.expect, a.complete) for a in barrier.arrivals))
            last = barrier.history[-1] if barrier.history else ()
            self.out.append(any(arrival.expect or arrival.complete for arrival in last))
            self.clock(barrier.knowledge)
            self.clock(barrier.released)
            self.stamps(_latest(barrier.arrivers))
            self.stamps(_latest(barrier.previous))
            self.stamps((strand, time) for strand, time, _ in barrier.expectations)
            component = ("mbar", key)
            known = {clock.get(component, 0) for clock in clocks}
            # What a strand may still learn from this barrier: the phase it is to see next, or the one before.
            for phase in sorted({at for count in known for at in (count - 1, count)}):
                if 0 <= phase < len(barrier.handed):
                    self.time(component, phase)
                    self.clock(barrier.handed[phase], final=True)
            for phase in sorted(barrier.watchers):
                if phase >= barrier.completed - 2:
                    self.out.append(barrier.completed - phase)
                    # Whether the last wait of a strand at a place is late decides for those before it.
                    last = {(strand, record.span): time for strand, time, record in barrier.watchers[phase]}
                    for (strand, span), time in last.items():
                        self.out.append((strand, span))
                        self.time(strand, time)
        for key, named in world.named.items():
            self.out.append((self.number(key), named.need, tuple(named.came), tuple(sorted(named.lanes.items()))))
            self.clock(named.knowledge)
        for cluster in (world.cluster, world.grid):
            self.out.append(tuple(sorted(cluster.arrived.items())))
            self.clock(cluster.knowledge)

    def _memory(self) -> None:
        world = self.world
        memory = world.memory
        for region, past in memory.history.items():
            self.out.append((self.number(region), len(past)))
            for interval in past.intervals.values():
                if interval.accesses:
                    self.out.append(interval.index)
                    for access in interval.accesses:
                        self.access(access)
        self.out.append((len(memory.overflowed), *memory.said()))
        for (mechanism, index), state in world.groups.states.items():
            strand = world.strands.all[index]
            if not (state.open or state.committed) or not strand.threads & world.live.get(strand.cta, 0):
                continue
            self.out.append((mechanism, index, tuple(state.spans), tuple(dict.fromkeys(state.issued))))
            for group, span in (*state.committed, (state.open, None)):
                self.out.append((len(group), span))
                for access in group:
                    self.access(access)
        for key, moves in world.moves.items():
            self.out.append((self.number(key), len(moves)))
            for access in moves:
                self.access(access)

    def _rest(self) -> None:
        world = self.world
        for flight in world.flights:
            self.out.append((self.number(flight.key), flight.bytes, flight.span, flight.cta, flight.threads))
            self.clock(flight.knowledge)
        for key, times in world.init_times.items():
            self.out.append(self.number(key))
            self.stamps(times)
        self.stamps(world.init_fences.items())
        for key, (who, target, times, done, _) in world.remote.items():
            self.out.append((self.number(key), who.threads, target))
            self.stamps(times)
            if done is not None:
                self.time(*done)
        for cta, clock in world.exit_clocks.items():
            self.out.append(cta)
            self.clock(clock)
        for pipeline, count in world.pipelines.items():
            self.time(pipeline, count)
        self._words()
        for logs in (world.memory.proxy_fences, world.memory.before_fences):
            for log in logs.values():
                self.clock(log.clocks[-1])  # the latest knows what all before it knew
        self.out.append(tuple(world.live.items()))
        self.out.append(tuple((a.cta, a.first, a.columns, a.live) for a in world.allocations))
        for cta, pool in world.register_pools.items():
            self.out.append((cta, tuple(pool.items()), tuple(sorted(world.registers[cta].items()))))
        for key, value in world.extra.items():
            if isinstance(key, tuple) and key[0] == "cta":
                self.out.append((key[1], value["arrived"]))
        for key, visits in world.visits.items():
            if isinstance(key, tuple) and key[0] == "data":
                self.out.append((self.number(key), visits % turns(world, key)))
        outcome = world.outcome
        self.out.append((
            len(world.extra), len(world.barrier_words), len(world.slots), len(world.slot_starts),
            sum(map(len, world.site_starts.values())), sum(len(one) + len(two) for one, two in world.paired.values()),
            len(outcome.hazards), len(outcome.faults), len(outcome.incomplete), len(outcome.assumed),
            len(outcome.guesses), sum(len(r.faults) + len(r.racing) for r in outcome.barriers.values()),
        ))  # fmt: skip

    def _words(self) -> None:
        for region, held in self.world.words.regions.items():
            self.out.append((self.number(region), len(held)))
            for offset, word in held.items():
                value = word.value
                known: Hashable = value
                if isinstance(value, v.Unknown):
                    known = ("unknown", self.unknowns.setdefault(value.key, len(self.unknowns)))
                elif isinstance(value, v.Place):
                    known = (self.number(value.base), value.offset, value.cta)
                self.out.append((offset, known, word.width, word.threads, word.trusted))
                self.stamps(word.stamps)
                for component, count in word.done:
                    self.out.append(self.number(component))
                    self.time(component, count)
        self.out.append(tuple(self.world.tickets.values()))

    def _ranks(self) -> tuple[tuple[int, Hashable], ...]:
        """Each time as its place among the times of its component."""
        components = self.canon.components
        found: dict[int, set[int]] = {}
        for key, time in self.times:
            held = found.get(components[key])
            if held is None:
                held = found[components[key]] = set()
            held.add(time)
        self._fences(found)
        places: dict[int, dict[int, Hashable]] = {
            component: {time: at for at, time in enumerate(sorted(times))} for component, times in found.items()
        }
        for key, newest in self.phases.items():
            number = self.canon.key(("mbar", key))
            for time, at in places.get(number, {}).items():
                # The exact distance to the newest phase where it is near, else parity and order.
                places[number][time] = newest - time if newest - time <= NEAR else ("old", time & 1, at)
        return tuple([(key, places[components[key]][time]) for key, time in self.times])

    def _fences(self, asked: dict[int, set[int]]) -> None:
        """Of the fences of a strand those count that are the first after a time that is compared with them.

        (Clocks in them are compared with other clocks only by what the latest of them knows, and that is told before
        the times are ranked.)
        """
        memory = self.world.memory
        for logs in (memory.proxy_fences, memory.before_fences):
            for strand, log in logs.items():
                key = self.canon.key(strand)
                chosen = _first_after(log, asked.get(key, set()))
                self.times += [(key, time) for time in chosen]
                asked.setdefault(key, set()).update(chosen)


def _first_after(log: FenceLog, times: set[int]) -> list[int]:
    found = {log.times[0]}
    for time in times:
        at = bisect_left(log.times, time)
        if at < len(log.times):
            found.add(log.times[at])
    return sorted(found)


def _latest(stamps: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The latest time of each strand: who knows that one knows those before it."""
    last: dict[int, int] = {}
    for strand, time in stamps:
        last[strand] = max(last.get(strand, 0), time)
    return sorted(last.items())


def _first(entry: tuple[int, Any, Any]) -> int:
    return entry[0]
