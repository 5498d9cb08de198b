"""As a team adopts it: the wheel in a clean environment, a repository with a good and a bad commit, and the action."""

import json
import os
import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest
import yaml

from tests.gate.kernels import BAD, GOOD, RULE
from tests.reports.test_sarif import VALIDATOR

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.packaging,
    pytest.mark.skipif(not os.environ.get("WARPLINT_PACKAGING"), reason="WARPLINT_PACKAGING is not set"),
]
RUNTIME = {"tree-sitter", "tree-sitter-cuda", "networkx", "jinja2", "pygments", "click", "rich", "msgspec"}
THEIRS = {"markupsafe", "markdown-it-py", "mdurl"}
"""What the runtime dependencies need themselves."""


def run(*command, code=0, **options):
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, timeout=600, check=False, **options
    )
    assert done.returncode == code, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT)
    (built,) = folder.glob("warplint-*.whl")
    return built


@pytest.fixture(scope="module")
def bin_folder(wheel, tmp_path_factory):
    """Of an environment with the wheel and its runtime dependencies only."""
    place = tmp_path_factory.mktemp("venv")
    venv.create(place, with_pip=True)
    run(place / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel)
    return place / "bin"


@pytest.fixture
def environment(bin_folder, tmp_path):
    """Without anything of this checkout, and with nothing of GitHub's."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "GITHUB_", "WARPLINT_"))
    }
    return kept | {
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
        "WARPLINT_CACHE_DIR": str(tmp_path / "cache"),
    }


def git(folder, *arguments):
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    return run("git", "-C", folder, *identity, *arguments).stdout.strip()


@pytest.fixture
def repository(tmp_path):
    """On `main` a good and an old wrong kernel, on `change` a new wrong one as well."""
    folder = tmp_path / "repository"
    (folder / "artifacts").mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "artifacts" / "good.cu").write_text(GOOD)
    for number in range(6):
        (folder / "artifacts" / f"more{number}.cu").write_text(GOOD.replace("fine", f"fine{number}"))
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "good")
    git(folder, "checkout", "-qb", "change")
    (folder / "artifacts" / "bad.cu").write_text(BAD)
    (folder / "artifacts" / "good.cu").write_text(GOOD + "// touched\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "bad")
    return folder


def test_nothing_but_runtime_dependencies(bin_folder):
    listed = run(bin_folder / "python", "-m", "pip", "list", "--format", "json", "--disable-pip-version-check").stdout
    names = {item["name"].lower().replace("_", "-") for item in json.loads(listed)}
    assert names - {"pip", "setuptools", "wheel"} == {"warplint"} | RUNTIME | THEIRS


def test_a_team_adopts_it(repository, environment):
    def warplint(*arguments, code=0):
        return run("warplint", *arguments, code=code, cwd=repository, env=environment)

    # the second command after `pip install` shows the first finding
    first = warplint("lint", "artifacts/bad.cu", code=1)
    assert "artifacts/bad.cu:3:5: error: `__syncthreads` is reached by 32 of 256 threads" in first.stdout
    git(repository, "checkout", "-q", "main")
    warplint("lint", "artifacts")
    git(repository, "checkout", "-q", "change")
    warplint("lint", "artifacts", code=1)
    warplint("lint", "artifacts", "--exit-zero")
    warplint("lint", "artifacts", "gone.cu", code=2)
    warplint("lint", "artifacts", "--no-such-option", code=2)
    warplint("lint", "artifacts", "--ignore", "participation")

    # a second run is served from the cache, byte for byte
    def whole():
        return warplint("lint", "artifacts", "--format", "json", code=1).stdout

    fresh = warplint("lint", "artifacts", "--format", "json", "--no-cache", code=1).stdout
    assert whole() == whole() == fresh
    entries = [path for path in Path(environment["WARPLINT_CACHE_DIR"]).rglob("*") if path.is_file()]
    assert len(entries) > 8

    # only what is new
    warplint("lint", "artifacts", "--diff", "main", code=1)
    warplint("lint", "artifacts", "--diff", "HEAD")
    warplint("baseline", "artifacts")
    warplint("lint", "artifacts", "--baseline", "warplint-baseline.json")
    (repository / "artifacts" / "worse.cu").write_text(BAD.replace("broken", "worse"))
    worse = warplint("lint", "artifacts", "--baseline", "warplint-baseline.json", code=1).stdout
    assert "artifacts/worse.cu:3:5" in worse and "artifacts/bad.cu:3:5" not in worse and "1 suppressed" in worse

    # a suppression, and one that has outlived its finding
    (repository / "artifacts" / "worse.cu").write_text(
        BAD.replace("    __s", f"    // warplint: ignore[{RULE}] ticket 12\n    __s")
    )
    shown = warplint("lint", "artifacts/worse.cu", "--show-suppressed").stdout
    assert "comment, line 3: ticket 12" in shown
    (repository / "artifacts" / "worse.cu").write_text(GOOD + f"// warplint: ignore-file[{RULE}]\n")
    assert "unused-suppression" in warplint("lint", "artifacts/worse.cu").stdout
    (repository / "artifacts" / "worse.cu").unlink()

    # both validators take the SARIF log
    log = warplint("lint", "artifacts", "--format", "sarif", code=1).stdout
    assert not list(VALIDATOR.iter_errors(json.loads(log)))
    from tests.reports.test_multitool import TOOL, complaints

    if TOOL:
        assert not complaints(log, repository)

    # annotations, and shards that are one run
    text = warplint("lint", "artifacts", "--format", "github", code=1).stdout
    assert text.startswith(f"::error title=warplint ({RULE}),file=artifacts/bad.cu,line=3,")
    for number in (1, 2, 3):
        done = subprocess.run(
            ["warplint", "lint", "artifacts", "-q", "--shard", f"{number}/3", "-o", f"sarif={number}.sarif"],
            cwd=repository,
            env=environment,
            check=False,
        )
        assert done.returncode in (0, 1)
    assert warplint("merge", "1.sarif", "2.sarif", "3.sarif", code=1).stdout == log


# ----------------------------------------------------------------------------------------------- the action
class Workflow:
    """Executes the `run:` steps of a composite action in order, as a runner does."""

    def __init__(self, folder, environment, inputs):
        self.action = yaml.safe_load((ROOT / "action.yml").read_text())
        self.folder = folder
        self.environment = environment
        given = {name: str(about.get("default", "")) for name, about in self.action["inputs"].items()}
        assert set(inputs) <= set(given)
        self.values = {f"inputs.{name}": value for name, value in {**given, **inputs}.items()}
        self.temporary = folder.parent / "runner"
        self.temporary.mkdir(exist_ok=True)
        self.values |= {
            "runner.temp": str(self.temporary),
            "github.action_path": str(ROOT),
            "github.run_id": "1",
            "github.run_attempt": "1",
        }
        self.used = []
        self.failed = False
        self.log = ""

    def expression(self, text):
        """An expression of the few kinds that the action has."""
        text = text.strip()
        if " && " in text:
            return all([self.expression(part) for part in text.split(" && ")])
        if " || " in text:
            return next((value for part in text.split(" || ") if (value := self.expression(part))), "")
        if match := re.fullmatch(r"(\S+) (==|!=) '([^']*)'", text):
            return (self.expression(match[1]) == match[3]) == (match[2] == "==")
        if text == "!cancelled()":
            return True
        assert re.fullmatch(r"[\w.-]+", text), text
        assert text in self.values or text.startswith("steps."), text
        return self.values.get(text, "")

    def filled(self, text):
        return re.sub(r"\$\{\{(.*?)\}\}", lambda match: str(self.expression(match[1])), str(text))

    def run(self):
        for step in self.action["runs"]["steps"]:
            condition = str(step.get("if", "")).removeprefix("${{").removesuffix("}}").strip()
            always = "cancelled()" in condition or "always()" in condition
            if (self.failed and not always) or (condition and not self.expression(condition)):
                continue
            if "uses" in step:
                values = {name: self.filled(value) for name, value in step.get("with", {}).items()}
                self.used.append((step["uses"].partition("@")[0], values))
                continue
            assert step["shell"] == "bash"
            assert "${{" not in step["run"], "an input in a script's text is executed"
            output, summary = self.temporary / "output", self.temporary / "summary"
            output.write_text("")
            environment = {
                **self.environment,
                **{name: self.filled(value) for name, value in step.get("env", {}).items()},
                "GITHUB_OUTPUT": str(output),
                "GITHUB_STEP_SUMMARY": str(summary),
                "GITHUB_ACTIONS": "true",
            }
            script = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
            done = subprocess.run(script, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=600)
            self.log += done.stdout + done.stderr
            self.failed |= done.returncode != 0
            for line in output.read_text().splitlines():
                name, _, value = line.partition("=")
                self.values[f"steps.{step['id']}.outputs.{name}"] = value
        outputs = {name: self.filled(about["value"]) for name, about in self.action["outputs"].items()}
        return {name: values for name, values in self.used}, outputs


def test_the_action(repository, environment, wheel):
    workflow = Workflow(repository, environment, {"files": "artifacts/*.cu", "package": str(wheel)})
    used, outputs = workflow.run()
    assert workflow.failed and outputs["code"] == "1", workflow.log
    assert f"::error title=warplint ({RULE}),file=artifacts/bad.cu,line=3," in workflow.log
    log = json.loads(Path(used["github/codeql-action/upload-sarif"]["sarif_file"]).read_text())
    assert not list(VALIDATOR.iter_errors(log))
    (result,) = log["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "artifacts/bad.cu"
    assert Path(used["actions/upload-artifact"]["path"]).read_text().startswith("<!doctype html>")
    assert "### warplint: 1 error" in (workflow.temporary / "summary").read_text()
    assert list((workflow.temporary / "warplint-cache").rglob("*"))

    git(repository, "checkout", "-q", "main")
    workflow = Workflow(repository, environment, {"package": str(wheel), "category": "nightly", "upload-html": "false"})
    used, outputs = workflow.run()
    assert not workflow.failed and outputs["code"] == "0", workflow.log
    log = json.loads(Path(outputs["sarif"]).read_text())
    assert log["runs"][0]["automationDetails"]["id"] == "nightly/" and not log["runs"][0]["results"]
    assert "actions/upload-artifact" not in used and "github/codeql-action/upload-sarif" in used


def test_inputs_of_the_action_are_not_executed(repository, environment, wheel):
    evil = '$(touch evil) `touch evil`; touch evil "'
    inputs = {"files": f"artifacts {evil}", "args": evil, "category": evil, "fail-on": evil, "package": str(wheel)}
    workflow = Workflow(repository, environment, inputs)
    used, outputs = workflow.run()
    assert workflow.failed and outputs["code"] == "2" and outputs["sarif"] == ""
    assert "github/codeql-action/upload-sarif" not in used
    assert not list(repository.parent.rglob("evil"))


def test_the_pre_commit_hook(repository, environment):
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    run(*hook["entry"].split(), "artifacts/bad.cu", "artifacts/good.cu", code=1, cwd=repository, env=environment)
    run(*hook["entry"].split(), "artifacts/good.cu", cwd=repository, env=environment)
