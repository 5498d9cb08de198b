"""Which inputs are tried. Generated kernels fix most sizes; what they leave open is tried at several small values.

An unknown that is uniform over the CTA (a parameter, a loaded length) becomes a number: so many times the unit in which
the kernel counts it (`inputs`) that the loops it bounds run 0, 1, 2, stages - 1, stages, stages + 1 or 2 stages + 1
times, each with three rounds of the loop around it where the work allows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from warplint.machine.inputs import Inputs, Reader, kind_of
from warplint.machine.slicing import Slice
from warplint.machine.world import RESPONSES, Scenario, Trips
from warplint.program import ir
from warplint.threads.facts import Event, Known, Roles

MAX_SCENARIOS = 9
MAX_CTAS = 16
MAX_THREADS = 4096
"""Threads of a cluster that are executed; of larger clusters half the CTAs, which leaves the verdict incomplete."""
MAX_TOTAL = 2_000_000
"""Work of all scenarios of one kernel (instructions weigh `STEP`); those that would come after are not tried."""
STEP = 20
LATER_BLOCK, CLUSTERS = 1, 2
"""Index of the other cluster that is tried, and clusters of the grid: few, so that each gets several tiles."""
TILES = 3
"""Rounds of an outer loop."""
DEEP = 5
"""Stages of a ring from which on the first scenario has one round less of it."""
APART = 64
"""Units of an input that bounds no loop."""
GROWTH = 4
"""Elements of an array whose numbers grow, where nothing says that they should."""
FALLING = 64
"""Where numbers that fall along an array begin."""
TAKEN = 1 << 20
"""What a counter has been raised by when others have taken the rest of the work."""


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

    def __init__(self, roles: Roles, part: Slice) -> None:
        kernel = roles.kernel
        block = roles.launch.block.value if roles.launch.block else (roles.threads, 1, 1)
        self.block = (block[0], block[1] if len(block) > 1 else 1, block[2] if len(block) > 2 else 1)
        self.ctas = 1
        if roles.launch.cluster:
            for extent in roles.launch.cluster.value:
                self.ctas *= extent
        elif _uses_cluster(roles):
            self.ctas = _named_ctas(roles)
        self.ctas = min(self.ctas, MAX_CTAS if self.ctas * roles.threads <= MAX_THREADS else MAX_CTAS // 2)
        self.shape = _shape(roles, self.ctas)
        # Lanes that may be of one wave are not taken for two.
        self.wave = WIDE if kernel.is_amd and not (kernel.launch.arch or kernel.launch.wave) else 0
        width, height, deep = self.shape
        self.grid = {"nctaid.x": CLUSTERS * width, "nctaid.y": height, "nctaid.z": deep}
        self.reader = Reader(kernel, part, self.grid)
        self.inputs = self.reader.found
        self.unit = divisors(kernel)
        stages = max(depth(roles), self.inputs.stages)
        nested = bool(self.inputs.outer)
        self.steady = nested and not self.inputs.inner
        tiles = TILES if nested else stages + 1
        self.base = Trips(tiles if not nested or self.steady or stages < DEEP else tiles - 1, stages + 1)
        order = [(2 * stages + 1, 2), (1, tiles), (stages, 2), (2, tiles), (max(stages - 1, 0), tiles), (stages + 1, 1),
                 (0, tiles)]  # fmt: skip
        self.trips = [Trips(self.base.outer, self.base.inner, LATER_BLOCK)]
        self.trips += [Trips(outer if nested else inner, inner) for inner, outer in order]
        if self.steady:  # constants bound the inner loops
            self.trips[1:] = [Trips(outer, 1) for outer in (1, 2, 2 * 2 + 1)]
        self.trips.append(Trips(0, 0))

    def first(self) -> Scenario:
        """The scenario that is always executed."""
        return self._make(self.base)

    def reversed(self, scenario: Scenario, asked: Mapping[Hashable, int]) -> Scenario | None:
        """The same with the inputs that bound no loop at 0; None when none was asked for."""
        trips = scenario.rounds
        if trips.others == "zero":
            return None
        other = Trips(trips.outer, trips.inner, trips.block, others="zero")
        made = self._make(other)
        return made if self._signature(other, asked) != self._signature(trips, asked) else None

    def grown(self, scenario: Scenario, asked: Mapping[Hashable, int]) -> Scenario | None:
        """The same with numbers that grow along every array; None when that gives nothing else."""
        trips = scenario.rounds
        made = self._make(Trips(trips.outer, trips.inner, trips.block, growing=True, others=trips.others))
        return made if self._signature(made.rounds, asked) != self._signature(trips, asked) else None

    def uneven(self, scenario: Scenario, asked: Mapping[Hashable, int]) -> Iterator[Scenario]:
        """The same with numbers that divide by nothing and of which no two are equal: those that are loaded, then all.

        What only runs for a remainder, or where two of them differ, comes to light.
        """
        for kinds in (("load",), ("load", "param")):
            keys = [key for key in asked if isinstance(key, tuple) and key[0] in kinds]
            if keys and (len(kinds) == 1 or any(key[0] == "param" for key in keys)):
                numbers: dict[Hashable, int] = {key: asked[key] + 1 + 2 * at for at, key in enumerate(keys)}
                yield replace(scenario, choose=Given(scenario.choose, numbers))

    def idle(self, scenario: Scenario, asked: Mapping[Hashable, int]) -> bool:
        """Some size that it asked for was given as 0: a launch with nothing to do, which the host may never make."""
        trips = scenario.rounds
        sizes = {*self.inputs.inner, *self.inputs.outer} or {kind_of(key) for key in asked}
        return not (trips.inner and trips.outer) and any(
            value == 0 and isinstance(key, tuple) and kind_of(key) in sizes and key[0] not in ("ticket", "turn")
            for key, value in asked.items()
        )

    def smaller(self, scenario: Scenario, asked: Mapping[Hashable, int]) -> Iterator[Scenario]:
        """A first scenario with less to do, largest first, for when it was stopped; none when no size was asked."""
        base = scenario.rounds
        if not asks_sizes(asked):
            return
        tried = {self._signature(base, asked)}
        others = "zero" if base.others == "zero" else "alike"
        for less in (self.base, Trips(2, 2), Trips(2, 1), Trips(1, 2), Trips(1, 1)):
            trips = Trips(min(less.outer, self.base.outer), min(less.inner, self.base.inner), others=others)
            mark = self._signature(trips, asked)
            if mark not in tried:
                tried.add(mark)
                yield self._make(trips)

    def others(self, first: Scenario, asked: Mapping[Hashable, int]) -> Iterator[Scenario]:
        """What else to try, given the inputs that the first execution asked for; no more rounds than it had, if it had
        to be a smaller one.
        """
        base = first.rounds
        tried = {self._signature(base, asked)}
        most = base if (base.outer, base.inner) != (self.base.outer, self.base.inner) else Trips(1 << 30, 1 << 30)
        for trips in self.trips[: MAX_SCENARIOS - 1]:
            trips = Trips(min(trips.outer, most.outer), min(trips.inner, most.inner), trips.block, others=base.others)
            mark = self._signature(trips, asked)
            if mark not in tried:
                tried.add(mark)
                yield self._make(trips)

    def describe(self, scenario: Scenario, asked: Mapping[Hashable, int]) -> str:
        """The inputs that an execution asked for, for people: "unknown sizes M = 192, K = 320, blockIdx.x = 0 of 2"."""
        named = [f"{key[1]} = {value}" for key, value in asked.items() if isinstance(key, tuple) and key[0] == "param"]
        read = ("load", "word", "tally")
        loaded = [value for key, value in asked.items() if isinstance(key, tuple) and key[0] in read]
        if loaded:
            low, high = min(loaded), max(loaded)
            named.append(f"loaded numbers = {low}" if low == high else f"loaded numbers = {low} ... {high}")
        told = ("param", "load", "word", "tally", "ticket", "turn")
        rest = [value for key, value in asked.items() if isinstance(key, tuple) and key[0] not in told]
        if rest:
            named.append(f"{'others' if named else 'all'} = {max(rest)}")
        if RESPONSES in asked:
            named.append(f"tiles obtained = {asked[RESPONSES]}")
        block = f"blockIdx.x = {scenario.coordinates['ctaid.x']} of {self.grid['nctaid.x']}"
        more = ", ..." if len(named) > 6 else ""
        return f"unknown sizes {', '.join(named[:6])}{more}, {block}" if named else block

    def _signature(self, trips: Trips, asked: Mapping[Hashable, int]) -> Hashable:
        """What of a scenario an execution notices that asks for these inputs."""
        scenario = self._make(trips)
        return tuple(
            scenario.coordinates.get(key) if isinstance(key, str) and key in scenario.coordinates
            else scenario.rounds.outer if key == RESPONSES else scenario.choose(key)
            for key in asked
        )  # fmt: skip

    def _make(self, trips: Trips) -> Scenario:
        index = trips.block * self.shape[0]
        coordinates = {"ctaid.x": index, "ctaid.y": 0, "ctaid.z": 0, **self.grid, "clusterid.x": trips.block,
                       "clusterid.y": 0, "clusterid.z": 0}  # fmt: skip
        name = f"unknown sizes = {trips.inner * self.unit}, blockIdx.x = {index} of {self.grid['nctaid.x']}"
        choose = Chooser(self.inputs, trips, self.unit, self.ctas)
        return Scenario(name, self.block, self.ctas, coordinates, choose, trips.inner, self.wave, shape=self.shape,
                        rounds=trips)  # fmt: skip


class Chooser(Struct, frozen=True):
    """The numbers that unknown inputs get in one scenario."""

    inputs: Inputs
    trips: Trips
    unit: int
    """For inputs of which nothing is known."""
    ctas: int

    def __call__(self, key: Hashable) -> int:
        """A number for an unknown (`World.choose` has the keys)."""
        kind = kind_of(key)
        inputs, trips = self.inputs, self.trips
        if kind == "ticket":
            # A counter that hands out tiles: after the scenario's share somebody else has taken the rest.
            number = key[-1] + trips.block * self.ctas  # type: ignore[index]
            return number if key[-2] < trips.outer else number + TAKEN  # type: ignore[index]
        unit = inputs.units.get(kind, self.unit)
        bounds = kind in inputs.outer or kind in inputs.inner
        if kind in inputs.factors and (trips.outer or trips.inner):
            number = unit
        elif not bounds and trips.others == "zero":
            number = 0
        elif not bounds and trips.others == "apart" and trips.inner > 1 and kind in inputs.units:
            number = unit * APART
        elif isinstance(key, tuple) and key[0] in ("load", "word") and kind not in inputs.units:
            # Data, of shared memory mostly: half of what sizes are, so that sums and differences do not vanish at once.
            number = max(unit * trips.inner // 2, 1) if trips.inner else 0
        else:
            number = unit * (trips.outer if kind in inputs.outer else trips.inner)
        if isinstance(key, tuple) and key[0] == "load" and len(key) > 4 and isinstance(key[2], int):
            # Numbers go up or down along an array, by as much each time, so that ranges are not empty.
            at = max(key[2] // (key[3] or 4), 0)
            if kind in inputs.falling:
                number *= max(FALLING - at, 1)
            elif kind in inputs.rising:
                number *= 1 + at
            elif trips.growing:
                number *= 1 + min(at, GROWTH)
        return number


class Given(Struct, frozen=True):
    """Numbers for some inputs, in place of those that a scenario has for them."""

    choose: Callable[[Hashable], int]
    numbers: Mapping[Hashable, int]

    def __call__(self, key: Hashable) -> int:
        """A number for an unknown."""
        number = self.numbers.get(key)
        return self.choose(key) if number is None else number


def asks_sizes(asked: Mapping[Hashable, int]) -> bool:
    """Some unknown was asked for that stands for a size."""
    return any(not isinstance(key, str) or key == RESPONSES for key in asked)


def _uses_cluster(roles: Roles) -> bool:
    """The kernel only makes sense with several CTAs; naming the own CTA of a cluster of one does not count."""
    for event in roles.events:
        if event.name.startswith("barrier.cluster") or event.mod("cta_group") == 2:
            return True
        for role, alone in (("cta", 0), ("cta_mask", 1)):
            if role in event.values and event.constant(role) != alone:
                return True
    return False


def _shape(roles: Roles, ctas: int) -> tuple[int, int, int]:
    """How the CTAs of the cluster lie: as launched; else in x, unless the kernel asks for its rank in y.

    Then they lie in y alone, or in both where it asks for both: `y * n + x` tells the width.
    """
    if roles.launch.cluster:
        given = (*roles.launch.cluster.value, 1, 1)[:3]
        if given[0] * given[1] * given[2] == ctas:
            return (given[0], given[1], given[2])
    if ctas == 1 or b"cluster_ctaid.y" not in roles.kernel.source.data:
        return (ctas, 1, 1)
    width, seen = 1, {"x": False, "y": False}
    for stmt in ir.walk(roles.kernel.body):
        stack: list[ir.Expr] = []
        if isinstance(stmt, ir.Assign):
            stack = [stmt.value.expr]
        elif isinstance(stmt, ir.Do):
            stack = list(stmt.op.operands.values())
        elif isinstance(stmt, ir.If):
            stack = [stmt.test.expr]
        while stack:
            node = stack.pop()
            stack.extend(ir.parts(node))
            if isinstance(node, ir.Special) and node.name.startswith("cluster_ctaid."):
                seen[node.name[-1]] = True
            if isinstance(node, ir.Binary) and node.op == "*" and isinstance(node.right, ir.Const):
                inner = node.left
                while isinstance(inner, ir.Cast):
                    inner = inner.arg
                if isinstance(inner, ir.Special) and inner.name == "cluster_ctaid.y" and node.right.value < ctas:
                    width = max(width, node.right.value)
    if not seen["y"]:
        return (ctas, 1, 1)
    width = width if seen["x"] and ctas % width == 0 else 1
    return (width, ctas // width, 1)


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
