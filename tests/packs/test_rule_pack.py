"""The example of a separate rule pack works as docs/WRITING_RULES.md says: installed beside warplint, it is found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

PACK = Path(__file__).parents[2] / "fixtures" / "rule_pack"
SLUG = "loads-issued-by-several-warps"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What an installation of the pack gives an interpreter: the package and its entry points on the path."""
    site = tmp_path_factory.mktemp("site")
    project = tomllib.loads((PACK / "pyproject.toml").read_text())["project"]
    info = site / f"house_rules-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    points = project["entry-points"]["warplint.rules"].items()
    (info / "entry_points.txt").write_text("[warplint.rules]\n" + "".join(f"{a} = {b}\n" for a, b in points))
    path = os.pathsep.join([str(site), str(PACK), *sys.path])
    return {**os.environ, "PYTHONPATH": path}


def warplint(environment: dict[str, str], *args: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "warplint", *args],
        env=environment,
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )


def test_its_rules_are_listed_and_explained(environment):
    rules = json.loads(warplint(environment, "rules", "--json").stdout)["rules"]
    (mine,) = [rule for rule in rules if rule["rule"] == SLUG]
    assert mine["family"] == "pipeline" and mine["level"] == "warning"
    assert "producer warp" in warplint(environment, "explain", SLUG).stdout


@pytest.mark.parametrize(("example", "speaks"), [("bad", True), ("good", False)])
def test_its_examples_are_judged(environment, example, speaks):
    (mine,) = [r for r in json.loads(warplint(environment, "rules", "--json").stdout)["rules"] if r["rule"] == SLUG]
    run = warplint(environment, "lint", "-", "--arch", "sm_90a", "--format", "json", text=mine[example])
    (kernel,) = json.loads(run.stdout)["files"][0]["kernels"]
    assert [finding["rule"] for finding in kernel["findings"]] == ([SLUG] if speaks else []), run.stdout
    if speaks:
        assert "warps 0-1" in kernel["findings"][0]["message"]


def test_without_it_nobody_knows_the_rule():
    assert warplint(dict(os.environ), "explain", SLUG).returncode == 2
