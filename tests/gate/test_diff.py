"""--diff: what concerns changed lines, and what the base commit did not have."""

import json
import subprocess

import pytest
from click import ClickException
from click.testing import CliRunner

from tests.gate.kernels import BAD, GOOD
from warplint.cli import warplint

RACE = """\
__global__ void __launch_bounds__(256) turn(float* out) {
  __shared__ float tile[256];
  tile[threadIdx.x] = out[threadIdx.x];
  float unused1 = 1.0f;
  __syncthreads();
  float unused2 = 1.0f;
  float unused3 = 1.0f;
  out[threadIdx.x] = tile[255 - threadIdx.x] + unused1 + unused2 + unused3;
}
"""


def git(folder, *arguments):
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", "-C", folder, *identity, *arguments], check=True, capture_output=True, text=True)


@pytest.fixture(autouse=True)
def repository(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "old.cu").write_text(BAD)
    (tmp_path / "ü k.cu").write_text(RACE)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "base")
    return tmp_path


def lint(*arguments):
    result = CliRunner().invoke(warplint, ["lint", ".", "--format", "json", *arguments], standalone_mode=False)
    if isinstance(result.exception, ClickException):
        return result.exception.format_message()
    assert result.exception is None, result.exception
    files = json.loads(result.stdout)["files"]
    found = {file["path"]: [f["rule"] for k in file["kernels"] for f in k["findings"]] for file in files}
    return {path: rules for path, rules in found.items() if rules}


def test_nothing_changed_nothing_said():
    assert lint("--diff", "main") == {}
    assert lint() == {"old.cu": ["cta-barrier-in-divergent-code"]}


def test_a_line_of_the_finding_changed(repository):
    (repository / "old.cu").write_text(BAD.replace("    __syncthreads();", "    __syncthreads(); // touched"))
    assert lint("--diff", "main") == {"old.cu": ["cta-barrier-in-divergent-code"]}


def test_a_related_line_changed(repository):
    (repository / "old.cu").write_text(BAD.replace("threadIdx.x < 32", "threadIdx.x <  32"))
    assert lint("--diff", "main") == {"old.cu": ["cta-barrier-in-divergent-code"]}


def test_another_line_changed(repository):
    (repository / "old.cu").write_text("// a header\n" + BAD.replace("= 0.0f", "= 1.0f"))
    assert lint("--diff", "main") == {}


def test_a_removed_barrier_far_from_its_accesses(repository):
    (repository / "ü k.cu").write_text(RACE.replace("  __syncthreads();\n", ""))
    assert lint("--diff", "main") == {"ü k.cu": ["smem-race"]}


def test_new_files_are_new_whether_tracked_or_not(repository):
    (repository / "new.cu").write_text(BAD)
    assert list(lint("--diff", "main")) == ["new.cu"]
    git(repository, "add", ".")
    assert list(lint("--diff", "main")) == ["new.cu"]
    (repository / ".gitignore").write_text("ignored.cu\n")
    (repository / "ignored.cu").write_text(BAD)
    assert sorted(lint("--diff", "main")) == ["ignored.cu", "new.cu"]


def test_a_renamed_file_is_an_old_one(repository):
    git(repository, "mv", "old.cu", "renamed.cu")
    assert lint("--diff", "main") == {}
    (repository / "renamed.cu").write_text(BAD.replace("    __syncthreads();", "    __syncthreads(); // touched"))
    assert list(lint("--diff", "main")) == ["renamed.cu"]


def test_what_others_did_meanwhile_is_not_ours(repository):
    git(repository, "checkout", "-qb", "ours")
    (repository / "ours.cu").write_text(GOOD)
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "ours")
    git(repository, "checkout", "-q", "main")
    (repository / "old.cu").write_text(BAD.replace("    __syncthreads();", "    __syncthreads(); // theirs"))
    git(repository, "commit", "-qam", "theirs")
    git(repository, "checkout", "-q", "ours")
    assert lint("--diff", "main") == {}


def test_started_in_a_folder_below(repository, monkeypatch):
    below = repository / "below"
    below.mkdir()
    (below / "new.cu").write_text(BAD)
    monkeypatch.chdir(below)
    assert list(lint("--diff", "main")) == ["new.cu"]


@pytest.mark.parametrize(
    ("base", "words"), [("no-such-branch", "git knows no commit 'no-such-branch'"), ("--output=x", "is no commit")]
)
def test_a_base_that_does_not_exist(base, words, repository):
    assert words in lint(f"--diff={base}")
    assert not (repository / "x").exists()


def test_outside_a_repository(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("plain")
    (folder / "k.cu").write_text(BAD)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(folder.parent))
    assert "not a git repository" in lint("--diff", "main")


def test_what_is_hidden_is_counted():
    result = CliRunner().invoke(warplint, ["lint", ".", "--diff", "main"], standalone_mode=False)
    assert result.return_value == 0 and "1 suppressed" in result.stdout
    result = CliRunner().invoke(warplint, ["lint", ".", "--diff", "main", "--show-suppressed"], standalone_mode=False)
    assert "diff, not changed since main" in result.stdout
