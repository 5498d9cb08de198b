"""The executing core: runs a kernel's control and synchronisation with unknown data. See docs/MACHINE.md."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from warplint.machine.compile import Code, Compiler
from warplint.machine.coverage import missed
from warplint.machine.observe import Observer
from warplint.machine.outcome import Outcome
from warplint.machine.scenarios import MAX_TOTAL, NARROW, STEP, Plan
from warplint.machine.semantics import handlers
from warplint.machine.values import forget
from warplint.machine.world import LONG, Budget, Scenario, World
from warplint.program import ir
from warplint.threads.facts import Roles

__all__ = ["Execution", "execute"]


class Execution(Struct, frozen=True, eq=False):
    """All executions of one kernel."""

    roles: Roles
    outcomes: tuple[Outcome, ...]
    code: Code
    missed: tuple[ir.Operation, ...] = ()
    """Synchronising operations that threads can reach and that no execution came to (`coverage`)."""

    @property
    def open_inputs(self) -> bool:
        """Some unknown input was asked for: only the values tried are covered (`Outcome.scenario` names them)."""
        return any(outcome.asked for outcome in self.outcomes)

    @property
    def at_work(self) -> Execution:
        """Without the executions in which a size is 0 (all of them where there are no others)."""
        working = tuple(outcome for outcome in self.outcomes if not outcome.idle)
        return replace(self, outcomes=working) if 0 < len(working) < len(self.outcomes) else self

    @property
    def incomplete(self) -> tuple[ir.Incomplete, ...]:
        """What no execution could establish, each said once."""
        found = dict.fromkeys(reason for outcome in self.outcomes for reason in (*outcome.incomplete, *outcome.assumed))
        return tuple(ir.Incomplete(reason, span) for reason, span in found)


def execute(
    roles: Roles, budget: Budget | None = None, observe: Callable[[Scenario], Observer] | None = None
) -> Execution:
    """Run the kernel in every scenario of its plan. Deterministic; bounded by `budget` for each run and in all.

    `observe` makes somebody who watches one scenario's execution (`machine.observe`).
    """
    from warplint.machine.semantics.asynchronous import deliver
    from warplint.machine.slicing import cut

    kernel: ir.Kernel = roles.kernel
    forget()
    part = cut(kernel, handlers(kernel.is_amd).keys())
    code = Compiler(part).compile(kernel.body)
    cuts = sorted({event.reach.threads for event in roles.events if event.reach.threads})
    plan = Plan(roles, part)
    outcomes: list[Outcome] = []
    total = 0

    def start(scenario: Scenario) -> World:
        world = World(kernel, code, scenario, cuts, handlers(kernel.is_amd), deliver, budget or Budget(),
                      observe(scenario) if observe is not None else None)  # fmt: skip
        if code.too_long:
            world.note("the kernel is too long to execute", None)
        return world

    def run(scenario: Scenario) -> World:
        nonlocal total
        world = start(scenario)
        named(scenario, world.run())
        total += world.executed * STEP + world.memory.work
        return world

    def trial(scenario: Scenario) -> Outcome:
        return run(scenario).outcome

    def named(scenario: Scenario, outcome: Outcome) -> Outcome:
        outcome.scenario = plan.describe(scenario, outcome.asked)
        outcome.idle = plan.idle(scenario, outcome.asked)
        return outcome

    def base(scenario: Scenario) -> World:
        world = run(scenario)
        if not world.outcome.finished and not code.too_long and budget is None:
            world = _shortened(plan, world, run)
            named(world.scenario, world.outcome)
        return world

    world = base(plan.first())
    outcomes = [world.outcome]
    turned = plan.reversed(world.scenario, world.outcome.asked)
    if turned is not None:
        other = base(turned)
        if other.executed > 2 * world.executed:
            world, other = other, world  # a condition ends the kernel early: the side that goes on is the rule
            outcomes = [world.outcome]
        if other.outcome.finished:
            outcomes.append(other.outcome)
    scenario, first = world.scenario, world.outcome
    for other in plan.others(scenario, first.asked):
        if total > MAX_TOTAL:
            first.remarks.append((f"only {len(outcomes)} combinations of unknown sizes were tried", None))
            break
        outcome = trial(other)
        if outcome.finished or not first.finished:
            outcomes.append(outcome)
        else:
            first.remarks.append((f"with {outcome.scenario} the execution is too long", None))
    lost = missed(roles, code, plan.reader)
    grown = plan.grown(scenario, first.asked) if lost and first.finished and total <= MAX_TOTAL else None
    if grown is not None:
        outcome = trial(grown)
        if outcome.finished:
            outcomes.append(outcome)
        lost = missed(roles, code, plan.reader)
    for uneven in plan.uneven(scenario, first.asked) if lost and first.finished else ():
        if total > MAX_TOTAL:
            break
        lost = _led(uneven, first, outcomes, code, trial, lambda: missed(roles, code, plan.reader))
        if not lost:
            break
    if first.finished and any(outcome.guesses for outcome in outcomes):
        _try_ways(scenario, outcomes, trial)
    else:
        for outcome in outcomes:
            outcome.incomplete.extend(outcome.guesses)
    if plan.wave and first.finished:
        _try_narrow(scenario, first, trial)
    for reason, span in part.undefined.items():
        # A macro of the compile command, mostly: it bounds loops, and any number taken for it may be one it never has.
        for outcome in outcomes:
            outcome.incomplete.append((f"{reason}: give it with --define", span))
    return Execution(roles, tuple(outcomes), code, missed(roles, code, plan.reader) if lost else ())


def _shortened(plan: Plan, first: World, run: Callable[[Scenario], World]) -> World:
    """An execution that is not stopped, in place of the first, which was: of smaller sizes, or with more patience.

    The least size first: where even that is stopped, the size is not what makes it long. Else what it took tells which
    of the larger ones are worth trying.
    """
    ladder = [*plan.smaller(first.scenario, first.outcome.asked)]
    least = run(ladder[-1]) if ladder else first
    if not ladder or not least.outcome.finished:
        first.go_on(LONG)
        return first
    for smaller in ladder[:-1]:
        rounds = max(smaller.rounds.outer, 1) * max(smaller.rounds.inner, 1)
        if least.executed * rounds < first.budget.steps and least.memory.work * rounds < first.budget.work:
            world = run(smaller)
            if world.outcome.finished:
                least = world
            break
    least.outcome.remarks.append((f"with {first.outcome.scenario} the execution is too long", None))
    return least


def _led(
    scenario: Scenario,
    first: Outcome,
    outcomes: list[Outcome],
    code: Code,
    run: Callable[[Scenario], Outcome],
    left: Callable[[], tuple[ir.Operation, ...]],
) -> tuple[ir.Operation, ...]:
    """Execute a scenario that is only to lead to operations that were missed; returns those that are still.

    Its numbers are of no use where they break the kernel: they may contradict each other. Then it leaves no trace, and
    what it came to is as unknown as before.
    """
    from warplint.machine.ways import difference

    before = [(one, one.executed, one.sides) for one in code.instructions]
    outcome = run(scenario)
    if outcome.finished and not difference(first, outcome):
        outcomes.append(outcome)
    else:
        for one, executed, sides in before:
            one.executed, one.sides = executed, sides
    return left()


def _try_narrow(scenario: Scenario, first: Outcome, run: Callable[[Scenario], Outcome]) -> None:
    """AMD, where nothing tells how many lanes a wave has: what only waves of 32 show is not established."""
    from warplint.machine.ways import difference

    name = f"{scenario.name}, waves of {NARROW}"
    shown = difference(first, run(replace(scenario, name=name, wave=NARROW)))
    if shown:
        first.incomplete.append((f"how many lanes a wave has is not known: with {NARROW}, {shown}", None))


def _try_ways(scenario: Scenario, outcomes: list[Outcome], run: Callable[[Scenario], Outcome]) -> None:
    """Take the branches on data otherwise, and say whether that matters."""
    from warplint.machine.ways import difference, others, races

    guesses = {place: min(o.guesses[place] for o in outcomes if place in o.guesses)
               for place in dict.fromkeys(place for outcome in outcomes for place in outcome.guesses)}  # fmt: skip
    shown = ""
    common = races(outcomes[0])
    for way in others(guesses):
        trial = run(replace(scenario, name=f"{scenario.name}, data branches {way.value}", way=way))
        shown = difference(outcomes[0], trial)
        if shown:
            shown = f"; {way.value}, {shown}"
            break
        common &= races(trial)
    only = sorted(text for text, *_ in races(outcomes[0]) - common)
    if only and not shown:
        shown = f"; {scenario.way.value}, {only[0]}"
    for text, span in guesses:
        if shown:
            outcomes[0].incomplete.append((text + shown, span))
        else:
            outcomes[0].remarks.append((text + "; taken otherwise, nothing changes", span))
    if not shown:
        outcomes[0].guesses.clear()  # what it shows, every way shows
