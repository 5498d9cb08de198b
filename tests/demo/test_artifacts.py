"""What `make demo` shows: the bundled kernels, and README's example exactly as it prints."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from warplint.cli import warplint

ROOT = Path(__file__).resolve().parents[2]
ARTIFACTS = ROOT / "fixtures" / "artifacts"
GENERATED = re.compile(r"gemm_step7_(?P<case>.+)_tvm02[67]$")

SAYS = {
    "commit_outside_elect": "single-thread-op-by-many",
    "cta_sync_in_wg_branch": "cta-barrier-in-divergent-code",
    "init_under_wg_guard": "mbarrier-init-in-role-branch",
    "lane_guard_dealloc": "warp-collective-in-divergent-code",
}
"""The rule for each bad kernel. The place is where the source is marked; a new artifact needs a row here."""
SOUND = ("good", "cluster_good", "small_reduce")


def case(path: Path) -> str:
    match = GENERATED.match(path.stem)
    return match["case"] if match else path.stem


FILES = sorted(ARTIFACTS.glob("*.cu"))


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("FORCE_COLOR", raising=False)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory):
    """The run of `make demo`, with JSON besides."""
    out = tmp_path_factory.mktemp("demo")
    before = Path.cwd()
    os.chdir(ROOT)
    try:
        result = CliRunner().invoke(
            warplint,
            ["lint", "fixtures/artifacts", "--exit-zero"]
            + [f"--output={kind}={out / f'report.{kind}'}" for kind in ("html", "sarif", "json")],
            standalone_mode=False,
        )
    finally:
        os.chdir(before)
    assert result.exception is None and result.return_value == 0, result.output
    return result, out, json.loads((out / "report.json").read_text())


def test_each_artifact_is_described() -> None:
    assert {case(path) for path in FILES} == {*SAYS, *SOUND}
    assert any("tvm026" in path.name for path in FILES) and any("tvm027" in path.name for path in FILES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_is_said_about_it(demo, path: Path) -> None:
    _, _, data = demo
    file = next(file for file in data["files"] if file["path"] == path.relative_to(ROOT).as_posix())
    said = [finding["rule"] for kernel in file["kernels"] for finding in kernel["findings"]]
    verdicts = {kernel["verdict"] for kernel in file["kernels"]}
    if case(path) in SOUND:
        assert said == [] and verdicts == {"clean"}
    else:
        assert set(said) == {SAYS[case(path)]} and verdicts == {"findings"}


def test_the_reports_of_the_demo(demo) -> None:
    result, out, data = demo
    total = sum(len(kernel["findings"]) for file in data["files"] for kernel in file["kernels"])
    assert total >= len(SAYS)
    sarif = json.loads((out / "report.sarif").read_text())
    assert len(sarif["runs"][0]["results"]) == total
    page = (out / "report.html").read_text()
    assert page.count('<article class="finding') == total or page.count("data-rule=") >= total
    for slug in SAYS.values():
        assert slug in result.output and slug in page


def test_make_demo_is_that_run() -> None:
    recipe = (ROOT / "Makefile").read_text()
    assert "lint fixtures/artifacts --exit-zero" in recipe
    assert "html=build/demo/report.html" in recipe and "sarif=build/demo/report.sarif" in recipe


# ------------------------------------------------------------------------------------------------------ README
SHOWN = re.compile(r"(<!-- shown: (.+?) -->\n```text\n)(.*?)(```\n<!-- end -->)", re.DOTALL)


def test_readme_shows_what_is_printed() -> None:
    """WARPLINT_UPDATE=1 writes the present output into README.md."""
    readme = ROOT / "README.md"
    text = readme.read_text()
    blocks = SHOWN.findall(text)
    assert blocks
    for _, command, shown, _ in blocks:
        printed = CliRunner().invoke(warplint, shlex.split(command), standalone_mode=False).stdout
        if os.environ.get("WARPLINT_UPDATE"):
            text = SHOWN.sub(lambda m, p=printed, c=command: m[1] + p + m[4] if m[2] == c else m[0], text)
            readme.write_text(text)
        else:
            assert shown == printed, "run with WARPLINT_UPDATE=1"


def test_readme_begins_with_the_two_commands() -> None:
    first_screen = (ROOT / "README.md").read_text().split("\n")[:15]
    assert any(line.startswith("make demo") for line in first_screen)
    assert any(line.startswith("make test") for line in first_screen)


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{p.name}" for p in sorted((ROOT / "docs").glob("*.md")))])
def test_links_options_and_rules_in_the_pages_exist(page: str) -> None:
    text = (ROOT / page).read_text()
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", text):
        assert ((ROOT / page).parent / target).exists(), target
    commands = {}
    for name in ("lint", "tree", "rules", "explain"):
        commands[name] = CliRunner().invoke(warplint, [name, "--help"]).output
    known = set(re.findall(r"--[a-z][a-z-]+", "".join(commands.values()))) | {"--help", "--version"}
    for line in re.findall(r"^.*\bwarplint (?:lint|tree|rules|explain)\b.*$", text, re.MULTILINE):
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", line):
            assert option in known | {"--emit"}, f"{option} in: {line}"
    for slug in re.findall(r"warplint explain ([a-z0-9-]+)", text):
        assert CliRunner().invoke(warplint, ["explain", slug], standalone_mode=False).return_value == 0
