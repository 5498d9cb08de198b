"""Byte ranges of shared memory that operations certainly touch."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from warplint.program.ir import Symbol
from warplint.threads.facts import Event, Known, Pointer, Roles
from warplint_rules._first import first_address
from warplint_rules._words import threads_in

LOADS = frozenset({"cp.async.bulk.g2s", "cp.async.bulk.tensor.load"})
MIN_COPY = 16
"""No bulk copy moves less than 16 bytes (PTX: size and inner box extent are multiples of 16)."""
_SHARED = ("shared", "dynamic_shared")


class Region(Struct, frozen=True):
    """Bytes `[start, end)` of a symbol, touched by an event."""

    symbol: Symbol
    start: int
    end: int
    event: Event
    exact: bool
    """False when more bytes may be touched behind `end`."""


def destinations(roles: Roles) -> Iterator[Region]:
    """What asynchronous loads certainly write; of a tensor load, whose box is not in the source, its first 16 bytes."""
    for event in roles.events:
        if event.name not in LOADS or not event.reach.threads:
            continue
        size = event.constant("bytes") if event.name == "cp.async.bulk.g2s" else None
        for symbol, start in places(roles, event, "dst"):
            yield Region(symbol, start, start + (size or MIN_COPY), event, bool(size))


def places(roles: Roles, event: Event, role: str) -> list[tuple[Symbol, int]]:
    """The addresses that an operand certainly takes: for each thread, or at least on the first execution."""
    value = event.values.get(role)
    if not isinstance(value, Pointer) or value.symbol.kind not in _SHARED or value.cta is not None:
        return []
    if isinstance(value.offset, Known):
        each = value.offset.each
        if isinstance(each, int):
            return [(value.symbol, each)]
        if not event.reach.exact or event.reach.elected:
            return []
        return [(value.symbol, at) for at in sorted({each[thread] for thread in threads_in(event.reach.threads)})]
    found = first_address(roles, event.op, role)
    return [found] if found is not None and found[0] is value.symbol else []
