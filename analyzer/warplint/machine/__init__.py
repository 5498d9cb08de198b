"""The executing core: runs a kernel's control and synchronisation with unknown data. See docs/MACHINE.md."""

from __future__ import annotations

from dataclasses import dataclass

from warplint.machine.compile import Code, Compiler
from warplint.machine.outcome import Outcome
from warplint.machine.scenarios import plan
from warplint.machine.semantics import handlers
from warplint.machine.world import Budget, World
from warplint.program import ir
from warplint.threads.facts import Roles

__all__ = ["Execution", "execute"]


@dataclass(frozen=True, slots=True, eq=False)
class Execution:
    """All executions of one kernel."""

    roles: Roles
    outcomes: tuple[Outcome, ...]
    code: Code


def execute(roles: Roles, budget: Budget | None = None) -> Execution:
    """Run the kernel in every scenario of its plan. Deterministic; bounded by `budget` for each run."""
    from warplint.machine.semantics.asynchronous import deliver
    from warplint.program import needed

    kernel: ir.Kernel = roles.kernel
    code = Compiler(needed(kernel)).compile(kernel.body)
    cuts = sorted({event.reach.threads for event in roles.events if event.reach.threads})
    outcomes = []
    for scenario in plan(roles).scenarios:
        world = World(kernel, code, scenario, cuts, handlers(), deliver, budget or Budget())
        if code.too_long:
            world.note("the kernel is too long to execute", None)
        outcomes.append(world.run())
    return Execution(roles, tuple(outcomes), code)
