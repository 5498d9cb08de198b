"""Runs the kernels of fixtures/hardware on a GPU and writes what happened, one line each.

    python tests/hardware/measure.py OUT.tsv        (needs nvcc and a GPU of compute capability 9.0)

Nothing of this is needed by the tests: `table.py` sets the lines beside what warplint says of the same sources.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HARNESS = Path(__file__).with_name("harness.cu")
LAUNCH = re.compile(r"// hardware: grid (\d+) block (\d+)")


def build(source: Path, folder: Path) -> str:
    """Compiles the harness around one kernel; the compiler's words if that fails, else nothing."""
    launch = LAUNCH.search(source.read_text())
    if launch is None:
        return "no `// hardware:` line"
    command = [
        "nvcc",
        "-O2",
        "-std=c++17",
        "-gencode=arch=compute_90a,code=sm_90a",
        f'-DKERNEL_FILE="{source}"',
        f"-DGRID={launch[1]}",
    ]
    command += [f"-DBLOCK={launch[2]}", "-o", str(folder / source.stem), str(HARNESS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else ""


def main() -> None:
    """Builds all in parallel, runs one after the other."""
    sources = sorted((ROOT / "fixtures" / "hardware").glob("*.cu"))
    lines = []
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(12) as pool:
        folder = Path(name)
        for source, problem in zip(sources, list(pool.map(lambda s: build(s, folder), sources)), strict=True):
            if problem:
                said = "not built: " + " ".join(problem.split())[:300]
            else:
                try:
                    done = subprocess.run(
                        [folder / source.stem], capture_output=True, text=True, timeout=60, check=False
                    )
                    said = done.stdout.strip() or f"fault: exit status {done.returncode}"
                except subprocess.TimeoutExpired:
                    said = "hang: the process does not end"
            lines.append(f"{source.stem}\t{said}")
            print(lines[-1], flush=True)
    Path(sys.argv[1]).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
