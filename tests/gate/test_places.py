"""The files that other tools read: the action, the workflow, the pre-commit hook, the recipes."""

import re
from pathlib import Path

import yaml

from warplint.cli import warplint
from warplint.cli.lint import lint
from warplint.discover import SUFFIXES

ROOT = Path(__file__).parents[2]


def test_the_action():
    text = (ROOT / "action.yml").read_text()
    action = yaml.safe_load(text)
    for name, about in {**action["inputs"], **action["outputs"]}.items():
        assert about["description"], name
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(action["inputs"])
    options = {option for param in lint.params for option in param.opts}
    for step in action["runs"]["steps"]:
        assert ("run" in step) == ("shell" in step) != ("uses" in step)
        assert "${{" not in step.get("run", ""), "an input in a script's text is executed"
        used = re.findall(r"(?<!\S)--[a-z][a-z-]+", step.get("run", "").partition("warplint lint")[2])
        assert set(used) <= options


def test_the_workflow():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())["jobs"]
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    called = {word for text in commands for word in re.findall(r"^make ([a-z-]+)", text)}
    assert called and called <= targets


def test_the_pre_commit_hook():
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    chosen = re.compile(hook["files"])
    assert all(chosen.search(f"a/k{suffix}") for suffix in SUFFIXES)
    assert not any(chosen.search(name) for name in ("k.cpp", "k.cu.txt", "k.h", "hip", "k.cup"))


def test_the_recipes_name_options_and_inputs_that_exist():
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    for page in ("CI.md", "USAGE.md", "CONFIGURATION.md", "EXIT_CODES.md", "EDITORS.md"):
        text = (ROOT / "docs" / page).read_text()
        known: set[str] = set()
        for name in warplint.list_commands(None):  # type: ignore[arg-type]
            command = warplint.get_command(None, name)  # type: ignore[arg-type]
            assert command is not None
            known |= {option for param in command.params for option in (*param.opts, *param.secondary_opts)}
        known |= {"--help", "--version", "--nthreads", "--emit"}  # the last two are others'
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", text):
            assert option in known, f"{page}: there is no {option}"
    inputs = re.search(r"Inputs: (.*?)\. Outputs: (.*?)\.", (ROOT / "docs" / "CI.md").read_text(), re.S)
    assert inputs is not None
    assert set(re.findall(r"`([\w-]+)`", inputs[1])) == set(action["inputs"])
    assert set(re.findall(r"`([\w-]+)`", inputs[2])) == set(action["outputs"])


def test_the_settings_of_the_page_are_read(tmp_path):
    from warplint import config

    text = (ROOT / "docs" / "CONFIGURATION.md").read_text()
    example = re.search(r"```toml\n(.*?)```", text, re.S)
    assert example is not None
    lines = [line for line in example[1].splitlines() if not line.startswith(("include", "dialects"))]  # must exist
    (tmp_path / "warplint.toml").write_text("\n".join(lines))
    loaded = config.load(str(tmp_path / "warplint.toml"))
    settings = loaded.settings_for(str(tmp_path / "artifacts" / "old_gemm.cu"), config.Settings(), {})
    assert settings.arch == "sm_100a" and [entry.kernel for entry in settings.suppress] == ["gemm_*"]
