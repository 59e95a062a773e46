"""The request log: a line for each answer to a client, with the times of its phases."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import TYPE_CHECKING

import pytest
from tests.machinery.broker_line import (
    Line,
    fetch,
    frame,
    numbers,
    produce,
    settled,
    with_home,
)

from tidelog.codec.protocol.apis import SIZE_BYTES, api_named, size_of_frame

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.machinery.broker_home import BrokerHome


def request_lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, str]]:
    """Return the values of each line of the request log."""
    lines = [text for text in caplog.messages if text.startswith("request-answered ")]
    return [dict(re.findall(r"(\w+)=('.*?'|\S+)", line)) for line in lines]


def test_each_answer_is_logged_with_its_times_where_that_is_wanted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Those of a fetch that waits for a record, and of others; with what was asked by whom."""
    waiting = fetch(3, 60_000)

    async def test(home: BrokerHome) -> None:
        line = Line(home)
        line.feed(frame("ApiVersions", 0, 1))
        assert "request-answered" not in caplog.text
        with caplog.at_level(logging.DEBUG, "tidelog.broker.requests"):
            line.feed(frame("ApiVersions", 0, 2) + waiting)
            await asyncio.sleep(0.02)
            line.feed(frame("ApiVersions", 3, 4))
            await home.produce("t", b"a")
            await settled()
        assert numbers(line) == [1, 2, 3, 4]

    with_home(test)
    found = request_lines(caplog)
    asked = [(one["request"], one["version"]) for one in found]
    assert asked == [("ApiVersions", "0"), ("Fetch", "12"), ("ApiVersions", "3")]
    assert {(one["host"], one["client_id"]) for one in found} == {("127.0.0.1", "'me'")}
    assert [float(one["remote_time_ms"]) >= 20 for one in found] == [False, True, False]
    assert int(found[1]["request_bytes"]) == len(waiting) - SIZE_BYTES


def test_the_request_log_tells_the_wait_for_others_from_that_for_the_socket(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that is ready waits for a flush before it, then both for a client that reads."""
    flushed: list[Callable[[None], None]] = []

    async def test(home: BrokerHome) -> None:
        monkeypatch.setattr(home.broker._flushes, "begin", lambda _, ended: flushed.append(ended))
        line = Line(home, most=1)
        with caplog.at_level(logging.DEBUG, "tidelog.broker.requests"):
            line.feed(produce(1, acks=-1) + frame("ApiVersions", 0, 2))
            await asyncio.sleep(0.02)
            flushed[0](None)
            await asyncio.sleep(0.02)
            assert "request-answered" not in caplog.text
            line.wire.drain()
        sizes = [int(one["response_bytes"]) for one in request_lines(caplog)]
        assert sizes == [len(answer) for answer in line.answers()]

    with_home(test)
    names = ["local", "remote", "response_queue", "response_send", "total"]
    times = [[float(one[f"{n}_time_ms"]) for n in names] for one in request_lines(caplog)]
    waits = [[one >= 20 for one in found[1:4]] for found in times]
    assert waits == [[True, False, True], [False, True, True]]
    for found in times:
        assert found[-1] == pytest.approx(sum(found[:-1]), abs=0.01)


def test_the_request_log_shows_what_clients_say_of_themselves_on_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A client id may have any signs, and thousands; a request without an answer has no bytes."""
    name = "a\nb\x1b" + "c" * 1000

    async def test(home: BrokerHome) -> None:
        api, line = api_named("ApiVersions"), Line(home, most=1)
        parts = [api.request_header(0, 7, name), *api.write_request(0, {})]
        with caplog.at_level(logging.DEBUG, "tidelog.broker.requests"):
            line.feed(produce(1, acks=0) + size_of_frame(parts) + b"".join(parts))
            line.connection.close()

    with_home(test)
    found = request_lines(caplog)
    assert [one["client_id"] for one in found] == ["'me'", f"'a\\nb\\x1b{'c' * 96}'"]
    assert [int(one["response_bytes"]) > 0 for one in found] == [False, True]
    assert float(found[0]["response_send_time_ms"]) == 0
