"""Register reallocation warp by warp: who asks for how many registers, in which order."""

from __future__ import annotations

from msgspec import Struct

from warplint.threads.facts import Event, Roles
from warplint_rules._say import lanes_of, reached, sites

WARPGROUP = 4
"""Warps in a warpgroup."""
MAX_REGISTERS = 256
"""Registers that one thread can hold: 255 usable ones, allocated in units of 8."""
FILE = 64 * 1024
"""32-bit registers of one SM (CUDA programming guide, compute capabilities 9.0 to 12.0)."""


class Request(Struct, frozen=True):
    """One `setmaxnreg` as one warp executes it."""

    event: Event
    registers: int | None
    """None when the count is not known."""
    direction: str
    """`inc` or `dec`."""


def by_warp(roles: Roles) -> dict[int, list[Request]]:
    """Every warp that may execute a `setmaxnreg`, with its requests in program order; unrolled repeats once."""
    found: dict[int, list[Request]] = {}
    for event in sites(reached(roles, "setmaxnreg")):
        request = Request(event, event.constant("registers"), str(event.mod("direction") or ""))
        for warp in lanes_of(event.reach.threads, roles.launch.warp_size):
            found.setdefault(warp, []).append(request)
    return found


def at_entry(roles: Roles) -> int | None:
    """The most registers per thread that the kernel can start with: `__maxnreg__`, or the block's share of the file.

    None when neither the block size nor a limit is known for certain.
    """
    limit = roles.launch.max_registers
    if roles.assumed_block or not roles.threads:
        return limit
    warps = -(-roles.threads // roles.launch.warp_size)
    blocks = max(1, roles.launch.min_blocks or 1)
    # Registers are allocated in units of 8 per thread.
    share = FILE // (blocks * warps * roles.launch.warp_size) // 8 * 8
    share = min(share, MAX_REGISTERS)
    return min(share, limit) if limit else share
