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


# Topics and settings


async def created(home: BrokerHome, *topics: dict[str, Any], is_trial: bool = False) -> list[Any]:
    """Create topics; return the answers."""
    usual = {"numPartitions": 1, "replicationFactor": 1, "assignments": [], "configs": []}
    asked = [usual | one for one in topics]
    answer = await home.ask("CreateTopics", 7, topics=asked, validateOnly=is_trial)
    found: list[Any] = answer["topics"]
    return found


@pytest.mark.parametrize("is_trial", [True, False])
def test_the_first_reason_not_to_create_a_topic_is_kafkas(is_trial: bool) -> None:
    """Its name, then that it is there, its settings, its partitions; a trial says the same."""

    async def test(home: BrokerHome) -> None:
        home.logs.create_topic("a.b")
        bad = {"numPartitions": 0, "configs": [{"name": "retention.ms", "value": "x"}]}
        for name, expected in (
            ("b c", ErrorCode.INVALID_TOPIC_EXCEPTION),
            ("a_b", ErrorCode.INVALID_TOPIC_EXCEPTION),
            ("t", ErrorCode.TOPIC_ALREADY_EXISTS),
            ("new", ErrorCode.INVALID_CONFIG),
        ):
            (answer,) = await created(home, {"name": name, **bad}, is_trial=is_trial)
            assert code(answer) is expected
        (answer,) = await created(home, {"name": "new", "numPartitions": 0}, is_trial=is_trial)
        assert code(answer) is ErrorCode.INVALID_PARTITIONS

    with_broker(test)


def test_a_topic_that_is_named_twice_is_answered_once() -> None:
    """A client looks the answer up by the name."""

    async def test(home: BrokerHome) -> None:
        answers = await created(home, {"name": "u"}, {"name": "u"}, {"name": "v"})
        found = [(one["name"], code(one)) for one in answers]
        assert found == [("u", ErrorCode.INVALID_REQUEST), ("v", ErrorCode.NONE)]

    with_broker(test)


async def shown(home: BrokerHome, kind: int, name: str, keys: list[str] | None) -> Any:
    """Return the answer of DescribeConfigs about one resource."""
    given = {"resourceType": kind, "resourceName": name, "configurationKeys": keys}
    answer = await home.ask("DescribeConfigs", 4, resources=[given], includeSynonyms=True)
    return answer["results"][0]


def test_settings_are_shown_as_kafkas_tools_expect_them() -> None:
    """What the broker has is named as there; no keys mean all, and no broker's name its own."""

    async def test(home: BrokerHome) -> None:
        home.logs.create_topic("u", config={"cleanup.policy": "compact"})
        (found,) = (await shown(home, 2, "u", ["cleanup.policy"]))["configs"]
        names = [(one["name"], one["value"]) for one in found["synonyms"]]
        assert names == [("cleanup.policy", "compact"), ("log.cleanup.policy", "delete")]
        assert found["documentation"] is None
        (found,) = (await shown(home, 2, "u", ["segment.jitter.ms"]))["configs"]
        assert [one["name"] for one in found["synonyms"]] == ["log.roll.jitter.ms"]
        (found,) = (await shown(home, 4, "1", ["message.max.bytes"]))["configs"]
        assert [one["name"] for one in found["synonyms"]] == ["message.max.bytes"]
        assert len((await shown(home, 2, "u", []))["configs"]) > 1
        assert (await shown(home, 4, "", None))["configs"] == []
        assert code(await shown(home, 2, "b c", None)) is ErrorCode.INVALID_TOPIC_EXCEPTION

    with_broker(test)


def test_a_setting_without_a_value_is_no_request() -> None:
    """To take one away is another step."""

    async def test(home: BrokerHome) -> None:
        step = {"name": "retention.ms", "configOperation": 0, "value": None}
        given = {"resourceType": 2, "resourceName": "t", "configs": [step]}
        for name, version in (("IncrementalAlterConfigs", 1), ("AlterConfigs", 2)):
            answer = await home.ask(name, version, resources=[given])
            assert code(answer["responses"][0]) is ErrorCode.INVALID_REQUEST

    with_broker(test)


def test_whether_replicas_may_be_added_is_repeated() -> None:
    """The answer says it as the request did."""

    async def test(home: BrokerHome) -> None:
        for allowed in (True, False):
            answer = await home.ask(
                "AlterPartitionReassignments", 1, allowReplicationFactorChange=allowed, topics=[]
            )
            assert answer["allowReplicationFactorChange"] is allowed

    with_broker(test)
