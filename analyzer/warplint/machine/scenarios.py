"""Which inputs are tried. Generated kernels fix most sizes; what they leave open is tried at several small values.

An unknown that is uniform over the CTA (a parameter, a loaded length, gridDim) becomes a number: `trips` times the
unit in
which the kernel counts it, so that loops run 0, 1, 2, stages - 1, stages, stages + 1 and 2 stages + 1 times.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping

from warplint.machine.world import Scenario
from warplint.program import ir
from warplint.threads.facts import Event, Known, Roles

MAX_SCENARIOS = 9
MAX_CTAS = 8
MAX_TOTAL = 2_000_000
"""Work of all scenarios of one kernel (instructions weigh `STEP`); those that would come after are not tried."""
STEP = 20
FIRST_BLOCK, LATER_BLOCK, CLUSTERS = 0, 3, 4
"""Block indices that are tried (counted in clusters), and the size of the grid."""


WIDE, NARROW = 64, 32
"""Lanes of a wave, where an AMD kernel does not tell."""


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


class Plan:
    """The scenarios of one kernel, one after the other: what an execution asked for decides what else is tried."""

    def __init__(self, roles: Roles) -> None:
        kernel = roles.kernel
        block = roles.launch.block.value if roles.launch.block else (roles.threads, 1, 1)
        self.block = (block[0], block[1] if len(block) > 1 else 1, block[2] if len(block) > 2 else 1)
        self.ctas = 1
        if roles.launch.cluster:
            for extent in roles.launch.cluster.value:
                self.ctas *= extent
        elif _uses_cluster(roles):
            self.ctas = _named_ctas(roles)
        self.ctas = min(self.ctas, MAX_CTAS)
        # Lanes that may be of one wave are not taken for two.
        self.wave = WIDE if kernel.is_amd and not (kernel.launch.arch or kernel.launch.wave) else 0
        self.unit = divisors(kernel)
        stages = depth(roles)
        self.trips = [stages + 1] + [
            t for t in (2 * stages + 1, 1, stages, 2, max(stages - 1, 0), 0) if t != stages + 1
        ]

    def first(self) -> Scenario:
        """The scenario that is always executed."""
        return self._make(self.trips[0], FIRST_BLOCK)

    def smaller(self, asked: Mapping[Hashable, int]) -> Iterator[Scenario]:
        """The first scenario with less to do, largest first, for when it was stopped; none when no size was asked."""
        if asks_sizes(asked):
            size = self.trips[0] * self.unit
            for less in (2 * self.unit, 512, 128, 16, 2):
                if less < size:
                    size = less
                    yield self._sized(less, FIRST_BLOCK, min(self.trips[0], 2))

    def others(self, asked: Mapping[Hashable, int], below: int = 1 << 40) -> Iterator[Scenario]:
        """What else to try, given the inputs that the first execution asked for: sizes up to `below`."""
        sizes = asks_sizes(asked)
        blocks = any(isinstance(key, str) and key.startswith(("ctaid", "clusterid")) for key in asked)
        made = 0
        if blocks:
            made += 1
            yield self._sized(min(self.trips[0] * self.unit, below), LATER_BLOCK, self.trips[0])
        if sizes:
            for trips in dict.fromkeys(self.trips[1:]):
                if made < MAX_SCENARIOS - 1 and trips * self.unit <= below:
                    made += 1
                    yield self._make(trips, FIRST_BLOCK)

    def _make(self, trips: int, cluster: int) -> Scenario:
        return self._sized(trips * self.unit, cluster, trips)

    def _sized(self, size: int, cluster: int, trips: int) -> Scenario:
        index = cluster * self.ctas
        coordinates = {"ctaid.x": index, "ctaid.y": 0, "ctaid.z": 0, "nctaid.x": CLUSTERS * self.ctas, "nctaid.y": 1,
                       "nctaid.z": 1, "clusterid.x": cluster, "clusterid.y": 0, "clusterid.z": 0}  # fmt: skip
        name = f"unknown sizes = {size}, blockIdx.x = {index} of {CLUSTERS * self.ctas}"
        return Scenario(name, self.block, self.ctas, coordinates, chooser(size), trips, self.wave, size=size)


def asks_sizes(asked: Mapping[Hashable, int]) -> bool:
    """Some unknown was asked for that stands for a size."""
    return any(not isinstance(key, str) or key.startswith("nctaid") for key in asked)


def _uses_cluster(roles: Roles) -> bool:
    """The kernel only makes sense with several CTAs; naming the own CTA of a cluster of one does not count."""
    for event in roles.events:
        if event.name.startswith("barrier.cluster") or event.mod("cta_group") == 2:
            return True
        for role, alone in (("cta", 0), ("cta_mask", 1)):
            if role in event.values and event.constant(role) != alone:
                return True
    return False


def _named_ctas(roles: Roles) -> int:
    """The least power of two that has all the CTA ranks the kernel names; at least a pair."""
    need = 2
    for event in roles.events:
        rank, mask = _greatest(event), event.constant("cta_mask")
        need = max(need, rank + 1 if rank is not None else 0, mask.bit_length() if mask is not None and mask > 0 else 0)
    return 1 << (need - 1).bit_length()


def _greatest(event: Event) -> int | None:
    """The greatest CTA rank that the threads of an operation name; None where they are not known."""
    value = event.values.get("cta")
    if not isinstance(value, Known):
        return None
    if isinstance(value.each, int):
        return value.each
    threads = event.reach.threads
    return max((value.at(t) for t in range(threads.bit_length()) if threads >> t & 1), default=0)


def chooser(size: int) -> Callable[[Hashable], int]:
    """Every unknown gets `size`."""
    return lambda key: size
