"""Watching an execution: what `execute(..., observe=...)` tells somebody who wants to see more than the outcome.

Without an observer nothing is called and nothing is kept. An observer never changes what is executed.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from warplint.machine.agent import Agent, Wait
    from warplint.machine.barriers import Arrival
    from warplint.machine.compile import Instruction
    from warplint.machine.footprint import Access
    from warplint.machine.values import Value
    from warplint.machine.world import World


class Observer(Protocol):
    """Told of every step of one execution, in the order in which the steps happen."""

    def before(
        self, world: World, agent: Agent, instruction: Instruction, operands: dict[str, Value], threads: int
    ) -> None:
        """`threads` of the agent are about to execute an operation; what it touches and counts is told next."""
        ...

    def after(self, world: World, agent: Agent, instruction: Instruction, wait: Wait | None) -> None:
        """The operation was executed; with `wait` the agent blocks in it."""
        ...

    def resumed(self, agent: Agent, wait: Wait, gave_up: bool) -> None:
        """A blocked agent goes on: its wait is over, or its one-shot test has returned false."""
        ...

    def touched(self, access: Access) -> None:
        """An access to shared or tensor memory; an ordinary one stands alone, others belong to the operation."""
        ...

    def counted(self, key: Hashable, arrival: Arrival, completed: int) -> None:
        """A barrier word took an arrival, expected bytes or a copy; it has now completed that many phases."""
        ...
