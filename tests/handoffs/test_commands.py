"""`warplint handoffs` and `warplint run` from outside: formats, schemas, exit codes, hostile input, determinism."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema_rs
import pytest
from click import ClickException
from click.testing import CliRunner

from tests.handoffs.kernels import ARTIFACTS, CROSSED, GEMM, NAMED, tables
from warplint.cli import warplint
from warplint.tables import schemas
from warplint_reports import protocol_graph, protocol_markdown, protocol_text

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = {name: json.loads((ROOT / "docs" / "schema" / f"{name}.json").read_text()) for name in schemas()}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    (tmp_path / "crossed.cu").write_text(CROSSED)
    (tmp_path / "named.cu").write_text(NAMED)
    return tmp_path


def command(*arguments, **options):
    result = CliRunner().invoke(warplint, [*arguments], standalone_mode=False, **options)
    if result.exception is not None:
        assert isinstance(result.exception, ClickException), result.exception
        return 2, str(result.exception)
    return result.return_value, result.stdout


# -------------------------------------------------------------------------------------------------- schemas
def test_the_documented_schemas_are_those_of_the_types():
    made = json.loads(json.dumps(schemas()))
    assert made == DOCUMENTS, "write them anew from warplint.tables.schemas() and raise the version if they break"


@pytest.mark.parametrize(
    "path", ["crossed.cu", "named.cu", *map(str, sorted(ARTIFACTS.glob("*.cu")))], ids=lambda path: Path(path).name
)
def test_json_fits_its_schema(path):
    for kind, arguments in (("handoffs", ("--format", "json")), ("run", ("--json",))):
        code, text = command(kind, path, *arguments)
        assert code == 0
        data = json.loads(text)
        assert data["schema"] == f"warplint-{kind}/1" and data["kernels"]
        jsonschema_rs.validator_for(DOCUMENTS[f"warplint-{kind}-1"]).validate(data)


# ------------------------------------------------------------------------------------------------ exit codes
@pytest.mark.parametrize("kind", ["handoffs", "run"])
def test_exit_codes(kind, tmp_path):
    assert command(kind, "crossed.cu")[0] == 0, "a hang is no failure of the command"
    assert command(kind, "absent.cu")[0] == 2
    assert command(kind, "crossed.cu", "absent.cu")[0] == 2
    assert command(kind)[0] == 2
    assert command(kind, "crossed.cu", "--scenario", "99")[0] == 2
    assert command(kind, "crossed.cu", "--block", "frog")[0] == 2
    (tmp_path / "broken.cu").write_bytes(b"\xff\xfe__global__")
    assert command(kind, "broken.cu")[0] == 0
    (tmp_path / "empty.cu").write_text("")
    assert command(kind, "empty.cu")[0] == 0


def test_a_scenario_that_does_not_exist_names_those_that_do():
    code, text = command("run", "crossed.cu", "--scenario", "99")
    assert code == 2 and "0: blockIdx.x = 0 of 2" in text


def test_kernels_are_chosen_by_name():
    code, text = command("handoffs", "crossed.cu", "named.cu", "--kernel", "both")
    assert code == 0 and "both_wait" in text and "crossed.cu" not in text


def test_standard_input_and_launch_options():
    text = CROSSED.replace(" __launch_bounds__(64)", "")
    code, out = command("handoffs", "-", "--block", "64", "--stdin-name", "here.cu", input=text)
    assert code == 0 and "here.cu:2" in out and "a cycle of waits" in out


# ---------------------------------------------------------------------------------------------------- formats
def test_graphs():
    code, dot = command("handoffs", "crossed.cu", "--graph", "dot")
    assert code == 0 and dot.startswith('digraph "crossed" {') and dot.count("color=red") == 4  # colour and font
    code, mermaid = command("handoffs", "crossed.cu", "--graph", "mermaid")
    assert code == 0 and mermaid.startswith("flowchart LR\n") and mermaid.count("linkStyle") == 2
    made = protocol_graph.graph(tables(CROSSED))
    arrivals = [(a, b) for a, b, _ in made.edges if a[0] == "role"]
    waits = [(a, b) for a, b, _ in made.edges if a[0] == "barrier"]
    assert len(waits) == 2 and not arrivals, "nobody got as far as an arrival"


def test_markdown_has_the_four_tables():
    text = protocol_markdown.render([tables(GEMM)])
    for head in ("### Roles", "### Storage", "### Hand-off", "### Lifetime"):
        assert head in text
    rows = [line for line in text.split("\n") if line.startswith("|")]
    for row in rows:
        assert row.count("|") - row.count("\\|") == rows[rows.index(row)].count("|") - row.count("\\|")
    assert "### Hangs" in protocol_markdown.render([tables(CROSSED)])


def test_hostile_names_do_not_break_out_of_a_format():
    name = "pool\u202e\u00e9"
    text = CROSSED.replace("a, b;", f"{name}, b;").replace("&a", f"&{name}")
    made = tables(text)
    for out in (
        protocol_text.render([made]),
        protocol_markdown.render([made]),
        protocol_graph.render([made], "dot"),
        protocol_graph.render([made], "mermaid"),
    ):
        assert "\u202e" not in out
    assert protocol_markdown.cell("a|b <i> `x`") == "a\\|b \\<i\\> \\`x\\`"


@pytest.mark.parametrize("data", [b"\0" * 200, b"__global__ void f(", CROSSED.encode()[:400], CROSSED.encode()[:777]])
@pytest.mark.parametrize("kind", ["handoffs", "run"])
def test_damaged_input_is_survived(kind, data, tmp_path):
    (tmp_path / "x.cu").write_bytes(data)
    assert command(kind, "x.cu")[0] == 0


def test_two_runs_write_the_same_bytes():
    path = str(ARTIFACTS / "gemm_step7_cluster_good_tvm026.cu")
    for arguments in (("handoffs", path, "--format", "json"), ("run", path), ("handoffs", path, "--graph", "dot")):
        outputs = set()
        for seed in ("1", "77"):
            done = subprocess.run(
                [sys.executable, "-m", "warplint", *arguments],
                capture_output=True, timeout=120, check=True, env={**os.environ, "PYTHONHASHSEED": seed},
            )  # fmt: skip
            outputs.add(done.stdout)
        assert len(outputs) == 1, arguments


def test_colour_only_when_asked():
    assert "\x1b[" not in command("handoffs", "crossed.cu")[1]
    assert "\x1b[" in command("handoffs", "crossed.cu", "--color", "always")[1]
