"""Values that grow by the same amount in every repetition of a state.

When the machine finds the state it was in before (`repeats`), it executes the stretch between once more, and every
variable that has grown in between is a `Line`: its value in repetition 0 and what is added in each later one. What is
computed from lines is a line again, or the same in every repetition, or nothing is known of it (`step` None). A
comparison holds for so many repetitions and no more; that is recorded in the `Trial`.
"""

from __future__ import annotations

from warplint.machine import values as v
from warplint.machine.line import FOREVER, Line, Trial
from warplint.machine.values import Value
from warplint.program import ir

COMPARISONS = frozenset({"==", "!=", "<", "<=", ">", ">="})


def truth(line: Line) -> Value:
    """Whether a line is non-zero, and how long that stays so."""
    if line.step is None:
        line.trial.failed = True
    else:
        compared("!=", line, 0)
    return v.binary("!=", line.value, 0)


def line(value: int | tuple[int, ...], step: int | None, trial: Trial, *of: Value) -> Value:
    """A line, made of values `of`, or a plain value where nothing grows."""
    return value if step == 0 else Line(value, step, trial, step is None and carried(*of))


def carried(*of: Value) -> bool:
    """Some of the values is carried (`Line.carried`)."""
    return any(isinstance(value, Line) and value.carried for value in map(_number, of))


def _number(value: Value) -> Value:
    place = value.place if isinstance(value, v.Packed) else value
    return place.offset if isinstance(place, v.Place) else place


def bare(value: Value) -> Value:
    """A value as it is in repetition 0, whatever it will be later; one without lines is returned itself."""
    if isinstance(value, Line):
        return value.value
    if isinstance(value, v.Place) and isinstance(value.offset, Line):
        return v.Place(value.base, value.offset.value, value.cta)
    if isinstance(value, v.Packed) and isinstance(value.place.offset, Line):
        return v.Packed(v.Place(value.place.base, value.place.offset.value, value.place.cta), value.unit)
    return value


def trial_of(value: Value) -> Trial:
    """The trial of a value that contains a line."""
    place = value.place if isinstance(value, v.Packed) else value
    line = place.offset if isinstance(place, v.Place) else place
    assert isinstance(line, Line)
    return line.trial


def settled(value: Value) -> Value:
    """A value that something depends on: it must be the same in every repetition (global addresses may grow)."""
    if isinstance(value, Line):
        value.trial.failed = True
        return value.value
    place = value.place if isinstance(value, v.Packed) else value
    if isinstance(place, v.Place) and isinstance(place.offset, Line):
        base = place.base
        if isinstance(base, ir.Symbol) and base.kind in ("shared", "dynamic_shared"):
            place.offset.trial.failed = True
        return bare(value)
    return value


def parts(value: Value) -> tuple[int | tuple[int, ...], int | None] | None:
    """Value and step; None for what is no number."""
    if isinstance(value, Line):
        return value.value, value.step
    return (value, 0) if isinstance(value, int | tuple) else None


def binary(op: str, left: Value, right: Value) -> Value:
    """An operator of which at least one side is a line and none an address or unknown."""
    one, two = parts(left), parts(right)
    trial = left.trial if isinstance(left, Line) else right.trial  # type: ignore[union-attr]
    assert one is not None and two is not None
    (a, da), (b, db) = one, two
    if op in COMPARISONS:
        return compared(op, left, right)
    if op in ("&&", "||") and da is not None and db is not None:
        first = truth(left) if isinstance(left, Line) else left
        second = truth(right) if isinstance(right, Line) else right
        return v.binary(op, first, second)
    value = v.binary(op, a, b)
    if not isinstance(value, int | tuple):
        trial.failed = True  # a division by 0 in some thread
        return value
    step: int | None = None
    if da is not None and db is not None:
        step = _step(op, a, da, b, db, trial)
    return line(value, step, trial, left, right)


def _step(op: str, a: int | tuple, da: int, b: int | tuple, db: int, trial: Trial) -> int | None:
    """How much the result grows in each repetition; None when that is not the same for all."""
    if op == "+":
        return da + db
    if op == "-":
        return da - db
    if op == "*":
        if db == 0 and isinstance(b, int):
            return da * b
        return db * a if da == 0 and isinstance(a, int) else None
    if db or not isinstance(b, int):
        if op in ("|", "^", "&") and da == 0 and isinstance(a, int):
            return _step(op, b, db, a, 0, trial)
        return None
    if op in ("/", "%") and b > 0 and da % b == 0:
        lowest = a if isinstance(a, int) else min(a)
        if lowest < 0:
            return None
        if da < 0:
            trial.until(lowest // -da)
        return da // b if op == "/" else 0
    if op == "<<" and 0 <= b < 64:
        return da << b
    if op == ">>" and 0 <= b < 64 and da % (1 << b) == 0:
        return da >> b
    if op in ("&", "|", "^") and b >= 0 and da % (1 << b.bit_length()) == 0:
        return 0 if op == "&" else da
    return None


def compared(op: str, left: Value, right: Value) -> Value:
    """A comparison: its result now, and the repetitions for which it stays."""
    one, two = parts(left), parts(right)
    trial = left.trial if isinstance(left, Line) else right.trial  # type: ignore[union-attr]
    assert one is not None and two is not None
    (a, da), (b, db) = one, two
    result = v.binary(op, a, b)
    if da is None or db is None:
        return line(result, None, trial, left, right)  # type: ignore[arg-type]
    grows = da - db
    if grows:
        difference = v.binary("-", a, b)
        for each in {difference} if isinstance(difference, int) else set(difference):  # type: ignore[arg-type]
            trial.until(_stays(op, each, grows))
    return result


def _stays(op: str, gap: int, grows: int) -> int:
    """The last repetition r in which `gap + grows * r` compares with 0 as it does in repetition 0."""
    if op in ("==", "!="):
        if gap == 0:
            return 0
        meets = -gap % grows == 0 and -gap // grows > 0
        return -gap // grows - 1 if meets else FOREVER
    if op in (">", "<="):
        gap, grows = -gap, -grows
    if gap < 0:
        return (-gap - 1) // grows if grows > 0 else FOREVER
    return gap // -grows if grows < 0 else FOREVER


def unary(op: str, arg: Line) -> Value:
    """A unary operator on a line."""
    if op == "!":
        if arg.step is not None:
            return v.unary(op, truth(arg))
        return line(v.unary(op, arg.value), None, arg.trial, arg)  # type: ignore[arg-type]
    value = v.unary(op, arg.value)
    step = None if arg.step is None else arg.step if op == "+" else -arg.step
    return line(value, step, arg.trial, arg)  # type: ignore[arg-type]


def cast(kind: str, arg: Line) -> Value:
    """A conversion: a line for as long as nothing wraps."""
    if kind == "bool":
        if arg.step is not None:
            return truth(arg)
        return line(v.cast(kind, arg.value), None, arg.trial, arg)  # type: ignore[arg-type]
    value = v.cast(kind, arg.value)
    step = arg.step
    if kind in v.WIDTH and step:
        bits, signed = v.WIDTH[kind]
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        if value != arg.value:
            step = None
        else:
            least, most = (value, value) if isinstance(value, int) else (min(value), max(value))  # type: ignore[arg-type]
            arg.trial.until((high - most) // step if step > 0 else (least - low) // -step)
    return line(value, step, arg.trial, arg)  # type: ignore[arg-type]


def select(test: Value, yes: Value, no: Value) -> Value:
    """`test ? yes : no` with a line in it."""
    if isinstance(test, Line):
        if test.step is None:
            return lost(v.select(test.value, bare(yes), bare(no)), test.trial, test, yes, no)
        return v.select(truth(test), yes, no)
    one, two = parts(yes), parts(no)
    trial = yes.trial if isinstance(yes, Line) else no.trial  # type: ignore[union-attr]
    value = v.select(test, bare(yes), bare(no))
    if not isinstance(value, int | tuple):
        return value
    if one is None or two is None or one[1] is None or one[1] != two[1]:
        return lost(value, trial, yes, no)
    return line(value, one[1], trial)


def mix(old: Value, new: Value, threads: list[int], size: int) -> Value:
    """One value for some threads, another for the rest."""
    one, two = parts(old), parts(new)
    trial = old.trial if isinstance(old, Line) else new.trial  # type: ignore[union-attr]
    value = v.mix(bare(old), bare(new), threads, size)
    if not isinstance(value, int | tuple):
        return value
    if one is None or two is None or one[1] is None or one[1] != two[1]:
        return lost(value, trial, old, new)
    return line(value, one[1], trial)


def lost(value: Value, trial: Trial, *of: Value) -> Value:
    """A value, made of `of`, of which only repetition 0 is known."""
    if isinstance(value, int | tuple):
        return line(value, None, trial, *of)
    if isinstance(value, v.Place) and isinstance(value.offset, int | tuple):
        return v.Place(value.base, line(value.offset, None, trial, *of), value.cta)
    return value
