"""Which inputs are tried. Generated kernels fix most sizes; what they leave open is tried at several small values.

An unknown that is uniform over the CTA (a parameter, a loaded length, gridDim) becomes a number: `trips` times the unit in
which the kernel counts it, so that loops run 0, 1, 2, stages - 1, stages, stages + 1 and 2 stages + 1 times.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass

from warplint.machine.world import Scenario
from warplint.program import ir
from warplint.threads.facts import Roles

MAX_SCENARIOS = 12


@dataclass(frozen=True, slots=True)
class Plan:
    """The scenarios of one kernel, and whether they cover all that matters."""

    scenarios: tuple[Scenario, ...]
    open_inputs: bool
    """Some input was unknown, so that only the tried values are proved."""


def divisors(kernel: ir.Kernel) -> int:
    """The largest power-of-two unit in which the kernel divides an unknown size (128 for `(n + 127) / 128`)."""
    unit = 1
    for stmt in ir.walk(kernel.body):
        test = stmt.test if isinstance(stmt, ir.If | ir.Loop) else None
        if test is None:
            continue
        stack: list[ir.Expr] = [test.expr]
        budget = 400
        while stack and budget:
            budget -= 1
            node = stack.pop()
            match node:
                case ir.Binary(op="/", left=left, right=ir.Const(value=value)) if 1 < value <= 4096:
                    unit = max(unit, value)
                    stack.append(left)
                case ir.Binary(op=">>", left=left, right=ir.Const(value=value)) if 0 < value <= 12:
                    unit = max(unit, 1 << value)
                    stack.append(left)
                case ir.Binary(left=left, right=right):
                    stack += [left, right]
                case ir.Unary(arg=arg) | ir.Cast(arg=arg):
                    stack.append(arg)
                case ir.Select(test=asked, yes=yes, no=no):
                    stack += [asked, yes, no]
    return unit


def depth(roles: Roles) -> int:
    """Pipeline depth: the most barrier words initialised at one place, between 1 and 8."""
    by_site: dict[int, int] = {}
    for event in roles.of("mbarrier.init"):
        by_site[event.op.span.start] = by_site.get(event.op.span.start, 0) + 1
    return min(max(by_site.values(), default=2), 8)


def plan(roles: Roles) -> Plan:
    """The scenarios to execute."""
    kernel = roles.kernel
    block = roles.launch.block.value if roles.launch.block else (roles.threads, 1, 1)
    shape = (block[0], block[1] if len(block) > 1 else 1, block[2] if len(block) > 2 else 1)
    ctas = 1
    if roles.launch.cluster:
        for extent in roles.launch.cluster.value:
            ctas *= extent
    elif _uses_cluster(roles):
        ctas = 2
    unit = divisors(kernel)
    stages = depth(roles)
    trips = sorted({0, 1, 2, stages - 1, stages, stages + 1, 2 * stages + 1} - {-1})
    found = list(_scenarios(shape, ctas, unit, trips))
    return Plan(tuple(found[:MAX_SCENARIOS]), True)


def _uses_cluster(roles: Roles) -> bool:
    for event in roles.events:
        if event.name.startswith("barrier.cluster") or event.mod("cta_group") == 2 or event.mod("remote"):
            return True
        if "cta" in event.values or "cta_mask" in event.values:
            return True
    return False


def _scenarios(block: tuple[int, int, int], ctas: int, unit: int, trips: list[int]) -> Iterator[Scenario]:
    order = sorted(trips, key=lambda t: (t < 2, -t))
    for count in order:
        for grid in (4 * ctas,):
            coordinates = {"ctaid.x": 0, "ctaid.y": 0, "ctaid.z": 0, "nctaid.x": grid, "nctaid.y": 1, "nctaid.z": 1,
                           "clusterid.x": 0, "clusterid.y": 0, "clusterid.z": 0}  # fmt: skip
            yield Scenario(f"sizes of {count} x {unit}", block, ctas, coordinates, chooser(count * unit))


def chooser(size: int) -> Callable[[Hashable], int]:
    """Every unknown gets `size`; a branch on an unknown goes the way `size` is odd or even."""
    return lambda key: size
