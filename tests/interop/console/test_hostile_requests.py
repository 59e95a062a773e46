"""Requests that no browser of its user sends to a console, over real sockets."""

from __future__ import annotations

import shutil
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.interop.console.beside import TABS, read
from tests.interop.console.conftest import console_on

from tidelog.env.waiting import sleep_ms

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.interop.console.conftest import Console

LARGE = 10 << 20
MIB = 1 << 20


@pytest.fixture(scope="module")
def console(tides: Path) -> Iterator[Console]:
    """A console over the directory of tides."""
    with console_on("-d", tides) as running:
        yield running


def send(console: Console, data: bytes) -> bytes:
    """Send bytes on a connection of their own; return the answer until its end."""
    found = b""
    with socket.create_connection((console.host, console.port), timeout=60) as made:
        try:
            made.sendall(data)
            made.shutdown(socket.SHUT_WR)
            while got := made.recv(65536):
                found += got
        except (ConnectionResetError, BrokenPipeError):  # closed while it is sent
            pass
    return found


def request(console: Console, target: bytes, *headers: bytes, host: bytes = b"") -> bytes:
    """Send a request as it is written; return the answer."""
    own = host or f"{console.host}:{console.port}".encode()
    lines = [b"GET " + target + b" HTTP/1.1", b"Host: " + own, *headers, b"Connection: close"]
    return send(console, b"\r\n".join(lines) + b"\r\n\r\n")


def status(answer: bytes) -> int:
    """Return the status of an answer; 0: the connection was closed without one."""
    return int(answer.split()[1]) if answer else 0


def cookie_of(console: Console) -> bytes:
    return b"Cookie: " + console.cookie.encode()


def resident_bytes(console: Console) -> int:
    pages = Path(f"/proc/{console.process.pid}/statm").read_text().split()[1]
    return int(pages) * 4096


@pytest.mark.skipif(sys.platform != "linux", reason="memory is looked up in /proc")
@pytest.mark.parametrize("where", ["query", "path", "cookie", "header", "headers", "body"])
def test_what_is_too_large_is_refused(console: Console, where: str) -> None:
    """10 MiB of anything end that connection, take no memory, and the next page answers."""
    assert console.get("/topics").status == 200
    before, much = resident_bytes(console), b"x" * LARGE
    many = [b"X-%d: y" % number for number in range(LARGE // 16)]

    answer = {
        "query": lambda: request(console, b"/topics?q=" + much, cookie_of(console)),
        "path": lambda: request(console, b"/topics/" + much, cookie_of(console)),
        "cookie": lambda: request(console, b"/topics", b"Cookie: a=" + much),
        "header": lambda: request(console, b"/topics", b"X-Long: " + much),
        "headers": lambda: request(console, b"/topics", *many),
        "body": lambda: send(
            console, b"GET /topics HTTP/1.1\r\nHost: a\r\nContent-Length: 10485760\r\n\r\n" + much
        ),
    }[where]()

    assert status(answer) in {0, 400, 414, 431}
    assert console.get("/topics").status == 200
    assert resident_bytes(console) - before < 32 * MIB


@pytest.mark.parametrize(
    "host",
    [
        *(b"evil.example", b"127.0.0.1.evil.example", b"localhost.evil.example:80", b"evil\\x"),
        *(b"localhost@evil.example", b"evil.example#127.0.0.1", b"2130706433", b"0x7f.1", b"127.1"),
        *(b"[::1].evil.example", b"192.168.0.1", b"0.0.0.0", b"localhost:80:80", b"localhost,evil"),
        *(b"xn--lcalhost-n4a", b"localhost.", b"127.0.0.1%2f", b"localhost:99999999"),
    ],
)
def test_another_name_for_this_machine_is_refused(console: Console, host: bytes) -> None:
    """A page of that name, whose address is changed to loopback, gets no answer of the console.

    Not with the cookie either, and whatever a proxy may say.
    """
    forwarded = b"X-Forwarded-Host: localhost", b"Forwarded: host=localhost"
    answer = request(console, b"/topics", cookie_of(console), *forwarded, host=host)

    assert status(answer) == 400
    assert b"tides" not in answer


def test_a_target_with_a_host_is_no_page(console: Console) -> None:
    """Nor is it asked for there; a request has one Host."""
    for target in (b"http://evil.example/topics", b"//evil.example/topics", b"evil.example:80"):
        assert status(request(console, target, cookie_of(console))) in {400, 404}, target
    answer = request(console, b"/topics", cookie_of(console), b"Host: evil.example")
    assert status(answer) == 400


def test_a_wrong_cookie_or_token_opens_nothing(console: Console) -> None:
    """Part of it, more than it, another name, or one that cannot be read."""
    name, _, token = console.cookie.partition("=")
    wrong = [
        *(token[:-1], token + "a", token.lower() + "0", "", '"', "\\" * 2000, "=" * 2000, "a;b=c"),
        *(token[::-1], "%00" + token, "null", "undefined", '"' + "\\3" * 1000),
    ]
    for text in wrong:
        assert status(request(console, b"/topics", f"Cookie: {name}={text}".encode())) == 403, text
        assert status(request(console, b"/topics?token=" + text.encode().hex().encode())) == 403
    for cookies in (f"x{name}={token}", f"{name.upper()}={token}", f"{name}-1={token}", ",;=,;"):
        assert status(request(console, b"/topics", f"Cookie: {cookies}".encode())) == 403, cookies
    assert status(request(console, b"/topics", cookie_of(console))) == 200


@pytest.mark.parametrize(
    "path",
    [
        *("/../../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/static/....//app.py"),
        *(
            "/static/..%5capp.py",
            "/static/console.css%00.py",
            "/static/console.css/",
            "/static/%2f",
        ),
        *("/topics/..%2f..%2fetc/0/records", "/topics/tides/..%2f0", "/topics/tides/0%00"),
        *("/topics/tides/0/../../../x", "/topics/tides/0;x=1", "/topics/tides//0", "/./topics"),
        *("/topics/%c0%ae%c0%ae/0", "/topics/tides/%F0%9F%8C%8A", "/topics/tides/0/records/..%2f0"),
        *("/topics\\..\\x", "/%5c%5cevil.example", "/topics/tides/0/records/-0", "/favicon.ico"),
    ],
)
def test_a_path_leads_out_of_nothing(console: Console, path: str) -> None:
    """There is a page of the console, or none; never a file of the machine."""
    answer = request(console, path.encode(), cookie_of(console))

    assert status(answer) in {400, 404}
    assert b"root:" not in answer
    assert b"import" not in answer


def test_pages_answer_while_their_directory_vanishes(tides: Path, tmp_path: Path) -> None:
    """A partition, a topic, all of it: pages say so, and show it again once it is back."""
    data, away = tmp_path / "data", tmp_path / "away"
    shutil.copytree(tides, data)
    names = ["/topics", "/partitions", "/groups", "/service", "/topics/tides"]
    names += [f"/topics/tides/0{tab}" for tab in TABS]
    odd = []

    def look(console: Console) -> None:
        for name in names:
            got = console.get(name)
            if got.status not in {200, 404} or read(got.text).odd:
                odd.append((name, got.status, got.text[:300]))

    with console_on("-d", data) as console:
        look(console)
        for path in sorted(data.glob("tides-0/*.log")):  # segment after segment
            path.unlink()
            look(console)
        for gone in (data / "tides-0", data / "tides-1", data):
            shutil.rmtree(gone)
            look(console)
        shutil.copytree(tides, away)
        away.rename(data)
        for _ in range(600):  # the list of an earlier look may be shown, or that look end last
            is_listed = ">tides<" in console.get("/topics").text
            if is_listed and console.get("/topics/tides/0/records").status == 200:
                break
            sleep_ms(100)
        else:
            pytest.fail("what is back is not shown")
        look(console)

    assert odd == []
