"""Ordinary accesses to the shared memory of another CTA."""

from __future__ import annotations

from collections.abc import Iterator

from warplint.program.ir import Symbol
from warplint.threads.facts import Event, Pointer, Roles
from warplint_rules._words import own_rank

_MEMORY = ("ld", "ld.*", "st", "st.*", "atom", "atom.*", "red", "red.*")


def remote_accesses(roles: Roles) -> Iterator[tuple[Event, Symbol]]:
    """Loads, stores and atomics that name the shared memory of a CTA by its rank, with the variable."""
    for event in roles.of(*_MEMORY):
        if not event.reach.threads or event.name in ("st.async", "red.async"):
            continue
        for role in ("src", "dst", "address"):
            value = event.values.get(role)
            if not isinstance(value, Pointer) or value.symbol.kind not in ("shared", "dynamic_shared"):
                continue
            rank = event.values.get("cta", value.cta)
            if rank is not None and not own_rank(rank):
                yield event, value.symbol
