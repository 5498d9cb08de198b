"""A value that grows by the same amount in every repetition of a state, as data (`lines` computes with them)."""

from __future__ import annotations

from msgspec import Struct

FOREVER = 1 << 60
"""Repetitions, where nothing ends them."""


class Trial(Struct, eq=False):
    """One repetition that is executed with lines."""

    last: int = FOREVER
    """The last repetition (the executed one is number 0) in which every comparison gives what it gave in this one."""
    failed: bool = False
    """Something depends on a growing value in a way that is not understood."""

    def until(self, last: int) -> None:
        """What was seen holds up to repetition `last`."""
        self.last = min(self.last, last)


class Line(Struct, frozen=True):
    """`value + step * r` in repetition r, for each thread alike; `step` None: nothing known but repetition 0."""

    value: int | tuple[int, ...]
    step: int | None
    trial: Trial
    carried: bool = False
    """It depends on what the repetition before left in a variable that grows in no known way."""

    def __hash__(self) -> int:
        return hash((self.value, self.step))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Line)
            and self.trial is other.trial
            and self.step == other.step
            and self.value == other.value
            and self.carried == other.carried
        )
