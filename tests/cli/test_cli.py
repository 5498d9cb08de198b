"""The command line from outside: exit codes in every format, inputs of every kind, several outputs at once."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click import ClickException
from click.testing import CliRunner

from warplint.cli import warplint

BAD = """\
__global__ void __launch_bounds__(256) broken(float* out) {
  if (threadIdx.x < 32) {
    __syncthreads();
  }
  __syncthreads();
  out[threadIdx.x] = 0.0f;
}
"""
GOOD = BAD.replace("    __syncthreads();", "    out[0] = 1.0f;").replace("broken", "fine")
FORMATS = ("text", "json", "sarif", "html")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    (tmp_path / "bad.cu").write_text(BAD)
    (tmp_path / "good.cu").write_text(GOOD)
    return tmp_path


def lint(*arguments, **options):
    return CliRunner().invoke(warplint, ["lint", *arguments], standalone_mode=False, **options)


def code(result):
    """The exit code that the script would return."""
    if result.exception is not None:
        assert isinstance(result.exception, ClickException), result.exception
        return 2
    return result.return_value


def script(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "warplint", *arguments], capture_output=True, timeout=60, check=False, **options
    )


# --------------------------------------------------------------------------------------------------- exit codes
@pytest.mark.parametrize("form", FORMATS)
def test_exit_code_is_the_same_in_every_format(form):
    assert code(lint("bad.cu", "--format", form)) == 1
    assert code(lint("good.cu", "--format", form)) == 0
    assert code(lint("bad.cu", "--format", form, "--exit-zero")) == 0
    assert code(lint("gone.cu", "--format", form)) == 2
    assert code(lint("gone.cu", "--format", form, "--exit-zero")) == 2


def test_fail_on():
    assert code(lint("bad.cu", "--fail-on", "note")) == 1
    assert code(lint("bad.cu", "--ignore", "participation", "--fail-on", "note")) == 0


def test_strict_counts_incomplete_kernels():
    Path("big.cu").write_text(GOOD + "// padding\n" * 100)
    assert code(lint("big.cu", "--max-bytes", "200")) == 0
    assert code(lint("big.cu", "--max-bytes", "200", "--strict")) == 1


def test_others_are_done_when_one_cannot_be_read():
    result = lint("gone.cu", "bad.cu", "nothing-*.cu")
    assert code(result) == 2
    assert "bad.cu:3:5: error:" in result.stdout
    assert "gone.cu: no such file or folder" in result.stderr
    assert "nothing-*.cu: no file matches this pattern" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "Missing argument"),
        (("bad.cu", "--block", "0"), "is no shape"),
        (("bad.cu", "--block", "1025"), "at most 1024"),
        (("bad.cu", "--cluster", "17"), "at most 16"),
        (("bad.cu", "--arch", "hopper"), "is no architecture"),
        (("bad.cu", "--smem", "lots"), "is no size"),
        (("bad.cu", "--define", "1X=2"), "is no macro name"),
        (("bad.cu", "--expect", "tma,warp"), "is no known path"),
        (("bad.cu", "--select", "smem-rac"), "no rule or family"),
        (("bad.cu", "--output", "pdf=x"), "FORMAT=FILE"),
        (("bad.cu", "--output", "json=x", "--output", "sarif=x"), "two reports"),
        (("bad.cu", "--format", "json", "--output", "sarif=-"), "two reports"),
        (("bad.cu", "--config", "gone.toml"), "does not exist"),
    ],
)
def test_usage_errors(arguments, words):
    result = lint(*arguments)
    assert code(result) == 2
    assert isinstance(result.exception, ClickException)
    assert words in result.exception.format_message()


def test_usage_error_exit_code_of_the_process():
    assert script("lint", "--format", "pdf", "bad.cu").returncode == 2
    assert script("nonsense").returncode == 2


# ------------------------------------------------------------------------------------------------------- inputs
def test_standard_input():
    result = lint("-", "--stdin-name", "sub/kernel.cu", "--format", "json", input=BAD)
    assert code(result) == 1
    assert json.loads(result.stdout)["files"][0]["path"] == "sub/kernel.cu"


def test_folders_patterns_and_duplicates(folder):
    (folder / "deep" / "er").mkdir(parents=True)
    for name in ("a.cuh", "b.hip", "er/c.cpp.hip", "er/d.txt"):
        (folder / "deep" / name).write_text(GOOD)
    result = lint("deep", "*.cu", "./good.cu", str(folder / "bad.cu"), "--format", "json")
    paths = [file["path"] for file in json.loads(result.stdout)["files"]]
    assert paths == ["deep/a.cuh", "deep/b.hip", "deep/er/c.cpp.hip", "bad.cu", "good.cu"]


def test_folder_without_kernels(folder):
    (folder / "empty").mkdir()
    result = lint("empty")
    assert code(result) == 2
    assert "no CUDA or HIP source in this folder" in result.stderr
    (folder / "x.cu").mkdir()
    result = lint("x.*")
    assert code(result) == 2
    assert "x.*: no CUDA or HIP source in the folders" in result.stderr


def test_file_without_kernels(folder):
    (folder / "host.cu").write_text("int main() { return 0; }\n")
    result = lint("host.cu")
    assert code(result) == 0
    assert "no kernel found" in result.stderr


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads everything")
def test_unreadable_file(folder):
    (folder / "bad.cu").chmod(0)
    result = lint("bad.cu", "good.cu")
    assert code(result) == 2
    assert "bad.cu: cannot be read: Permission denied" in result.stderr


def test_dangling_link(folder):
    (folder / "link.cu").symlink_to("nowhere.cu")
    result = lint("link.cu")
    assert code(result) == 2
    assert "cannot be read: No such file" in result.stderr


def test_oversize_file_is_incomplete_and_said(folder):
    result = lint("bad.cu", "--max-bytes", "10")
    assert code(result) == 0
    assert "incomplete: not analysed: larger than 10 bytes" in result.stdout
    assert code(lint("bad.cu", "--max-bytes", str(len(BAD)))) == 1


def test_file_name_that_is_not_unicode(folder):
    name = b"k\xff.cu"
    try:
        Path(os.fsdecode(name)).write_text(BAD)
    except OSError:
        pytest.skip("the file system refuses the name")
    for form in FORMATS:
        assert script("lint", name, "--format", form).returncode == 1


# ------------------------------------------------------------------------------------------------------ outputs
def test_several_outputs_in_one_run(folder):
    outputs = [f"--output={form}=out/report.{form}" for form in FORMATS]
    result = lint("bad.cu", *outputs)
    assert code(result) == 1
    assert "cta-barrier-in-divergent-code" in result.stdout  # the text report as well
    written = {form: (folder / "out" / f"report.{form}").read_text() for form in FORMATS}
    assert written["text"] == result.stdout
    assert json.loads(written["json"])["schema"] == "warplint-report/1"
    assert json.loads(written["sarif"])["version"] == "2.1.0"
    assert written["html"].startswith("<!doctype html>")
    assert sorted(path.name for path in (folder / "out").iterdir()) == sorted(f"report.{form}" for form in FORMATS)


def test_quiet_and_output_to_standard_output():
    assert lint("bad.cu", "--quiet").stdout == ""
    assert json.loads(lint("bad.cu", "--output", "json=-").stdout)["files"]


def test_output_that_cannot_be_written(folder):
    (folder / "file").write_text("keep")
    result = lint("bad.cu", "--output", "json=file/x.json", "--output", "sarif=ok.sarif")
    assert code(result) == 2
    assert "cannot write file/x.json" in result.stderr
    assert (folder / "file").read_text() == "keep"
    assert json.loads((folder / "ok.sarif").read_text())


def test_colour(monkeypatch):
    assert "\x1b[" not in lint("bad.cu").stdout
    assert "\x1b[" in lint("bad.cu", "--color", "always").stdout
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in lint("bad.cu").stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in lint("bad.cu").stdout


def test_broken_pipe(folder):
    (folder / "many.cu").write_text("\n".join(BAD.replace("broken", f"broken_{i}") for i in range(400)))
    with subprocess.Popen(
        [sys.executable, "-m", "warplint", "lint", "many.cu"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout and process.stderr
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) != 0


def test_output_is_deterministic():
    texts = set()
    for seed in ("0", "1", "2"):
        run = script("lint", "bad.cu", "good.cu", "--format", "sarif", env={**os.environ, "PYTHONHASHSEED": seed})
        texts.add(run.stdout)
    assert len(texts) == 1


# ------------------------------------------------------------------------------------------------- the others
def test_version_imports_nothing():
    probe = (
        "import sys; sys.argv = ['warplint', '--version']; from warplint.__main__ import main; main();"
        "print(sorted({'click', 'networkx', 'jinja2', 'rich', 'tree_sitter', 'dataclasses'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == ["warplint 0.1.0", "[]"]


def test_lint_imports_no_report_library(folder):
    probe = (
        "import sys; sys.argv = ['warplint', 'lint', 'bad.cu', '-q']; from warplint.__main__ import main; main();"
        "print(sorted({'networkx', 'jinja2', 'rich', 'pygments'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "[]"


def test_rules_and_explain():
    run = CliRunner().invoke(warplint, ["rules", "--json"])
    rules = {rule["rule"]: rule for rule in json.loads(run.stdout)["rules"]}
    assert rules["cta-barrier-in-divergent-code"]["family"] == "participation"
    assert "cta-barrier-in-divergent-code" in CliRunner().invoke(warplint, ["rules"]).stdout
    text = CliRunner().invoke(warplint, ["explain", "cta_barrier_in_divergent_code"]).stdout
    assert "Bad" in text and "__syncthreads" in text
    miss = CliRunner().invoke(warplint, ["explain", "cta-barrier-in-divergent"])
    assert miss.exit_code == 2 and "did you mean cta-barrier-in-divergent-code" in miss.stderr


def test_tree():
    text = CliRunner().invoke(warplint, ["tree", "bad.cu"]).stdout
    assert "broken  bad.cu:1" in text
    assert re.search(r"^ +2  32 of 256 threads: warp 0 +if threadIdx.x < 32$", text, re.MULTILINE)
    assert re.search(r"^ +3 +bar\.sync\.cta", text, re.MULTILINE) and "__syncthreads" not in text
    assert "__syncthreads" in CliRunner().invoke(warplint, ["tree", "bad.cu", "--spelling"]).stdout
    data = json.loads(CliRunner().invoke(warplint, ["tree", "bad.cu", "good.cu", "--json"]).stdout)
    assert data["schema"] == "warplint-tree/1"
    assert [kernel["name"] for kernel in data["kernels"]] == ["broken", "fine"]
    branch = data["kernels"][0]["tree"]["items"][0]
    assert branch["kind"] == "if" and int(branch["mask"], 16) == (1 << 32) - 1 and branch["count"] == 32
    assert branch["items"][0]["op"] == "bar.sync.cta"
    only = json.loads(CliRunner().invoke(warplint, ["tree", "bad.cu", "good.cu", "--json", "-k", "fine"]).stdout)
    assert [kernel["name"] for kernel in only["kernels"]] == ["fine"]


@pytest.mark.parametrize("command", [[], ["lint"], ["tree"], ["rules"], ["explain"]])
def test_help(command):
    run = CliRunner().invoke(warplint, [*command, "--help"])
    assert run.exit_code == 0 and "Usage:" in run.stdout
