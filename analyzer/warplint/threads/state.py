"""The state of one analysis, and what jumps do to it.

Jumps are departures from the scopes they cross (`flow.without`). The values that departing threads take along are kept
with the scope they jump to, and merged there (`rejoin`): exactly where the jump is under known conditions.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from warplint.program.ir import Expr, Kernel, LaunchInfo, Loop, Symbol
from warplint.threads.domain import CTA, LANE, Domain, Mix
from warplint.threads.evaluate import Evaluator, Key
from warplint.threads.facts import LoopFact, Pointer, Reach, UseFact, Value
from warplint.threads.flow import Departure, Flow, relative
from warplint.threads.needs import LoopNeeds, Needs, symbols_of
from warplint.threads.record import Recorder

NOBODY = Reach(0)


class Jump(Struct):
    """A departure with the values that the departing threads take along (changes since the target's entry)."""

    departure: Departure
    changes: dict[Key, Value]


class Scope(Struct):
    """An open loop or inline body that jumps may target."""

    target: object
    mark: int
    jumps: list[Jump] = field(default_factory=list)


class State:
    """What one analysis of one kernel for one block shape knows so far."""

    def __init__(self, kernel: Kernel, launch: LaunchInfo, needs: Needs, domain: Domain) -> None:
        self.kernel = kernel
        self.launch = launch
        self.needs = needs
        self.domain = domain
        self.eval = Evaluator(domain, launch)
        self.env = self.eval.env
        self.start = Flow(Reach(domain.everyone))
        self.record = Recorder(kernel, self.start.reach)
        self.loops: tuple[LoopFact, ...] = ()
        self.iteration: tuple[int, ...] = ()
        self.scopes: list[Scope] = []
        self.departures: list[Departure] = []
        self.steps = 0
        self.unrolled = 0
        self.repeated = 0
        self._symbols: dict[int, list[Symbol]] = {}

    def jump(self, flow: Flow, kind: str, target: object) -> None:
        """Sends the threads of a flow to a scope (or out of the kernel)."""
        departure = Departure(flow, kind, target)
        self.departures.append(departure)
        if target is None:
            return
        for scope in reversed(self.scopes):
            if scope.target == target:
                scope.jumps.append(Jump(departure, self.env.changes(scope.mark)))
                return

    def take(self, first: int, target: object) -> list[Departure]:
        """Removes the departures to `target` since `first`; gives those that go further out."""
        others = [departure for departure in self.departures[first:] if departure.target != target]
        self.departures[first:] = others
        return [departure for departure in others if departure.kind != "trap"]

    def rejoin(self, flow: Flow, mark: int, alive: bool, jumps: Sequence[Jump]) -> None:
        """Merges the values of threads that jumped to here into the environment (all of `flow` is here again)."""
        if not jumps:
            return
        falls = self.env.changes(mark) if alive else {}
        self.env.undo(mark)
        keys = dict.fromkeys(key for jump in jumps for key in jump.changes)
        keys.update(dict.fromkeys(falls))
        merged: dict[Key, Value] = {}
        for key in keys:
            value: Value | None = (falls[key] if key in falls else self.eval.current(key)) if alive else None
            for jump in jumps:
                other = jump.changes[key] if key in jump.changes else self.eval.current(key)
                value = other if value is None else self._merge(flow, jump.departure.flow, other, value)
            if value is not None:
                merged[key] = value
        for key, value in merged.items():
            self.env.set(key, value)

    def _merge(self, flow: Flow, inner: Flow, own: Value, rest: Value) -> Value:
        if own is rest:
            return own
        reach = inner.reach
        known = all(condition.known for condition in relative(flow, inner))
        if known and not (reach.elected and not flow.reach.elected) and reach.split >= min(flow.reach.split, CTA):
            return self.domain.mix(reach.threads, own, rest)
        level = LANE if reach.elected else reach.split
        joined = self.domain.join(own, rest, level, reach.varies or reach.elected)
        return self.domain.mix(reach.threads, joined, rest)

    def symbols(self, expr: Expr) -> list[Symbol]:
        """The symbols an expression reads."""
        held = self._symbols.get(id(expr))
        if held is None:
            held = self._symbols[id(expr)] = symbols_of(expr)
        return held

    def public(self, value: Value, threads: int) -> Value:
        """A value as rules see it: constant where it is one for these threads, and never a `Mix`."""
        value = self.domain.restrict(value, threads)
        if isinstance(value, Mix):
            level, varies = self.domain.floor(value, threads)
            return self.domain.mark_across(self.domain.fresh(level, varies, "differs between groups of threads"), value)
        if isinstance(value, Pointer):
            offset = self.public(value.offset, threads)
            cta = None if value.cta is None else self.public(value.cta, threads)
            return value if offset is value.offset and cta is value.cta else replace(value, offset=offset, cta=cta)
        return value

    def havoc(self, symbols: Sequence[Symbol], why: str) -> None:
        """Makes the symbols unknown."""
        for symbol in symbols:
            for key in self.env.keys_of(symbol):
                self.env.set(key, self.domain.fresh(LANE, why=why.format(symbol.name)))

    def use_test(self, stmt: Loop, needs: LoopNeeds, reach: Reach) -> None:
        """Records that a loop's exit conditions read its state."""
        order = self.record.order()
        symbols = self.symbols(stmt.test.expr) if stmt.test is not None else []
        for symbol in needs.state:
            if stmt.test is None or symbol in symbols:
                self.record.uses.append(UseFact(symbol, stmt.test_span, reach, self.loops, order, "loop-test"))
