"""The partition of ``__consumer_offsets`` that holds a group, for those who write to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.datadir.internal_topics import COORDINATOR_CONFIG
from tidelog.errors import TopicAlreadyExists
from tidelog.readonly.group_positions import OFFSETS_TOPIC, partition_of_group

if TYPE_CHECKING:
    from tidelog.datadir.catalogue import Topic
    from tidelog.manager.log_manager import LogManager
    from tidelog.manager.partition import Partition


def home_of_group(manager: LogManager, group: str) -> Partition:
    """Return the partition of a group; the topic is created if there is none.

    Errors as ``LogManager.create_topic`` and ``LogManager.partition``.
    """
    topic = offsets_topic(manager)
    number = partition_of_group(group, len(topic.partitions))
    return manager.partition(OFFSETS_TOPIC, number)


def offsets_topic(manager: LogManager) -> Topic:
    """Return the topic, with as many partitions as Kafka made, else created with one."""
    return internal_topic(manager, OFFSETS_TOPIC)


def internal_topic(manager: LogManager, name: str) -> Topic:
    """Return a coordinator's topic as it is, else created with one partition; on any thread."""
    found = manager.topics().get(name)
    if found is not None:
        return found
    try:
        return manager.create_topic(name, config=COORDINATOR_CONFIG)
    except TopicAlreadyExists:  # by another thread, just now
        return manager.topic(name)
