"""A topic that is there is taken for the one that was to be created, or it differs."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from tidelog.config.log_config import LogConfig
from tidelog.datadir.catalogue import Topic
from tidelog.errors import InvalidPartitions, PolicyViolation, TopicAlreadyExists
from tidelog.manager.topics.topic_checks import MOST_PARTITIONS, check_count, check_same, new_topic

if TYPE_CHECKING:
    from collections.abc import Mapping


def differences(
    partitions: int | None, config: Mapping[str, str], count: int = 2, **settings: str
) -> str:
    """Return in what a topic of ``count`` partitions differs from what is wanted."""
    topic = new_topic("t", UUID(int=1), [UUID(int=2)] * count, settings, {}, defaults=LogConfig())
    try:
        check_same(topic, partitions, config, defaults=LogConfig())
    except TopicAlreadyExists as error:
        return str(error).partition(" exists with ")[2].partition(":")[0]
    return ""


@pytest.mark.parametrize(
    ("partitions", "config", "expected"),
    [
        (None, {}, ""),
        (1, {}, ""),
        (2, {}, ""),
        (3, {}, "2 partitions, not 3"),
        (None, {"segment.ms": "604800000"}, ""),
        (None, {"segment.ms": "5"}, "segment.ms=604800000, not 5"),
        (4, {"flush.ms": "1"}, "2 partitions, not 4; flush.ms=9223372036854775807, not 1"),
    ],
)
def test_a_topic_that_exists_may_have_grown_and_differs_in_nothing_else(
    partitions: int | None, config: dict[str, str], expected: str
) -> None:
    """A setting that is in force by default counts as one that is given."""
    assert differences(partitions, config) == expected


def test_a_setting_that_is_not_known_differs_from_any_that_is_given() -> None:
    """Kafka wrote the topic, and by what policy it deletes records there nobody knows."""
    topic = Topic("t", UUID(int=1), {0: UUID(int=2)}, {}, is_adopted=True)

    check_same(topic, 1, {"segment.ms": "604800000"}, defaults=LogConfig())
    with pytest.raises(TopicAlreadyExists, match=r"exists with retention\.ms unknown: "):
        check_same(topic, 1, {"retention.ms": "-1"}, defaults=LogConfig())


def test_one_partition_is_not_called_partitions() -> None:
    """Nor are none called one."""
    assert differences(2, {}, count=1) == "1 partition, not 2"


def test_a_topic_has_one_to_ten_thousand_partitions() -> None:
    """More are not made at once, as by Kafka's controller."""
    assert MOST_PARTITIONS == 10_000
    for count in (1, MOST_PARTITIONS):
        check_count(count)
    for count in (0, -1):
        with pytest.raises(InvalidPartitions):
            check_count(count)
    with pytest.raises(PolicyViolation):
        check_count(MOST_PARTITIONS + 1)
