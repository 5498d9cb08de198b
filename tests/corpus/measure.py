"""Lints a folder of real sources, file by file under an alarm, and writes one JSON line per file.

    python -m tests.corpus.measure FOLDER... --out results.jsonl [--limit 40] [--arch sm_100a] [--only TEXT]
    python -m tests.corpus.measure --corpus build/corpus [--only PACKAGE]

The second form measures each package that `fetch` unpacked and writes `results/PACKAGE.jsonl`.

A child process does the work and is replaced when it hangs, dies or grows: nothing a file does ends the run. Files
that hold no kernel (`__global__`) are left out unless `--all` is given.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from tests.corpus.fetch import packages

SUFFIXES = (".cu", ".cuh", ".hip", ".h", ".hpp", ".inl")
MEMORY = 8 << 30
"""Address space of the child in bytes."""
FILES_PER_CHILD = 200
OPEN_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.M)
KNOWN_HEADERS = re.compile(
    r"(?:cuda\w*|cooperative_groups\w*|mma|math_constants|device_launch_parameters|curand\w*|texture_\w+|sm_\w+|crt/\w+"
    r"|hip/\w+|vector_\w+|c?std\w+|[a-z_]+|c10/.*|ATen/.*|torch/.*|pybind11/.*|tvm/.*|dlpack/.*|Python|nv\w*"
    r"|std\w*|float|limits|assert|math|string)(?:\.h|\.hpp|\.cuh)?"
)
"""Headers of the toolkit, of C++ and of host libraries: none of them defines what a kernel synchronises with."""


def allowed(limit: int, size: int) -> float:
    """Seconds of processor time for a file of so many bytes."""
    return limit + 30 * size / 1_000_000


class OutOfTime(BaseException):
    """The alarm of one file (not an Exception: the engine must not take it for a fault in a kernel)."""


def self_contained(text: str) -> bool:
    """Whether a file includes nothing but headers of the toolkit, of C++ and of host libraries."""
    for match in OPEN_INCLUDE.finditer(text):
        if match[1] is not None or not KNOWN_HEADERS.fullmatch(match[2]):
            return False
    return True


# ------------------------------------------------------------------------------------------------- the child
def _operations(node: Any) -> Iterator[str]:
    from warplint.finding import TreeOp

    for item in node.items:
        if isinstance(item, TreeOp):
            yield item.op
        else:
            yield from _operations(item)


def lint_one(path: str, arch: str) -> dict[str, Any]:
    """What one file gives: kernels with verdict, reasons, findings and number of recognised operations."""
    from warplint.engine import Settings, lint_bytes

    data = Path(path).read_bytes()
    text = data.decode("utf-8", "replace")
    report = lint_bytes(path, data, Settings(arch=arch, tree=True, folder=os.path.dirname(path)))
    kernels = []
    for kernel in report.kernels:
        lines = text.split("\n")
        above = " ".join(lines[max(0, kernel.line - 6) : kernel.line])
        kernels.append(
            {
                "name": kernel.name,
                "line": kernel.line,
                "verdict": kernel.verdict.value,
                "template": bool(re.search(r"\btemplate\s*<[^;{}]*$", above)),
                "operations": sum(1 for _ in _operations(kernel.tree)) if kernel.tree is not None else 0,
                "reasons": [[reason.text, reason.line] for reason in kernel.reasons],
                "findings": [
                    {"rule": f.rule, "level": f.level.value, "line": f.location.line, "message": f.message}
                    for f in kernel.findings
                ],
            }
        )
    return {
        "self_contained": self_contained(text),
        "problem": report.problem,
        "file_reasons": [[reason.text, reason.line] for reason in report.reasons],
        "kernels": kernels,
    }


def child(limit: int, arch: str) -> None:
    """Reads paths from standard input, prints a JSON line for each."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    def alarm(_signal: int, _frame: FrameType | None) -> None:
        raise OutOfTime

    signal.signal(signal.SIGPROF, alarm)
    for line in sys.stdin:
        path = line.rstrip("\n")
        start = time.process_time()
        result: dict[str, Any] = {}
        # Processor time, so that a busy machine changes nothing; a file of several megabytes gets more of it.
        signal.setitimer(signal.ITIMER_PROF, allowed(limit, os.path.getsize(path)))
        try:
            result = lint_one(path, arch)
        except OutOfTime:
            result["timeout"] = True
        except (Exception, RecursionError, MemoryError) as error:
            result["crash"] = f"{type(error).__name__}: {error}"[:300]
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        result["seconds"] = round(time.process_time() - start, 3)
        print(json.dumps(result), flush=True)


# ------------------------------------------------------------------------------------------------ the parent
class Child:
    """A child process that is started when it is needed and again after it was lost."""

    def __init__(self, limit: int, arch: str) -> None:
        self.limit = limit
        self.arch = arch
        self.process: subprocess.Popen[str] | None = None
        self.served = 0

    def ask(self, path: str) -> dict[str, Any]:
        """The result for one file; the child's death or silence is a result too."""
        if self.process is None or self.served >= FILES_PER_CHILD:
            self.close()
            command = [sys.executable, "-m", "tests.corpus.measure", "--child", str(self.limit), "--arch", self.arch]
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self.served = 0
        self.served += 1
        process = self.process
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(path + "\n")
            process.stdin.flush()
        except OSError:
            self.close()
            return {"crash": "the process died", "seconds": 0.0}
        patience = 30 * allowed(self.limit, os.path.getsize(path)) + 60  # the machine may be busy with other things
        ready, _, _ = select.select([process.stdout], [], [], patience)
        line = process.stdout.readline() if ready else ""
        if not line:
            self.close()
            return {"crash": "the process died" if ready else "hung beyond the alarm", "seconds": 0.0}
        return json.loads(line)

    def close(self) -> None:
        """Ends the child, if there is one."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


def thinned(paths: Iterable[Path], most: int) -> list[Path]:
    """At most `most` files of each folder (0: all), evenly spaced by name: generated families differ in little."""
    by_folder: dict[Path, list[Path]] = {}
    for path in paths:
        by_folder.setdefault(path.parent, []).append(path)
    kept = []
    for found in by_folder.values():
        step = len(found) / most if most and len(found) > most else 1
        kept += [found[int(index * step)] for index in range(int(len(found) / step))]
    return sorted(kept)


def sources(folders: Iterable[Path]) -> Iterator[Path]:
    """The CUDA and HIP sources below folders (or named files), in order of their names."""
    for folder in folders:
        if folder.is_file():
            yield folder
            continue
        for path in sorted(folder.rglob("*")):
            if path.suffix in SUFFIXES and path.is_file():
                yield path


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--limit", type=int, default=40, help="processor seconds for a file, more for a large one")
    parser.add_argument("--arch", default="", help="default: what the source shows")
    parser.add_argument("--only", default="", help="only paths that hold this text")
    parser.add_argument("--corpus", type=Path, help="folder of `fetch`: measure its packages")
    parser.add_argument("--all", action="store_true", help="also files without a kernel")
    parser.add_argument("--child", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.arch)
        return
    worker = Child(options.limit, options.arch)
    if options.corpus:
        results = options.corpus / "results"
        results.mkdir(parents=True, exist_ok=True)
        for name, facts in packages(options.only).items():
            folder = options.corpus / "src" / name
            with_kernels = [path for path in sources([folder]) if b"__global__" in path.read_bytes()]
            chosen = thinned(with_kernels, facts.get("sample", 0))
            (results / f"{name}.planned").write_text(f"{len(chosen)}\n")
            measure(worker, chosen, results / f"{name}.jsonl", folder)
            print(name, flush=True)
    else:
        found = (path for path in sources(options.folders) if options.only in os.fspath(path))
        chosen = [path for path in found if options.all or b"__global__" in path.read_bytes()]
        measure(worker, chosen, options.out or Path("/dev/stdout"), Path())
    worker.close()


def measure(worker: Child, paths: Iterable[Path], out: Path, base: Path) -> None:
    """Lints files and writes their results, each as soon as it is there; paths are relative to `base`."""
    with out.open("w") as written:
        for path in paths:
            shown = path.relative_to(base).as_posix() if base != Path() else os.fspath(path)
            result = worker.ask(os.fspath(path))
            written.write(json.dumps({"path": shown, "bytes": path.stat().st_size, **result}) + "\n")
            written.flush()


if __name__ == "__main__":
    main()
