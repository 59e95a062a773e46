"""Asks the pages of the console in this process: no socket, no thread."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from tidelog.config.serve_config import LOOPBACK
from tidelog.console.access import Access
from tidelog.console.app import make_app
from tidelog.console.console_server import Room
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.scheduler import InlineScheduler
from tidelog.env.system_files import SYSTEM_FILES

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Sequence

    from tidelog.env.clock import Clock
    from tidelog.env.files import FileSystem

TOKEN: Final = "a-token-of-tests"  # noqa: S105 - it opens nothing
PORT: Final = 8765
HOST: Final = f"127.0.0.1:{PORT}"
COOKIE: Final = f"tidelog-{PORT}={TOKEN}"


@dataclass(frozen=True)
class Got:
    """A response."""

    status: int
    headers: dict[str, str]
    text: str

    @cached_property
    def page(self) -> ReadPage:
        """The response as HTML, read once: reading it takes as long as making it."""
        page = ReadPage()
        page.feed(self.text)
        page.close()
        return page


class Visitor:
    """A browser of tests, with the cookie; it knows everything of the directories at once."""

    def __init__(
        self, *paths: str, fs: FileSystem = SYSTEM_FILES, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self.room: Final = Room.of(fs, paths, clock, InlineScheduler())
        self._app: Final = make_app(self.room.desk, self.room.watch, Access(TOKEN, PORT, LOOPBACK))
        self.room.desk.survey.run()
        self.room.desk.groups.run()

    def get(
        self, address: str, method: str = "GET", *, host: str = HOST, cookie: str = COOKIE
    ) -> Got:
        """Ask for an address: a path, maybe with fields."""
        split = urlsplit(address)
        return self.ask(split.path, split.query, method, host=host, cookie=cookie)

    def ask(
        self, path: str, query: str = "", method: str = "GET", *, host: str, cookie: str
    ) -> Got:
        """Ask for a path as it is, whatever it is."""
        headers = [(b"host", host.encode()), (b"cookie", cookie.encode())]
        scope = {
            "type": "http",
            "method": method,
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [pair for pair in headers if pair[1]],
            "scheme": "http",
            "server": ("127.0.0.1", PORT),
            "root_path": "",
            "http_version": "1.1",
        }
        sent: list[dict[str, Any]] = []

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        _finish(self._app(scope, receive, send))  # type: ignore[arg-type]  # plain dicts
        start = sent[0]
        body = b"".join(message.get("body", b"") for message in sent[1:])
        named = {name.decode(): value.decode() for name, value in start["headers"]}
        return Got(start["status"], named, body.decode())

    def crawl(self, start: str = "/topics", limit: int = 2000) -> Iterator[tuple[str, Got]]:
        """Yield every page that links lead to, each once, at most ``limit`` of them."""
        waiting, seen = [start, "/partitions", "/groups", "/service"], {start}
        seen.update(waiting)
        while waiting and len(seen) <= limit:
            address = waiting.pop(0)
            got = self.get(address)
            yield address, got
            for target in got.page.links:
                if target.startswith("/") and target not in seen and "sort=" not in target:
                    seen.add(target)
                    waiting.append(target)


def _finish(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run what waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise AssertionError("a page waits for something")


VOID: Final = frozenset({"br", "input", "link", "meta", "hr", "img"})


class ReadPage(HTMLParser):
    """A page, read as browsers do: its elements, links and texts; ``odd`` is what is not right."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.odd: list[str] = []
        self.texts: list[str] = []
        self.rows: list[list[str]] = []
        self.facts: dict[str, str] = {}
        self._open: list[str] = []
        self._term = ""

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        """Take an element."""
        self.tags.append(tag)
        for name, value in attrs:
            if name.startswith("on") or name == "style":
                self.odd.append(f"{tag} has {name}={value}")
            if name in {"href", "src", "action"} and not str(value).startswith(("/", "#")):
                self.odd.append(f"{tag} leads to {value}")
            if tag == "a" and name == "href":
                self.links.append(str(value))
            if name == "id":
                self.ids.append(str(value))
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self.rows[-1].append("")
        if tag == "dt":
            self._term = ""
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Take the end of an element."""
        if not self._open or self._open.pop() != tag:
            self.odd.append(f"</{tag}> ends nothing")

    def handle_data(self, data: str) -> None:
        """Take a text."""
        self.texts.append(data)
        if {"td", "th"} & set(self._open) and self.rows and self.rows[-1]:
            self.rows[-1][-1] += data.strip()
        if "dt" in self._open:
            self._term += data.strip()
        if "dd" in self._open:
            self.facts[self._term] = self.facts.get(self._term, "") + data.strip()

    def close(self) -> None:
        """Take the end."""
        super().close()
        self.odd += [f"<{tag}> has no end" for tag in self._open]
