"""On a Dask cluster: the same reports, and a worker that dies takes nothing with it."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from tests.gate.kernels import BAD, GOOD
from warplint import parallel
from warplint.cache import Cache
from warplint.discover import Input
from warplint.engine import Settings

distributed = pytest.importorskip("distributed")
cluster = pytest.importorskip("warplint.cluster")


@pytest.fixture(scope="module")
def scheduler():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as started:
        yield started


@pytest.fixture
def inputs(tmp_path):
    found = []
    for number in range(24):
        path = tmp_path / f"k{number:02}.cu"
        path.write_text((BAD if number % 3 else GOOD) + f"// {number}\n" * (number % 5))
        found.append(Input(str(path), path.name))
    found.insert(5, Input("gone.cu", "gone.cu", "no such file or folder"))
    found.insert(9, Input(str(tmp_path), "folder.cu"))
    return found


def settings(item):
    return Settings(block=(256, 1, 1) if item.name == "k03.cu" else None)


def test_the_same_reports(inputs, scheduler, tmp_path):
    here = list(parallel.lint_many(inputs, settings, 1))
    cache = Cache(str(tmp_path / "cache"))
    assert list(cluster.lint_on_cluster(inputs, settings, scheduler.scheduler_address, cache)) == here
    assert list(parallel.lint_many(inputs, settings, 1, Cache(cache.folder))) == here
    ready, waiting = parallel.known_before(inputs, settings, cache)
    assert len(ready) == 25 and [inputs[index].name for index in waiting] == ["folder.cu"]


def test_a_killed_worker_loses_nothing(inputs, scheduler):
    here = list(parallel.lint_many(inputs, settings, 1))
    with distributed.Client(scheduler, set_as_default=False) as client:
        pids = list(client.run(os.getpid).values())
    reports = cluster.lint_on_cluster(inputs, settings, scheduler.scheduler_address, None)
    got = [next(reports)]
    killer = threading.Timer(0.0, os.kill, (pids[0], signal.SIGKILL))
    killer.start()
    got.extend(reports)
    killer.join()
    assert got == here


def test_a_worker_with_another_analyzer_is_refused(inputs, scheduler, monkeypatch):
    monkeypatch.setattr(cluster, "stamp", lambda folder: b"another")
    problems = {
        report.problem for report in cluster.lint_on_cluster(inputs[:3], settings, scheduler.scheduler_address, None)
    }
    assert problems == {"the worker has another warplint, or other packs, than this machine"}


def test_the_command(inputs, scheduler, tmp_path):
    def run(address):
        command = [sys.executable, "-m", "warplint", "lint", ".", "--format", "json", "--no-cache", "--dask", address]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)

    plain = [sys.executable, "-m", "warplint", "lint", ".", "--format", "json", "--no-cache", "-j", "1"]
    here = subprocess.run(plain, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    there = run(scheduler.scheduler_address)
    assert (there.returncode, there.stdout) == (here.returncode, here.stdout) and here.returncode == 1, there.stderr


def test_no_scheduler(inputs, monkeypatch):
    monkeypatch.setattr(cluster, "PATIENCE", 1)
    start = time.monotonic()
    with pytest.raises(cluster.ClusterError, match="does not answer"):
        list(cluster.lint_on_cluster(inputs, settings, "tcp://127.0.0.1:9", None))
    assert time.monotonic() - start < 30
