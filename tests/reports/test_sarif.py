"""SARIF: valid, constant rule text, and the identities that code scanning derives itself."""

import json
from pathlib import Path

import jsonschema_rs
import pytest
from msgspec.structs import replace

from tests.reports import sample
from warplint.finding import Location
from warplint_reports import sarif
from warplint_reports.linehash import line_hashes

SCHEMA = json.loads((Path(__file__).parents[1] / "data" / "sarif" / "sarif-2.1.0.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema_rs.validator_for(SCHEMA)


def run(report=sample.REPORT):
    log = json.loads(sarif.render(report))
    errors = [f"{list(error.instance_path)}: {error.message}" for error in VALIDATOR.iter_errors(log)]
    assert not errors
    return log["runs"][0]


def test_valid_and_complete():
    log = run()
    first, second = log["results"]
    assert first["ruleId"] == "cta-barrier-in-divergent-code"
    rule = log["tool"]["driver"]["rules"][first["ruleIndex"]]
    assert rule["id"] == first["ruleId"]
    assert rule["properties"]["problem.severity"] == "error" and "security-severity" not in rule["properties"]
    region = first["locations"][0]["physicalLocation"]["region"]
    assert region == {"startLine": 8, "startColumn": 5, "endLine": 8, "endColumn": 20}
    assert first["message"]["text"].startswith("`__syncthreads()` is reached by 32 of 256 threads. ")
    assert "[line 7](1): this condition depends on the thread" in first["message"]["text"]
    assert [place["id"] for place in first["relatedLocations"]] == [1]
    steps = second["codeFlows"][0]["threadFlows"][0]["locations"]
    assert [step["location"]["physicalLocation"]["region"]["startLine"] for step in steps] == [9, 15]


def test_schema_check_can_fail():
    log = json.loads(sarif.render(sample.REPORT))
    del log["runs"][0]["tool"]["driver"]["name"]
    assert not VALIDATOR.is_valid(log)


def test_rules_are_listed_without_findings():
    clean = replace(sample.REPORT, files=())
    assert [rule["id"] for rule in run(clean)["tool"]["driver"]["rules"]] == [rule.slug for rule in sample.RULES]
    assert run(clean)["tool"] == run()["tool"]


def test_verdicts_and_notifications():
    log = run()
    kernels = {kernel["name"]: kernel for kernel in log["properties"]["kernels"]}
    assert kernels["gemm"]["verdict"] == "findings" and kernels["gemm"]["reasons"] == []
    assert kernels["attention"]["verdict"] == "incomplete"
    assert kernels["attention"]["reasons"][0]["line"] == 4
    invocation = log["invocations"][0]
    assert invocation["executionSuccessful"] is False
    ids = [notice["descriptor"]["id"] for notice in invocation["toolExecutionNotifications"]]
    assert ids == ["kernel-incomplete", "file-problem", "file-incomplete"]


def with_finding(**changes):
    finding = replace(sample.BARRIER, **changes)
    kernel = replace(sample.GEMM, findings=(finding,))
    return replace(sample.REPORT, files=(replace(sample.FILES[0], kernels=(kernel,)),))


def test_region_stays_on_one_line():
    place = Location("artifacts/gemm.cu", 7, 3, 10, 4)
    region = run(with_finding(location=place))["results"][0]["locations"][0]["physicalLocation"]["region"]
    line = sample.SOURCE.decode().split("\n")[6]
    assert region == {"startLine": 7, "startColumn": 3, "endLine": 7, "endColumn": len(line) + 1}


def test_source_text_cannot_become_a_link():
    text = run(with_finding(message="bar[0](1) is never initialised", related=()))["results"][0]["message"]["text"]
    assert "](1)" not in text


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("a b/ü#1.cu", "a%20b/%C3%BC%231.cu"),
        ("a:b.cu", "a%3Ab.cu"),
        ("<stdin>", "%3Cstdin%3E"),
        ("/abs/x.cu", "file:///abs/x.cu"),
    ],
)
def test_uris(path, uri):
    file = replace(sample.FILES[0], path=path, kernels=(replace(sample.GEMM, path=path, findings=()),))
    location = run(replace(sample.REPORT, files=(file,)))["artifacts"][0]["location"]
    assert location["uri"] == uri
    assert ("uriBaseId" in location) == (not path.startswith("/"))


# Values from the tests of GitHub's upload action.
KNOWN = [
    ("", ["c129715d7a2bc9a3:1"]),
    (" a\nb\n  \tc\n d", ["271789c17abda88f:1", "54703d4cd895b18:1", "180aee12dab6264:1", "a23a3dc5e078b07b:1"]),
]


@pytest.mark.parametrize(("text", "hashes"), KNOWN)
def test_line_hash_known_values(text, hashes):
    assert list(line_hashes(text.encode(), range(1, 9)).values()) == hashes


def reference(text: str) -> list[str]:
    """The derivation as the upload action states it: a ring of 100 units, one pass, a mark per line start."""
    size, base, mask = 100, 37, (1 << 64) - 1
    first = pow(base, size, 1 << 64)
    ring, marks = [0] * size, [0] * size
    state = {"hash": 0, "at": 0}
    out: dict[int, str] = {}
    seen: dict[str, int] = {}

    def emit():
        value = f"{state['hash']:x}"
        seen[value] = seen.get(value, 0) + 1
        out[marks[state["at"]]] = f"{value}:{seen[value]}"
        marks[state["at"]] = 0

    def push(unit):
        at = state["at"]
        state["hash"] = (base * state["hash"] + unit - first * ring[at]) & mask
        ring[at] = unit
        state["at"] = (at + 1) % size

    line, start, after_cr = 0, True, False
    for unit in [*memoryview(text.encode("utf-16-le")).cast("H"), 65535]:
        if unit in (32, 9) or (after_cr and unit == 10):
            after_cr = False
            continue
        after_cr = unit == 13
        if unit == 13:
            unit = 10
        if marks[state["at"]]:
            emit()
        if start:
            start, line = False, line + 1
            marks[state["at"]] = line
        start = unit == 10
        push(unit)
    for _ in range(size):
        if marks[state["at"]]:
            emit()
        push(0)
    return [out[number] for number in sorted(out)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "a\r\nb\r\n",
        "int x = 1;\n\tint x=1;\n\n  \nint x = 1;",
        "é😀\r\n" * 40,
        "x" * 300 + "\n" + "x" * 300,
        "\r\r\n \n\t\r",
    ],
)
def test_line_hash_equals_the_stated_derivation(text):
    expected = reference(text)
    assert line_hashes(text.encode(), range(1, len(expected) + 9)) == dict(enumerate(expected, 1))


def test_line_hash_is_in_the_result():
    prints = run()["results"][0]["partialFingerprints"]
    assert prints["primaryLocationLineHash"] == reference(sample.SOURCE.decode())[7]
    assert prints["warplintFingerprint/v1"] == "0123456789abcdef"
