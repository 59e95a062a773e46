"""Positions of groups: the answers to each version of a request, and how long they are kept."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.machinery.broker_home import (
    BrokerHome,
    begun,
    code,
    commit,
    commit_within,
    end,
    held,
    position,
    run,
    with_broker,
)
from tests.unit.broker.groups.test_group_requests import leave, member_of

from tidelog.error_codes import ErrorCode
from tidelog.errors import KafkaStorageError
from tidelog.manager.consumer_groups import Groups
from tidelog.manager.partition import Partition
from tidelog.readonly.group_positions import OFFSETS_TOPIC
from tidelog.segment.filenames import TopicPartition
from tidelog.testing import CrashFileSystem

TOPICS = [{"name": "t", "partitionIndexes": [0]}]


async def fetched(home: BrokerHome, version: int) -> tuple[Any, ...]:
    """Return the code of an answer, if there is one, and those and the offsets of its places."""
    group = "g"
    if version >= 8:
        groups = [{"groupId": group, "topics": TOPICS}]
        answer = await home.ask("OffsetFetch", version, groups=groups)
        (answer,) = answer["groups"]
        assert answer["groupId"] == group
    else:
        answer = await home.ask("OffsetFetch", version, groupId=group, topics=TOPICS)
    places = [
        (code(one), one["committedOffset"])
        for topic in answer["topics"]
        for one in topic["partitions"]
    ]
    return ErrorCode(answer.get("errorCode") or 0), places


@pytest.mark.parametrize("version", range(1, 10))
def test_each_version_gets_the_position_of_a_group(version: int) -> None:
    """From version 8 on, of several groups at once. Source: Kafka OffsetFetchRequest."""

    async def test(home: BrokerHome) -> None:
        await commit(home, 5)
        assert await fetched(home, version) == (ErrorCode.NONE, [(ErrorCode.NONE, 5)])

    with_broker(test)


@pytest.mark.parametrize("version", range(1, 10))
def test_each_version_is_refused_where_positions_cannot_be_read(
    version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one has no code for a group: each place has it."""

    def refuse(*_: object) -> None:
        raise KafkaStorageError("the disk failed")

    async def test(home: BrokerHome) -> None:
        await commit(home, 5)
        with monkeypatch.context() as patched:
            patched.setattr(Groups, "found", refuse)
            refused = await fetched(home, version)
        lost = ErrorCode.NOT_COORDINATOR
        assert refused == ((ErrorCode.NONE, [(lost, -1)]) if version < 2 else (lost, []))
        assert await fetched(home, version) == (ErrorCode.NONE, [(ErrorCode.NONE, 5)])

    with_broker(test)


@pytest.mark.parametrize("text", ["x" * 10, "é" * 10, "\U0001d11e" * 5])
def test_metadata_is_at_most_as_long_as_is_set(text: str) -> None:
    """Length as Java counts it, in UTF-16. Source: Kafka OffsetMetadataManager."""

    async def test(home: BrokerHome) -> None:
        codes = []
        for metadata in (text, f"{text}x", None):
            place = {
                "partitionIndex": 0,
                "committedOffset": 5,
                "committedMetadata": metadata,
            }
            topics = [{"name": "t", "partitions": [place]}]
            answer = await home.ask("OffsetCommit", 8, groupId="g", topics=topics)
            codes.append(code(answer["topics"][0]["partitions"][0]))
        assert codes == [ErrorCode.NONE, ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.NONE]

    with_broker(test, offset_metadata_max_bytes=10)


@pytest.mark.parametrize(("unread", "is_read"), [(999, False), (1000, True)])
def test_a_thousand_records_of_positions_are_read_ahead_once(
    unread: int, monkeypatch: pytest.MonkeyPatch, *, is_read: bool
) -> None:
    """While they are, nobody begins to read them again."""

    async def test(home: BrokerHome) -> None:
        await commit(home, 5)
        monkeypatch.setattr(Groups, "unread", lambda *_: unread)
        reading = home.broker._offsets._reading
        begun = []
        for _ in range(2):
            home.broker._offsets.read_ahead(home.logs.manager.partition(OFFSETS_TOPIC, 0))
            begun.append([*reading.values()])
        assert [len(one) for one in begun] == [int(is_read)] * 2
        assert begun[0] == begun[1]
        await asyncio.gather(*reading.values())
        await asyncio.sleep(0)
        assert not reading

    with_broker(test)


@pytest.mark.parametrize(("policy", "offset"), [("group", 5), ("each", 5), ("none", -1)])
def test_an_answer_to_a_commit_promises_what_the_policy_says(policy: str, offset: int) -> None:
    """That the positions outlive a power cut, unless nothing is flushed for it."""
    files = CrashFileSystem()

    async def write() -> None:
        async with BrokerHome(files, tidelog_flush_policy=policy) as home:
            home.logs.create_topic("t")
            assert await commit(home, 1, group="other") is ErrorCode.NONE
            home.logs.flush()
            assert await commit(home, 5) is ErrorCode.NONE
            home.cut_power()

    async def look() -> None:
        async with BrokerHome(files) as home:
            assert await position(home) == offset

    run(write())
    run(look())


async def deleted(home: BrokerHome, *places: tuple[str, int]) -> list[ErrorCode]:
    """Delete positions of the group; return what the answer says of each."""
    topics = [{"name": name, "partitions": [{"partitionIndex": n}]} for name, n in places]
    answer = await home.ask("OffsetDelete", 0, groupId="g", topics=topics)
    assert code(answer) is ErrorCode.NONE
    return [code(topic["partitions"][0]) for topic in answer["topics"]]


def test_a_position_can_be_deleted_where_there_is_a_partition_or_was() -> None:
    """A partition without a position has none to lose. Source: Kafka deleteOffsets."""

    async def test(home: BrokerHome) -> None:
        home.logs.create_topic("u", 2)
        await commit(home, 5)
        found = await deleted(home, ("u", 1), ("u", 2), ("v", 0))
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert found == [ErrorCode.NONE, unknown, unknown]
        assert await position(home) == 5
        assert await deleted(home, ("t", 0)) == [ErrorCode.NONE]
        assert await position(home) == -1

    with_broker(test)


def test_only_a_group_that_is_known_has_positions_to_delete() -> None:
    """By its positions, or by its members."""

    async def test(home: BrokerHome) -> None:
        topics = [{"name": "t", "partitions": [{"partitionIndex": 0}]}]
        unknown = await home.ask("OffsetDelete", 0, groupId="g", topics=topics)
        assert code(unknown) is ErrorCode.GROUP_ID_NOT_FOUND
        member_id, _ = await member_of(home)
        await leave(home, member_id)
        assert await deleted(home, ("t", 0)) == [ErrorCode.NONE]

    with_broker(test)


def test_positions_of_partitions_that_there_are_not_are_not_taken() -> None:
    """The others of a request are."""

    async def test(home: BrokerHome) -> None:
        places = [
            {"partitionIndex": number, "committedOffset": 5, "committedMetadata": None}
            for number in (0, 1)
        ]
        topics = [{"name": name, "partitions": places} for name in ("t", "other")]
        answer = await home.ask("OffsetCommit", 8, groupId="g", topics=topics)
        codes = [code(one) for topic in answer["topics"] for one in topic["partitions"]]
        assert codes == [ErrorCode.NONE, *[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 3]
        assert await position(home) == 5

    with_broker(test)


@pytest.mark.parametrize(("retention_ms", "kept_ms"), [(1000, 1000), (-1, 300_000)])
def test_a_position_expires_when_its_time_is_over(retention_ms: int, kept_ms: int) -> None:
    """That is what an older client has said, or what is set; not a millisecond before."""

    async def test(home: BrokerHome) -> None:
        place = {"partitionIndex": 0, "committedOffset": 5, "committedMetadata": None}
        topics = [{"name": "t", "partitions": [place]}]
        fields: dict[str, Any] = {"groupId": "g", "topics": topics}
        await home.ask("OffsetCommit", 4, retentionTimeMs=retention_ms, **fields)
        found = []
        for step_ms in (kept_ms - 1, 1):
            home.clock.advance(step_ms)
            home.broker._expire()
            found.append(await position(home))
        assert found == [5, -1]

    with_broker(test, offsets_retention_minutes=5)


@pytest.mark.parametrize("fails", [False, True])
def test_positions_that_wait_for_the_partition_are_answered_once_they_are_there(
    monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    """Or refused, if the disk fails then, as a deletion is."""

    def fail(*_: object) -> None:
        raise KafkaStorageError("the disk failed")

    async def test(home: BrokerHome) -> None:
        await commit(home, 1)
        with monkeypatch.context() as patched:
            if fails:
                patched.setattr(Partition, "append_records", fail)
            topics = [{"name": "t", "partitions": [{"partitionIndex": 0}]}]
            with held(home, OFFSETS_TOPIC):
                answer = asyncio.create_task(commit(home, 5))
                taking_back = home.asking("OffsetDelete", 0, groupId="g", topics=topics)
                await asyncio.sleep(0)
            async with asyncio.timeout(10):
                committed, gone = await answer, code(await taking_back)
        lost = ErrorCode.NOT_COORDINATOR if fails else ErrorCode.NONE
        assert (committed, gone) == (lost, lost)
        assert await position(home) in ({1} if fails else {5, -1})

    with_broker(test)


def test_a_position_that_a_transaction_sets_again_does_not_expire(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Its commit would be of a group that has none. Nothing is said of it until it does expire."""
    caplog.set_level("INFO", "tidelog.broker.groups")

    async def test(home: BrokerHome) -> None:
        await commit(home, 1)
        producer = await begun(home)
        await commit_within(home, producer, 9)
        home.clock.advance(600_000)
        home.broker._expire()
        assert TopicPartition("t", 0) in home.logs.groups.committed("g")
        assert "positions-expired" not in caplog.text
        await end(home, producer, commit=False)
        home.broker._expire()
        assert "positions-expired group=g partitions=1" in caplog.text
        assert await position(home) == -1

    with_broker(test, offsets_retention_minutes=5)


def test_positions_of_a_group_that_was_left_are_kept_for_ever_by_default() -> None:
    """Only a setting, or their client, says when they expire."""

    async def test(home: BrokerHome) -> None:
        member_id, generation = await member_of(home)
        await commit(home, 5, member_id, generation)
        await leave(home, member_id)
        home.clock.advance(600_000)
        home.broker._expire()
        assert await position(home) == 5

    with_broker(test)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("is_held", [False, True])
def test_an_expiry_that_fails_is_logged(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    *,
    fails: bool,
    is_held: bool,
) -> None:
    """Nobody waits for it; the next one tries again."""

    def fail(*_: object) -> None:
        raise KafkaStorageError("the disk failed")

    async def test(home: BrokerHome) -> None:
        await commit(home, 5)
        home.clock.advance(10 * 60_000)
        with monkeypatch.context() as patched:
            if fails:
                patched.setattr(Partition, "append_records", fail)
            if is_held:
                with held(home, OFFSETS_TOPIC):
                    home.broker._expire()
                    await asyncio.sleep(0)
            else:
                home.broker._expire()
            async with asyncio.timeout(10):
                while others := asyncio.all_tasks() - {asyncio.current_task()}:
                    await asyncio.wait(others)
            await asyncio.sleep(0)
        assert ("positions-not-expired" in caplog.text) == fails
        assert await position(home) == (5 if fails else -1)
        home.broker._expire()
        assert await position(home) == -1

    with_broker(test, offsets_retention_minutes=5)
