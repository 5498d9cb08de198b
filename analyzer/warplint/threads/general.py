"""One general iteration of a loop, with the fixpoint over what holds at its head.

The values at the head of *any* iteration are guessed optimistically (as uniform as on entry), the body is run, and the
guess is lowered and the run repeated until the values at the end of the body respect it. What a role leaves alone keeps
its initial value for the other threads. Nothing that a discarded run recorded survives.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from warplint.program.ir import Cast, Const, Expr, Loop, Unary
from warplint.threads import bits
from warplint.threads.domain import CTA, GRID, LANE, least
from warplint.threads.evaluate import Key
from warplint.threads.facts import Condition, Known, LoopFact, Opaque, Pointer, Reach, Uniformity, Value
from warplint.threads.flow import Departure, Flow, promoted, without
from warplint.threads.head import Head
from warplint.threads.interpret import Interpreter
from warplint.threads.needs import LoopNeeds, operation_values, symbols_of
from warplint.threads.record import Tail
from warplint.threads.state import NOBODY, Jump, Scope
from warplint.threads.trips import count, step_only

MAX_ATTEMPTS = 5
MAX_REPEATED = 25_000
"""Statements run in discarded attempts of one analysis, after which loops get one attempt: their values are unknown."""
POLLING = frozenset(
    ["mbarrier.try_wait", "mbarrier.test_wait", "nanosleep", "ld.acquire", "ld.relaxed", "ld.volatile", "atom"]
)
"""A loop of nothing else is one wait: everybody who comes to it makes the first try."""


class _Outcome(Struct):
    """One run of a general iteration."""

    test: Value
    top: Flow | None
    """Threads that start the body."""
    back: Flow | None
    """Threads that go to the next iteration."""
    values: dict[Key, Value]
    """Values at the back edge."""
    jumps: list[Jump]
    others: list[Departure]
    leaves_at_test: bool
    at_test: dict[Key, Value]
    next_split: Uniformity
    next_varies: bool


class General:
    """One general iteration, with the fixpoint over what holds at the loop head."""

    def __init__(self, run: Interpreter, stmt: Loop, needs: LoopNeeds, flow: Flow) -> None:
        self._run = run
        self._stmt = stmt
        self._needs = needs
        self._flow = flow
        self._head = Head(run, needs, flow)
        self._split, self._varies = GRID, False
        self._pessimistic = False
        self._polls = bool(needs.operations) and _polls(needs)

    def execute(self) -> Flow | None:
        """Runs the loop; gives the flow behind it."""
        run, stmt, flow = self._run, self._stmt, self._flow
        always, enters = self._entry()
        if enters is None:
            never = run.domain.const(0)
            emptied = Condition(stmt.text, stmt.test_span, True, flow.reach, NOBODY, never, "loop", stmt)
            run.nobody(stmt.body, flow, emptied)
            return flow
        mark, first, record = len(run.env.trail), len(run.departures), run.record.mark()
        if stmt.test is None or not stmt.after or not _constant_zero(stmt.test.expr):
            self._head.guess()
        first_try = self._first_try(enters, always, first, mark, record) if self._polls else None
        outcome: _Outcome | None = None
        for attempt in range(MAX_ATTEMPTS):
            # Loops inside are repeated with every attempt: what repeating costs in all is bounded.
            if attempt == MAX_ATTEMPTS - 1 or run.repeated > MAX_REPEATED:
                self._pessimistic = True
            if attempt:
                run.record.rollback(record)
                run.env.undo(mark)
                del run.departures[first:]
            if self._pessimistic:
                self._split = self._split if self._polls else LANE
                self._head.give_up()
            self._head.set()
            steps = run.steps
            run.steps += len(self._head.values) // 4
            outcome = self._iterate(enters, always, first)
            if self._pessimistic or self._settled(outcome):
                break
            run.repeated += run.steps - steps
        assert outcome is not None
        if first_try is not None:
            general = run.record.take(record)
            first_try.loops[0].test = general.loops[0].test
            run.record.give(first_try)
        after = self._leave(outcome, mark)
        if after is None:
            left = outcome.jumps or any(other.kind == "leave" for other in outcome.others)
            if not left and outcome.top is not None and outcome.back is not None:
                # Nobody comes out of an endless loop.
                run.departures.append(Departure(outcome.top, "exit", None))
            return None
        return without(run.domain, flow, outcome.others, stmt, stmt.text, stmt.test_span, False)

    def _first_try(self, enters: int, always: bool, first: int, mark: int, record: tuple[int, ...]) -> Tail | None:
        """What the first iteration of a polling loop does: later ones only repeat it for those still waiting."""
        run, guessed = self._run, self._head.values
        self._head.start_over()
        self._head.set()
        self._iterate(enters, always, first)
        tail = run.record.take(record)
        run.env.undo(mark)
        del run.departures[first:]
        self._head.values = guessed
        return tail if tail.events else None

    def _entry(self) -> tuple[bool, int | None]:
        """(at least one iteration is certain, threads that may enter; None for nobody)."""
        run, stmt, threads = self._run, self._stmt, self._flow.reach.threads
        if stmt.test is None or stmt.after:
            return True, threads
        if run.needs.body(stmt.prelude):
            return False, threads
        test = run.domain.restrict(run.eval.value(stmt.test.expr, self._flow), threads)
        sure = maybe = 0
        for mask, part in run.domain.parts(test, threads):
            if isinstance(part, Known):
                sure |= run.domain.mask(part) & mask
            elif isinstance(part, Pointer):
                sure |= mask
            else:
                maybe |= mask
        if not sure | maybe:
            return False, None
        return sure == threads, sure | maybe

    # ------------------------------------------------------------------------------------------- one run
    def _at_head(self, enters: int) -> Flow:
        reach = self._flow.reach
        split = promoted(min(reach.split, self._split), enters, reach.elected, self._run.domain.warp_size)
        varies = (reach.varies or self._varies) and split < CTA
        threads = enters
        if (threads, split, varies) == (reach.threads, reach.split, reach.varies):
            return self._flow
        return replace(self._flow, reach=Reach(threads, reach.elected, split, varies), sure=0, base=None)

    def _iterate(self, enters: int, always: bool, first: int) -> _Outcome:
        run, stmt, needs = self._run, self._stmt, self._needs
        loops = run.loops
        fact = LoopFact(stmt, stmt.text, stmt.test_span, self._flow.reach, self._flow.reach, run.domain.const(1))
        fact.state, fact.always = needs.state, always
        run.record.loops.append(fact)
        run.loops = (*loops, fact)
        scope = Scope(stmt, len(run.env.trail) - len(self._head.values))
        run.scopes.append(scope)
        run.record.enter("loop", stmt.text, stmt.test_span, self._flow.reach)
        head = self._at_head(enters)
        test: Value = run.domain.const(1)
        at_test: dict[Key, Value] = {}
        leaves = False
        top: Flow | None
        if stmt.after:
            condition = Condition(stmt.text, stmt.test_span, True, self._flow.reach, head.reach, test, "loop", stmt)
            top = replace(head, guards=(*head.guards, condition)) if head is not self._flow else head
        else:
            run.run(stmt.prelude, self._flow)
            if stmt.test is None:
                run.use_test(stmt, needs, head.reach)
                top = head
                if head is not self._flow:
                    value = Opaque(self._split, self._varies, None, "threads leave the loop at different iterations")
                    condition = Condition(
                        stmt.text, stmt.test_span, True, self._flow.reach, head.reach, value, "loop", stmt
                    )
                    top = replace(head, guards=(*head.guards, condition))
            else:
                test, top, out = run.split(stmt.test.expr, head, stmt, "loop", stmt.text, stmt.test_span)
                run.use_test(stmt, needs, head.reach)
                leaves = out is not None
                at_test = {key: run.eval.current(key) for key in self._head.values}
        jumps: list[Jump] = []
        back: Flow | None = None
        split, varies = GRID, False
        if top is not None:
            fact.body = top.reach
            end = run.run(stmt.body, top)
            continues = [jump for jump in scope.jumps if jump.departure.kind == "continue"]
            jumps = [jump for jump in scope.jumps if jump.departure.kind == "break"]
            gone = [
                d for d in run.departures[first:] if d.kind not in ("continue", "trap") or d.target not in (stmt, None)
            ]
            gone = [d for d in gone if d.kind != "trap"]
            if end is not None or continues:
                run.rejoin(top, scope.mark, end is not None, continues)
                back = without(run.domain, top, gone, stmt, stmt.text, stmt.test_span, False)
                back = run.run(stmt.step, back)
            if back is not None and stmt.after:
                run.run(stmt.prelude, back)
                if stmt.test is not None:
                    test, stay, out = run.split(stmt.test.expr, back, stmt, "loop", stmt.text, stmt.test_span)
                    run.use_test(stmt, needs, back.reach)
                    leaves = out is not None
                    at_test = {key: run.eval.current(key) for key in self._keys(scope)}
                    back = stay
            if back is not None:
                split, varies = self._lowered(top.reach, back.reach)
        fact.test = test
        run.record.leave()
        run.scopes.pop()
        run.loops = loops
        values = {key: run.eval.current(key) for key in self._keys(scope)}
        others = run.take(first, stmt)
        fact.trips = self._trips(test, jumps, others)
        return _Outcome(test, top, back, values, jumps, others, leaves, at_test, split, varies)

    def _keys(self, scope: Scope) -> Iterator[Key]:
        return iter(dict.fromkeys([*self._head.values, *(key for key, _ in self._run.env.trail[scope.mark :])]))

    def _lowered(self, top: Reach, back: Reach) -> tuple[Uniformity, bool]:
        """How finely the threads of the next iteration differ from those of this one."""
        split, varies = GRID, False
        if back.split < top.split:
            split, varies = back.split, back.varies
        if back.threads != top.threads:
            level = bits.cut(back.threads, top.threads, self._run.domain.warp_size)
            split, varies = min(split, level), True
        return split, varies

    def _trips(self, test: Value, jumps: list[Jump], others: list[Departure]) -> int | None:
        run, stmt = self._run, self._stmt
        if jumps or others:
            return None
        wanted = step_only(run, stmt, self._needs)
        if not wanted:
            return None
        mark = len(run.env.trail)
        for key, value in self._head.initial.items():
            run.env.set(key, value)
        counted = count(run, stmt, wanted, self._flow)
        run.env.undo(mark)
        return counted

    def _settled(self, outcome: _Outcome) -> bool:
        """Whether the guess holds; lowers or refines it where it does not."""
        head = self._head
        if outcome.back is None or outcome.top is None:
            # No second iteration: the head holds the initial values.
            if all(head.values[key] is value for key, value in head.initial.items()):
                return True
            head.start_over()
            return False
        good = True
        if outcome.next_split < CTA and not self._polls:
            if outcome.next_split < self._split:
                self._split, self._varies, good = outcome.next_split, self._varies or outcome.next_varies, False
            elif outcome.next_varies and not self._varies:
                self._varies, good = True, False
        return head.settle(outcome.values, outcome.top.reach.threads) and good

    # ---------------------------------------------------------------------------------------------- the exit
    def _leave(self, outcome: _Outcome, mark: int) -> Flow | None:
        """Sets the values behind the loop."""
        run, domain = self._run, self._run.domain
        at_exit = outcome.at_test if outcome.at_test else outcome.values
        level, varies = self._exit_level(outcome)
        merged: dict[Key, Value] = {}
        keys = dict.fromkeys([*(outcome.values), *(key for jump in outcome.jumps for key in jump.changes)])
        run.steps += len(keys) // 4
        for key in keys:
            found: list[Value] = []
            if outcome.leaves_at_test:
                found.append(
                    at_exit.get(key, outcome.values.get(key, self._head.initial.get(key) or run.eval.current(key)))
                )
            for jump in outcome.jumps:
                found.append(jump.changes.get(key, self._head.values.get(key) or run.eval.current(key)))
            if not found:
                continue
            value = found[0]
            for other in found[1:]:
                value = domain.join(value, other, level, varies)
            if value is self._head.initial.get(key):
                continue
            merged[key] = self._left(value, level, varies, outcome)
        run.env.undo(mark)
        for key, value in merged.items():
            run.env.set(key, value)
        if not outcome.leaves_at_test and not outcome.jumps:
            return None
        return self._flow

    def _left(self, value: Value, level: Uniformity, varies: bool, outcome: _Outcome) -> Value:
        """A value of the last iteration, where threads may leave at different iterations."""
        domain = self._run.domain
        if level >= CTA or outcome.back is None:
            return value
        pieces: list[tuple[int, Value]] = []
        for mask, part in domain.parts(value, domain.everyone):
            if isinstance(part, Opaque):
                floor = least((part.uniformity, part.varies), (level, varies))
                part = domain.mark_signed(domain.mark_across(domain.fresh(*floor, part.why), part), part)
            elif isinstance(part, Pointer):
                part = replace(part, offset=self._left(part.offset, level, varies, outcome))
            pieces.append((mask, part))
        return domain.gather(pieces)

    def _exit_level(self, outcome: _Outcome) -> tuple[Uniformity, bool]:
        domain, flow = self._run.domain, self._flow
        floors = [(outcome.next_split, outcome.next_varies)]
        if outcome.leaves_at_test:
            floors.append(domain.floor(outcome.test, flow.reach.threads))
        for jump in outcome.jumps:
            reach = jump.departure.flow.reach
            if reach.elected and not flow.reach.elected:
                floors.append((LANE, True))
            floors.append((reach.split, reach.varies))
            floors.append((bits.cut(reach.threads, flow.reach.threads, domain.warp_size), True))
        return least(*floors)


def _polls(needs: LoopNeeds) -> bool:
    """Whether the loop only waits: nothing but polling operations, and their results decide the exit."""
    if not all(op.name in POLLING and not op.mods.get("blocking") for op in needs.operations):
        return False
    tests = [test.test.expr for test in needs.breaks]
    if needs.stmt.test is not None:
        tests.append(needs.stmt.test.expr)
    own = set(map(id, needs.operations))
    read = {symbol for test in tests for symbol in symbols_of(test)}
    values = [assign.value.expr for assign in needs.assigns if assign.symbol in read]
    return any(id(op) in own for expr in (*tests, *values) for op in operation_values(expr))


def _constant_zero(expr: Expr) -> bool:
    while isinstance(expr, (Cast, Unary)):
        expr = expr.arg
    return isinstance(expr, Const) and expr.value == 0
