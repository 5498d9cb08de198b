"""Hostile and good files in one run: each gets its diagnosis, none disturbs another, in every format."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.robustness.kernels import BARRIER, PIPELINE

FORMATS = ("text", "json", "sarif", "html")
MEGABYTES = 50


def run(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "NO_COLOR")}
    return subprocess.run(
        [sys.executable, "-m", "warplint", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=environment,
        **options,
    )


def lint(*arguments: str, **options) -> tuple[int, dict, str]:
    """Exit code, the JSON report, and what was said on standard error."""
    done = run("lint", "--no-config", *arguments, "--format", "json", **options)
    return done.returncode, json.loads(done.stdout), done.stderr


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.cu").write_text(BARRIER)
    (tmp_path / "good.cu").write_text(PIPELINE)
    return tmp_path


def huge(path: Path) -> None:
    """A file of 50 MB that begins with a fault and takes no room on disk."""
    with path.open("wb") as file:
        file.write(BARRIER.encode())
        file.truncate(MEGABYTES << 20)


def unreadable(path: Path) -> None:
    """A file that cannot be opened, whoever runs the test: root reads files without permission, but no socket."""
    if os.geteuid() == 0:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(str(path))
    else:
        path.write_text(BARRIER)
        path.chmod(0)


def hostile(folder: Path) -> list[str]:
    """One of each; returns their names in the order of the command line."""
    huge(folder / "huge.cu")
    unreadable(folder / "locked.cu")
    (folder / "empty.cu").write_bytes(b"")
    (folder / "nul.cu").write_bytes(b"\0" * 5000)
    (folder / "utf16.cu").write_bytes(BARRIER.encode("utf-16"))
    (folder / "noise.cu").write_bytes(bytes(range(256)) * 40)
    (folder / "cut.cu").write_text(PIPELINE[: len(PIPELINE) * 2 // 3])
    (folder / "deep.cu").write_text("__global__ void deep(int x) { " + "if (x) {" * 5000)
    (folder / "dangling.cu").symlink_to(folder / "nowhere.cu")
    (folder / "folder.cu").mkdir()
    (folder / "folder.cu" / "inside.cu").write_text(BARRIER)
    names = "huge locked empty nul utf16 noise cut deep dangling gone"
    return [f"{name}.cu" for name in names.split()]


@pytest.mark.parametrize("form", FORMATS)
def test_a_mixture(folder: Path, form: str) -> None:
    names = ["bad.cu", *hostile(folder), "folder.cu", "good.cu"]
    done = run("lint", "--no-config", "--arch", "sm_90a", *names, "--format", form, "--exit-zero")
    assert done.returncode == 2  # some could not be read
    for name, words in {
        "locked.cu": "cannot be read",
        "dangling.cu": "cannot be read",
        "gone.cu": "no such file or folder",
        "empty.cu": "no kernel found",
    }.items():
        assert f"warplint: {name}: {words}" in done.stderr
    assert "Traceback" not in done.stderr
    assert str(folder) not in done.stdout + done.stderr
    for words in ("larger than 16777216 bytes", "UTF-16", "cta-barrier-in-divergent-code"):
        assert words in done.stdout


def test_a_mixture_leaves_the_others_as_they_are(folder: Path) -> None:
    arguments = ("--arch", "sm_90a", "--level", "note")
    names = hostile(folder)
    alone = {name: lint(name, *arguments)[1]["files"][0] for name in ("bad.cu", "good.cu", "folder.cu")}
    code, data, _ = lint("bad.cu", *names, "folder.cu", "good.cu", *arguments)
    assert code == 2
    files = {file["path"]: file for file in data["files"]}
    assert list(files) == ["bad.cu", *names, "folder.cu/inside.cu", "good.cu"]
    assert files["bad.cu"] == alone["bad.cu"]
    assert files["good.cu"] == alone["good.cu"]
    assert files["folder.cu/inside.cu"] == alone["folder.cu"]
    assert [kernel["verdict"] for kernel in files["bad.cu"]["kernels"]] == ["findings"]
    assert [kernel["verdict"] for kernel in files["good.cu"]["kernels"]] == ["clean", "clean"]


def test_more_than_the_limit_is_incomplete(folder: Path) -> None:
    huge(folder / "huge.cu")
    start = time.monotonic()
    code, data, errors = lint("huge.cu")
    assert code == 0 and errors == ""
    (file,) = data["files"]
    assert "larger than 16777216 bytes" in json.dumps(file) and "--max-bytes" in json.dumps(file)
    assert lint("huge.cu", "--strict")[0] == 1
    assert time.monotonic() - start < 20
    text = run("lint", "--no-config", "huge.cu").stdout
    assert "huge.cu" in text and "incomplete" in text and "larger than 16777216 bytes" in text


def test_the_limit_is_exact(folder: Path) -> None:
    size = (folder / "bad.cu").stat().st_size
    assert lint("bad.cu", "--max-bytes", str(size))[0] == 1
    code, data, _ = lint("bad.cu", "--max-bytes", str(size - 1))
    assert code == 0 and f"larger than {size - 1} bytes" in json.dumps(data)


def test_standard_input_has_the_same_limit() -> None:
    code, data, _ = lint("-", "--max-bytes", "100", input=BARRIER)
    assert code == 0 and "larger than 100 bytes" in json.dumps(data)


def test_a_folder_that_is_called_like_a_source(folder: Path) -> None:
    (folder / "x.cu").mkdir()
    done = run("lint", "--no-config", "x.cu")
    assert done.returncode == 2 and "no CUDA or HIP source in this folder" in done.stderr
    (folder / "x.cu" / "kernel.cu").write_text(BARRIER)
    code, data, _ = lint("x.cu")
    assert code == 1 and [file["path"] for file in data["files"]] == ["x.cu/kernel.cu"]


def test_a_folder_with_unreadable_files_in_it(folder: Path) -> None:
    unreadable(folder / "locked.cu")
    code, data, errors = lint(".")
    assert code == 2 and "warplint: locked.cu: cannot be read" in errors
    assert [file["path"] for file in data["files"]] == ["bad.cu", "good.cu", "locked.cu"]


def test_a_loop_of_links_ends(folder: Path) -> None:
    (folder / "deeper").mkdir()
    (folder / "deeper" / "up").symlink_to(folder, target_is_directory=True)
    (folder / "self.cu").symlink_to("self.cu")
    code, data, errors = lint(".")
    assert code == 2 and "warplint: self.cu: cannot be read" in errors
    assert [file["path"] for file in data["files"]] == ["bad.cu", "good.cu", "self.cu"]


@pytest.mark.parametrize("name", ["two\nlines.cu", "escape\x1b[31m.cu", "<b>&'\".cu", "пример 核.cu", "-dash.cu"])
def test_odd_names(folder: Path, name: str) -> None:
    (folder / name).write_text(BARRIER)
    for form in FORMATS:
        done = run("lint", "--no-config", "--format", form, "--", name)
        assert done.returncode == 1
        assert "\x1b" not in done.stdout
        assert form != "html" or "<b>&'" not in done.stdout
    if "\n" in name:
        assert "two\nlines" not in run("lint", "--no-config", "--", name).stdout


def test_a_name_that_is_no_unicode(folder: Path) -> None:
    raw = os.fsencode(folder) + b"/\xff\xfe.cu"
    with open(raw, "wb") as file:
        file.write(BARRIER.encode())
    for form in FORMATS:
        done = subprocess.run(
            [sys.executable, "-m", "warplint", "lint", "--no-config", "--format", form, b"\xff\xfe.cu"],
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 1, done.stderr
        done.stdout.decode("utf-8")


# ---------------------------------------------------------------------------------------------- written whole
def test_a_report_that_cannot_be_written(folder: Path) -> None:
    (folder / "taken").mkdir()
    done = run("lint", "--no-config", "bad.cu", "--output", "json=taken", "--output", "sarif=fine.sarif")
    assert done.returncode == 2 and "cannot write taken" in done.stderr
    assert json.loads((folder / "fine.sarif").read_text())["version"] == "2.1.0"
    assert "cta-barrier-in-divergent-code" in done.stdout


def test_a_killed_run_leaves_no_half_report(folder: Path) -> None:
    """Whenever the run is killed, each report is the old one, whole, or the new one, whole."""
    many = folder / "many"
    many.mkdir()
    for number in range(12):
        (many / f"{number:02}.cu").write_text(BARRIER)
    old = '{"old": true}\n'
    arguments = [sys.executable, "-m", "warplint", "lint", "--no-config", "-q", "many"]
    for kind in ("json", "sarif", "html"):
        arguments += ["--output", f"{kind}={kind}.report"]
    start = time.monotonic()
    subprocess.run(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60, check=False)
    took = time.monotonic() - start
    killed = 0
    for step in range(5):
        for kind in ("json", "sarif", "html"):
            (folder / f"{kind}.report").write_text(old)
        process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(took * (0.5 + step * 0.11))
        process.send_signal(signal.SIGKILL)
        killed += process.wait(timeout=60) == -signal.SIGKILL
        for kind in ("json", "sarif"):
            assert isinstance(json.loads((folder / f"{kind}.report").read_text()), dict)
        page = (folder / "html.report").read_text()
        assert page == old or page.rstrip().endswith("</html>")
    assert killed, "no run was killed before its end"
