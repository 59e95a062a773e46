"""Partitions for the event loop, which waits for no lock that another thread has.

Kafka: ``ReplicaManager.getPartitionOrError``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.errors import KafkaStorageError
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from tidelog.manager.log_manager import LogManager
    from tidelog.manager.partition import Partition


def partition_at_once(manager: LogManager, topic: str, number: int) -> Partition:
    """Return a partition as ``LogManager.partition`` does, unless that would have to wait.

    Then it raises KafkaStorageError, after which clients ask again: its log is just being created,
    with perhaps a thousand others, or is to be opened again while a large transaction is committed.
    """
    registry = manager.shared.registry
    found = registry.partition(TopicPartition(topic, number))
    if found is not None and found.is_online:
        return found
    manager.topic(topic).home_of(number)
    if not registry.change_lock.acquire(blocking=False):
        raise KafkaStorageError(f"{topic}-{number} is not in service yet: try again")
    try:
        return manager.partition(topic, number)
    finally:
        registry.change_lock.release()
