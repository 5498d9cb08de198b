"""Lints mutants and says which were noticed. `python -m tests.mutation.run [--changes] FILES` prints the rest.

A mutant is noticed when its kernel gets an error, a warning or a note that the original does not have. One that gets
none must stand in `explained.tsv` with the reason why nothing is wrong with it.
"""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec.structs import replace

from tests.fixtures import expectations
from tests.mutation.mutate import Mutant, changes, deletions
from warplint.engine import Settings, lint_bytes
from warplint.finding import FileReport, Level

EXPLAINED = Path(__file__).with_name("explained.tsv")
SILENT = "silent"
INCOMPLETE = "incomplete"


def settings(path: Path) -> Settings:
    """How to lint a kernel: the index beside generated ones, the first comment of others."""
    index = path.parent / "index.tsv"
    if index.is_file():
        with index.open(newline="") as file:
            row = next(row for row in csv.DictReader(file, delimiter="\t") if row["file"] == path.name)
        cluster = (int(row["cluster"]), 1, 1) if row["cluster"] not in ("", "1") else None
        return Settings(arch="sm_100a", cluster=cluster, smem=int(row["smem_bytes"]), level=Level.NOTE)
    return replace(expectations.settings(path.read_text()), level=Level.NOTE)


def explained(file: str) -> dict[str, str]:
    """Mutants of one file that are no fault: key -> reason."""
    with EXPLAINED.open(newline="") as table:
        return {row["mutant"]: row["reason"] for row in csv.DictReader(table, delimiter="\t") if row["file"] == file}


def judged(path: Path, make: Callable[[bytes, Settings], Iterator[Mutant]]) -> Iterator[tuple[Mutant, str]]:
    """Every mutant with what is said about it: a level, `incomplete` (a new reason only) or `silent`."""
    data, chosen = path.read_bytes(), settings(path)
    good = lint_bytes(path.name, data, chosen)
    assert not good.problem
    assert not {level for _, _, level in _said(good)} - {Level.NOTE}, "not a good kernel"
    known = {(rule, line) for rule, line, _ in _said(good)}
    for mutant in make(data, chosen):
        report = lint_bytes(path.name, mutant.data, chosen)
        assert not report.problem, f"{mutant.key}: {report.problem}"
        levels = [level for rule, line, level in _said(report) if (rule, line) not in known]
        if levels:
            yield mutant, max(levels, key=lambda level: level.rank)
        else:
            yield mutant, INCOMPLETE if _reasons(report) - _reasons(good) else SILENT


def _said(report: FileReport) -> list[tuple[str, int, Level]]:
    return [(f.rule, f.location.line, f.level) for kernel in report.kernels for f in kernel.findings]


def _reasons(report: FileReport) -> set[str]:
    return {reason.text for kernel in report.kernels for reason in kernel.reasons}


def main(arguments: list[str]) -> None:
    """Print the mutants that nobody noticed, and the figures."""
    make = changes if "--changes" in arguments else deletions
    total: Counter[tuple[str, str]] = Counter()
    for name in (argument for argument in arguments if not argument.startswith("--")):
        known = explained(Path(name).name)
        for mutant, result in judged(Path(name), make):
            if result in (SILENT, INCOMPLETE) and mutant.key in known:
                result = "explained"
            total[mutant.how, result] += 1
            if result in (SILENT, INCOMPLETE) or "--all" in arguments:
                print(f"{Path(name).name}\t{mutant.key}\t{result}", flush=True)
    for (how, result), count in sorted(total.items()):
        print(f"{how:10} {result:10} {count}")


if __name__ == "__main__":
    main(sys.argv[1:])
