"""What warplint costs, as ratios measured in one run: to bare Python, and to the bare tree-sitter parse.

    python tests/bench/bench.py [--corpus DIR] [--repeat N]

Prints a table. Ratios are what counts: both sides of each run on the same machine in the same minute, the sides of
a pair in turn, and the best of the repeats is taken, since noise only ever adds. Without a corpus the bundled
artifacts serve.
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SMALL = ROOT / "fixtures" / "artifacts" / "small_reduce.cu"


def best(action: Callable[[], object], repeat: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds of the fastest of `repeat` runs."""
    times = []
    for _ in range(repeat):
        start = clock()
        action()
        times.append(clock() - start)
    return min(times)


def of_children() -> float:
    """CPU seconds of the processes started so far, those of the system on their behalf included."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def environment() -> dict[str, str]:
    """Ours, with compiled bytecode kept as an installed package has it, in a folder of this run."""
    inherited = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {**inherited, "PYTHONPYCACHEPREFIX": tempfile.mkdtemp(prefix="warplint-bench-")}


ENVIRONMENT = environment()


def process(*argv: str) -> Callable[[], object]:
    """A run of a whole process, output thrown away; run once already, so that its bytecode is there."""

    def run() -> object:
        return subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, env=ENVIRONMENT)

    run()
    return run


def startup(repeat: int) -> None:
    """`--version` and one small file against `python -c pass`, in CPU time of the processes."""
    bare = best(process(sys.executable, "-c", "pass"), repeat, of_children)
    for label, argv, limit in (
        ("warplint --version", ["--version"], 6),
        (f"warplint lint {SMALL.name}", ["lint", "--no-config", "--no-cache", str(SMALL)], 12),
    ):
        ours = best(process(sys.executable, "-m", "warplint", *argv), repeat, of_children)
        print(f"{label:44} {ours / bare:6.2f} x bare python   (limit {limit})")


def lint_against_parse(corpus: list[Path], repeat: int, execute: bool, limit: int) -> None:
    """Linting in this process against the bare parse of the same bytes, start-up apart, both in CPU time."""
    import tree_sitter
    import tree_sitter_cuda

    from warplint.engine import Settings, lint_bytes

    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_cuda.language()))
    settings = Settings(arch="sm_100a", execute=execute)
    warm = corpus[0]
    lint_bytes(warm.name, warm.read_bytes(), settings)
    ratios, parse_total, lint_total = [], 0.0, 0.0
    slowest = (0.0, "")
    for path in corpus:
        data = path.read_bytes()
        parse = best(lambda data=data: parser.parse(data), repeat, time.process_time)
        lint = best(lambda data=data, path=path: lint_bytes(path.name, data, settings), repeat, time.process_time)
        ratios.append((lint / parse, path.name))
        parse_total += parse
        lint_total += lint
        slowest = max(slowest, (lint, path.name))
        gc.collect()
    ratios.sort()
    kind = "with execution" if execute else "structural"
    label = f"{kind}, {len(corpus)} files, {sum(p.stat().st_size for p in corpus) / 1e6:.1f} MB"
    print(f"{label:44} {lint_total / parse_total:6.2f} x bare parse     (limit {limit})")
    print(f"{'  median file':44} {statistics.median(r for r, _ in ratios):6.2f} x bare parse")
    print(f"{'  worst file: ' + ratios[-1][1][:28]:44} {ratios[-1][0]:6.2f} x bare parse")
    if execute:
        print(f"{'  all files, CPU time':44} {lint_total:6.1f} s                (limit 90 on 2 cores)")
        print(f"{'  slowest: ' + slowest[1][:30]:44} {slowest[0]:6.2f} s                (limit 20)")
    sys.stdout.flush()


MEASURED = """
import os, sys
from warplint.__main__ import main
sys.argv[0] = "warplint"
sys.stdout = open(os.devnull, "w", encoding="utf-8")
main()
with open("/proc/self/status", encoding="ascii") as status:
    print(next(int(line.split()[1]) for line in status if line.startswith("VmHWM:")), file=sys.stderr)
"""
"""Lints and reports its own peak in kB: the peak of children that the system reports starts with the size of the parent
that forked them."""


def peak(*paths: Path) -> float | None:
    """Peak memory in MB of linting files in one process of its own; None where the system does not tell (not Linux)."""
    argv = (sys.executable, "-c", MEASURED, "lint", "--no-config", "--no-cache", "-j1", "--exit-zero", *map(str, paths))
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=ENVIRONMENT)
    words = done.stderr.split()
    return int(words[-1]) / 1024 if words and words[-1].isdigit() else None


def memory(corpus: list[Path]) -> None:
    """Peak memory for the largest file, and for all files in one process: that must not grow with their number."""
    largest = max(corpus, key=lambda path: (path.stat().st_size, path.name))
    for label, paths, limit in (
        (f"peak memory, {largest.stat().st_size / 1e6:.2f} MB file", [largest], "(limit 400)"),
        (f"peak memory, {len(corpus)} files in one process", corpus, ""),
    ):
        used = peak(*paths)
        shown = "unknown" if used is None else f"{used:6.0f} MB"
        print(f"{label:44} {shown}              {limit}".rstrip(), flush=True)


def cached(corpus: list[Path]) -> None:
    """The whole command over all files: one process, all processors, and once more from the cache; by the clock."""
    with tempfile.TemporaryDirectory() as folder:
        base = [sys.executable, "-m", "warplint", "lint", "--no-config", "--exit-zero", "-q", "-o"]
        base += [f"json={folder}/report.json", *map(str, corpus)]

        def run(*options: str) -> tuple[float, bytes]:
            began = time.perf_counter()
            subprocess.run([*base, *options], stderr=subprocess.DEVNULL, check=False, env=ENVIRONMENT)
            return time.perf_counter() - began, Path(folder, "report.json").read_bytes()

        alone, first = run("--no-cache", "-j1")
        shared, second = run("--cache", f"{folder}/cache")
        again, third = run("--cache", f"{folder}/cache")
    same = "" if first == second == third else "   THE REPORTS DIFFER"
    label = f"command, {len(corpus)} files"
    print(f"{label + ', one process':44} {alone:6.1f} s")
    print(f"{label + f', {len(os.sched_getaffinity(0))} processors':44} {shared:6.1f} s{same}")
    print(f"{label + ', from the cache':44} {alone / again:6.1f} x faster          (at least 10)", flush=True)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--corpus", type=Path, default=ROOT / "fixtures" / "artifacts")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    corpus = sorted(options.corpus.rglob("*.cu"))
    startup(max(10, options.repeat))
    memory(corpus)
    cached(corpus)
    lint_against_parse(corpus, options.repeat, execute=False, limit=6)
    lint_against_parse(corpus, options.repeat, execute=True, limit=25)


if __name__ == "__main__":
    main()
