"""How often a loop runs: from its test and step alone, without the body."""

from __future__ import annotations

from warplint.program.ir import Assign, Binary, Cast, Const, Element, Loop, Symbol, Var
from warplint.threads.evaluate import Key
from warplint.threads.facts import Known
from warplint.threads.flow import Flow
from warplint.threads.interpret import Interpreter
from warplint.threads.needs import LoopNeeds, inside, symbols_of

_MIRROR = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "!=": "!="}


def step_only(run: Interpreter, stmt: Loop, needs: LoopNeeds) -> set[Symbol] | None:
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


def masks_of(run: Interpreter, stmt: Loop, wanted: set[Symbol], flow: Flow, limit: int) -> list[int] | None:
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


def count(run: Interpreter, stmt: Loop, wanted: set[Symbol], flow: Flow) -> int | None:
    """The trip count when it is one number for all threads: by closed form for `i < n; i += c`, else by running it."""
    assert stmt.test is not None
    masks = masks_of(run, stmt, wanted, flow, 8)
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
