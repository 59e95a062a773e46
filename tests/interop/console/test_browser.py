"""The console in a real browser: what a person sees, with a mouse, with keys only, on a phone.

Needs Chromium, as Debian's ``chromium-headless-shell``. With ``TIDELOG_SCREENSHOTS=docs`` the
pictures of docs/console.md are taken.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.interop.console.conftest import console_on

import tidelog

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page
    from tests.interop.console.conftest import Console

pytestmark = pytest.mark.slow
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)
PATHS = (
    *("/topics", "/partitions", "/groups", "/group?name=harbour+office", "/service"),
    *("/topics/tides", "/topics/tides/0", "/topics/tides/0/records", "/topics/tides/0/batches"),
    *("/topics/tides/0/transactions", "/topics/berths/0/plans", "/topics/tides/0/check"),
    *("/topics/tides/0/records/0", "/topics/alarms/0/records", "/topics/none", "/none"),
)
SCREENSHOTS = os.environ.get("TIDELOG_SCREENSHOTS")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser of this machine."""
    api = pytest.importorskip("playwright.sync_api")
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip("no browser: apt install chromium-headless-shell")
    with api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=list(FLAGS))
        yield running
        running.close()


@pytest.fixture(scope="module")
def console(tides: Path) -> Iterator[Console]:
    """A console over the directory of tides."""
    with console_on("-d", tides) as running:
        yield running


class Visit:
    """A page in the browser, and everything that it complained about or asked others for."""

    def __init__(self, browser: Browser, console: Console, **how: Any) -> None:
        self.context = browser.new_context(**how)
        self.page: Page = self.context.new_page()
        self.complaints: list[str] = []
        self.base = console.address.partition("/?")[0]
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self._note(request.url))
        self.page.goto(console.address)

    def _note(self, url: str) -> None:
        if not url.startswith(self.base):
            self.complaints.append(f"asked for {url}")

    def go(self, path: str) -> None:
        """Open a page."""
        self.page.goto(self.base + path)

    @property
    def path(self) -> str:
        """Where the browser is."""
        return self.page.url.removeprefix(self.base)


@pytest.fixture
def visit(browser: Browser, console: Console) -> Iterator[Visit]:
    """A visit on a large screen."""
    found = Visit(browser, console, viewport={"width": 1440, "height": 900})
    yield found
    found.context.close()


@pytest.mark.parametrize("width", [360, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_fits_and_keeps_to_its_policy(
    browser: Browser, console: Console, width: int, scheme: str
) -> None:
    """Nothing is wider than the screen, nothing is blocked, and no other machine is asked."""
    size = {"width": width, "height": 900}
    found = Visit(browser, console, viewport=size, color_scheme=scheme)
    wide = []
    for path in PATHS:
        found.go(path)
        if found.page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            wide.append(path)
    found.context.close()

    assert wide == []
    missing = "the server responded with a status of 404"
    assert [one for one in found.complaints if missing not in one] == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(browser: Browser, console: Console, scheme: str) -> None:
    """By 4.5 to 1, as WCAG 2 asks for: plain text, what is quiet, links, damage."""
    found = Visit(browser, console, color_scheme=scheme)
    ratios = found.page.evaluate(CONTRASTS)
    found.context.close()

    assert len(ratios) > 3
    assert {name: ratio for name, ratio in ratios.items() if ratio < 4.5} == {}


CONTRASTS = """() => {
  const style = getComputedStyle(document.documentElement);
  const parts = (name) => {
    const box = document.createElement("div");
    box.style.setProperty("color", style.getPropertyValue(name));
    document.body.append(box);
    const found = getComputedStyle(box).color.match(/[0-9.]+/g).slice(0, 3).map(Number);
    box.remove();
    return found;
  };
  const light = (name) => {
    const [r, g, b] = parts(name).map((one) => one / 255)
      .map((one) => one <= 0.03928 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ratio = (ink, ground) => {
    const [low, high] = [light(ink), light(ground)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const found = {};
  for (const ink of ["--ink", "--muted", "--link"]) {
    for (const ground of ["--ground", "--card", "--note-ground"]) {
      found[ink + " on " + ground] = ratio(ink, ground);
    }
  }
  found.bad = ratio("--bad", "--bad-ground");
  return found;
}"""


def test_keys_alone_lead_everywhere(visit: Visit) -> None:
    """The first key skips to the content; links, details and buttons are reached in order."""
    keys, page = visit.page.keyboard, visit.page
    keys.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    keys.press("Enter")
    keys.press("Tab")
    assert page.evaluate("document.activeElement.name") == "q"
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    keys.type("tid")
    keys.press("Enter")
    page.wait_for_url("**q=tid")
    assert [one.inner_text() for one in page.query_selector_all("tbody th")] == ["tides"]
    page.focus("tbody a")
    keys.press("Enter")
    page.wait_for_url("**/topics/tides")


def test_a_table_is_sorted_by_its_head(visit: Visit) -> None:
    """With a mark for those who do not see the arrow."""
    head = visit.page.get_by_role("link", name="Topic", exact=True)
    head.click()
    visit.page.wait_for_url("**sort=name*")
    names = [one.inner_text() for one in visit.page.query_selector_all("tbody th")]

    assert names == sorted(names)
    assert visit.page.locator("th[aria-sort=ascending]").inner_text().startswith("Topic")


def test_a_picture_leads_to_batches_and_to_records(visit: Visit) -> None:
    """A batch to its records, a segment to its batches, which are drawn larger."""
    visit.go("/topics/tides/0")
    visit.page.locator("svg a[href*='/records?from=']").first.click()
    visit.page.wait_for_url("**/records?from=*")
    first = visit.page.locator("tbody th").first.inner_text()
    visit.go("/topics/tides/0")
    visit.page.locator("svg a[href*='/batches?from=']").last.click()
    visit.page.wait_for_url("**/batches?from=*")

    assert first.replace(",", "").isdecimal()
    assert visit.page.locator(".picture svg").count() == 1
    assert visit.complaints == []


def test_a_value_of_json_unfolds_with_a_key(visit: Visit) -> None:
    """It is laid out in lines."""
    visit.go("/topics/tides/0/records")
    visit.page.focus("summary")
    visit.page.keyboard.press("Enter")

    assert '"berths": [' in visit.page.locator("details[open] pre").first.inner_text()


def test_a_page_follows_a_writer_without_moving(browser: Browser, tmp_path: Path) -> None:
    """New numbers take the place of the old ones; nothing else on the page moves."""
    data = tmp_path / "data"
    with tidelog.open(data) as logs:
        logs.create_topic("live", 1)
        logs.append("live", b"first")
        with console_on("-d", data) as running:
            found = Visit(browser, running, viewport={"width": 1440, "height": 900})
            found.go("/topics/live/0")
            found.page.evaluate("window.stays = true")
            logs.append("live", b"second")
            new = found.page.locator("dt:text-is('Log end') + dd:text-is('2')")
            new.wait_for(timeout=30_000)
            shift = found.page.evaluate(SHIFT)
            stays = found.page.evaluate("window.stays")
            found.context.close()

    assert stays
    assert shift < 0.01
    assert found.complaints == []


SHIFT = """() => new Promise((resolve) => {
  let sum = 0;
  new PerformanceObserver((list) => list.getEntries().forEach((one) => { sum += one.value; }))
    .observe({ type: "layout-shift", buffered: true });
  setTimeout(() => resolve(sum), 200);
})"""


def test_everything_is_there_without_scripts(browser: Browser, console: Console) -> None:
    """They only keep numbers fresh."""
    found = Visit(browser, console, java_script_enabled=False)
    found.page.get_by_role("link", name="tides", exact=True).click()
    found.page.wait_for_url("**/topics/tides")
    found.page.get_by_role("link", name="0", exact=True).first.click()
    found.page.wait_for_url("**/topics/tides/0*")
    title = found.page.title()
    found.context.close()

    assert title == "tides-0 · tidelog"


@pytest.mark.skipif(SCREENSHOTS is None, reason="TIDELOG_SCREENSHOTS names no directory")
def test_pictures_for_the_documentation(browser: Browser, console: Console) -> None:
    """Three pages as they look."""
    target = Path(str(SCREENSHOTS))
    for name, path, width, scheme in (
        ("console-topics", "/topics", 1100, "light"),
        ("console-partition", "/topics/tides/0", 1100, "light"),
        ("console-records", "/topics/tides/0/records", 390, "dark"),
    ):
        size = {"width": width, "height": 700}
        found = Visit(browser, console, viewport=size, color_scheme=scheme)
        found.go(path)
        found.page.evaluate("document.querySelector('.place').textContent = 'data'")
        found.page.screenshot(path=target / f"{name}.png")
        found.context.close()

    assert len(list(target.glob("console-*.png"))) >= 3
