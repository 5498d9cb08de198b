"""What the thread analysis establishes about one kernel: who executes what, under which conditions.

Thread sets are Python ints used as bitsets over the linear thread index of one block (x fastest). These types are
the whole interface between `threads` and the rules; how they are computed is `threads.analysis`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from functools import cached_property

from msgspec import Struct, field

from warplint.program.ir import Incomplete, Kernel, LaunchInfo, Operation, Stmt, Symbol
from warplint.source import Span


class Uniformity(IntEnum):
    """The largest group of threads over which a value is the same. Greater is more uniform."""

    LANE = 0
    WARP = 1
    WARPGROUP = 2
    CTA = 3
    CLUSTER = 4
    GRID = 5


# -------------------------------------------------------------------------------------------------- values
class Value(Struct, frozen=True):
    """Base of abstract values: what an expression is for each thread of the block."""


class Known(Value, frozen=True):
    """Known for every thread: one int for all, or one per thread (then not all equal)."""

    each: int | tuple[int, ...]

    @property
    def constant(self) -> int | None:
        """The value when it is the same for all threads."""
        return self.each if isinstance(self.each, int) else None

    def at(self, thread: int) -> int:
        """The value for one thread."""
        return self.each if isinstance(self.each, int) else self.each[thread]


class Opaque(Value, frozen=True):
    """Unknown. `uniformity` is a floor: it is the same at least over such groups.

    `varies` is True when it is established that the value may differ between the groups (it is computed from the thread
    index, or loaded through an address that differs), False when it is merely not known to be the same.
    `key` identifies the value: two Opaques with one key are equal in every thread. `why` is for messages.
    """

    uniformity: Uniformity
    varies: bool = False
    key: object = None
    why: str = ""


class Pointer(Value, frozen=True):
    """An address: byte `offset` into the storage of `symbol`; `cta` is the CTA rank it was mapped to (mapa), if any."""

    symbol: Symbol
    offset: Value
    cta: Value | None = None


class Elected(Value, frozen=True):
    """Non-zero in exactly one lane of each warp that evaluated it (elect.sync), unknown which."""

    key: object = None


# --------------------------------------------------------------------------------------------------- reach
class Reach(Struct, frozen=True):
    """Which threads execute a place.

    `threads` is an upper bound, exact when `exact`. `elected`: exactly one lane of every warp in `threads`.
    `split` is the finest granularity at which enclosing conditions of unknown value divide the threads: with `CTA` or
    more, all of `threads` execute it or none of them does; with `WARP`, each warp decides by itself; with `LANE`, any
    subset. `varies`: at least one such finer-than-CTA condition is established to differ between threads (otherwise it
    is merely not understood, and a rule must not speak on it alone: the kernel is incomplete).
    """

    threads: int
    elected: bool = False
    split: Uniformity = Uniformity.GRID
    varies: bool = False

    @property
    def exact(self) -> bool:
        """True when all of `threads` execute it together, or none."""
        return self.split >= Uniformity.CTA

    def count(self, warp_size: int = 32) -> int:
        """How many threads execute it at most (one a warp when elected)."""
        if not self.elected:
            return self.threads.bit_count()
        return len(warps_of(self.threads, warp_size))


def warps_of(threads: int, warp_size: int = 32) -> dict[int, int]:
    """The warps of a thread set: warp index -> bitset of its lanes (bit 0 is lane 0)."""
    result: dict[int, int] = {}
    full = (1 << warp_size) - 1
    warp = 0
    while threads:
        lanes = threads & full
        if lanes:
            result[warp] = lanes
        threads >>= warp_size
        warp += 1
    return result


# --------------------------------------------------------------------------------------------------- facts
class Condition(Struct, frozen=True, eq=False):
    """One evaluated branch or loop condition on the way to a place."""

    text: str
    span: Span
    taken: bool
    """False for the else side (or for what remains after a `break`/`return` under the condition)."""
    before: Reach
    after: Reach
    value: Value
    kind: str = "if"
    """`if`, `loop`, `predicate`, `exit` (a preceding `if (...) return;`), `continue` or `break`."""
    stmt: Stmt | None = None

    @property
    def known(self) -> bool:
        """The condition's value is known for every thread."""
        return isinstance(self.value, Known)


class Event(Struct, frozen=True, eq=False):
    """One operation as executed: its site, its threads, its operands. Loops that are unrolled give several events."""

    op: Operation
    order: int
    """Position in program order over the kernel (greater = later in the text after inlining)."""
    reach: Reach
    """With the operation's predicate applied."""
    live: int
    """Threads that have not certainly left the kernel before this place."""
    guards: tuple[Condition, ...]
    """From the outermost in; the predicate last."""
    loops: tuple[LoopFact, ...]
    """Enclosing loops, outermost first."""
    values: Mapping[str, Value]
    """Operand values by role; those that only carry data (descriptors, coordinates, TMEM addresses) are left out.

    Their expressions stand in `op.operands`.
    """
    iteration: tuple[int, ...] = ()
    """Iteration numbers of the enclosing unrolled loops; empty when none is unrolled."""

    @property
    def name(self) -> str:
        """Canonical name of the operation."""
        return self.op.name

    def constant(self, role: str) -> int | None:
        """The operand's value when it is one known integer, else None (also when there is no such operand)."""
        value = self.values.get(role)
        return value.constant if isinstance(value, Known) else None

    def mod(self, key: str) -> str | int | bool | None:
        """A modifier of the operation."""
        return self.op.mods.get(key)


class LoopFact(Struct, eq=False):
    """One loop: who enters, who may be in it, and what decides its exit."""

    stmt: Stmt
    text: str
    span: Span
    entry: Reach
    body: Reach
    """Threads that may execute an iteration."""
    test: Value
    """Value of the condition on a general iteration."""
    state: tuple[Symbol, ...] = ()
    """Locals that the exit conditions (test and guarded breaks) depend on and the loop writes."""
    trips: int | None = None
    """Constant trip count, when known for all threads and equal."""
    always: bool = False
    """At least one iteration is certain for every thread that reaches the loop."""


class WriteFact(Struct, frozen=True, eq=False):
    """One assignment to a local that a loop's exit, a wait's parity or a barrier's address depends on."""

    symbol: Symbol
    span: Span
    reach: Reach
    guards: tuple[Condition, ...]
    loops: tuple[LoopFact, ...]
    order: int


class UseFact(Struct, frozen=True, eq=False):
    """One place that reads such a local: a loop test, a wait parity, a barrier address."""

    symbol: Symbol
    span: Span
    reach: Reach
    loops: tuple[LoopFact, ...]
    order: int
    kind: str
    """`loop-test`, `parity`, `barrier`."""


class ExitFact(Struct, frozen=True, eq=False):
    """A place where threads leave the kernel before its end."""

    span: Span
    reach: Reach
    guards: tuple[Condition, ...]
    order: int


class AccessFact(Struct, frozen=True, eq=False):
    """An ordinary access to shared memory (structural rules use it for constants only)."""

    symbol: Symbol
    offset: Value
    bytes: int | None
    write: bool
    span: Span
    reach: Reach
    guards: tuple[Condition, ...]
    loops: tuple[LoopFact, ...]
    order: int


class RoleNode(Struct, frozen=True, eq=False):
    """A branch of the role-guard tree: the exact set of threads in it, and what it holds in program order."""

    kind: str
    """`kernel`, `if`, `else`, `loop`, `inline`."""
    label: str
    span: Span
    reach: Reach
    items: list[RoleNode | Event] = field(default_factory=list)


class Roles(Struct, frozen=True, eq=False, dict=True):
    """Everything the thread analysis says about one kernel, for one assumed block shape."""

    kernel: Kernel
    launch: LaunchInfo
    """With the assumed block filled in when the source does not say."""
    assumed_block: bool
    tree: RoleNode
    events: tuple[Event, ...]
    loops: tuple[LoopFact, ...]
    exits: tuple[ExitFact, ...]
    writes: tuple[WriteFact, ...]
    uses: tuple[UseFact, ...]
    accesses: tuple[AccessFact, ...]
    incomplete: tuple[Incomplete, ...]

    @property
    def threads(self) -> int:
        """Threads per block."""
        return self.launch.threads or 0

    @property
    def everyone(self) -> int:
        """The set of all threads of the block."""
        return (1 << self.threads) - 1

    def of(self, *names: str) -> Iterator[Event]:
        """Events of the named operations in program order; a name ending in `.` or `*` matches by prefix."""
        prefixes = tuple(name.rstrip("*") for name in names if name.endswith((".", "*")))
        places = self._places
        chosen = [name for name in places if name in names or (prefixes and name.startswith(prefixes))]
        if len(chosen) > 1:
            positions = sorted(position for name in chosen for position in places[name])
        else:
            positions = places[chosen[0]] if chosen else ()
        for position in positions:
            yield self.events[position]

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        """Positions in `events` by the operation's name: most rules ask for names that a kernel does not have."""
        found: dict[str, list[int]] = {}
        for position, event in enumerate(self.events):
            found.setdefault(event.op.name, []).append(position)
        return found
