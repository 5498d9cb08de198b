"""The JSON that warplint writes is as docs/schema says, and has no key that the schema does not know."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from tests.gate.kernels import BAD

ROOT = Path(__file__).parents[2]


def strict(schema):
    """The schema with every object closed: a key that it does not list is an error."""
    if isinstance(schema, dict):
        closed = {name: strict(value) for name, value in schema.items()}
        if isinstance(schema.get("properties"), dict) and "additionalProperties" not in schema:
            closed["additionalProperties"] = False
        return closed
    return [strict(item) for item in schema] if isinstance(schema, list) else schema


def run(*arguments, cwd=ROOT):
    command = [sys.executable, "-m", "warplint", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=200, check=False).stdout


def check(name, text):
    schema: Any = strict(json.loads((ROOT / "docs" / "schema" / f"{name}.json").read_text()))
    validator = jsonschema_rs.validator_for(schema)
    data = json.loads(text)
    errors = [f"{list(error.instance_path)}: {error.message[:300]}" for error in validator.iter_errors(data)]
    assert not errors
    assert data["schema"] == name.rpartition("-")[0] + "/1"
    del data["schema"]
    assert not validator.is_valid(data)
    return data


@pytest.mark.parametrize("options", [(), ("--shard", "1/2"), ("--level", "note")])
def test_report(options):
    text = run("lint", "fixtures/artifacts", "fixtures/suppression", "gone.cu", "--format", "json", *options)
    check("warplint-report-1", text)


def test_report_of_the_sample():
    text = (ROOT / "tests" / "data" / "reports" / "sample.json").read_text()
    files = check("warplint-report-1", text.replace("0123456789abcdef", "0123456789abcdef-2"))["files"]
    assert files[0]["kernels"][0]["tree"]["items"]


def test_baseline(tmp_path):
    (tmp_path / "k.cu").write_text(BAD)
    run("baseline", ".", cwd=tmp_path)
    assert check("warplint-baseline-1", (tmp_path / "warplint-baseline.json").read_text())["findings"]


def test_config(tmp_path):
    (tmp_path / "k.cu").write_text(BAD)
    (tmp_path / "warplint.toml").write_text(
        'arch = "sm_90a"\n[[overrides]]\npath = "*.cu"\narch = "sm_100a"\n'
        '[[suppress]]\npath = "*.cu"\nrules = ["smem"]\n'
    )
    (settings,) = check("warplint-config-1", run("config", "k.cu", "--json", cwd=tmp_path))["settings"]
    assert settings["suppress"] and any(row["instead_of"] for row in settings["values"])


def test_rules():
    assert len(check("warplint-rules-1", run("rules", "--json"))["rules"]) > 50
