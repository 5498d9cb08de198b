"""Which hardware counter tracks which memory operation, and what a wait says about it.

Source: LLVM AMDGPUUsage (memory model), AMDGPUAsyncOperations; facts of the operations `amd.s_waitcnt` and
`amd.*_lds`.
"""

from __future__ import annotations

from warplint.program.ir import Address, Expr, Load, Symbol
from warplint.threads.facts import Event, Roles
from warplint_rules._expr import parts
from warplint_rules._say import reached

LDS = ("lgkmcnt", "dscnt")
"""Counters of LDS reads and writes (dscnt from gfx12)."""
FILLS = {
    "amd.load_to_lds": ("vmcnt", "loadcnt"),
    "amd.async_lds": ("asynccnt",),
    "amd.tensor_lds": ("tensorcnt",),
}
"""Operations that write LDS past the registers, with their counters."""
_MAX_NODES = 2_000


def raw_barriers(roles: Roles) -> list[Event]:
    """Barriers that order execution only: `s_barrier`, and `s_barrier_signal` of the split form."""
    return [
        event
        for event in reached(roles, "amd.s_barrier", "amd.s_barrier_signal_wait")
        if event.name == "amd.s_barrier" or event.mod("kind") != "wait"
    ]


def joins(roles: Roles) -> list[Event]:
    """All workgroup barriers."""
    return sorted([*raw_barriers(roles), *reached(roles, "hip.__syncthreads")], key=lambda event: event.order)


def waits(roles: Roles) -> list[Event]:
    """Explicit waits for counters."""
    return list(reached(roles, "amd.s_waitcnt"))


def named(wait: Event, counters: tuple[str, ...]) -> bool:
    """The wait names one of the counters with 0, or with a number that is not known."""
    for counter in counters:
        if counter in wait.op.operands and wait.constant(counter) in (0, None):
            return True
    return not any(role.endswith("cnt") for role in wait.op.operands)


def releases(roles: Roles) -> list[Event]:
    """Fences that make earlier LDS stores visible to the workgroup (they wait for the counters)."""
    return list(reached(roles, "amd.fence", "fence.acq_rel.*"))


def lds_loads(expr: Expr) -> list[Symbol]:
    """Shared variables that an expression reads."""
    found: list[Symbol] = []
    stack, seen = [expr], 0
    while stack and seen < _MAX_NODES:
        seen += 1
        top = stack.pop()
        if isinstance(top, Load) and isinstance(top.pointer, Address):
            symbol = top.pointer.symbol
            if symbol.kind in ("shared", "dynamic_shared") and symbol not in found:
                found.append(symbol)
        stack.extend(parts(top))
    return found
