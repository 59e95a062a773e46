"""Which epochs the producers of a transactional id get, and who writes by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.machinery.broker_home import (
    BrokerHome,
    add,
    begun,
    code,
    described,
    end,
    ended,
    run,
    with_broker,
    with_clock,
    write,
)

from tidelog.error_codes import ErrorCode
from tidelog.errors import KafkaStorageError
from tidelog.readonly.transactional_id import (
    ENDED,
    LAST_EPOCH,
    TRANSACTIONS_TOPIC,
    Transaction,
    transaction_record,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.manager.partition import Partition


def test_each_producer_gets_the_next_epoch() -> None:
    """None is left out: a client counts those that remain before its id is used up."""

    async def test(home: BrokerHome) -> None:
        producers = [await begun(home) for _ in range(3)]
        assert producers == [(producers[0][0], epoch) for epoch in range(3)]

    with_broker(test)


def test_a_producer_that_asks_again_gets_the_next_epoch() -> None:
    """As a client does after an error that it cannot recover from otherwise."""

    async def test(home: BrokerHome) -> None:
        producer, epoch = await begun(home)
        answer = await home.ask(
            *("InitProducerId", 4),
            transactionalId="x",
            transactionTimeoutMs=60_000,
            producerId=producer,
            producerEpoch=epoch,
        )
        assert (answer["producerId"], answer["producerEpoch"]) == (producer, epoch + 1)

    with_broker(test)


def test_the_transaction_that_the_producer_before_has_left_open_takes_one_epoch() -> None:
    """It is aborted with that, which fences it in each partition; the next one is given out."""

    async def test(home: BrokerHome) -> None:
        producer, epoch = await begun(home)
        await add(home, (producer, epoch))
        assert await begun(home) == (producer, epoch + 2)

    with_broker(test)


def test_a_transaction_that_is_aborted_in_time_takes_one_epoch() -> None:
    """Its marker has it, and so the producer is fenced in each partition as well."""

    async def test(home: BrokerHome) -> None:
        producer = await begun(home)
        await add(home, producer)
        await write(home, producer, b"a", 0)
        home.clock.advance(60_000)
        assert await ended(home) == "CompleteAbort"
        topics = [{"name": "t", "partitionIndexes": [0]}]
        answer = await home.ask("DescribeProducers", 0, topics=topics)
        (shown,) = answer["topics"][0]["partitions"][0]["activeProducers"]
        assert (shown["producerId"], shown["producerEpoch"]) == (producer[0], 1)
        assert await write(home, producer, b"b", 1) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert await begun(home) == (producer[0], 2)

    with_clock(test)


@pytest.mark.parametrize(
    ("epoch", "has_same_id", "expected"),
    [(LAST_EPOCH - 1, True, LAST_EPOCH), (LAST_EPOCH, False, 0)],
)
def test_after_the_last_epoch_comes_another_id(
    epoch: int, *, has_same_id: bool, expected: int
) -> None:
    """The epoch above the last one is for fencing alone."""

    async def scenario() -> None:
        home = BrokerHome()
        home.logs.create_topic(TRANSACTIONS_TOPIC)
        known = Transaction("x", 5, epoch, 60_000, updated_ms=home.clock.now_ms())
        stored = transaction_record(known, 1)
        home.logs.manager.partition(TRANSACTIONS_TOPIC, 0).append_records([stored])
        async with home:
            found = await begun(home)
        assert (found[0] == 5, found[1]) == (has_same_id, expected)

    run(scenario())


def test_a_producer_writes_by_its_own_id_and_epoch() -> None:
    """Neither is taken for the other, nor one producer for another."""

    async def test(home: BrokerHome) -> None:
        other = await begun(home, "y")
        producer = await begun(home)
        assert (other, producer) == ((0, 0), (1, 0))
        await add(home, producer)
        await add(home, other, "y")
        assert await write(home, other, b"a", 0) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert await write(home, (1, 1), b"a", 0) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert await write(home, producer, b"a", 0) is ErrorCode.NONE

    with_broker(test)


@pytest.mark.parametrize("timeout_ms", [1, 900_000])
def test_a_timeout_is_a_millisecond_to_fifteen_minutes(timeout_ms: int) -> None:
    """A producer that asks for either gets an epoch."""

    async def test(home: BrokerHome) -> None:
        answer = await home.ask(
            "InitProducerId", 4, transactionalId="x", transactionTimeoutMs=timeout_ms
        )
        assert code(answer) is ErrorCode.NONE

    with_broker(test)


def test_an_end_that_cannot_be_written_is_written_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The markers are there: the client has its answer, and its readers have their records."""

    async def test(home: BrokerHome) -> None:
        producer = await begun(home)
        await add(home, producer)
        await write(home, producer, b"a", 0)
        coordinator = home.broker._transactions
        plain: Callable[[Transaction], object] = coordinator._write

        def full(changed: Transaction) -> object:
            if changed.state in ENDED:
                raise KafkaStorageError("no space is left")
            return plain(changed)

        with monkeypatch.context() as patch:
            patch.setattr(coordinator, "_write", full)
            assert await end(home, producer) is ErrorCode.NONE
            assert await described(home) == "PrepareCommit"
        assert (await home.fetch("t", isolation=1))["lastStableOffset"] == 2
        home.clock.advance(1000)
        assert await ended(home) == "CompleteCommit"

    with_clock(test)


def test_a_marker_that_may_not_be_durable_is_written_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The decision is durable, so the client gets its answer."""

    async def test(home: BrokerHome) -> None:
        producer = await begun(home)
        await add(home, producer)
        await write(home, producer, b"a", 0)
        plain = home.broker._flushes.wait

        async def wait(partition: Partition) -> None:
            if partition.topic == "t":
                raise KafkaStorageError("the disk failed")
            await plain(partition)

        with monkeypatch.context() as patch:
            patch.setattr(home.broker._flushes, "wait", wait)
            assert await end(home, producer) is ErrorCode.NONE
            assert await described(home) == "PrepareCommit"
        assert "marker-put-off topic=t-0 reason=the disk failed" in caplog.text
        home.clock.advance(999)
        assert await described(home) == "PrepareCommit"
        home.clock.advance(1)
        assert await ended(home) == "CompleteCommit"

    with_clock(test)
