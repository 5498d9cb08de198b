"""Integers as they are for each thread of a block, and the sets of threads that values come from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from warplint.machine.values import BINARY

Number = int | tuple[int, ...] | str | None
"""What an integer is for each thread; `UNIFORM`: unknown, but the same for the block; None: unknown."""
UNIFORM = "uniform"


def applied(op: str, left: Number, right: Number) -> Number:
    """A binary operator, thread by thread."""
    function = BINARY.get(op)
    if function is None or left is None or right is None:
        return None
    if isinstance(left, str) or isinstance(right, str):
        return None if isinstance(left, tuple) or isinstance(right, tuple) else UNIFORM
    if op in "/%" and (right == 0 or (isinstance(right, tuple) and 0 in right)):
        return None
    if isinstance(left, int) and isinstance(right, int):
        return function(left, right)
    one: Iterable[int] = left if isinstance(left, tuple) else (left,) * len(right) if isinstance(right, tuple) else ()
    two: Iterable[int] = right if isinstance(right, tuple) else (right,) * len(tuple(one))
    return settled(tuple(map(function, one, two)))


def settled(value: tuple[int, ...]) -> Number:
    """One int where all threads have the same."""
    return value[0] if value and value.count(value[0]) == len(value) else value


def chosen(test: Number, yes: Number, no: Number) -> Number:
    """`test ? yes : no`, thread by thread."""
    if isinstance(test, int):
        return yes if test else no
    if isinstance(test, tuple):
        if not isinstance(yes, int | tuple) or not isinstance(no, int | tuple):
            return None
        return tuple([of_thread(yes if each else no, t) for t, each in enumerate(test)])
    if test == UNIFORM and isinstance(yes, int | str) and isinstance(no, int | str):
        return UNIFORM
    return None


def of_thread(value: int | tuple[int, ...], thread: int) -> int:
    """The value for one thread."""
    return value if isinstance(value, int) else value[thread]


def mixed(new: Number, old: Number, threads: int, block: int) -> Number:
    """`new` for some threads, `old` for the others."""
    if new == old:
        return new
    if isinstance(new, int | tuple) and isinstance(old, int | tuple):
        return settled(tuple([of_thread(new if threads >> t & 1 else old, t) for t in range(block)]))
    return None


def together(sets: tuple[int, ...], start: int, count: int) -> int:
    """What `count` threads from `start` on hold together."""
    held = 0
    for each in sets[start : start + count]:
        held |= each
    return held


def sets_of(origins: Mapping[int, tuple[int, ...]], chain: int, block: int) -> tuple[int, ...]:
    """The sets of one chain; empty ones where the value does not contain it."""
    return origins.get(chain) or (0,) * block


def joined(into: dict[int, tuple[int, ...]], more: Mapping[int, tuple[int, ...]]) -> None:
    """Adds what another value contains."""
    for chain, sets in more.items():
        mine = into.get(chain)
        into[chain] = sets if mine is None else tuple([a | b for a, b in zip(mine, sets, strict=True)])
