"""Requests that come with one read of a socket, and whose batches are appended together."""

from __future__ import annotations

import asyncio
import errno
import random
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.broker_home import held
from tests.machinery.broker_line import Line, frame, numbers, produce, settled, with_home

from tidelog.broker.room import Room
from tidelog.codec.compression import Codec
from tidelog.codec.protocol.apis import api_named
from tidelog.error_codes import ErrorCode
from tidelog.manager.partition import Partition
from tidelog.records.builder import build_batch

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.machinery.broker_home import BrokerHome

pytestmark = pytest.mark.usefixtures("kernels")

VERSION = 9
"""Of Produce, as ``produce`` makes it."""


def writes(home: BrokerHome) -> int:
    """Return how often records were written so far."""
    return sum(name == "pwrite" and ".log" in path for name, path in home.files.operations)


def said(line: Line) -> list[tuple[int, ErrorCode]]:
    """Return of each answer the offset and the code."""
    api, found = api_named("Produce"), []
    for answer in line.answers():
        (topic,) = api.read_response(VERSION, answer, 5)["responses"]
        (part,) = topic["partitionResponses"]
        found.append((part["baseOffset"], ErrorCode(part["errorCode"])))
    return found


def batch(sequence: int) -> bytes:
    """Return a batch of an idempotent producer, with one record."""
    return build_batch(
        [(1, None, b"", ())], producer_id=7, producer_epoch=0, base_sequence=sequence
    )


async def until(is_there: Callable[[], bool]) -> None:
    """Wait for something."""
    async with asyncio.timeout(10):
        while not is_there():  # noqa: ASYNC110 - nothing rings
            await asyncio.sleep(0)


@pytest.mark.parametrize("acks", [1, -1])
def test_what_comes_together_is_written_once_for_each_partition(acks: int) -> None:
    """Each request has its own answer, in order."""

    async def test(home: BrokerHome) -> None:
        home.create_with_epoch("u")
        line, before = Line(home), writes(home)

        line.feed(b"".join(produce(number, 10, acks, "tu"[number % 2]) for number in range(6)))

        await until(lambda: len(numbers(line)) == 6)
        assert numbers(line) == [0, 1, 2, 3, 4, 5]
        assert said(line) == [(number // 2, ErrorCode.NONE) for number in range(6)]
        assert writes(home) - before == 2

    with_home(test)


def test_none_of_them_is_written_to_an_internal_topic() -> None:
    """It is refused before anything is appended together, though the topic is there."""

    async def test(home: BrokerHome) -> None:
        home.create_with_epoch("__consumer_offsets")
        line = Line(home)
        part = {"index": 0, "records": build_batch([(home.clock.now_ms(), b"k", b"", ())])}
        data = [{"name": "__consumer_offsets", "partitionData": [part]}]
        how = {"acks": 1, "timeoutMs": 1, "topicData": data, "transactionalId": None}

        line.feed(frame("Produce", VERSION, 0, **how) + frame("Produce", VERSION, 1, **how))

        assert said(line) == [(-1, ErrorCode.INVALID_TOPIC_EXCEPTION)] * 2

    with_home(test)


def test_a_full_disk_refuses_only_what_does_not_fit() -> None:
    """Where the common write fails, each is written by itself."""

    async def test(home: BrokerHome) -> None:
        line = Line(home)
        home.files.fail("pwrite", ".log", OSError(errno.ENOSPC, "full"))

        line.feed(produce(0) + produce(1))

        assert said(line) == [(0, ErrorCode.NONE), (1, ErrorCode.NONE)]
        home.files.fail("pwrite", ".log", OSError(errno.ENOSPC, "full"), count=2)
        line.feed(produce(2) + produce(3))
        assert said(line)[2:] == [(-1, ErrorCode.KAFKA_STORAGE_ERROR), (2, ErrorCode.NONE)]

    with_home(test)


def test_an_unexpected_error_of_one_partition_takes_no_answer_from_another() -> None:
    """A client without its answer would send again what is in the log by then."""

    async def test(home: BrokerHome) -> None:
        home.create_with_epoch("u")
        line, fault = Line(home), MemoryError("a test's")
        home.files.fail("pwrite", ".log", fault, 2, skipped=1)  # type: ignore[arg-type]  # no error of a disk

        line.feed(b"".join(produce(number, topic="tu"[number % 2]) for number in range(4)))

        assert numbers(line) == [0, 1, 2, 3]
        unknown = ErrorCode.UNKNOWN_SERVER_ERROR
        assert [code for _, code in said(line)] == [ErrorCode.NONE, unknown, *[ErrorCode.NONE] * 2]
        ends = [home.logs.partition(topic, 0).log.log_end_offset for topic in "tu"]
        assert ends == [2, 1]

    with_home(test)


def test_what_is_in_the_log_already_is_not_appended_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the common append fails unexpectedly after the write, no client hears of success."""

    async def test(home: BrokerHome) -> None:
        line, partition = Line(home), home.logs.partition("t", 0)
        plain = Partition.append_locked

        def failing(self: Partition, records: Any, *args: Any, **how: Any) -> Any:
            plain(self, records, *args, **how)
            raise MemoryError("a test's")

        monkeypatch.setattr(Partition, "append_locked", failing)
        line.feed(produce(0) + produce(1))

        assert said(line) == [(0, ErrorCode.UNKNOWN_SERVER_ERROR)] * 2
        assert partition.log.log_end_offset == 2

    with_home(test)


def test_those_of_a_held_partition_wait_in_their_order() -> None:
    """Others of the same read are appended at once, and what comes later waits for all."""

    async def test(home: BrokerHome) -> None:
        home.create_with_epoch("u")
        line, sizes = Line(home), (1, 2, 3, 4)
        with held(home):
            line.feed(b"".join(produce(size, size) for size in sizes))
            line.feed(produce(5, topic="u") + produce(6, topic="u"))
            await settled()
            assert not numbers(line)

        await until(lambda: len(numbers(line)) == 6)
        assert numbers(line) == [1, 2, 3, 4, 5, 6]
        found = [record.value for record in home.logs.partition("t", 0).log.records(0)]
        assert found == [bytes(size) for size in sizes]

    with_home(test)


def test_one_that_cannot_be_read_ends_the_connection_after_the_answers_before_it() -> None:
    """And hides none of the requests before it."""

    async def test(home: BrokerHome) -> None:
        line = Line(home)
        bad = bytearray(produce(2))
        bad[6:8] = b"\x00\x63"  # a version that is not offered

        line.feed(produce(0) + produce(1) + bytes(bad) + produce(3))

        assert numbers(line) == [0, 1]
        assert line.wire.is_closed
        assert home.logs.partition("t", 0).log.log_end_offset == 2

    with_home(test)


def test_one_of_a_version_that_is_only_offered_ends_the_connection() -> None:
    """Though two of them come together, and could be appended."""

    async def test(home: BrokerHome) -> None:
        line = Line(home)
        data = [{"name": "t", "partitionData": [{"index": 0, "records": batch(0)}]}]
        how = {"acks": 1, "timeoutMs": 1, "topicData": data}

        line.feed(frame("Produce", 2, 0, **how) + frame("Produce", 2, 1, **how))

        assert line.wire.is_closed
        assert home.logs.partition("t", 0).log.log_end_offset == 0

    with_home(test)


def test_those_that_begin_an_epoch_wait_for_a_thread() -> None:
    """It writes and syncs a file, for which the event loop does not wait."""

    async def test(home: BrokerHome) -> None:
        home.logs.create_topic("v")
        line = Line(home)

        line.feed(produce(0, topic="v") + produce(1, topic="v"))

        assert not numbers(line)
        await until(lambda: len(numbers(line)) == 2)
        assert said(line) == [(0, ErrorCode.NONE), (1, ErrorCode.NONE)]

    with_home(test)


def test_a_new_batch_that_comes_with_a_repeated_one_is_appended() -> None:
    """The repeated one is answered as it was, and keeps the other from nothing."""

    async def test(home: BrokerHome) -> None:
        line = Line(home)
        first, second = (
            frame("Produce", VERSION, number, acks=1, timeoutMs=1, topicData=data)
            for number in range(2)
            for part in [{"index": 0, "records": batch(number)}]
            for data in [[{"name": "t", "partitionData": [part]}]]
        )
        line.feed(first)

        line.feed(first + second)

        assert said(line) == [(offset, ErrorCode.NONE) for offset in (0, 0, 1)]
        assert home.logs.partition("t", 0).log.log_end_offset == 2

    with_home(test)


def test_no_more_are_taken_than_may_be_pending() -> None:
    """A client would hold any number of answers that wait for a flush."""

    async def test(home: BrokerHome) -> None:
        line, log = Line(home), home.logs.partition("t", 0).log

        for some in range(40), range(40, 100):
            line.feed(b"".join(produce(number, acks=-1) for number in some))

        assert log.log_end_offset == 64
        await until(lambda: len(numbers(line)) == 100)
        assert numbers(line) == [*range(100)]
        assert log.log_end_offset == 100

    with_home(test)


@pytest.mark.parametrize(("version", "writes_of_two"), [(6, 2), (7, 1)])
def test_compressed_batches_are_written_together_where_each_codec_is_taken(
    version: int, writes_of_two: int
) -> None:
    """Before, one of zstd has to be refused."""

    async def test(home: BrokerHome) -> None:
        line, before = Line(home), writes(home)
        records = build_batch([(1, None, b"", ())], codec=Codec.LZ4)
        data = [{"name": "t", "partitionData": [{"index": 0, "records": records}]}]
        how = {"acks": 1, "timeoutMs": 1, "topicData": data}

        line.feed(frame("Produce", version, 0, **how) + frame("Produce", version, 1, **how))

        assert numbers(line) == [0, 1]
        assert writes(home) - before == writes_of_two

    with_home(test)


def test_large_batches_that_are_compressed_wait_for_a_thread() -> None:
    """The event loop does not wait until they are unpacked."""

    async def test(home: BrokerHome) -> None:
        line = Line(home)
        line.feed(b"".join(produce(number, 9_000) for number in range(8)))  # for a wide buffer
        records = build_batch([(1, None, random.Random(1).randbytes(70_000), ())], codec=Codec.ZSTD)
        data = [{"name": "t", "partitionData": [{"index": 0, "records": records}]}]
        how = {"acks": 1, "timeoutMs": 1, "topicData": data}

        line.feed(frame("Produce", VERSION, 8, **how) + frame("Produce", VERSION, 9, **how))

        assert len(numbers(line)) == 8
        await until(lambda: len(numbers(line)) == 10)

    with_home(test)


def test_one_that_is_larger_than_requests_may_be_is_refused() -> None:
    """Though it is there in full behind another; that one is answered."""

    async def test(home: BrokerHome) -> None:
        line = Line(home)

        line.feed(produce(0) + produce(1, 6_000))

        assert numbers(line) == [0]
        assert line.wire.is_closed
        assert home.logs.partition("t", 0).log.log_end_offset == 1

    with_home(test, socket_request_max_bytes=5_000)


@pytest.mark.parametrize("cut", range(1, 5))
def test_the_size_of_a_request_may_end_in_the_next_read(cut: int) -> None:
    """It is not looked at before."""

    async def test(home: BrokerHome) -> None:
        line, half = Line(home), 30_000
        rest = len(line.connection.get_buffer(-1)) - cut - 2 * len(produce(0, half))

        line.feed(produce(0, half) + produce(1, half + rest) + produce(2))

        assert numbers(line) == [0, 1, 2]

    with_home(test)


def test_a_large_one_that_begins_behind_another_gets_a_buffer() -> None:
    """A client that waited for it would wait for ever."""

    async def test(home: BrokerHome) -> None:
        line = Line(home)

        line.feed(produce(0) + produce(1, 300_000))

        assert numbers(line) == [0, 1]

    with_home(test)


def test_a_wrong_size_behind_one_that_waits_keeps_no_client_that_left() -> None:
    """No request follows it, and the event loop does not look for one for ever."""

    async def test(home: BrokerHome) -> None:
        line = Line(home)
        with held(home):
            line.feed(produce(0) + (-4).to_bytes(4, "big", signed=True))

            assert not line.connection.eof_received()

    with_home(test)


def test_a_client_that_fills_its_buffer_gets_a_wide_one_where_there_is_room() -> None:
    """More then comes together; a connection has it until it ends."""

    async def test(home: BrokerHome) -> None:
        room = Room(home.config)
        data = b"".join(produce(number, 9_000) for number in range(8))

        def widened() -> bool:
            line = Line(home, room)
            usual = len(line.connection.get_buffer(-1))
            line.feed(data)
            assert len(numbers(line)) == 8
            lines.append(line)
            return len(line.connection.get_buffer(-1)) > usual

        lines: list[Line] = []
        assert [widened() for _ in range(130)] == [True] * 128 + [False] * 2
        lines[0].connection.close()
        assert widened()

    with_home(test)


@pytest.mark.parametrize(
    ("size", "is_wide"), [(60_000, False), (70_000, True), (500_000, True), (530_000, False)]
)
def test_a_client_of_requests_that_a_wide_buffer_holds_gets_one(
    size: int, *, is_wide: bool
) -> None:
    """One of them has come, and more will; of larger ones, each has a buffer of its own."""

    async def test(home: BrokerHome) -> None:
        line = Line(home)

        line.feed(produce(0, size))

        assert numbers(line) == [0]
        assert len(line.connection.get_buffer(-1)) == (512 << 10 if is_wide else 64 << 10)
        line.feed(produce(1, 100_000) + produce(2, 100_000) + produce(3, size))
        assert numbers(line) == [0, 1, 2, 3]

    with_home(test)


def test_small_requests_widen_no_buffer() -> None:
    """Hundreds come together anyway, and other clients wait for all of them."""

    async def test(home: BrokerHome) -> None:
        line = Line(home)
        usual = len(line.connection.get_buffer(-1))

        line.feed(b"".join(produce(number, 800) for number in range(200)))

        assert len(numbers(line)) == 200
        assert len(line.connection.get_buffer(-1)) == usual

    with_home(test)


def test_a_buffer_that_is_not_full_is_not_widened() -> None:
    """The client has sent no more than that."""

    async def test(home: BrokerHome) -> None:
        line = Line(home)
        usual = len(line.connection.get_buffer(-1))

        line.feed(b"".join(produce(number, 9_000) for number in range(8))[:64_000])

        assert len(numbers(line)) == 7
        assert len(line.connection.get_buffer(-1)) < usual

    with_home(test)


def test_a_part_of_a_large_request_widens_no_buffer() -> None:
    """It waits for room, as all large requests do."""

    async def test(home: BrokerHome) -> None:
        room = Room(home.config)
        first, second = Line(home, room), Line(home, room)
        first.feed(produce(1, 150_000)[:100_000])

        with pytest.raises(BlockingIOError):
            second.feed(produce(1, 150_000))

    with_home(test, socket_request_max_bytes=200_000, queued_max_request_bytes=200_000)
