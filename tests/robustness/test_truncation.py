"""A kernel cut off at every byte: each rest is judged, what is lost is said, and nothing is made up about it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.robustness.kernels import BARRIER, PIPELINE, SETTINGS, lint, loud, whole
from warplint.finding import FileReport, Verdict

DATA = PIPELINE.encode()
FIRST = PIPELINE.index('extern "C"'), PIPELINE.index("}\n", PIPELINE.index("part[3];")) + 1
SECOND = PIPELINE.index('extern "C"', FIRST[1]), PIPELINE.index("\n// The host side") - 2
SLICES = 8
STRUCTURAL = replace(SETTINGS, execute=False)


def test_the_whole_kernel_is_clean() -> None:
    assert 4000 < len(DATA) < 5000
    assert [kernel.verdict for kernel in whole().kernels] == [Verdict.CLEAN, Verdict.CLEAN]
    assert not loud(whole())


@pytest.mark.parametrize("part", range(SLICES))
def test_every_length(part: int) -> None:
    whole_first = lint(DATA, STRUCTURAL).kernels[0]
    for size in range(part * len(DATA) // SLICES, (part + 1) * len(DATA) // SLICES):
        report = lint(DATA[:size], STRUCTURAL)
        assert not _elsewhere(report, size), size  # text that is missing is no fault of the kernel
        if FIRST[0] + 40 < size < FIRST[1]:
            assert _incomplete(report), size
        if size > FIRST[1]:
            assert report.kernels[0] == whole_first, size
        if SECOND[0] + 40 < size < SECOND[1]:
            assert _incomplete(report), size


@pytest.mark.parametrize("part", range(2))
def test_lengths_that_are_executed(part: int) -> None:
    for size in range(SECOND[0] + part * 7, len(DATA) + 1, 14):
        report = lint(DATA[:size])
        assert not _elsewhere(report, size), size
        assert report.kernels[0] == whole().kernels[0], size


@pytest.mark.parametrize("start", range(0, FIRST[0], 97))
def test_a_missing_beginning(start: int) -> None:
    """An excerpt without its prelude: judged by names, or incomplete; never silent, never accused."""
    report = lint(DATA[start:])
    assert not loud(report)
    assert [kernel.name for kernel in report.kernels][-1] == "pipeline"


def test_a_fault_before_the_cut_stays_a_fault() -> None:
    end = BARRIER.index("  out[")
    report = lint(BARRIER[:end])
    assert loud(report) == [("cta-barrier-in-divergent-code", 3)]
    assert report.kernels[0].verdict is Verdict.INCOMPLETE


def _elsewhere(report: FileReport, size: int) -> list[tuple[str, int]]:
    """What is said about other lines than the last: a token cut in half is another token (a mask of fewer digits)."""
    last = DATA[:size].count(b"\n") + 1
    return [(rule, line) for rule, line in loud(report) if line != last]


def _incomplete(report: FileReport) -> bool:
    return bool(report.reasons) or any(kernel.verdict is Verdict.INCOMPLETE for kernel in report.kernels)
