"""docs/HARDWARE.md: what a GPU did, beside what warplint says of the same source.

    python tests/hardware/table.py          prints the page from h200.tsv and today's findings

A test compares the page with the committed one, so that it cannot go stale.
"""

from __future__ import annotations

import sys
from pathlib import Path

from warplint.engine import Settings, lint_bytes
from warplint.finding import FileReport, Level

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
KERNELS = ROOT / "fixtures" / "hardware"
PAGE = ROOT / "docs" / "HARDWARE.md"

HEAD = """# On hardware

The kernels of `fixtures/hardware/`, each run up to 200 times on one H200 (compute capability 9.0, CUDA 13.0), every
second time beside a kernel that loads the memory, and what warplint says of the same source. A *hang* is a launch that
has not ended after three seconds, a *fault* an error of the launch, *wrong* an unexpected result.
`tests/hardware/measure.py` runs them where a GPU and its compiler are (`h200.tsv` is its output),
`tests/hardware/table.py` makes this page; neither is needed by the tests.

| kernel | what is wrong with it | H200 | warplint |
|---|---|---|---|
"""


def measured() -> dict[str, str]:
    """Kernel name -> what happened, from the committed measurement."""
    lines = (HERE / "h200.tsv").read_text().splitlines()
    return dict(line.split("\t", 1) for line in lines)


def outcome(said: str) -> str:
    """`right`, `hang`, `fault` or `wrong (n of 200)` of one line of the measurement."""
    if ": fault launch" in said or said.startswith("fault"):
        return "fault"
    word = said.split()[0]
    if word == "wrong":
        wrong = said.rsplit(", ", 1)[1].split()[0]
        return f"wrong in {wrong} of 200"
    return "right in 200 of 200" if word == "right" else word


def report(path: Path) -> FileReport:
    """Lints one of the kernels for the part it ran on."""
    return lint_bytes(path.name, path.read_bytes(), Settings(arch="sm_90a"))


def verdict(found: FileReport) -> str:
    """The findings of level warning and error, or the verdict."""
    rules = [
        f"`{finding.rule}`, line {finding.location.line}"
        for kernel in found.kernels
        for finding in kernel.findings
        if finding.level in (Level.WARNING, Level.ERROR)
    ]
    return "; ".join(rules) or ", ".join(kernel.verdict.value for kernel in found.kernels)


def page() -> str:
    """The whole page."""
    said = measured()
    rows, agree, shown = [], 0, 0
    for path in sorted(KERNELS.glob("*.cu")):
        about = path.read_text().splitlines()[2].removeprefix("// ")
        seen, found = outcome(said[path.stem]), verdict(report(path))
        rows.append(f"| `{path.stem}` | {about} | {seen} | {found} |\n")
        faulty = not path.stem.endswith("_good")
        agree += faulty == (found != "clean")
        shown += faulty and not seen.startswith("right")
    total, good = len(rows), sum(path.stem.endswith("_good") for path in KERNELS.glob("*.cu"))
    foot = (
        f"\nwarplint is right about {agree} of {total}: it is `clean` on the {good} sound kernels, which gave the "
        f"right result in every launch, and names a fault in each other.\n{shown} of the {total - good} faulty ones "
        "showed it on the GPU. The rest are wrong by the memory model (a missing proxy fence): a launch that happens "
        "to work proves nothing.\n"
    )
    return HEAD + "".join(rows) + foot + NAMED


NAMED = """
## How named barriers count

`tests/hardware/arrive_twice.cu`, on the same GPU: a named barrier adds 32 for each *execution* of `bar.arrive` or
`bar.sync` by a warp, not for each distinct warp. One warp that executes `bar.arrive 1, 64` and then `bar.sync 1, 64`
completes the barrier alone; two `bar.arrive 1, 96` of one warp and one `bar.sync 1, 96` of another complete it too. One
lane that arrives and another lane of the same warp that synchronises, in divergent code, do not: that hangs.
"""

if __name__ == "__main__":
    sys.stdout.write(page())
