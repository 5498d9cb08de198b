"""Values in inline PTX: special registers, and integer and predicate arithmetic as expressions.

`None` is an unknown value. Operators come out as those of `ast.Binary`; predicates as `&&`, `||`, `!`.
"""

from __future__ import annotations

from warplint.dialects.leaf import Computed, OpOutput, SpecialReg
from warplint.source import Span
from warplint.syntax import ast

MAX_NODES = 64
NOWHERE = Span(0, 0)
_U32 = ast.TypeName("unsigned int")
_U64 = ast.TypeName("unsigned long long")

_PLAIN = {
    "laneid", "warpid", "smid", "gridid", "cluster_ctarank", "cluster_nctarank", "lanemask_lt",
    "lanemask_le", "lanemask_eq", "lanemask_ge", "lanemask_gt", "dynamic_smem_size", "clock",
}  # fmt: skip
_CONSTANT = {"nsmid", "nwarpid", "total_smem_size", "aggr_smem_size", "reserved_smem_offset_begin"}
"""The same for all threads of a launch, whatever it is."""
_SPATIAL = {"tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid"}
_CLOCKS = {"clock", "clock_hi", "clock64", "globaltimer", "globaltimer_lo", "globaltimer_hi"}


class Mapped(ast.Expr, frozen=True):
    """`address` as seen in CTA `cta` of the cluster (`mapa`)."""

    address: ast.Expr
    cta: ast.Expr


def special(name: str) -> ast.Expr | None:
    """The value of a special register by its PTX name without percent signs, None when it is no known one."""
    if name in _CLOCKS:
        return SpecialReg(NOWHERE, "clock")
    if name in _PLAIN:
        return SpecialReg(NOWHERE, name)
    base, dot, axis = name.partition(".")
    if dot and base in _SPATIAL and axis in ("x", "y", "z"):
        return SpecialReg(NOWHERE, name)
    if name in _CONSTANT:
        return Computed(NOWHERE, name, ())
    return ast.Num(NOWHERE, 32) if name == "WARP_SZ" else None


def unknown(what: str) -> ast.Expr:
    """An operand whose value the assembly hides."""
    return ast.Unparsed(NOWHERE, what + " computed inside inline assembly")


def is_boolean(expr: ast.Expr) -> bool:
    """True for expressions that are 0 or 1."""
    match expr:
        case ast.Binary(op=op):
            return op in ("==", "!=", "<", "<=", ">", ">=", "&&", "||")
        case ast.Unary(op=op):
            return op == "!"
        case ast.Num(value=value):
            return value in (0, 1)
        case OpOutput(truth=truth) | Computed(truth=truth):
            return truth
    return False


def negate(expr: ast.Expr) -> ast.Expr:
    """Logical negation; a double negation of a truth value vanishes."""
    if isinstance(expr, ast.Unary) and expr.op == "!" and is_boolean(expr.arg):
        return expr.arg
    if isinstance(expr, ast.Binary) and expr.op in _OPPOSITE:
        return ast.Binary(NOWHERE, _OPPOSITE[expr.op], expr.left, expr.right)
    return ast.Unary(NOWHERE, "!", expr)


_OPPOSITE = {"==": "!=", "!=": "=="}
_COMPARE = {
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lo": "<", "ls": "<=", "hi": ">", "hs": ">=",
}  # fmt: skip
_BINARY = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "shl": "<<",
    "shr": ">>",
    "and": "&",
    "or": "|",
    "xor": "^",
    "div": "/",
    "rem": "%",
}
_PREDICATE = {"and": "&&", "or": "||", "xor": "!="}


def size(expr: ast.Expr) -> int:
    """Number of nodes, counted up to just past `MAX_NODES`."""
    stack, count = [expr], 0
    while stack and count <= MAX_NODES:
        top = stack.pop()
        count += 1
        match top:
            case ast.Binary(left=left, right=right):
                stack += (left, right)
            case ast.Unary(arg=arg) | ast.Cast(arg=arg):
                stack.append(arg)
            case ast.Cond(test=test, yes=yes, no=no):
                stack += (test, yes, no)
            case Mapped(address=address, cta=cta):
                stack += (address, cta)
            case Computed(args=args):
                stack += args
    return count


def computed(mnemonic: str, inputs: list[ast.Expr]) -> ast.Expr | None:
    """A value of which only its inputs are known: the distinct leaves of `inputs`, None when there are too many."""
    leaves: dict[ast.Expr, None] = {}
    stack = list(reversed(inputs))
    while stack:
        top = stack.pop()
        match top:
            case ast.Binary(left=left, right=right):
                stack += (right, left)
            case ast.Unary(arg=arg) | ast.Cast(arg=arg):
                stack.append(arg)
            case ast.Cond(test=test, yes=yes, no=no):
                stack += (no, yes, test)
            case Mapped(address=address, cta=cta):
                stack += (cta, address)
            case Computed(args=args):
                stack += reversed(args)
            case ast.Unparsed():
                return None
            case ast.Num():
                pass
            case _:
                leaves[top] = None
        if len(leaves) > MAX_NODES // 2:
            return None
    return Computed(NOWHERE, mnemonic, tuple(leaves), mnemonic.startswith("setp"))


def compute(name: str, modifiers: tuple[str, ...], inputs: list[ast.Expr]) -> ast.Expr | None:
    """The value of an arithmetic instruction, None when it is not followed."""
    value = _compute(name, modifiers, inputs)
    return None if value is None or size(value) > MAX_NODES else value


def _compute(name: str, modifiers: tuple[str, ...], inputs: list[ast.Expr]) -> ast.Expr | None:
    if any(isinstance(item, Mapped) for item in inputs):
        return _mapped(name, inputs)
    count = len(inputs)
    if name in ("mov", "cvt") and count == 1:
        return inputs[0]
    if name == "setp" and count == 2 and len(modifiers) == 2:
        return _compare(modifiers[0], modifiers[1], inputs[0], inputs[1])
    if name == "selp" and count == 3:
        return _select(inputs[2], inputs[0], inputs[1])
    if name == "select" and count == 3:
        return _select(inputs[0], inputs[1], inputs[2])
    predicate = modifiers[-1:] == ("pred",)
    if name == "not" and count == 1:
        return negate(inputs[0]) if predicate else ast.Unary(NOWHERE, "~", inputs[0])
    if predicate:
        return ast.Binary(NOWHERE, _PREDICATE[name], *inputs) if name in _PREDICATE and count == 2 else None
    if name in ("min", "max") and count == 2:
        test = ast.Binary(NOWHERE, "<" if name == "min" else ">", inputs[0], inputs[1])
        return ast.Cond(NOWHERE, test, inputs[0], inputs[1])
    if name == "mad" and count == 3:
        return ast.Binary(NOWHERE, "+", ast.Binary(NOWHERE, "*", inputs[0], inputs[1]), inputs[2])
    if name in _BINARY and count == 2:
        left, right = inputs
        if name in ("add", "sub"):
            # Operands may be pointers in C++; the instruction adds bytes.
            left = _bytes(left)
            right = _bytes(right)
        if name == "shr" and modifiers[-1:] and modifiers[-1][:1] in "ub":
            left = ast.Cast(NOWHERE, _U32 if modifiers[-1].endswith("32") else _U64, left)
        return ast.Binary(NOWHERE, _BINARY[name], left, right)
    return None


def _bytes(expr: ast.Expr) -> ast.Expr:
    return expr if isinstance(expr, (ast.Num, ast.Binary, ast.Cast)) else ast.Cast(NOWHERE, _U64, expr)


def _compare(relation: str, type_: str, left: ast.Expr, right: ast.Expr) -> ast.Expr | None:
    if relation not in _COMPARE or type_[:1] not in "bsu":
        return None
    if is_boolean(left) and isinstance(right, ast.Num) and right.value == 0 and relation in ("ne", "eq"):
        return left if relation == "ne" else negate(left)
    if (type_[0] == "u" and relation not in ("eq", "ne")) or relation in ("lo", "ls", "hi", "hs"):
        wide = _U64 if type_.endswith("64") else _U32
        left, right = ast.Cast(NOWHERE, wide, left), ast.Cast(NOWHERE, wide, right)
    return ast.Binary(NOWHERE, _COMPARE[relation], left, right)


def _select(test: ast.Expr, yes: ast.Expr, no: ast.Expr) -> ast.Expr:
    if isinstance(yes, ast.Num) and isinstance(no, ast.Num) and is_boolean(test):
        if (yes.value, no.value) == (1, 0):
            return test
        if (yes.value, no.value) == (0, 1):
            return negate(test)
    return ast.Cond(NOWHERE, test, yes, no)


def _mapped(name: str, inputs: list[ast.Expr]) -> ast.Expr | None:
    """A mapped address stays one under offsets and moves; anything else loses it."""
    first = inputs[0]
    if name in ("mov", "cvt") and len(inputs) == 1:
        return first
    if name in ("add", "sub") and len(inputs) == 2:
        second = inputs[1]
        if isinstance(second, Mapped) and name == "add" and not isinstance(first, Mapped):
            first, second = second, first
        if isinstance(first, Mapped) and not isinstance(second, Mapped):
            moved = _compute(name, (), [first.address, second])
            return None if moved is None else Mapped(NOWHERE, moved, first.cta)
    return None
