"""Requests that name a topic twice, or in two ways: Kafka refuses to guess which is meant."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from tests.machinery.broker_home import BrokerHome, code, with_broker

from tidelog.codec.uuid_text import ZERO_ID
from tidelog.error_codes import ErrorCode


@pytest.mark.parametrize(
    "wanted",
    [
        lambda known: [("t", known)],
        lambda _: [("t", UUID(int=7))],
        lambda _: [("t", ZERO_ID), ("t", ZERO_ID)],
        lambda known: [(None, known), (None, known)],
        lambda _: [(None, ZERO_ID)],
    ],
    ids=["name and id", "name and another id", "name twice", "id twice", "neither"],
)
def test_a_topic_that_is_not_named_in_one_way_is_not_deleted(wanted: Any) -> None:
    """By its name alone, a topic would be deleted whose id the client did not give."""

    async def test(home: BrokerHome) -> None:
        asked = wanted(home.logs.manager.topic("t").topic_id)
        topics = [{"name": name, "topicId": topic_id} for name, topic_id in asked]
        (answer,) = (await home.ask("DeleteTopics", 6, topics=topics, timeoutMs=1))["responses"]
        assert code(answer) is ErrorCode.INVALID_REQUEST
        assert "t" in home.logs.manager.topics()

    with_broker(test)


def test_a_topic_that_is_named_and_given_by_its_id_is_deleted_once() -> None:
    """The second way is refused, and nothing else is."""

    async def test(home: BrokerHome) -> None:
        known = home.logs.manager.topic("t").topic_id
        topics = [{"name": None, "topicId": known}, {"name": "t", "topicId": ZERO_ID}]
        answer = await home.ask("DeleteTopics", 6, topics=topics, timeoutMs=1)
        assert [code(one) for one in answer["responses"]] == [ErrorCode.INVALID_REQUEST]
        assert "t" in home.logs.manager.topics()

    with_broker(test)


def test_a_topic_gets_partitions_once_in_a_request() -> None:
    """Of two counts, nobody knows which is meant."""

    async def test(home: BrokerHome) -> None:
        topics = [{"name": "t", "count": count, "assignments": None} for count in (3, 4)]
        answer = await home.ask("CreatePartitions", 3, topics=topics, timeoutMs=1)
        assert [code(one) for one in answer["results"]] == [ErrorCode.INVALID_REQUEST]
        assert len(home.logs.manager.topic("t").partitions) == 1

    with_broker(test)


@pytest.mark.parametrize("name", ["AlterConfigs", "IncrementalAlterConfigs"])
@pytest.mark.parametrize("is_one", [True, False], ids=["one resource", "two"])
def test_settings_that_are_named_twice_stay(name: str, is_one: bool) -> None:
    """In one resource, or as two of the same topic."""

    async def test(home: BrokerHome) -> None:
        values = [
            {"name": "retention.ms", "configOperation": 0, "value": value} for value in ("5", "6")
        ]
        given = {"resourceType": 2, "resourceName": "t"}
        parts = [values] if is_one else [[one] for one in values]
        resources = [given | {"configs": one} for one in parts]
        answer = await home.ask(name, 1, resources=resources, validateOnly=False)
        codes = [code(one) for one in answer["responses"]]
        assert codes == [ErrorCode.INVALID_REQUEST] * len(parts)
        assert "retention.ms" not in home.logs.manager.topic("t").config

    with_broker(test)


def test_metadata_of_a_topic_is_answered_once() -> None:
    """However often it is named."""

    async def test(home: BrokerHome) -> None:
        topics = [{"topicId": ZERO_ID, "name": name} for name in ("t", "none", "t", "none")]
        answer = await home.ask("Metadata", 9, topics=topics, allowAutoTopicCreation=False)
        assert [one["name"] for one in answer["topics"]] == ["t", "none"]

    with_broker(test)
