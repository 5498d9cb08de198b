"""A lane mask of a 64-lane wave is held or built in 32 bits.

## Why
On CDNA (gfx9) a wave has 64 lanes: `__ballot` and `__activemask` return 64 bits. Stored in an `unsigned`, or built
with a 32-bit shift, the mask loses the lanes 32 to 63, and everything that is counted or compared with it is wrong
for half of the wave. The code compiles and is right on 32-lane hardware.

## Bad
```cuda
// warplint: --arch gfx942
#include <hip/hip_runtime.h>
extern "C" __global__ void __launch_bounds__(64) rank(int* out, const int* in) {
  int lane = threadIdx.x & 63;
  unsigned int mask = __ballot(in[lane] > 0);
  out[lane] = __popc(mask);
}
```

## Good
```cuda
// warplint: --arch gfx942
#include <hip/hip_runtime.h>
extern "C" __global__ void __launch_bounds__(64) rank(int* out, const int* in) {
  int lane = threadIdx.x & 63;
  unsigned long long mask = __ballot(in[lane] > 0);
  out[lane] = __popcll(mask);
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.program.ir import Assign, Binary, Cast, Const, Expr, OpValue, Special, Store, Unary, Var, walk
from warplint.rule import Rule
from warplint.source import Span
from warplint.threads.facts import Roles
from warplint_rules._expr import parts
from warplint_rules._say import Reporter
from warplint_rules.participation._dataflow import assignments

RULE = Rule(Level.ERROR, Symptom.WRONG_RESULT)
SAY = Reporter(__name__, RULE)

_WORDS = ("u32", "i32", "u16", "i16", "u8", "i8")
_WIDE = ("u64", "i64")
_MASK_BITS = ("&", "|", "^")
_MAX_NODES = 2_000


def check(roles: Roles) -> Iterator[Finding]:
    """Ballots assigned to 32-bit locals, and lane-dependent shifts in 32 bits that are widened afterwards."""
    if not roles.kernel.is_amd or roles.launch.warp_size != 64:
        return
    said: set[Span] = set()
    for stmt in walk(roles.kernel.body):
        if not isinstance(stmt, Assign | Store) or stmt.span in said:
            continue
        value = stmt.value.expr
        if isinstance(stmt, Assign) and stmt.symbol.type in _WORDS and (ballot := _mask_of(value)) is not None:
            said.add(stmt.span)
            yield SAY.at(
                roles,
                stmt.span,
                f"The 64-bit lane mask of `{ballot.op.spelling}` is held in the 32-bit `{stmt.symbol.name}`.",
                why="Lanes 32 to 63 of the wave are cut off; counts and positions computed from the mask are wrong.",
                remedy="Use `unsigned long long` for the mask, with `__popcll`/`__ffsll` and 64-bit shifts "
                "(`1ull << lane`).",
            )
        elif (amount := _narrow_shift(value)) is not None and _may_pass(roles, amount):
            said.add(stmt.span)
            yield SAY.at(
                roles,
                stmt.span,
                "A lane mask is shifted in 32 bits and widened to 64 afterwards; the shift goes past bit 31 for lanes "
                "of the upper half of the wave.",
                why="The bits for lanes 32 to 63 are lost (shifting a 32-bit value that far is undefined) before the "
                "value becomes 64 bits wide.",
                remedy="Make the left side 64 bits wide (`1ull << n`).",
            )


def _mask_of(value: Expr) -> OpValue | None:
    """The ballot whose mask the value is, through masking and casts (not through counting or comparing)."""
    stack, seen = [value], 0
    while stack and seen < _MAX_NODES:
        seen += 1
        match stack.pop():
            case OpValue(op=op) as found if op.name in ("amd.ballot", "activemask") or (
                op.name == "hip.warp_sync_builtins" and op.mods.get("kind") == "ballot"
            ):
                return found
            case Binary(op=op, left=left, right=right) if op in _MASK_BITS:
                stack += [right, left]
            case Cast(type=type_, arg=arg) if type_ in (*_WORDS, *_WIDE):
                stack.append(arg)
            case Unary(op="~", arg=arg):
                stack.append(arg)
            case _:
                pass
    return None


def _narrow_shift(value: Expr) -> Expr | None:
    """The amount of a 32-bit left shift whose result is widened to 64 bits."""
    stack, seen = [value], 0
    while stack and seen < _MAX_NODES:
        seen += 1
        top = stack.pop()
        match top:
            case Cast(type=wide, arg=Cast(type=narrow, arg=Binary(op="<<", right=amount))) if (
                wide in _WIDE and narrow in ("u32", "i32")
            ):
                return amount
            case _:
                stack.extend(parts(top))
    return None


def _may_pass(roles: Roles, amount: Expr) -> bool:
    """The shift amount depends on the lane and reaches 32 for lanes of the wave."""
    most = _most(roles, amount, 0)
    return most is not None and most >= 32


def _most(roles: Roles, expr: Expr, depth: int) -> int | None:
    """The largest value that an expression of thread indices and constants takes, None when it is something else."""
    if depth > 20:
        return None
    match expr:
        case Const(value=value):
            return value
        case Special(name=name) if name in ("tid.x", "linear_tid"):
            return max(roles.threads - 1, 0)
        case Special(name="laneid"):
            return roles.launch.warp_size - 1
        case Cast(arg=arg):
            return _most(roles, arg, depth + 1)
        case Binary(op=op, left=left, right=right):
            one, two = _most(roles, left, depth + 1), _most(roles, right, depth + 1)
            if one is None or two is None:
                return None
            if op == "&":
                return min(one, two)
            if op == "%":
                return min(one, two - 1)
            if op in ("+", "*"):
                return one + two if op == "+" else one * two
            if op in ("/", ">>") and isinstance(right, Const) and right.value > 0:
                return one // right.value if op == "/" else one >> right.value
        case Var(symbol=symbol):
            values = assignments(roles.kernel).get(id(symbol), [])
            if len(values) == 1:
                return _most(roles, values[0], depth + 1)
    return None
