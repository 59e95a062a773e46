"""The pages: what they show, and that nothing from outside becomes more than text."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from tests.machinery.console_visitor import COOKIE, HOST, Visitor
from tests.machinery.directory_home import DataHome

from tidelog.console.access import HEADERS
from tidelog.errors import KafkaStorageError
from tidelog.records.partitioner import partition_for_key

if TYPE_CHECKING:
    from collections.abc import Iterable

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</title></pre></details><!--",
    "{{ 7*7 }}{% raw %}",
    "javascript:alert(1)",
    "\x1b[2J\x00\x07\r\n",
    "\u202egnp.exe",
    "&lt;b&gt;",
    "../../etc/passwd",
)
PAGES = (
    *("", "/records", "/batches", "/transactions", "/plans", "/check", "/records/0"),
    *("/records?time=1h", "/records?key=a&text=b&committed=1", "/batches?from=1"),
)


@pytest.fixture(scope="module")
def home() -> DataHome:
    """A directory whose records and groups have names that a page must not act on."""
    home = DataHome()
    with home.open() as logs:
        logs.create_topic("tides", 2, {"cleanup.policy": "compact"})
        for text in HOSTILE:
            data = text.encode()
            logs.append("tides", data, key=data, headers=[(text, data)], partition=0)
            logs.append("tides", b'{"a": "' + data.hex().encode() + b'"}', key=data, partition=1)
        logs.append("tides", b"\xff\xfe<b>", key=b"bytes", partition=0)
        logs.append("tides", None, key=b"gone", partition=0)
        for text in HOSTILE:
            with logs.reader("tides", group=text, partitions=[0]) as reader:
                next(iter(reader.read()))
                reader.commit()
    return home


@pytest.fixture(scope="module")
def visitor(home: DataHome) -> Visitor:
    """A browser on that directory."""
    return Visitor(home.path, fs=home.fs, clock=home.clock)


def text_of(texts: Iterable[str]) -> str:
    return "".join(texts)


def test_every_page_that_links_lead_to_answers(visitor: Visitor) -> None:
    """With 200, whole HTML, and links that lead to this console only."""
    visited = dict(visitor.crawl())

    assert len(visited) > 60
    assert {got.status for got in visited.values()} == {200}
    assert [(address, got.page.odd) for address, got in visited.items() if got.page.odd] == []


def test_nothing_from_outside_becomes_an_element(visitor: Visitor) -> None:
    """There is the console's own script and no other, no image, and nothing that a page runs."""
    visited = list(visitor.crawl())
    assert len(visited) > 60
    for address, got in visited:
        page = got.page
        assert page.tags.count("script") == 1, address
        assert "img" not in page.tags, address
        assert "iframe" not in page.tags, address
        assert "49" not in page.facts.values(), address
        assert "<script>alert" not in got.text, address


def test_what_is_hostile_is_shown_as_text(visitor: Visitor) -> None:
    """As it is, or as escapes where it is not printable."""
    texts = text_of(visitor.get("/topics/tides/0/records").page.texts)
    groups = text_of(visitor.get("/groups").page.texts)

    for text in HOSTILE:
        if text.isprintable():
            assert text in texts
            assert text in groups
    assert "\\x1b[2J\\x00\\x07" in texts
    assert "\\u202egnp.exe" in texts
    assert not any(sign in texts + groups for sign in "\x1b\x00\x07\u202e")


def test_a_group_is_found_by_any_name(visitor: Visitor) -> None:
    """The links of the list lead to each."""
    links = [one for one in visitor.get("/groups").page.links if one.startswith("/group?")]

    assert len(links) == len(HOSTILE)
    assert {visitor.get(link).status for link in links} == {200}


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("page", ["/topics?q=", "/groups?q=", "/topics/tides/0/records?text="])
def test_a_search_for_anything_is_a_text(visitor: Visitor, page: str, text: str) -> None:
    """It comes back in its field, escaped."""
    got = visitor.get(page + quote(text))

    assert got.status == 200
    assert got.page.odd == []
    assert got.page.tags.count("script") == 1


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize(
    "name",
    [
        *("..", ".", "%2e%2e", "..%2f..%2fetc", "%2fetc%2fpasswd", "tides%00", "nothing", "%"),
        *("__cluster_metadata", "tides-0", "a" * 5000, "%E2%80%AE", "tides%2F0", "%ff"),
    ],
)
def test_no_path_is_made_of_an_address(visitor: Visitor, page: str, name: str) -> None:
    """Only partitions that were found are opened; the rest is not there."""
    got = visitor.get(f"/topics/{name}/0{page}")

    assert got.status == 404
    assert got.page.odd == []


@pytest.mark.parametrize(
    "address",
    [
        *("/etc/passwd", "/static/../app.py", "/static/%2e%2e/app.py", "/static/app.py"),
        *("/static/", "/static/..%2fapp.py", "/templates/base.html", "/topics/", "//topics"),
    ],
)
def test_only_the_files_of_pages_are_served(visitor: Visitor, address: str) -> None:
    """By their names; there is no path to any other."""
    assert visitor.ask(address, host=HOST, cookie=COOKIE).status == 404


@pytest.mark.parametrize("name", ["console.css", "console.js", "icon.svg"])
def test_the_files_of_pages_have_their_types(visitor: Visitor, name: str) -> None:
    """And no browser guesses another one."""
    got = visitor.get(f"/static/{name}")

    assert got.status == 200
    assert got.headers["content-type"].split(";")[0] in {
        *("text/css", "text/javascript", "image/svg+xml"),
    }
    assert "://" not in got.text.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize(
    "address",
    [
        *("/topics/tides/-1", "/topics/tides/x", "/topics/tides/99999999999", "/topics/tides/0x0"),
        *("/topics/tides/0/records?from=x", "/topics/tides/0/records?from=99999999999999999999"),
        *("/topics/tides/0/records?time=soon", "/topics/tides/0/records?encoding=rot13"),
        *("/topics/tides/0/records?encoding=hex&key=xyz", "/topics?sort=colour"),
        *("/topics?order=sideways", "/topics?page=minus", "/topics/tides/0/batches?from=-5"),
        "/topics?q=" + "x" * 5000,
    ],
)
def test_what_cannot_be_asked_is_a_bad_request(visitor: Visitor, address: str) -> None:
    """With a page that says why."""
    got = visitor.get(address)

    assert got.status == 400
    assert got.page.odd == []


def test_fields_that_nobody_knows_are_ignored(visitor: Visitor) -> None:
    """With any name."""
    for fields in ("self=1", "path=2&parts=3", "key=4&by=5", "%00=6", "how=7&__class__=8"):
        assert visitor.get(f"/topics?{fields}").status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_a_page_takes_no_other_method(visitor: Visitor, method: str) -> None:
    """Not even with the cookie."""
    assert visitor.get("/topics", method).status == 405


def test_who_has_no_token_learns_nothing(visitor: Visitor) -> None:
    """No page, no file of a page, and no difference between what is there and what is not."""
    answers = {
        visitor.get(address, cookie="").text
        for address in ("/topics", "/topics/tides/0", "/topics/none/0", "/static/console.js")
    }

    assert len(answers) == 1
    assert "tides" not in answers.pop()
    assert visitor.get("/topics", host="evil.example").status == 400


def test_every_response_has_the_headers(visitor: Visitor) -> None:
    """Pages, files, refusals, redirects."""
    got = [
        visitor.get("/topics"),
        visitor.get("/none"),
        visitor.get("/static/console.css"),
        visitor.get("/topics", "POST"),
        visitor.get("/?token=a-token-of-tests", cookie=""),
        visitor.get("/topics", cookie=""),
    ]

    assert [one.status for one in got] == [200, 404, 200, 405, 303, 403]
    assert all(HEADERS.items() <= one.headers.items() for one in got)


def test_the_keyboard_is_enough(visitor: Visitor) -> None:
    """A link skips to the content, each table has a caption, and each page one first heading."""
    for address in ("/topics", "/partitions", "/groups", "/topics/tides/0", "/service"):
        page = visitor.get(address).page
        assert page.links[0] == "#main", address
        assert "main" in page.ids
        assert page.tags.count("h1") == 1, address
        assert page.tags.count("table") == page.tags.count("caption"), address


def test_search_by_key_text_and_offset_finds_records(visitor: Visitor) -> None:
    """What is found is what the record filter of cat finds."""

    def offsets(fields: str) -> list[str]:
        page = visitor.get(f"/topics/tides/0/records?{fields}").page
        return [row[0] for row in page.rows if row and row[0].isdecimal()]

    assert offsets("key=gone") == ["11"]
    assert offsets("text=alert") == ["0", "1", "2", "5"]
    assert offsets("key=676f6e65&encoding=hex") == ["11"]
    assert offsets("from=9") == ["9", "10", "11"]
    assert offsets("key=none") == []


def test_a_search_names_its_command_and_the_usual_partition_of_the_key(visitor: Visitor) -> None:
    """A user who has a key alone cannot know the partition."""
    fields = "from=3&time=2h&key=gone&text=a.b&committed=1"
    page = visitor.get(f"/topics/tides/0/records?{fields}")
    options = "--from=3 --since=2h --key=gone '--grep=a\\.b' --isolation=read_committed"
    assert f"{options} tides -p 0" in text_of(page.page.texts)
    usual = partition_for_key(b"gone", 2)

    pages = [visitor.get(f"/topics/tides/{number}/records?key=gone") for number in (0, 1)]

    named = ["Clients usually put this key into" in page.text for page in pages]
    assert named == [usual != 0, usual != 1]
    assert f"/topics/tides/{usual}/records?key=gone" in pages[1 - usual].page.links


def test_json_is_folded_and_bytes_are_hex(visitor: Visitor) -> None:
    """In a list, and in the page of one record."""
    folded = visitor.get("/topics/tides/1/records").text
    dump = text_of(visitor.get("/topics/tides/0/records/10").page.texts)

    assert "<details><summary>" in folded
    assert "00000000  ff fe 3c 62 3e" in dump


def test_a_search_is_bounded_and_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page searches a part of a log; its link begins where that ended, and leads to the rest."""
    home = DataHome()
    with home.open() as logs:
        logs.create_topic("t", 1, {"internal.segment.bytes": "200"})
        for number in range(20):
            logs.append("t", b"x" * 100, key=b"%d" % number)
    monkeypatch.setattr("tidelog.console.record_pages.SEARCHED_BYTES", 300)
    visitor = Visitor(home.path, fs=home.fs, clock=home.clock)
    address, pages = "/topics/t/0/records?key=18", 0

    while (got := visitor.get(address)).text.find("Search on") >= 0:
        [address] = [one for one in got.page.links if "key=18" in one and "from=" in one][-1:]
        pages += 1

    assert pages > 3
    assert [row[0] for row in got.page.rows][-1:] == ["18"]


def test_an_error_of_the_disk_is_a_page(visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is shown as what it is, and no page fails."""

    def fail(*_: object, **__: object) -> None:
        raise KafkaStorageError("disk <on> fire")

    monkeypatch.setattr(visitor.room.desk.survey.directory, "open", fail)

    for page in PAGES:
        got = visitor.get(f"/topics/tides/0{page}")
        assert got.status == 200, page
        assert got.page.odd == [], page
    assert "disk &lt;on&gt; fire" in visitor.get("/topics/tides/0").text
