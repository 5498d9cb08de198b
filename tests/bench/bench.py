"""What warplint costs, as ratios measured in one run: to bare Python, and to the bare tree-sitter parse.

    python tests/bench/bench.py [--corpus DIR] [--repeat N]

Prints a table. Ratios are what counts: both sides of each run on the same machine in the same minute, the sides of
a pair in turn, and the best of the repeats is taken, since noise only ever adds. Without a corpus the bundled
artifacts serve.
"""

from __future__ import annotations

import argparse
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


def best(action: Callable[[], object], repeat: int) -> float:
    """Seconds of the fastest of `repeat` runs."""
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return min(times)


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
    """`--version` and one small file against `python -c pass`."""
    bare = best(process(sys.executable, "-c", "pass"), repeat)
    for label, argv, limit in (
        ("warplint --version", ["--version"], 6),
        (f"warplint lint {SMALL.name}", ["lint", "--no-config", str(SMALL)], 12),
    ):
        ours = best(process(sys.executable, "-m", "warplint", *argv), repeat)
        print(f"{label:44} {ours / bare:6.2f} x bare python   (limit {limit})")


def lint_against_parse(corpus: list[Path], repeat: int, execute: bool, limit: int) -> None:
    """Linting in this process against the bare parse of the same bytes, start-up apart."""
    import tree_sitter
    import tree_sitter_cuda

    from warplint.engine import Settings, lint_bytes

    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_cuda.language()))
    settings = Settings(arch="sm_100a", execute=execute)
    warm = corpus[0]
    lint_bytes(warm.name, warm.read_bytes(), settings)
    ratios, parse_total, lint_total = [], 0.0, 0.0
    for path in corpus:
        data = path.read_bytes()
        parse = best(lambda data=data: parser.parse(data), repeat)
        lint = best(lambda data=data, path=path: lint_bytes(path.name, data, settings), repeat)
        ratios.append((lint / parse, path.name))
        parse_total += parse
        lint_total += lint
    ratios.sort()
    kind = "with execution" if execute else "structural"
    label = f"{kind}, {len(corpus)} files, {sum(p.stat().st_size for p in corpus) / 1e6:.1f} MB"
    print(f"{label:44} {lint_total / parse_total:6.2f} x bare parse     (limit {limit})")
    print(f"{'  median file':44} {statistics.median(r for r, _ in ratios):6.2f} x bare parse")
    print(f"{'  worst file: ' + ratios[-1][1][:28]:44} {ratios[-1][0]:6.2f} x bare parse", flush=True)


def memory(path: Path) -> None:
    """Peak memory of linting the largest file in a process of its own."""
    process(sys.executable, "-m", "warplint", "lint", "--no-config", "--exit-zero", str(path))()
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    label = f"peak memory, {path.stat().st_size / 1e6:.2f} MB file"
    print(f"{label:44} {peak:6.0f} MB              (limit 400)")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--corpus", type=Path, default=ROOT / "fixtures" / "artifacts")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    corpus = sorted(options.corpus.rglob("*.cu"))
    startup(max(10, options.repeat))
    lint_against_parse(corpus, options.repeat, execute=False, limit=6)
    lint_against_parse(corpus, options.repeat, execute=True, limit=25)
    memory(max(corpus, key=lambda path: (path.stat().st_size, path.name)))


if __name__ == "__main__":
    main()
