"""Roles: which warps do the same work, found from what they executed, and what to call them.

Two warps belong to one role when most of the places at which they synchronise are the same, barrier words included (so
that two consumer groups that run the same code on barriers of their own are two roles). What all warps of a CTA execute
is nobody's role; single-thread set-up (inits, allocation) and ordinary accesses do not set a warp apart.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from msgspec import Struct, field

from warplint.handoffs.recorder import Moment
from warplint.source import Span
from warplint.threads.bits import short, which
from warplint.threads.facts import Roles, warps_of

EVERYONE = "everyone"
ALIKE = 0.5
"""Share of common places (of all places of two warps) from which they are one role."""
MANY = 4
"""More roles than this that run the same code on barriers of their own are told as one."""
SETUP = frozenset(
    {"mbarrier.init", "mbarrier.inval", "tcgen05.alloc", "tcgen05.dealloc", "tcgen05.relinquish_alloc_permit",
     "setmaxnreg", "elect.sync", "shfl.sync", "fence.mbarrier_init.release.cluster"}
)  # fmt: skip
"""Operations that anybody may do for all."""
COPIES = {
    "cp.async.bulk.tensor.load": "TMA load", "cp.async.bulk.g2s": "bulk load", "cp.async.bulk.s2s": "peer copy",
    "multicast.cluster": "TMA load", "st.async": "peer store", "red.async": "peer reduction", "cp.async": "cp.async",
}  # fmt: skip
DOES = (
    (("cp.async.bulk.tensor.load", "multicast.cluster"), "TMA load"),
    (("cp.async.bulk.g2s",), "bulk load"),
    (("cp.async.bulk.s2s", "st.async", "red.async"), "peer copy"),
    (("clusterlaunchcontrol.try_cancel",), "scheduler"),
    (("cp.async",), "cp.async load"),
    (("tcgen05.mma", "wgmma.mma_async"), "MMA"),
    (("tcgen05.cp",), "TMEM copy"),
    (("tcgen05.ld", "tcgen05.st"), "TMEM access"),
    (("cp.async.bulk.tensor.store", "cp.reduce.async.bulk", "cp.async.bulk.s2g"), "bulk store"),
)
"""Operations that tell what a role is for, and the word for it, the most telling first."""
WORDS = 3
"""Words of a role's name at most."""


class Group(Struct, eq=False):
    """One role."""

    warps: int
    """All threads of its warps."""
    ctas: list[int]
    name: str = ""
    sites: set[Span] = field(default_factory=set)


class Cast:
    """Who is who in one execution."""

    def __init__(self, roles: Roles, moments: list[Moment], ctas: Iterable[int]) -> None:
        self.size = roles.launch.warp_size
        self.total = roles.threads
        self.everyone = roles.everyone
        self.groups: list[Group] = []
        self.common: set[tuple[int, Span]] = set()
        """(CTA, place) of operations that all warps of the CTA executed."""
        self._names: dict[tuple[int, int], str] = {}
        self._roles = roles
        reached: dict[Span, int] = {}
        for event in roles.events:
            reached[event.op.span] = reached.get(event.op.span, 0) | self.whole(event.reach.threads)
        for fact in roles.accesses:
            reached[fact.span] = reached.get(fact.span, 0) | self.whole(fact.reach.threads)
        self._open = {span for span, warps in reached.items() if warps == self.everyone}
        """Places that all warps may reach, whether they did or not."""
        for cta in ctas:
            self._find(cta, [moment for moment in moments if moment.cta == cta])
        self._call(moments)

    # ------------------------------------------------------------------------------------------- partition
    def whole(self, threads: int) -> int:
        """All threads of the warps of a set."""
        full, found = (1 << self.size) - 1, 0
        for warp in warps_of(threads, self.size):
            found |= full << warp * self.size
        return found & self.everyone

    def _find(self, cta: int, moments: list[Moment]) -> None:
        reached: dict[Span, int] = {}
        for moment in moments:
            reached[moment.span] = reached.get(moment.span, 0) | self.whole(moment.threads)
        all_sites = {span for span, warps in reached.items() if warps == self.everyone or span in self._open}
        self.common |= {(cta, span) for span in all_sites}
        keyed: dict[int, set[Hashable]] = {}
        plain: dict[int, set[Hashable]] = {}
        sites: dict[int, set[Span]] = {}
        for moment in moments:
            if moment.op in SETUP or moment.op == "access" or moment.span in all_sites:
                continue
            mark: Hashable = (moment.span, moment.key) if moment.key is not None else moment.span
            table = keyed if moment.key is not None else plain
            for warp in warps_of(moment.threads, self.size):
                table.setdefault(warp, set()).add(mark)
                sites.setdefault(warp, set()).add(moment.span)
        found: list[tuple[set[int], set[Hashable], bool]] = []
        for warp in sorted(sites):
            mine, hard = (keyed[warp], True) if warp in keyed else (plain[warp], False)
            for warps, marks, kind in found:
                if kind is hard and len(mine & marks) >= ALIKE * len(mine | marks):
                    warps.add(warp)
                    break
            else:
                found.append(({warp}, mine, hard))
        groups = [(warps, set().union(*(sites[warp] for warp in warps))) for warps, _, _ in found]
        for warps, places in _fold(groups):
            mask = self.whole(sum(1 << warp * self.size for warp in warps))
            twin = next((g for g in self.groups if g.warps == mask and g.sites & places), None)
            if twin is not None:
                twin.ctas.append(cta)
                twin.sites |= places
            else:
                self.groups.append(Group(mask, [cta], "", places))

    # ---------------------------------------------------------------------------------------------- names
    def _call(self, moments: list[Moment]) -> None:
        ops: dict[int, set[str]] = {}
        for moment in moments:
            if (moment.cta, moment.span) in self.common:
                continue
            for index, group in enumerate(self.groups):
                if moment.cta in group.ctas and self.whole(moment.threads) & ~group.warps == 0:
                    ops.setdefault(index, set()).add(moment.op)
        # What a role would do if it got there counts as well: a blocked kernel shows little.
        for event in self._roles.events:
            warps = self.whole(event.reach.threads)
            for index, group in enumerate(self.groups):
                if warps and not warps & ~group.warps and index in ops:
                    ops[index].add(event.name)
        for index, group in enumerate(self.groups):
            does = ops.get(index, set())
            words = [word for names, word in DOES if does & set(names)]
            group.name = " + ".join(words[:WORDS]) or "worker"
        taken: dict[str, list[Group]] = {}
        for group in self.groups:
            taken.setdefault(group.name, []).append(group)
        for name, same in taken.items():
            if len(same) > 1:
                for group in same:
                    group.name = f"{name} of {which(group.warps, self.total, self.size)}"
                    if sum(other.warps == group.warps for other in same) > 1:
                        group.name += f", CTA {', '.join(map(str, group.ctas))}"

    def role(self, cta: int, threads: int) -> str:
        """The role (or roles) of a thread set of one CTA."""
        known = self._names.get((cta, threads))
        if known is None:
            warps = self.whole(threads)
            if warps == self.everyone:
                known = EVERYONE
            else:
                inside = [g.name for g in self.groups if cta in g.ctas and g.warps & warps]
                known = " and ".join(inside[:3]) + (" and others" if len(inside) > 3 else "")
                known = known or self.threads(threads)
            self._names[(cta, threads)] = known
        return known

    def threads(self, threads: int) -> str:
        """A thread set in words: `warps 0-3 (128)`, `lane 0 of warp 4`, `thread 0`."""
        if threads > 1 and not threads & (threads - 1):
            thread = threads.bit_length() - 1
            return f"lane {thread % self.size} of warp {thread // self.size}"
        return short(threads, self.total, self.size)


def _fold(groups: list[tuple[set[int], set[Span]]]) -> list[tuple[set[int], set[Span]]]:
    """Many roles that run the same code on barriers of their own become one."""
    by_code: dict[frozenset[Span], list[tuple[set[int], set[Span]]]] = {}
    for group in groups:
        by_code.setdefault(frozenset(group[1]), []).append(group)
    folded = []
    for same in by_code.values():
        if len(same) > MANY:
            folded.append((set().union(*(warps for warps, _ in same)), same[0][1]))
        else:
            folded.extend(same)
    return sorted(folded, key=lambda group: min(group[0]))
