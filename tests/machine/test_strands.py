"""Happens-before between strands, against a plain vector clock for each thread."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from warplint.machine.strands import Strands

WARP = 4
THREADS = 12
EVERYONE = (1 << THREADS) - 1


def fresh(cuts: list[int]) -> Strands:
    strands = Strands(WARP)
    strands.add_cta(0, EVERYONE, cuts)
    return strands


def test_strands_are_whole_warps_or_lie_in_one() -> None:
    strands = fresh([0b0001, 0b1111_0000])
    shapes = sorted(s.threads for s in strands.of(0, EVERYONE))
    assert shapes == [0b0001, 0b1110, 0b1111_0000, 0b1111_0000_0000]


def test_release_then_acquire_orders_and_later_accesses_are_not_included() -> None:
    strands = fresh([0b1111])
    (writer,), (reader,) = strands.of(0, 0b1111), strands.of(0, 0b1111_1111_0000)
    before = writer.now
    knowledge = strands.published([writer])
    after = writer.now
    strands.acquire([reader], knowledge)
    assert strands.knows(reader, writer.index, before)
    assert not strands.knows(reader, writer.index, after)


def test_what_was_known_of_a_strand_holds_for_its_parts() -> None:
    strands = fresh([0b1111])
    (writer,), (reader,) = strands.of(0, 0b1111), strands.of(0, 0b1111_1111_0000)
    time = writer.now
    strands.acquire([reader], strands.published([writer]))
    part, rest = strands.of(0, 0b0001), strands.of(0, 0b1110)
    assert strands.knows(reader, part[0].index, time)
    assert strands.knows(reader, rest[0].index, time)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["join", "write", "hand"]), st.integers(1, EVERYONE), st.integers(1, EVERYONE)))
)
def test_against_one_clock_for_each_thread(program: list[tuple[str, int, int]]) -> None:
    """Whatever strands claim to know, every single thread knows; and a join of all tells everything."""
    strands = fresh([])
    clocks = [[0] * THREADS for _ in range(THREADS)]
    now = [1] * THREADS
    writes: list[tuple[int, list[tuple[int, int]], dict[int, int]]] = []

    def members(mask: int) -> list[int]:
        return [t for t in range(THREADS) if mask >> t & 1]

    def release(mask: int) -> list[int]:
        merged = [0] * THREADS
        for t in members(mask):
            merged = [max(a, b) for a, b in zip(merged, clocks[t], strict=True)]
            merged[t] = max(merged[t], now[t])
            now[t] += 1
        return merged

    def learn(mask: int, knowledge: list[int]) -> None:
        for t in members(mask):
            clocks[t] = [max(a, b) for a, b in zip(clocks[t], knowledge, strict=True)]

    for action, one, two in program:
        if action == "write":
            made = [(s.index, s.now) for s in strands.of(0, one)]
            writes.append((one, made, {t: now[t] for t in members(one)}))
        elif action == "join":
            strands.join(strands.of(0, one))
            learn(one, release(one))
        else:
            strands.acquire(strands.of(0, two), strands.published(strands.of(0, one)))
            learn(two, release(one))
    for mask, made, times in writes:
        for reader in strands.of(0, EVERYONE):
            if all(strands.knows(reader, index, time) for index, time in made):
                for thread in members(reader.threads):
                    for writer in members(mask):
                        assert thread == writer or clocks[thread][writer] >= times[writer]
