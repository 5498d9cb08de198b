"""States that repeat: the rest of a loop is not executed once a whole round of it is known to change nothing.

When a loop is entered again the state is compared with those of earlier rounds (`canonical`). If it was there before,
the stretch since then is executed once more with every number that has grown as a `Line`. If that ends in the same
state, with every number grown by the same amount again, and nothing but comparisons looked at the growing numbers, then
each further stretch does the same for as long as the comparisons hold: those stretches are skipped by adding what they
would have added. Times and phase numbers need no change, since only their order counts.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from warplint.machine import values as v
from warplint.machine.agent import Agent
from warplint.machine.canonical import Canon, Spot, State, outline
from warplint.machine.line import FOREVER, Line, Trial
from warplint.machine.lines import bare
from warplint.machine.outcome import Repeat
from warplint.source import Span

if TYPE_CHECKING:
    from warplint.machine.world import World

START = 10
"""Rounds of a loop before it is watched."""
SLOW_START, SLOW = 3, 300
"""The same for a loop whose rounds take so many instructions."""
REFERENCES = frozenset({1, 2, 5, 10, 34})
"""Watched rounds whose state those after it are compared with, until the next of them."""
ROUNDS = 90
"""Watched rounds after which a loop whose state has not repeated is given up."""
TRIALS = 3
"""Trials of one loop that may come to nothing."""
TAKEN = 10
"""Comparisons of whole states after which a loop is given up."""
WATCHES = 3
"""Loops that are watched at the same time (one inside the other)."""
WORTH = 3
"""Skipped stretches that make it worth while to watch a loop again when it is entered anew."""
PATIENCE = 6_000
"""Instructions without a round of a watched loop, beyond four rounds' worth, after which it is given up."""
COST = 1_000
"""What the comparison of one state counts as work."""


class Watch(Struct, eq=False):
    """A loop that is watched: one back edge of one set of threads."""

    mark: Hashable
    span: Span
    last: int
    """Instructions executed when it was last entered."""
    pace: int
    """Instructions of one round."""
    rounds: int = 0
    shape: Hashable = None
    """Outline of the state that later ones are compared with."""
    state: State | None = None
    at: int = 0
    """The round of that state."""
    taken: int = 0
    """Whole states that have been compared in vain."""
    failed: int = 0


class Attempt(Struct, eq=False):
    """A stretch that is executed with lines."""

    trial: Trial
    watch: Watch
    begin: State
    end: int
    """The round of the loop that ends it."""
    rounds: int
    planted: dict[Spot, v.Value]


class Repeats:
    """Looks for repeated states in one execution."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.canon = Canon(world)
        self.counts: dict[Hashable, tuple[int, int]] = {}
        """Rounds of each loop, and instructions executed at the first."""
        self.given_up: set[Hashable] = set()
        self.watches: dict[Hashable, Watch] = {}
        self.attempt: Attempt | None = None

    def round(self, agent: Agent, span: Span, executed: int) -> None:
        """A loop is entered again by an agent that stands at its top; `executed` instructions have been executed."""
        mark = (agent.cta, agent.pc, agent.threads)
        watch = self.watches.get(mark)
        attempt = self.attempt
        if watch is None:
            if mark not in self.given_up:
                self._count(mark, span, executed)
        else:
            watch.last = executed
            watch.rounds += 1
        if attempt is not None:
            trial = attempt.trial
            if trial.failed or trial.last < 1 or executed - attempt.watch.last > PATIENCE + 4 * attempt.watch.pace:
                self._fail(attempt.watch)
            elif attempt.watch is watch and attempt.watch.rounds >= attempt.end:
                self._judge(attempt.watch, attempt)
        elif watch is not None:
            self._compare(watch)

    def _count(self, mark: Hashable, span: Span, executed: int) -> None:
        count, begun = self.counts.get(mark, (0, executed))
        self.counts[mark] = (count + 1, begun)
        pace = (executed - begun) // count if count else 0
        if count < START and not (count >= SLOW_START and pace > SLOW):
            return
        if len(self.watches) >= WATCHES:
            for watch in [*self.watches.values()]:
                if executed - watch.last > PATIENCE + 4 * watch.pace and (
                    self.attempt is None or self.attempt.watch is not watch
                ):
                    self._leave(watch)
            if len(self.watches) >= WATCHES:
                return
        self.watches[mark] = Watch(mark, span, executed, pace)

    def _compare(self, watch: Watch) -> None:
        """Look whether the state is the one of an earlier round."""
        if watch.rounds > ROUNDS or watch.taken > TAKEN:
            self._leave(watch)
            return
        shape = outline(self.world)
        anew = watch.rounds in REFERENCES
        if watch.state is not None and shape == watch.shape:
            watch.taken += 1
            state = self._take()
            if state.form == watch.state.form:
                self._try(watch, watch.state, state, watch.rounds - watch.at)
                return
            if anew:
                watch.shape, watch.state, watch.at = shape, state, watch.rounds
        elif anew:
            watch.shape, watch.state, watch.at = shape, self._take(), watch.rounds

    def end(self) -> None:
        """The execution goes elsewhere: no line may be left behind."""
        self._withdraw()

    def _take(self) -> State:
        self.world.memory.work += COST
        return self.canon.take()

    # --------------------------------------------------------------------------------------------- trials
    def _leave(self, watch: Watch) -> None:
        """Give up a loop."""
        self.given_up.add(watch.mark)
        self.watches.pop(watch.mark, None)

    def _fail(self, watch: Watch) -> None:
        """The trial came to nothing."""
        self._withdraw()
        watch.failed += 1
        watch.state = None
        watch.rounds = 0
        if watch.failed >= TRIALS:
            self._leave(watch)

    def _try(self, watch: Watch, first: State, second: State, rounds: int) -> None:
        trial = Trial()
        planted: dict[Spot, v.Value] = {}
        for spot, now in second.values.items():
            old = first.values[spot]
            if old != now:
                assert isinstance(now, int | tuple)
                growth = _growth(old, now)
                planted[spot] = Line(now, growth, trial, growth is None)
                self._put(spot, planted[spot])
        self.attempt = Attempt(trial, watch, second, watch.rounds + rounds, rounds, planted)
        self.world.trial = trial

    def _judge(self, watch: Watch, attempt: Attempt) -> None:
        """The stretch is over: skip what does the same, if it is proved that something does."""
        state = self._take()
        trial = attempt.trial
        good = (
            not trial.failed and state.form == attempt.begin.form and state.values.keys() == attempt.begin.values.keys()
        )
        lost = False
        if good:
            for spot, now in state.values.items():
                planted = attempt.planted.get(spot)
                if planted is None:
                    good = now == attempt.begin.values[spot]
                elif isinstance(planted, Line) and planted.step is not None:
                    good = isinstance(now, Line) and now.step == planted.step and now.value == _plus(planted, 1)
                else:
                    # Made anew from what is understood: a last stretch that is executed gives it its value.
                    good, lost = not (isinstance(now, Line) and now.carried), True
                if not good:
                    break
        times = trial.last - lost if good and trial.last < FOREVER else 0
        if times <= 0:
            self._fail(watch)
            return
        self._withdraw(times)
        self.world.outcome.repeats.append(Repeat(watch.span, attempt.rounds, times))
        self.counts.pop(watch.mark, None)
        del self.watches[watch.mark]
        if times < WORTH:
            self.given_up.add(watch.mark)

    def _withdraw(self, times: int = 0) -> None:
        """Take all lines out again: each is what it will be `times` stretches later."""
        if self.attempt is None:
            return
        self.attempt = None
        self.world.trial = None
        for agent in self.world.agents:
            for table in (agent.env, agent.results):
                _settle(table, times)

    def _put(self, spot: Spot, value: v.Value) -> None:
        depth = 0
        while spot[-1] == "offset":
            spot, depth = spot[:-1], depth + 1
        name, at, key = spot
        agent = self.world.agents[at]  # type: ignore[index]
        table: dict[Any, v.Value] = agent.env if name == "env" else agent.results  # type: ignore[assignment]
        table[key] = _replaced(table[key], value) if depth else value


def _replaced(holder: v.Value, offset: v.Value) -> v.Value:
    """An address with another offset."""
    if isinstance(holder, v.Packed):
        return v.Packed(v.Place(holder.place.base, offset, holder.place.cta), holder.unit)
    assert isinstance(holder, v.Place)
    return v.Place(holder.base, offset, holder.cta)


def _growth(old: v.Value, now: v.Value) -> int | None:
    """What was added, for all threads alike; None when that is not the same."""
    if isinstance(old, int) and isinstance(now, int):
        return now - old
    if isinstance(old, tuple) and isinstance(now, tuple):
        differences = {b - a for a, b in zip(old, now, strict=True)}
        return differences.pop() if len(differences) == 1 else None
    return None


def _plus(line: Line, times: int) -> int | tuple[int, ...]:
    """The value of a line so many repetitions later."""
    if not line.step or not times:
        return line.value
    added = v.binary("+", line.value, line.step * times)
    assert isinstance(added, int | tuple)
    return added


def _settle(table: dict[Any, v.Value], times: int) -> None:
    for key, value in table.items():
        place = value.place if isinstance(value, v.Packed) else value
        if isinstance(value, Line):
            table[key] = _plus(value, times)
        elif isinstance(place, v.Place) and isinstance(place.offset, Line):
            table[key] = _replaced(value, _plus(place.offset, times))
        elif value is not bare(value):
            table[key] = bare(value)
