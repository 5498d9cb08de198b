"""Arrows point one way: which room may import which, read from the import statements themselves."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "warplint": ROOT / "analyzer" / "warplint",
    "warplint_rules": ROOT / "rules" / "warplint_rules",
    "warplint_reports": ROOT / "reports" / "warplint_reports",
}

# What each room may import of ours, besides itself. A room is a module or folder directly inside `warplint`.
MAY_IMPORT = {
    "source": set(),
    "patterns": set(),
    "memo": set(),
    "tables": set(),
    "finding": {"tables"},
    "place": {"source", "finding"},
    "ops": set(),
    "syntax": {"source", "patterns"},
    "dialects": {"source", "patterns", "ops", "syntax"},
    "program": {"source", "patterns", "ops", "syntax", "dialects"},
    "threads": {"source", "finding", "ops", "program"},
    "machine": {"source", "patterns", "finding", "ops", "program", "threads"},
    "handoffs": {"source", "finding", "place", "tables", "ops", "program", "threads", "machine"},
    "rule": {"finding"},
    "suppress": {"source", "finding", "place", "syntax"},
    "baseline": {"finding"},
    "diff": {"finding", "baseline"},
    "cache": {"__version__", "finding", "tables", "registry"},
    "cluster": {"finding", "engine", "cache", "discover", "parallel"},
    "pathmap": {"discover"},
    "parallel": {"finding", "judge", "engine", "cache", "discover", "machine", "program", "syntax", "threads"},
}
RULES_MAY_IMPORT = {"source", "memo", "finding", "place", "ops", "program", "threads", "machine", "handoffs", "rule"}
REPORTS_MAY_IMPORT = {"finding", "source", "tables"}


def imports(path: Path) -> set[str]:
    """Every module named in an import statement of the file, function bodies included."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names if node.module == "warplint")
    return names


def rooms(path: Path) -> set[str]:
    """The rooms of `warplint` that the file imports."""
    return {name.split(".")[1] for name in imports(path) if name.startswith("warplint.")}


def files(package: str) -> list[Path]:
    """All Python files of one of our packages."""
    return sorted(PACKAGES[package].rglob("*.py"))


@pytest.mark.parametrize("room", sorted(MAY_IMPORT))
def test_a_room_imports_only_what_lies_below_it(room: str) -> None:
    base = PACKAGES["warplint"]
    found = sorted(base.glob(f"{room}/**/*.py")) + sorted(base.glob(f"{room}.py"))
    if not found:
        pytest.skip(f"{room} is not built yet")
    wrong = {path.name: rooms(path) - MAY_IMPORT[room] - {room} for path in found}
    assert not {name: bad for name, bad in wrong.items() if bad}
    if room in ("ops", "source", "patterns", "tables"):
        assert all(not rooms(path) - {room} for path in found)


def test_only_syntax_imports_tree_sitter() -> None:
    outside = [
        path
        for package in PACKAGES
        for path in files(package)
        if "syntax" not in path.relative_to(PACKAGES[package]).parts
        and any(name.split(".")[0] in ("tree_sitter", "tree_sitter_cuda") for name in imports(path))
    ]
    assert not outside


def test_rules_never_see_syntax() -> None:
    wrong = {path.name: rooms(path) - RULES_MAY_IMPORT for path in files("warplint_rules")}
    assert not {name: bad for name, bad in wrong.items() if bad}


def test_reports_read_findings_only() -> None:
    wrong = {path.name: rooms(path) - REPORTS_MAY_IMPORT for path in files("warplint_reports")}
    assert not {name: bad for name, bad in wrong.items() if bad}
    assert not [path for path in files("warplint_reports") if "warplint_rules" in imports(path)]
