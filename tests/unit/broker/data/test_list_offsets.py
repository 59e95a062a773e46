"""ListOffsets and OffsetForLeaderEpoch, at a broker without sockets."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from tests.machinery.broker_home import BrokerHome, add, begun, code, end, with_broker

from tidelog.broker.dispatch import PendingOnThread
from tidelog.error_codes import ErrorCode
from tidelog.log.archived import ArchivedOffsets
from tidelog.log.reading.offset_lookup import OffsetTarget
from tidelog.records.builder import build_batch

LATEST, EARLIEST = OffsetTarget.LATEST, OffsetTarget.EARLIEST
COMMITTED = 1


class Found(NamedTuple):
    """What an answer says; -1: nothing."""

    offset: int
    timestamp: int = -1
    leader_epoch: int = -1


NOTHING = Found(-1)


def wanted(target: int, *, epoch: int = -1, count: int = 1) -> list[dict[str, Any]]:
    """Return the topics of a request, with a partition and others that there are not."""
    return [
        {
            "name": "t",
            "partitions": [
                {"partitionIndex": number, "timestamp": target, "currentLeaderEpoch": epoch}
                for number in range(count)
            ],
        }
    ]


async def listed(home: BrokerHome, target: int, *, isolation: int = 0, epoch: int = -1) -> Found:
    """Ask for an offset."""
    topics = wanted(target, epoch=epoch)
    answer = await home.ask(
        "ListOffsets", 11, replicaId=-1, isolationLevel=isolation, topics=topics, timeoutMs=1
    )
    (one,) = answer["topics"][0]["partitions"]
    assert (answer["topics"][0]["name"], one["partitionIndex"]) == ("t", 0)
    assert code(one) is ErrorCode.NONE
    return Found(one["offset"], one["timestamp"], one["leaderEpoch"])


def test_who_reads_what_is_committed_sees_the_log_end_at_the_last_stable_offset() -> None:
    """Nothing above the end that a reader sees is found, until it moves there."""

    async def test(home: BrokerHome) -> None:
        home.logs.partition("t", 0).append(build_batch([(1, None, b"a", ())]))
        producer = await begun(home)
        await add(home, producer)
        records = build_batch(
            [(5, None, b"b", ())],
            transactional=True,
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=0,
        )
        data = [{"name": "t", "partitionData": [{"index": 0, "records": records}]}]
        await home.ask("Produce", 9, transactionalId="x", acks=-1, timeoutMs=1, topicData=data)

        found = {
            isolation: [
                await listed(home, target, isolation=isolation)
                for target in (LATEST, 5, OffsetTarget.MAX_TIMESTAMP, 1)
            ]
            for isolation in (0, COMMITTED)
        }
        assert found == {
            0: [Found(2, -1, 0), Found(1, 5, 0), Found(1, 5, 0), Found(0, 1, 0)],
            COMMITTED: [Found(1, -1, 0), NOTHING, NOTHING, Found(0, 1, 0)],
        }
        await end(home, producer)
        assert await listed(home, LATEST, isolation=COMMITTED) == Found(3, -1, 0)
        assert await listed(home, 5, isolation=COMMITTED) == Found(1, 5, 0)

    with_broker(test)


def test_a_log_without_records_begins_where_it_ends() -> None:
    """In the current leader epoch, in which nothing was written yet."""

    async def test(home: BrokerHome) -> None:
        home.logs.partition("t", 0).lead(5)
        for target in (EARLIEST, OffsetTarget.EARLIEST_LOCAL, LATEST):
            assert await listed(home, target) == Found(0, -1, 5)
        assert await listed(home, OffsetTarget.MAX_TIMESTAMP) == NOTHING
        assert await listed(home, 0) == NOTHING

        await home.produce("t", b"a", b"b")
        home.logs.delete_records("t", 0, 2)
        for target in (EARLIEST, OffsetTarget.EARLIEST_LOCAL, LATEST):
            assert (await listed(home, target)).offset == 2
        assert (await listed(home, EARLIEST, epoch=5)).offset == 2

    with_broker(test)


@pytest.mark.parametrize(
    ("archived", "offsets"),
    [
        (None, [2, 2, -1, -1]),
        (ArchivedOffsets(2, 2), [2, 2, -1, 2]),
        (ArchivedOffsets(1, 2), [1, 2, 1, 2]),
        (ArchivedOffsets(0, 1), [0, 2, 0, 1]),
    ],
)
def test_what_the_archive_has_is_before_what_the_disk_has(
    archived: ArchivedOffsets | None, offsets: list[int]
) -> None:
    """The log begins in it, and it ends before what is to be archived next."""

    async def test(home: BrokerHome) -> None:
        await home.produce("t", b"a", b"b", b"c")
        home.logs.delete_records("t", 0, 2)
        log = home.logs.partition("t", 0).log
        log.note_archived(archived)
        targets = (
            *(EARLIEST, OffsetTarget.EARLIEST_LOCAL),
            *(OffsetTarget.LATEST_TIERED, OffsetTarget.EARLIEST_PENDING_UPLOAD),
        )
        assert [(await listed(home, target)).offset for target in targets] == offsets
        log.note_archived(None)

    with_broker(test)


@pytest.mark.parametrize(
    ("targets", "count", "is_on_thread"),
    [
        ((LATEST, EARLIEST), 500, False),
        ((LATEST, EARLIEST), 501, True),
        ((LATEST, 7), 1, True),
        ((OffsetTarget.MAX_TIMESTAMP,), 1, True),
    ],
)
def test_only_the_ends_of_a_thousand_logs_are_found_on_the_event_loop(
    targets: tuple[int, ...], count: int, *, is_on_thread: bool
) -> None:
    """Others are looked for in the files, or take so long that all clients would wait."""

    async def test(home: BrokerHome) -> None:
        topics = [topic for target in targets for topic in wanted(target, count=count)]
        found = home.send("ListOffsets", 7, replicaId=-1, topics=topics)
        assert isinstance(found, PendingOnThread) == is_on_thread
        if isinstance(found, PendingOnThread):
            await found.parts()

    with_broker(test)


@pytest.mark.parametrize("count", [1000, 1001])
def test_the_epochs_of_a_thousand_logs_are_looked_up_on_the_event_loop(count: int) -> None:
    """They are in memory."""

    async def test(home: BrokerHome) -> None:
        partitions = [{"partition": number, "leaderEpoch": 0} for number in range(count)]
        topics = [{"topic": "t", "partitions": partitions}]
        found = home.send("OffsetForLeaderEpoch", 4, topics=topics)
        assert isinstance(found, PendingOnThread) == (count > 1000)
        if isinstance(found, PendingOnThread):
            await found.parts()

    with_broker(test)


def test_a_partition_that_is_not_there_or_has_another_leader_epoch_is_refused() -> None:
    """With nothing but the code, by both requests; the others of the request are answered."""

    async def test(home: BrokerHome) -> None:
        home.logs.partition("t", 0).lead(5)
        found, ends = [], []
        for epoch, count in ((4, 1), (5, 2), (6, 1)):
            topics = wanted(LATEST, epoch=epoch, count=count)
            answer = await home.ask("ListOffsets", 7, replicaId=-1, topics=topics)
            found += [
                (code(one), one["offset"], one["timestamp"], one["leaderEpoch"])
                for one in answer["topics"][0]["partitions"]
            ]
            partitions = [
                {"partition": number, "currentLeaderEpoch": epoch, "leaderEpoch": 5}
                for number in range(count)
            ]
            topics = [{"topic": "t", "partitions": partitions}]
            answer = await home.ask("OffsetForLeaderEpoch", 4, topics=topics)
            assert answer["topics"][0]["topic"] == "t"
            assert [one["partition"] for one in answer["topics"][0]["partitions"]] == [
                *range(count)
            ]
            ends += [
                (code(one), one["endOffset"], one["leaderEpoch"])
                for one in answer["topics"][0]["partitions"]
            ]

        codes = [
            ErrorCode.FENCED_LEADER_EPOCH,
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_LEADER_EPOCH,
        ]
        assert found == [(one, *((-1, -1, -1) if one else (0, -1, 5))) for one in codes]
        assert ends == [(one, *((-1, -1) if one else (0, 5))) for one in codes]

    with_broker(test)


def test_the_end_of_an_epoch_that_is_not_known_is_none() -> None:
    """Of a known one it is where the next one begins."""

    async def test(home: BrokerHome) -> None:
        await home.produce("t", b"a")
        home.logs.partition("t", 0).lead(5)
        await home.produce("t", b"b")
        found = []
        for epoch in (0, 4, 5, 6):
            topics = [{"topic": "t", "partitions": [{"partition": 0, "leaderEpoch": epoch}]}]
            answer = await home.ask("OffsetForLeaderEpoch", 4, topics=topics)
            (one,) = answer["topics"][0]["partitions"]
            assert code(one) is ErrorCode.NONE
            found.append((one["leaderEpoch"], one["endOffset"]))
        assert found == [(0, 1), (0, 1), (5, 2), (-1, -1)]
        assert await listed(home, EARLIEST) == Found(0, -1, 0)
        assert await listed(home, LATEST) == Found(2, -1, 5)

    with_broker(test)
