"""Requests that are none: the connection ends, once those before them are answered."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from tests.machinery.broker_line import Line, frame, numbers, produce, with_home

if TYPE_CHECKING:
    from tests.machinery.broker_home import BrokerHome


@pytest.mark.parametrize("wrong", [b"\xff\xff\xff\xff", b"\0\0\0\4abcd", b"GET / HTTP/1.1\r\n\r\n"])
@pytest.mark.parametrize("acks", [1, -1])
def test_what_came_before_a_wrong_request_is_answered(acks: int, wrong: bytes) -> None:
    """Else its client would send records again that are in the log; what follows is not taken."""

    async def test(home: BrokerHome) -> None:
        line = Line(home)
        with suppress(BlockingIOError):
            line.feed(produce(1, acks=acks) + wrong + produce(2, acks=0), most=70_000)
        async with asyncio.timeout(30):
            while not line.wire.is_closed:  # noqa: ASYNC110 - nothing rings
                await asyncio.sleep(0)
        assert numbers(line) == [1]
        assert home.logs.partition("t", 0).log.log_end_offset == 1

    with_home(test)


def test_a_slow_reader_gets_the_answers_before_its_wrong_request() -> None:
    """The connection ends once the socket has taken them, or it is idle."""

    async def test(home: BrokerHome) -> None:
        line = Line(home, most=1)
        line.feed(produce(1) + frame("ApiVersions", 0, 2) + b"\xff\xff\xff\xff")
        assert not line.wire.is_closed
        line.wire.drain()
        assert numbers(line) == [1, 2]
        assert line.wire.is_closed

    with_home(test)
