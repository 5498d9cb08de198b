"""The HTML report in a browser: filters, keys, addresses, and that nothing of the input runs."""

import shutil

import pytest

from tests.reports import hostile, sample
from warplint_reports import html

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api")
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def show(browser, tmp_path):
    """Opens a report at an address; the page must raise no error, log nothing and ask for nothing."""
    pages = []

    def open_page(report=sample.REPORT, address="", **options):
        path = tmp_path / "report.html"
        path.write_text(html.render(report), encoding="utf-8")
        page = browser.new_page(**options)
        trouble: list[str] = []
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("console", lambda message: trouble.append(message.text))
        page.on("dialog", lambda dialog: trouble.append(dialog.message))
        page.on("request", lambda request: trouble.append(request.url) if "report.html" not in request.url else None)
        page.goto(path.as_uri() + address)
        pages.append((page, trouble))
        return page

    yield open_page
    for page, trouble in pages:
        assert trouble == []
        page.close()


def shown(page):
    return page.eval_on_selector_all("article.finding", "all => all.filter(a => !a.hidden).map(a => a.dataset.rule)")


def current(page):
    return page.evaluate("document.querySelector('article.current')?.dataset.rule")


def test_filters_live_in_the_address(show):
    page = show()
    assert shown(page) == ["cta-barrier-in-divergent-code", "smem-race"]
    page.uncheck("input[value=error]", force=True)
    assert shown(page) == ["smem-race"]
    assert "level=warning%2Cnote" in page.url
    page.fill("#q", "NOTHING like this")
    assert shown(page) == [] and page.is_visible("#no-match")
    page.click("#reset")
    assert len(shown(page)) == 2


def test_an_address_brings_the_filters_back(show):
    page = show(address="#level=error,warning&rule=smem-race&at=f-fedcba9876543210")
    assert shown(page) == ["smem-race"] and current(page) == "smem-race"
    assert page.input_value("select[name=rule]") == "smem-race"
    assert not page.is_checked("input[value=note]")


def test_keys(show):
    page = show()
    page.keyboard.press("j")
    assert current(page) == "cta-barrier-in-divergent-code"
    assert page.url.endswith("#f-0123456789abcdef")
    page.keyboard.press("j")
    page.keyboard.press("j")
    assert current(page) == "smem-race"
    page.keyboard.press("k")
    page.keyboard.press("o")
    assert page.url.endswith("#s1-8")
    assert page.evaluate("document.querySelector(':target').textContent").startswith("8")
    page.keyboard.press("/")
    page.keyboard.type("j")
    assert page.input_value("#q") == "j"
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    assert page.is_visible("#help")


def test_a_permalink_wins_over_filters(show):
    page = show(address="#level=warning")
    page.evaluate("location.hash = 'f-0123456789abcdef'")
    page.wait_for_function("document.querySelector('article.current')?.dataset.level === 'error'")
    assert len(shown(page)) == 2


def test_readable_without_a_script(show, browser):
    page = show(java_script_enabled=False)
    assert page.is_visible("text=Move the barrier out of the branch")
    assert page.is_visible("#s1-15") and not page.is_visible("#filters") and not page.is_visible("#keys")


def test_nothing_of_the_input_runs(show):
    page = show(hostile.REPORT)
    page.wait_for_timeout(200)
    assert page.locator("article.finding").count() == 2
