"""The abstract interpreter: runs a kernel once for all threads of a block, recording who executes what.

Branches whose condition is known split the threads exactly. Under an unknown condition both sides are run, with the
granularity at which the condition can differ written into the reach. Environments are kept per thread: what a role
writes stays with that role (`Domain.mix`), so the next role still sees the initial value of a shared variable.

Jumps are the business of `state`, loops of `loops`.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from warplint.program.ir import (
    Assign,
    Binary,
    Break,
    Cast,
    Const,
    Continue,
    Do,
    Exit,
    Expr,
    If,
    Inline,
    Kernel,
    LaunchInfo,
    Leave,
    Loop,
    Operation,
    Read,
    Seq,
    Stmt,
    Store,
    Unary,
    walk,
)
from warplint.program.ir import (
    Opaque as OpaqueStmt,
)
from warplint.source import Span
from warplint.threads.domain import LANE, Domain
from warplint.threads.evaluate import Key
from warplint.threads.facts import (
    AccessFact,
    Condition,
    Event,
    ExitFact,
    Known,
    Pointer,
    UseFact,
    Value,
    WriteFact,
)
from warplint.threads.flow import Departure, Flow, narrow, without
from warplint.threads.needs import BARRIER_ROLES, Needs
from warplint.threads.state import NOBODY, Scope, State

MAX_NESTING = 150
"""Statements nested deeper are not analysed."""
MAX_STEPS = 400_000
"""Statements executed in one analysis, loop attempts and unrolled iterations included."""


COUNTED_ON = frozenset(["mbarrier.init", "tcgen05.dealloc", "tcgen05.alloc", "mbarrier.inval"])
"""Operations whose absence is a fault: recorded with an empty reach where no thread gets to them."""


class TooMuch(Exception):
    """The step budget is used up."""


class Interpreter(State):
    """One analysis of one kernel for one block shape."""

    def __init__(self, kernel: Kernel, launch: LaunchInfo, needs: Needs, domain: Domain) -> None:
        super().__init__(kernel, launch, needs, domain)
        self._depth = 0
        self._table: dict[type, Callable[..., Flow | None]] = {
            Assign: self._assign,
            Do: self._do,
            If: self._if,
            Loop: self._loop,
            Inline: self._inline,
            Store: self._store,
            Read: self._read,
            Exit: self._exit,
            Break: self._break,
            Continue: self._continue,
            Leave: self._leave,
            OpaqueStmt: self._opaque,
        }

    def run(self, seq: Seq, flow: Flow | None) -> Flow | None:
        """Executes a sequence; None when no thread comes out at its end."""
        if flow is None:
            return None
        if self._depth >= MAX_NESTING:
            self.record.missing(f"statements nested deeper than {MAX_NESTING} levels were not analysed", seq.span)
            return flow
        self._depth += 1
        table = self._table
        for stmt in self.needs.body(seq):
            self.steps += 1
            if self.steps > MAX_STEPS:
                raise TooMuch
            flow = table[type(stmt)](stmt, flow)
            if flow is None:
                break
        self._depth -= 1
        return flow

    # ------------------------------------------------------------------------------------------ assignments
    def _assign(self, stmt: Assign, flow: Flow) -> Flow:
        symbol = stmt.symbol
        if symbol in self.needs.state:
            order = self.record.order()
            self.record.writes.append(WriteFact(symbol, stmt.span, flow.reach, flow.guards, self.loops, order))
        if symbol not in self.needs.symbols:
            return flow
        value = self.eval.value(stmt.value.expr, flow)
        if stmt.index is None:
            for key in self.env.keys_of(symbol):
                if type(key) is tuple and key in self.env.values:
                    self.env.set(key, value if not symbol.dims else self.domain.fresh(LANE))
            self.env.set(symbol, value)
            return flow
        index = self.domain.restrict(self.eval.value(stmt.index.expr, flow), flow.reach.threads)
        if isinstance(index, Known) and isinstance(index.each, int):
            self.env.set((symbol, index.each), value)
            return flow
        # Which element is not known: every element may have changed, and differently.
        for key in self.env.keys_of(symbol):
            self.env.set(key, self.domain.fresh(LANE, why=f"an element of `{symbol.name}`"))
        return flow

    def _opaque(self, stmt: OpaqueStmt, flow: Flow) -> Flow:
        self.record.missing(stmt.reason, stmt.span)
        self.havoc(stmt.writes, "`{}` may be changed by something not understood")
        return flow

    # ------------------------------------------------------------------------------------------- operations
    def _do(self, stmt: Do, flow: Flow) -> Flow | None:
        op = stmt.op
        here: Flow | None = flow
        if op.predicate is not None:
            value, here, _ = self.split(op.predicate, flow, stmt, "predicate", self._text(op), op.span, True)
            if here is None:
                if op.name in COUNTED_ON:
                    text = self._text(op)
                    self._unreached(
                        op, flow, Condition(text, op.span, True, flow.reach, NOBODY, value, "predicate", stmt)
                    )
                return flow
        if op.name == "thread.exit":
            return self._leave_kernel(stmt, flow, here, bool(op.mods.get("trap")))
        threads = here.reach.threads
        values: dict[str, Value] = {}
        inner: dict[str, Value] = {}
        for role in self.needs.roles(op):
            value = self.eval.value(op.operands[role], here)
            inner[role] = value
            values[role] = self.public(value, threads)
        if id(op) in self.needs.used:
            self.eval.execute(op, inner, here)
        record = self.record
        order = record.order()
        live = self.domain.everyone & ~record.gone
        record.event(Event(op, order, here.reach, live, here.guards, self.loops, values, self.iteration))
        state = self.needs.state
        for role in BARRIER_ROLES:
            expr = op.operands.get(role)
            if expr is None:
                continue
            kind = "barrier" if role == "barrier" else "parity"
            for symbol in self.symbols(expr):
                if symbol in state:
                    record.uses.append(UseFact(symbol, op.span, here.reach, self.loops, order, kind))
        return flow

    def _text(self, op: Operation) -> str:
        return f"predicate of {op.spelling}"

    def _store(self, stmt: Store, flow: Flow) -> Flow:
        return self._access(stmt, flow, True)

    def _read(self, stmt: Read, flow: Flow) -> Flow:
        return self._access(stmt, flow, False)

    def _access(self, stmt: Store | Read, flow: Flow, write: bool) -> Flow:
        pointer = self.public(self.eval.value(stmt.pointer.expr, flow), flow.reach.threads)
        if isinstance(pointer, Pointer) and pointer.cta is None and pointer.symbol.kind in ("shared", "dynamic_shared"):
            fact = AccessFact(
                pointer.symbol,
                pointer.offset,
                stmt.bytes,
                write,
                stmt.span,
                flow.reach,
                flow.guards,
                self.loops,
                self.record.order(),
            )
            self.record.accesses.append(fact)
        return flow

    # -------------------------------------------------------------------------------------------- branching
    def split(
        self, test: Expr, flow: Flow, stmt: Stmt, kind: str, text: str, span: Span, short: bool = False
    ) -> tuple[Value, Flow | None, Flow | None]:
        """Evaluates a condition: its value, and the flows where it holds and where it does not.

        Conjuncts narrow one after the other, so that `elect() && flag` is an election under a flag.
        """
        value = self.eval.value(test, flow)
        swapped = False
        inner = test
        while (stripped := _stripped(inner)) is not None:
            inner, flips = stripped
            swapped = swapped != flips
        core = value if inner is test else self.eval.value(inner, flow)
        core = self.domain.truth(core)
        yes, no = narrow(self.domain, flow, core)
        parts = _conjuncts(inner)
        if len(parts) > 1 and not isinstance(core, Known) and yes is not None:
            step = flow
            for part in parts:
                yes, _ = narrow(self.domain, step, self.domain.truth(self.eval.value(part, step)))
                if yes is None:
                    break
                step = yes.of(step)
                yes = replace(yes, election=step.election)
        held = self.domain.truth_key(core)
        sides: list[Flow | None] = []
        for side, taken, truth in ((yes, not swapped, True), (no, swapped, False)):
            if side is None:
                sides.append(None)
                continue
            condition = Condition(text, span, taken, flow.reach, side.reach, value, kind, stmt)
            truths = flow.truths if held is None else {**flow.truths, held[0]: held[1] == truth}
            sides.append(replace(side.of(flow), guards=(*flow.guards, condition), truths=truths))
        if swapped:
            sides.reverse()
        return value, sides[0], sides[1]

    def _if(self, stmt: If, flow: Flow) -> Flow | None:
        value, yes, no = self.split(stmt.test.expr, flow, stmt, "if", stmt.text, stmt.test_span)
        mark, first = len(self.env.trail), len(self.departures)
        if yes is None:
            self.nobody(
                stmt.then, flow, Condition(stmt.text, stmt.test_span, True, flow.reach, NOBODY, value, "if", stmt)
            )
        then_end, then_changes = self._branch(stmt.then, yes, "if", stmt, mark)
        own = self._left(first, yes, then_end)
        first = len(self.departures)
        if no is None and stmt.orelse.body:
            emptied = Condition(stmt.text, stmt.test_span, False, flow.reach, NOBODY, value, "if", stmt)
            self.nobody(stmt.orelse, flow, emptied)
        else_end, else_changes = self._branch(stmt.orelse, no, "else", stmt, mark)
        own += self._left(first, no, else_end)
        if then_end is None and else_end is None:
            return None
        if then_end is None or yes is None:
            changes = else_changes
        elif else_end is None or no is None:
            changes = then_changes
        else:
            changes = {}
            for key in {**then_changes, **else_changes}:
                one = then_changes[key] if key in then_changes else self.eval.current(key)
                two = else_changes[key] if key in else_changes else self.eval.current(key)
                changes[key] = self._choose(value, one, two, yes, no)
        for key, new in changes.items():
            self.env.set(key, new)
        taken = then_end is not None and (else_end is None or no is None)
        return without(self.domain, flow, own, stmt, stmt.text, stmt.test_span, taken)

    def _left(self, first: int, side: Flow | None, end: Flow | None) -> list[Departure]:
        """The departures out of one side of a branch; a side that nobody comes out of has left as a whole."""
        left = [departure for departure in self.departures[first:] if departure.kind != "trap"]
        if side is None or end is not None or len(left) < 2:
            return left
        whole = Departure(side, left[0].kind, left[0].target)
        if all(departure.target == whole.target and departure.kind == whole.kind for departure in left):
            self.departures[first:] = [whole]
        return [whole]

    def nobody(self, seq: Seq, flow: Flow, emptied: Condition) -> None:
        """Records the operations of a branch that no thread takes and that somebody else counts on (`Reach(0)`)."""
        found = [op for inner in walk(seq) if isinstance(inner, Do) and (op := inner.op).name in COUNTED_ON]
        if not found:
            return
        kind = "loop" if emptied.kind == "loop" else "if" if emptied.taken else "else"
        self.record.enter(kind, emptied.text, emptied.span, NOBODY)
        for op in found:
            self._unreached(op, flow, emptied)
        self.record.leave()

    def _unreached(self, op: Operation, flow: Flow, emptied: Condition) -> None:
        threads = flow.reach.threads
        values = {role: self.public(self.eval.value(op.operands[role], flow), threads) for role in self.needs.roles(op)}
        live = self.domain.everyone & ~self.record.gone
        guards = (*flow.guards, emptied)
        self.record.event(Event(op, self.record.order(), NOBODY, live, guards, self.loops, values, self.iteration))

    def _choose(self, test: Value, yes: Value, no: Value, then: Flow, orelse: Flow) -> Value:
        if yes is no:
            return yes
        if isinstance(test, Known) or then.reach.threads & orelse.reach.threads == 0:
            return self.domain.mix(then.reach.threads, yes, no)
        return self.domain.choose(test, yes, no, self.domain.everyone)

    def _branch(
        self, seq: Seq, flow: Flow | None, kind: str, stmt: If, mark: int
    ) -> tuple[Flow | None, dict[Key, Value]]:
        if flow is None:
            return None, {}
        self.record.enter(kind, stmt.text, stmt.test_span, flow.reach)
        end = self.run(seq, flow)
        self.record.leave()
        changes = self.env.changes(mark)
        self.env.undo(mark)
        return end, changes

    # ------------------------------------------------------------------------------------------------ jumps
    def _exit(self, stmt: Exit, flow: Flow) -> None:
        self._leave_kernel(stmt, flow, flow, stmt.trap)

    def _leave_kernel(self, stmt: Stmt, flow: Flow, here: Flow, trap: bool) -> Flow | None:
        if trap:
            # A trap ends the whole grid: nobody waits for these threads.
            if here is flow:
                self.departures.append(Departure(here, "trap", None))
                return None
            return flow
        order = self.record.order()
        self.record.exits.append(ExitFact(stmt.span, here.reach, here.guards, order))
        if all(guard.known for guard in here.guards) and not here.reach.elected:
            self.record.gone |= here.reach.threads
        self.jump(here, "exit", None)
        if here is flow:
            return None
        first = len(self.departures) - 1
        condition = here.guards[-1]
        return without(self.domain, flow, self.departures[first:], stmt, condition.text, condition.span, False)

    def _break(self, stmt: Break, flow: Flow) -> None:
        self._to_loop(flow, "break")

    def _continue(self, stmt: Continue, flow: Flow) -> None:
        self._to_loop(flow, "continue")

    def _to_loop(self, flow: Flow, kind: str) -> None:
        for scope in reversed(self.scopes):
            if isinstance(scope.target, Loop):
                self.jump(flow, kind, scope.target)
                return
        self.record.missing(f"a `{kind}` outside of any loop", None)

    def _leave(self, stmt: Leave, flow: Flow) -> None:
        self.jump(flow, "leave", stmt.label)

    def _inline(self, stmt: Inline, flow: Flow) -> Flow | None:
        first = len(self.departures)
        scope = Scope(stmt.label, len(self.env.trail))
        self.scopes.append(scope)
        self.record.enter("inline", stmt.name, stmt.span, flow.reach)
        end = self.run(stmt.body, flow)
        self.record.leave()
        self.scopes.pop()
        self.rejoin(flow, scope.mark, end is not None, scope.jumps)
        others = self.take(first, stmt.label)
        if end is None and not scope.jumps:
            return None
        return without(self.domain, flow, others, stmt, stmt.name, stmt.span, False)

    def _loop(self, stmt: Loop, flow: Flow) -> Flow | None:
        from warplint.threads.loops import execute

        return execute(self, stmt, flow)


def _stripped(test: Expr) -> tuple[Expr, bool] | None:
    """`x` for `!x`, `x == 0` (True: negated) and `x != 0` (False)."""
    if isinstance(test, Unary) and test.op == "!":
        return test.arg, True
    if isinstance(test, Binary) and test.op in ("==", "!=") and _is_zero(test.right):
        return test.left, test.op == "=="
    return None


def _is_zero(expr: Expr) -> bool:
    while isinstance(expr, Cast):
        expr = expr.arg
    return isinstance(expr, Const) and expr.value == 0


def _conjuncts(test: Expr) -> list[Expr]:
    result: list[Expr] = []
    stack = [test]
    while stack:
        top = stack.pop()
        if isinstance(top, Binary) and top.op == "&&" and len(result) < 16:
            stack += (top.right, top.left)
        else:
            result.append(top)
    return result
