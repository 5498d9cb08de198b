"""Shards put together are one run, byte for byte; what does not belong together is refused."""

import json
from pathlib import Path

import pytest
from click import ClickException
from click.testing import CliRunner

from tests.gate.kernels import BAD, GOOD
from warplint.cli import warplint


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number in range(14):
        place = tmp_path / ("b" if number % 2 else "a")
        place.mkdir(exist_ok=True)
        text = BAD if number % 3 == 0 else GOOD
        if number % 5 == 0:
            text = "// warplint: ignore-file[participation]\n" + text
        (place / f"k{number}.cu").write_text(text)
    (tmp_path / "a" / "utf16.cu").write_bytes(GOOD.encode("utf-16"))
    return tmp_path


def run(*arguments):
    result = CliRunner().invoke(warplint, arguments, standalone_mode=False)
    if isinstance(result.exception, ClickException):
        return 2, result.exception.format_message()
    assert result.exception is None, result.exception
    return result.return_value, result.stdout


@pytest.mark.parametrize("form", ["sarif", "json"])
@pytest.mark.parametrize("options", [(), ("--show-suppressed",)])
def test_the_parts_are_the_whole(form, options):
    # neither sorted nor one folder: the order is that of the command line
    paths = ("b", "a/k4.cu", "a")
    code, whole = run("lint", *paths, "--format", form, *options)
    assert code == 1
    for number in (1, 2, 3):
        run("lint", *paths, "-q", "--shard", f"{number}/3", "-o", f"{form}={number}.out", *options)
    assert run("merge", "3.out", "1.out", "2.out") == (1, whole)
    assert run("merge", "1.out", "2.out", "3.out", "-o", "all.out") == (1, "")
    assert Path("all.out").read_text() == whole
    assert run("merge", "1.out", "2.out", "3.out", "--exit-zero")[0] == 0
    code, said = run("merge", "1.out", "3.out")
    assert code == 2 and "part 2 of 3 is missing" in said
    code, said = run("merge", "1.out", "2.out", "2.out", "3.out")
    assert code == 2 and "there twice" in said


@pytest.mark.parametrize("form", ["sarif", "json"])
def test_reports_of_different_files_are_put_one_after_the_other(form):
    for place in "ab":
        run("lint", place, "-q", "-o", f"{form}={place}.out")
    _, whole = run("lint", "a", "b", "--format", form)
    assert run("merge", "a.out", "b.out")[1] == whole
    code, said = run("merge", "a.out", "a.out")
    assert code == 2 and "in two of the reports" in said


@pytest.mark.parametrize("form", ["sarif", "json"])
def test_exit_codes_are_those_of_one_run(form, folder):
    def code(*options, paths=("a", "b")):
        for number, path in enumerate(paths):
            run("lint", path, "-q", "-o", f"{form}={number}.out")
        got = run("merge", *(f"{number}.out" for number in range(len(paths))), *options)[0]
        assert got == run("lint", *paths, "-q", *options)[0]
        return got

    assert code() == 1
    assert code(paths=("a", "gone.cu")) == 2
    for path in folder.rglob("k*.cu"):
        path.write_text(GOOD.replace("fine", path.stem))
    assert code() == 0
    assert code("--strict") == 1


def test_what_does_not_belong_together():
    run("lint", "a", "-q", "-o", "sarif=a.sarif", "-o", "json=a.json")
    run("lint", "b", "-q", "-o", "sarif=b.sarif", "--ignore", "smem")
    run("lint", "b", "-q", "-o", "sarif=c.sarif", "--sarif-category", "other")
    assert "cannot be mixed" in run("merge", "a.sarif", "a.json")[1]
    assert "other rules" in run("merge", "a.sarif", "b.sarif")[1]
    assert "--sarif-category" in run("merge", "a.sarif", "c.sarif")[1]
    Path("x.json").write_text("{")
    assert run("merge", "x.json") == (2, run("merge", "x.json")[1])
    Path("x.json").write_text(json.dumps({"schema": "warplint-report/1", "files": [{}], "version": "0"}))
    assert "not as warplint writes it" in run("merge", "x.json")[1]
    Path("x.json").write_text('{"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "eslint"}}}]}')
    assert "neither a SARIF log" in run("merge", "x.json")[1]


@pytest.mark.parametrize("value", ["0/2", "3/2", "x", "1/0", "1/-2", "1"])
def test_wrong_shards(value):
    assert "write I/N" in run("lint", "a", "--shard", value)[1]
