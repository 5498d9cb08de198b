"""The table of TileLang faults: it names rules, kernels and targets that exist, and edits find exactly their place."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path

import pytest

from warplint.registry import rules

SOURCES = Path(__file__).resolve().parents[2] / "fixtures" / "generators"
sys.path.insert(0, str(SOURCES))
table = import_module("tilelang_bugs")
sys.path.remove(str(SOURCES))


def test_rows_name_what_exists() -> None:
    slugs = {rule.slug for rule in rules()}
    for row in table.every():
        assert {row.rule, *row.also} <= slugs, row.name
        assert set(row.kernels) <= set(table.KERNELS), row.name
        assert row.method in ("language", "compiler", "text")
        assert (row.edit is not None) == (row.method == "text"), row.name
        for kernel in row.kernels:
            assert not row.targets or set(row.targets) & set(table.KERNELS[kernel].targets), row.name
        re.compile(row.related)


def test_a_kernel_has_each_fault_once_for_a_target() -> None:
    for kernel, entry in table.KERNELS.items():
        for target in entry.targets:
            names = [row.name for row in table.bugs_of(kernel, target)]
            assert len(names) == len(set(names)), (kernel, target)


def test_an_edit_replaces_one_match_after_the_start() -> None:
    text = "a();\nkernel\n  a();\n  b();\n  a();\n"
    start = text.index("kernel")
    assert table.Edit(r"a\(\)", "c()").apply(text, start) == "a();\nkernel\n  c();\n  b();\n  a();\n"
    assert table.Edit(r"a\(\)", "c()", -1).apply(text, start) == "a();\nkernel\n  a();\n  b();\n  c();\n"
    assert table.Edit(r"(a)\(\)", r"\1(1)", None).apply(text, start).count("a(1)") == 2
    with pytest.raises(ValueError, match="no place"):
        table.Edit(r"a\(\)", "c()", 2).apply(text, start)
    with pytest.raises(ValueError, match="no place"):
        table.Edit("missing", "").apply(text, start)
