"""The storage table: pieces of shared and tensor memory, their stages, who writes and who reads them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Hashable
from itertools import pairwise

from msgspec import Struct, field

from warplint.handoffs.recorder import Moment, Site, Touch, Use
from warplint.handoffs.scene import ARRIVES, Scene
from warplint.machine.footprint import Access
from warplint.source import Span
from warplint.tables import Buffer, User

HIDDEN = frozenset({"mbarrier.init", "tcgen05.dealloc"})
"""Accesses that say nothing about data."""
NAMES = {
    "tcgen05.mma": "MMA", "tcgen05.ld": "tcgen05.ld", "tcgen05.st": "tcgen05.st", "wgmma": "wgmma",
    "ordinary store": "store", "ordinary load": "load",
}  # fmt: skip
MAX_BUFFERS = 80


class Area(Struct):
    """A contiguous piece: `lo..hi` of one variable, touched by `uses`."""

    lo: int
    hi: int
    how: str
    """How its end is known: as `Buffer.size_is`."""
    uses: list[tuple[Site, Use]] = field(default_factory=list)

    def marks(self) -> frozenset[Hashable]:
        """What touches it: areas with equal marks are stages of one buffer."""
        return frozenset((site.span, site.what, site.write) for site, _ in self.uses)


class Piece(Struct, eq=False):
    """A buffer of the table with what it was made from."""

    buffer: Buffer
    variable: Hashable
    areas: list[Area]

    def covers(self, access: Access) -> bool:
        """An access of the machine touches this buffer."""
        if access.region.key is not self.variable and access.region.key != self.variable:
            return False
        return any(access.lo < area.hi and area.lo < access.hi for area in self.areas)

    def holds(self, touch: Touch) -> bool:
        """An access touches this buffer."""
        if touch.region.key is not self.variable and touch.region.key != self.variable:
            return False
        return any(touch.lo < area.hi and area.lo < touch.hi for area in self.areas)


class Storage:
    """All buffers of one execution."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.cut = 0
        self._touched: dict[int, frozenset[tuple[str, bool]]] = {}
        lengths = _lengths(scene)
        by_variable: dict[Hashable, list[tuple[Site, Use]]] = {}
        names: dict[Hashable, tuple[str, bool]] = {}
        for site, starts in scene.recorder.uses.items():
            if site.what in HIDDEN:
                continue
            by_variable.setdefault(site.region.key, []).extend((site, use) for use in starts.values())
            names[site.region.key] = (site.region.name, site.region.tensor)
        self.pieces: list[Piece] = []
        shared = tensor = 0
        for variable, uses in sorted(by_variable.items(), key=lambda item: (names[item[0]][1], _place(item[1]))):
            name, is_tensor = names[variable]
            known = [both for both in uses if both[0].exact]
            lost = [both for both in uses if not both[0].exact]
            found = _stages(_areas(known, lengths))
            for areas in [*found, [Area(0, 0, "unknown", lost)]] if lost else found:
                if is_tensor:
                    tensor += 1
                else:
                    shared += 1
                if len(self.pieces) >= MAX_BUFFERS:
                    self.cut += 1
                    continue
                title = f"T{tensor}" if is_tensor else f"S{shared}"
                self.pieces.append(Piece(self._buffer(title, name, is_tensor, areas), variable, areas))

    def _buffer(self, title: str, variable: str, tensor: bool, areas: list[Area]) -> Buffer:
        ctas = sorted({site.region.cta for area in areas for site, _ in area.uses})
        size = max(area.hi - area.lo for area in areas)
        hows = {area.how for area in areas}
        return Buffer(
            title,
            "tensor" if tensor else "shared",
            variable,
            tuple(area.lo for area in areas if area.how != "unknown"),
            size,
            next(how for how in ("unknown", "at least", "at most", "inferred", "stated") if how in hows),
            tuple(ctas),
            self._users(areas, True),
            self._users(areas, False),
        )

    def _users(self, areas: list[Area], write: bool) -> tuple[User, ...]:
        found: dict[tuple[str, str, str], tuple[int, set[Span]]] = {}
        for area in areas:
            for site, use in area.uses:
                if site.write == write:
                    role = self.scene.cast.role(site.cta, use.threads)
                    key = (role, NAMES.get(site.what, site.what), site.proxy)
                    first, spans = found.setdefault(key, (use.first, set()))
                    spans.add(site.span)
                    found[key] = (min(first, use.first), spans)
        ordered = sorted(found.items(), key=lambda item: (item[1][0], item[0]))
        return tuple(User(*key, self.scene.lines(spans)) for key, (_, spans) in ordered)

    def touched(self, moment: Moment) -> frozenset[tuple[str, bool]]:
        """The buffers of data that a moment touches: (name, it writes)."""
        if not moment.touches:
            return frozenset()
        known = self._touched.get(moment.number)
        if known is None:
            known = self._touched[moment.number] = frozenset(
                (piece.buffer.name, touch.write)
                for touch in moment.touches if touch.what != "tcgen05.alloc"
                for piece in self.pieces if piece.holds(touch)
            )  # fmt: skip
        return known

    def names(self, touches: list[Touch]) -> list[str]:
        """The buffers that accesses touch, in the order of the table."""
        return [piece.buffer.name for piece in self.pieces if any(piece.holds(touch) for touch in touches)]


def _place(uses: list[tuple[Site, Use]]) -> tuple[int, str]:
    site = min((site for site, _ in uses), key=lambda s: s.span.start)
    start = getattr(site.region.key, "span", site.span).start
    return (start, site.region.name)


def _lengths(scene: Scene) -> dict[tuple[Hashable, int], tuple[int, str]]:
    """How far copies reach whose size the source does not give: (variable, start) -> (bytes, how that is known).

    A copy that was alone in its phase brought what the phase expected. Others end at latest at the next stage of the
    same place, and where the next write of another place begins; the bytes that their phases expected check that.
    """
    starts: dict[tuple[Hashable, Span], set[int]] = {}
    writes: dict[Hashable, set[int]] = {}
    for site, uses in scene.recorder.uses.items():
        if site.write and not site.region.tensor:
            writes.setdefault(site.region.key, set()).update(use.lo for use in uses.values())
            if site.proxy == "async" and any(not use.known for use in uses.values()):
                starts.setdefault((site.region.key, site.span), set()).update(use.lo for use in uses.values())
    found: dict[tuple[Hashable, int], tuple[int, str]] = {}
    for (variable, _), places in starts.items():
        ordered = sorted(places)
        gap = min((b - a for a, b in pairwise(ordered)), default=0)
        following = sorted(writes[variable])
        for at in ordered:
            index = bisect_right(following, at)
            # What lies between the stages lies at the same distance from each.
            if index < len(following):
                gap = min(gap, following[index] - at) if gap else 0
        if gap:
            found.update(((variable, at), (gap, "inferred")) for at in ordered)
    copies: dict[tuple[Hashable, int], list[Touch]] = {}
    expected: dict[tuple[Hashable, int], int] = {}
    for moment in scene.moments:
        mark = (moment.key, moment.phase)
        if ARRIVES.get(moment.op) == "copy":
            copies.setdefault(mark, []).extend(touch for touch in moment.touches[:1])
        elif moment.expect:
            expected[mark] = expected.get(mark, 0) + moment.expect
    for mark, touches in copies.items():
        told = expected.get(mark)
        if told is None or all(touch.known for touch in touches):
            continue
        if len(touches) == 1:
            found[(touches[0].region.key, touches[0].lo)] = (told, "inferred")
            continue
        total = sum(
            touch.hi - touch.lo if touch.known else found.get((touch.region.key, touch.lo), (0, ""))[0]
            for touch in touches
        )
        if total > told:
            for touch in touches:
                length, _ = found.get((touch.region.key, touch.lo), (0, ""))
                if length and not touch.known:
                    found[(touch.region.key, touch.lo)] = (length, "at most")
    return found


def _areas(uses: list[tuple[Site, Use]], lengths: dict[tuple[Hashable, int], tuple[int, str]]) -> list[Area]:
    """Pieces that overlap are one area. A copy of unknown length takes in the operand reads up to the next piece."""
    spans: list[tuple[int, int, str, Site, Use]] = []
    written = _written(uses, lengths)
    anchors = sorted({use.lo for site, use in uses if use.known or (site.write and site.proxy == "async")})
    for site, use in uses:
        low, high, how = use.lo, use.hi, "stated" if use.known else "at least"
        if site.write and site.proxy == "async" and not use.known:
            length, told = lengths.get((site.region.key, low), (0, ""))
            if length:
                high, how = low + length, told
            else:
                following = next((at for at in anchors if at > low), None)
                reads = [
                    other.lo
                    for s, other in uses
                    if not s.write
                    and not other.known
                    and other.lo > low
                    and (following is None or other.lo < following)
                ]
                high = max((at + 1 for at in reads), default=low + 1)
        elif not site.write and not use.known and high > low + 1:
            # A store of unknown box: what was written from its start on, as far as the same threads wrote it.
            found = next((end for start, end in written if start <= low < end), 0)
            high, how = (min(high, found), "stated") if found else (low + 1, how)
        spans.append((low, high, how, site, use))
    spans.sort(key=lambda item: (item[0], -item[1], item[3].span.start, item[3].what))
    areas: list[Area] = []
    for low, high, how, site, use in spans:
        last = areas[-1] if areas else None
        if last is not None and low < last.hi:
            if high > last.hi:
                last.hi, last.how = high, "stated" if how == last.how == "stated" else "at least"
        else:
            last = Area(low, high, how)
            areas.append(last)
        last.uses.append((site, use))
    return areas


def _written(
    uses: list[tuple[Site, Use]], lengths: dict[tuple[Hashable, int], tuple[int, str]]
) -> list[tuple[int, int]]:
    """What was written without a gap by the same warps, ascending."""
    pieces = sorted(
        (use.lo, max(use.hi, use.lo + lengths.get((site.region.key, use.lo), (0, ""))[0]), use.threads)
        for site, use in uses
        if site.write
    )
    runs: list[tuple[int, int, int]] = []
    for low, high, threads in pieces:
        if runs and (low < runs[-1][1] or (low == runs[-1][1] and threads & runs[-1][2])):
            runs[-1] = (runs[-1][0], max(runs[-1][1], high), runs[-1][2] | threads)
        else:
            runs.append((low, high, threads))
    return [(low, high) for low, high, _ in runs]


def _stages(areas: list[Area]) -> list[list[Area]]:
    """Areas that the same places touch are stages of one buffer; ordinary pieces that adjoin are one piece."""
    groups: dict[frozenset[Hashable], list[Area]] = {}
    for area in areas:
        groups.setdefault(area.marks(), []).append(area)
    for group in groups.values():
        copied = any(site.proxy == "async" and site.write for site, _ in group[0].uses)
        if copied or len(group) < 2:
            continue
        joined = [group[0]]
        for area in group[1:]:
            if area.lo == joined[-1].hi:
                joined[-1].hi = area.hi
                joined[-1].how = area.how if joined[-1].how == "stated" else joined[-1].how
                joined[-1].uses.extend(area.uses)
            else:
                joined.append(area)
        group[:] = joined
    return sorted(groups.values(), key=lambda group: group[0].lo)
