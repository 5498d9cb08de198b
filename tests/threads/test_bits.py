"""Thread sets in words, and the granularity at which a set cuts a block."""

from __future__ import annotations

import pytest

from warplint.threads import bits
from warplint.threads.facts import Reach, Uniformity


def some(*indices: int) -> int:
    return sum(1 << index for index in indices)


def lanes(warp: int, low: int, high: int, size: int = 32) -> int:
    return some(*range(warp * size + low, warp * size + high + 1))


@pytest.mark.parametrize(
    ("threads", "total", "size", "text"),
    [
        (bits.full(256), 256, 32, "all 256 threads"),
        (lanes(4, 0, 31), 256, 32, "32 of 256 threads: warp 4"),
        (lanes(4, 0, 31) | lanes(5, 0, 31), 256, 32, "64 of 256 threads: warps 4-5"),
        (lanes(0, 0, 31) | lanes(4, 0, 31), 256, 32, "64 of 256 threads: warps 0, 4"),
        (1, 256, 32, "thread 0"),
        (some(96), 256, 32, "1 of 256 threads: lane 0 of warp 3"),
        (bits.full(48), 256, 32, "48 of 256 threads: threads 0-47"),
        (lanes(0, 0, 7) | lanes(1, 0, 7), 64, 32, "16 of 64 threads: lanes 0-7 of every warp"),
        (lanes(2, 0, 7) | lanes(3, 0, 7), 256, 32, "16 of 256 threads: lanes 0-7 of warps 2-3"),
        (lanes(1, 0, 63, 64), 256, 64, "64 of 256 threads: warp 1"),
        (lanes(1, 0, 31, 64), 256, 64, "32 of 256 threads: lanes 0-31 of warp 1"),
        (0, 256, 32, "no thread"),
    ],
)
def test_description(threads: int, total: int, size: int, text: str) -> None:
    assert bits.describe(threads, total, size) == text


def test_elected() -> None:
    assert bits.describe(lanes(4, 0, 31), 256, 32, elected=True) == "1 elected lane of warp 4"
    both = lanes(4, 0, 31) | lanes(7, 0, 31)
    assert bits.describe(both, 256, 32, elected=True) == "1 elected lane of each of warps 4, 7"
    assert bits.describe(bits.full(256), 256, 32, elected=True) == "1 elected lane of every warp"


def test_inexact_sets_say_so() -> None:
    reach = Reach(lanes(4, 0, 31), False, Uniformity.LANE, True)
    assert bits.reach_text(reach, 256) == "some of the threads in warp 4"
    assert bits.reach_text(Reach(bits.full(256), False, Uniformity.WARP, True), 256) == "some warps among every warp"


@pytest.mark.parametrize(
    ("part", "level"),
    [
        (0, Uniformity.GRID),
        (bits.full(512), Uniformity.GRID),
        (bits.full(128), Uniformity.WARPGROUP),
        (lanes(3, 0, 31), Uniformity.WARP),
        (lanes(3, 0, 30), Uniformity.LANE),
        (some(0), Uniformity.LANE),
    ],
)
def test_cut(part: int, level: Uniformity) -> None:
    assert bits.cut(part, bits.full(512), 32) == level


def test_cut_looks_at_the_whole_only() -> None:
    # Among lanes 0 of all warps, taking those of warps 0 and 1 divides no warp.
    leaders = some(*range(0, 256, 32))
    assert bits.cut(some(0, 32), leaders, 32) == Uniformity.WARP


def test_span_level() -> None:
    assert bits.span_level(some(5), 32) == Uniformity.LANE
    assert bits.span_level(lanes(5, 0, 31), 32) == Uniformity.WARP
    assert bits.span_level(lanes(4, 0, 31) | lanes(7, 0, 1), 32) == Uniformity.WARPGROUP
    assert bits.span_level(lanes(3, 0, 31) | lanes(4, 0, 1), 32) == Uniformity.CTA
