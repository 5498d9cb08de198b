"""Writes docs/COVERAGE.md from what `measure` found: a line per package, reasons by count, and the ledger of findings.

    python -m tests.corpus.coverage build/corpus [--out docs/COVERAGE.md]

Every error and warning must have a line in `ledger.toml` that says why the documented facts bear it out; those that
have none are listed at the end of the page under "not judged", and the exit code is 1.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.corpus.fetch import packages

LEDGER = Path(__file__).with_name("ledger.toml")
UNDEFINED = re.compile(r"is not defined in this file")
OPEN = re.compile(r"block size unknown|template parameter")
SHOWN_REASONS = 12


class Package:
    """The results of one package, added up."""

    def __init__(self, name: str, facts: dict[str, Any], rows: list[dict[str, Any]], planned: int = 0) -> None:
        self.name, self.facts, self.rows = name, facts, rows
        self.planned = max(planned, len(rows))
        """Files that were to be measured; more than `rows` when the run was stopped."""
        self.kernels = [kernel for row in rows for kernel in row.get("kernels", ())]
        self.failed = [row for row in rows if row.get("timeout") or row.get("crash") or row.get("problem")]
        self.seconds = sum(row.get("seconds", 0.0) for row in rows)
        self.slowest = max((row.get("seconds", 0.0) for row in rows), default=0.0)
        self.findings = Counter(finding["level"] for kernel in self.kernels for finding in kernel["findings"])

    @property
    def defined(self) -> list[dict[str, Any]]:
        """Kernels that use nothing that their file does not define."""
        return [kernel for kernel in self.kernels if not any(UNDEFINED.search(text) for text, _ in kernel["reasons"])]


def complete(kernels: Iterable[dict[str, Any]]) -> int:
    """How many have a complete verdict."""
    return sum(kernel["verdict"] != "incomplete" for kernel in kernels)


def share(part: int, whole: int) -> str:
    """`12 of 16 (75 %)`."""
    return f"{part} of {whole} ({100 * part // whole} %)" if whole else "-"


def kind(reason: str) -> str:
    """A reason without its names and numbers."""
    if UNDEFINED.search(reason):
        return "a function, macro or type is not defined in this file"
    text = re.sub(r"`[^`]*`", "`...`", reason)
    text = re.sub(r"executed with [^,]*(?:, [^,]*? = \d+)*, (?:blockIdx[^,]*, )?", "executed: ", text)
    text = re.sub(r"\s*\(also lines?[^)]*\)", "", text)
    return re.sub(r"\d+", "N", text)[:110]


def table(found: list[Package]) -> list[str]:
    """The main table."""
    lines = [
        "| package | files | kernels | operations | complete verdicts | of kernels that define all they use | errors | "
        "warnings | seconds | slowest file |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for package in [*found, _sum("library", found), _sum("kernels", found), _sum("", found)]:
        kernels, defined, levels = package.kernels, package.defined, package.findings
        files = (
            f"{len(package.rows)} of {package.planned}" if package.planned > len(package.rows) else len(package.rows)
        )
        lines.append(
            f"| {package.name} | {files} | {len(kernels)} | {sum(k['operations'] for k in kernels)} | "
            f"{share(complete(kernels), len(kernels))} | {share(complete(defined), len(defined))} | "
            f"{levels['error']} | {levels['warning']} | {package.seconds:.0f} | {package.slowest:.1f} |"
        )
    return lines


def _sum(chosen: str, found: list[Package]) -> Package:
    of = [package for package in found if not chosen or package.facts["class"] == chosen]
    name = {"library": "**template libraries**", "kernels": "**kernels**", "": "**all**"}[chosen]
    return Package(name, {}, [row for package in of for row in package.rows], sum(package.planned for package in of))


def reasons(found: list[Package]) -> list[str]:
    """Why verdicts are incomplete: kernels by kind of reason."""
    counts: Counter[str] = Counter()
    for package in found:
        for kernel in package.kernels:
            counts.update({kind(text) for text, _ in kernel["reasons"]})
    lines = ["| kernels | reason |", "|--:|---|"]
    return lines + [f"| {count} | {text} |" for text, count in counts.most_common(SHOWN_REASONS)]


def ledger(found: list[Package]) -> tuple[list[str], list[str]]:
    """The findings by rule with the reason each is borne out, and those that nobody has judged."""
    entries: list[dict[str, str]] = tomllib.loads(LEDGER.read_text()).get("finding", [])
    by_entry: dict[int, list[str]] = {}
    unjudged: list[str] = []
    for package in found:
        for row in package.rows:
            for kernel in row.get("kernels", ()):
                for finding in kernel["findings"]:
                    if finding["level"] not in ("error", "warning"):
                        continue
                    where = f"{package.name}/{row['path']}"
                    at = next((n for n, entry in enumerate(entries) if _covers(entry, finding, where)), None)
                    place = f"`{where}:{finding['line']}`"
                    if at is None:
                        told = (finding["level"], finding["rule"], place, finding["message"][:160])
                        unjudged.append("| " + " | ".join(told) + " |")
                    else:
                        by_entry.setdefault(at, []).append(place)
    lines = []
    for number in sorted(by_entry, key=lambda n: (entries[n]["rule"], n)):
        entry, places = entries[number], list(dict.fromkeys(by_entry[number]))
        lines += [f"### {entry['rule']} ({entry['level']}, {len(places)})", "", entry["why"].strip(), ""]
        lines += [f"* {place}" for place in places[:6]]
        lines += [f"* and {len(places) - 6} more"] if len(places) > 6 else []
        lines.append("")
    return lines, list(dict.fromkeys(unjudged))


def _covers(entry: dict[str, str], finding: dict[str, Any], where: str) -> bool:
    if entry["rule"] != finding["rule"] or entry["level"] != finding["level"]:
        return False
    return fnmatch.fnmatch(where, entry.get("where", "*")) and entry.get("words", "") in finding["message"]


def page(found: list[Package]) -> tuple[str, int]:
    """The page and the number of findings that nobody has judged."""
    failed = [f"| {package.name}/{row['path']} | {_failure(row)} |" for package in found for row in package.failed]
    judged, unjudged = ledger(found)
    text = [HEAD, *table(found), "", "## Why verdicts are incomplete", "", *reasons(found), ""]
    text += ["## Crashes and files that ran out of time", ""]
    text += ["| file | what |", "|---|---|", *failed] if failed else ["None."]
    text += ["", "## Ledger: every error and warning, and why it is true", "", *judged]
    if unjudged:
        text += ["## Not judged yet", "", "| level | rule | place | message |", "|---|---|---|---|", *unjudged, ""]
    return "\n".join(text).rstrip() + "\n", len(unjudged)


def _failure(row: dict[str, Any]) -> str:
    return "ran out of time" if row.get("timeout") else str(row.get("crash") or row.get("problem"))[:160]


HEAD = """# Coverage of real code

Made by `make corpus` (not a part of CI): the CUDA and HIP sources inside the packages of `tests/corpus/sources.toml`,
each file linted by itself with default options under an alarm (40 s of processor time and half a minute more per
megabyte): headers beside it are read, no other include folder, no compile command. Of families of generated variants a
few files per folder are taken; "20 of 70 files": the run was stopped there.
An operation is one that the analyzer recognised as synchronising or moving data, helpers inlined. "Define all they
use" leaves out kernels with a reason that names something not defined in the file: a function or macro of a header, a
type of a template library.
"""


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs/COVERAGE.md"))
    options = parser.parse_args()
    found = []
    for name, facts in packages().items():
        path = options.folder / "results" / f"{name}.jsonl"
        if path.is_file():
            rows = [json.loads(line) for line in path.read_text().splitlines()]
            planned = path.with_suffix(".planned")
            found.append(Package(name, facts, rows, int(planned.read_text()) if planned.is_file() else 0))
    text, unjudged = page(found)
    options.out.write_text(text)
    print(f"{options.out}: {len(found)} packages, {unjudged} findings not judged")
    sys.exit(bool(unjudged))


if __name__ == "__main__":
    main()
