"""--watch: another report after each change, whatever state the files are in meanwhile."""

import os
import queue
import signal
import subprocess
import sys
import threading
import time

import pytest

from tests.gate.kernels import BAD, GOOD

pytest.importorskip("watchfiles")


class Watching:
    def __init__(self, folder, *arguments):
        command = [sys.executable, "-u", "-m", "warplint", "lint", *arguments, "--watch"]
        self.process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout or ():
            self.lines.put(line)

    def until(self, words):
        seen = []
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                seen.append(self.lines.get(timeout=1))
            except queue.Empty:
                continue
            if words in seen[-1]:
                return "".join(seen)
        raise AssertionError(f"{words!r} is not in\n{''.join(seen)}")


@pytest.fixture
def start(tmp_path):
    started = []

    def go(*arguments):
        started.append(Watching(tmp_path, *arguments))
        return started[-1]

    yield go
    for one in started:
        if one.process.poll() is None:
            os.killpg(one.process.pid, signal.SIGKILL)
        one.process.wait()


@pytest.mark.parametrize("path", [".", "k.cu", "*.cu"])
def test_a_report_after_each_change(tmp_path, start, path):
    (tmp_path / "k.cu").write_text(BAD)
    running = start(path)
    running.until("1 error in 1 kernel")
    time.sleep(0.5)  # the watch begins after the first report
    (tmp_path / "notes.txt").write_text("not ours")
    # as editors do it
    (tmp_path / "k.cu~").write_text(GOOD)
    os.replace(tmp_path / "k.cu~", tmp_path / "k.cu")
    text = running.until("no findings in 1 kernel")
    assert "k.cu changed" in text and "notes.txt" not in text
    (tmp_path / "warplint.toml").write_text("levle = 1\n")
    running.until("unknown key `levle`")
    (tmp_path / "warplint.toml").write_text("")
    running.until("no findings in 1 kernel")
    (tmp_path / "k.cu").write_text(BAD)
    running.until("1 error in 1 kernel")
    os.kill(running.process.pid, signal.SIGINT)
    assert running.process.wait(20) == 130


def test_standard_input_cannot_be_watched(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "warplint", "lint", "-", "--watch"],
        input="",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2 and "cannot be watched" in done.stderr
