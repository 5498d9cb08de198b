"""Values in shared memory: what was stored last in each word, where the machine knows it.

Only words that control depends on are kept (`slicing` says which stores matter). A reader gets the value when the
write is ordered before its read by happens-before; else there is a race, which `memory` reports, and nothing is said
about the value. A word that was stored with unknown data holds one unknown number, the same for all its readers, until
it is written again. Every other write to its bytes, whatever it is, makes the machine forget it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from msgspec import Struct

from warplint.machine import values as v
from warplint.machine.footprint import Access, Region
from warplint.machine.strands import Strand
from warplint.machine.values import Value
from warplint.threads.facts import Uniformity

if TYPE_CHECKING:
    from warplint.machine.agent import Agent
    from warplint.machine.world import World

MAX_WORDS = 512
"""Words that are kept of one variable of one CTA."""
MAX_SCATTERED = 64
"""Words that one store may write: tables that whole CTAs fill hold data, which control does not read."""


class Word(Struct, frozen=True):
    """One word of shared memory."""

    value: Value
    """An `int` or a `Place`; an `Unknown` is one number for all readers."""
    width: int
    threads: int
    """Who wrote it."""
    stamps: tuple[tuple[int, int], ...] = ()
    """(strand, time) of the write."""
    done: tuple[tuple[Hashable, int], ...] = ()
    """Completions that must be observed before it is there."""
    version: int = 0
    trusted: bool = False
    """Read without looking at the order (an address that an allocation returned: a rule of its own looks at it)."""


class Words:
    """The known words of all CTAs."""

    def __init__(self) -> None:
        self.regions: dict[tuple[int, Hashable], dict[int, Word]] = {}
        self.written = 0

    def forget(self, region: Region, access: Access | None = None) -> None:
        """A write to a region, to the bytes of `access` (None: it may be any of them)."""
        held = self.regions.get((region.cta, region.key))
        if not held:
            return
        if access is None or not access.exact:
            held.clear()
            return
        lanes = access.lanes
        gone = []
        for at, word in held.items():
            if at >= access.hi or at + word.width <= access.lo:
                continue
            if lanes is not None:
                grain = lanes.grain
                cells = lanes.cells(grain)
                if not any(cell in cells for cell in range(at // grain, (at + word.width - 1) // grain + 1)):
                    continue
            gone.append(at)
        for at in gone:
            del held[at]

    def forget_bytes(self, region: Region, offset: int | None, size: int | None) -> None:
        """The same by numbers; with either of them unknown, all words of the variable."""
        held = self.regions.get((region.cta, region.key))
        if not held:
            return
        if offset is None or size is None:
            held.clear()
            return
        for at in [at for at, word in held.items() if at < offset + size and offset < at + word.width]:
            del held[at]

    def put(self, region: Region, offset: int, word: Word) -> None:
        """Remember a word that was just written (what overlaps it has been forgotten)."""
        held = self.regions.setdefault((region.cta, region.key), {})
        if len(held) < MAX_WORDS:
            held[offset] = word

    def store(
        self, region: Region, access: Access, offset: int | tuple[int, ...], data: tuple[Value, ...], width: int,
        members: list[int],
    ) -> None:  # fmt: skip
        """`members` have stored `data`, each element `width` bytes wide, from `offset` on."""
        self.written += 1
        if isinstance(offset, int):
            for number, value in enumerate(data):
                one = v.narrow(value, members)
                if isinstance(one, v.Unknown):
                    same = len(members) == 1 or one.floor >= Uniformity.CTA
                    one = one if same else None
                if isinstance(one, int | v.Place | v.Unknown):
                    self._keep(region, access, offset + number * width, one, width, access.threads)
        elif isinstance(offset, tuple) and len(members) * len(data) <= MAX_SCATTERED:
            for number, value in enumerate(data):
                if not isinstance(value, int | tuple | v.Unknown):
                    continue
                if isinstance(value, v.Unknown) and value.floor < Uniformity.CTA:
                    continue  # data of each thread
                stored: dict[int, Value] = {}
                for thread in members:
                    at, one = offset[thread] + number * width, value[thread] if isinstance(value, tuple) else value
                    if stored.setdefault(at, one) != one:
                        self.forget_bytes(region, at, width)  # whose value is left there is not known
                    else:
                        self._keep(region, access, at, one, width, 1 << thread)

    def _keep(self, region: Region, access: Access, offset: int, value: Value, width: int, threads: int) -> None:
        self.put(region, offset, Word(value, width, threads, access.strands, access.done, self.written))

    # ------------------------------------------------------------------------------------------------- reading
    def read(self, world: World, agent: Agent, pointer: v.Place, width: int | None) -> Value | None:
        """What the threads of `agent` read at an address; None when it is not known."""
        offset, rank = pointer.offset, pointer.cta
        if isinstance(rank, tuple):
            return None
        held = self.regions.get((agent.cta if rank is None else rank, pointer.base))
        if not held:
            return None
        if isinstance(offset, int):
            word = held.get(offset)
            if word is None or not self._seen(world, agent, word, width, agent.threads):
                return None
            return self._number(world, agent.cta if rank is None else rank, pointer.base, offset, word)
        if not isinstance(offset, tuple):
            return None
        found = [0] * len(offset)
        seen: dict[int, bool] = {}
        for thread in agent.members:
            word = held.get(offset[thread])
            if word is None or not isinstance(word.value, int):
                return None
            mine = word.threads == 1 << thread
            if not mine:
                known = seen.get(word.version)
                if known is None:
                    known = seen[word.version] = self._seen(world, agent, word, width, agent.threads)
                if not known:
                    return None
            elif width is not None and width != word.width:
                return None
            found[thread] = word.value
        return tuple(found)

    def _number(self, world: World, cta: int, base: Hashable, offset: int, word: Word) -> Value:
        if isinstance(word.value, v.Unknown):
            return world.choose(("word", id(base), offset, word.version, cta))
        return word.value

    def _seen(self, world: World, agent: Agent, word: Word, width: int | None, threads: int) -> bool:
        """The write is ordered before a read by `threads`, and is of the same width."""
        if width is not None and width != word.width:
            return False
        if word.trusted or (word.threads == threads and threads & (threads - 1) == 0):
            return True
        return all(self._knows(world, strand, word) for strand in world.strands_of(agent, threads))

    def _knows(self, world: World, reader: Strand, word: Word) -> bool:
        if any(reader.clock.get(key, 0) < value for key, value in word.done):
            return False
        if word.done:
            return True
        strands = world.strands
        for writer, time in word.stamps:
            if not strands.all[writer].threads & word.threads or strands.knows(reader, writer, time, word.threads):
                continue
            both = reader.threads | word.threads
            low = (both & -both).bit_length() - 1
            warp = low // world.warp_size == (both.bit_length() - 1) // world.warp_size
            if warp and world.amd:
                continue
            if not (warp and reader.warp_joined >= time and strands.same_origin(reader.index, writer)):
                return False
        return True
