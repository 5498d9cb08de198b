"""Which barrier words a kernel initialises and uses: mbarrier operands as places in shared memory.

A barrier word is a symbol and a byte offset into it (a generated kernel keeps all of them in one dynamic pool). An
operand may name one word, one word per thread (`bar[warp_id]`), some unknown word of a known symbol (`bar[stage]`),
or nothing that is known; rules that speak of absence need to know which.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum

from msgspec import Struct

from warplint.memo import remembered
from warplint.program.ir import Symbol
from warplint.threads.facts import Condition, Event, Known, Pointer, Roles, Uniformity, Value, warps_of

WORD_BYTES = 8
INIT = "mbarrier.init"
WAITS = frozenset({"mbarrier.try_wait", "mbarrier.test_wait"})
REMOTE_OPS = frozenset({"cp.async.bulk.s2s", "st.async", "red.async"})
"""Operations whose barrier always lies in another CTA of the cluster (PTX 9.7.9.12, 9.7.9.25.4.1, 9.7.13.7)."""


class Word(Struct, frozen=True):
    """One 8-byte barrier word."""

    symbol: Symbol
    offset: int


class Site(Struct, frozen=True):
    """One event that names a barrier, with the words it names for the threads that execute it."""

    event: Event
    symbol: Symbol | None
    """None when the address is not known at all."""
    words: tuple[tuple[Word, int], ...] | None
    """(word, threads that name it), in order of offset; None when the offset is not known."""
    remote: bool
    """The word lies, or may lie, in another CTA of the cluster."""

    @property
    def threads(self) -> int:
        """The threads that may execute it."""
        return self.event.reach.threads


class Barriers(Struct, frozen=True):
    """All that names a barrier in one kernel, in program order."""

    inits: tuple[Site, ...]
    """Live `mbarrier.init` sites."""
    dead: tuple[Site, ...]
    """`mbarrier.init` sites that no thread reaches."""
    invals: tuple[Site, ...]
    uses: tuple[Site, ...]
    """Live waits, arrivals, commits and copies that name a barrier."""
    opaque: bool
    """Something in the kernel was not understood; it may initialise or wait."""

    @property
    def blind(self) -> bool:
        """Some init's address is not known at all."""
        return any(site.symbol is None for site in (*self.inits, *self.dead))

    def unknown_init(self, symbol: Symbol | None) -> bool:
        """Some init may have any word of the symbol for its operand (no symbol: any word at all)."""
        return any(
            site.words is None and (site.symbol is None or symbol is None or site.symbol is symbol)
            for site in (*self.inits, *self.dead)
        )

    def inits_of(self, site: Site) -> list[Site]:
        """Live inits of the words that a use may name: of any word of its symbol when its offset is unknown."""
        if site.symbol is None:
            return []
        if site.words is None:
            return [init for init in self.inits if init.symbol is site.symbol]
        named = {word for word, _ in site.words}
        return [init for init in self.inits if init.words and any(word in named for word, _ in init.words)]


@remembered(2)
def barriers(roles: Roles) -> Barriers:
    """The barrier sites of a kernel (several rules ask for the same one)."""
    inits, dead, invals, uses = [], [], [], []
    for event in roles.events:
        if "barrier" not in event.values:
            continue
        site = _site(roles, event)
        if event.name == INIT:
            (inits if event.reach.threads else dead).append(site)
        elif not event.reach.threads:
            continue
        elif event.name == "mbarrier.inval":
            invals.append(site)
        else:
            uses.append(site)
    return Barriers(tuple(inits), tuple(dead), tuple(invals), tuple(uses), has_opaque(roles))


def has_opaque(roles: Roles) -> bool:
    """Whether some part of the kernel was not understood: it may do what a rule is about to miss."""
    return bool(roles.incomplete)


def _site(roles: Roles, event: Event) -> Site:
    value = event.values["barrier"]
    remote = is_remote(roles, event)
    if not isinstance(value, Pointer) or value.symbol.kind not in ("shared", "dynamic_shared"):
        return Site(event, None, None, remote)
    return Site(event, value.symbol, words_of(value, event.reach.threads), remote)


def words_of(pointer: Pointer, threads: int) -> tuple[tuple[Word, int], ...] | None:
    """The words that a pointer names for a set of threads; None when its offset is not known."""
    offset = pointer.offset
    if not isinstance(offset, Known):
        return None
    if isinstance(offset.each, int):
        return ((Word(pointer.symbol, offset.each), threads),)
    by_offset: dict[int, int] = {}
    for thread in threads_in(threads):
        at = offset.at(thread)
        by_offset[at] = by_offset.get(at, 0) | 1 << thread
    if not threads:  # dead code: every thread's word, so that the site still counts as an init of it
        by_offset = dict.fromkeys(offset.each, 0)
    return tuple((Word(pointer.symbol, at), by_offset[at]) for at in sorted(by_offset))


def threads_in(threads: int) -> Iterator[int]:
    """The members of a thread set, ascending."""
    while threads:
        low = threads & -threads
        yield low.bit_length() - 1
        threads ^= low


def is_remote(roles: Roles, event: Event) -> bool:
    """Whether the barrier operand lies, or may lie, in another CTA of the cluster.

    False when the cluster is known to be one CTA, or nothing in the kernel speaks of more: generators print `mapa` to
    rank 0 and multicast to mask 1 for a cluster of one. A `.shared::cluster` spelling alone says nothing:
    `tcgen05.commit` and bulk copies always carry it.
    """
    if clustered(roles) is Clustered.NO:
        return False
    value = event.values.get("barrier")
    if isinstance(value, Pointer) and value.cta is not None:
        return not own_rank(value.cta)
    if event.op.mods.get("remote") or event.op.mods.get("multicast") or event.name in REMOTE_OPS:
        return True
    if "cta" in event.values:
        return not own_rank(event.values["cta"])
    return event.name.startswith("cp.async.bulk.tensor") and event.op.mods.get("cta_group") == 2


def own_rank(rank: Value) -> bool:
    """A rank operand that is this CTA's own rank names a word of its own shared memory."""
    return getattr(rank, "key", None) in ("cluster_ctarank", ("special", "cluster_ctarank"))


class Clustered(Enum):
    """Whether the kernel runs in clusters of several CTAs."""

    NO = 0
    PERHAPS = 1
    YES = 2


@remembered(2)
def clustered(roles: Roles) -> Clustered:
    """YES when the launch says so or an operation needs a peer; PERHAPS when ranks or masks are computed."""
    cluster = roles.launch.cluster
    if cluster is not None:
        return Clustered.YES if _product(cluster.value) > 1 else Clustered.NO
    found = Clustered.NO
    for event in roles.events:
        if event.op.mods.get("cta_group") == 2:
            return Clustered.YES
        rank = event.values.get("cta")
        mask = event.values.get("cta_mask")
        if (rank is not None and _beyond(rank, 0)) or (mask is not None and _beyond(mask, 1)):
            return Clustered.YES
        if event.name == "barrier.cluster.wait" or _computed(rank) or _computed(mask):
            found = Clustered.PERHAPS
    return found


def _beyond(value: Value, most: int) -> bool:
    """The rank or mask is known and reaches another CTA than the first."""
    return isinstance(value, Known) and (value.constant is None or value.constant > most)


def _computed(value: Value | None) -> bool:
    return value is not None and not isinstance(value, Known)


def _product(values: Iterable[int]) -> int:
    total = 1
    for value in values:
        total *= value
    return total


# --------------------------------------------------------------------------------------------------- names
def name_of(word: Word) -> str:
    """A word as the source would write it: `full`, `full[2]`, `pool[6]` for a pool of unknown element type."""
    symbol, offset = word.symbol, word.offset
    if not symbol.dims and offset == 0:
        return symbol.name
    if offset % WORD_BYTES == 0 and (symbol.element_bytes == WORD_BYTES or symbol.kind == "dynamic_shared"):
        index = offset // WORD_BYTES
        return f"{symbol.name}[{index}]" if symbol.element_bytes == WORD_BYTES else f"{symbol.name} + {offset}"
    return f"{symbol.name} + {offset}"


def names(words: Iterable[Word]) -> str:
    """Barrier words for a message: "barrier `full[2]`", "4 barriers at bytes 8-39 of `pool`"."""
    ordered = sorted(set(words), key=lambda word: (word.symbol.name, word.offset))
    if len(ordered) == 1:
        return f"barrier `{name_of(ordered[0])}`"
    if not ordered:
        return "a barrier"
    symbols = list(dict.fromkeys(word.symbol for word in ordered))
    if len(symbols) == 1:
        runs = _runs([word.offset for word in ordered])
        where = ", ".join(f"{a}-{b + WORD_BYTES - 1}" for a, b in runs[:4]) + (", ..." if len(runs) > 4 else "")
        return f"{len(ordered)} barriers (bytes {where} of `{symbols[0].name}`)"
    listed = ", ".join(f"`{name_of(word)}`" for word in ordered[:4])
    return f"{len(ordered)} barriers ({listed}{', ...' if len(ordered) > 4 else ''})"


def _runs(offsets: list[int]) -> list[tuple[int, int]]:
    runs: list[list[int]] = []
    for offset in offsets:
        if runs and offset == runs[-1][1] + WORD_BYTES:
            runs[-1][1] = offset
        else:
            runs.append([offset, offset])
    return [(a, b) for a, b in runs]


def label(site: Site) -> str:
    """The barrier of one site: its words, or the symbol when the index varies, or the bare noun."""
    if site.words:
        return names(word for word, _ in site.words)
    return f"a barrier of `{site.symbol.name}`" if site.symbol is not None else "a barrier"


def capital(text: str) -> str:
    """A phrase at the start of a sentence."""
    return text[:1].upper() + text[1:]


# -------------------------------------------------------------------------------------------------- guards
def exclusive(a: Event, b: Event) -> bool:
    """Whether no execution of the block reaches both: opposite sides of one condition that is the same for all threads.

    A condition inside a loop decides anew in each iteration, so it excludes nothing.
    """
    sides = {id(guard.stmt): guard for guard in a.guards if guard.stmt is not None and uniform(guard)}
    for guard in b.guards:
        other = sides.get(id(guard.stmt)) if guard.stmt is not None else None
        if other is not None and other.taken != guard.taken and not (_repeats(guard, a) or _repeats(guard, b)):
            return True
    return False


def _repeats(guard: Condition, event: Event) -> bool:
    return any(
        loop.stmt.span.start <= guard.span.start and guard.span.end <= loop.stmt.span.end for loop in event.loops
    )


def uniform(guard: Condition) -> bool:
    """The condition has one value for the whole block."""
    value = guard.value
    if isinstance(value, Known):
        return value.constant is not None
    return getattr(value, "uniformity", Uniformity.LANE) >= Uniformity.CTA


def warps(roles: Roles, threads: int) -> dict[int, int]:
    """The warps of a thread set in the kernel's warp size: index -> lanes."""
    return warps_of(threads, roles.launch.warp_size)
