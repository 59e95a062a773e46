"""Every page with every field that pages have, whatever its value is."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING
from urllib.parse import quote_from_bytes, urlencode

import pytest
from tests.machinery.console_visitor import COOKIE, HOST, Visitor
from tests.machinery.directory_home import DataHome
from tests.machinery.scale import scaled

if TYPE_CHECKING:
    from tests.conftest import Enumerated

PAGES = (
    *("/topics", "/partitions", "/groups", "/group", "/service", "/topics/t", "/topics/t/0"),
    *("/topics/t/0/records", "/topics/t/0/records/0", "/topics/t/0/batches"),
    *("/topics/t/0/transactions", "/topics/t/0/plans", "/topics/t/0/check"),
)
FIELDS = (
    *("name", "q", "sort", "order", "page", "from", "until", "time", "key", "text", "encoding"),
    *("committed", "offset", "token2", "__class__", ""),
)
WHOLE = (
    "0",
    "1",
    "-1",
    "7" * 19,
    "9" * 400,
    "1e308",
    "0x10",
    "\u0663",
    "1,000",
    "1\u0661",
    "NaN",
    "-0",
    " 5 ",
)
WORDS = (
    "",
    "size",
    "desc",
    "asc",
    "hex",
    "base64",
    "utf-8",
    "json",
    "now",
    "1h",
    "2026-01-01",
    "∞",
)
HOSTILE = (
    *('"><script>alert(1)</script>', "{{7*7}}", "../../etc/passwd", "a\r\nSet-Cookie: b=c", "\0"),
    *("\u202e", "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"), "%s%n", "*" * 4096),
    *("(" * 4000, "(a+)+$" * 100, "[" * 4000, '{"a":' * 800, "x" * 5000, "\\" * 4000),
)


@pytest.fixture(scope="module")
def visitor() -> Visitor:
    """A browser on a directory with records of several forms."""
    home = DataHome()
    with home.open() as logs:
        logs.create_topic("t", 1, {"internal.segment.bytes": "9000"})
        for value in (b"plain", b'{"a": [1, {"b": null}]}', b"\xff\x00", b"(" * 3000, b"[" * 3000):
            logs.append("t", value, key=value[:9], headers=[("h", value)])
        with logs.reader("t", group="g") as reader:
            next(iter(reader.read()))
            reader.commit()
    return Visitor(home.path, fs=home.fs, clock=home.clock)


def check(visitor: Visitor, page: str, query: str) -> None:
    """Ask for a page: it is whole, and 200, 400 or 404."""
    got = visitor.ask(page, query, host=HOST, cookie=COOKIE)
    assert got.status in {200, 400, 404}, (page, query[:200])
    assert got.page.odd == [], (page, query[:200])
    assert got.page.tags.count("script") == 1, (page, query[:200])
    assert "set-cookie" not in got.headers


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_a_page_takes_or_refuses_any_value(
    page: str, visitor: Visitor, enumerated: Enumerated
) -> None:
    """Of any field, alone: numbers that are none, words of other fields, markup, nesting."""
    values = (*WHOLE, *WORDS, *HOSTILE)
    for name in FIELDS:
        for value in values:
            check(visitor, page, urlencode({name: value}))
    enumerated("values", len(FIELDS) * len(values), at_least=500)


@pytest.mark.parametrize("seed", range(scaled(4)))
def test_a_page_takes_or_refuses_any_query(
    seed: int, visitor: Visitor, enumerated: Enumerated
) -> None:
    """Fields together, twice, and bytes that no text has."""
    rng = Random(seed)
    for _ in range(60):
        fields = [
            (rng.choice(FIELDS), rng.choice(rng.choice((WHOLE, WORDS, HOSTILE))))
            for _ in range(rng.randrange(1, 6))
        ]
        query = urlencode(fields)
        if rng.random() < 0.3:
            query += f"&{rng.choice(FIELDS)}={quote_from_bytes(rng.randbytes(20))}"
        if rng.random() < 0.1:
            query = "".join(chr(rng.randrange(33, 127)) for _ in range(60)).replace("token", "")
        check(visitor, rng.choice(PAGES), query)
    enumerated("queries", 60, at_least=60)
