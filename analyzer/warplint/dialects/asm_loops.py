"""Control flow inside an assembly text: predicates that branches add, and waits that loop until they succeed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from warplint.dialects.asm_text import Not, Pair, Ref, Reg, Statement
from warplint.dialects.leaf import Computed, OpOutput
from warplint.dialects.ptx_values import MAX_NODES, NOWHERE, negate, size, unknown
from warplint.syntax import ast

if TYPE_CHECKING:
    from warplint.dialects.asm_flow import Draft

MAX_WAITS = 32
MAX_CONDITIONS = 16
Literal = tuple[ast.Expr, bool]
"""A condition, and whether it is negated."""
_WAITS = ("mbarrier.try_wait", "mbarrier.test_wait")


class Branches:
    """Follows labels and branches while the flow walks the statements in order.

    Forward branches give the statements they skip a condition; where both sides meet again it is dropped. Backward
    branches make loops. `path` is the conjunction under which the current statement executes, None where only a
    retry of a blocking wait comes by.
    """

    def __init__(self, statements: tuple[Statement, ...]) -> None:
        self.statements = statements
        self.places = {s.label: index for index, s in enumerate(statements) if s.label}
        self.path: tuple[Literal, ...] | None = ()
        self.arriving: dict[str, list[tuple[Literal, ...] | None]] = {}
        self.trouble = ""
        self.loops = False
        self.blocking = self._blocking_waits() if self.places else frozenset()
        self.regions: list[tuple[int, int]] = []
        self.spun: list[ast.Expr] = []
        self.numbers: list[tuple[int, int, str]] = []
        if self.places:
            for index, statement in enumerate(statements):
                target = self._target(statement)
                if target is not None and target <= index:
                    self.regions.append((target, index))

    # ------------------------------------------------------------------------------------ blocking waits
    def _blocking_waits(self) -> frozenset[int]:
        waits = [i for i, s in enumerate(self.statements) if s.mnemonic.startswith(_WAITS)]
        if len(waits) > MAX_WAITS:
            self.trouble = "too many waits in one assembly text"
            return frozenset()
        return frozenset(index for index in waits if self._always_returns(index))

    def _always_returns(self, wait: int) -> bool:
        """True when every way on from a failed wait comes back to the wait."""
        statements = self.statements
        done = statements[wait].args[0] if statements[wait].args else None
        if isinstance(done, Pair):
            done = done.right
        if not isinstance(done, (Reg, Ref)):
            return False
        stack, seen = [wait + 1], set()
        while stack:
            at = stack.pop()
            if at == wait or at in seen:
                continue
            seen.add(at)
            if at >= len(statements):
                return False
            statement = statements[at]
            mnemonic = statement.mnemonic
            if mnemonic.startswith("bra"):
                target = self._target(statement)
                if target is None:
                    return False
                taken = _taken(statement.guard, done)
                if taken is not False:
                    stack.append(target)
                if taken is not True:
                    stack.append(at + 1)
                continue
            if mnemonic in ("trap", "exit") and statement.guard is None:
                continue
            if statement.args and statement.args[0] == done and mnemonic:
                return False  # the predicate is computed anew: not followed
            stack.append(at + 1)
        return True

    def _target(self, statement: Statement) -> int | None:
        if not statement.mnemonic.startswith("bra") or not statement.args:
            return None
        label = statement.args[0]
        return self.places.get(label.name) if isinstance(label, Reg) else None

    # --------------------------------------------------------------------------------------------- walk
    def arrive(self, label: str) -> None:
        """A label: the paths that jump here join the one that falls through."""
        self.path = _join([self.path, *self.arriving.pop(label, [])])

    def leave(self, index: int, statement: Statement, guard: Literal | None) -> None:
        """A branch."""
        target = self._target(statement)
        if target is None:
            self.trouble = "a branch out of the assembly text"
            return
        if target <= index:
            if guard is None:
                self.path = None
            else:
                self.spun.append(guard[0])
            return
        label = statement.args[0].name  # type: ignore[union-attr]
        here = self.arriving.setdefault(label, [])
        known = None if guard is None else _truth(guard)
        if guard is None or known is True:
            here.append(self.path)
            self.path = None
        elif known is None and self.path is not None:
            here.append((*self.path, guard))
            self.path = (*self.path, (guard[0], not guard[1]))
            self.spun.append(guard[0])

    def predicate(self, guard: Literal | None) -> ast.Expr | None:
        """The condition of the current statement as one expression, None when it always executes."""
        if self.path is None:
            return unknown("a retry")
        literals = self.path if guard is None else (*self.path, guard)
        if len(literals) > MAX_CONDITIONS:
            return unknown("a condition")
        result: ast.Expr | None = None
        for test, negated in literals:
            part = negate(test) if negated else test
            result = part if result is None else ast.Binary(NOWHERE, "&&", result, part)
        return unknown("a condition") if result is not None and size(result) > MAX_NODES else result

    def note(self, number: int, index: int, op: str, mods: dict[str, str | int | bool]) -> None:
        """Marks an operation that is a blocking wait, or sits in a loop."""
        if index in self.blocking:
            mods["blocking"] = True
        elif any(first <= index <= last for first, last in self.regions):
            mods["loop"] = True
            if op != "nanosleep":
                self.loops = True
                self.numbers.append((number, index, op))

    def finish(self, ops: list[Draft]) -> Iterable[Draft]:
        """The operations: a load or atomic whose value decides a loop's exit spins until it is as wished."""
        spinning = {number for test in self.spun for number in _results(test)}
        for number, draft in enumerate(ops):
            if number in spinning and draft.mods.get("loop") and draft.name.startswith(("ld", "atom")):
                draft = replace(draft, mods={**draft.mods, "blocking": True})
            yield draft


def _taken(guard: tuple[object, bool] | None, done: Reg | Ref) -> bool | None:
    """Whether a branch is taken after a failed wait: None when it depends on something else."""
    if guard is None:
        return True
    arg, negated = guard
    if isinstance(arg, Not):
        arg, negated = arg.arg, not negated
    return negated if arg == done else None


def _truth(guard: Literal) -> bool | None:
    test, negated = guard
    if isinstance(test, ast.Num) and test.value is not None:
        return bool(test.value) != negated
    return None


def _join(paths: list[tuple[Literal, ...] | None]) -> tuple[Literal, ...] | None:
    known = [path for path in paths if path is not None]
    if not known:
        return None
    result = known[0]
    for path in known[1:]:
        shared = 0
        while shared < min(len(result), len(path)) and result[shared] == path[shared]:
            shared += 1
        left, right = result[shared:], path[shared:]
        if not left or not right or (len(left) == len(right) == 1 and left[0][0] == right[0][0]):
            result = result[:shared]
        else:
            result = (*result[:shared], (unknown("a condition"), False))
    return result


def _results(expr: ast.Expr) -> Iterable[int]:
    stack = [expr]
    while stack:
        top = stack.pop()
        match top:
            case OpOutput(op=op):
                yield op
            case ast.Binary(left=left, right=right):
                stack += (left, right)
            case ast.Unary(arg=arg) | ast.Cast(arg=arg):
                stack.append(arg)
            case ast.Cond(test=test, yes=yes, no=no):
                stack += (test, yes, no)
            case Computed(args=args):
                stack += args
