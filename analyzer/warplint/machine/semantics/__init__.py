"""What each operation does to the state of the machine: one handler per canonical name, gathered here."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from warplint.machine.world import Handler


@cache
def handlers(amd: bool = False) -> Mapping[str, Handler]:
    """All handlers by operation name, those of AMD hardware if asked for.

    An operation without one has no effect the machine models.
    """
    from warplint.machine.semantics import asynchronous, barriers, mbarriers, memory, tensor, warpgroups, warps

    table: dict[str, Handler] = {}
    for module in (mbarriers, barriers, warps, asynchronous, tensor, warpgroups, memory):
        table.update(module.HANDLERS)
    if amd:
        from warplint.machine.semantics import amd as waves
        from warplint.machine.semantics import amd_copies, amd_counters, amd_lanes

        for module in (waves, amd_copies, amd_counters, amd_lanes):
            table.update(module.HANDLERS)
    return table
