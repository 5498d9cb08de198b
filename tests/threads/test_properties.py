"""Participation sets against a brute-force interpreter that runs each thread by itself."""

from __future__ import annotations

from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from tests.threads import build as B
from warplint.program import ir
from warplint.threads import analyze
from warplint.threads.facts import Known, Uniformity

THREADS = 96
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")

constants = st.one_of(st.integers(0, 9), st.sampled_from([16, 31, 32, 64, 96, 100, 127, 128, 160]))


def leaves(symbols: list[ir.Symbol]) -> st.SearchStrategy[ir.Expr]:
    choices: list[st.SearchStrategy[ir.Expr]] = [st.just(B.TID), constants.map(B.c)]
    if symbols:
        choices.append(st.sampled_from(symbols).map(ir.Var))
    return st.one_of(*choices)


def numbers(symbols: list[ir.Symbol]) -> st.SearchStrategy[ir.Expr]:
    def grow(inner: st.SearchStrategy[ir.Expr]) -> st.SearchStrategy[ir.Expr]:
        plain = st.builds(ir.Binary, st.sampled_from(["+", "-", "*", "&", "|", "^", "min", "max"]), inner, inner)
        divided = st.builds(ir.Binary, st.sampled_from(["/", "%"]), inner, st.integers(1, 64).map(B.c))
        shifted = st.builds(ir.Binary, st.sampled_from(["<<", ">>"]), inner, st.integers(0, 6).map(B.c))
        return st.one_of(plain, divided, shifted)

    return st.recursive(leaves(symbols), grow, max_leaves=4)


def conditions(symbols: list[ir.Symbol]) -> st.SearchStrategy[ir.Expr]:
    simple = st.builds(ir.Binary, st.sampled_from(COMPARISONS), numbers(symbols), numbers(symbols))

    def grow(inner: st.SearchStrategy[ir.Expr]) -> st.SearchStrategy[ir.Expr]:
        both = st.builds(ir.Binary, st.sampled_from(["&&", "||", "&", "|"]), inner, inner)
        return st.one_of(both, inner.map(lambda test: ir.Unary("!", test)))

    return st.recursive(simple, grow, max_leaves=3)


@st.composite
def programs(draw: st.DrawFn, params: list[ir.Symbol], locals_: list[ir.Symbol], small: bool = False) -> list[ir.Stmt]:
    """Straight code, nested branches, early returns, inlined bodies with returns, and short loops."""
    readable = [*params, *locals_]
    counter = [0]

    def block(depth: int, labels: list[int], in_loop: bool) -> list[ir.Stmt]:
        body: list[ir.Stmt] = []
        for _ in range(draw(st.integers(1, 3))):
            kinds = ["op", "op", "assign", "predicated"]
            if depth:
                kinds += ["if", "if", "if", "inline", "exit-if", "loop"]
            if labels:
                kinds.append("leave-if")
            if in_loop:
                kinds += ["break-if", "continue-if"]
            kind = draw(st.sampled_from(kinds))
            if kind == "op":
                body.append(B.do("work", a=draw(numbers(readable))))
            elif kind == "predicated":
                body.append(B.do("work", predicate=draw(conditions(readable))))
            elif kind == "assign":
                body.append(B.assign(draw(st.sampled_from(locals_)), draw(numbers(readable))))
            elif kind == "if":
                then = block(depth - 1, labels, in_loop)
                orelse = block(depth - 1, labels, in_loop) if draw(st.booleans()) else []
                body.append(B.when(draw(conditions(readable)), then, orelse))
            elif kind == "inline":
                counter[0] += 1
                label = counter[0]
                inner = block(depth - 1, [*labels, label], False)
                body.append(ir.Inline(B.NOWHERE, label, "helper", B.seq(*inner)))
            elif kind == "loop":
                index = B.local(f"i{counter[0]}")
                counter[0] += 1
                step = [B.assign(index, B.b("+", B.var(index), 1))]
                trips: ir.Expr = B.c(draw(st.integers(0, 3)))
                if draw(st.booleans()):
                    trips = ir.Binary("&", draw(numbers(readable)), B.c(3))
                inner = block(depth - 1, [], True)
                # The bound is held in a variable of its own: the body may change what it was computed from.
                bound = B.local(f"n{counter[0]}")
                body += [B.assign(index, 0), B.assign(bound, trips)]
                body.append(B.loop(B.b("<", B.var(index), B.var(bound)), inner, step))
            else:
                jump: ir.Stmt
                if kind == "exit-if":
                    jump = B.leave_kernel()
                elif kind == "leave-if":
                    jump = ir.Leave(B.NOWHERE, draw(st.sampled_from(labels)))
                else:
                    jump = ir.Break(B.NOWHERE) if kind == "break-if" else ir.Continue(B.NOWHERE)
                extra = block(0, [], False) if draw(st.booleans()) else []
                body.append(B.when(draw(conditions(readable)), [*extra, jump]))
        return body

    start: list[ir.Stmt] = [B.assign(symbol, draw(numbers(params))) for symbol in locals_]
    return start + block(1 if small else 2, [], False)


def bitset(indices: list[int]) -> int:
    return sum(1 << index for index in indices)


def executions(threads: list[B.Thread], operation: ir.Operation) -> list[int]:
    return [thread.index for thread in threads if any(op is operation for op in thread.executed)]


def has_loop(body: ir.Seq) -> bool:
    return any(isinstance(stmt, ir.Loop) for stmt in ir.walk(body))


LOCALS = [B.local("a"), B.local("d")]
SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
PHASES = [Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink]
SETTINGS = settings(max_examples=40, deadline=None, suppress_health_check=SLOW_IS_FINE, phases=PHASES)


@SETTINGS
@given(programs([], LOCALS))
def test_known_programs_are_exact(body: list[ir.Stmt]) -> None:
    """Without unknowns and outside general loops, participation and operands equal those of running each thread."""
    note(B.show(B.seq(*body)))
    kernel = B.kernel(*body, threads=THREADS)
    threads = B.brute(kernel.body, THREADS)
    (roles,) = analyze(kernel)
    for stmt in ir.walk(kernel.body):
        if not isinstance(stmt, ir.Do):
            continue
        who = bitset(executions(threads, stmt.op))
        events = [event for event in roles.events if event.op is stmt.op]
        union = 0
        for event in events:
            union |= event.reach.threads
        assert who & ~union == 0, "somebody executes it and the analysis does not know"
        if all(event.reach.exact for event in events) and not has_loop(kernel.body):
            assert union == who
            for event in events:
                assert all(guard.known for guard in event.guards)
        if not has_loop(kernel.body):
            assert all(event.reach.exact for event in events)
        for event in events:
            value = event.values.get("a")
            if isinstance(value, Known) and len(events) == 1:
                for thread in threads:
                    seen = [found["a"] for op, found in thread.seen if op is stmt.op]
                    for one in seen:
                        assert value.at(thread.index) == one


UNKNOWN = B.local("u", "param")
OTHER = B.local("v", "param")


@SETTINGS
@given(programs([UNKNOWN, OTHER], LOCALS))
def test_unknowns_give_bounds(body: list[ir.Stmt]) -> None:
    """For every value of the unknown arguments: `threads` is an upper bound; exact means all or none."""
    note(B.show(B.seq(*body)))
    kernel = B.kernel(*body, threads=THREADS, params=[UNKNOWN, OTHER])
    (roles,) = analyze(kernel)
    runs = []
    for pair in ((0, 0), (1, 0), (2, 3), (5, 1), (31, 2), (33, 64), (100, 7), (128, 160)):
        runs.append(B.brute(kernel.body, THREADS, dict(zip([UNKNOWN, OTHER], pair, strict=True))))
    for stmt in ir.walk(kernel.body):
        if not isinstance(stmt, ir.Do):
            continue
        events = [event for event in roles.events if event.op is stmt.op]
        union = 0
        for event in events:
            union |= event.reach.threads
        for threads in runs:
            who = bitset(executions(threads, stmt.op))
            assert who & ~union == 0
            if len(events) == 1 and not events[0].loops:
                reach = events[0].reach
                assert_granularity(who, reach.threads, reach.split)
            for event in events:
                value = event.values.get("a")
                if len(events) == 1 and not event.loops and value is not None:
                    assert_value(value, threads, stmt.op)


def assert_granularity(who: int, threads: int, split: Uniformity) -> None:
    size = {Uniformity.LANE: 1, Uniformity.WARP: 32, Uniformity.WARPGROUP: 128}.get(split, THREADS)
    for start in range(0, THREADS, size):
        group = threads >> start & ((1 << size) - 1)
        inside = who >> start & ((1 << size) - 1)
        assert inside in (0, group), f"{split!r} promised, but a group was divided"


def assert_value(value: object, threads: list[B.Thread], operation: ir.Operation) -> None:
    found = {t.index: got["a"] for t in threads for op, got in t.seen if op is operation}
    if isinstance(value, Known):
        for index, got in found.items():
            assert value.at(index) == got
        return
    level = getattr(value, "uniformity", Uniformity.LANE)
    size = {Uniformity.LANE: 1, Uniformity.WARP: 32, Uniformity.WARPGROUP: 128}.get(level, THREADS)
    for start in range(0, THREADS, size):
        group = {got for index, got in found.items() if start <= index < start + size}
        assert len(group) <= 1, f"{level!r} promised, but threads of a group differ"
