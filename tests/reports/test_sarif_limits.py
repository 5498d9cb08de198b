"""SARIF within the limits of code scanning: the worst is kept, and what is left out is said."""

import gzip
import hashlib
import json

import pytest
from msgspec.structs import replace

from tests.reports import sample
from tests.reports.test_sarif import VALIDATOR
from warplint.finding import Level, Location
from warplint_reports import sarif
from warplint_reports import sarif_limits as limits


def noise(number):
    """Text that gzip cannot make small."""
    return " ".join(hashlib.sha256(f"{number} {part}".encode()).hexdigest() for part in range(20))


def report(errors, warnings, message=lambda number: "m"):
    findings = [
        replace(
            sample.BARRIER,
            level=Level.ERROR if number >= warnings else Level.WARNING,
            message=f"{message(number)} {number}.",
            location=Location("artifacts/gemm.cu", number % 16 + 1, 1, number % 16 + 1, 2),
            related=(),
        )
        for number in range(errors + warnings)
    ]
    kernel = replace(sample.GEMM, findings=tuple(findings))
    return replace(sample.REPORT, files=(replace(sample.FILES[0], kernels=(kernel,)),))


def run(text):
    log = json.loads(text)
    assert not list(VALIDATOR.iter_errors(log))
    return log["runs"][0]


def truncation(log):
    return [
        notice["message"]["text"]
        for notice in log["invocations"][0]["toolExecutionNotifications"]
        if notice["descriptor"]["id"] == "report-truncated"
    ]


def test_within_the_limits_nothing_is_said():
    log = run(sarif.render(report(3, 3)))
    assert len(log["results"]) == 6 and not truncation(log)


def test_the_worst_results_are_kept_in_their_order(monkeypatch):
    monkeypatch.setattr(limits, "MAX_RESULTS", 5)
    log = run(sarif.render(report(4, 4)))
    assert [result["level"] for result in log["results"]] == ["warning"] + ["error"] * 4
    (text,) = truncation(log)
    assert text.startswith("3 results were left out; the 5 kept are the worst, down to level warning")


@pytest.mark.parametrize("limit", [60_000, 20_000, 9_000])
def test_the_size_is_kept(monkeypatch, limit):
    monkeypatch.setattr(limits, "MAX_BYTES", limit)
    text = sarif.render(report(20, 200, noise))
    assert len(gzip.compress(text.encode(), 6)) <= limit
    log = run(text)
    levels = [result["level"] for result in log["results"]]
    assert truncation(log) and levels.count("error") == min(20, len(levels))


def test_many_places_and_steps_of_one_result():
    related = tuple(Location("artifacts/gemm.cu", 1 + n % 16, 1, 1 + n % 16, 2, f"p{n}") for n in range(150))
    steps = tuple(Location("artifacts/gemm.cu", 1 + n % 16, 1, 1 + n % 16, 2, f"s{n}") for n in range(2500))
    finding = replace(sample.BARRIER, related=related, steps=steps)
    kernel = replace(sample.GEMM, findings=(finding,))
    (result,) = run(sarif.render(replace(sample.REPORT, files=(replace(sample.FILES[0], kernels=(kernel,)),))))[
        "results"
    ]
    assert len(result["relatedLocations"]) == 100 and "50 more places" in result["message"]["text"]
    assert "](101)" not in result["message"]["text"]
    flow = result["codeFlows"][0]["threadFlows"][0]["locations"]
    said = [step["location"]["message"]["text"] for step in flow]
    assert len(said) == 1000 and said[0] == "s0" and said[-1] == "s2499"
