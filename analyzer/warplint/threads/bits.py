"""Thread sets as integer bitsets: the granularity at which they cut a block, and how a person reads them.

Bit `i` is the thread of linear index `i` (x fastest). A warp is `warp_size` consecutive bits, a warpgroup four warps.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from warplint.threads.facts import Reach, Uniformity, warps_of

WARPS_PER_GROUP = 4
"""A warpgroup is four consecutive warps (PTX 9.7.16)."""


def full(count: int) -> int:
    """The set of the first `count` threads."""
    return (1 << count) - 1


def members(threads: int) -> list[int]:
    """The indices in a set, ascending."""
    return [index for index, bit in enumerate(reversed(bin(threads)[2:])) if bit == "1"]


def of_truths(values: Iterable[object]) -> int:
    """The set of positions whose value is true."""
    text = "".join(["1" if value else "0" for value in values])
    return int(text[::-1], 2) if text else 0


@lru_cache(maxsize=4096)
def cut(part: int, whole: int, warp_size: int) -> Uniformity:
    """The coarsest groups of `whole` that `part` takes or leaves entirely; GRID when it takes all or nothing."""
    inside = part & whole
    if inside in (0, whole):
        return Uniformity.GRID
    outside = whole & ~part
    for size, level in ((warp_size * WARPS_PER_GROUP, Uniformity.WARPGROUP), (warp_size, Uniformity.WARP)):
        group, rest_in, rest_out = full(size), inside, outside
        while rest_in and rest_out:
            if rest_in & group and rest_out & group:
                break
            rest_in >>= size
            rest_out >>= size
        else:
            return level
    return Uniformity.LANE


@lru_cache(maxsize=4096)
def span_level(threads: int, warp_size: int) -> Uniformity:
    """The smallest group that holds the whole set: LANE for one thread, WARP within one warp, ... CTA otherwise."""
    if threads & (threads - 1) == 0:
        return Uniformity.LANE
    low = (threads & -threads).bit_length() - 1
    high = threads.bit_length() - 1
    if low // warp_size == high // warp_size:
        return Uniformity.WARP
    group = warp_size * WARPS_PER_GROUP
    if low // group == high // group:
        return Uniformity.WARPGROUP
    return Uniformity.CTA


@lru_cache(maxsize=4096)
def one_lane_per_warp(threads: int, warp_size: int) -> bool:
    """True when no warp has more than one thread in the set."""
    return all(lanes & (lanes - 1) == 0 for lanes in warps_of(threads, warp_size).values())


def same_lanes(left: int, right: int, warp_size: int) -> bool:
    """True when every warp in `left` has exactly the lanes there that it has in `right`."""
    other = warps_of(right, warp_size)
    return all(other.get(warp) == lanes for warp, lanes in warps_of(left, warp_size).items())


# ---------------------------------------------------------------------------------------------------- text
def ranges(indices: Iterable[int], limit: int = 6) -> str:
    """`0-3, 8, 12-15` for a list of indices; `...` after `limit` runs."""
    runs: list[list[int]] = []
    for index in sorted(indices):
        if runs and index == runs[-1][1] + 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    text = ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in runs[:limit])
    return text + (", ..." if len(runs) > limit else "")


def _plural(noun: str, indices: list[int]) -> str:
    return f"{noun} {indices[0]}" if len(indices) == 1 else f"{noun}s {ranges(indices)}"


def warps_text(threads: int, total: int, warp_size: int = 32) -> str:
    """The warps of a set: `warp 4`, `warps 4-7`, `every warp`."""
    present = sorted(warps_of(threads, warp_size))
    if len(present) > 1 and len(present) * warp_size >= total:
        return "every warp"
    return _plural("warp", present) if present else "no warp"


def which(threads: int, total: int, warp_size: int = 32) -> str:
    """Names the members of a set without counting them: `warps 4-7`, `lanes 0-7 of every warp`, `thread 0`."""
    if not threads:
        return "no thread"
    warps = warps_of(threads, warp_size)
    block = warps_of(full(total), warp_size)
    if all(lanes == block.get(warp) for warp, lanes in warps.items()):
        return warps_text(threads, total, warp_size)
    index = members(threads)
    if len(index) == 1:
        return f"thread {index[0]}"
    patterns = set(warps.values())
    if len(warps) > 1 and len(patterns) == 1:
        lanes = members(next(iter(patterns)))
        return f"{_plural('lane', lanes)} of {warps_text(threads, total, warp_size)}"
    if len(warps) == 1 and index[-1] - index[0] + 1 == len(index):
        warp = next(iter(warps))
        return (
            f"threads {index[0]}-{index[-1]}" if warp == 0 else f"lanes {ranges(members(warps[warp]))} of warp {warp}"
        )
    return _plural("thread", index)


def describe(threads: int, total: int, warp_size: int = 32, elected: bool = False) -> str:
    """A set for people: `all 256 threads`, `32 of 256 threads: warp 4`, `1 elected lane of warp 4`, `thread 0`."""
    if elected and threads:
        where = warps_text(threads, total, warp_size)
        return f"1 elected lane of {'each of ' if where.startswith('warps') else ''}{where}"
    count = threads.bit_count()
    if count == total:
        return f"all {total} threads" if total > 1 else "the only thread"
    if count == 0:
        return "no thread"
    if count == 1:
        index = threads.bit_length() - 1
        return (
            "thread 0" if index == 0 else f"1 of {total} threads: lane {index % warp_size} of warp {index // warp_size}"
        )
    return f"{count} of {total} threads: {which(threads, total, warp_size)}"


def reach_text(reach: Reach, total: int, warp_size: int = 32) -> str:
    """Who executes a place: as `describe`, with elections and sets that are only an upper bound said so."""
    if reach.elected:
        text = describe(reach.threads, total, warp_size, elected=True)
        return text if reach.exact else f"at most {text}"
    text = describe(reach.threads, total, warp_size)
    if reach.exact:
        return text
    if reach.split == Uniformity.LANE:
        return f"some of the threads in {which(reach.threads, total, warp_size)}"
    level = "warps" if reach.split == Uniformity.WARP else "warpgroups"
    return f"some {level} among {which(reach.threads, total, warp_size)}"


def short(threads: int, total: int, warp_size: int = 32) -> str:
    """For trees: `warps 4-7 (128)`, `thread 0`, `1 of 32 lanes of warp 3`."""
    count = threads.bit_count()
    if count == total:
        return f"all {total}"
    if count == 1 and threads != 1:
        warp, lanes = next(iter(warps_of(threads, warp_size).items()))
        return f"1 of {warp_size} lanes of warp {warp} (lane {lanes.bit_length() - 1})"
    return which(threads, total, warp_size) if count <= 1 else f"{which(threads, total, warp_size)} ({count})"
