"""Kernels that TileLang generated from our own programs for four targets, sound or with exactly one fault.

`make generated` makes them; without them the tests skip. The index beside the files says which rule must speak, at
which lines, and what else may (`fixtures/generators/tilelang_bugs.py`).
"""

from __future__ import annotations

import csv
import os
from functools import cache
from pathlib import Path

import pytest

from warplint.engine import Settings, lint_bytes
from warplint.finding import FileReport, Finding, Level, Verdict

FOLDER = Path(os.environ.get("WARPLINT_GENERATED", "build/generated")) / "tilelang"
pytestmark = pytest.mark.generator

GENERATED = {"proxy-fence-after-barrier"}
"""What TileLang 0.1.15 writes in every kernel with a TMA store: the fence in the storing thread only."""

PENDING = {
    "attention__missing-release": "a causal loop is executed for the first block only: one turn",
    "attention__missing-wgmma-wait": "a causal loop is executed for the first block only: one turn",
}


@cache
def _rows() -> tuple[dict[str, str], ...]:
    index = FOLDER / "index.tsv"
    if not index.is_file():
        return ()
    with index.open(newline="") as file:
        return tuple(csv.DictReader(file, delimiter="\t"))


SOUND = [row["file"] for row in _rows() if not row["bug"]] or ["none"]
FAULTY = [row["file"] for row in _rows() if row["bug"]] or ["none"]


def _judged(name: str) -> tuple[dict[str, str], FileReport]:
    """The row of the index and what a user would see."""
    row = next((row for row in _rows() if row["file"] == name), None)
    if row is None:
        pytest.skip(f"no generated kernels of TileLang under {FOLDER.parent.name}/ (make generated)")
    cluster = (int(row["cluster"]), 1, 1) if row["cluster"] != "1" else None
    settings = Settings(arch=row["arch"], cluster=cluster, level=Level.NOTE)
    return row, lint_bytes(name, (FOLDER / name).read_bytes(), settings)


def _loud(report: FileReport) -> list[Finding]:
    return [f for kernel in report.kernels for f in kernel.findings if f.level is not Level.NOTE]


def _near(finding: Finding, row: dict[str, str]) -> bool:
    """A line that a reader sees first stands at the fault or at a line that belongs to it."""
    seen = {finding.location.line, *(place.line for place in finding.related[:6])}
    wanted = {int(n) for column in ("fault_lines", "related_lines") for n in row[column].split()}
    return any(abs(line - target) <= 2 for line in seen for target in wanted)


@pytest.mark.parametrize("name", SOUND)
def test_sound_kernels_are_complete_and_quiet(name: str) -> None:
    _, report = _judged(name)
    assert report.kernels
    assert not report.problem
    assert not [reason.text for kernel in report.kernels for reason in kernel.reasons]
    assert all(kernel.verdict is not Verdict.INCOMPLETE for kernel in report.kernels)
    assert not [(f.rule, f.location.line) for f in _loud(report) if f.rule not in GENERATED]


@pytest.mark.parametrize("name", FAULTY)
def test_each_fault_is_found_at_its_line(name: str) -> None:
    row, report = _judged(name)
    if Path(name).stem in PENDING:
        pytest.xfail(PENDING[Path(name).stem])
    accepted = {row["rule"], *row["also"].split()}
    said = [(f.level, f.rule, f.location.line) for f in _loud(report)]
    hits = [f for f in _loud(report) if f.rule in accepted and _near(f, row)]
    assert hits, f"wanted {row['rule']} at {row['fault_lines']}, got {said}"
    assert max(f.level.rank for f in hits) >= Level(row["level"]).rank
    assert not [found for found in said if found[1] not in accepted | GENERATED]
