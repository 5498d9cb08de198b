"""Kernels that TVM generated from our own TIRx sources, sound or with exactly one fault, judged as a user would.

`make generated` makes them (one virtual environment for each TVM version) and `make test-all` points here; without
them the tests skip. The index beside the files says which rule must speak, at which line, and what else may.
"""

from __future__ import annotations

import csv
import os
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from warplint.engine import Settings, lint_bytes
from warplint.finding import Finding, Level, Verdict

ROOT = Path(os.environ.get("WARPLINT_GENERATED", "build/generated"))
SOURCES = Path(__file__).resolve().parents[2] / "fixtures" / "generators"
VERSIONS = ("tvm026", "tvm027")
pytestmark = pytest.mark.generator


def _excerpt_tool():
    """The generators' own tool (a script beside them, not a package)."""
    spec = spec_from_file_location("excerpt", SOURCES / "excerpt.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


kernel_span = _excerpt_tool().kernel_span

# The faults that thread sets and operation facts show without executing the protocol.
STRUCTURAL = (
    "init-under-wg-guard-all",
    "init-under-wg-guard-ld2mma",
    "init-missing-ld2mma",
    "cta-sync-in-wg-branch",
    "cta-sync-in-elect",
    "lane-guard-alloc",
    "lane-guard-dealloc",
    "commit-outside-elect",
    "tma-outside-elect",
    "next-tile-skipped-by-one-warp",
    "dealloc-missing",
    "dealloc-columns-wrong",
    "dealloc-by-two-warps",
    "relinquish-before-alloc",
    "init-sync-missing",
    "missing-cta-sync-before-dealloc",
    "cluster-barrier-in-wg-branch",
    "missing-cluster-sync-after-init",
    "missing-fence-mbarrier-init",
    "barriers-inside-tiles",
)


def rows(version: str) -> list[dict[str, str]]:
    """The index of one version's files; empty when they were not generated."""
    index = ROOT / version / "index.tsv"
    if not index.is_file():
        return []
    with index.open(newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def need(version: str) -> list[dict[str, str]]:
    """The index, or skip with the reason."""
    found = rows(version)
    if not found:
        pytest.skip(f"no generated kernels of {version} under {ROOT.name}/ (make generated)")
    return found


def settings(row: dict[str, str]) -> Settings:
    """What a user would pass: the launch facts that the source does not show."""
    cluster = (int(row["cluster"]), 1, 1) if row["cluster"] not in ("", "1") else None
    return Settings(arch="sm_100a", cluster=cluster, smem=int(row["smem_bytes"]), level=Level.NOTE)


def lines(finding: Finding) -> set[int]:
    """The lines a reader sees first."""
    return {finding.location.line, *(place.line for place in finding.related[:6])}


def near(finding: Finding, row: dict[str, str]) -> bool:
    """Its primary or a related location stands at the fault or at a line that belongs to it."""
    wanted = {int(row["fault_line"])}
    for column in ("fault_lines", "related_lines"):
        wanted |= {int(n) for n in row[column].replace(",", " ").split()}
    return any(abs(line - target) <= 2 for line in lines(finding) for target in wanted)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("excerpt", [False, True], ids=["whole", "excerpt"])
def test_sound_kernels_give_nothing_above_note(version: str, excerpt: bool) -> None:
    sound = [row for row in need(version) if not row["bug"]]
    assert sound
    for row in sound:
        report = lint_bytes(row["file"], source(version, row, excerpt), settings(row))
        loud = [f for kernel in report.kernels for f in kernel.findings if f.level is not Level.NOTE]
        assert not report.problem
        assert not loud, f"{row['file']}: {[(f.rule, f.location.line) for f in loud]}"
        if not excerpt:
            reasons = [r.text for k in report.kernels for r in k.reasons if "parse" in r.text]
            assert not reasons


def source(version: str, row: dict[str, str], excerpt: bool) -> bytes:
    """The file, or only its kernel; the lines before it are blank then, so that line numbers stay."""
    text = (ROOT / version / row["file"]).read_text()
    if not excerpt:
        return text.encode()
    start, end = kernel_span(text)
    return ("\n" * text[:start].count("\n") + text[start:end] + "\n").encode()


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("excerpt", [False, True], ids=["whole", "excerpt"])
@pytest.mark.parametrize("bug", STRUCTURAL)
def test_structural_faults_are_found_at_their_line(version: str, excerpt: bool, bug: str) -> None:
    faulty = [row for row in need(version) if row["bug"] == bug]
    assert faulty, f"the generator knows no fault {bug}"
    for row in faulty:
        report = lint_bytes(row["file"], source(version, row, excerpt), settings(row))
        findings = [f for kernel in report.kernels for f in kernel.findings]
        accepted = {row["rule"], *row["also"].split()}
        hits = [f for f in findings if f.rule in accepted and near(f, row)]
        said = [(f.level, f.rule, f.location.line) for f in findings]
        assert hits, f"{row['file']}: wanted {row['rule']} at {row['fault_line']}, got {said}"
        assert max(f.level.rank for f in hits) >= Level(row["level"]).rank
        others = [f for f in findings if f.rule not in accepted and f.level is not Level.NOTE]
        assert not others, f"{row['file']}: {[(f.rule, f.location.line) for f in others]}"
        assert {kernel.verdict for kernel in report.kernels} & {Verdict.FINDINGS, Verdict.INCOMPLETE}
