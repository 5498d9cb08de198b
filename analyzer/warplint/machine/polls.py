"""Loops that wait for a word of shared memory: flags, turns, queues between warps.

Such a loop is a blocking wait where every write to the word is known (`slicing` says which loops and words). The
writes to a word are kept in the order in which they were made, each with what it releases; a thread reads them one
after the other, beginning with the newest that is ordered before its read, until one ends its loop. It then learns what
that write released, if the read acquires or a fence follows it (PTX ISA 8.8: release and acquire patterns).

Another schedule may let a thread see a later write than the one that ended its loop here. That is looked at in the end:
a later write that nothing orders behind the read must end the loop as well, else the outcome is incomplete.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from warplint.machine import values as v
from warplint.machine.agent import Agent, Wait
from warplint.machine.barriers import label_of
from warplint.machine.compile import Instruction, Kind, PollLoop
from warplint.machine.footprint import Access
from warplint.machine.outcome import Handed, Party
from warplint.machine.slicing import LOOKS
from warplint.machine.strands import Strand, raise_to
from warplint.machine.values import Value
from warplint.source import Span

if TYPE_CHECKING:
    from warplint.machine.world import World

Word = tuple[int, Hashable, int]
"""CTA, variable, byte offset."""
MAX_PROBE = 200
"""Instructions of a loop that are executed to see whether another value ends it."""
MAX_WRITES = 4_000
"""Writes to polled words that are kept in all."""


class Write(Struct, eq=False):
    """One write to a polled word."""

    value: int | None
    who: Party
    span: Span
    stamps: tuple[tuple[int, int], ...]
    """(strand, time) of the threads that wrote it."""
    known: dict[Hashable, int]
    """What the writer knew."""
    release: dict[Hashable, int] | None
    """What a reader learns that acquires it; None: nothing."""


Fences = list[tuple[int, int]]
"""(strand, time) of fences."""


class Relaxed(Struct, frozen=True, eq=False):
    """A write that was seen by a load that does not acquire: the next fence does."""

    write: Write
    fences: Fences


class Look(Struct, frozen=True):
    """What a thread that is inside such a loop has read last."""

    word: Word
    index: int
    """Which write it saw."""
    pc: int
    acquires: bool
    begin: int
    end: int
    span: Span
    """The read."""
    escapes: bool
    """What was read is used after the loop."""


class Ended(Struct, frozen=True):
    """Threads that left such a loop."""

    look: Look
    who: Party
    stamps: tuple[tuple[int, int], ...]
    env: dict[Hashable, Value]
    results: dict


class Polls:
    """The polled words of all CTAs, and who waits for them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.loops = world.code.polls
        self.symbols = {symbol for loop in self.loops for symbol in loop.symbols}
        self.writes: dict[Word, list[Write]] = {}
        self.seen: dict[tuple[Word, int, int], int] = {}
        """(word, CTA, thread) -> the oldest write it can still read."""
        self.looks: dict[tuple[int, int], Look] = {}
        """(CTA, thread) -> what it read in the loop that it is in."""
        self.unfenced: dict[tuple[int, int], tuple[Relaxed, ...]] = {}
        """(CTA, thread) -> the writes that it acquires with its next fence."""
        self.fenced: dict[int, tuple[int, dict[Hashable, int]]] = {}
        """Strand -> time of its last fence, and what it knew then."""
        self.ended: list[Ended] = []
        self.count = 0
        self.probe: int | None = None
        """The value that every read gives while a loop is tried."""

    # ------------------------------------------------------------------------------------------------- writing
    def store(self, agent: Agent, place: Value, data: tuple[Value, ...], size: int | None, threads: int, span: Span,
              releases: bool) -> None:  # fmt: skip
        """Threads of an agent store to an address, which may be that of a polled word."""
        if not isinstance(place, v.Place) or place.base not in self.symbols:
            return
        world = self.world
        rank = agent.cta if place.cta is None else place.cta
        members = [thread for thread in agent.members if threads >> thread & 1]
        if not isinstance(rank, int) or not isinstance(place.offset, int | tuple) or not size:
            world.note("which polled word a store reaches is not known", span)
            return
        width = size // max(1, len(data))
        by_offset: dict[int, int] = {}
        for thread in members:
            at = place.offset if isinstance(place.offset, int) else place.offset[thread]
            by_offset[at] = by_offset.get(at, 0) | 1 << thread
        for at, by in by_offset.items():
            lowest = (by & -by).bit_length() - 1
            for number in range(max(1, len(data))):
                value = data[number] if data else None
                one = value[lowest] if isinstance(value, tuple) else value
                same = not isinstance(value, tuple) or all(value[t] == one for t in members if by >> t & 1)
                known = one if isinstance(one, int) and same else None
                self._write(agent, (rank, place.base, at + number * width), known, by, span, releases)

    def _write(self, agent: Agent, word: Word, value: int | None, by: int, span: Span, releases: bool) -> None:
        world = self.world
        self.count += 1
        if self.count > MAX_WRITES:
            world.note(f"more writes to polled words than are kept ({MAX_WRITES})", span)
            return
        strands = world.strands_of(agent, by)
        held = self.writes.setdefault(word, [])
        last = len(held)
        if held and not all(self._knows(strand, word, last - 1) for strand in strands):
            world.note(f"nothing orders this store and an earlier one to `{label_of(word)}`, which a loop waits for",
                       span)  # fmt: skip
        stamps = tuple((strand.index, strand.now) for strand in strands)
        release = self._released(strands[0], releases)
        world.strands.acquire(strands, {("word", *word): last + 1})
        known = {**strands[0].clock, **dict(stamps)}
        held.append(Write(value, Party(agent.cta, by), span, stamps, known, release))
        world.changed = True
        if value is not None:
            world.step(agent, span, f"sets {label_of(word)} to {value}", ("word", *word), by)

    def _released(self, strand: Strand, releases: bool) -> dict[Hashable, int] | None:
        """What a store by a thread of `strand` hands over: a release everything up to now, else what it has fenced."""
        alone = strand.threads & (strand.threads - 1) == 0
        if releases:
            return self.world.strands.published_by_one(strand)
        strands, lineage = self.world.strands, set(self.world.strands.lineage(strand.index))
        released: dict[Hashable, int] = {}
        for index, (time, clock) in self.fenced.items():
            # Its own fences, and those of others that it knows of: "write, fence, join, one thread raises the flag".
            if strands.covers(strand.clock, index, time):
                key = index
            elif index in lineage and alone:
                key = strand.index
            else:
                continue
            raise_to(released, clock)
            released[key] = max(time, released.get(key, 0))
        return released or None

    def fence(self, agent: Agent, threads: int) -> None:
        """A fence: what its threads did before is released by their later stores, what they read before is acquired."""
        world = self.world
        parts: dict[Relaxed, int] = {}
        for thread in agent.members if self.unfenced else ():
            for one in self.unfenced.pop((agent.cta, thread), ()) if threads >> thread & 1 else ():
                parts[one] = parts.get(one, 0) | 1 << thread
        for one, by in parts.items():
            strands = world.strands_of(agent, by)
            one.fences.extend((strand.index, strand.now) for strand in strands)
            world.strands.acquire(strands, one.write.release or {})
        for strand in world.strands_of(agent, threads):
            self.fenced[strand.index] = (strand.now, strand.clock)
            strand.now += 1

    # ------------------------------------------------------------------------------------------------- reading
    def read(self, agent: Agent, place: Value, span: Span, acquires: bool) -> Value | None:
        """What the threads of an agent read inside a loop that waits for a word; None outside of these, or unknown."""
        loop = next((loop for loop in self.loops if loop.begin <= agent.pc < loop.end), None)
        if loop is None:
            return None
        if self.probe is not None:
            return self.probe
        if not isinstance(place, v.Place) or place.base not in self.symbols or isinstance(place.cta, tuple):
            return self._unknown(agent, loop)
        rank = agent.cta if place.cta is None else place.cta
        if rank != agent.cta or not isinstance(place.offset, int | tuple):
            return self._unknown(agent, loop)
        found = [0] * self.world.block
        newest: dict[tuple[int, int], int] = {}
        for strand in self.world.strands_of(agent):
            for thread in agent.members:
                if not strand.threads >> thread & 1:
                    continue
                at = place.offset if isinstance(place.offset, int) else place.offset[thread]
                word = (rank, place.base, at)
                held = self.writes.get(word)
                if not held:
                    return self._unknown(agent, loop)
                known = newest.get((strand.index, at))
                if known is None:
                    known = next((n for n in reversed(range(len(held))) if self._knows(strand, word, n)), 0)
                    newest[(strand.index, at)] = known
                index = max(known, self.seen.get((word, agent.cta, thread), 0))
                value = held[index].value
                if value is None:
                    return self._unknown(agent, loop)
                self.seen[(word, agent.cta, thread)] = index
                self.looks[(agent.cta, thread)] = Look(word, index, agent.pc, acquires, loop.begin, loop.end, span,
                                                       loop.escapes)  # fmt: skip
                found[thread] = value
        return agent.narrowed(tuple(found))

    def _unknown(self, agent: Agent, loop: PollLoop) -> None:
        self.world.note(f"the loop `{loop.text}` waits for a word of memory that other threads change", loop.span)
        for thread in agent.members:
            self.looks.pop((agent.cta, thread), None)

    def _knows(self, reader: Strand, word: Word, number: int) -> bool:
        """A write to a word, by its number, is made or seen before what the threads of `reader` do now."""
        if reader.clock.get(("word", *word), 0) > number:
            return True
        strands, write = self.world.strands, self.writes[word][number]
        for writer, time in write.stamps:
            if strands.knows(reader, writer, time, write.who.threads):
                continue
            both = reader.threads | write.who.threads
            one_warp = (both & -both).bit_length() - 1 >> 5 == both.bit_length() - 1 >> 5
            if not (one_warp and reader.warp_joined >= time and strands.same_origin(reader.index, writer)):
                return False
        return True

    # ------------------------------------------------------------------------------------------------- waiting
    def again(self, agent: Agent, instruction: Instruction) -> Wait | None:
        """The loop goes on: the threads look at the next write, or wait for one."""
        moved, waiting = False, {}
        span = instruction.span
        for thread in agent.members:
            look = self.looks.get((agent.cta, thread))
            if look is None:
                continue
            span = look.span
            held = self.writes[look.word]
            if look.index + 1 < len(held):
                self.seen[(look.word, agent.cta, thread)] = look.index + 1
                moved = True
            else:
                waiting.setdefault(look.word, (len(held), []))[1].append(thread)
        if moved or not waiting:
            return None
        cta = agent.cta

        def ready() -> bool:
            come = False
            for word, (length, threads) in waiting.items():
                if len(self.writes[word]) > length:
                    come = True
                    for thread in threads:
                        self.seen[(word, cta, thread)] = max(length, self.seen.get((word, cta, thread), 0))
            return come

        word = next(iter(waiting))
        self.world.step(agent, span, f"waits for another value of {label_of(word)}", ("word", *word))
        return Wait("shared word", span, ready, ("word", *word))

    def settle(self, agent: Agent) -> None:
        """An agent that was inside such a loop has left it: it learns what the write released that it saw."""
        look = self.looks.get((agent.cta, agent.members[0]))
        if look is None or look.begin <= agent.pc < look.end:
            return
        world = self.world
        groups: dict[Look, int] = {}
        for thread in agent.members:
            one = self.looks.pop((agent.cta, thread), None)
            if one is not None:
                groups[one] = groups.get(one, 0) | 1 << thread
        for one, threads in groups.items():
            write = self.writes[one.word][one.index]
            strands = world.strands_of(agent, threads)
            stamps = tuple((strand.index, strand.now) for strand in strands)
            world.strands.acquire(strands, {("word", *one.word): one.index + 1})
            who = Party(agent.cta, threads)
            self.ended.append(Ended(one, who, stamps, dict(agent.env), dict(agent.results)))
            fences: Fences = []
            world.outcome.handed.append(
                Handed(
                    label_of(one.word), write.who, write.span, who, one.span,
                    waited=partial(self._behind, stamps),
                    knew=partial(self._knew, write.known),
                    hands=partial(self._knew, write.release or {}),
                    acquired=partial(self._acquired, one.acquires, fences),
                )
            )  # fmt: skip
            relaxed = Relaxed(write, fences)
            world.step(agent, one.span, f"sees {label_of(one.word)} = {write.value}", ("word", *one.word), threads)
            if one.acquires:
                world.strands.acquire(strands, write.release or {})
                continue
            for thread in agent.members:
                if threads >> thread & 1:
                    mark = (agent.cta, thread)
                    self.unfenced[mark] = (*self.unfenced.get(mark, ()), relaxed)

    # ------------------------------------------------------------------------------------------------- the end
    def conclude(self) -> None:
        """Note reads that may see a later write, on another schedule, which does not end their loop."""
        for ended in self.ended:
            look = ended.look
            for write in self.writes[look.word][look.index + 1 :]:
                if self._after(write, ended):
                    break
                if write.value == self.writes[look.word][look.index].value:
                    continue
                if look.escapes or not self._ends(ended, write.value):
                    self.world.note(
                        f"a loop that waits for `{label_of(look.word)}` may miss the value it waits for: nothing "
                        "orders a later store behind its read",
                        look.span,
                    )
                    break

    def _after(self, write: Write, ended: Ended) -> bool:
        """A write that is made by threads that know that the loop has been left."""
        if write.who == ended.who:
            return True
        return all(self.world.strands.covers(write.known, strand, time, ended.who.threads)
                   for strand, time in ended.stamps)  # fmt: skip

    def _knew(self, known: dict[Hashable, int], access: Access) -> bool:
        return all(self.world.strands.covers(known, strand, time, access.threads) for strand, time in access.strands)

    def _acquired(self, always: bool, fences: Fences, access: Access) -> bool:
        return always or self._behind(fences, access)

    def _behind(self, stamps: Iterable[tuple[int, int]], access: Access) -> bool:
        """An access was made by one of these strands, or a part of one, at its time or later."""
        return any(
            time <= at and self.world.strands.same_origin(strand, by)
            for strand, time in stamps
            for by, at in access.strands
        )

    def _ends(self, ended: Ended, value: int | None) -> bool:
        """The loop is left when its read gives `value` instead."""
        from warplint.machine.runner import View, assign

        look = ended.look
        if value is None:
            return False
        thread = ended.who.threads & -ended.who.threads
        agent = Agent(0, ended.who.cta, thread, look.pc, dict(ended.env), dict(ended.results))
        view = View(self.world, agent)
        self.probe = value
        try:
            for number in range(MAX_PROBE):
                if not look.begin <= agent.pc < look.end:
                    return True
                if number and agent.pc == look.pc:
                    return False
                at = self.world.code.instructions[agent.pc]
                if at.kind is Kind.ASSIGN:
                    assign(agent, view, at)
                elif at.kind is Kind.BRANCH:
                    assert at.test is not None
                    mask = agent.mask_where(agent.narrowed(at.test(view)))
                    if mask is None:
                        return False
                    if not mask:
                        agent.pc = at.target
                        continue
                elif at.kind is Kind.JUMP:
                    agent.pc = at.target
                    continue
                elif at.kind is Kind.DO:
                    assert at.op is not None
                    if at.op.name in LOOKS:
                        agent.results[(at.op, "value")] = value
                elif at.kind not in (Kind.READ, Kind.MARK, Kind.MERGE):
                    return False
                agent.pc += 1
        finally:
            self.probe = None
        return False
