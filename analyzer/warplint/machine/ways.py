"""Conditions on data: which threads take a branch when nothing says what its value is.

A scenario takes such branches in one of several *ways*. The first is executed for every kernel; the others only where
synchronisation depends on such a branch, to see whether it matters: when every way ends like the first, the protocol
holds for the ways tried and that is a remark; when one does not, the outcome is incomplete, because the data may never
be like that.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from enum import Enum
from math import lcm
from typing import TYPE_CHECKING

from warplint.machine import values as v
from warplint.machine.compile import Instruction
from warplint.machine.footprint import Order
from warplint.machine.memory import Hazard
from warplint.machine.outcome import Outcome
from warplint.machine.values import Value
from warplint.source import Span
from warplint.threads.facts import Uniformity

if TYPE_CHECKING:
    from warplint.machine.agent import Agent
    from warplint.machine.world import World


class Way(Enum):
    """How branches on data are taken."""

    TURNS = "in turns"
    """Both ways in turn, by all threads alike; a loop runs `Scenario.trips` times."""
    ALWAYS = "always taken"
    """A loop runs twice as often."""
    NEVER = "never taken"
    """A loop is left at once."""
    WARPS = "by every other warp"
    """Where the value may differ between warps; a loop runs as often, or half as often."""
    ONE = "taken by one warp only"
    """Likewise; the other warps never enter a loop. What counts on several warps, or on all, shows here."""
    OTHERS = "taken by all warps but one"
    """Likewise."""
    LANES = "by every other lane"
    """Where the value may differ between lanes."""


def guess(world: World, agent: Agent, instruction: Instruction, value: Value) -> int:
    """Which threads take a branch on data, in the way of the scenario. What depends on it is recorded."""
    floor = v.floor_of(value)
    if instruction.fails:
        return 0  # an assertion: nothing is said about a kernel whose own checks fail
    loops = instruction.loop or instruction.leaves
    if floor < Uniformity.CTA:
        text = f"`{instruction.text}` depends on data: all threads took it the same way"
        if instruction.syncs:
            world.outcome.guess(text, instruction.span, floor)
        else:
            world.remark(text, instruction.span)
    elif loops:
        text = f"how often the loop runs that `{instruction.text}` ends is not known"
        world.outcome.guess(text, instruction.span, floor)
    else:
        return agent.threads if world.choose(("branch", v.key_of(value))) & 1 else 0
    key = ("data", agent.cta, agent.members[0], agent.pc)
    visits = world.visits.get(key, 0)
    world.visits[key] = visits + 1
    turn = world.choose(("turn", v.key_of(value))) if not loops else 0
    trips = world.scenario.trips
    way = world.scenario.way

    def taken(side: int) -> bool:
        """What threads of side 0 or 1 do."""
        if loops:
            if way in SOME:
                stay = trips if side else 0
            else:
                stay = {Way.ALWAYS: 2 * trips, Way.NEVER: 0, Way.TURNS: trips}.get(way, trips >> side)
            goes_on = visits % (stay + 1) < stay
            return goes_on if instruction.loop else not goes_on
        if way in SOME:
            return side == 1
        if way is Way.ALWAYS or way is Way.NEVER:
            return way is Way.ALWAYS
        return bool((turn + visits + side) & 1)

    differs = floor <= (Uniformity.LANE if way is Way.LANES else Uniformity.WARP)
    if way in (Way.TURNS, Way.ALWAYS, Way.NEVER) or not differs:
        return agent.threads if taken(1 if way in SOME else 0) else 0
    sides = (taken(0), taken(1))
    if sides[0] == sides[1]:
        return agent.threads if sides[0] else 0
    size = 1 if way is Way.LANES else world.warp_size
    if way in SOME:
        chosen = world.extra.setdefault(("chosen", agent.cta, agent.pc), agent.members[0] // size)
        only = way is Way.ONE
        return sum(1 << thread for thread in agent.members if sides[(thread // size == chosen) == only])
    return sum(1 << thread for thread in agent.members if sides[thread // size & 1])


def turns(world: World, key: Hashable) -> int:
    """After how many visits a branch on data (`key` as in `guess`) takes the same ways again."""
    _, _, _, pc = key  # type: ignore[misc]
    instruction = world.code.instructions[pc]
    if not (instruction.loop or instruction.leaves):
        return 2
    trips = world.scenario.trips
    rounds = {Way.ALWAYS: 2 * trips, Way.NEVER: 0, Way.TURNS: trips}
    stay = rounds.get(world.scenario.way)
    return stay + 1 if stay is not None else lcm(trips + 1, (trips >> 1) + 1)


SOME = frozenset({Way.ONE, Way.OTHERS})


def others(guesses: Mapping[tuple[str, Span], Uniformity]) -> Iterator[Way]:
    """The ways to try after the first, given what it had to guess."""
    yield Way.ALWAYS
    yield Way.NEVER
    floor = min(guesses.values())
    if floor <= Uniformity.WARP:
        yield from (Way.WARPS, Way.ONE, Way.OTHERS)
    if floor <= Uniformity.LANE:
        yield Way.LANES


def difference(first: Outcome, other: Outcome) -> str:
    """What another way shows that the first does not; empty when it ends as well."""
    if not other.finished:
        return "was not finished"
    if other.blocked and not first.blocked:
        return f"threads wait for ever at the {other.blocked[0].what}"
    before, after = _troubles(first), _troubles(other)
    new = sorted(str(text) for text, *_ in after - before)
    return new[0] if new else ""


def races(outcome: Outcome) -> set[tuple[str, Span, Span]]:
    """The hazards in which nothing joins the threads, or nobody waited: in words, and where."""
    return {_pair(hazard) for hazard in outcome.hazards if hazard.order in (Order.UNJOINED, Order.INCOMPLETE)}


def _pair(hazard: Hazard) -> tuple[str, Span, Span]:
    """A hazard in words and its places, whichever of the two accesses this schedule executed first."""
    one, two = sorted((hazard.first, hazard.second), key=lambda access: (access.span.start, access.what))
    return f"nothing orders {one.what} and {two.what}", one.span, two.span


def _troubles(outcome: Outcome) -> set[tuple[Hashable, ...]]:
    """Everything bad an outcome shows: in words, and where."""
    found: set[tuple[Hashable, ...]] = set()
    for hazard in outcome.hazards:
        if hazard.order is Order.READ_NO_FENCE:
            continue  # common practice
        found.add((*_pair(hazard), hazard.order))
    for fault in outcome.faults:
        found.add((fault.kind, fault.span))
    for left in outcome.leftovers:
        found.add((f"{left.kind} left over", left.span))
    for reason, span in outcome.incomplete:
        found.add((reason, span))
    for record in outcome.barriers.values():
        for kind, arrival in record.faults:
            found.add((kind, arrival.span))
        for arrival in record.racing:
            found.add(("an arrival may count for the phase before", arrival.span))
        for wait in record.waits:
            if wait.late:
                found.add(("a waiter may miss a phase", wait.span))
    return found
