"""What keeps starts short and long runs small: late patterns, late rules, caches that end with their file."""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import warplint
from warplint import memo
from warplint.engine import Settings, lint_bytes
from warplint.patterns import _Late, late
from warplint.program import Options, lower
from warplint.registry import LoadedRule, rules
from warplint.source import SourceFile
from warplint.syntax import parse
from warplint.threads import analyze
from warplint.threads.facts import Roles

ROOT = Path(__file__).resolve().parents[2]


def patterns() -> Iterator[tuple[str, _Late]]:
    for item in pkgutil.walk_packages(warplint.__path__, "warplint."):
        if item.name.endswith("__main__"):
            continue
        module = importlib.import_module(item.name)
        for name, value in vars(module).items():
            for one in value if isinstance(value, tuple) else (value,):
                if isinstance(one, _Late):
                    yield f"{item.name}.{name}", one


def test_every_late_pattern_compiles() -> None:
    found = list(patterns())
    assert len(found) > 50
    for _, pattern in found:
        assert pattern.pattern


def test_a_late_pattern_is_the_pattern() -> None:
    pattern = late(rb"a(\d+)", re.IGNORECASE)
    match = pattern.search(b"xA12")
    assert match is not None
    assert match[1] == b"12"
    assert pattern.flags & re.IGNORECASE
    assert pattern.sub(b"", b"a1b") == b"b"
    with pytest.raises(re.error):
        late("(").match("x")


def kernels() -> Iterator[tuple[str, Roles]]:
    for path in sorted((ROOT / "fixtures").rglob("*.cu")):
        source = SourceFile(path.name, path.read_bytes())
        for kernel in lower(parse(source), source, Options()).kernels:
            for roles in analyze(kernel):
                yield path.name, roles


def test_a_structural_check_has_nothing_to_say_where_its_operations_are_absent() -> None:
    bound = [rule for rule in rules() if rule.operations]
    assert bound
    asked = 0
    for name, roles in kernels():
        present = {event.name for event in roles.events}
        for rule in bound:
            if rule.check is not None and not rule.concerns(present):
                asked += 1
                assert not list(rule.check(roles)), f"{rule.slug} on {name}: see EVERYWHERE in its family's package"
    assert asked > 1000


def test_a_rule_is_imported_when_it_concerns_a_kernel() -> None:
    rule = LoadedRule("tmem-columns-invalid", "tmem", "warplint_rules.tmem.tmem_columns_invalid", ("tcgen05.",))
    assert not rule.concerns({"bar.sync.cta", "shfl.sync"})
    assert rule.concerns({"bar.sync.cta", "tcgen05.alloc"})
    assert rule.module.RULE is rule.rule


def test_caches_end_with_their_file() -> None:
    calls: list[object] = []

    @memo.remembered(4)
    def asked(subject: object) -> int:
        calls.append(subject)
        return len(calls)

    subject = object()
    assert asked(subject) == asked(subject) == 1
    lint_bytes("a.cu", b"__global__ void k() {}", Settings())
    assert asked(subject) == 2


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="reads /proc")
def test_a_long_run_does_not_grow() -> None:
    import gc

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024

    data = (ROOT / "fixtures" / "artifacts" / "small_reduce.cu").read_bytes()
    for _ in range(20):
        lint_bytes("a.cu", data, Settings())
    gc.collect()
    before = resident()
    for number in range(60):
        lint_bytes("a.cu", data + b"\n// %d" % number, Settings())
    gc.collect()
    assert resident() - before < 8_000
