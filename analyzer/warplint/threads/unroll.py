"""Exact execution of a loop, iteration by iteration, with the threads of each known.

Worth it where operations or branches look at the induction variable (`init(&bar[i])`, `if (warp == i)`) or where the
iterations have different threads (`for (i = tid; i < 40; i += 32)`); the costs are bounded, per loop and in all.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from warplint.program.ir import Loop, Symbol
from warplint.threads.facts import Condition, Known, LoopFact
from warplint.threads.flow import Departure, Flow, without
from warplint.threads.interpret import Interpreter
from warplint.threads.needs import LoopNeeds, symbols_of
from warplint.threads.state import Jump, Scope
from warplint.threads.trips import masks_of, step_only

MAX_TRIPS = 64
MAX_LOOP_COST = 640
"""Statements times trips of one unrolled loop."""
MAX_TOTAL_COST = 2048
STATIC_ROLES = ("barrier", "id", "threads", "columns", "registers", "mask", "count", "slot", "cta", "cta_mask")
"""Operands whose exact value per iteration is worth unrolling for."""


class Plan(Struct):
    """The threads of each iteration, from running the test and the step alone."""

    masks: list[int]
    exact: bool
    """The trip count is certain: no jumps out of the loop."""


def plan(run: Interpreter, stmt: Loop, needs: LoopNeeds, flow: Flow) -> Plan | None:
    """The iterations of a loop that is worth unrolling and whose test is known each time; None for others."""
    if not needs.operations or (flow.reach.elected and not flow.reach.exact):
        return None
    room = min(MAX_LOOP_COST, MAX_TOTAL_COST - run.unrolled) // max(1, needs.size)
    if room < 1:
        return None
    wanted = step_only(run, stmt, needs)
    if not wanted:
        return None
    masks = masks_of(run, stmt, wanted, flow, min(room, MAX_TRIPS))
    if masks is None or len(masks) == 1:
        return None
    whole = flow.reach.threads
    split = any(mask not in (whole, 0) for mask in masks)
    if not split and not _depends(run, needs, wanted):
        return None
    return Plan(masks, not needs.breaks and not needs.has_exit)


def _depends(run: Interpreter, needs: LoopNeeds, wanted: set[Symbol]) -> bool:
    """Whether operations or branches in the body look at the induction variables (one assignment deep)."""
    derived = set(wanted)
    for assign in needs.assigns:
        if assign.symbol in run.needs.symbols and not derived.isdisjoint(symbols_of(assign.value.expr)):
            derived.add(assign.symbol)
    for test in needs.tests:
        if not derived.isdisjoint(symbols_of(test.expr)):
            return True
    for op in needs.operations:
        for role in STATIC_ROLES:
            expr = op.operands.get(role)
            if expr is not None and not derived.isdisjoint(symbols_of(expr)):
                return True
    return False


class Unrolled:
    """Exact execution with the threads of each iteration known."""

    def __init__(self, run: Interpreter, stmt: Loop, needs: LoopNeeds, flow: Flow, plan: Plan) -> None:
        self._run = run
        self._stmt = stmt
        self._needs = needs
        self._flow = flow
        self._plan = plan
        self.after: Flow | None = None

    def run(self) -> bool:
        """False (and nothing changed) when an iteration turned out not to be exact."""
        run, stmt, flow = self._run, self._stmt, self._flow
        mark, first, record = len(run.env.trail), len(run.departures), run.record.mark()
        outer, loops, unrolled = run.iteration, run.loops, run.unrolled
        # Threads only drop out: the sets shrink, so these are the least and the greatest number of iterations.
        least = sum(mask == flow.reach.threads for mask in self._plan.masks)
        most = sum(mask != 0 for mask in self._plan.masks)
        fact = LoopFact(stmt, stmt.text, stmt.test_span, flow.reach, flow.reach, run.domain.const(1))
        fact.state = self._needs.state
        fact.always = least > 0
        if self._plan.exact and least == most:
            fact.trips = most
        run.record.loops.append(fact)
        run.loops = (*loops, fact)
        run.record.enter("loop", stmt.text, stmt.test_span, flow.reach)
        good = self._iterations(fact, first)
        run.iteration, run.loops = outer, loops
        if not good:
            run.record.rollback(record)
            run.env.undo(mark)
            del run.departures[first:]
            run.unrolled = unrolled
            return False
        run.record.leave()
        others = run.take(first, stmt)
        self.after = without(run.domain, flow, others, stmt, stmt.text, stmt.test_span, False)
        return True

    def _iterations(self, fact: LoopFact, first: int) -> bool:
        run, stmt, domain = self._run, self._stmt, self._run.domain
        assert stmt.test is not None
        inside_flow: Flow | None = self._flow
        outer = run.iteration
        reached = 0
        for number in range(len(self._plan.masks)):
            if inside_flow is None:
                break
            run.unrolled += self._needs.size
            run.iteration = (*outer, number)
            test = domain.restrict(run.eval.value(stmt.test.expr, inside_flow), inside_flow.reach.threads)
            if not isinstance(test, Known):
                return False
            threads = domain.mask(test) & inside_flow.reach.threads
            run.use_test(stmt, self._needs, inside_flow.reach)
            if not threads:
                break
            if threads == inside_flow.reach.threads:
                reach = inside_flow.reach
            else:
                reach = replace(inside_flow.reach, threads=threads)
                if inside_flow.reach.elected:
                    return False
            reached |= threads
            condition = Condition(stmt.text, stmt.test_span, True, inside_flow.reach, reach, test, "loop", stmt)
            here = replace(inside_flow, reach=reach, guards=(*inside_flow.guards, condition))
            start = len(run.env.trail)
            scope = Scope(stmt, start)
            run.scopes.append(scope)
            end = run.run(stmt.body, here)
            breaks = [jump for jump in scope.jumps if jump.departure.kind == "break"]
            continues = [jump for jump in scope.jumps if jump.departure.kind == "continue"]
            left = [d for d in run.departures[first:] if d.kind != "continue" and d.kind != "trap"]
            if not all(_certain(here, departure) for departure in left if _within(here, departure)):
                run.scopes.pop()
                return False
            run.rejoin(here, start, end is not None, continues)
            going = _threads([end] if end is not None else [], continues)
            if going:
                stepping = replace(here, reach=replace(here.reach, threads=going))
                run.run(stmt.step, stepping)
            run.rejoin(here, start, bool(going), breaks)
            run.scopes.pop()
            changes = run.env.changes(start)
            if here.reach.threads != self._flow.reach.threads:
                run.env.undo(start)
                for key, value in changes.items():
                    run.env.set(key, domain.mix(here.reach.threads, value, run.eval.current(key)))
            if going == 0:
                inside_flow = None
            else:
                inside_flow = replace(inside_flow, reach=replace(inside_flow.reach, threads=going))
        fact.body = replace(self._flow.reach, threads=reached or self._flow.reach.threads)
        return True


def _threads(ends: Sequence[Flow], jumps: Sequence[Jump]) -> int:
    """All threads of some flows and jumps."""
    threads = 0
    for end in ends:
        threads |= end.reach.threads
    for jump in jumps:
        threads |= jump.departure.flow.reach.threads
    return threads


def _within(here: Flow, departure: Departure) -> bool:
    return departure.flow.guards[: len(here.guards)] == here.guards


def _certain(here: Flow, departure: Departure) -> bool:
    conditions = departure.flow.guards[len(here.guards) :]
    same = departure.flow.reach.elected == here.reach.elected and departure.flow.reach.split >= here.reach.split
    return same and all(condition.known for condition in conditions)
