"""Entry point: who executes what in a kernel, for its block shape or for several assumed ones."""

from __future__ import annotations

import sys

from msgspec.structs import replace

from warplint.program.ir import Fact, Kernel, LaunchInfo
from warplint.threads.domain import Domain
from warplint.threads.facts import Roles
from warplint.threads.interpret import Interpreter, TooMuch
from warplint.threads.needs import Needs
from warplint.threads.shapes import candidates

MAX_THREADS = 1024
"""Threads of a block (PTX and HIP alike)."""
_STACK = 20_000


def analyze(kernel: Kernel) -> tuple[Roles, ...]:
    """The facts about one kernel: one `Roles` when the block shape is known, else one per assumed shape."""
    needs = Needs(kernel)
    limit = sys.getrecursionlimit()
    # Nesting is bounded by this room's own limits; Python's default is lower than those.
    sys.setrecursionlimit(max(limit, _STACK))
    try:
        if kernel.launch.block is not None:
            return (_analyze(kernel, kernel.launch, needs, False),)
        return tuple(
            _analyze(kernel, replace(kernel.launch, block=Fact(shape, "assumed")), needs, True)
            for shape in candidates(kernel, needs)
        )
    finally:
        sys.setrecursionlimit(limit)


def _analyze(kernel: Kernel, launch: LaunchInfo, needs: Needs, assumed: bool) -> Roles:
    threads = launch.threads or 1
    oversized = not 1 <= threads <= MAX_THREADS
    domain = Domain(min(max(threads, 1), MAX_THREADS), launch.warp_size)
    run = Interpreter(kernel, launch, needs, domain)
    record = run.record
    if oversized:
        record.missing(f"a block of {threads} threads is outside 1..{MAX_THREADS}", kernel.span)
    else:
        try:
            run.run(kernel.body, run.start)
        except TooMuch:
            record.missing("the thread analysis ran out of its step budget", kernel.span)
            record.close()
    return Roles(
        kernel,
        launch,
        assumed,
        record.tree,
        tuple(record.events),
        tuple(record.loops),
        tuple(record.exits),
        tuple(record.writes),
        tuple(record.uses),
        tuple(record.accesses),
        tuple(record.incomplete),
    )
