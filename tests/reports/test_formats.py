"""The formats that CI systems read: annotations, GitLab, JUnit, rdjson, the Markdown summary."""

import json
import re
from xml.etree import ElementTree as xml

import pytest
from msgspec.structs import replace

from tests.reports import hostile, sample
from warplint.finding import FileReport, Level, Location
from warplint_reports import github, gitlab, junit, markdown, rdjson
from warplint_reports.report import Report


def unescape(text):
    return text.replace("%0D", "\r").replace("%0A", "\n").replace("%3A", ":").replace("%2C", ",").replace("%25", "%")


def commands(report):
    """The annotations as the runner reads them: kind, properties, text; and the other lines."""
    found, others = [], []
    for line in github.render(report).splitlines():
        match = re.fullmatch(r"::(error|warning|notice) ([^:]*)::(.*)", line)
        if match is None:
            others.append(line)
            continue
        listed = dict(item.split("=", 1) for item in match[2].split(","))
        found.append((match[1], {name: unescape(value) for name, value in listed.items()}, unescape(match[3])))
    return found, others


def many(count, level=Level.ERROR):
    findings = tuple(
        replace(
            sample.BARRIER, level=level, location=Location("artifacts/gemm.cu", n + 1, 1, n + 1, 9), fingerprint=f"{n}"
        )
        for n in range(count)
    )
    return replace(sample.REPORT, files=(replace(sample.FILES[0], kernels=(replace(sample.GEMM, findings=findings),)),))


def test_annotations():
    found, others = commands(sample.REPORT)
    assert [(kind, values["file"], values.get("line")) for kind, values, _ in found] == [
        ("error", "artifacts/gone.cu", None),
        ("error", "artifacts/gemm.cu", "8"),
        ("warning", "artifacts/gemm.cu", "9"),
    ]
    _, values, text = found[1]
    assert values["title"] == "warplint (cta-barrier-in-divergent-code)"
    assert (values["endLine"], values["col"], values["endColumn"]) == ("8", "5", "20")
    assert text.startswith("`__syncthreads()` is reached by 32 of 256 threads. ")
    assert "\nsee artifacts/gemm.cu:7: this condition depends on the thread" in text
    assert not others


def test_annotations_escape_what_the_runner_obeys():
    evil = replace(
        sample.BARRIER,
        message="100%, a: b\n::error::x\r\n##[error]",
        location=Location("a,b:c%\n.cu", 1, 1, 1, 2),
        related=(),
    )
    file = replace(sample.FILES[0], kernels=(replace(sample.GEMM, findings=(evil,)),))
    text = github.render(replace(sample.REPORT, files=(file,)))
    assert len(text.splitlines()) == 1
    assert "file=a%2Cb%3Ac%25" in text and "100%25, a: b" in text
    for line in github.render(hostile.REPORT).splitlines():
        assert line.startswith(("::error ", "::warning ", "::notice ")) and "\x1b" not in line


def test_what_github_would_drop_is_printed_and_counted():
    found, others = commands(many(25))
    assert [kind for kind, _, _ in found] == ["error"] * 10 + ["notice"]
    assert len(others) == 15 and others[0].startswith("artifacts/gemm.cu:11:1: error: ")
    assert found[-1][2].startswith("15 more findings in the log of this step only")
    found, others = commands(many(12, Level.NOTE))
    assert [kind for kind, _, _ in found] == ["notice"] * 10 and len(others) == 3


def test_the_worst_come_first():
    both = replace(sample.GEMM, findings=(sample.RACE, sample.BARRIER))
    found, _ = commands(replace(sample.REPORT, files=(replace(sample.FILES[0], kernels=(both,)),)))
    assert [kind for kind, _, _ in found] == ["error", "warning"]


def test_gitlab():
    entries = json.loads(gitlab.render(sample.REPORT))
    assert [(e["check_name"], e["severity"], e["location"]) for e in entries] == [
        ("cta-barrier-in-divergent-code", "critical", {"path": "artifacts/gemm.cu", "lines": {"begin": 8}}),
        ("smem-race", "major", {"path": "artifacts/gemm.cu", "lines": {"begin": 9}}),
        ("file-problem", "blocker", {"path": "artifacts/gone.cu", "lines": {"begin": 1}}),
    ]
    assert len({entry["fingerprint"] for entry in entries}) == 3
    moved = many(1)
    other = replace(
        moved,
        files=(
            replace(
                moved.files[0],
                kernels=(
                    replace(
                        sample.GEMM,
                        findings=(
                            replace(sample.BARRIER, location=Location("artifacts/gemm.cu", 99), fingerprint="0"),
                        ),
                    ),
                ),
            ),
        ),
    )
    first, second = json.loads(gitlab.render(moved)), json.loads(gitlab.render(other))
    assert first[0]["fingerprint"] == second[0]["fingerprint"], "a shifted line is the same finding"


def test_junit():
    root = xml.fromstring(junit.render(sample.REPORT))
    assert {name: root.get(name) for name in ("tests", "failures", "errors", "skipped")} == {
        "tests": "5",
        "failures": "1",
        "errors": "1",
        "skipped": "2",
    }
    suites = {suite.get("name"): suite for suite in root}
    assert list(suites) == [file.path for file in sample.FILES]
    failed, passed = suites["artifacts/gemm.cu"]
    failure = failed.find("failure")
    assert failure is not None and failure.get("type") == "cta-barrier-in-divergent-code"
    assert failed.get("line") == "8" and passed.find("failure") is None
    skipped = suites["artifacts/attention.cu"][0].find("skipped")
    assert skipped is not None and "line 4: `produce`" in skipped.get("message", "")


def test_junit_fails_what_fails_the_run():
    assert xml.fromstring(junit.render(replace(sample.REPORT, fail_on=Level.WARNING))).get("failures") == "2"
    clean = Report((FileReport("a.cu", (replace(sample.GEMM, findings=(), verdict="clean"),)),))
    (suite,) = xml.fromstring(junit.render(clean))
    assert [(case.get("name"), len(case)) for case in suite] == [("gemm", 0)]
    (suite,) = xml.fromstring(junit.render(Report((FileReport("empty.cu"),))))
    assert suite.get("tests") == "1"


def test_rdjson():
    data = json.loads(rdjson.render(sample.REPORT))
    assert data["source"]["name"] == "warplint"
    first = data["diagnostics"][0]
    assert first["severity"] == "ERROR" and first["code"]["value"] == "cta-barrier-in-divergent-code"
    assert first["location"] == {
        "path": "artifacts/gemm.cu",
        "range": {"start": {"line": 8, "column": 5}, "end": {"line": 8, "column": 20}},
    }
    assert [place["location"]["range"]["start"]["line"] for place in first["related_locations"]] == [7]


def test_rdjson_counts_bytes():
    place = Location("artifacts/gemm.cu", 1, 4, 1, 6)
    file = replace(
        sample.FILES[0],
        data="ü😀 f();\n".encode(),
        kernels=(replace(sample.GEMM, findings=(replace(sample.BARRIER, location=place),)),),
    )
    (one,) = json.loads(rdjson.render(replace(sample.REPORT, files=(file,))))["diagnostics"]
    assert one["location"]["range"] == {"start": {"line": 1, "column": 7}, "end": {"line": 1, "column": 9}}


def test_markdown():
    page = markdown.render(sample.REPORT)
    assert page.startswith("### warplint: 1 error, 1 warning in 2 kernels of 4 files\n")
    row = next(line for line in page.splitlines() if "error |" in line)
    assert "| `artifacts/gemm.cu:8` | `gemm` | `__syncthreads()` is reached by 32 of 256 threads |" in row
    assert "3 not judged completely" in page
    assert len(markdown.render(many(1000))) < 1 << 20


def test_markdown_stays_a_table():
    evil = replace(sample.BARRIER, message="a | b `c | d` <img src=x> [x](y) `", kernel="k|`k")
    file = replace(sample.FILES[0], kernels=(replace(sample.GEMM, findings=(evil,)),))
    for report in (replace(sample.REPORT, files=(file,)), hostile.REPORT):
        page = as_html(markdown.render(report))
        found = sum(1 for _ in report.findings())
        assert page.count("<td>") == 5 * found
        assert not re.search(r"<(?!/?(?:h3|table|thead|tbody|tr|th|td|code|p|ul|li|details|summary)>)", page), page


def as_html(text):
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": True}).enable("table").render(text)


@pytest.mark.parametrize("module", [github, gitlab, junit, rdjson, markdown])
@pytest.mark.parametrize("report", [sample.REPORT, hostile.REPORT, Report(())], ids=["sample", "hostile", "empty"])
def test_every_format_is_deterministic_text(module, report):
    text = module.render(report)
    assert text == module.render(report)
    text.encode("utf-8")
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e]", text)
    if module is junit:
        xml.fromstring(text)
    if module in (gitlab, rdjson):
        json.loads(text)
