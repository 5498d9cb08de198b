"""Microsoft's validator with GitHub's rules, over what warplint really writes. It exits with 0 whatever it finds."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reports import hostile, sample
from warplint_reports import sarif

ROOT = Path(__file__).parents[2]
TOOL = os.environ.get("WARPLINT_MULTITOOL", "")
IGNORED = {
    "SARIF2005",  # wants an address of the tool on the web; there is none yet
}
pytestmark = [
    pytest.mark.multitool,
    pytest.mark.skipif(not TOOL, reason="WARPLINT_MULTITOOL names no validator (`make multitool`)"),
]


def complaints(log: str, folder: Path) -> list[str]:
    """What the validator says at level warning or error, as `rule level: message id`."""
    (folder / "log.sarif").write_text(log, encoding="utf-8")
    command = [str(Path(TOOL).absolute()), "validate", "log.sarif", "--rule-kind", "Sarif;Ghas"]
    command += ["--level", "Error;Warning;Note", "--output", "said.sarif", "--log", "ForceOverwrite"]
    environment = {**os.environ, "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"}
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert "Analysis completed successfully" in run.stdout, run.stdout + run.stderr
    results = json.loads((folder / "said.sarif").read_text(encoding="utf-8-sig"))["runs"][0]["results"]
    assert results, "it always has a note on the schema's address"
    return [
        f"{one['ruleId']} {one.get('level', 'warning')}: {one['message']}"
        for one in results
        if one.get("level", "warning") in ("warning", "error") and one["ruleId"] not in IGNORED
    ]


@pytest.mark.parametrize("report", [sample.REPORT, hostile.REPORT], ids=["sample", "hostile"])
def test_made_up_reports(report, tmp_path):
    assert not complaints(sarif.render(report), tmp_path)


def test_real_findings(tmp_path):
    command = [
        sys.executable,
        "-m",
        "warplint",
        "lint",
        "fixtures/artifacts",
        "fixtures/suppression",
        "fixtures/mbarrier",
    ]
    run = subprocess.run(
        [*command, "--format", "sarif", "--show-suppressed", "--no-cache"], cwd=ROOT, capture_output=True, timeout=300
    )
    log = run.stdout.decode()
    assert len(json.loads(log)["runs"][0]["results"]) > 20
    assert not complaints(log, tmp_path)


def test_it_does_complain(tmp_path):
    log = json.loads(sarif.render(sample.REPORT))
    del log["runs"][0]["tool"]["driver"]["rules"][0]["fullDescription"]
    assert any("GH2012 error" in text for text in complaints(json.dumps(log), tmp_path))
    log["runs"][0]["results"][0]["level"] = "dreadful"
    with pytest.raises(AssertionError):  # it gives up without a word and with no result
        complaints(json.dumps(log), tmp_path)


def test_line_hashes_are_those_that_it_computes(tmp_path):
    (tmp_path / "artifacts").mkdir()
    (tmp_path / "artifacts" / "gemm.cu").write_bytes(sample.SOURCE)
    log = json.loads(sarif.render(sample.REPORT))
    ours = [result["partialFingerprints"].pop("primaryLocationLineHash") for result in log["runs"][0]["results"]]
    log["runs"][0]["originalUriBaseIds"]["%SRCROOT%"]["uri"] = tmp_path.as_uri() + "/"
    (tmp_path / "log.sarif").write_text(json.dumps(log))
    command = [str(Path(TOOL).absolute()), "rewrite", "log.sarif", "--insert", "RollingHashPartialFingerprints"]
    environment = {**os.environ, "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"}
    subprocess.run([*command, "--output", "out.sarif"], cwd=tmp_path, env=environment, check=True, timeout=300)
    rewritten = json.loads((tmp_path / "out.sarif").read_text(encoding="utf-8-sig"))["runs"][0]["results"]
    assert [result["partialFingerprints"]["primaryLocationLineHash"] for result in rewritten] == ours
