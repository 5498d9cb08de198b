"""Walks a kernel with the values that thread indices give, and follows which lanes a shuffled value comes from.

What a lane holds after `v += __shfl_xor(v, 16)` is a sum over two lanes; after five such steps over 32. The walk keeps,
for each *chain* of shuffles, the set of threads whose input each thread's value contains, and who uses the value in the
end. A lane whose input no user's value contains has been summed for nothing.

Everything is kept to the side of silence: where threads may or may not come (a condition on data), both ways are walked
and what values contain is joined; uses count for all threads that may come.
"""

from __future__ import annotations

from warplint.program.ir import (
    Address,
    Assign,
    Binary,
    Break,
    Cast,
    Continue,
    Do,
    Exit,
    Expr,
    If,
    Inline,
    Leave,
    Load,
    Loop,
    Operation,
    OpValue,
    Read,
    Select,
    Seq,
    Stmt,
    Store,
    Var,
    parts,
    walk,
)
from warplint.source import Span
from warplint.threads.bits import members
from warplint.threads.facts import Roles
from warplint_rules.amd._numbers import UNIFORM, Number, joined, mixed, sets_of, together
from warplint_rules.amd._values import Access, Chain, Shuffle, State, TooMuch, Values

SHUFFLES = ("amd.ds_bpermute", "amd.readlane", "hip.warp_sync_builtins")
_MAX_TRIPS = 64
_MAX_PARTS = 400


class Walk(Values):
    """The walk over one kernel. `shuffles`, `chains` and `accesses` are what it saw; `complete` unless it gave up."""

    def __init__(self, roles: Roles, width: int) -> None:
        super().__init__(roles, width)
        self.shuffles: list[Shuffle] = []
        self.accesses: list[Access] = []
        self.first_lanes: list[tuple[Operation, Number, int]] = []
        self.masked: list[tuple[Span, Operation, Number, int]] = []
        """Ballots masked with the lanes below one: place, ballot, that lane, threads."""
        self.ballots: dict[int, Operation] = {}
        self.escaped: set[int] = set()
        """Shared variables whose address goes where accesses are not seen."""
        self.away: dict[object, int] = {}
        """Threads that have left an `Inline` (by label), an iteration, a loop or the kernel."""
        self.loops: list[object] = []
        self.complete = True
        try:
            self._statement(roles.kernel.body, (1 << self.block) - 1, True)
        except TooMuch:
            self.complete = False

    def _use(self, expr: Expr, span: Span, threads: int) -> None:
        for chain, sets in self.origin(expr).items():
            held = 0
            for thread in members(threads):
                held |= sets[thread]
            self.chains[chain].used |= held
            self.chains[chain].uses.append((span, threads))
            self.chains[chain].held.append(sets)

    def _statement(self, stmt: Stmt, threads: int, certain: bool) -> None:
        self.spend(4)
        threads &= ~self._gone()
        if not threads:
            return
        match stmt:
            case Seq(body=body):
                for item in body:
                    self._statement(item, threads, certain)
            case Assign():
                self._assign(stmt, threads, certain)
            case Store(pointer=pointer, value=value, bytes=width, words=words):
                place = pointer.expr.offset if isinstance(pointer.expr, Address) else pointer.expr
                for item in (value.expr, place):
                    self._accessed(item, stmt.span, threads, certain)
                    self._use(item, stmt.span, threads)
                for word in words:
                    self._use(word.expr, stmt.span, threads)
                self._access(pointer.expr, stmt.span, width, threads, certain, True)
            case Read(pointer=pointer, bytes=width):
                self._access(pointer.expr, stmt.span, width, threads, certain, False)
            case Do(op=op):
                self._operation(op, threads)
            case If(test=test, then=then, orelse=orelse):
                self._accessed(test.expr, stmt.span, threads, certain)
                self._use(test.expr, stmt.span, threads)
                self._branch(self.number(test.expr), then, orelse, threads, certain)
            case Loop():
                self._loop(stmt, threads, certain)
            case Inline(label=label, body=body):
                self._statement(body, threads, certain)
                self.away.pop(label, None)
            case Exit():
                self._leave("kernel", threads, certain)
            case Leave(label=label):
                self._leave(label, threads, certain)
            case Break() if self.loops:
                self._leave((self.loops[-1], "loop"), threads, certain)
            case Continue() if self.loops:
                self._leave((self.loops[-1], "iteration"), threads, certain)
            case _:
                pass

    def _gone(self) -> int:
        gone = 0
        for threads in self.away.values():
            gone |= threads
        return gone

    def _leave(self, place: object, threads: int, certain: bool) -> None:
        """Threads leave for certain; where they only may, what follows is walked with them too."""
        if certain:
            self.away[place] = self.away.get(place, 0) | threads

    def _assign(self, stmt: Assign, threads: int, certain: bool) -> None:
        symbol, value = stmt.symbol, stmt.value.expr
        self._accessed(value, stmt.span, threads, certain)
        if stmt.index is not None:  # an array: whatever goes into it counts as used
            self._use(value, stmt.span, threads)
            return
        key = id(symbol)
        if (ballot := self._ballot(value)) is not None:
            self.ballots[key] = ballot
        data, old = self.data(value), self.state.data.get(key, (0, 0))
        self.state.data[key] = (data[0] & threads | old[0] & ~threads, data[1] & threads | old[1] & ~threads)
        everyone = threads == (1 << self.block) - 1
        number = self.number(value)
        if not everyone and (key in self.state.numbers or not stmt.declares):
            number = mixed(number, self.state.numbers.get(key), threads, self.block)
        self.state.numbers[key] = number
        origin = self.origin(value)
        before = self.state.origins.get(key)
        if not everyone and before:
            origin = {chain: tuple(
                [new if threads >> t & 1 else old for t, (new, old) in enumerate(
                    zip(sets_of(origin, chain, self.block), sets_of(before, chain, self.block), strict=True))]
            ) for chain in {**before, **origin}}  # fmt: skip
        if origin:
            self.state.origins[key] = origin
        else:
            self.state.origins.pop(key, None)

    def _branch(self, test: Number, then: Seq, orelse: Seq, threads: int, certain: bool) -> None:
        if isinstance(test, int):
            self._statement(then if test else orelse, threads, certain)
            return
        if isinstance(test, tuple):
            yes = sum(1 << t for t in members(threads) if test[t])
            self._statement(then, yes, certain)
            self._statement(orelse, threads & ~yes, certain)
            return
        before, certain = self.state.copy(), False
        self._statement(then, threads, certain)
        after, self.state = self.state, before
        self._statement(orelse, threads, certain)
        self._join(after)

    def _join(self, other: State) -> None:
        """Either what is here or what is there holds."""
        mine = self.state
        for key in {**mine.numbers, **other.numbers}:
            one, two = mine.numbers.get(key), other.numbers.get(key)
            if one != two:
                mine.numbers[key] = UNIFORM if isinstance(one, int | str) and isinstance(two, int | str) else None
        for key in {**mine.data, **other.data}:
            (far, near), (far2, near2) = mine.data.get(key, (0, 0)), other.data.get(key, (0, 0))
            mine.data[key] = (far | far2, near & near2)
        for key, chains in other.origins.items():
            merged = dict(mine.origins.get(key, {}))
            joined(merged, chains)
            mine.origins[key] = merged

    def _loop(self, loop: Loop, threads: int, certain: bool) -> None:
        self.loops.append(loop)
        try:
            for _ in range(_MAX_TRIPS):
                self._statement(loop.prelude, threads, certain)
                test = self.number(loop.test.expr) if loop.test is not None else None
                if loop.after or not isinstance(test, int | tuple):
                    break
                threads &= ~self._gone()
                stay = threads if test and isinstance(test, int) else 0
                if isinstance(test, tuple):
                    stay = sum(1 << t for t in members(threads) if test[t])
                if not stay:
                    return
                threads = stay
                self._iteration(loop, threads, certain)
            self._unknown(loop, threads, certain)
        finally:
            self.loops.pop()
            self.away.pop((loop, "loop"), None)

    def _iteration(self, loop: Loop, threads: int, certain: bool) -> None:
        self._statement(loop.body, threads, certain)
        self.away.pop((loop, "iteration"), None)
        self._statement(loop.step, threads, certain)

    def _unknown(self, loop: Loop, threads: int, certain: bool) -> None:
        """A loop of unknown trips: two rounds with what it changes unknown, and what was before joined."""
        self._forget(loop)
        before = self.state.copy()
        test = self.number(loop.test.expr) if loop.test is not None else UNIFORM
        certain = certain and test == UNIFORM
        for _ in range(2):
            if loop.test is not None:
                self._use(loop.test.expr, loop.test_span, threads)
            self._iteration(loop, threads, certain)
            self._forget(loop)
        self._join(before)

    def _forget(self, loop: Loop) -> None:
        """Variables that the loop assigns; they stay uniform where all it assigns is."""
        assigned = [stmt for stmt in walk(loop) if isinstance(stmt, Assign) and stmt.index is None]
        numbers = self.state.numbers
        for stmt in assigned:
            if isinstance(numbers.get(id(stmt.symbol), UNIFORM if stmt.declares else None), int | str):
                numbers[id(stmt.symbol)] = UNIFORM
            else:
                numbers[id(stmt.symbol)] = None
        for _ in range(4):
            changed = False
            for stmt in assigned:
                if numbers[id(stmt.symbol)] is not None and not isinstance(self.number(stmt.value.expr), int | str):
                    numbers[id(stmt.symbol)] = None
                    changed = True
            if not changed:
                return
        for stmt in assigned:
            numbers[id(stmt.symbol)] = None

    def _operation(self, op: Operation, threads: int) -> None:
        if op.predicate is not None:
            self._use(op.predicate, op.span, threads)
        if op.name == "amd.readfirstlane":
            value = self.number(op.operands["value"]) if "value" in op.operands else None
            self.first_lanes.append((op, value, threads))
            self.results[id(op)] = value if isinstance(value, int | str) else None
        if op.name not in SHUFFLES or op.mods.get("kind") in ("vote", "match", "redux") or "value" not in op.operands:
            for operand in op.operands.values():
                self._use(operand, op.span, threads)
                self._escape(operand)
            return
        value = op.operands["value"]
        lane = self.number(op.operands["lane"]) if "lane" in op.operands else None
        width = self.number(op.operands["width"]) if "width" in op.operands else self.width
        self.shuffles.append(Shuffle(op, threads, lane, width))
        self.results[id(op)] = None
        mode = "idx" if op.name == "amd.readlane" else str(op.mods.get("mode", ""))
        origin = self.origin(value)
        if not origin:
            chain = id(op)
            far, near = self.data(value)
            self.chains.setdefault(chain, Chain(op, 0)).threads |= threads & (far | near)
            own = tuple([1 << t for t in range(self.block)])
            origin = {chain: own}
            if isinstance(value, Var):
                self.state.origins[id(value.symbol)] = origin
        distance = lane if mode != "idx" and isinstance(lane, int) else 0
        self.moved[id(op)] = {}
        for chain, sets in origin.items():
            self.chains[chain].steps.append((mode, distance))
            self.moved[id(op)][chain] = self._exchanged(sets, mode, lane, width, threads)

    def _exchanged(
        self, sets: tuple[int, ...], mode: str, lane: Number, width: Number, threads: int
    ) -> tuple[int, ...]:
        """What each thread gets from its source; from all lanes of its wave when the source is not known."""
        if not isinstance(lane, int | tuple) or not isinstance(width, int) or not 0 < width <= self.width:
            return tuple([together(sets, t // self.width * self.width, self.width) for t in range(self.block)])
        self.spend(self.block)
        moved = []
        for t in range(self.block):
            each = lane if isinstance(lane, int) else lane[t]
            at, base = t % width, t - t % width
            if mode == "up":
                source = t - each if at >= each else t
            elif mode == "down":
                source = t + each if at + each < width else t
            elif mode == "bfly":
                source = base + (at ^ each) if at ^ each < width else t
            elif mode == "idx":
                source = base + each % width
            else:  # a byte address of `ds_bpermute`
                source = t - t % self.width + (each // 4) % self.width
            moved.append(sets[source] if 0 <= source < self.block and threads >> source & 1 else 0)
        return tuple(moved)

    def _accessed(self, expr: Expr, span: Span, threads: int, certain: bool) -> None:
        """The loads of shared memory in an expression."""
        stack = [(expr, threads)]
        for _ in range(_MAX_PARTS):
            if not stack:
                return
            top, who = stack.pop()
            if isinstance(top, Load):
                self._access(top.pointer, span, None, who, certain, False)
            elif isinstance(top, Select):
                test = self.number(top.test)
                yes = who
                if isinstance(test, int):
                    yes = who if test else 0
                elif isinstance(test, tuple):
                    yes = sum(1 << t for t in members(who) if test[t])
                else:
                    certain = False
                stack += [(top.test, who), (top.yes, yes), (top.no, who & ~yes if certain else who)]
            elif isinstance(top, Address):
                self._escape(top)
            else:
                if isinstance(top, Binary) and top.op == "&":
                    self._lanes_below(top, span, who)
                stack.extend((part, who) for part in parts(top))

    def _escape(self, expr: Expr) -> None:
        stack = [expr]
        while stack:
            top = stack.pop()
            if isinstance(top, Address):
                self.escaped.add(id(top.symbol))
            stack.extend(parts(top))

    def _ballot(self, expr: Expr) -> Operation | None:
        """The ballot that an expression is, as it is."""
        while isinstance(expr, Cast):
            expr = expr.arg
        if isinstance(expr, Var):
            return self.ballots.get(id(expr.symbol))
        if isinstance(expr, OpValue) and expr.op.mods.get("mode") == "ballot":
            return expr.op
        return None

    def _lanes_below(self, masked: Binary, span: Span, threads: int) -> None:
        """`ballot & ((1ull << lane) - 1)`."""
        for one, other in ((masked.left, masked.right), (masked.right, masked.left)):
            ballot = self._ballot(one)
            while isinstance(other, Cast):
                other = other.arg
            if isinstance(other, Var):
                continue
            if ballot is None or not (isinstance(other, Binary) and other.op in "-+"):
                continue
            shift = other.left
            while isinstance(shift, Cast):
                shift = shift.arg
            if isinstance(shift, Binary) and shift.op == "<<" and self.number(shift.left) == 1:
                self.masked.append((span, ballot, self.number(shift.right), threads))

    def _access(self, pointer: Expr, span: Span, width: int | None, threads: int, certain: bool, write: bool) -> None:
        while isinstance(pointer, Cast):
            pointer = pointer.arg
        if not isinstance(pointer, Address):
            self._escape(pointer)
        if isinstance(pointer, Address) and pointer.symbol.kind == "shared" and threads:
            at = self.number(pointer.offset)
            self.accesses.append(Access(span, pointer.symbol, at, width, threads, certain, write))


__all__ = ["SHUFFLES", "Access", "Chain", "Shuffle", "Walk"]
