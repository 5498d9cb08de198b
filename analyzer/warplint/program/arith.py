"""Arithmetic over resolved expressions: C conversions made explicit, constants folded, pointer steps in bytes."""

from __future__ import annotations

from collections.abc import Callable

from warplint.program import ir
from warplint.program.ctypes import BOOL, INT, SIZES, U64, UNKNOWN, CType, promote, wrap
from warplint.program.scope import ZERO, LocalPlace, Typed

COMPARE = frozenset({"==", "!=", "<", "<=", ">", ">="})
_WRAPPING = frozenset({"+", "-", "*", "<<"})


def truncated(a: int, b: int) -> tuple[int, int]:
    """Quotient and remainder of C division (towards zero); `b` is not 0."""
    quotient = abs(a) // abs(b)
    if (a < 0) != (b < 0):
        quotient = -quotient
    return quotient, a - quotient * b


_FOLD: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: truncated(a, b)[0],
    "%": lambda a, b: truncated(a, b)[1],
    "<<": lambda a, b: a << b,
    ">>": lambda a, b: a >> b,
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "&&": lambda a, b: int(bool(a) and bool(b)),
    "||": lambda a, b: int(bool(a) or bool(b)),
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
    ">": lambda a, b: int(a > b),
    ">=": lambda a, b: int(a >= b),
    "min": min,
    "max": max,
}


def unknown(reason: str, type_: CType = UNKNOWN, uniform: bool = False) -> Typed:
    """A value that could not be resolved."""
    return Typed(ir.Unknown(reason, uniform), type_)


def fold(op: str, a: int, b: int) -> int | None:
    """The value of a constant operation, None when it has none (division by zero, an absurd shift)."""
    if op in ("/", "%") and b == 0:
        return None
    if op in ("<<", ">>") and not 0 <= b < 128:
        return None
    return _FOLD[op](a, b)


def join(op: str, left: ir.Expr, right: ir.Expr) -> ir.Expr:
    """`left op right` with constants folded and neutral elements dropped; no conversion."""
    if isinstance(right, ir.Const):
        if isinstance(left, ir.Const):
            value = fold(op, left.value, right.value)
            return ir.Unknown("division by zero") if value is None else ir.Const(value)
        if right.value == 0 and op in ("+", "-", "|", "^", "<<", ">>"):
            return left
        if right.value == 1 and op in ("*", "/"):
            return left
        if right.value == 0 and op in ("*", "&"):
            return ZERO
    elif isinstance(left, ir.Const):
        if left.value == 0 and op in ("+", "|", "^"):
            return right
        if left.value == 0 and op in ("*", "&", "<<", ">>"):
            return ZERO
        if left.value == 1 and op == "*":
            return right
    return ir.Binary(op, left, right)


def step(pointer: ir.Expr, offset: ir.Expr) -> ir.Expr:
    """A pointer moved by a number of bytes."""
    if isinstance(pointer, ir.Address):
        return ir.Address(pointer.symbol, join("+", pointer.offset, offset))
    if isinstance(offset, ir.Const) and isinstance(pointer, ir.Binary) and pointer.op == "+":
        if isinstance(pointer.right, ir.Const):
            return join("+", pointer.left, ir.Const(pointer.right.value + offset.value))
    return join("+", pointer, offset)


def scaled(index: ir.Expr, size: int | None, what: str) -> ir.Expr:
    """An element index as a number of bytes."""
    if isinstance(index, ir.Const) and index.value == 0:
        return ZERO
    if size is None:
        return ir.Unknown(f"the size of {what} is not known")
    return join("*", index, ir.Const(size))


def convert(value: Typed, type_: CType) -> Typed:
    """A cast: explicit, or implied by an assignment or a parameter."""
    expr, have, place = value
    if type_ is have:
        return value
    if type_ in (UNKNOWN, have) or type_.dims:
        return value if type_ == UNKNOWN else Typed(expr, type_, place)
    if type_.pointer:
        if have.pointer and place is not None:
            return Typed(expr, type_, view(place, type_.pointee))
        return Typed(expr, type_, None)
    if not type_.scalar:
        return Typed(expr, type_, place)
    if type_.name == "bool" and is_address(expr):
        return Typed(ir.Const(1), type_)
    if have == UNKNOWN and type_.name != "bool":
        if type(expr) is ir.Load and type_.integer and SIZES.get(type_.name) == SIZES.get(expr.type):
            expr = ir.Load(expr.pointer, type_.cast, expr.volatile)  # a register takes the sign of its variable
        return Typed(expr, type_, place)
    if have.pointer or is_address(expr):  # an address keeps its region, whatever integer holds it
        return Typed(expr, type_, place if have.pointer else None)
    if isinstance(expr, ir.Const):
        if type_.integer:
            return Typed(ir.Const(wrap(expr.value, type_.name)), type_)
        return Typed(expr, type_)
    if widens(have, type_) or (type_.integer and is_truth(expr)):
        return Typed(expr, type_)
    return Typed(ir.Cast(type_.cast, expr), type_)


def view(place: object, type_: CType) -> LocalPlace | None:
    """A local seen through a pointer to `type_`."""
    if not isinstance(place, LocalPlace):
        return None
    if place.type == type_ or type_.name == "void":
        return place
    leaf = place.type
    same = leaf.scalar and type_.scalar and size_of_scalar(leaf) == size_of_scalar(type_)
    if place.origin is not None:
        return place._replace(type=type_)
    return place._replace(type=type_) if same else place._replace(type=type_, origin=place)


def size_of_scalar(type_: CType) -> int | None:
    """Bytes of an arithmetic type or pointer."""
    return 8 if type_.pointer else SIZES.get(type_.name)


def widens(have: CType, want: CType) -> bool:
    """Every value of `have` is the same number in `want`: the conversion changes nothing."""
    if have.integer and want.integer:
        small, large = SIZES[have.name], SIZES[want.name]
        unsigned_from, unsigned_to = have.name[0] in "ub", want.name[0] in "ub"
        if want.name == "bool":
            return have.name == "bool"
        return (unsigned_from and small < large) or (small <= large and unsigned_from == unsigned_to)
    return False


def is_address(expr: ir.Expr) -> bool:
    """A statically known address (possibly moved)."""
    return isinstance(expr, ir.Address) or (
        isinstance(expr, ir.Binary) and expr.op == "+" and isinstance(expr.left, ir.Address)
    )


_TRUTH_OPS = frozenset({"elect.sync", "mbarrier.try_wait", "mbarrier.test_wait"})


def is_truth(expr: ir.Expr) -> bool:
    """The expression is 0 or 1."""
    match expr:
        case ir.Binary(op=op):
            return op in COMPARE or op in ("&&", "||")
        case ir.Unary(op=op):
            return op == "!"
        case ir.Cast(type=name):
            return name == "bool"
        case ir.OpValue(op=op, output=output):
            return output == "value" and op.name in _TRUTH_OPS
    return False


def truth(value: Typed) -> ir.Expr:
    """The value as a condition."""
    if is_address(value.expr):
        return ir.Const(1)
    return value.expr


def select(test: ir.Expr, yes: Typed, no: Typed) -> Typed:
    """`test ? yes : no` after the usual conversions."""
    if isinstance(test, ir.Const):
        return yes if test.value else no
    if isinstance(yes.expr, ir.Const) and isinstance(no.expr, ir.Const) and is_truth(test):
        if yes.expr.value == 1 and no.expr.value == 0:
            return Typed(test, promote(yes.type, no.type))
        if yes.expr.value == 0 and no.expr.value == 1:
            return Typed(ir.Unary("!", test), promote(yes.type, no.type))
    if yes.type.pointer or no.type.pointer:
        type_ = yes.type if yes.type.pointer else no.type
        return Typed(ir.Select(test, yes.expr, no.expr), type_)
    if yes.type == no.type or not (yes.type.scalar and no.type.scalar):
        type_ = yes.type if yes.type != UNKNOWN else no.type
        if yes.expr == no.expr:
            return Typed(yes.expr, type_)
        return Typed(ir.Select(test, yes.expr, no.expr), type_)
    type_ = promote(yes.type, no.type)
    return Typed(ir.Select(test, convert(yes, type_).expr, convert(no, type_).expr), type_)


def unary(op: str, value: Typed) -> Typed:
    """Unary `-`, `+`, `!`, `~`."""
    expr, type_, _ = value
    if op == "!":
        if isinstance(expr, ir.Const):
            return Typed(ir.Const(int(not expr.value)), BOOL)
        return Typed(ir.Unary("!", truth(value)), BOOL)
    if type_.floating:
        return Typed(ir.Pure(f"operator{op}", (expr,), True), type_)
    type_ = promote(type_, INT) if type_.integer else type_
    if op == "+":
        return Typed(expr, type_)
    if isinstance(expr, ir.Const):
        return Typed(ir.Const(wrap(-expr.value if op == "-" else ~expr.value, type_.name)), type_)
    result: ir.Expr = ir.Unary(op, expr)
    if type_.name[:1] == "u":
        result = ir.Cast(type_.cast, result)
    return Typed(result, type_)


def binary(op: str, left: Typed, right: Typed, size: Callable[[CType], int | None]) -> Typed:
    """`left op right` as C++ evaluates it. `size` gives the bytes of a type, for pointer arithmetic."""
    if op in ("&&", "||"):
        return logical(op, left, right)
    if left.type is INT and right.type is INT and not (op == "<<" or op in COMPARE) and not is_address(left.expr):
        if not is_address(right.expr):  # plain `int` arithmetic: most of what there is
            result = join(op, left.expr, right.expr)
            return Typed(ir.Const(wrap(result.value, "i32")) if isinstance(result, ir.Const) else result, INT)
    if left.type.pointer or right.type.pointer:
        return _pointers(op, left, right, size)
    if left.type.floating or right.type.floating:
        type_ = BOOL if op in COMPARE else promote(left.type, right.type)
        if op in ("<", "<=", ">", ">="):
            exact = _quotient(op, left, right)
            if exact is not None:
                return Typed(exact, BOOL)
        return Typed(ir.Pure(f"operator{op}", (left.expr, right.expr), True), type_)
    if op in ("<<", ">>"):
        type_ = promote(left.type, INT) if left.type.integer else left.type
        right_expr = right.expr
    else:
        type_ = promote(left.type, right.type)
        left, right_expr = _widened(left, type_), _widened(right, type_).expr
    if op in COMPARE:
        if (
            op in ("==", "!=")
            and isinstance(right_expr, ir.Const)
            and right_expr.value in (0, 1)
            and is_truth(left.expr)
        ):
            same = (op == "==") == (right_expr.value == 1)
            return Typed(left.expr if same else ir.Unary("!", left.expr), BOOL)
        return Typed(join(op, left.expr, right_expr), BOOL)
    if op in ("+", "-") and is_address(left.expr):
        if op == "-" and is_address(right_expr):
            return Typed(_distance(left.expr, right_expr), type_)
        moved = right_expr if op == "+" else join("-", ZERO, right_expr)
        return Typed(step(left.expr, moved), type_)
    if op == "+" and is_address(right_expr):
        return Typed(step(right_expr, left.expr), type_)
    if op in ("|", "^") and isinstance(right_expr, ir.Const) and right_expr.value == 0:
        return Typed(left.expr, type_)
    result = join(op, left.expr, right_expr)
    if isinstance(result, ir.Const):
        return Typed(ir.Const(wrap(result.value, type_.name)), type_)
    if isinstance(result, ir.Binary) and (
        (type_.name[:1] == "u" and op in _WRAPPING) or _shifts_out(op, type_, right_expr)
    ):
        result = ir.Cast(type_.cast, result)
    return Typed(result, type_)


def _quotient(op: str, left: Typed, right: Typed) -> ir.Expr | None:
    """`tid < blockDim.x / 32.f` in integers: `tid * 32 < blockDim.x` (both are exact below 2^24)."""
    match right.expr:
        case ir.Pure(name="operator/", args=(ir.Special() as whole, ir.Const(value=by))):
            pass
        case ir.Pure(name="operator/", args=(ir.Special() as whole, ir.Unknown(whole=int() as by))):
            pass
        case _:
            return None
    if by <= 0 or not left.type.integer:
        return None
    return ir.Binary(op, ir.Binary("*", left.expr, ir.Const(by)), whole)


def _shifts_out(op: str, type_: CType, amount: ir.Expr) -> bool:
    """A left shift of an `int` by an amount that varies: how wide it was shifted must stay visible."""
    return op == "<<" and type_ is INT and not isinstance(amount, ir.Const)


def _widened(value: Typed, type_: CType) -> Typed:
    """An operand after the usual conversions; a constant that fits needs no cast."""
    if value.type == type_ or not value.type.integer or not type_.integer:
        return value
    return convert(value, type_)


def logical(op: str, left: Typed, right: Typed) -> Typed:
    """`&&` and `||` of two conditions (short circuit is the caller's business)."""
    a, b = truth(left), truth(right)
    if isinstance(a, ir.Const):
        if bool(a.value) == (op == "||"):
            return Typed(ir.Const(int(op == "||")), BOOL)
        return Typed(b if not isinstance(b, ir.Const) else ir.Const(int(b.value != 0)), BOOL)
    if isinstance(b, ir.Const) and bool(b.value) == (op == "&&"):
        return Typed(a, BOOL)
    return Typed(ir.Binary(op, a, b), BOOL)


def _pointers(op: str, left: Typed, right: Typed, size: Callable[[CType], int | None]) -> Typed:
    if op in COMPARE:
        a, b = left.expr, right.expr
        if isinstance(a, ir.Address) and isinstance(b, ir.Address) and a.symbol is b.symbol:
            return Typed(join(op, a.offset, b.offset), BOOL)
        if (is_address(a) and b == ZERO) or (is_address(b) and a == ZERO):
            return Typed(ir.Const(int(op in ("!=", ">", ">="))), BOOL)
        return Typed(ir.Binary(op, a, b), BOOL)
    if op == "-" and left.type.pointer and right.type.pointer:
        bytes_ = _distance(left.expr, right.expr)
        width = size(left.type.pointee)
        return Typed(join("/", bytes_, ir.Const(width)) if width else ir.Unknown("pointer difference"), CType("i64"))
    if op in ("+", "-"):
        if op == "+" and not left.type.pointer:
            left, right = right, left
        count = right.expr if op == "+" else join("-", ZERO, right.expr)
        return advance(left, count, size(left.type.pointee))
    return Typed(ir.Binary(op, left.expr, right.expr), U64)


def advance(pointer: Typed, count: ir.Expr, width: int | None) -> Typed:
    """A pointer moved by `count` elements of `width` bytes."""
    name = f"`{pointer.type.pointee.name}`"
    place = pointer.place
    if isinstance(place, LocalPlace):
        if place.origin is not None:
            place = place._replace(shift=join("+", place.shift, scaled(count, width, name)))
        else:
            inner = place.type.count() or 1
            place = place._replace(index=join("+", place.index, join("*", count, ir.Const(inner))))
    else:
        place = None
    return Typed(step(pointer.expr, scaled(count, width, name)), pointer.type, place)


def _distance(left: ir.Expr, right: ir.Expr) -> ir.Expr:
    if isinstance(left, ir.Address) and isinstance(right, ir.Address) and left.symbol is right.symbol:
        return join("-", left.offset, right.offset)
    return ir.Binary("-", left, right)
