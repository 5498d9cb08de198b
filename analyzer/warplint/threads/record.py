"""Collecting facts in program order, with the means to take back what a discarded loop attempt recorded."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from warplint.program.ir import Incomplete, Kernel
from warplint.source import Span
from warplint.threads.facts import (
    AccessFact,
    Event,
    ExitFact,
    LoopFact,
    Reach,
    RoleNode,
    UseFact,
    WriteFact,
)


class Tail(Struct, frozen=True):
    """A stretch of recorded facts."""

    lists: list[list[Any]]
    items: list[RoleNode | Event]
    order: int

    @property
    def events(self) -> list[Event]:
        """Its operations."""
        return self.lists[0]

    @property
    def loops(self) -> list[LoopFact]:
        """Its loops, outermost first."""
        return self.lists[1]


class Recorder:
    """The growing result of one analysis."""

    def __init__(self, kernel: Kernel, everyone: Reach) -> None:
        self.events: list[Event] = []
        self.loops: list[LoopFact] = []
        self.exits: list[ExitFact] = []
        self.writes: list[WriteFact] = []
        self.uses: list[UseFact] = []
        self.accesses: list[AccessFact] = []
        self.incomplete: list[Incomplete] = list(kernel.incomplete)
        self.tree = RoleNode("kernel", kernel.name, kernel.span, everyone)
        self.gone = 0
        """Threads that have certainly left the kernel."""
        self._order = 0
        self._nodes = [self.tree]

    def order(self) -> int:
        """The next position in program order."""
        self._order += 1
        return self._order

    def event(self, event: Event) -> None:
        """Adds an operation to the list and to the tree."""
        self.events.append(event)
        self._nodes[-1].items.append(event)

    def enter(self, kind: str, label: str, span: Span, reach: Reach) -> None:
        """Opens a branch of the tree."""
        self._nodes.append(RoleNode(kind, label, span, reach))

    def leave(self) -> None:
        """Closes the innermost branch; empty ones are dropped."""
        node = self._nodes.pop()
        if node.items:
            self._nodes[-1].items.append(node)

    def close(self) -> None:
        """Closes all branches (the analysis stopped in the middle)."""
        while len(self._nodes) > 1:
            self.leave()

    def missing(self, reason: str, span: Span | None) -> None:
        """Notes something that could not be established, once."""
        entry = Incomplete(reason, span)
        if entry not in self.incomplete:
            self.incomplete.append(entry)

    def take(self, mark: tuple[int, ...]) -> Tail:
        """Removes and returns what was recorded since `mark` (with all branches closed since)."""
        lists = self._lists()
        tail = Tail(
            [held[length:] for held, length in zip(lists, mark, strict=False)],
            self._nodes[-1].items[mark[10] :],
            self._order,
        )
        self.rollback(mark)
        return tail

    def give(self, tail: Tail) -> None:
        """Puts back what `take` returned."""
        for held, more in zip(self._lists(), tail.lists, strict=True):
            held.extend(more)
        self._nodes[-1].items.extend(tail.items)
        self._order = max(self._order, tail.order)

    def _lists(self) -> list[list[Any]]:
        return [self.events, self.loops, self.exits, self.writes, self.uses, self.accesses, self.incomplete]

    def mark(self) -> tuple[int, ...]:
        """A point to which `rollback` returns."""
        return (*map(len, self._lists()), self.gone, self._order, len(self._nodes), len(self._nodes[-1].items))

    def rollback(self, mark: tuple[int, ...]) -> None:
        """Forgets everything since `mark`."""
        for held, length in zip(self._lists(), mark, strict=False):
            del held[length:]
        self.gone, self._order = mark[7], mark[8]
        del self._nodes[mark[9] :]
        del self._nodes[-1].items[mark[10] :]
