"""Loops: executed iteration by iteration when that is exact and cheap, else once for a general iteration.

A general iteration starts from values that hold at the head of *any* iteration. They are guessed optimistically (as
uniform as on entry), the body is run, and the guess is lowered and the run repeated until the values at the end of the
body respect it. Nothing that a discarded run recorded survives.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from warplint.program.ir import Assign, Binary, Cast, Const, Element, Expr, Loop, Symbol, Unary, Var
from warplint.threads import bits
from warplint.threads.domain import CTA, GRID, LANE
from warplint.threads.evaluate import Key
from warplint.threads.facts import Condition, Known, LoopFact, Opaque, Pointer, Reach, Uniformity, UseFact, Value
from warplint.threads.flow import Departure, Flow, promoted, without
from warplint.threads.interpret import Interpreter, Jump, Scope
from warplint.threads.needs import LoopNeeds, inside, operation_values, symbols_of
from warplint.threads.record import Tail

MAX_ATTEMPTS = 5
MAX_TRIPS = 64
MAX_LOOP_COST = 640
"""Statements times trips of one unrolled loop."""
MAX_TOTAL_COST = 4096
POLLING = frozenset(
    ["mbarrier.try_wait", "mbarrier.test_wait", "nanosleep", "ld.acquire", "ld.relaxed", "ld.volatile", "atom", "activemask"]
)
"""A loop of nothing else is one wait: everybody who comes to it makes the first try."""
STATIC_ROLES = ("barrier", "id", "threads", "columns", "registers", "mask", "count", "slot", "cta", "cta_mask")
"""Operands whose exact value per iteration is worth unrolling for."""


def execute(run: Interpreter, stmt: Loop, flow: Flow) -> Flow | None:
    """Runs a loop; gives the flow behind it."""
    needs = run.needs.loops[id(stmt)]
    plan = _plan(run, stmt, needs, flow)
    if plan is not None:
        done = _Unrolled(run, stmt, needs, flow, plan)
        if done.run():
            return done.after
    return _General(run, stmt, needs, flow).execute()


# ----------------------------------------------------------------------------------------- exact execution
@dataclass(slots=True)
class Plan:
    """The threads of each iteration, from running the test and the step alone."""

    masks: list[int]
    exact: bool
    """The trip count is certain: no jumps out of the loop."""


def _step_only(run: Interpreter, stmt: Loop, needs: LoopNeeds) -> set[Symbol] | None:
    """Symbols that the test depends on and only the step writes; None when the body writes one of them."""
    if stmt.test is None or stmt.after or run.needs.body(stmt.prelude):
        return None
    steps = [inner for inner in run.needs.body(stmt.step) if isinstance(inner, Assign)]
    if len(steps) != len(run.needs.body(stmt.step)):
        return None
    wanted = [symbol for symbol in symbols_of(stmt.test.expr) if symbol in needs.written]
    in_step = [inner.symbol for inner in steps]
    for symbol in wanted:
        if needs.written[symbol] != in_step.count(symbol):
            return None
    for inner in steps:
        for symbol in symbols_of(inner.value.expr):
            if symbol in needs.written and symbol not in in_step and inner.symbol in wanted:
                return None
    return set(wanted)


def _masks(run: Interpreter, stmt: Loop, wanted: set[Symbol], flow: Flow, limit: int) -> list[int] | None:
    """Thread sets of the iterations (the last one empty), None when the test is not known or there are too many."""
    assert stmt.test is not None
    mark = len(run.env.trail)
    threads = flow.reach.threads
    masks: list[int] = []
    steps = [inner for inner in run.needs.body(stmt.step) if isinstance(inner, Assign) and inner.symbol in wanted]
    try:
        while len(masks) <= limit:
            test = run.domain.restrict(run.eval.value(stmt.test.expr, flow), flow.reach.threads)
            if not isinstance(test, Known):
                return None
            threads &= run.domain.mask(test)
            masks.append(threads)
            if not threads:
                return masks
            for inner in steps:
                key: Key = inner.symbol
                if inner.index is not None:
                    index = run.eval.value(inner.index.expr, flow)
                    if not isinstance(index, Known) or not isinstance(index.each, int):
                        return None
                    key = (inner.symbol, index.each)
                run.env.set(key, run.eval.value(inner.value.expr, flow))
    finally:
        run.env.undo(mark)
    return None


def _plan(run: Interpreter, stmt: Loop, needs: LoopNeeds, flow: Flow) -> Plan | None:
    if not needs.operations or flow.reach.elected and not flow.reach.exact:
        return None
    room = min(MAX_LOOP_COST, MAX_TOTAL_COST - run.unrolled) // max(1, needs.size)
    if room < 1:
        return None
    wanted = _step_only(run, stmt, needs)
    if not wanted:
        return None
    masks = _masks(run, stmt, wanted, flow, min(room, MAX_TRIPS))
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


class _Unrolled:
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
        trips = [sum(mask >> thread & 1 for mask in self._plan.masks) for thread in bits.members(flow.reach.threads)]
        fact = LoopFact(stmt, stmt.text, stmt.test_span, flow.reach, flow.reach, run.domain.const(1))
        fact.state = self._needs.state
        fact.always = min(trips) > 0
        if self._plan.exact and min(trips) == max(trips):
            fact.trips = trips[0]
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
        others = run._take(first, stmt)
        self.after = without(run.domain, flow, others, stmt, stmt.text, stmt.test_span, False)
        return True

    def _iterations(self, fact: LoopFact, first: int) -> bool:
        run, stmt, domain = self._run, self._stmt, self._run.domain
        assert stmt.test is not None
        inside_flow: Flow | None = self._flow
        outer = run.iteration
        reached = 0
        for number, mask in enumerate(self._plan.masks):
            if inside_flow is None:
                break
            run.unrolled += self._needs.size
            run.iteration = (*outer, number)
            test = domain.restrict(run.eval.value(stmt.test.expr, inside_flow), inside_flow.reach.threads)
            if not isinstance(test, Known):
                return False
            threads = domain.mask(test) & inside_flow.reach.threads
            _use_test(run, stmt, self._needs, inside_flow.reach)
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
            here = Flow(reach, (*inside_flow.guards, condition), inside_flow.truths, inside_flow.election)
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
            going = sum_threads([end] if end is not None else [], continues)
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


def sum_threads(ends: list[Flow], jumps: list[Jump]) -> int:
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


def _use_test(run: Interpreter, stmt: Loop, needs: LoopNeeds, reach: Reach) -> None:
    order = run.record.order()
    symbols = run.symbols(stmt.test.expr) if stmt.test is not None else []
    for symbol in needs.state:
        if stmt.test is None or symbol in symbols:
            run.record.uses.append(UseFact(symbol, stmt.test_span, reach, run.loops, order, "loop-test"))


# --------------------------------------------------------------------------------------- general iteration
@dataclass(slots=True)
class _Outcome:
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


class _General:
    """One general iteration, with the fixpoint over what holds at the loop head."""

    def __init__(self, run: Interpreter, stmt: Loop, needs: LoopNeeds, flow: Flow) -> None:
        self._run = run
        self._stmt = stmt
        self._needs = needs
        self._flow = flow
        env = run.env
        self._initial: dict[Key, Value] = {}
        for symbol in needs.written:
            if symbol in run.needs.symbols:
                for key in env.keys_of(symbol):
                    if key in env.values:
                        self._initial[key] = env.values[key]
                    elif symbol.kind == "param" and key is symbol:
                        self._initial[key] = run.eval.current(key)
        self._head: dict[Key, Value] = {}
        self._split, self._varies = GRID, False
        self._polls = bool(needs.operations) and _polls(needs)

    def execute(self) -> Flow | None:
        """Runs the loop; gives the flow behind it."""
        run, stmt, flow = self._run, self._stmt, self._flow
        always, enters = self._entry()
        if enters is None:
            return flow
        mark, first, record = len(run.env.trail), len(run.departures), run.record.mark()
        steps = run.steps
        self._head = {key: self._guess(value) for key, value in self._initial.items()}
        if stmt.test is not None and stmt.after and _constant_zero(stmt.test.expr):
            self._head = dict(self._initial)
        first_try = self._first_try(enters, always, first, mark, record) if self._polls else None
        outcome: _Outcome | None = None
        for attempt in range(MAX_ATTEMPTS):
            if attempt:
                run.record.rollback(record)
                run.env.undo(mark)
                del run.departures[first:]
                if attempt == MAX_ATTEMPTS - 1 or run.steps - steps > 40_000:
                    self._give_up()
            for key, value in self._head.items():
                run.env.set(key, value)
            outcome = self._iterate(enters, always, first)
            if self._pessimistic or self._settled(outcome):
                break
        assert outcome is not None
        if first_try is not None:
            general = run.record.take(record)
            first_try.loops[0].test = general.loops[0].test
            run.record.give(first_try)
        after = self._leave(outcome, mark)
        if after is None:
            if not outcome.jumps and outcome.top is not None and outcome.back is not None:
                # Nobody comes out of an endless loop.
                run.departures.append(Departure(outcome.top, "exit", None))
            return None
        return without(run.domain, flow, outcome.others, stmt, stmt.text, stmt.test_span, False)

    _pessimistic = False

    def _first_try(self, enters: int, always: bool, first: int, mark: int, record: tuple[int, ...]) -> Tail | None:
        """What the first iteration of a polling loop does: later ones only repeat it for those still waiting."""
        run, head = self._run, self._head
        self._head = dict(self._initial)
        for key, value in self._head.items():
            run.env.set(key, value)
        self._iterate(enters, always, first)
        tail = run.record.take(record)
        run.env.undo(mark)
        del run.departures[first:]
        self._head = head
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

    def _guess(self, value: Value) -> Value:
        """A value of any iteration that is as uniform as the initial one."""
        domain, threads = self._run.domain, self._flow.reach.threads
        value = domain.restrict(value, threads)
        if isinstance(value, Pointer) and value.cta is None:
            return replace(value, offset=self._guess(value.offset))
        level, varies = domain.floor(value, threads)
        return domain.fresh(level, varies, "changes in a loop")

    def _give_up(self) -> None:
        domain = self._run.domain
        self._pessimistic = True
        self._split = self._split if self._polls else LANE
        for key, value in self._head.items():
            _, varies = domain.floor(value, self._flow.reach.threads)
            self._head[key] = domain.fresh(LANE, varies, "changes in a loop")

    # ------------------------------------------------------------------------------------------- one run
    def _at_head(self, enters: int) -> Flow:
        reach = self._flow.reach
        split = promoted(min(reach.split, self._split), enters, reach.elected, self._run.domain.warp_size)
        varies = (reach.varies or self._varies) and split < CTA
        threads = enters
        if (threads, split, varies) == (reach.threads, reach.split, reach.varies):
            return self._flow
        return replace(self._flow, reach=Reach(threads, reach.elected, split, varies))

    def _iterate(self, enters: int, always: bool, first: int) -> _Outcome:
        run, stmt, needs = self._run, self._stmt, self._needs
        loops = run.loops
        fact = LoopFact(stmt, stmt.text, stmt.test_span, self._flow.reach, self._flow.reach, run.domain.const(1))
        fact.state, fact.always = needs.state, always
        run.record.loops.append(fact)
        run.loops = (*loops, fact)
        scope = Scope(stmt, len(run.env.trail) - len(self._head))
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
                _use_test(run, stmt, needs, head.reach)
                top = head
                if head is not self._flow:
                    value = Opaque(self._split, self._varies, None, "threads leave the loop at different iterations")
                    condition = Condition(
                        stmt.text, stmt.test_span, True, self._flow.reach, head.reach, value, "loop", stmt
                    )
                    top = replace(head, guards=(*head.guards, condition))
            else:
                test, top, out = run.split(stmt.test.expr, head, stmt, "loop", stmt.text, stmt.test_span)
                _use_test(run, stmt, needs, head.reach)
                leaves = out is not None
                at_test = {key: run.eval.current(key) for key in self._head}
        jumps: list[Jump] = []
        back: Flow | None = None
        split, varies = GRID, False
        if top is not None:
            fact.body = top.reach
            end = run.run(stmt.body, top)
            continues = [jump for jump in scope.jumps if jump.departure.kind == "continue"]
            jumps = [jump for jump in scope.jumps if jump.departure.kind == "break"]
            gone = [d for d in run.departures[first:] if d.kind not in ("continue", "trap") or d.target not in (stmt, None)]
            gone = [d for d in gone if d.kind != "trap"]
            if end is not None or continues:
                run.rejoin(top, scope.mark, end is not None, continues)
                back = without(run.domain, top, gone, stmt, stmt.text, stmt.test_span, False)
                back = run.run(stmt.step, back)
            if back is not None and stmt.after:
                run.run(stmt.prelude, back)
                if stmt.test is not None:
                    test, stay, out = run.split(stmt.test.expr, back, stmt, "loop", stmt.text, stmt.test_span)
                    _use_test(run, stmt, needs, back.reach)
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
        others = run._take(first, stmt)
        fact.trips = self._trips(test, jumps, others)
        return _Outcome(test, top, back, values, jumps, others, leaves, at_test, split, varies)

    def _keys(self, scope: Scope) -> Iterator[Key]:
        return iter(dict.fromkeys([*self._head, *(key for key, _ in self._run.env.trail[scope.mark :])]))

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
        wanted = _step_only(run, stmt, self._needs)
        if not wanted:
            return None
        mark = len(run.env.trail)
        for key, value in self._initial.items():
            run.env.set(key, value)
        counted = _count(run, stmt, wanted, self._flow)
        run.env.undo(mark)
        return counted

    # ------------------------------------------------------------------------------------------ the fixpoint
    def _settled(self, outcome: _Outcome) -> bool:
        """Whether the guess holds; lowers or refines it where it does not."""
        domain = self._run.domain
        if outcome.back is None or outcome.top is None:
            # No second iteration: the head holds the initial values.
            if all(self._head[key] is value for key, value in self._initial.items()):
                return True
            self._head = dict(self._initial)
            return False
        good = True
        if self._polls:
            pass
        elif outcome.next_split < CTA and outcome.next_split < self._split:
            self._split, self._varies, good = outcome.next_split, self._varies or outcome.next_varies, False
        elif outcome.next_split < CTA and outcome.next_varies and not self._varies:
            self._varies, good = True, False
        threads = outcome.top.reach.threads
        for key, head in self._head.items():
            end = outcome.values.get(key, head)
            if end is head:
                if head is not self._initial[key]:
                    self._head[key], good = self._initial[key], False
                continue
            pieces: list[tuple[int, Value]] = []
            for mask, part in domain.parts(end, threads):
                for inner, own in domain.parts(head, mask):
                    initial = domain.restrict(self._initial[key], inner)
                    if domain.same(part, own):
                        pieces += domain.parts(initial, inner)
                        if not domain.same(own, initial) and own is not initial:
                            good = False
                        continue
                    piece, fine = self._changed(inner, own, part, initial)
                    good = good and fine
                    pieces += domain.parts(piece, inner)
            rest = domain.everyone & ~threads
            if rest:
                pieces += domain.parts(self._initial[key], rest)
            if not good:
                self._head[key] = domain.gather(pieces)
        return good

    def _changed(self, mask: int, head: Value, end: Value, initial: Value) -> tuple[Value, bool]:
        """The head value for threads that change it, and whether the present one is good enough."""
        domain = self._run.domain
        if isinstance(head, Pointer) and isinstance(end, Pointer) and head.symbol is end.symbol and head.cta is end.cta:
            offset, fine = self._changed(
                mask, head.offset, end.offset, initial.offset if isinstance(initial, Pointer) else initial
            )
            return (head if fine else replace(head, offset=offset)), fine
        end = domain.restrict(end, mask)
        level, varies = domain.floor(end, mask)
        first, first_varies = domain.floor(domain.restrict(initial, mask), mask)
        level, varies = min(level, first), varies or first_varies
        if isinstance(head, Opaque):
            if head.uniformity <= level and (head.varies or not varies or head.uniformity >= CTA):
                return head, True
            level, varies = min(level, head.uniformity), varies or head.varies
        why = end.why if isinstance(end, Opaque) and end.why else "changes in a loop"
        return domain.fresh(level, varies, why), False

    # ---------------------------------------------------------------------------------------------- the exit
    def _leave(self, outcome: _Outcome, mark: int) -> Flow | None:
        """Sets the values behind the loop."""
        run, domain = self._run, self._run.domain
        at_exit = outcome.at_test if outcome.at_test else outcome.values
        level, varies = self._exit_level(outcome)
        merged: dict[Key, Value] = {}
        keys = dict.fromkeys([*(outcome.values), *(key for jump in outcome.jumps for key in jump.changes)])
        for key in keys:
            found: list[Value] = []
            if outcome.leaves_at_test:
                found.append(at_exit.get(key, outcome.values.get(key, self._initial.get(key) or run.eval.current(key))))
            for jump in outcome.jumps:
                found.append(jump.changes.get(key, self._head.get(key) or run.eval.current(key)))
            if not found:
                continue
            value = found[0]
            for other in found[1:]:
                value = domain.join(value, other, level, varies)
            if value is self._initial.get(key):
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
                part = domain.fresh(min(part.uniformity, level), part.varies or varies, part.why)
            elif isinstance(part, Pointer):
                part = replace(part, offset=self._left(part.offset, level, varies, outcome))
            pieces.append((mask, part))
        return domain.gather(pieces)

    def _exit_level(self, outcome: _Outcome) -> tuple[Uniformity, bool]:
        domain, flow = self._run.domain, self._flow
        level, varies = domain.floor(outcome.test, flow.reach.threads) if outcome.leaves_at_test else (GRID, False)
        if outcome.next_split < level:
            level, varies = outcome.next_split, outcome.next_varies
        for jump in outcome.jumps:
            reach = jump.departure.flow.reach
            of = LANE if reach.elected and not flow.reach.elected else min(
                reach.split, bits.cut(reach.threads, flow.reach.threads, domain.warp_size)
            )
            if of < level:
                level, varies = of, varies or reach.varies
        return level, varies and level < CTA


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


def _count(run: Interpreter, stmt: Loop, wanted: set[Symbol], flow: Flow) -> int | None:
    """The trip count when it is one number for all threads: by closed form for `i < n; i += c`, else by running it."""
    assert stmt.test is not None
    masks = _masks(run, stmt, wanted, flow, 8)
    if masks is not None:
        whole = flow.reach.threads
        return len(masks) - 1 if all(mask in (whole, 0) for mask in masks) else None
    test = stmt.test.expr
    steps = [inner for inner in run.needs.body(stmt.step) if isinstance(inner, Assign) and inner.symbol in wanted]
    if not isinstance(test, Binary) or len(steps) != 1:
        return None
    step = steps[0].value.expr
    while isinstance(step, Cast):
        step = step.arg
    if not isinstance(step, Binary) or step.op not in ("+", "-") or not isinstance(step.right, Const):
        return None
    for side, other, op in ((test.left, test.right, test.op), (test.right, test.left, _MIRROR.get(test.op, ""))):
        bare = side
        while isinstance(bare, Cast):
            bare = bare.arg
        own = step.left
        while isinstance(own, Cast):
            own = own.arg
        if not isinstance(bare, (Var, Element)) or not isinstance(own, (Var, Element)) or bare.symbol is not own.symbol:
            continue
        if isinstance(bare, Element) and (not isinstance(own, Element) or bare.index != own.index):
            continue
        if any(isinstance(part, (Var, Element)) and part.symbol in wanted for part in inside(other)):
            continue
        start, bound = run.eval.value(bare, flow), run.eval.value(other, flow)
        if not isinstance(start, Known) or not isinstance(bound, Known):
            return None
        if start.constant is None or bound.constant is None:
            return None
        change = step.right.value if step.op == "+" else -step.right.value
        return _closed(start.constant, bound.constant, change, op)
    return None


_MIRROR = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "!=": "!="}


def _closed(start: int, bound: int, change: int, op: str) -> int | None:
    if op == "<=":
        op, bound = "<", bound + 1
    elif op == ">=":
        op, bound = ">", bound - 1
    elif op == "!=" and change and (bound - start) % change == 0 and (bound - start) // change >= 0:
        return (bound - start) // change
    distance = bound - start if op == "<" else start - bound if op == ">" else None
    if distance is None or (op == "<" and change <= 0) or (op == ">" and change >= 0):
        return None
    return max(0, -(-distance // abs(change)))

