"""What an expression is when its operation is executed for the first time.

A ring index that starts at 0 makes `buffer[stage]` the first buffer on the first trip. That is a fact when the only
assignment that can come before the operation is one constant: then the address is certainly used once, whatever the
later trips do.
"""

from __future__ import annotations

from msgspec import Struct

from warplint.memo import remembered
from warplint.program.ir import (
    Address,
    Assign,
    Binary,
    Cast,
    Const,
    Do,
    Element,
    Expr,
    Load,
    Operation,
    Symbol,
    Unary,
    Var,
    parts,
    walk,
)
from warplint.threads.facts import Roles

_MAX_DEPTH = 40


class _Text(Struct, frozen=True):
    """Positions in program order of operations and of assignments to locals."""

    ops: dict[int, int]
    assigns: dict[Symbol, list[tuple[int, Assign]]]


@remembered(2)
def _text(roles: Roles) -> _Text:
    ops: dict[int, int] = {}
    assigns: dict[Symbol, list[tuple[int, Assign]]] = {}
    for at, stmt in enumerate(walk(roles.kernel.body)):
        if isinstance(stmt, Do):
            ops.setdefault(id(stmt.op), at)
        elif isinstance(stmt, Assign):
            assigns.setdefault(stmt.symbol, []).append((at, stmt))
    return _Text(ops, assigns)


def first_address(roles: Roles, op: Operation, role: str) -> tuple[Symbol, int] | None:
    """The symbol and byte offset of an address operand at the operation's first execution; None when not certain."""
    expr = op.operands.get(role)
    at = _text(roles).ops.get(id(op))
    if expr is None or at is None:
        return None
    return _address(_text(roles), expr, at, _MAX_DEPTH)


def first_value(roles: Roles, op: Operation, role: str) -> int | None:
    """The value of an integer operand at the operation's first execution; None when not certain."""
    expr = op.operands.get(role)
    at = _text(roles).ops.get(id(op))
    return None if expr is None or at is None else _value(_text(roles), expr, at, _MAX_DEPTH)


def _address(text: _Text, expr: Expr, at: int, depth: int) -> tuple[Symbol, int] | None:
    if depth <= 0:
        return None
    match expr:
        case Address(symbol=symbol, offset=offset):
            value = _value(text, offset, at, depth - 1)
            return None if value is None else (symbol, value)
        case Cast(arg=arg):
            return _address(text, arg, at, depth - 1)
        case Binary(op="+", left=left, right=right):
            for base, rest in ((left, right), (right, left)):
                found = _address(text, base, at, depth - 1)
                if found is not None:
                    value = _value(text, rest, at, depth - 1)
                    return None if value is None else (found[0], found[1] + value)
            return None
        case Var(symbol=symbol) if symbol.kind in ("shared", "dynamic_shared"):
            return symbol, 0
        case Var(symbol=symbol) | Element(symbol=symbol):
            one = _only(text, symbol, at)
            return None if one is None else _address(text, one[1].value.expr, one[0], depth - 1)
    return None


def _value(text: _Text, expr: Expr, at: int, depth: int) -> int | None:
    if depth <= 0:
        return None
    match expr:
        case Const(value=value):
            return value
        case Cast(arg=arg):
            return _value(text, arg, at, depth - 1)
        case Unary(op="-", arg=arg):
            value = _value(text, arg, at, depth - 1)
            return None if value is None else -value
        case Binary(op=op, left=left, right=right):
            a, b = _value(text, left, at, depth - 1), _value(text, right, at, depth - 1)
            return None if a is None or b is None else _apply(op, a, b)
        case Var(symbol=symbol) | Element(symbol=symbol, index=Const(value=0)) if symbol.kind == "local":
            one = _only(text, symbol, at)
            return None if one is None else _value(text, one[1].value.expr, one[0], depth - 1)
    return None


def _apply(op: str, a: int, b: int) -> int | None:
    if a < 0 or b < 0:
        return a + b if op == "+" else a - b if op == "-" else a * b if op == "*" else None
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "/":
            return a // b if b else None
        case "%":
            return a % b if b else None
        case "<<":
            return a << b if b < 64 else None
        case ">>":
            return a >> b
        case "&":
            return a & b
        case "|":
            return a | b
        case "^":
            return a ^ b
    return None


def _only(text: _Text, symbol: Symbol, at: int) -> tuple[int, Assign] | None:
    """The one assignment to a local that stands before a place, if there is just one."""
    found = text.assigns.get(symbol, ())
    if not found or found[0][0] >= at or (len(found) > 1 and found[1][0] < at):
        return None
    return found[0]


def order_before(roles: Roles, stmt: Assign) -> float:
    """Where an assignment stands in the program order of events: half a step behind the last operation before it."""
    at = next(at for at, one in _text(roles).assigns[stmt.symbol] if one is stmt)
    return _last_order(roles, at) + 0.5


def _last_order(roles: Roles, at: int) -> int:
    text = _text(roles)
    last = 0
    for event in roles.events:
        if text.ops.get(id(event.op), at) < at and not event.iteration:
            last = max(last, event.order)
    return last


def loads_before(roles: Roles, places: set[tuple[Symbol, int]], order: int) -> bool:
    """Whether an assignment that stands before a place in program order may load one of some shared words."""
    text = _text(roles)
    ends = [text.ops[id(event.op)] for event in roles.events if event.order == order and id(event.op) in text.ops]
    symbols = [symbol for symbol, _ in places]
    for found in text.assigns.values():
        for at, stmt in found:
            if ends and at > ends[0]:
                break
            if any(_loads(stmt.value.expr, symbol) for symbol in symbols):
                return True
    return False


def only_assignment(roles: Roles, symbol: Symbol, op: Operation) -> Assign | None:
    """The one assignment to a local that stands before an operation, if there is just one."""
    text = _text(roles)
    at = text.ops.get(id(op))
    found = _only(text, symbol, at) if at is not None else None
    return found[1] if found is not None else None


def first_load(roles: Roles, op: Operation, load: Load) -> tuple[Symbol, int] | None:
    """The symbol and byte offset that a load on the way to an operation reads, when certain."""
    text = _text(roles)
    at = text.ops.get(id(op))
    return None if at is None else _address(text, load.pointer, at, _MAX_DEPTH)


def _loads(expr: Expr, symbol: Symbol) -> bool:
    stack = [expr]
    while stack:
        one = stack.pop()
        if isinstance(one, Load) and _names(one.pointer, symbol):
            return True
        stack.extend(parts(one))
    return False


def _names(expr: Expr, symbol: Symbol) -> bool:
    stack = [expr]
    while stack:
        one = stack.pop()
        if isinstance(one, Address | Var) and one.symbol is symbol:
            return True
        stack.extend(parts(one))
    return False
