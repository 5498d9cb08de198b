"""A lane mask of a 64-lane wave is held or built in 32 bits.

## Why
On CDNA (gfx9) a wave has 64 lanes: `__ballot` and `__activemask` return 64 bits. Stored in an `unsigned`, or built
with a 32-bit shift, or counted with `__popc`, the mask loses the lanes 32 to 63, and everything that is counted or
compared with it is wrong for half of the wave. The code compiles and is right on 32-lane hardware. (HIP: `__ballot`,
`__activemask` and the `*_sync` votes return `unsigned long long`.)

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

from collections.abc import Container, Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.program.ir import (
    Assign,
    Binary,
    Break,
    Cast,
    Const,
    Continue,
    Do,
    Exit,
    Expr,
    If,
    Kernel,
    Leave,
    Loop,
    Operation,
    OpValue,
    Pure,
    Select,
    Seq,
    Special,
    Stmt,
    Store,
    Unary,
    Var,
    children,
    parts,
)
from warplint.rule import Rule
from warplint.source import Span
from warplint.threads.facts import Event, Roles, warps_of
from warplint_rules._say import Reporter
from warplint_rules.participation._dataflow import assignments

RULE = Rule(Level.ERROR, Symptom.WRONG_RESULT)
SAY = Reporter(__name__, RULE)

_VOTES = ("amd.ballot", "activemask", "hip.warp_sync_builtins")
_WORDS = ("u32", "i32", "u16", "i16", "u8", "i8")
_WIDE = ("u64", "i64")
_MASK_BITS = ("&", "|", "^")
_KEEPS_WIDTH = ("&", "|", "^", "+", "-")
_COUNTERS = {"__popc": "__popcll", "__ffs": "__ffsll", "__clz": "__clzll", "__brev": "__brevll",
             "__builtin_popcount": "__builtin_popcountll", "__builtin_ctz": "__builtin_ctzll",
             "__builtin_clz": "__builtin_clzll", "__builtin_ffs": "__builtin_ffsll"}  # fmt: skip
"""Functions of 32 bits, each with the one for 64."""
_MAX_NODES = 2_000


def check(roles: Roles) -> Iterator[Finding]:
    """Ballots that lose their upper half, and lane-dependent shifts in 32 bits."""
    if not roles.kernel.is_amd or roles.launch.warp_size != 64:
        return
    places = list(_expressions(roles.kernel.body))
    # A mask may be taken apart on purpose: one half is what `x >> 32` leaves.
    whole = {id(op) for _, tree, _ in places for op in _upper_half(roles.kernel, tree)}
    whole.update(id(event.op) for event in roles.events if event.op.name in _VOTES and _in_lower_half(roles, event))
    said: set[Span] = set()
    for stmt, tree, _ in places:
        if stmt.span in said:
            continue
        for finding in _cut(roles, stmt, tree, whole):
            said.add(stmt.span)
            yield finding
            break
    held = bool(said)
    for stmt, tree, guarded in places:
        if guarded or stmt.span in said:
            continue
        for amount, widened in _narrow_shifts(tree):
            if (widened or not held) and _may_pass(roles, amount):
                said.add(stmt.span)
                yield _shifted(roles, stmt, widened)
                break


def _expressions(body: Stmt) -> Iterator[tuple[Stmt, Expr, bool]]:
    """Every expression of a statement, and whether a condition on the thread index may keep lanes away from it."""
    stack: list[tuple[Stmt, bool]] = [(body, False)]
    left = False
    while stack:
        stmt, guarded = stack.pop()
        guarded = guarded or left
        match stmt:
            case Assign(value=value):
                yield stmt, value.expr, guarded
            case Store(value=value, pointer=pointer):
                yield stmt, value.expr, guarded
                yield stmt, pointer.expr, guarded
            case Do(op=op):
                for operand in op.operands.values():
                    yield stmt, operand, guarded or op.predicate is not None
            case If(test=test):
                yield stmt, test.expr, guarded
                guarded = guarded or any(_per_lane(node) for node in _nodes(test.expr))
            case Loop(test=test) if test is not None:
                yield stmt, test.expr, guarded
                guarded = guarded or any(_per_lane(node) for node in _nodes(test.expr))
            case Exit() | Leave() | Break() | Continue() if guarded:
                left = True  # some lanes may be gone from here on
            case _:
                pass
        below = stmt.body if isinstance(stmt, Seq) else tuple(children(stmt))
        stack.extend((child, guarded) for child in reversed(below))


def _nodes(tree: Expr) -> Iterator[Expr]:
    stack, seen = [tree], 0
    while stack and seen < _MAX_NODES:
        seen += 1
        top = stack.pop()
        yield top
        stack.extend(reversed(parts(top)))


def _per_lane(node: Expr) -> bool:
    """A value that may differ between lanes: the thread index, or a local (which may hold it)."""
    return isinstance(node, Var | OpValue) or (isinstance(node, Special) and node.name[:3] in ("tid", "lan", "lin"))


# ------------------------------------------------------------------------------------- what holds a mask
def _cut(roles: Roles, stmt: Stmt, tree: Expr, whole: Container[int]) -> Iterator[Finding]:
    """A mask of the wave that is stored, converted or counted in 32 bits by an expression of a statement.

    `whole` are the ballots of which nothing is lost.
    """
    kernel = roles.kernel
    if isinstance(stmt, Assign) and stmt.symbol.type in _WORDS and (ballot := _mask_of(kernel, tree)) is not None:
        if id(ballot.op) in whole:
            return
        yield SAY.at(
            roles,
            stmt.span,
            f"The 64-bit lane mask of `{ballot.op.spelling}` is held in the 32-bit `{stmt.symbol.name}`.",
            why="Lanes 32 to 63 of the wave are cut off; counts and positions computed from the mask are wrong.",
            remedy="Use `unsigned long long` for the mask, with `__popcll`/`__ffsll` and 64-bit shifts "
            "(`1ull << lane`).",
        )
        return
    for node in _nodes(tree):
        if isinstance(node, Pure) and node.name in _COUNTERS and len(node.args) == 1:
            ballot = _mask_of(kernel, node.args[0])
            how, remedy = f"counted by the 32-bit `{node.name}`", f"Use `{_COUNTERS[node.name]}`."
        elif isinstance(node, Cast) and node.type in _WORDS:
            ballot = _mask_of(kernel, node.arg)
            how, remedy = "converted to 32 bits", "Keep the mask in `unsigned long long`."
        else:
            continue
        if ballot is not None and id(ballot.op) not in whole:
            if ballot.op.chain:
                remedy += f" `{ballot.op.spelling}` has to return 64 bits."
            yield SAY.at(
                roles,
                stmt.span,
                f"The 64-bit lane mask of `{ballot.op.spelling}` is {how}.",
                why="Lanes 32 to 63 of the wave are cut off; what is computed from the mask is wrong for them.",
                remedy=remedy,
            )


def _mask_of(kernel: Kernel, value: Expr) -> OpValue | None:
    """The ballot whose mask the value is, through masking, casts and 64-bit locals (not through counting)."""
    stack, seen = [value], 0
    followed: set[int] = set()
    while stack and seen < _MAX_NODES:
        seen += 1
        match stack.pop():
            case OpValue(op=op) as found if op.name in _VOTES and _gives_mask(op):
                return found
            case Binary(op=op, left=left, right=right) if op in _MASK_BITS:
                # What is masked with a 32-bit constant was wanted in 32 bits.
                if not any(isinstance(side, Const) and 0 <= side.value < 1 << 32 for side in (left, right)):
                    stack += [right, left]
            case Cast(type=type_, arg=arg) if type_ in _WIDE:
                stack.append(arg)
            case Unary(op="~", arg=arg):
                stack.append(arg)
            case Var(symbol=symbol) if symbol.type in _WIDE and id(symbol) not in followed:
                followed.add(id(symbol))
                values = assignments(kernel).get(id(symbol))
                if len(values) == 1:
                    stack.append(values[0])
            case _:
                pass
    return None


def _gives_mask(op: Operation) -> bool:
    """A vote whose result has a bit for each lane, as wide as the wave."""
    if op.spelling.endswith("_w32"):
        return False
    return op.name == "activemask" or op.mods.get("mode") == "ballot" or op.mods.get("kind") == "match"


def _upper_half(kernel: Kernel, tree: Expr) -> Iterator[Operation]:
    """The masks whose upper 32 lanes are taken by themselves somewhere in an expression."""
    for node in _nodes(tree):
        if isinstance(node, Binary) and node.op == ">>" and isinstance(node.right, Const) and node.right.value == 32:
            ballot = _mask_of(kernel, node.left)
            if ballot is not None:
                yield ballot.op


def _in_lower_half(roles: Roles, event: Event) -> bool:
    """Only lanes 0 to 31 of any wave come here: the mask has no more bits."""
    return all(not lanes >> 32 for lanes in warps_of(event.reach.threads, 64).values())


# --------------------------------------------------------------------------------------------- shifts
def _shifted(roles: Roles, stmt: Stmt, widened: bool) -> Finding:
    after = " and widened to 64 afterwards" if widened else ""
    return SAY.at(
        roles,
        stmt.span,
        f"A lane mask is shifted in 32 bits{after}; the shift goes past bit 31 for lanes of the upper half of the "
        "wave.",
        why="The bits for lanes 32 to 63 are lost (shifting a 32-bit value that far is undefined)"
        + (" before the value becomes 64 bits wide." if widened else "."),
        remedy="Make the left side 64 bits wide (`1ull << n`).",
    )


def _narrow_shifts(tree: Expr) -> Iterator[tuple[Expr, bool]]:
    """The amounts of left shifts done in 32 bits, and whether the result is widened to 64 afterwards."""
    stack: list[tuple[Expr, bool]] = [(tree, False)]
    seen = 0
    while stack and seen < _MAX_NODES:
        seen += 1
        top, widened = stack.pop()
        match top:
            case Cast(type=narrow, arg=Binary(op="<<", left=left, right=amount)) if narrow in ("u32", "i32"):
                yield amount, widened
                stack += [(left, False), (amount, False)]
            case Cast(type=wide, arg=arg) if wide in _WIDE:
                stack.append((arg, True))
            case Cast(arg=arg) | Unary(arg=arg):
                stack.append((arg, widened))
            case Binary(op=op, left=left, right=right) if op in _KEEPS_WIDTH:
                stack += [(left, widened), (right, widened)]
            case Select(test=test, yes=yes, no=no):
                stack.append((test, False))
                if not any(_per_lane(node) for node in _nodes(test)):
                    stack += [(yes, widened), (no, widened)]
            case Binary(op="&&" | "||", left=left):
                stack.append((left, False))
            case _:
                stack.extend((part, False) for part in parts(top))


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
        case Special(name="warpsize"):
            return roles.launch.warp_size
        case Cast(arg=arg):
            return _most(roles, arg, depth + 1)
        case Binary(op=op, left=left, right=right):
            one, two = _most(roles, left, depth + 1), _most(roles, right, depth + 1)
            if one is None or two is None:
                return None
            if op == "-" and isinstance(right, Const) and right.value >= 0:
                return one - right.value
            if op == "&":
                return min(one, two)
            if op == "%":
                return min(one, two - 1)
            if op in ("+", "*"):
                return one + two if op == "+" else one * two
            if op in ("/", ">>") and isinstance(right, Const) and right.value > 0:
                return one // right.value if op == "/" else one >> right.value
        case Var(symbol=symbol):
            values = assignments(roles.kernel).get(id(symbol))
            if len(values) == 1:
                return _most(roles, values[0], depth + 1)
    return None
