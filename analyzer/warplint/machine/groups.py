"""Asynchronous groups: what a thread has issued, committed and waited for, one mechanism at a time.

Groups belong to threads (PTX ISA 9.7.9.25.3, 9.7.9.27.2, 9.7.15.7). They are kept for each strand, since threads that
met
the same synchronisation so far issued the same; a strand that is cut hands its groups to its parts. When the issuing
threads
have waited, an access counts as made at that time by those threads: others are ordered after it by ordinary joins.
"""

from __future__ import annotations

from msgspec import Struct, field

from warplint.machine.footprint import Access
from warplint.machine.strands import Strand, Strands
from warplint.source import Span


class GroupState(Struct):
    """Groups of one mechanism of one strand."""

    open: list[Access] = field(default_factory=list)
    """Accesses not committed yet."""
    spans: list[Span] = field(default_factory=list)
    """Operations not committed yet (also those without a known access)."""
    committed: list[tuple[list[Access], Span]] = field(default_factory=list)
    """Groups not known to be over, oldest first, with the place of the commit."""
    issued: list[Span] = field(default_factory=list)
    """Operations in `committed`, for what is left over at exit."""


class Groups:
    """All groups of one execution."""

    def __init__(self, strands: Strands) -> None:
        self.strands = strands
        self.states: dict[tuple[str, int], GroupState] = {}

    def of(self, mechanism: str, strand: Strand) -> GroupState:
        """The groups of a strand; those of the strand it was cut from, the first time it is asked."""
        state = self.states.get((mechanism, strand.index))
        if state is None:
            state = GroupState()
            for ancestor in self.strands.lineage(strand.index)[1:]:
                older = self.states.get((mechanism, ancestor))
                if older is not None:
                    state = GroupState(
                        list(older.open), list(older.spans), [(list(group), span) for group, span in older.committed],
                        list(older.issued),
                    )  # fmt: skip
                    break
            self.states[(mechanism, strand.index)] = state
        return state

    def issue(self, mechanism: str, strands: list[Strand], access: Access | None, span: Span) -> None:
        """An operation of the next group."""
        if access is not None:
            access.open = access.threads
        for strand in strands:
            state = self.of(mechanism, strand)
            state.spans.append(span)
            if access is not None:
                state.open.append(access)

    def commit(self, mechanism: str, strands: list[Strand], span: Span) -> None:
        """Close the group; an empty one counts as well."""
        for strand in strands:
            state = self.of(mechanism, strand)
            state.committed.append((state.open, span))
            state.issued.extend(state.spans)
            state.open, state.spans = [], []

    def wait(self, mechanism: str, strands: list[Strand], allowed: int) -> None:
        """At most the `allowed` latest committed groups are still under way."""
        for strand in strands:
            state = self.of(mechanism, strand)
            over = len(state.committed) - allowed
            if over <= 0:
                continue
            for group, _ in state.committed[:over]:
                for access in group:
                    self.finish(access, strand)
            del state.committed[:over]
            if not state.committed:
                state.issued = []

    def finish(self, access: Access, strand: Strand) -> None:
        """The threads of the strand know that their part of an access is over."""
        access.open &= ~strand.threads
        if access.open:
            access.strands += ((strand.index, strand.now),)  # as much of it as this strand made is over
        if not access.open and access.pending:
            access.pending = ""
            access.strands = tuple((s.index, s.now) for s in self.strands.of(access.cta, access.threads))

    def live(self, mechanism: str) -> list[tuple[Strand, GroupState]]:
        """The groups of every strand that is not cut, in order."""
        found = []
        for (name, index), state in self.states.items():
            strand = self.strands.all[index]
            if name == mechanism and not strand.children and (state.spans or state.committed):
                found.append((strand, state))
        return found
