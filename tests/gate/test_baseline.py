"""Baselines: only what is new is reported, whatever moves; nothing but --grow makes one larger."""

import json
from pathlib import Path

import pytest
from click import ClickException
from click.testing import CliRunner

from tests.gate.kernels import BAD, GOOD, RULE
from warplint import baseline
from warplint.cli import warplint

FILE = "warplint-baseline.json"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.cu").write_text(BAD)
    (tmp_path / "good.cu").write_text(GOOD)
    return tmp_path


def run(*arguments):
    result = CliRunner().invoke(warplint, [*arguments], standalone_mode=False)
    if isinstance(result.exception, ClickException):
        return 2, "", result.exception.format_message()
    assert result.exception is None, result.exception
    return result.return_value, result.stdout, result.stderr


def lint(*arguments):
    return run("lint", ".", "--baseline", FILE, *arguments)


def entries():
    return json.loads(Path(FILE).read_text())["findings"]


def test_known_findings_are_set_apart():
    code, out, _ = run("baseline", ".")
    assert code == 0 and "1 known findings (1 added, 0 removed)" in out
    assert [(e["rule"], e["path"], e["kernel"], e["count"]) for e in entries()] == [(RULE, "k.cu", "broken", 1)]
    code, out, err = lint()
    assert code == 0 and "1 suppressed" in out and not err
    (run_,) = json.loads(lint("--format", "sarif", "--show-suppressed")[1])["runs"]
    assert run_["results"][0]["baselineState"] == "unchanged"
    assert run_["results"][0]["suppressions"][0]["kind"] == "external"


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "// a line more\n\n" + text,
        lambda text: text.replace("    __syncthreads();", "\t\t__syncthreads() ;".replace(" ;", ";")),
        lambda text: text.replace("out[threadIdx.x] = 0.0f;", "out[threadIdx.x] = 1.0f;"),
    ],
)
def test_it_survives_what_does_not_concern_it(folder, change):
    run("baseline", ".")
    (folder / "k.cu").write_text(change(BAD))
    code, _, err = lint()
    assert code == 0 and not err


def test_renumbered_temporaries_are_the_same_finding(folder):
    text = BAD.replace("__syncthreads();\n  }", "bar(v_9);\n  }").replace(
        "__global__", "__device__ __forceinline__ void bar(int v) { __syncthreads(); }\n__global__", 1
    )
    text = text.replace("  if (threadIdx.x < 32) {", "  int v_9 = 0;\n  if (threadIdx.x < 32) {")
    (folder / "k.cu").write_text(text)
    run("baseline", ".")
    assert entries()
    (folder / "k.cu").write_text(text.replace("v_9", "v_123"))
    assert lint()[0] == 0


def test_one_more_of_the_same_is_new(folder):
    run("baseline", ".")
    (folder / "k.cu").write_text(BAD + BAD.replace("broken", "worse"))
    assert lint()[0] == 1
    (folder / "other.cu").write_text(BAD)
    (folder / "k.cu").write_text(BAD)
    assert lint()[0] == 1, "the same in another file is new"


def test_counts():
    known = baseline.Baseline("b.json", {("r", "p", "f"): baseline.Entry(2, baseline.Level.ERROR)})
    assert baseline.load_text(baseline.dump(known), "b.json") == known
    assert baseline.without(known, {("r", "p", "f"): baseline.Entry(1, baseline.Level.ERROR)}).entries[
        ("r", "p", "f")
    ] == baseline.Entry(1, baseline.Level.ERROR)


def test_stale_entries_are_told_and_only_update_removes_them(folder):
    run("baseline", ".")
    (folder / "k.cu").write_text(GOOD)
    code, _, err = lint()
    assert code == 0 and "1 of its findings is gone" in err and RULE in err
    assert len(entries()) == 1
    code, out, _ = run("baseline", ".", "--update")
    assert code == 0 and "(0 added, 1 removed)" in out and entries() == []


def test_update_adds_nothing_and_grow_does(folder):
    run("baseline", ".")
    (folder / "more.cu").write_text(BAD.replace("broken", "more"))
    code, out, _ = run("baseline", ".", "--update")
    assert code == 0 and "1 new findings are not in it" in out and len(entries()) == 1
    run("baseline", ".", "--grow")
    assert len(entries()) == 2
    assert run("baseline", ".")[0] == 2, "an existing baseline is not overwritten"


@pytest.mark.parametrize("options", [("--ignore", "participation"), ("--select", "smem"), ("--max-bytes", "10")])
def test_what_was_not_asked_is_not_stale(options):
    run("baseline", ".")
    _, _, err = lint(*options)
    assert "gone" not in err
    run("baseline", ".", "--update", *options)
    assert len(entries()) == 1


def test_a_finding_below_the_level_is_not_stale(folder):
    run("baseline", ".", "--level", "note")
    (folder / "warplint.toml").write_text('[levels]\nparticipation = "note"\n')
    Path(FILE).unlink()
    run("baseline", ".", "--level", "note")
    assert entries()[0]["level"] == "note"
    assert "gone" not in lint()[2]


def test_files_that_are_not_named_keep_their_entries_unless_they_are_gone(folder):
    run("baseline", ".")
    run("baseline", "good.cu", "--update")
    assert len(entries()) == 1
    (folder / "k.cu").unlink()
    run("baseline", "good.cu", "--update")
    assert entries() == []


def test_started_elsewhere_it_is_about_the_same_files(folder, monkeypatch):
    run("baseline", ".")
    (folder / "warplint.toml").write_text(f'baseline = "{FILE}"\n')
    below = folder / "below"
    below.mkdir()
    (below / "k2.cu").write_text(BAD)
    monkeypatch.chdir(below)
    assert run("lint", "..")[0] == 1
    assert run("lint", "../k.cu")[0] == 0
    assert run("lint", "../k.cu", "--no-baseline")[0] == 1


def test_a_suppressed_finding_does_not_make_its_entry_stale(folder):
    run("baseline", ".")
    (folder / "k.cu").write_text(BAD.replace("    __s", f"    // warplint: ignore[{RULE}]\n    __s"))
    code, _, err = lint()
    assert code == 0 and not err


def test_it_stays_as_it_was_when_a_file_cannot_be_analysed(folder):
    run("baseline", ".")
    before = Path(FILE).read_bytes()
    assert run("baseline", "k.cu", "gone.cu", "--update")[0] == 2
    assert Path(FILE).read_bytes() == before


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not valid JSON"),
        ("[]", "no baseline of this version"),
        ('{"schema": "warplint-baseline/2", "findings": []}', "no baseline of this version"),
        ('{"schema": "warplint-baseline/1"}', "an entry cannot be read"),
        ('{"schema": "warplint-baseline/1", "findings": [{"rule": "x"}]}', "an entry cannot be read"),
    ],
)
def test_a_broken_baseline_is_an_error(text, words):
    Path(FILE).write_text(text)
    code, _, err = lint()
    assert code == 2 and words in err


def test_it_is_sorted_and_stable(folder):
    (folder / "a.cu").write_text(BAD.replace("broken", "zzz"))
    run("baseline", ".")
    first = Path(FILE).read_bytes()
    assert [entry["path"] for entry in entries()] == ["a.cu", "k.cu"]
    Path(FILE).unlink()
    run("baseline", "k.cu", "a.cu", "-j", "2")
    assert Path(FILE).read_bytes() == first
