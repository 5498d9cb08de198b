"""Several processes: the same reports in the same order, and a worker's death costs one file."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.gate.kernels import BAD, GOOD
from warplint import parallel
from warplint.cache import Cache
from warplint.discover import Input
from warplint.engine import Settings
from warplint.registry import UnknownRule

FORKS = hasattr(os, "fork")


@pytest.fixture
def inputs(tmp_path):
    found = []
    for number in range(12):
        text = (BAD if number % 3 == 0 else GOOD) + "// padding\n" * (17 * number % 7)
        path = tmp_path / f"k{number:02}.cu"
        path.write_text(text)
        found.append(Input(str(path), path.name))
    found.insert(4, Input("gone.cu", "gone.cu", "no such file or folder"))
    return found


def settings(item):
    return Settings(block=(256, 1, 1) if item.name == "k03.cu" else None)


@pytest.mark.parametrize("jobs", [2, 3, 40])
def test_reports_do_not_depend_on_the_number_of_processes(inputs, jobs):
    assert list(parallel.lint_many(inputs, settings, jobs)) == list(parallel.lint_many(inputs, settings, 1))


def test_little_source_is_not_worth_a_process(inputs, monkeypatch):
    monkeypatch.setattr(parallel, "_Pool", None)
    assert len(list(parallel.lint_many(inputs, settings, None))) == len(inputs)


def test_much_source_is_shared(inputs, monkeypatch):
    started = []
    real = parallel._Pool
    monkeypatch.setattr(parallel, "WORTH_BYTES", 100)
    monkeypatch.setattr(parallel, "cores", lambda: 2)
    monkeypatch.setattr(parallel, "_Pool", lambda size, cache: started.append(size) or real(size, cache))
    list(parallel.lint_many(inputs, settings, None))
    assert started == [2]


@pytest.mark.skipif(not FORKS, reason="patches what forked workers execute")
def test_a_dead_worker_costs_one_file(inputs, monkeypatch):
    real = parallel.lint_cached

    def deadly(item, chosen, cache):
        if item.name == "k05.cu":
            os.kill(os.getpid(), signal.SIGKILL)
        return real(item, chosen, cache)

    monkeypatch.setattr(parallel, "lint_cached", deadly)
    got = list(parallel.lint_many(inputs, settings, 3))
    monkeypatch.undo()
    expected = list(parallel.lint_many(inputs, settings, 1))
    (bad,) = [index for index, item in enumerate(inputs) if item.name == "k05.cu"]
    assert "died twice (SIGKILL)" in got[bad].problem
    assert got[:bad] + got[bad + 1 :] == expected[:bad] + expected[bad + 1 :]


@pytest.mark.skipif(not FORKS, reason="patches what forked workers execute")
def test_a_worker_that_dies_once_costs_nothing(inputs, tmp_path, monkeypatch):
    real, mark = parallel.lint_cached, tmp_path / "died"

    def deadly(item, chosen, cache):
        if item.name == "k05.cu" and not mark.exists():
            mark.touch()
            os._exit(1)
        return real(item, chosen, cache)

    monkeypatch.setattr(parallel, "lint_cached", deadly)
    got = list(parallel.lint_many(inputs, settings, 2))
    monkeypatch.undo()
    assert mark.exists()
    assert got == list(parallel.lint_many(inputs, settings, 1))


@pytest.mark.skipif(not FORKS, reason="patches what forked workers execute")
def test_a_fault_of_ours_in_a_worker_is_a_problem_of_its_file(inputs, monkeypatch):
    def faulty(item, chosen, cache):
        raise RuntimeError("oops")

    monkeypatch.setattr(parallel, "lint_cached", faulty)
    problems = [report.problem for report in parallel.lint_many(inputs[:3], settings, 2)]
    assert all("RuntimeError: oops" in problem for problem in problems)


def test_unknown_rules_are_told_as_without_processes(inputs):
    with pytest.raises(UnknownRule):
        list(parallel.lint_many(inputs, lambda _: Settings(select=("nonsense",)), 2))


def test_leaving_early_leaves_no_process(inputs):
    import multiprocessing

    reports = parallel.lint_many(inputs, settings, 2)
    next(reports)
    assert multiprocessing.active_children()
    reports.close()
    assert not multiprocessing.active_children()


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="reads /proc")
def test_workers_leave_when_their_parent_is_killed(tmp_path):
    program = (
        "import time\nfrom pathlib import Path\nfrom warplint import parallel\n"
        "pool = parallel._Pool(2, None)\n"
        "print(*(worker.process.pid for worker in pool._workers), flush=True)\ntime.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    workers = [int(word) for word in process.stdout.readline().split()]
    assert len(workers) == 2
    process.kill()
    process.wait()
    process.stdout.close()
    until = time.monotonic() + 10
    while any(map(alive, workers)):
        assert time.monotonic() < until, "a worker outlives its parent"
        time.sleep(0.02)


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_workers_fill_and_read_the_cache(inputs, tmp_path):
    cache = Cache(str(tmp_path / "cache"))
    first = list(parallel.lint_many(inputs, settings, 3, cache))
    assert first == list(parallel.lint_many(inputs, settings, 1))
    again = list(parallel.lint_many(inputs, settings, 3, Cache(cache.folder)))
    assert again == first


def test_where_processes_cannot_be_forked(inputs, monkeypatch):
    monkeypatch.setattr("multiprocessing.get_all_start_methods", lambda: ["spawn"])
    got = list(parallel.lint_many(inputs[:6], settings, 2, None))
    assert got == list(parallel.lint_many(inputs[:6], settings, 1))


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="reads /proc")
def test_an_interruption_ends_all_of_it(tmp_path):
    for number in range(300):
        (tmp_path / f"k{number}.cu").write_text(BAD + f"// {number}\n" * 50)
    process = subprocess.Popen(
        [sys.executable, "-m", "warplint", "lint", ".", "-j", "2", "--no-cache", "-o", "json=out.json"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    until = time.monotonic() + 60
    while len(workers := children(process.pid)) < 2:
        assert time.monotonic() < until and process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130 and said.strip() == "interrupted"
    assert not (tmp_path / "out.json").exists()
    while any(map(alive, workers)):
        assert time.monotonic() < until, "a worker outlives the interruption"
        time.sleep(0.02)


def children(pid):
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
