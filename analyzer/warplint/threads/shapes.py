"""Block shapes to assume when nothing says how a kernel is launched."""

from __future__ import annotations

from warplint.program.ir import Binary, Const, Expr, If, Kernel, Loop, Special, Symbol, walk
from warplint.threads.needs import Needs, inside

MAX_THREADS = 1024
SIZES = (128, 256, 512, 1024)
MAX_SHAPES = 3
_BLOCK_WIDE = frozenset({"bar.sync.cta", "bar.red.cta", "hip.__syncthreads", "amd.s_barrier", "grid.sync"})


def candidates(kernel: Kernel, needs: Needs) -> list[tuple[int, int, int]]:
    """Up to three shapes: the smallest that the code's own constants allow, and larger usual ones."""
    launched = [launch.block for launch in kernel.launches if launch.block is not None]
    if launched:
        shapes = [(*block, 1, 1)[:3] for block in dict.fromkeys(launched)]
        return [(x, y, z) for x, y, z in shapes][:MAX_SHAPES]
    axes, least = _evidence(kernel, needs)
    if "z" in axes:
        return [(8, 8, 4), (8, 4, 2)]
    if "y" in axes:
        return [(32, 8, 1), (16, 16, 1), (64, 2, 1)]
    size = kernel.launch.warp_size
    if least and any(op.name in _BLOCK_WIDE for op in needs.operations):
        least = max(least, size + 1)  # who synchronises the block has more than one warp
    least = min(MAX_THREADS, -(-least // size) * size)
    sizes = dict.fromkeys([least, *(each for each in SIZES if each >= least)] if least else SIZES)
    return [(each, 1, 1) for each in list(sizes)[:MAX_SHAPES]]


def _evidence(kernel: Kernel, needs: Needs) -> tuple[set[str], int]:
    """The axes of threadIdx that are read, and how many threads the code's comparisons and barriers need."""
    axes: set[str] = set()
    least = 0
    for stmt in walk(kernel.body):
        if isinstance(stmt, (If, Loop)) and stmt.test is not None and needs.relevant(stmt):
            for part in inside(stmt.test.expr):
                if isinstance(part, Binary):
                    least = max(least, _bound(part, needs, kernel.launch.warp_size))
    for expr in needs.expressions():
        for part in inside(expr):
            if isinstance(part, Special) and part.name.startswith("tid."):
                axes.add(part.name[-1])
    for op in needs.operations:
        for role in ("threads",):
            count = op.operands.get(role)
            if isinstance(count, Const) and 0 < count.value <= MAX_THREADS:
                least = max(least, count.value)
    return axes, min(least, MAX_THREADS)


def _bound(test: Binary, needs: Needs, warp_size: int) -> int:
    """Threads that a comparison of the thread or warp index with a constant presupposes."""
    for index, constant, op in ((test.left, test.right, test.op), (test.right, test.left, test.op)):
        if not isinstance(constant, Const) or not 0 <= constant.value < MAX_THREADS:
            continue
        unit = _unit(index, needs, warp_size)
        if unit and op in ("==", "!=", "<", "<=", ">", ">="):
            beyond = constant.value + (0 if op in ("<", ">=") and index is test.left else 1)
            return min(MAX_THREADS, beyond * unit)
    return 0


def _unit(expr: Expr, needs: Needs, warp_size: int, depth: int = 0) -> int:
    """Threads that one step of an index stands for: 1 for threadIdx.x, 32 for threadIdx.x / 32; 0 unknown."""
    from warplint.program.ir import Cast, Element, OpValue, Var

    if depth > 8:
        return 0
    if isinstance(expr, Cast):
        return _unit(expr.arg, needs, warp_size, depth + 1)
    if isinstance(expr, Special):
        return 1 if expr.name in ("tid.x", "linear_tid") else 0
    if isinstance(expr, Binary) and isinstance(expr.right, Const):
        inner = _unit(expr.left, needs, warp_size, depth + 1)
        if expr.op == ">>" and 0 <= expr.right.value < 10:
            return inner << expr.right.value
        if expr.op == "/" and 0 < expr.right.value <= MAX_THREADS:
            return inner * expr.right.value
        return 0
    if isinstance(expr, OpValue) and expr.op.name == "shfl.sync" and "value" in expr.op.operands:
        return _unit(expr.op.operands["value"], needs, warp_size, depth + 1)
    if isinstance(expr, (Var, Element)):
        symbol: Symbol = expr.symbol
        value = needs.only_value(symbol)
        return 0 if value is None else _unit(value, needs, warp_size, depth + 1)
    return 0
