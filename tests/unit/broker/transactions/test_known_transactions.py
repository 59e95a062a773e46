"""What the coordinator says of transactions, to tools and to those who append."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.machinery.broker_home import BrokerHome, add, begun, end, with_broker, with_clock

from tidelog.error_codes import ErrorCode
from tidelog.readonly.transactional_id import TRANSACTIONS_TOPIC
from tidelog.segment.filenames import TopicPartition

PLACE = TopicPartition("t", 0)


async def listed(home: BrokerHome, **filters: Any) -> str:
    """Return the ids that a listing with these filters names, each of one letter."""
    given: dict[str, Any] = {"stateFilters": [], "producerIdFilters": [], "durationFilter": -1}
    answer = await home.ask("ListTransactions", 1, **(given | filters))
    return "".join(sorted(one["transactionalId"] for one in answer["transactionStates"]))


def test_each_filter_of_a_listing_leaves_out_more() -> None:
    """Of those that are left, one has begun before the given time, or has nothing open."""

    async def test(home: BrokerHome) -> None:
        a, b, c = [await begun(home, name) for name in "abc"]
        await add(home, a, "a")
        home.clock.advance(500)
        await add(home, b, "b")
        await end(home, b, "b")
        home.clock.advance(500)

        assert await listed(home) == "abc"
        assert await listed(home, durationFilter=0) == "abc"
        assert await listed(home, durationFilter=500) == "abc"
        assert await listed(home, durationFilter=501) == "ac"
        assert await listed(home, producerIdFilters=[b[0], c[0]]) == "bc"
        assert await listed(home, producerIdFilters=[b[0], 99], durationFilter=501) == ""
        assert await listed(home, stateFilters=["Ongoing", "Empty"]) == "ac"
        assert await listed(home, stateFilters=["Ongoing"], producerIdFilters=[c[0]]) == ""

    with_clock(test)


def test_a_transaction_is_the_coordinators_until_it_has_ended() -> None:
    """In its own partitions; of a producer that has none, and in others, anybody may end it."""

    async def test(home: BrokerHome) -> None:
        coordinated = home.logs.manager.coordinated
        assert coordinated is not None
        producer = await begun(home)
        assert coordinated(99, PLACE) is None
        assert coordinated(producer[0], PLACE) is None
        await add(home, producer)
        found = coordinated(producer[0], PLACE)
        assert found is not None
        assert found.transactional_id == "x"
        assert coordinated(producer[0], TopicPartition("t", 1)) is None
        await end(home, producer)
        assert coordinated(producer[0], PLACE) is None

    with_broker(test)


def test_partitions_are_added_to_a_transaction_as_it_goes() -> None:
    """Each gets the marker, and none twice."""

    async def test(home: BrokerHome) -> None:
        home.logs.create_topic("u")
        producer = await begun(home)
        for topic in ("t", "u", "t"):
            assert await add(home, producer, topic=topic) is ErrorCode.NONE
        assert await end(home, producer) is ErrorCode.NONE
        ends = [home.logs.partition(topic, 0).log.log_end_offset for topic in ("t", "u")]
        assert ends == [1, 1]

    with_broker(test)


def test_what_is_in_a_transaction_already_is_not_written_down_again() -> None:
    """A client repeats a request whose answer was lost."""

    async def test(home: BrokerHome) -> None:
        producer = await begun(home)
        log = home.logs.partition(TRANSACTIONS_TOPIC, 0).log
        assert await add(home, producer) is ErrorCode.NONE
        before = log.log_end_offset
        assert await add(home, producer) is ErrorCode.NONE
        assert log.log_end_offset == before

    with_broker(test)


def test_records_for_a_partition_that_is_not_in_the_transaction_are_refused() -> None:
    """Nothing would end them there."""

    async def test(home: BrokerHome) -> None:
        home.logs.create_topic("u")
        producer = await begun(home)
        await add(home, producer)
        batch = {"transactional": True, "producer_id": producer[0], "producer_epoch": 0}
        answer = await home.produce("u", b"a", base_sequence=0, **batch)
        assert ErrorCode(answer["errorCode"]) is ErrorCode.INVALID_TXN_STATE

    with_broker(test)


def test_a_coordinator_that_is_closed_aborts_nothing() -> None:
    """The next one does, which may have given the client its time again."""

    async def test(home: BrokerHome) -> None:
        await add(home, await begun(home))
        log = home.logs.partition(TRANSACTIONS_TOPIC, 0).log
        await home.broker.close()
        before = log.log_end_offset
        home.clock.advance(60_000)
        for _ in range(20):
            await asyncio.sleep(0)
        assert log.log_end_offset == before

    with_clock(test)
