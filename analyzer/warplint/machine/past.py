"""The recorded accesses of one region, found again by the bytes they cover."""

from __future__ import annotations

from collections.abc import Iterator

from warplint.machine.footprint import Access

BYTE_CELL, COLUMN_CELL = 9, 4
"""Cells are 2 to the power of this many bytes of shared memory, or columns of tensor memory."""
MAX_CELLS = 48
"""An interval over more cells is kept apart, and compared with everything."""


class Interval:
    """All accesses with the same bounds, oldest first."""

    __slots__ = ("accesses", "hi", "index", "lo", "seen")

    def __init__(self, index: int, lo: int, hi: int) -> None:
        self.index, self.lo, self.hi = index, lo, hi
        self.accesses: list[Access] = []
        self.seen = 0
        """The last look-up that came by."""


class Past:
    """Accesses by interval, and intervals by the cells they touch."""

    __slots__ = ("cells", "count", "grain", "intervals", "lookups", "wide")

    def __init__(self, tensor: bool) -> None:
        self.grain = COLUMN_CELL if tensor else BYTE_CELL
        self.intervals: dict[tuple[int, int], Interval] = {}
        self.cells: dict[int, list[Interval]] = {}
        self.wide: list[Interval] = []
        self.count = 0
        self.lookups = 0

    def __iter__(self) -> Iterator[Access]:
        for interval in self.intervals.values():
            yield from interval.accesses

    def __len__(self) -> int:
        return self.count

    def near(self, lo: int, hi: int) -> list[Interval]:
        """The intervals that overlap `lo..hi`, in the order of their first access."""
        first, last = lo >> self.grain, (hi - 1) >> self.grain
        found: list[Interval] = []
        if last - first >= MAX_CELLS:
            return [one for one in self.intervals.values() if one.lo < hi and one.hi > lo and one.accesses]
        cells = self.cells
        if first == last:
            for one in cells.get(first, ()):
                if one.lo < hi and one.hi > lo and one.accesses:
                    found.append(one)
        else:
            self.lookups = mark = self.lookups + 1
            for cell in range(first, last + 1):
                for one in cells.get(cell, ()):
                    if one.seen != mark:
                        one.seen = mark
                        if one.lo < hi and one.hi > lo and one.accesses:
                            found.append(one)
        for one in self.wide:
            if one.lo < hi and one.hi > lo and one.accesses:
                found.append(one)
        if len(found) > 1:
            found.sort(key=_index)
        return found

    def add(self, access: Access) -> None:
        """Remember an access."""
        key = (access.lo, access.hi)
        interval = self.intervals.get(key)
        if interval is None:
            interval = self.intervals[key] = Interval(len(self.intervals), *key)
            first, last = access.lo >> self.grain, (access.hi - 1) >> self.grain
            if last - first >= MAX_CELLS:
                self.wide.append(interval)
            else:
                for cell in range(first, last + 1):
                    self.cells.setdefault(cell, []).append(interval)
        interval.accesses.append(access)
        self.count += 1

    def forget(self, number: int) -> None:
        """Drop so many accesses, those of the oldest intervals first."""
        for interval in self.intervals.values():
            gone = min(number, len(interval.accesses))
            del interval.accesses[:gone]
            self.count -= gone
            number -= gone
            if not number:
                return


def _index(interval: Interval) -> int:
    return interval.index
