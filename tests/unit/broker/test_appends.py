"""A partition that another thread holds: only those who append to it wait."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.broker_home import (
    BrokerHome,
    add,
    begun,
    code,
    commit,
    described,
    end,
    held,
    position,
    with_broker,
    write,
)

from tidelog.broker.client_request import Disconnect
from tidelog.codec.compression import Codec
from tidelog.env.event_loop import OwnThreads
from tidelog.error_codes import ErrorCode
from tidelog.errors import KafkaStorageError
from tidelog.manager.partition import Partition
from tidelog.readonly.group_positions import OFFSETS_TOPIC
from tidelog.readonly.transactional_id import TRANSACTIONS_TOPIC
from tidelog.records.builder import build_batch

if TYPE_CHECKING:
    from collections.abc import Coroutine


def ids(producer: tuple[int, int]) -> dict[str, Any]:
    """Return how a producer names itself."""
    return {"transactionalId": "x", "producerId": producer[0], "producerEpoch": producer[1]}


async def commit_in_transaction(home: BrokerHome, producer: tuple[int, int]) -> ErrorCode:
    """Commit a position in a transaction."""
    place = {"partitionIndex": 0, "committedOffset": 9, "committedMetadata": None}
    topics = [{"name": "t", "partitions": [place]}]
    answer = await home.ask("TxnOffsetCommit", 3, groupId="g", topics=topics, **ids(producer))
    return code(answer["topics"][0]["partitions"][0])


async def joined(home: BrokerHome, member_id: str = "") -> Any:
    """Let a member join."""
    values: dict[str, Any] = {
        "groupId": "g",
        "sessionTimeoutMs": 10_000,
        "rebalanceTimeoutMs": 10_000,
        "memberId": member_id,
        "protocolType": "consumer",
        "protocols": [{"name": "range", "metadata": b"m"}],
    }
    return await home.ask("JoinGroup", 5, **values)


async def synced(home: BrokerHome, member_id: str, generation: int) -> Any:
    """Let the leader assign all to itself."""
    assigned = [{"memberId": member_id, "assignment": b"all"}]
    return await home.ask(
        *("SyncGroup", 3),
        groupId="g",
        generationId=generation,
        memberId=member_id,
        assignments=assigned,
    )


async def others_are_served(home: BrokerHome, waiting: asyncio.Task[Any]) -> None:
    """Check that a request waits, and that another client is answered."""
    for _ in range(20):
        assert code(await home.ask("ApiVersions", 0)) is ErrorCode.NONE
        await asyncio.sleep(0)
    assert not waiting.done()


def begin(work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """Begin to ask."""
    return asyncio.get_running_loop().create_task(work)


async def answered(waiting: asyncio.Task[Any]) -> Any:
    """Return an answer that has to come now."""
    async with asyncio.timeout(30):
        return await waiting


def test_records_wait_in_their_order() -> None:
    """Those of a request for a free partition beside the one that is held are appended at once."""

    async def test(home: BrokerHome) -> None:
        home.logs.create_topic("free")
        with held(home):
            waiting = [begin(home.produce("t", b"%d" % number)) for number in range(5)]
            assert code(await home.produce("free", b"a")) is ErrorCode.NONE
            await others_are_served(home, waiting[0])
        for one in waiting:
            assert code(await answered(one)) is ErrorCode.NONE
        found = [record.value for record in home.logs.read("t")]
        assert found == [b"%d" % number for number in range(5)]
        assert not home.broker._appends._queues

    with_broker(test)


def no_thread(*_: Any) -> None:
    """Fail as a system that has too many threads."""
    raise RuntimeError("can't start new thread")


def test_records_are_refused_where_there_is_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their client is not left waiting, and the partition takes records again."""

    async def test(home: BrokerHome) -> None:
        with held(home), monkeypatch.context() as patch:
            patch.setattr(OwnThreads, "submit", no_thread)
            waiting = [begin(home.produce("t", b"%d" % number)) for number in range(2)]
            for one in waiting:
                found = await answered(one)
                assert code(found) is ErrorCode.KAFKA_STORAGE_ERROR
                assert "new thread" in found["errorMessage"]
            with pytest.raises(Disconnect, match="new thread"):
                await answered(begin(home.produce("t", b"2", acks=0)))
        assert code(await home.produce("t", b"a")) is ErrorCode.NONE
        assert [record.value for record in home.logs.read("t")] == [b"a"]

    with_broker(test)


def test_records_beside_those_that_are_refused_are_acknowledged(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else their client sends them again, and they come twice."""

    async def test(home: BrokerHome) -> None:
        home.create_with_epoch("free")
        records = build_batch([(1, None, b"a", ())])
        given = [{"index": 0, "records": records}]
        data = [{"name": name, "partitionData": given} for name in ("free", "t")]
        with held(home), monkeypatch.context() as patch:
            patch.setattr(OwnThreads, "submit", no_thread)
            produce = home.ask("Produce", 9, acks=-1, timeoutMs=1, topicData=data)
            answer = await answered(begin(produce))
        codes = {one["name"]: code(one["partitionResponses"][0]) for one in answer["responses"]}
        assert codes == {"free": ErrorCode.NONE, "t": ErrorCode.KAFKA_STORAGE_ERROR}

    with_broker(test)


def test_a_group_continues_after_there_was_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its members hear that they have to join again, and get their assignment then."""

    async def test(home: BrokerHome) -> None:
        await home.ask("FindCoordinator", 0, key="g")
        member_id = (await joined(home))["memberId"]
        generation = (await answered(begin(joined(home, member_id))))["generationId"]
        with held(home, OFFSETS_TOPIC), monkeypatch.context() as patch:
            patch.setattr(OwnThreads, "submit", no_thread)
            found = await answered(begin(synced(home, member_id, generation)))
            assert code(found) is ErrorCode.COORDINATOR_NOT_AVAILABLE
        generation = (await answered(begin(joined(home, member_id))))["generationId"]
        found = await answered(begin(synced(home, member_id, generation)))
        assert found["assignment"] == b"all"

    with_broker(test, group_initial_rebalance_delay_ms=0)


def watched_appends(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return a list that gets whether each append is made on the event loop."""
    is_on_loop: list[bool] = []
    plain = Partition.append_locked

    def append(self: Partition, *given: Any, **how: Any) -> Any:
        try:
            asyncio.get_running_loop()
        except RuntimeError:  # as on any other thread
            is_on_loop.append(False)
        else:
            is_on_loop.append(True)
        return plain(self, *given, **how)

    monkeypatch.setattr(Partition, "append_locked", append)
    return is_on_loop


@pytest.mark.parametrize(
    ("compression_type", "codec", "value_bytes", "is_long"),
    [
        ("producer", Codec.NONE, 100_000, False),
        ("producer", Codec.ZSTD, 1_000, False),
        ("producer", Codec.ZSTD, 100_000, True),
        ("uncompressed", Codec.NONE, 100_000, False),
        ("zstd", Codec.ZSTD, 10_000, False),
        ("gzip", Codec.ZSTD, 1_000, False),
        ("gzip", Codec.ZSTD, 10_000, True),
        ("gzip", Codec.NONE, 10_000, True),
    ],
)
def test_what_has_to_be_unpacked_or_compressed_is_not_done_on_the_event_loop(
    compression_type: str,
    codec: Codec,
    value_bytes: int,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_long: bool,
) -> None:
    """Others would wait for it; what comes after it to the same partition does."""
    is_on_loop = watched_appends(monkeypatch)

    async def test(home: BrokerHome) -> None:
        home.create_with_epoch("c", {"compression.type": compression_type})
        large = Random(7).randbytes(value_bytes)
        waiting = begin(home.produce("c", large, codec=codec)), begin(home.produce("c", b"small"))
        for one in waiting:
            assert code(await answered(one)) is ErrorCode.NONE
        assert [record.value for record in home.logs.read("c")] == [large, b"small"]
        assert is_on_loop[0] is not is_long

    with_broker(test)


def test_a_leader_epoch_is_not_begun_on_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """It syncs a file, and after a crash each log begins one."""
    is_on_loop = watched_appends(monkeypatch)

    async def test(home: BrokerHome) -> None:
        for value in (b"a", b"b"):
            assert code(await home.produce("t", value)) is ErrorCode.NONE
        assert is_on_loop == [False, True]

    with_broker(test)


def test_records_of_a_client_that_leaves_are_dropped() -> None:
    """Those of the others come all the same."""

    async def test(home: BrokerHome) -> None:
        with held(home):
            gone, stays = (begin(home.produce("t", value)) for value in (b"gone", b"stays"))
            await others_are_served(home, stays)
            gone.cancel()
            with pytest.raises(asyncio.CancelledError):
                await answered(gone)
        assert code(await answered(stays)) is ErrorCode.NONE
        assert [record.value for record in home.logs.read("t")] == [b"stays"]

    with_broker(test)


def test_more_held_partitions_than_threads_hold_up_no_other() -> None:
    """Threads take turns: each partition that is free again is served."""

    async def test(home: BrokerHome) -> None:
        names = [f"t{number}" for number in range(9)]
        locks = []
        for name in names:
            home.logs.create_topic(name)
            locks.append(held(home, name))
            locks[-1].__enter__()
        waiting = [begin(home.produce(name, b"a")) for name in names]
        await others_are_served(home, waiting[-1])
        locks.pop().__exit__(None, None, None)
        assert code(await answered(waiting.pop())) is ErrorCode.NONE
        for lock in locks:
            lock.__exit__(None, None, None)
        for one in waiting:
            assert code(await answered(one)) is ErrorCode.NONE

    with_broker(test)


def test_positions_wait_in_their_order() -> None:
    """The last commit counts."""

    async def test(home: BrokerHome) -> None:
        await commit(home, 1)
        with held(home, OFFSETS_TOPIC):
            waiting = [begin(commit(home, number)) for number in range(2, 6)]
            await others_are_served(home, waiting[0])
        assert [await answered(one) for one in waiting] == [ErrorCode.NONE] * 4
        assert await position(home) == 5

    with_broker(test)


def test_positions_that_are_deleted_wait() -> None:
    """A position that is committed meanwhile stays; a group is deleted with those before."""

    async def test(home: BrokerHome) -> None:
        await commit(home, 1)
        with held(home, OFFSETS_TOPIC):
            deleting = begin(home.ask("DeleteGroups", 2, groupsNames=["g"]))
            await others_are_served(home, deleting)
            committing = begin(commit(home, 2))
            await others_are_served(home, committing)
        assert code((await answered(deleting))["results"][0]) is ErrorCode.NONE
        assert await answered(committing) is ErrorCode.NONE
        assert await position(home) == 2

    with_broker(test)


def test_positions_of_a_transaction_count_as_undecided_while_they_wait() -> None:
    """Who takes the partition over would begin where the group was before, and repeat its work."""

    async def test(home: BrokerHome) -> None:
        await commit(home, 1)
        producer = await begun(home)
        await home.ask("AddOffsetsToTxn", 3, groupId="g", **ids(producer))
        with held(home, OFFSETS_TOPIC):
            waiting = begin(commit_in_transaction(home, producer))
            await others_are_served(home, waiting)
            assert await position(home) is ErrorCode.UNSTABLE_OFFSET_COMMIT
        assert await answered(waiting) is ErrorCode.NONE
        assert await position(home) is ErrorCode.UNSTABLE_OFFSET_COMMIT
        assert await end(home, producer) is ErrorCode.NONE
        assert await position(home) == 9

    with_broker(test)


@pytest.mark.parametrize("topic", ["t", TRANSACTIONS_TOPIC])
def test_the_end_of_a_transaction_waits(topic: str) -> None:
    """For the decision or for a marker; meanwhile its id is busy."""

    async def test(home: BrokerHome) -> None:
        producer = await begun(home)
        await add(home, producer)
        await write(home, producer, b"a", 0)
        with held(home, topic):
            waiting = begin(end(home, producer))
            await others_are_served(home, waiting)
            assert await end(home, producer) is ErrorCode.CONCURRENT_TRANSACTIONS
        assert await answered(waiting) is ErrorCode.NONE
        assert await described(home) == "CompleteCommit"
        assert (await home.fetch("t", isolation=1))["lastStableOffset"] == 2

    with_broker(test)


def test_a_client_that_leaves_while_a_marker_waits_loses_no_transaction() -> None:
    """What it has decided gets its markers."""

    async def test(home: BrokerHome) -> None:
        producer = await begun(home)
        await add(home, producer)
        await write(home, producer, b"a", 0)
        with held(home):
            waiting = begin(end(home, producer))
            await others_are_served(home, waiting)
            waiting.cancel()
            await others_are_served(home, waiting)
        with pytest.raises(asyncio.CancelledError):
            await answered(waiting)
        assert await described(home) == "CompleteCommit"

    with_broker(test)


def test_a_new_producer_and_its_partitions_wait() -> None:
    """For the record of the transactional id."""

    async def test(home: BrokerHome) -> None:
        await begun(home)
        with held(home, TRANSACTIONS_TOPIC):
            waiting = begin(begun(home))
            await others_are_served(home, waiting)
        producer = await answered(waiting)
        with held(home, TRANSACTIONS_TOPIC):
            adding = begin(add(home, producer))
            await others_are_served(home, adding)
        assert await answered(adding) is ErrorCode.NONE

    with_broker(test)


def test_an_id_that_is_being_forgotten_is_busy() -> None:
    """A producer that takes it into use would be forgotten with it."""

    async def test(home: BrokerHome) -> None:
        await begun(home)
        limit_ms = home.logs.manager.config.transactional_id_expiration_ms
        home.broker._transactions.transactions["x"].updated_ms -= limit_ms + 1
        with held(home, TRANSACTIONS_TOPIC):
            waiting = begin(home.broker._transactions._look_for_expired())
            await others_are_served(home, waiting)
            again = await home.ask(
                "InitProducerId", 4, transactionalId="x", transactionTimeoutMs=60_000
            )
            assert code(again) is ErrorCode.CONCURRENT_TRANSACTIONS
        await answered(waiting)
        assert "x" not in home.broker._transactions.transactions

    with_broker(test)


def test_an_assignment_waits_until_it_is_written_down() -> None:
    """A leader that asks once more gets it, too."""

    async def test(home: BrokerHome) -> None:
        await commit(home, 1)
        first = await joined(home)
        member_id = first["memberId"]
        generation = (await joined(home, member_id))["generationId"]
        with held(home, OFFSETS_TOPIC):
            waiting = begin(synced(home, member_id, generation))
            await others_are_served(home, waiting)
            again = begin(synced(home, member_id, generation))
            assert code(await answered(waiting)) is ErrorCode.REBALANCE_IN_PROGRESS
            await others_are_served(home, again)
        assert (await answered(again))["assignment"] == b"all"
        assert home.broker.sizes()["NumGroupsStable"] == 1

    with_broker(test)


def test_producers_are_described_when_the_partition_is_free() -> None:
    """What is known of them is read under its lock."""

    async def test(home: BrokerHome) -> None:
        with held(home):
            topics = [{"name": "t", "partitionIndexes": [0]}]
            waiting = home.asking("DescribeProducers", 0, topics=topics)
            await others_are_served(home, waiting)
        assert (await answered(waiting))["topics"][0]["partitions"][0]["activeProducers"] == []

    with_broker(test)


def test_a_fetch_that_waits_for_news_does_not_wait_for_the_lock() -> None:
    """It is the first to listen to the partition."""

    async def test(home: BrokerHome) -> None:
        with held(home):
            waiting = begin(home.fetch("t", wait_ms=60_000))
            producing = begin(home.produce("t", b"a"))
            await others_are_served(home, producing)
        assert bytes((await answered(waiting))["records"])
        assert code(await answered(producing)) is ErrorCode.NONE

    with_broker(test)


def test_an_append_that_fails_after_a_wait_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that fails at once."""

    async def test(home: BrokerHome) -> None:
        await commit(home, 1)
        home_of_groups = home.logs.manager.partition(OFFSETS_TOPIC, 0)
        with held(home, OFFSETS_TOPIC):
            waiting = begin(commit(home, 2))
            await others_are_served(home, waiting)
            monkeypatch.setattr(home_of_groups.log, "append_as_leader", fail)
        assert await answered(waiting) is ErrorCode.NOT_COORDINATOR

    with_broker(test)


def fail(*_: object, **__: object) -> None:
    """Fail as a disk does."""
    raise KafkaStorageError("the disk failed")


def test_a_commit_that_waits_for_its_partition_does_not_expire() -> None:
    """The position that it replaces is old; to delete that would delete the new one, too."""

    async def test(home: BrokerHome) -> None:
        assert await commit(home, 1) is ErrorCode.NONE
        home.clock.advance(2 * 5 * 60_000)
        with held(home, OFFSETS_TOPIC):
            waiting = asyncio.get_running_loop().create_task(commit(home, 2))
            await others_are_served(home, waiting)
            home.broker._expire()
        assert await waiting is ErrorCode.NONE
        await asyncio.gather(*home.broker._appends._tasks)
        assert await position(home) == 2
        home.clock.advance(2 * 5 * 60_000)
        home.broker._expire()
        assert await position(home) == -1

    with_broker(test, offsets_retention_minutes=5)
