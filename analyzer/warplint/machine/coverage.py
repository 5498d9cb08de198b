"""Which synchronising operations no execution came to, and why that may be all right.

The sizes and data that were tried do not lead there, so nothing is known of what they do. An operation is excused when
what keeps threads away is fixed by the source itself, or when it only waits once more where a test has already failed.
"""

from __future__ import annotations

from warplint.machine.compile import SYNCHRONISING, Code, Instruction, Kind
from warplint.machine.inputs import Reader
from warplint.program import ir
from warplint.threads.facts import Roles

TESTS = frozenset({"mbarrier.try_wait", "mbarrier.test_wait"})


def missed(roles: Roles, code: Code, reader: Reader) -> tuple[ir.Operation, ...]:
    """Synchronising operations that threads can reach and that no execution came to, in the order of the code."""
    reached = {event.op for event in roles.events if event.reach.threads}
    seen: dict[ir.Operation, bool] = {}
    places: dict[ir.Operation, int] = {}
    for at, instruction in enumerate(code.instructions):
        op = instruction.op
        if op in reached and op is not None and op.name.startswith(SYNCHRONISING):
            seen[op] = seen.get(op, False) or instruction.executed
            places.setdefault(op, at)
    left = [op for op, executed in seen.items() if not executed]
    if not left:
        return ()
    guards = _guards(code, {places[op] for op in left})
    return tuple(op for op in left if not _excused(op, places[op], guards[places[op]], code, reader))


def _guards(code: Code, places: set[int]) -> dict[int, list[tuple[int, int]]]:
    """The branches that decide about some places, in order, each with the side (1: true, 2: false) that leads there.

    Those around a place, loops too, and those before it of which one side ends in a jump past it.
    """
    found: dict[int, list[tuple[int, int]]] = {at: [] for at in places}
    ordered = sorted(places)
    for pc, branch in enumerate(code.instructions):
        if branch.kind is not Kind.BRANCH:
            continue
        if branch.loop:
            for at in ordered:
                if pc < at < branch.merge:
                    found[at].append((pc, 1))
            continue
        past = _past(code, branch)
        for at in ordered:
            if pc < at < branch.merge:
                found[at].append((pc, 1 if at < branch.target else 2))
            elif branch.merge <= at < past:
                found[at].append((pc, 2))
    return found


def _past(code: Code, branch: Instruction) -> int:
    """Where the true side of a branch goes on, when it ends in a jump out of it."""
    last = code.instructions[branch.target - 2]  # before the jump over the other side
    if last.kind is Kind.EXIT:
        return len(code.instructions)
    return last.target if last.kind is Kind.JUMP and not last.loop else -1


def _excused(op: ir.Operation, at: int, guards: list[tuple[int, int]], code: Code, reader: Reader) -> bool:
    given: set[int] = set()
    for pc, side in guards:
        branch = code.instructions[pc]
        if not branch.sides & side:
            return branch.sides != 0 and _never(branch, op, reader, given)
        if pc < at < branch.merge and not branch.loop:
            given.add(id(branch.tree))
    return op.predicate is not None and reader.fixed(op.predicate, given, id(op))


def _never(branch: Instruction, op: ir.Operation, reader: Reader, given: set[int]) -> bool:
    """No input leads threads to the other side of a branch, or only a test that fails, which the model has not."""
    test = branch.tree
    if test is None:
        return False
    if op.name in TESTS and reader.tested(test, TESTS):
        return True
    return reader.fixed(test, given, id(test))
