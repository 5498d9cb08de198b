"""The executing core: runs a kernel's control and synchronisation with unknown data. See docs/MACHINE.md."""

from __future__ import annotations

from msgspec import Struct

from warplint.machine.compile import Code, Compiler
from warplint.machine.outcome import Outcome
from warplint.machine.scenarios import MAX_TOTAL, STEP, Plan
from warplint.machine.semantics import handlers
from warplint.machine.values import forget
from warplint.machine.world import Budget, Scenario, World
from warplint.program import ir
from warplint.threads.facts import Roles

__all__ = ["Execution", "execute"]


class Execution(Struct, frozen=True, eq=False):
    """All executions of one kernel."""

    roles: Roles
    outcomes: tuple[Outcome, ...]
    code: Code

    @property
    def open_inputs(self) -> bool:
        """Some unknown input was asked for: only the values tried are covered (`Outcome.scenario` names them)."""
        return any(outcome.asked for outcome in self.outcomes)

    @property
    def incomplete(self) -> tuple[ir.Incomplete, ...]:
        """What no execution could establish, each said once."""
        found = dict.fromkeys(reason for outcome in self.outcomes for reason in outcome.incomplete)
        return tuple(ir.Incomplete(reason, span) for reason, span in found)


def execute(roles: Roles, budget: Budget | None = None) -> Execution:
    """Run the kernel in every scenario of its plan. Deterministic; bounded by `budget` for each run and in all."""
    from warplint.machine.semantics.asynchronous import deliver
    from warplint.machine.slicing import cut

    kernel: ir.Kernel = roles.kernel
    forget()
    code = Compiler(cut(kernel, handlers().keys())).compile(kernel.body)
    cuts = sorted({event.reach.threads for event in roles.events if event.reach.threads})
    plan = Plan(roles)
    outcomes: list[Outcome] = []
    total = 0

    def run(scenario: Scenario) -> Outcome:
        nonlocal total
        world = World(kernel, code, scenario, cuts, handlers(), deliver, budget or Budget())
        if code.too_long:
            world.note("the kernel is too long to execute", None)
        outcomes.append(world.run())
        total += world.executed * STEP + world.memory.work
        return outcomes[-1]

    first = run(plan.first())
    for scenario in plan.others(first.asked):
        if total > MAX_TOTAL:
            first.remarks.append((f"only {len(outcomes)} combinations of unknown sizes were tried", None))
            break
        run(scenario)
    return Execution(roles, tuple(outcomes), code)
