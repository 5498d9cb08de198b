"""The HTML report: complete without a script, self-contained, and closed to what stands in the input."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest
from msgspec.structs import replace

from tests.reports import hostile, sample
from warplint.finding import FileReport, KernelReport, Location, Verdict
from warplint_reports import html
from warplint_reports.json import as_data
from warplint_reports.report import Report
from warplint_reports.strip import strip

VOID = {"meta", "input", "br", "img", "link", "hr", "path", "rect"}


class Page(HTMLParser):
    """Elements with their attributes, ids, and texts by element; checks that every element is closed in order."""

    def __init__(self, text):
        super().__init__()
        self.stack, self.elements, self.texts, self.attributes = [], [], {}, {}
        self.feed(text)
        self.close()
        assert not self.stack

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.stack and self.stack[-1] == tag, (tag, self.stack[-3:])
        self.stack.pop()

    def handle_data(self, data):
        self.texts.setdefault(self.stack[-1] if self.stack else "", []).append(data)

    @property
    def ids(self):
        return [attributes["id"] for _, attributes in self.elements if "id" in attributes]

    def of(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def page():
    return Page(html.render(sample.REPORT))


def test_everything_is_there_without_a_script(page):
    texts = " ".join(" ".join(parts) for tag, parts in page.texts.items() if tag != "script")
    for words in (
        "32 of 256 threads: warp 4",
        "The other 224 threads never arrive",
        "Move the barrier out of the branch",
        "warp 0 reads it, nothing orders the two",
        "Permission denied",
        "larger than 16777216 bytes",
        "takes a barrier and is not defined in this file",
        "Threads that take the other branch never arrive",
    ):
        assert words in texts
    hidden = [attributes for name, attributes in page.elements if "hidden" in attributes]
    assert all(attributes.get("id") or attributes.get("class") == "fold" for attributes in hidden)


def test_links_lead_somewhere(page):
    assert len(page.ids) == len(set(page.ids))
    targets = {attributes["href"] for attributes in page.of("a")}
    assert all(target.startswith("#") for target in targets)
    assert {target[1:] for target in targets} <= set(page.ids)


def test_nothing_is_loaded(page):
    text = html.render(sample.REPORT)
    assert not page.of("link") and not page.of("img") and not page.of("iframe")
    assert all("src" not in attributes for _, attributes in page.elements)
    assert "@import" not in text and "url(" not in text
    assert not re.search(r"https?://", text)


def test_only_our_script_may_run(page):
    policy = next(m["content"] for m in page.of("meta") if m.get("http-equiv") == "Content-Security-Policy")
    script = page.texts["script"][-1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in policy and "default-src 'none'" in policy


def test_each_finding_has_its_permalink(page):
    articles = [attributes for attributes in page.of("article")]
    assert [attributes["id"] for attributes in articles] == ["f-0123456789abcdef", "f-fedcba9876543210"]
    twice = replace(sample.GEMM, findings=(sample.BARRIER, sample.BARRIER))
    again = Page(html.render(Report((replace(sample.FILES[0], kernels=(twice,)),))))
    assert [attributes["id"] for attributes in again.of("article")] == ["f-0123456789abcdef", "f-0123456789abcdef-2"]


def test_every_line_is_an_anchor(page):
    lines = sample.SOURCE.count(b"\n")
    assert [name for name in page.ids if re.fullmatch(r"s1-\d+", name)] == [f"s1-{n}" for n in range(1, lines + 1)]


def test_island_is_the_json_report(page):
    assert json.loads(page.texts["script"][0]) == json.loads(json.dumps(as_data(sample.REPORT)))


def test_nothing_hostile_gets_through():
    text = html.render(hostile.REPORT)
    page = Page(text)
    assert len(page.of("script")) == 2 and not page.of("img") and len(page.of("style")) == 1
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    assert len(page.ids) == len(set(page.ids))
    for char in "\x1b\x00\u202e":
        assert char not in text
    assert "49" not in re.findall(r"&amp;amp;(.*?)\\x1b", text)[0]
    assert json.loads(page.texts["script"][0])["files"][0]["kernels"][0]["name"] == hostile.EVIL


def test_deterministic():
    assert html.render(sample.REPORT) == html.render(sample.REPORT)


def test_empty_run():
    page = Page(html.render(Report(())))
    assert "No findings" in " ".join(page.texts["h1"])


def test_very_large_file_is_cut_to_what_matters():
    body = b"int x;\n" * 400_000
    finding = replace(sample.BARRIER, location=Location("big.cu", 200_000, 1, 200_000, 4), guards=(), related=())
    kernel = KernelReport("k", "big.cu", 1, Verdict.FINDINGS, findings=(finding,))
    text = html.render(Report((FileReport("big.cu", (kernel,), data=body),)))
    assert len(text) < 200_000
    assert 'id="s1-200000"' in text and "lines" in text


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"x", b"x\r\ny\r", b"/* never closed\n\n", b'"\\\n"', "日本 é\n".encode()]
)
def test_line_anchors_for_odd_sources(data):
    file = FileReport("odd.cu", (KernelReport("k", "odd.cu", 1, Verdict.CLEAN),), data=data)
    page = Page(html.render(Report((file,))))
    lines = len(data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").splitlines()) if data else 0
    assert sum(name.startswith("s1-") for name in page.ids) == lines


# -------------------------------------------------------------------------------------------------- the strip
def boxes(mask, count, total, warp_size=32, certain=True):
    return str(strip(format(mask, "x"), count, total, warp_size, certain))


def path(text, name):
    found = re.search(rf'class="{name}" d="([^"]*)"', text)
    assert found
    return found[1]


def test_strip_draws_full_warps_and_single_lanes():
    full = (1 << 32) - 1
    drawn = boxes(full << 64 | 0b101, 34, 128)
    assert path(drawn, "off").count("M") == 4
    assert path(drawn, "on") == "M0 0h2v2h-2zM4 0h2v2h-2zM36 0h16v8h-16z"


def test_strip_shows_elections_and_upper_bounds():
    assert 'class="strip e"' in boxes((1 << 64) - 1, 2, 64)
    assert path(boxes((1 << 64) - 1, 2, 64), "dot").count("M") == 2
    assert 'class="strip u"' in boxes((1 << 32) - 1, 32, 64, certain=False)
    assert 'class="strip"' in boxes((1 << 32) - 1, 32, 64)


def test_strip_of_wave64():
    assert path(boxes((1 << 64) - 1, 64, 128, 64), "on") == "M0 0h32v8h-32z"


@pytest.mark.parametrize(("mask", "total"), [("zz", 32), ("", 32), ("f", 0), ("f", 2), ("f" * 999, 32), ("f", 99999)])
def test_strip_of_nonsense_is_empty(mask, total):
    assert strip(mask, 1, total, 32, True) == ""
