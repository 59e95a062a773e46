"""Partitions for the event loop, which waits for no lock that another thread has.

Kafka: ``ReplicaManager.getPartitionOrError``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.errors import KafkaStorageError, UnknownTopicOrPartition
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from tidelog.manager.log_manager import LogManager
    from tidelog.manager.partition import Partition


def partition_at_once(manager: LogManager, topic: str, number: int) -> Partition:
    """Return a partition as ``LogManager.partition`` does, unless that would have to wait.

    Then it raises an error after which clients ask again: UnknownTopicOrPartition while its log is
    being created, with perhaps a thousand others; KafkaStorageError if it is to be opened again
    while a large transaction is committed.
    """
    registry, key = manager.shared.registry, TopicPartition(topic, number)
    found = registry.partition(key)
    if found is not None and found.is_online:
        return found
    manager.topic(topic).home_of(number)
    if key in registry.creating:
        raise UnknownTopicOrPartition(f"{key} is being created: try again")
    if not registry.change_lock.acquire(blocking=False):
        found = registry.partition(key)
        if found is not None and found.is_online:  # since a moment ago
            return found
        raise KafkaStorageError(f"{key} is not in service yet: try again")
    try:
        return manager.partition(topic, number)
    finally:
        registry.change_lock.release()
