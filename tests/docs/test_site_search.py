"""The site's own search, in a browser: a newcomer's words lead to the page that answers."""

from __future__ import annotations

import shutil
import subprocess
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Page

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venvs/site/bin/python"
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
RESULTS = "#search-results ul.search li > a"
QUESTIONS = {
    "backup restore": "deployment.html",
    "consumer lag": "monitoring.html",
    "damaged log": "broken-broker.html",
    "erase person": "operations.html",
    "exactly once foreachBatch": "exactly-once.html",
    "keep 3 days": "embedded.html",
    "read csv": "analyst.html",
    "start broker": "broker.html",
    "switch over mirror": "mirror.html",
}


class Quiet(SimpleHTTPRequestHandler):
    """Serves files, and logs nothing."""

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A page of a browser, with the site as its base."""
    api = pytest.importorskip("playwright.sync_api")
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None or not PYTHON.exists():
        pytest.skip("needs a browser and the site: apt install chromium-headless-shell; make site")
    site = tmp_path_factory.mktemp("site")
    subprocess.run([PYTHON, ROOT / "tools/site/build.py", site], check=True, cwd=ROOT)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        with api.sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
            yield browser.new_page(base_url=f"http://127.0.0.1:{server.server_port}")
            browser.close()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize("words", QUESTIONS)
def test_a_newcomers_words_find_the_page(page: Page, words: str) -> None:
    """Among the first three results."""
    page.goto(f"/search.html?q={quote(words)}")
    page.wait_for_function("document.querySelector('#search-results p.search-summary')?.innerText")
    found = page.locator(RESULTS).evaluate_all("found => found.map(one => one.pathname)")

    assert f"/{QUESTIONS[words]}" in found[:3]
