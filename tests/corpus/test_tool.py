"""The tool behind `make corpus`, on small things made here: nothing is fetched."""

from __future__ import annotations

import io
import json
import tarfile
import tomllib
from pathlib import Path

from tests.corpus import coverage, fetch, measure
from warplint.registry import rules

GOOD = b"__global__ void k(float* x) { x[threadIdx.x] = 0; }\n"
BAD = b"""__global__ void __launch_bounds__(64) k(float* x) {
  if (threadIdx.x < 32) __syncthreads();
  __syncthreads();
  x[threadIdx.x] = 0;
}
"""


def _archive(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as opened:
        for name, data in files.items():
            item = tarfile.TarInfo(f"package-1.0/{name}")
            item.size = len(data)
            opened.addfile(item, io.BytesIO(data))
    return path


def test_sources_and_kernels_in_strings_are_unpacked(tmp_path: Path) -> None:
    archive = _archive(
        tmp_path / "package-1.0.tar.gz",
        {
            "csrc/a.cu": GOOD,
            "csrc/host.cpp": b"int main() {}",
            "csrc/a.cuh": b"#define N 3",
            "other/b.cu": GOOD,
            "csrc/c.py": b"SOURCE = '''" + GOOD + b"'''\nTEMPLATE = '__global__ void k() { %(body)s }'\n",
        },
    )
    count = fetch.unpack(archive, {"only": ["csrc"], "strings": True}, tmp_path / "out")
    found = sorted(path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.*"))
    assert found == ["csrc/a.cu", "csrc/a.cuh", "csrc/c.py.0.cu"]
    assert count == 3


def test_families_are_thinned_evenly() -> None:
    family = [Path(f"a/{number}.cu") for number in range(100, 140)]
    assert measure.thinned(family, 4) == [Path(f"a/{number}.cu") for number in (100, 110, 120, 130)]
    assert measure.thinned(family, 0) == family


def test_files_are_measured_by_a_child(tmp_path: Path) -> None:
    names = ["good.cu", "bad.cu"]
    for name, data in zip(names, (GOOD, BAD), strict=True):
        (tmp_path / name).write_bytes(data)
    worker = measure.Child(20, "")
    measure.measure(worker, [tmp_path / name for name in names], tmp_path / "out.jsonl", tmp_path)
    worker.close()
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["path"] for row in rows] == names
    assert [len(row["kernels"][0]["findings"]) for row in rows] == [0, 1]


def test_large_files_get_more_time() -> None:
    assert measure.allowed(40, 0) == 40
    assert measure.allowed(40, 2_000_000) == 100


def test_a_child_that_dies_costs_its_file_only(tmp_path: Path) -> None:
    (tmp_path / "good.cu").write_bytes(GOOD)
    worker = measure.Child(20, "")
    assert "kernels" in worker.ask(str(tmp_path / "good.cu"))
    assert worker.process is not None
    worker.process.kill()
    worker.process.wait()
    assert "crash" in worker.ask(str(tmp_path / "good.cu"))
    assert "kernels" in worker.ask(str(tmp_path / "good.cu"))
    worker.close()


def test_findings_without_a_ledger_line_are_listed() -> None:
    finding = {"rule": "no-such-rule", "level": "error", "line": 3, "message": "This is wrong."}
    kernel = {"name": "k", "line": 1, "verdict": "findings", "operations": 2, "reasons": [], "findings": [finding]}
    row = {"path": "a.cu", "seconds": 0.5, "kernels": [kernel]}
    package = coverage.Package("some-package", {"class": "kernels"}, [row])
    text, unjudged = coverage.page([package])
    assert unjudged == 1
    assert "| error | no-such-rule | `some-package/a.cu:3` | This is wrong. |" in text
    assert "| some-package | 1 | 1 | 2 | 1 of 1 (100 %) | 1 of 1 (100 %) | 1 | 0 |" in text


def test_the_ledger_names_rules_that_exist() -> None:
    entries = tomllib.loads(coverage.LEDGER.read_text())["finding"]
    assert {entry["rule"] for entry in entries} <= {rule.slug for rule in rules()}
    assert all(entry["level"] in ("error", "warning") and entry["why"] for entry in entries)


def test_sources_are_complete() -> None:
    for name, facts in fetch.packages().items():
        assert facts["kind"] in ("wheel", "sdist") and facts["class"] in ("kernels", "library"), name
        assert facts["only"] and facts["version"], name
