"""The text and JSON reports, exactly as they come out, and what they do with hostile strings."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.reports import hostile, sample
from warplint.finding import FileReport, Location
from warplint_reports import text
from warplint_reports.json import render as render_json
from warplint_reports.report import Report, visible

GOLDEN = Path(__file__).parents[1] / "data" / "reports"


@pytest.mark.parametrize(("name", "render"), [("sample.txt", text.render), ("sample.json", render_json)])
def test_golden(name, render):
    assert render(sample.REPORT) == (GOLDEN / name).read_text(encoding="utf-8")


def test_colour_changes_nothing_else():
    import re

    coloured = text.render(sample.REPORT, color=True)
    assert "\x1b[1;31merror\x1b[0m" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == text.render(sample.REPORT)


def test_nothing_reaches_the_terminal_raw():
    shown = text.render(hostile.REPORT)
    for char in "\x1b\x00\u202e\r\x7f":
        assert char not in shown
    assert "\\x1b[31m" in shown


def caret(source: bytes, column: int, end: int) -> tuple[str, str]:
    finding = replace(sample.BARRIER, location=Location("k.cu", 1, column, 1, end), guards=(), related=())
    kernel = replace(sample.GEMM, path="k.cu", findings=(finding,))
    lines = text.render(Report((FileReport("k.cu", (kernel,), data=source),))).split("\n")
    return lines[1][10:], lines[2][10:]


def test_caret_stands_under_its_column():
    assert caret(b"\tsync();\n", 2, 6) == ("    sync();", "    ^^^^")
    assert caret("日本 sync();\n".encode(), 4, 8) == ("日本 sync();", "     ^^^^")
    assert caret("😀 sync();\n".encode(), 4, 8) == ("😀 sync();", "   ^^^^")
    assert caret(b"x\x1b sync();\n", 4, 8) == ("x\\x1b sync();", "      ^^^^")


def test_long_line_is_cut_around_the_place():
    line, mark = caret(b"a" * 5000 + b"sync();" + b"b" * 5000, 5001, 5005)
    assert len(line) <= text.WIDTH + 6
    assert line[mark.index("^") : mark.rindex("^") + 1] == "sync"


def test_visible():
    assert visible("plain text") == "plain text"
    assert visible("a\tb\x1b\x85\u202e\ud800") == "a b\\x1b\\x85\\u202e\\ud800"


def test_json_is_complete():
    data = json.loads(render_json(sample.REPORT))
    kernel = data["files"][0]["kernels"][0]
    assert kernel["verdict"] == "findings" and len(kernel["findings"]) == 2
    assert kernel["tree"]["items"][0]["items"][0]["op"] == "bar.sync.cta"
    assert json.loads(render_json(hostile.REPORT))["files"][1]["path"] == hostile.EVIL
