"""The HTML report of real kernels in Chromium: the bundled artifacts, and a file whose every name is hostile."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from warplint.engine import Settings, lint_bytes
from warplint.registry import rules
from warplint_reports import html
from warplint_reports.report import Report

ARTIFACTS = Path(__file__).resolve().parents[2] / "fixtures" / "artifacts"
HOSTILE_PATH = "a/</script><img src=x onerror=alert(1)>\"'&核.cu"
HOSTILE = """\
// </script><script>alert(2)</script> </style> 内核 \u202e
__global__ void __launch_bounds__(64) k_</script>(int* out) { }
__global__ void __launch_bounds__(64) 核心(int* out) {
  if ((threadIdx.x < 32) /* "><script>alert(3)</script> */) { __syncthreads(); }
  const char* s = "</script><svg onload=alert(4)>";
}
"""
pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api")
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium (make browser)")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The report's file and the number of its findings."""
    settings = Settings(tree=True)
    files = [lint_bytes(path.name, path.read_bytes(), settings) for path in sorted(ARTIFACTS.glob("*.cu"))]
    files.append(lint_bytes(HOSTILE_PATH, HOSTILE.encode(), settings))
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(html.render(Report(tuple(files), tuple(rule.info for rule in rules()), "0")), encoding="utf-8")
    return path, sum(len(kernel.findings) for file in files for kernel in file.kernels)


@pytest.fixture
def show(browser, written):
    opened = []

    def open_page(address: str = "", **options):
        page = browser.new_page(**options)
        trouble: list[str] = []
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("console", lambda message: trouble.append(message.text))
        page.on("dialog", lambda dialog: trouble.append(dialog.message))
        page.on("request", lambda request: trouble.append(request.url) if "report.html" not in request.url else None)
        page.goto(written[0].as_uri() + address)
        opened.append((page, trouble))
        return page

    yield open_page
    for page, trouble in opened:
        page.wait_for_timeout(100)
        assert trouble == []
        page.close()


def test_findings_filters_and_keys(show, written) -> None:
    page = show()
    articles = page.locator("article.finding")
    assert articles.count() == written[1] >= 5
    page.select_option("select[name=rule]", "mbarrier-init-in-role-branch")
    assert page.locator("article.finding:visible").count() == 1
    assert "rule=mbarrier-init-in-role-branch" in page.url
    page.select_option("select[name=rule]", "")
    page.keyboard.press("j")
    first = page.url
    page.keyboard.press("j")
    assert page.url != first
    page.keyboard.press("k")
    assert page.url == first


def test_a_permalink_opens_its_finding(show) -> None:
    identity = show().locator("article.finding").nth(2).get_attribute("id")
    page = show(f"#{identity}")
    assert page.locator("article.current").get_attribute("id") == identity
    assert page.locator("article.current").is_visible()


def test_role_trees_open(show) -> None:
    page = show()
    opened = page.evaluate(
        "() => { const all = [...document.querySelectorAll('details')].filter(d => d.textContent.includes('warp 4'));"
        " all.forEach(d => { d.open = true; }); return all.length; }"
    )
    assert opened
    assert page.locator("details:has-text('mbarrier.init')").first.is_visible()


def test_hostile_names_are_text(show) -> None:
    page = show()
    assert page.locator("article.finding", has_text="核心").first.is_visible()
    assert page.evaluate("document.querySelectorAll('img, svg[onload], script[src], iframe').length") == 0
    assert "onerror=alert(1)" in page.evaluate("document.body.textContent")


def test_without_javascript(show, written) -> None:
    page = show(java_script_enabled=False)
    assert page.locator("article.finding:visible").count() == written[1]
