"""The console as a process: its address, who is answered, signals, and a writer beside it."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import time
from typing import TYPE_CHECKING

import pytest
from tests.interop.console.conftest import COMMAND, console_on

import tidelog
from tidelog.exit_codes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.interop.console.conftest import Console

ADDRESS = re.compile(r"http://127\.0\.0\.1:[0-9]+/\?token=[A-Za-z0-9_-]{32}")


@pytest.fixture(scope="module")
def console(tides: Path) -> Iterator[Console]:
    """A console over the directory of tides."""
    with console_on("-d", tides) as running:
        yield running


def run(*words: str | Path) -> tuple[int, str]:
    """Run a console that does not come to run; return its exit code and its error."""
    ended = subprocess.run(
        [COMMAND, "console", *map(str, words)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return ended.returncode, ended.stderr


def files_of(data: Path) -> dict[str, tuple[int, int, int]]:
    """Return size, time and inode of everything in a directory."""
    found = {}
    for path in [data, *data.rglob("*")]:
        stat = path.stat()
        found[str(path)] = stat.st_size, stat.st_mtime_ns, stat.st_ino
    return found


def test_the_printed_address_carries_a_token(console: Console) -> None:
    """On loopback, at a free port."""
    assert ADDRESS.fullmatch(console.address)
    assert console.get("/topics").status == 200


def test_two_consoles_have_two_tokens(console: Console, tides: Path) -> None:
    """One does not open the other."""
    with console_on("-d", tides) as other:
        assert other.token != console.token
        assert other.get("/topics", cookie=console.cookie).status == 403


def test_requests_that_are_not_its_own_are_refused(console: Console) -> None:
    """No token, another host, another method, a path outside."""
    assert console.get("/topics", cookie="").status == 403
    assert console.get("/?token=guess", cookie="").status == 403
    assert console.get("/topics", host="evil.example").status == 400
    assert console.get("/topics", "POST").status == 405
    assert console.get("/static/../../pyproject.toml").status == 404
    assert console.get("/topics/..%2f..%2fetc/0").status == 404


def test_a_tunnel_ends_at_another_port(console: Console) -> None:
    """The browser then names that one."""
    assert console.get("/topics", host="localhost:8080").status == 200


def test_head_has_no_content(console: Console) -> None:
    """Its headers are those of the page."""
    got = console.get("/topics", "HEAD")

    assert (got.status, got.text) == (200, "")
    assert "content-security-policy" in got.headers
    assert "server" not in got.headers


def test_what_is_not_http_ends_the_connection_only(console: Console) -> None:
    """The next request is answered."""
    for data in (b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"):
        with socket.create_connection((console.host, console.port), timeout=30) as made:
            made.sendall(data)
            made.shutdown(socket.SHUT_WR)
            while made.recv(4096):
                continue

    assert console.get("/topics").status == 200


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, ExitCode.INTERRUPTED), (signal.SIGTERM, ExitCode.TERMINATED)],
)
def test_a_signal_ends_it_at_once(tides: Path, number: signal.Signals, code: ExitCode) -> None:
    """Also while a connection is open."""
    with (
        console_on("-d", tides) as running,
        socket.create_connection((running.host, running.port), timeout=30),
    ):
        began = time.monotonic()

        assert running.stop(number) == code
        assert time.monotonic() - began < 10


def test_other_hosts_than_loopback_need_a_word(tides: Path) -> None:
    """The message says what could happen."""
    code, error = run("-d", tides, "--listen", "0.0.0.0:0")

    assert code == ExitCode.BAD_USAGE
    assert "can be reached from other machines" in error
    assert "add --insecure" in error
    with console_on("-d", tides, "--listen", "0.0.0.0:0", "--insecure") as running:
        assert running.get("/topics", host="192.168.7.7:80").status == 200
        assert running.get("/topics", host="evil.example").status == 400


def test_what_cannot_be_served_is_an_error(tides: Path, tmp_path: Path, console: Console) -> None:
    """A directory that is none, an address that is none, and one that is in use."""
    assert run("-d", tmp_path / "none")[0] == ExitCode.BAD_USAGE
    assert run("-d", tides, "--listen", "nonsense")[0] == ExitCode.BAD_USAGE
    code, error = run("-d", tides, "--listen", f"127.0.0.1:{console.port}")
    assert code == ExitCode.FAILED
    assert f"127.0.0.1:{console.port}" in error


def test_the_directory_of_a_partition_stands_for_the_one_above(tides: Path) -> None:
    """All of it is shown, once."""
    with console_on(tides / "tides-0", tides / "tides-1") as running:
        got = running.get("/partitions")

    assert "alarms-0" in got.text
    assert got.text.count(">tides-1</a>") == 1


def test_nothing_is_changed_and_nothing_locked(tides: Path) -> None:
    """After many pages every file is what it was; a writer opens the directory meanwhile."""
    before = files_of(tides)
    with console_on("-d", tides) as running:
        for page in ("", "/records", "/batches", "/transactions", "/plans", "/check"):
            assert running.get(f"/topics/tides/0{page}").status == 200
        assert running.get("/service").status == 200
        after = files_of(tides)
        with tidelog.open(tides) as logs:
            assert "tides" in logs.topics()

    assert after == before


def test_pages_follow_a_running_writer(tmp_path: Path) -> None:
    """Each page answers while records come, segments roll, topics come and go."""
    data = tmp_path / "data"
    pages = ("/topics", "/partitions", "/topics/live/0", "/topics/live/0/records", "/service")
    ends = []
    with tidelog.open(data) as logs:
        logs.create_topic("live", 1, {"internal.segment.bytes": "2000", "retention.bytes": "9000"})
        with console_on("-d", data) as running:
            for number in range(15):
                for _ in range(20):
                    logs.append("live", b"x" * 50)
                if number % 5 == 0:
                    logs.create_topic(f"brief-{number}", 1)
                if number % 5 == 3:
                    logs.delete_topic(f"brief-{number - 3}")
                got = [running.get(page) for page in pages]
                assert {one.status for one in got} == {200}
                [end] = re.findall(r"<dt>Log end</dt><dd>([0-9,]+)</dd>", got[2].text)
                ends.append(int(end.replace(",", "")))

    assert ends == [20 * number for number in range(1, 16)]
