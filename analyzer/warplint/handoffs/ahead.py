"""What blocked agents could still do: which places lie ahead of them, and which barrier words they would name there."""

from __future__ import annotations

from collections.abc import Hashable

from warplint.handoffs.recorder import Recorder
from warplint.machine.agent import Agent
from warplint.machine.compile import Instruction, Kind
from warplint.machine.outcome import BlockedRecord
from warplint.machine.runner import View
from warplint.machine.semantics.mbarriers import words
from warplint.machine.world import World
from warplint.source import Span
from warplint.threads.facts import Roles

MAX_WALK = 200_000
"""Instructions walked for all questions about one execution."""


class Ahead:
    """The code that lies before each blocked agent, conditions left aside."""

    def __init__(self, roles: Roles, recorder: Recorder, arrives: dict[str, str]) -> None:
        self._world = recorder.world
        self._arrives = arrives
        self._known: dict[int, set[int]] = {}
        self._walked = 0
        self._reach: dict[Span, int] = {}
        for event in roles.events:
            self._reach[event.op.span] = self._reach.get(event.op.span, 0) | event.reach.threads
        self._sites: list[tuple[int, Instruction]] = []
        self._places: dict[Span, list[int]] = {}
        if self._world is not None:
            for at, instruction in enumerate(self._world.code.instructions):
                if instruction.op is not None:
                    self._places.setdefault(instruction.span, []).append(at)
                    if instruction.op.name in arrives:
                        self._sites.append((at, instruction))

    def _agent(self, one: BlockedRecord) -> Agent | None:
        if self._world is None:
            return None
        return next((a for a in self._world.agents if (a.cta, a.threads) == (one.who.cta, one.who.threads)), None)

    def _lies_ahead(self, pc: int) -> set[int]:
        found = self._known.get(pc)
        if found is not None or self._world is None:
            return found or set()
        code = self._world.code.instructions
        found = set()
        stack = [pc]
        while stack and self._walked < MAX_WALK:
            at = stack.pop()
            if at in found or not 0 <= at < len(code):
                continue
            found.add(at)
            self._walked += 1
            instruction = code[at]
            if instruction.kind is Kind.EXIT:
                continue
            if instruction.kind is Kind.JUMP:
                stack.append(instruction.target)
                continue
            stack.append(at + 1)
            if instruction.kind is Kind.BRANCH:
                stack.append(instruction.target)
        self._known[pc] = found
        return found

    def reaches(self, one: BlockedRecord, span: Span) -> bool:
        """The agent may still come to a place; True where nothing is known about it."""
        agent = self._agent(one)
        if agent is None or self._walked >= MAX_WALK:
            return True
        ahead = self._lies_ahead(agent.pc)
        return any(at in ahead for at in self._places.get(span, ()))

    def names(self, one: BlockedRecord, key: Hashable) -> list[tuple[Span, str]]:
        """Places ahead of the agent where, as its variables stand, it would contribute to a barrier word."""
        agent, world = self._agent(one), self._world
        if agent is None or world is None:
            return []
        # What is only asked here is no fact of the execution.
        outcome = world.outcome
        asked, incomplete = dict(outcome.asked), list(outcome.incomplete)
        try:
            return self._named(world, agent, key)
        finally:
            outcome.asked, outcome.incomplete = asked, incomplete

    def _named(self, world: World, agent: Agent, key: Hashable) -> list[tuple[Span, str]]:
        ahead = self._lies_ahead(agent.pc)
        view = View(world, agent)
        found = []
        for at, instruction in self._sites:
            barrier = instruction.operands.get("barrier")
            threads = agent.threads & self._reach.get(instruction.span, -1)
            if at not in ahead or barrier is None or not threads:
                continue
            assert instruction.op is not None
            operands = {"barrier": agent.narrowed(barrier(view))}
            if "cta" in instruction.operands:
                operands["cta"] = agent.narrowed(instruction.operands["cta"](view))
            named = words(world, agent, operands, threads) or []
            if any(word == key for word, _ in named):
                found.append((instruction.span, self._arrives[instruction.op.name]))
        return found
