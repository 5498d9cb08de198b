"""Killed at any moment, warplint leaves no half of a report, a baseline or a cache entry that is believed."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.gate.kernels import BAD, GOOD

pytestmark = pytest.mark.slow
KILLS = int(os.environ.get("WARPLINT_KILLS", "12"))


ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True, scope="module")
def frozen(tmp_path_factory):
    """A copy of the program: outputs are compared over many runs, and somebody may be editing."""
    place = tmp_path_factory.mktemp("frozen")
    roots = []
    for name in ("analyzer", "rules", "reports"):
        shutil.copytree(ROOT / name, place / name, ignore=shutil.ignore_patterns("__pycache__"))
        roots.append(str(place / name))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(roots))
        yield


def command(*arguments):
    return [sys.executable, "-m", "warplint", *arguments]


@pytest.fixture
def folder(tmp_path):
    for number in range(10):
        (tmp_path / f"k{number}.cu").write_text((BAD if number % 2 else GOOD) + f"// {number}\n" * 400)
    return tmp_path


def killed(arguments, folder, after):
    """Starts a command and kills its process group after some time; whether it was still running then."""
    process = subprocess.Popen(
        command(*arguments), cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        process.wait(after)
        return False
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return True


def test_reports_and_cache(folder):
    outputs = {"json": "out.json", "sarif": "out.sarif", "html": "out.html", "junit": "out.xml"}
    wanted = [item for form, path in outputs.items() for item in ("-o", f"{form}={path}")]
    start = time.monotonic()
    subprocess.run(command("lint", ".", "-q", "--no-cache", "-j", "1", *wanted), cwd=folder, check=False, timeout=100)
    lasts = time.monotonic() - start
    expected = {path: (folder / path).read_bytes() for path in outputs.values()}
    assert all(expected.values())
    caught = 0
    for number in range(KILLS):
        for path in outputs.values():
            (folder / path).unlink(missing_ok=True)
        cache = f"cache{number}" if number % 2 else "shared"
        jobs = ("-j", str(1 + number % 3), "--cache", cache)
        caught += killed(["lint", ".", "-q", *jobs, *wanted], folder, lasts * (number % 9 + 1) / 10)
        for path, content in expected.items():
            if (folder / path).exists():
                assert (folder / path).read_bytes() == content, path
    assert caught >= KILLS // 4, "too few of the runs were still going when they were to be killed"
    for cache in ("shared", "cache1", "cache3", "cache5"):
        run = [*command("lint", ".", "-q", "--cache", cache), *wanted]
        subprocess.run(run, cwd=folder, check=False, timeout=100)
        assert {path: (folder / path).read_bytes() for path in expected} == expected


def test_baseline(folder):
    subprocess.run(command("baseline", "k1.cu", "k3.cu", "--no-cache"), cwd=folder, check=True, timeout=100)
    small = (folder / "warplint-baseline.json").read_bytes()
    start = time.monotonic()
    subprocess.run(command("baseline", ".", "--grow", "--no-cache", "-j", "1"), cwd=folder, check=True, timeout=100)
    lasts = time.monotonic() - start
    large = (folder / "warplint-baseline.json").read_bytes()
    assert small != large and json.loads(large)
    caught = 0
    for number in range(KILLS):
        (folder / "warplint-baseline.json").write_bytes(small)
        caught += killed(["baseline", ".", "--grow", "--no-cache"], folder, lasts * (number % 9 + 1) / 10)
        assert (folder / "warplint-baseline.json").read_bytes() in (small, large)
    assert caught >= KILLS // 4
