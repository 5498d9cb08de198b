"""Properties of every report: determinism, places that exist, nothing of this machine, sets of threads that add up."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.fixtures import expectations
from warplint import __version__
from warplint.engine import lint_bytes
from warplint.finding import FileReport, TreeNode, TreeOp, Verdict
from warplint.registry import rules
from warplint_reports import html, sarif, text
from warplint_reports import json as json_report
from warplint_reports.report import Report

ROOT = Path(__file__).resolve().parents[2] / "fixtures"
ARTIFACTS = sorted((ROOT / "artifacts").glob("*.cu"))
SAMPLE = sorted(
    path
    for number, path in enumerate(sorted(ROOT.rglob("*.cu")))
    if path.relative_to(ROOT).parts[0] not in ("artifacts", "generators", "generated") and number % 3 == 0
)
FILES = [*ARTIFACTS, *SAMPLE]


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def judged(path: Path) -> FileReport:
    data = path.read_bytes()
    settings = replace(expectations.settings(data.decode()), tree=True)
    return lint_bytes(name(path), data, settings)


@cache
def once(path: Path) -> FileReport:
    return judged(path)


def rendered(files: tuple[FileReport, ...]) -> dict[str, str]:
    report = Report(files, tuple(rule.info for rule in rules()), __version__)
    return {
        "text": text.render(report, color=False),
        "json": json_report.render(report),
        "sarif": sarif.render(report),
        "html": html.render(report),
    }


@pytest.mark.parametrize("path", FILES, ids=name)
def test_places_lie_in_the_file(path: Path) -> None:
    report = once(path)
    lines = path.read_text().split("\n")
    assert report.problem == ""
    for kernel in report.kernels:
        assert 1 <= kernel.line <= len(lines)
        assert (kernel.verdict is Verdict.INCOMPLETE) == bool(kernel.reasons)
        for finding in kernel.findings:
            assert finding.kernel == kernel.name and finding.fingerprint
            for place in (finding.location, *finding.related, *finding.steps):
                assert place.path == report.path
                assert 1 <= place.line <= max(place.line, place.end_line) <= len(lines)
                assert 1 <= place.column <= len(lines[place.line - 1].encode("utf-16-le")) // 2 + 1
                if place.end_line:
                    assert (place.end_line, place.end_column) >= (place.line, place.column)
            for guard in finding.guards:
                assert 1 <= guard.line <= len(lines)
        prints = [finding.fingerprint for finding in kernel.findings]
        assert len(set(prints)) == len(prints)


@pytest.mark.parametrize("path", ARTIFACTS, ids=name)
def test_the_same_bytes_give_the_same_report(path: Path) -> None:
    first, second = rendered((once(path),)), rendered((judged(path),))
    for form in first:
        assert first[form] == second[form], form


@pytest.mark.parametrize("path", ARTIFACTS, ids=name)
def test_the_role_tree_adds_up(path: Path) -> None:
    for kernel in once(path).kernels:
        assert kernel.tree is not None and kernel.tree.kind == "kernel"
        assert kernel.tree.certain and int(kernel.tree.mask, 16) == (1 << kernel.tree.count) - 1
        partitions = 0
        for node in nodes(kernel.tree):
            partitions += children_add_up(node)
        assert partitions or kernel.name == "block_sum"


@pytest.mark.parametrize("path", SAMPLE, ids=name)
def test_the_role_tree_of_fixtures(path: Path) -> None:
    for kernel in once(path).kernels:
        for node in nodes(kernel.tree) if kernel.tree else ():
            children_add_up(node)


def nodes(root: TreeNode) -> list[TreeNode]:
    found, stack = [], [root]
    while stack:
        node = stack.pop()
        found.append(node)
        stack.extend(item for item in node.items if isinstance(item, TreeNode))
    return found


def children_add_up(node: TreeNode) -> int:
    """Every branch lies within its parent; both sides of an established condition are disjoint and make up the whole.

    Returns the number of conditions that were seen with both sides established.
    """
    mask = int(node.mask, 16)
    if "elected" in node.threads:  # the mask holds the warps from which one lane each is taken
        assert node.count == len({bit // 32 for bit in range(mask.bit_length()) if mask >> bit & 1})
    else:
        assert mask.bit_count() == node.count
    both = 0
    sides: dict[tuple[int, str], dict[str, TreeNode]] = {}
    for item in node.items:
        if isinstance(item, TreeOp):
            assert item.line >= 1 and item.op
            continue
        inside = int(item.mask, 16)
        assert inside & ~mask == 0, f"line {item.line}: more threads in `{item.label}` than around it"
        if item.kind in ("if", "else"):
            sides.setdefault((item.line, item.label), {})[item.kind] = item
    for pair in sides.values():
        if len(pair) == 2 and pair["if"].certain and pair["else"].certain and node.certain:
            then, other = (int(pair[kind].mask, 16) for kind in ("if", "else"))
            if then & other:  # a condition that is the same for all: each side is taken by all or none
                assert then == other == mask
            else:
                assert then | other == mask
                both += 1
    return both


def test_nothing_of_this_machine_is_in_a_report() -> None:
    files = tuple(once(path) for path in FILES)
    here = Path(__file__).resolve()
    words = {str(here.parents[2]), str(Path.home()) + "/", str(Path.cwd())}
    for form, out in rendered(files).items():
        for word in words:
            assert len(word) < 3 or word not in out, (form, word)
        assert not re.search(r"20\d\d-\d\d-\d\dT\d\d:", out), form


def test_formats_say_the_same() -> None:
    files = tuple(once(path) for path in FILES)
    out = rendered(files)
    said = [
        (finding.rule, finding.location.path, finding.location.line)
        for file in files
        for finding in (*file.findings, *(found for kernel in file.kernels for found in kernel.findings))
    ]
    assert len(said) > 20
    results = json.loads(out["sarif"])["runs"][0]["results"]
    in_sarif = [
        (
            item["ruleId"],
            item["locations"][0]["physicalLocation"]["artifactLocation"]["uri"],
            item["locations"][0]["physicalLocation"]["region"]["startLine"],
        )
        for item in results
    ]
    assert sorted(in_sarif) == sorted(said)
    in_json = [
        (finding["rule"], finding["location"]["path"], finding["location"]["line"])
        for file in json.loads(out["json"])["files"]
        for finding in [*file["findings"], *(found for kernel in file["kernels"] for found in kernel["findings"])]
    ]
    assert sorted(in_json) == sorted(said)
    for rule, path, line in said:
        assert rule in out["html"] and f"{path}:{line}:" in out["text"]
