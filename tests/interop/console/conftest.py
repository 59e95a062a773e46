"""Consoles in processes of their own, over real directories."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import pytest

import tidelog
from tidelog.env.clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    import signal
    from collections.abc import Iterator

COMMAND = str(Path(sys.executable).with_name("tidelog"))
HOUR_MS = 3_600_000


class Response(NamedTuple):
    """What a console has answered."""

    status: int
    headers: dict[str, str]
    text: str


class Console:
    """A running console, and a browser without a window."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process = process
        self.address = address
        split = urlsplit(address)
        self.host, self.port = split.hostname or "", split.port or 0
        self.token = split.query.partition("=")[2]
        entered = self.get(f"/?{split.query}", cookie="")
        self.cookie = entered.headers["set-cookie"].partition(";")[0]

    def get(
        self, path: str, method: str = "GET", *, host: str = "", cookie: str | None = None
    ) -> Response:
        """Ask for a path, as it is written, over a connection of its own."""
        connection = HTTPConnection(self.host, self.port, timeout=60)
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        connection.putheader("Host", host or f"{self.host}:{self.port}")
        own = self.cookie if cookie is None else cookie
        if own:
            connection.putheader("Cookie", own)
        connection.endheaders()
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return Response(
            answer.status, {name.lower(): value for name, value in answer.getheaders()}, text
        )

    def stop(self, number: signal.Signals) -> int:
        """Send a signal; return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(timeout=30)


@contextmanager
def console_on(*words: str | Path) -> Iterator[Console]:
    """Run ``tidelog console`` with these words."""
    process = subprocess.Popen(
        [COMMAND, "console", *map(str, words)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield Console(process, process.stdout.readline().strip())
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture(scope="session")
def tides(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory to look at: several topics, and a group that is behind."""
    data = tmp_path_factory.mktemp("tides") / "data"
    now_ms = SYSTEM_CLOCK.now_ms()
    ports = ("Harwich", "Dover", "Leith", "Penzance")
    settings = {
        "internal.segment.bytes": "24000",
        "retention.ms": str(6 * HOUR_MS),
        "compression.type": "lz4",
    }
    with tidelog.open(data) as logs:
        logs.create_topic("tides", 3, settings)
        logs.create_topic("berths", 1, {"cleanup.policy": "compact"})
        logs.create_topic("alarms", 1)
        for start in range(0, 6000, 40):
            with logs.writer("tides") as writer:
                for number in range(start, start + 40):
                    value = {"port": ports[number % 4], "metres": round(2 + number % 7 / 3, 2)}
                    value |= {"at": {"hour": number % 24, "minute": 15}, "berths": [1, 4, 7]}
                    writer.append(
                        json.dumps(value).encode(),
                        key=ports[number % 4].encode(),
                        timestamp=now_ms - (6000 - number) * 6_000,
                        headers=[("source", b"gauge")],
                    )
        for number in range(80):
            logs.append("berths", b"free", key=b"berth %d" % (number % 8))
        logs.append("alarms", b"\x00\x01\xfe\xff binary \x7f", key=b"\xff")
        with logs.reader("tides", group="harbour office") as reader:
            for _ in zip(range(200), reader.read(), strict=False):
                continue
            reader.commit()
    return data
