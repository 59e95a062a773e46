"""A connection of a broker by hand: bytes that arrive, and what is written."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.machinery.broker_home import BrokerHome, run

from tidelog.broker.connection import Connection
from tidelog.broker.room import Room
from tidelog.codec.protocol.apis import SIZE_BYTES, api_named, frame_size, size_of_frame
from tidelog.records.builder import build_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


class Wire:
    """A transport that keeps what is written; it blocks after ``most`` bytes until drained."""

    def __init__(self, most: int = 1 << 30) -> None:
        self.written = bytearray()
        self.is_closed = False
        self.is_reading = True
        self.unsent_bytes = 0
        self._most = most
        self._left = most
        self.protocol: Connection | None = None

    def get_extra_info(self, name: str) -> Any:  # noqa: ANN401 - as asyncio's
        """Return the addresses of both ends."""
        return {"peername": ("127.0.0.1", 5), "sockname": ("127.0.0.1", 9092)}.get(name)

    def set_write_buffer_limits(self, *, high: int) -> None:
        """Take note of nothing: it blocks by itself."""
        assert high == 0

    def get_write_buffer_size(self) -> int:
        """Return how much the socket has not taken."""
        return self.unsent_bytes

    def write(self, data: bytes) -> None:
        """Keep bytes."""
        assert not self.is_closed
        self.written += data
        self._left -= len(data)
        if self._left <= 0 and self.protocol is not None:
            self.protocol.pause_writing()

    def drain(self) -> None:
        """Let more be written."""
        self._left = self._most
        if self.protocol is not None:
            self.protocol.resume_writing()

    def pause_reading(self) -> None:
        """Stop reading."""
        assert self.is_reading
        self.is_reading = False

    def resume_reading(self) -> None:
        """Continue to read."""
        assert not self.is_reading
        self.is_reading = True

    def abort(self) -> None:
        """Close."""
        if not self.is_closed:
            self.is_closed = True
            assert self.protocol is not None
            self.protocol.connection_lost(None)


class Line:
    """A connection to a broker, with its wire."""

    def __init__(self, home: BrokerHome, room: Room | None = None, most: int = 1 << 30) -> None:
        self.room = room or Room(home.config)
        self.wire = Wire(most)
        self.connection = Connection(home.broker.dispatcher, self.room)
        self.wire.protocol = self.connection
        self.connection.connection_made(self.wire)
        self._number = 0

    def feed(self, data: bytes, most: int = 1 << 30) -> None:
        """Let bytes arrive, at most ``most`` at a time."""
        at = 0
        while at < len(data) and not self.wire.is_closed:
            if not self.wire.is_reading:
                raise BlockingIOError
            buffer = memoryview(self.connection.get_buffer(-1))
            assert buffer
            count = min(len(buffer), most, len(data) - at)
            buffer[:count] = data[at : at + count]
            self.connection.buffer_updated(count)
            at += count

    def answers(self) -> list[bytes]:
        """Return the responses that were written in full."""
        found, at = [], 0
        while at + SIZE_BYTES <= len(self.wire.written):
            end = at + SIZE_BYTES + frame_size(self.wire.written, at)
            found.append(bytes(self.wire.written[at + SIZE_BYTES : end]))
            at = end
        return found


def frame(name: str, version: int, number: int = 7, **values: Any) -> bytes:  # noqa: ANN401 - the fields of any request
    """Return the bytes of a request."""
    api = api_named(name)
    parts = [api.request_header(version, number, "me"), *api.write_request(version, values)]
    return size_of_frame(parts) + b"".join(parts)


def numbers(line: Line) -> list[int]:
    """Return the correlation ids of the responses, in order."""
    return [frame_size(answer, 0) for answer in line.answers()]


def produce(number: int, size: int = 10, acks: int = 1, topic: str = "t") -> bytes:
    """Return a request with one record."""
    records = build_batch([(1, None, bytes(size), ())])
    data = [{"name": topic, "partitionData": [{"index": 0, "records": records}]}]
    return frame("Produce", 9, number, acks=acks, timeoutMs=1, topicData=data)


def fetch(number: int, wait_ms: int, offset: int = 0, times: int = 1) -> bytes:
    """Return a request for records that waits for some, and names their partition ``times``."""
    given = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": 1 << 20}
    topics = [{"topic": "t", "partitions": [given] * times}]
    return frame("Fetch", 12, number, maxWaitMs=wait_ms, minBytes=1, topics=topics)


def with_home(
    test: Callable[[BrokerHome], Coroutine[Any, Any, None]],
    **settings: Any,  # noqa: ANN401 - ``ServeConfig`` checks them
) -> None:
    """Run a test at a broker with one topic, ``t``."""

    async def scenario() -> None:
        async with BrokerHome(**settings) as home:
            home.create_with_epoch("t")
            await test(home)

    run(scenario())


async def settled() -> None:
    """Let everything happen that can happen now."""
    for _ in range(20):
        await asyncio.sleep(0)
