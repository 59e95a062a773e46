"""Answers that were compared with those of Kafka 4.3.1, field by field: what differed once."""

from __future__ import annotations

from typing import Any

import pytest
from tests.machinery.broker_home import BrokerHome, code, with_broker

from tidelog.error_codes import ErrorCode


# Offsets


def test_the_leader_epoch_of_an_empty_log_is_known() -> None:
    """It is the one in Metadata, by which a consumer finds out whether records were lost."""

    async def test(home: BrokerHome) -> None:
        for time in (-1, -2, -4):
            place = {"partitionIndex": 0, "timestamp": time}
            topics = [{"name": "t", "partitions": [place]}]
            answer = await home.ask("ListOffsets", 8, replicaId=-1, topics=topics)
            (found,) = answer["topics"][0]["partitions"]
            assert (found["offset"], found["leaderEpoch"]) == (0, 0)
        place = {"partition": 0, "leaderEpoch": 0}
        topics = [{"topic": "t", "partitions": [place]}]
        answer = await home.ask("OffsetForLeaderEpoch", 4, topics=topics)
        (found,) = answer["topics"][0]["partitions"]
        assert (found["leaderEpoch"], found["endOffset"]) == (0, 0)

    with_broker(test)


@pytest.mark.parametrize(("time", "first"), [(-3, 7), (-4, 8), (-5, 9), (-6, 11), (-7, 12)])
def test_an_end_of_a_log_is_known_from_a_version_on(time: int, first: int) -> None:
    """What an older client means by such a time nobody knows."""

    async def test(home: BrokerHome) -> None:
        for version in (first - 1, min(first, 11)):
            place = {"partitionIndex": 0, "timestamp": time}
            topics = [{"name": "t", "partitions": [place]}]
            answer = await home.ask("ListOffsets", version, replicaId=-1, topics=topics)
            (found,) = answer["topics"][0]["partitions"]
            is_known = version >= first
            assert (code(found) is ErrorCode.UNSUPPORTED_VERSION) is not is_known

    with_broker(test)


def test_a_fetch_is_told_where_its_records_part_from_the_log() -> None:
    """By the epoch of the last record that the client has. Source: KIP-595."""

    async def test(home: BrokerHome) -> None:
        home.logs.append("t", b"a")

        async def fetched(offset: int, epoch: int) -> Any:
            given = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": 1 << 20}
            topics = [{"topic": "t", "partitions": [given | {"lastFetchedEpoch": epoch}]}]
            answer = await home.ask("Fetch", 12, maxWaitMs=60_000, minBytes=1, topics=topics)
            return answer["responses"][0]["partitions"][0]

        assert (await fetched(0, 0))["records"]
        assert code(await fetched(0, 7)) is ErrorCode.OFFSET_OUT_OF_RANGE
        parted = await fetched(5, 0)
        assert code(parted) is ErrorCode.NONE
        assert (parted["divergingEpoch"], parted["records"]) == ({"epoch": 0, "endOffset": 1}, b"")

    with_broker(test)
