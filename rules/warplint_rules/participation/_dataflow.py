"""Where a value comes from, read off the assignments: for operands that the thread analysis leaves unevaluated."""

from __future__ import annotations

from warplint.memo import remembered
from warplint.program.ir import (
    Address,
    Assign,
    Binary,
    Cast,
    Const,
    Deferred,
    Element,
    Expr,
    If,
    Kernel,
    Load,
    Loop,
    Operation,
    OpValue,
    Pure,
    Select,
    Seq,
    Special,
    Stmt,
    Symbol,
    Unary,
    Unknown,
    Var,
    walk,
)
from warplint.threads.facts import Uniformity

_MAX_STEPS = 2_000
_MAX_TESTS = 4

_PER_LANE = ("tid.", "laneid", "linear_tid", "lanemask_", "clock")
_PER_WARP = ("warpid",)
_PER_CTA = ("ctaid.", "cluster_ctaid.", "cluster_ctarank", "clusterid.", "smid")


class Assignments:
    """Every expression assigned to each local, by identity of its symbol; resolved when it is asked for."""

    def __init__(self, kernel: Kernel) -> None:
        self._deferred: dict[int, list[Deferred]] = {}
        for stmt in walk(kernel.body):
            if isinstance(stmt, Assign):
                self._deferred.setdefault(id(stmt.symbol), []).append(stmt.value)

    def __contains__(self, symbol: int) -> bool:
        return symbol in self._deferred

    def get(self, symbol: int) -> list[Expr]:
        """The expressions assigned to a local, in program order; none for one that is never assigned."""
        return [value.expr for value in self._deferred.get(symbol, ())]


@remembered(4)
def assignments(kernel: Kernel) -> Assignments:
    """The assignments of a kernel."""
    return Assignments(kernel)


def origins(kernel: Kernel, expr: Expr, name: str) -> Operation | None:
    """The operation called `name` that a value comes from, through locals, casts, selections and bit arithmetic."""
    assigned = assignments(kernel)
    stack, visited = [expr], set[int]()
    for _ in range(_MAX_STEPS):
        if not stack:
            return None
        symbol: Symbol | None = None
        match stack.pop():
            case OpValue(op=op) if op.name == name:
                return op
            case Cast(arg=arg) | Unary(arg=arg):
                stack.append(arg)
            case Binary(op="&" | "|" | "^", left=left, right=right):
                stack += [right, left]
            case Select(yes=yes, no=no):
                stack += [no, yes]
            case Var(symbol=symbol) | Element(symbol=symbol):
                pass
        if symbol is not None and id(symbol) not in visited:
            visited.add(id(symbol))
            stack.extend(reversed(assigned.get(id(symbol))))
    return None


@remembered(512)
def rests_on_unknown(kernel: Kernel, stmt: Stmt) -> bool:
    """A branch or loop that compares thread indices with a constant which is not in the file (a macro, an argument).

    Which threads such a condition parts is not established: the constant may be a multiple of any group. A condition on
    data that each thread loads is another matter.
    """
    tests: list[Deferred] = []
    for inner in walk(stmt):
        if isinstance(inner, (If, Loop)) and inner.test is not None:
            tests.append(inner.test)
        if len(tests) >= _MAX_TESTS or not isinstance(inner, (If, Seq, Loop)):
            break
    return any(_mentions_unknown(kernel, test.expr) for test in tests)


def _mentions_unknown(kernel: Kernel, expr: Expr) -> bool:
    assigned = assignments(kernel)
    stack, visited = [expr], set[int]()
    found = False
    for _ in range(_MAX_STEPS):
        if not stack:
            break
        symbol: Symbol | None = None
        match stack.pop():
            case Unknown():
                found = True
            case Load():
                return False
            case Binary(left=left, right=right):
                stack += [right, left]
            case Cast(arg=arg) | Unary(arg=arg):
                stack.append(arg)
            case Select(test=test, yes=yes, no=no):
                stack += [no, yes, test]
            case Pure(args=args):
                stack.extend(args)
            case Var(symbol=symbol) | Element(symbol=symbol):
                pass
        if symbol is not None and id(symbol) not in visited:
            visited.add(id(symbol))
            stack.extend(reversed(assigned.get(id(symbol))))
    return found


def looks_at_data(expr: Expr) -> bool:
    """The expression itself (not the locals in it) reads memory, an operation's result or something unknown."""
    stack = [expr]
    for _ in range(_MAX_STEPS):
        if not stack:
            return False
        match stack.pop():
            case Binary(left=left, right=right):
                stack += [right, left]
            case Cast(arg=arg) | Unary(arg=arg):
                stack.append(arg)
            case Select(test=test, yes=yes, no=no):
                stack += [no, yes, test]
            case Element(index=index):
                stack.append(index)
            case Const() | Var() | Special() | Unknown(uniform=True):
                pass
            case _:
                return True
    return True


def uniform_over(kernel: Kernel, expr: Expr, level: Uniformity) -> bool:
    """The value is the same for all threads of each group of the level, as far as its expressions tell.

    Nothing that differs from lane to lane (above WARP: from warp to warp) enters it. Control is not looked at.
    """
    assigned = assignments(kernel)
    stack, visited = [expr], set[int]()
    for _ in range(_MAX_STEPS):
        if not stack:
            return True
        top = stack.pop()
        symbol: Symbol | None = None
        match top:
            case Const():
                pass
            case Unknown(uniform=uniform):
                if not uniform:
                    return False
            case Special(name=name):
                if not _special(name, level):
                    return False
            case Binary(op=op, left=left, right=Const(value=by)) if _warp_index(op, left, by):
                if level > Uniformity.WARP:
                    return False
            case Binary(left=left, right=right):
                stack += [right, left]
            case Cast(arg=arg) | Unary(arg=arg):
                stack.append(arg)
            case Select(test=test, yes=yes, no=no):
                stack += [no, yes, test]
            case Pure(args=args, known_pure=True):
                stack.extend(args)
            case Address(offset=offset):
                stack.append(offset)
            case OpValue(op=op):
                # A shuffle from one lane gives every lane of the warp the same value.
                if op.name != "shfl.sync" or level > Uniformity.WARP:
                    return False
            case Load(pointer=pointer):
                stack.append(pointer)
            case Element(symbol=symbol, index=index):
                stack.append(index)
            case Var(symbol=symbol):
                pass
            case _:
                return False
        if symbol is not None and id(symbol) not in visited:
            visited.add(id(symbol))
            if symbol.kind == "local" and id(symbol) not in assigned:
                return False
            stack.extend(reversed(assigned.get(id(symbol))))
    return False


def _special(name: str, level: Uniformity) -> bool:
    if name.startswith(_PER_LANE):
        return False
    if name.startswith(_PER_WARP):
        return level <= Uniformity.WARP
    return not (name.startswith(_PER_CTA) and level > Uniformity.CTA)


def _warp_index(op: str, left: Expr, by: int) -> bool:
    """`tid.x >> 5` or `tid.x / 32` (or coarser): the same in all lanes of a warp."""
    while isinstance(left, Cast):
        left = left.arg
    if not isinstance(left, Special) or left.name not in ("tid.x", "linear_tid"):
        return False
    return (op == ">>" and by >= 5) or (op == "/" and by >= 32 and by % 32 == 0)
