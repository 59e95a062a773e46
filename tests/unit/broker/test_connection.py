"""Connections: bytes in pieces of any size, answers in order, limits."""

from __future__ import annotations

import asyncio
import errno
import random
import tracemalloc
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from tests.machinery.broker_home import BrokerHome, held, read
from tests.machinery.broker_line import (
    Line,
    Wire,
    fetch,
    frame,
    numbers,
    produce,
    settled,
    with_home,
)

from tidelog.broker.client_request import Address
from tidelog.broker.connection import Connection, LocalConnection
from tidelog.broker.room import Room
from tidelog.codec.protocol.apis import api_named, size_of_frame
from tidelog.codec.varint import write_unsigned_varint
from tidelog.records.file_records import FileSlice

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.conftest import Enumerated

MIB = 1 << 20


def holders(home: BrokerHome) -> int:
    """Return how many hold the file of the log."""
    with home.logs.partition("t", 0).log.read(0) as found:
        assert found.slice is not None
        return found.slice.file.holders


@pytest.mark.parametrize("most", [1, 2, 3, 7, 64, 1000, 70_000])
def test_requests_arrive_in_pieces_of_any_size(most: int) -> None:
    """Byte by byte, several together, larger than the buffer, and one after the other."""

    async def test(home: BrokerHome) -> None:
        line = Line(home)
        sizes = (10, 200_000 if most > 10 else 500, 0, 70_000 if most > 10 else 90, 10)
        data = b"".join(produce(number, size) for number, size in enumerate(sizes))
        line.feed(data + frame("ApiVersions", 0, 99), most)
        assert numbers(line) == [0, 1, 2, 3, 4, 99]
        assert home.logs.partition("t", 0).log.log_end_offset == 5

    with_home(test)


def test_answers_come_in_the_order_of_the_requests() -> None:
    """Though some wait for a flush and some do not."""

    async def test(home: BrokerHome) -> None:
        line = Line(home)
        acks = [1, -1, 1, -1, -1, 1]
        line.feed(b"".join(produce(number, acks=one) for number, one in enumerate(acks)))
        async with asyncio.timeout(30):
            while len(numbers(line)) < len(acks):  # noqa: ASYNC110 - nothing rings
                await asyncio.sleep(0)
        assert numbers(line) == list(range(6))

    with_home(test)


def test_a_fetch_that_waits_holds_back_what_follows_it() -> None:
    """As with Kafka, a connection has its answers one after the other."""

    async def test(home: BrokerHome) -> None:
        line = Line(home)
        line.feed(fetch(1, 60_000) + frame("ApiVersions", 0, 2))
        await settled()
        assert numbers(line) == []
        await home.produce("t", b"a")
        await settled()
        assert numbers(line) == [1, 2]

    with_home(test)


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xff\xff\xff",
        b"\x7f\xff\xff\xff",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + bytes(500),
        b"\0\0\0\4abcd",
    ],
)
def test_a_stranger_hurts_only_its_own_connection(data: bytes) -> None:
    """A size that is none, another protocol, TLS, bytes that are not a request."""

    async def test(home: BrokerHome) -> None:
        room = Room(home.config)
        line, other = Line(home, room), Line(home, room)
        line.feed(data)
        assert line.wire.is_closed
        assert room.connections == {other.connection}
        other.feed(frame("ApiVersions", 0, 3))
        assert numbers(other) == [3]

    with_home(test)


def test_there_are_as_many_connections_as_are_allowed() -> None:
    """One more is closed at once, and there is room again when one has left."""

    async def test(home: BrokerHome) -> None:
        room = Room(home.config)
        lines = [Line(home, room) for _ in range(3)]
        assert [line.wire.is_closed for line in lines] == [False, False, True]
        lines[0].connection.close()
        assert not Line(home, room).wire.is_closed

    with_home(test, max_connections=2)


def test_large_requests_wait_for_room() -> None:
    """All connections together hold no more than they may; nothing is lost."""

    async def test(home: BrokerHome) -> None:
        room = Room(home.config)
        first, second = Line(home, room), Line(home, room)
        large = produce(1, 150_000)
        first.feed(large[:100_000])
        with pytest.raises(BlockingIOError):
            second.feed(large)
        assert not second.wire.is_reading
        first.feed(large[100_000:])
        assert numbers(first) == [1]
        assert second.wire.is_reading

    with_home(test, socket_request_max_bytes=200_000, queued_max_request_bytes=200_000)


def test_a_large_request_holds_room_until_it_is_answered() -> None:
    """Its records wait in memory for a partition that is held."""

    async def test(home: BrokerHome) -> None:
        room = Room(home.config)
        first, second = Line(home, room), Line(home, room)
        large = produce(1, 150_000)
        with held(home):
            first.feed(large)
            with pytest.raises(BlockingIOError):
                second.feed(large)
            assert not numbers(first)
        async with asyncio.timeout(10):
            while not second.wire.is_reading:  # noqa: ASYNC110 - nothing rings
                await asyncio.sleep(0)
        assert numbers(first) == [1]

    with_home(test, socket_request_max_bytes=200_000, queued_max_request_bytes=200_000)


def test_a_large_request_that_waits_for_a_flush_holds_no_room() -> None:
    """Its records are in the log by then."""

    async def test(home: BrokerHome) -> None:
        room = Room(home.config)
        first, second = Line(home, room), Line(home, room)
        first.feed(produce(1, 150_000, acks=-1))
        assert not numbers(first)

        second.feed(produce(2, 150_000))

        assert numbers(second) == [2]

    with_home(test, socket_request_max_bytes=200_000, queued_max_request_bytes=200_000)


def test_a_client_that_leaves_before_its_answer_gives_its_room_back() -> None:
    """Once nobody holds its records any more."""

    async def test(home: BrokerHome) -> None:
        room = Room(home.config)
        first, second = Line(home, room), Line(home, room)
        with held(home):
            first.feed(produce(1, 150_000))
            first.connection.close()
            with pytest.raises(BlockingIOError):
                second.feed(produce(2, 150_000))
        async with asyncio.timeout(10):
            while not second.wire.is_reading:  # noqa: ASYNC110 - nothing rings
                await asyncio.sleep(0)

    with_home(test, socket_request_max_bytes=200_000, queued_max_request_bytes=200_000)


def test_what_a_client_has_sent_before_it_left_is_appended() -> None:
    """Also behind records whose partition was held; then the connection is closed."""

    async def test(home: BrokerHome) -> None:
        line = Line(home)
        with held(home):
            line.feed(produce(1, acks=0) + produce(2, acks=0) + fetch(3, 60_000, offset=3))
            assert line.connection.eof_received()
            await settled()
            assert not line.wire.is_closed
        async with asyncio.timeout(10):
            while not line.wire.is_closed:  # noqa: ASYNC110 - nothing rings
                await asyncio.sleep(0)
        assert home.logs.partition("t", 0).log.log_end_offset == 2

    with_home(test)


def test_records_after_a_request_that_is_still_answered_are_appended() -> None:
    """Though their client has left; what else it has sent is dropped with the connection."""

    async def test(home: BrokerHome) -> None:
        line, other = Line(home), Line(home)
        with held(home):
            line.feed(produce(1) + produce(2, acks=0))
            other.feed(produce(1) + fetch(2, 0))
            assert line.connection.eof_received()
            assert not other.connection.eof_received()
        async with asyncio.timeout(10):
            while not line.wire.is_closed:  # noqa: ASYNC110 - nothing rings
                await asyncio.sleep(0)
        assert home.logs.partition("t", 0).log.log_end_offset == 3

    with_home(test)


@pytest.mark.parametrize("acks", [0, 1])
def test_records_that_were_received_are_appended_though_the_socket_broke(acks: int) -> None:
    """As after a plain end: nobody sends records without acknowledgements again."""

    async def test(home: BrokerHome) -> None:
        await home.produce("t", b"a")
        line, before = Line(home, most=1), holders(home)
        line.feed(frame("ApiVersions", 0, 1))
        sent = bytes(line.wire.written)
        line.wire.drain()
        with held(home):
            line.feed(produce(2, acks=acks) + produce(3, acks=0) + fetch(4, 0, 1))
            line.wire.is_closed = True
            line.connection.connection_lost(ConnectionResetError())
            await settled()
            assert line.connection.descriptor == -1
            assert line.room.connections
        async with asyncio.timeout(10):
            while line.room.connections:  # noqa: ASYNC110 - nothing rings
                await asyncio.sleep(0)
        assert home.logs.partition("t", 0).log.log_end_offset == 3
        assert line.wire.written == sent
        assert holders(home) == before

    with_home(test)


@pytest.mark.parametrize("is_stopping", [True, False])
def test_a_broken_connection_whose_client_waits_for_all_ends_at_once(*, is_stopping: bool) -> None:
    """Also one that is kept for its records, once the server closes it."""

    async def test(home: BrokerHome) -> None:
        line = Line(home)
        with held(home):
            line.feed(produce(1, acks=0 if is_stopping else 1))
            line.connection.connection_lost(ConnectionResetError())
            if is_stopping:
                line.connection.close()
            assert not line.room.connections
            await settled()

    with_home(test)


@pytest.mark.parametrize("acks", [-1, 1])
def test_records_whose_client_gave_up_waiting_are_appended_once(acks: int) -> None:
    """It sends them again on its next connection, as often as a partition is held for too long."""

    async def test(home: BrokerHome) -> None:
        with held(home):
            for _ in range(3):
                first = Line(home)
                first.feed(produce(1, acks=acks) + produce(2, acks=acks))
                await settled()
                if not first.connection.eof_received():
                    first.connection.close()
                await settled()
            line = Line(home)
            line.feed(produce(1, acks=acks) + produce(2, acks=acks))
        async with asyncio.timeout(10):
            while numbers(line) != [1, 2]:  # noqa: ASYNC110 - nothing rings
                await asyncio.sleep(0)
        assert home.logs.partition("t", 0).log.log_end_offset == 2

    with_home(test)


def test_a_client_that_left_while_it_waited_for_records_is_forgotten() -> None:
    """Its fetch would hold the connection for as long as it was to wait."""

    async def test(home: BrokerHome) -> None:
        line = Line(home)
        line.feed(fetch(1, 60_000))
        await settled()
        assert not line.connection.eof_received()

    with_home(test)


@pytest.mark.parametrize(
    ("name", "version", "head", "element"),
    [
        ("Produce", 9, b"\0\xff\xff\0\0\0\0", b"\1\1\0"),
        ("Metadata", 12, b"", bytes(16) + b"\0\0"),
        ("OffsetFetch", 8, b"", b"\1\1\0"),
        ("DeleteGroups", 2, b"", b"\1"),
    ],
)
def test_a_request_of_nothing_takes_no_more_memory_than_all_requests_may(
    name: str, version: int, head: bytes, element: bytes
) -> None:
    """Of empty names alone, a hundred bytes of memory for each of its own."""

    async def test(home: BrokerHome) -> None:
        line = Line(home)
        count = 10 * MIB // len(element)
        api = api_named(name)
        size = bytearray()
        write_unsigned_varint(size, count + 1)
        request = b"".join((api.request_header(version, 1, "me"), head, size, element * count))
        data = size_of_frame([request]) + request
        tracemalloc.start()
        line.feed(data)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert line.wire.is_closed
        assert peak < 2 * 12 * MIB

    with_home(test, socket_request_max_bytes=12 * MIB, queued_max_request_bytes=12 * MIB)


def test_a_few_bytes_take_no_room() -> None:
    """A client that only announces a large request keeps nobody from sending one."""

    async def test(home: BrokerHome) -> None:
        room = Room(home.config)
        first, second = Line(home, room), Line(home, room)
        large = produce(1, 150_000)
        first.feed(large[:6])
        second.feed(large)
        assert numbers(second) == [1]
        first.feed(large[6:])
        assert numbers(first) == [1]

    with_home(test, socket_request_max_bytes=200_000, queued_max_request_bytes=200_000)


def test_a_request_that_others_wait_for_arrives_in_time() -> None:
    """Else its connection is closed; one that nobody waits for may take as long as it does."""

    async def test(home: BrokerHome) -> None:
        room = Room(home.config)
        first, second = Line(home, room), Line(home, room)
        large, now_s = produce(1, 150_000), asyncio.get_running_loop().time()
        first.feed(large[:100_000])
        room.close_late(now_s + 60)
        assert not first.wire.is_closed
        with pytest.raises(BlockingIOError):
            second.feed(large + large)
        room.close_late(now_s + 5)
        assert not first.wire.is_closed
        room.close_late(now_s + 60)
        assert first.wire.is_closed
        assert second.wire.is_reading

    with_home(test, socket_request_max_bytes=200_000, queued_max_request_bytes=200_000)


def test_a_client_that_stops_reading_becomes_idle() -> None:
    """Bytes count in either direction; one whose answer is still to come is not idle."""

    async def test(home: BrokerHome) -> None:
        await home.produce("t", bytes(30_000))
        line, waiting = Line(home, most=1000), Line(home)
        line.feed(fetch(1, 0))
        waiting.feed(fetch(2, 60_000, offset=1))
        long_ago = asyncio.get_running_loop().time() - 100
        for unsent_bytes, is_closed in ((29_000, False), (28_000, False), (28_000, True)):
            line.wire.unsent_bytes = unsent_bytes
            for one in (line, waiting):
                one.connection._last_used = long_ago
                one.connection.close_if_idle(50)
            assert line.wire.is_closed is is_closed
        assert not waiting.wire.is_closed

    with_home(test)


def test_programs_of_this_machine_do_not_count_as_clients() -> None:
    """So clients that have taken all connections do not keep an administrator out."""

    async def test(home: BrokerHome) -> None:
        room = Room(home.config)
        clients = [Line(home, room) for _ in range(2)]
        assert [line.wire.is_closed for line in clients] == [False, True]
        wire = Wire()
        wire.protocol = LocalConnection(home.broker.dispatcher, room, lambda *_: None)
        wire.protocol.connection_made(wire)
        assert not wire.is_closed
        clients[0].connection.close()
        assert not Line(home, room).wire.is_closed

    with_home(test, max_connections=1)


def test_a_program_that_reads_for_a_group_does_not_become_idle() -> None:
    """It may process what it has read for longer; others would get its partitions meanwhile."""

    async def test(home: BrokerHome) -> None:
        wire = Wire()
        local = LocalConnection(home.broker.dispatcher, Room(home.config), lambda *_: None)
        wire.protocol = local
        local.connection_made(wire)
        held = local._peer.held
        assert held is not None
        held["g"] = lambda: None
        for is_closed in (False, True):
            local._last_used = asyncio.get_running_loop().time() - 100
            local.close_if_idle(50)
            assert wire.is_closed is is_closed
            held.clear()

    with_home(test)


def test_a_program_that_rings_and_leaves_before_the_answer_is_no_error() -> None:
    """Nobody waits for it then."""

    async def test(home: BrokerHome) -> None:
        failed: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda *failure: failed.append(failure))
        answers: list[tuple[Callable[[], None], ...]] = []
        wire, room = Wire(), Room(home.config)
        local = LocalConnection(home.broker.dispatcher, room, lambda *each: answers.append(each))
        wire.protocol = local
        local.connection_made(wire)
        assert local.eof_received()
        wire.abort()
        for answer in answers[0]:
            answer()
        await settled()
        assert not failed

    with_home(test)


def test_a_client_that_dies_gives_its_room_back() -> None:
    """Also in the middle of a large request, and while it waits for room."""

    async def test(home: BrokerHome) -> None:
        room = Room(home.config)
        first, second, third = (Line(home, room) for _ in range(3))
        large = produce(1, 150_000)
        first.feed(large[:100_000])
        for line in (second, third):
            with pytest.raises(BlockingIOError):
                line.feed(large)
        second.connection.close()
        first.connection.close()
        assert third.wire.is_reading

    with_home(test, socket_request_max_bytes=200_000, queued_max_request_bytes=200_000)


def test_a_slow_reader_gets_all_in_the_end() -> None:
    """What the socket does not take is kept as slices of files, not as bytes."""

    async def test(home: BrokerHome) -> None:
        for _ in range(3):
            await home.produce("t", b"x" * 20_000)
        line = Line(home, most=1000)
        line.feed(fetch(1, 0) + frame("ApiVersions", 0, 2))
        for _ in range(200):
            line.wire.drain()
        assert numbers(line) == [1, 2]
        answer = read("Fetch", 12, [b"\0\0\0\7" + line.answers()[0][4:]])
        records = answer["responses"][0]["partitions"][0]["records"]
        assert len(records) > 60_000

    with_home(test)


def test_of_a_client_that_does_not_read_no_more_requests_are_taken() -> None:
    """Its answers would fill the memory; once it reads, it gets all of them."""

    async def test(home: BrokerHome) -> None:
        await home.produce("t", bytes(30_000))
        line = Line(home, most=100_000)
        sent = 0
        with suppress(BlockingIOError):
            while sent < 2000:
                line.feed(fetch(sent, 0))
                sent += 1
        assert sum(map(len, line.connection._out)) + len(line.wire.written) < 4 << 20
        for _ in range(sent):
            line.wire.drain()
        assert numbers(line) == list(range(sent))

    with_home(test)


def test_files_are_released_when_a_connection_ends() -> None:
    """Of answers that were not sent, and of those that are still to come."""

    async def test(home: BrokerHome) -> None:
        for _ in range(3):
            await home.produce("t", b"x" * 40_000)
        before = holders(home)
        line = Line(home, most=10)
        line.feed(fetch(1, 0))
        assert holders(home) > before
        line.connection.close()
        waiting = Line(home)
        waiting.feed(fetch(2, 60_000, offset=3))
        await settled()
        waiting.connection.close()
        await settled()
        assert holders(home) == before

    with_home(test)


@pytest.mark.parametrize("wait_ms", [0, 60_000])
def test_a_client_whose_records_cannot_be_read_is_not_left_waiting(
    monkeypatch: pytest.MonkeyPatch, wait_ms: int
) -> None:
    """The disk may fail once the answer is known; no file stays open for it."""

    def fail(_: FileSlice) -> bytes:
        raise OSError(errno.EIO, "the disk failed")

    async def test(home: BrokerHome) -> None:
        await home.produce("t", b"first")
        before, offset = holders(home), int(wait_ms > 0)
        monkeypatch.setattr(FileSlice, "read", fail)
        line = Line(home)
        line.feed(fetch(1, wait_ms, offset, times=2))
        await settled()
        await home.produce("t", b"second", acks=1)
        await settled()
        assert line.wire.is_closed
        assert not line.wire.written
        assert holders(home) == before

    with_home(test)


class ClosingWire(Wire):
    """A transport that is closed at the next turn of the loop, as asyncio's is."""

    def abort(self) -> None:
        """Close, and say so later."""
        if not self.is_closed:
            self.is_closed = True
            assert self.protocol is not None
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)


def test_nothing_is_sent_on_a_connection_that_is_being_closed() -> None:
    """The transport drops it; a file would be sent without it, by its descriptor."""

    async def test(home: BrokerHome) -> None:
        await home.produce("t", b"x" * 40_000)
        before = holders(home)
        line = Line(home)
        line.wire = line.connection._transport = ClosingWire(most=1)
        line.wire.protocol = line.connection
        line.feed(fetch(1, 0))
        assert len(line.wire.written) < 40_000
        line.connection.close()
        line.wire.drain()
        await settled()
        assert len(line.wire.written) < 40_000
        assert holders(home) == before

    with_home(test)


@pytest.mark.parametrize("seed", range(30))
def test_requests_that_are_damaged_end_in_an_answer_or_a_close(
    seed: int, enumerated: Enumerated
) -> None:
    """Bytes flipped, cut, doubled: never an exception that reaches the loop, nor a hang."""

    async def test(home: BrokerHome) -> None:
        rng = random.Random(seed)
        room = Room(home.config)
        good = [produce(1), fetch(2, 0), frame("Metadata", 9, 3, topics=[{"name": "t"}])]
        good += [frame("ListGroups", 4, 4), frame("JoinGroup", 5, 5, groupId="g")]
        closed = 0
        for _ in range(200):
            line = Line(home, room)
            data = bytearray(rng.choice(good))
            for _ in range(rng.randrange(1, 4)):
                data[rng.randrange(4, len(data))] = rng.randrange(256)
            if rng.random() < 0.2:
                cut = rng.randrange(4, len(data))
                data = bytearray((cut - 4).to_bytes(4, "big")) + data[4:cut]
            line.feed(bytes(data), rng.choice((1, 5, 1000)))
            closed += line.wire.is_closed
            line.connection.close()
        await settled()
        assert not room.connections
        enumerated("connections closed", closed, at_least=20)
        healthy = Line(home, room)
        healthy.feed(frame("ApiVersions", 0, 3))
        assert numbers(healthy) == [3]

    with_home(test)


def test_clients_are_sent_to_the_address_that_is_advertised() -> None:
    """Else to the one to which they have connected."""

    async def test(home: BrokerHome) -> None:
        found = []
        for told in (None, Address("broker.example", 1234)):
            line = Line(home)
            line.connection = Connection(home.broker.dispatcher, line.room, told)
            line.wire.protocol = line.connection
            line.connection.connection_made(line.wire)
            line.feed(frame("Metadata", 9, 7, topics=[]))
            (broker,) = read("Metadata", 9, [line.answers()[0]])["brokers"]
            found.append((broker["host"], broker["port"]))
        assert found == [("127.0.0.1", 9092), ("broker.example", 1234)]

    with_home(test)


@pytest.mark.parametrize(
    ("begin", "protocol"),
    [(b"\x16\x03\x01\x02\x00\x01", "TLS"), (b"GET / HTTP/1.1\r\n\r\n", "HTTP")],
)
def test_another_protocol_is_named(
    begin: bytes, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A client that is set up for it hears nothing but the end of its connection.

    It connects again at once: of one host the line is written once a minute.
    """

    async def test(home: BrokerHome) -> None:
        room = Room(home.config)
        for line in (Line(home, room), Line(home, room)):
            line.feed(begin)
            assert line.wire.is_closed

    with_home(test)
    reason = f"the client speaks {protocol}, and this listener is PLAINTEXT"
    assert caplog.text.count(reason) == 1
