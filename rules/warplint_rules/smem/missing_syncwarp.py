"""Lanes of one warp exchange data through shared memory with no `__syncwarp()` between the write and the read.

## Why
Since Volta the lanes of a warp are scheduled independently: that they executed the store together with their
neighbours is habit, not a promise. Shuffles and votes bring lanes together and order no memory. `__syncwarp()`
costs next to nothing and does both.

## Bad
```cuda
extern "C" __global__ void __launch_bounds__(32) reverse(float* out, const float* in) {
  __shared__ float tile[32];
  tile[threadIdx.x] = in[threadIdx.x];
  out[threadIdx.x] = tile[31 - threadIdx.x];
}
```

## Good
```cuda
extern "C" __global__ void __launch_bounds__(32) reverse(float* out, const float* in) {
  __shared__ float tile[32];
  tile[threadIdx.x] = in[threadIdx.x];
  __syncwarp();
  out[threadIdx.x] = tile[31 - threadIdx.x];
}
```
"""

from __future__ import annotations

from collections.abc import Iterator

from warplint.finding import Finding, Level, Symptom
from warplint.machine import Execution
from warplint.machine.memory import Hazard, Order
from warplint.program.ir import Address, Assign, Expr, Load, Store, Symbol, parts, walk
from warplint.rule import Rule
from warplint.threads.facts import Pointer, Roles
from warplint_rules._executed import at, hazards, made_by, place, storage
from warplint_rules._say import Reporter, line, location, reached, sites, spelled
from warplint_rules._spins import spins
from warplint_rules.participation._balance import barriers

RULE = Rule(Level.WARNING, Symptom.WRONG_RESULT, executes=True)
SAY = Reporter(__name__, RULE)

_MAX_NODES = 2_000


def check_execution(execution: Execution) -> Iterator[Finding]:
    """Ordinary accesses of different lanes of one warp that nothing joins."""
    if execution.roles.kernel.is_amd or spins(execution.roles):
        return  # lanes of a wave run in lockstep there; spin flags order accesses in ways that are not followed
    yield from _after_matrix_store(execution.roles)
    for _, hazard in hazards(execution, _same_warp):
        first, second = hazard.first, hazard.second
        if _joined_between(execution.roles, hazard):
            continue
        earlier = "write" if first.write else "read"
        later = "overwrite" if second.write else "read"
        yield SAY.at(
            execution.roles,
            second.span,
            f"The {second.what} by {made_by(execution, second)} may {later} {storage(second)} before other lanes of "
            f"the warp have done the {earlier} at line {at(execution, first.span)}: no `__syncwarp()` joins them.",
            threads=made_by(execution, second),
            why="Lanes of a warp are scheduled independently since Volta; only `__syncwarp()` (or a barrier) orders "
            "their shared-memory accesses, a shuffle or vote does not.",
            remedy="Put `__syncwarp()` between the two"
            + (", at the end of the loop body as well." if first.span.start >= second.span.start else "."),
            related=[place(execution, first, f"the {earlier}")],
        )


def _same_warp(hazard: Hazard) -> bool:
    return hazard.order is Order.SAME_WARP and all(
        access.proxy == "generic" and not access.pending and not access.done and not access.tensor
        for access in (hazard.first, hazard.second)
    )


def _joined_between(roles: Roles, hazard: Hazard) -> bool:
    """A barrier that the threads of the second access execute stands between the two in the text."""
    start, end, threads = hazard.first.span.start, hazard.second.span.start, hazard.second.threads
    return any(
        start < join.op.span.start < end and not threads & ~join.reach.threads
        for join in reached(roles, "bar.sync.named", "barrier.nonaligned")
    )


def _after_matrix_store(roles: Roles) -> Iterator[Finding]:
    """A tile that a warp-wide matrix store leaves in shared memory, read by its lanes with no join in between.

    Which lane wrote which element is not defined, so every read of another lane's element needs the join.
    """
    joins = [*reached(roles, "bar.warp.sync", "bar.sync.named"), *barriers(roles)]
    for store in sites(reached(roles, "wmma.store")):
        target = store.values.get("dst")
        if not isinstance(target, Pointer) or target.symbol.kind not in ("shared", "dynamic_shared"):
            continue
        start = store.op.span.end
        end = min((join.op.span.start for join in joins if join.op.span.start > start), default=None)
        for stmt in walk(roles.kernel.body):
            if not isinstance(stmt, Assign | Store) or stmt.span.start < start or (end and stmt.span.start > end):
                continue
            if _reads(stmt.value.expr, target.symbol):
                yield SAY.at(
                    roles,
                    stmt.span,
                    f"`{target.symbol.name}` is read lane by lane after {spelled(store)} at line "
                    f"{line(roles, store.op.span)}, and no `__syncwarp()` joins the lanes.",
                    why="The matrix store is done by all lanes, each for elements that are not its own to name; a lane "
                    "may read before another one has stored.",
                    remedy="Put `__syncwarp()` behind the matrix store.",
                    related=[location(roles, store.op.span, "the store")],
                )
                break


def _reads(value: Expr, symbol: Symbol) -> bool:
    stack, seen = [value], 0
    while stack and seen < _MAX_NODES:
        seen += 1
        top = stack.pop()
        if isinstance(top, Load) and isinstance(top.pointer, Address) and top.pointer.symbol is symbol:
            return True
        stack.extend(parts(top))
    return False
