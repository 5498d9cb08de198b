"""What one execution showed, as plain facts for the rules. Nothing here decides what is a finding."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from msgspec import Struct, field

from warplint.machine.barriers import Arrival, Came
from warplint.machine.memory import Access, Hazard
from warplint.source import Span
from warplint.threads.facts import Uniformity


class Party(Struct, frozen=True):
    """Who did something: a thread set of one CTA of the cluster."""

    cta: int
    threads: int


class WaitRecord(Struct):
    """One executed (or blocked) wait on an mbarrier by the threads of one strand."""

    who: Party
    span: Span
    parity: int
    phase: int
    """The phase whose completion it needs (0 is the first)."""
    fresh: bool
    """It passed without any phase being complete: the barrier was fresh and the parity was 1."""
    blocked: bool = False
    iteration: int = 0
    """How often the agent had executed this wait before."""
    late: bool = False
    """It was still to see phase `phase` when the next one completed, and nothing orders it before that: on another
    schedule it sees the parity flipped twice (recycled phase)."""


class BarrierRecord(Struct):
    """The life of one mbarrier."""

    key: Hashable
    label: str
    cta: int
    count: int
    init: Span
    init_by: Party
    waits: list[WaitRecord] = field(default_factory=list)
    phases: list[list[Arrival]] = field(default_factory=list)
    """Arrivals of each completed phase."""
    current: list[Arrival] = field(default_factory=list)
    """Arrivals of the phase that was current at the end."""
    pending: int = 0
    tx: int = 0
    faults: list[tuple[str, Arrival]] = field(default_factory=list)
    """`over-arrival`, `tx-overflow` with the arrival that caused it."""
    racing: list[Arrival] = field(default_factory=list)
    """Arrivals that nothing orders after the completion of the phase before: on another schedule they count for that
    one. Expectations that no arrival of their phase comes after: on another schedule they count for the next one.
    Copies (`how` is `copy`) under way in a phase that completed without expecting them: where they land earlier, it
    does not."""
    transaction: bool = False
    """Some phase expected bytes or was named by a copy."""
    unexpected: list[Span] = field(default_factory=list)
    """Copies still under way at the end in a phase that expects no (more) bytes."""
    consumed: dict[Span, tuple[int, int]] = field(default_factory=dict)
    """By the place of the expect_tx: bytes expected in one phase, and bytes that MMAs certainly read of what that phase
    filled (the most over all phases): more read than expected means that the expectation is too small."""

    @property
    def unwaited(self) -> int:
        """Completed phases after the last one that anybody waited for."""
        return len(self.phases) - 1 - max((w.phase for w in self.waits if not w.blocked), default=-1)


class BlockedRecord(Struct, frozen=True):
    """An agent that could not go on at the end."""

    who: Party
    span: Span
    what: str
    target: Hashable
    parity: int = -1
    phase: int = -1


class NamedRecord(Struct, frozen=True):
    """A named barrier as it was at the end."""

    cta: int
    ident: int
    need: int
    """Executions by warps that complete a generation."""
    completed: int
    """Generations that are over."""
    came: tuple[Came, ...]
    """The executions of the generation that is not."""
    warps: frozenset[int]
    """All warps that ever came."""


class Fault(Struct, frozen=True):
    """An operation that broke a rule of its object: `kind` names it, `detail` is for the message."""

    kind: str
    """`named-count-differs` (named barriers); `uninitialised`, `reinitialised`,
    `initialised-by-many`, `barrier-storage` (an access to the bytes of a valid mbarrier; `other` is its init),
    `used-before-init`, `used-before-init-fence` (mbarriers: the init is not released to the other CTA), `inval-in-use`;
    `cluster-re-arrival`, `cluster-wait-without-arrive`, `cluster-barrier-unmatched` (a CTA arrives where another that
    takes part as well never does; detail: how often each, and which);
    `tmem-full`, `tmem-not-allocated`, `tmem-columns-differ`,
    `tmem-alloc-after-relinquish`, `tmem-pair-not-synced` (cta_group::2 alloc before the peer is known to run),
    `tmem-pair-order` (alloc or dealloc of a pair on different sides of a cluster barrier in its CTAs),
    `tmem-pair-alone` (only one CTA of the pair comes to it),
    `accumulates-uninitialised`; `tmem-lanes` (an address in lanes of another warp's quarter; detail: lane, warp);
    `copied-by-many` (several lanes issue one copy to one place, each its own); `partial-warp` (a warp collective by
    some lanes while the others are elsewhere); `exited-peer` (an access to the shared
    memory of a CTA of which nothing says that it has not exited)."""
    who: Party
    span: Span
    detail: str = ""
    other: Span | None = None


class LeftOver(Struct, frozen=True):
    """Something unfinished when a thread left the kernel."""

    kind: str
    """`bulk-group` (committed, not waited for), `uncommitted-bulk`, `cp.async`, `uncommitted-cp.async`, `wgmma`,
    `uncommitted-wgmma`, `tmem` (columns never freed), `transaction-phase` (a phase with bytes that nobody waited
    for)."""
    who: Party
    span: Span
    detail: str = ""


class Step(Struct, frozen=True):
    """One line of the executed protocol."""

    who: Party
    span: Span
    text: str
    target: Hashable = None


class Handed(Struct, frozen=True, eq=False):
    """A store to a word of shared memory that ended a loop which waits for it (`polls`)."""

    label: str
    by: Party
    span: Span
    to: Party
    wait: Span
    waited: Callable[[Access], bool]
    """Whether an access comes after the wait, in the threads that waited."""
    knew: Callable[[Access], bool]
    """Whether the storing thread was joined with whoever made an access before."""
    hands: Callable[[Access], bool]
    """Whether the store releases an access: by itself, or with a fence between the two."""
    acquired: Callable[[Access], bool]
    """Whether the loop's own load acquires, or a fence of its thread stands between the loop and an access."""


class Repeat(Struct, frozen=True):
    """A loop that was left early, because it was proved that the rest of it does nothing new."""

    span: Span
    rounds: int
    """Iterations of the loop after which the state is the same."""
    times: int
    """How often so many iterations were not executed."""


class Extent(Struct):
    """How far the accesses of one execution to one shared variable go, those that certainly happen."""

    low: int
    """The first byte that any of them touches, and the access."""
    lowest: Access
    high: int
    """One past the last byte, and the access."""
    highest: Access


class Outcome(Struct):
    """Everything one scenario showed."""

    scenario: str
    """The inputs that were tried, for people: "n = 3, blockIdx.x = 0"."""
    blocked: list[BlockedRecord] = field(default_factory=list)
    barriers: dict[Hashable, BarrierRecord] = field(default_factory=dict)
    named: dict[Hashable, NamedRecord] = field(default_factory=dict)
    """Named barriers by their target, `("bar", cta, id)`."""
    hazards: list[Hazard] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    leftovers: list[LeftOver] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    handed: list[Handed] = field(default_factory=list)
    """Flags: which stores ended which waits."""
    incomplete: list[tuple[str, Span | None]] = field(default_factory=list)
    """What could not be established and may matter: the verdict is not `clean`."""
    assumed: list[tuple[str, Span | None]] = field(default_factory=list)
    """What was taken for granted about the world outside (a flag that another CTA sets comes): findings stand, but the
    kernel is not `clean`."""
    remarks: list[tuple[str, Span | None]] = field(default_factory=list)
    """What was not looked at, and which claim is missing for it; the protocol itself is known."""
    idle: bool = False
    """Some size that it asked for was given as 0: a launch with nothing to do, which the host may never make."""
    finished: bool = False
    """Every agent left the kernel or is in `blocked`; False when a bound stopped the execution."""
    asked: dict[Hashable, int] = field(default_factory=dict)
    """Unknown inputs that the execution asked for, with the number it was given."""
    extents: dict[Hashable, Extent] = field(default_factory=dict)
    """By shared variable."""
    repeats: list[Repeat] = field(default_factory=list)
    """Loops that are proved for all their iterations, though not all were executed."""
    guesses: dict[tuple[str, Span], Uniformity] = field(default_factory=dict)
    """Branches on data that synchronisation depends on (in words, place), and how far the value is uniform."""

    def guess(self, text: str, span: Span, floor: Uniformity) -> None:
        """Record a branch on data."""
        old = self.guesses.get((text, span), floor)
        self.guesses[(text, span)] = min(old, floor)

    @property
    def troubled(self) -> bool:
        """It shows something that a rule may speak of."""
        return bool(
            self.blocked or self.hazards or self.faults or self.leftovers or not self.finished
            or any(record.faults or record.racing or record.unexpected or any(wait.late for wait in record.waits)
                   for record in self.barriers.values())
        )  # fmt: skip

    @property
    def from_inputs(self) -> bool:
        """What it asked for are the kernel's inputs.

        Which way a branch on data of each thread's own is taken first (`turn`) is no loaded number: for some data each
        way is taken. Nor is what the kernel itself has counted in shared memory (`tally`, histograms).
        """
        return all(isinstance(key, str) or key[0] in ("param", "turn", "tally") for key in self.asked)  # type: ignore[index]

    @property
    def established(self) -> bool:
        """It rests on facts: nothing in it was taken on trust, and what it was given are the kernel's inputs.

        An execution whose control depended on loaded data shows what could happen for some data, which the data's own
        rules (lengths that agree with each other) may exclude: nothing is claimed from it.
        """
        return self.from_inputs and not self.incomplete and not self.guesses
