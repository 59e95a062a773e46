"""Logs that go: renamed at once, deleted later.

Owns the order of the steps. Must not know when the files go. Kafka: ``LogManager.asyncDelete``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from tidelog.errors import KafkaStorageError, UnknownTopicOrPartition
from tidelog.manager.lifecycle.creation import forget_lines
from tidelog.segment.filenames import (
    TopicPartition,
    log_delete_directory_name,
    log_stray_directory_name,
)

if TYPE_CHECKING:
    from tidelog.log.log import Log
    from tidelog.manager.parts import Parts


def delete_topic(parts: Parts, name: str) -> None:
    """Delete a topic with all its logs.

    From the moment that the catalogues say so it is gone, and a start after a crash finishes it.
    Raises UnknownTopicOrPartition, or KafkaStorageError if a directory that is offline holds a
    part of it: nothing was changed then.
    """
    with parts.creation:
        topic = parts.topics.get(name)
        for number, home_id in sorted(topic.partitions.items()):
            if parts.dirs.with_id(home_id) is None:
                raise KafkaStorageError(f"{name}-{number} lies in a directory that is offline")
        parts.topics.delete(name)
        for number in sorted(topic.partitions):
            key = TopicPartition(name, number)
            async_delete(parts, key, is_future=True)
            async_delete(parts, key)
        parts.topics.forget_deleted()
        parts.counters.forget(name)


def async_delete(
    parts: Parts, key: TopicPartition, *, is_future: bool = False, is_stray: bool = False
) -> Log | None:
    """Take a log out of service and name its directory so that it is deleted, or kept aside.

    Returns None if there was none. Raises KafkaStorageError if there is none, but one may lie in a
    directory that is offline, and if the disk fails.
    """
    with parts.creation:
        if is_future:
            log = parts.logs.remove_future(key)
        else:
            gone = parts.logs.remove(key)
            log = None if gone is None else gone.log
            if gone is not None:
                name = f"{key.topic}-{key.partition}"
                gone.end(UnknownTopicOrPartition(f"{name} was deleted"))
        if log is None:
            if parts.dirs.failures and not is_future:
                raise KafkaStorageError(
                    f"{key.topic}-{key.partition} may lie in a directory that is offline"
                )
            return None
        home = parts.home_of(log)
        if parts.cleaner is not None and not is_future:
            parts.cleaner.manager.abort(key)
        put_away(parts, key, log, is_stray=is_stray)
        with log.watch("forgetting a log"):
            forget_lines(parts, home, key)
        parts.bell.ring()
        return log


def put_away(parts: Parts, key: TopicPartition, log: Log, *, is_stray: bool = False) -> None:
    """Rename a log's directory to ``-delete``, to be deleted, or to ``-stray``, to be kept."""
    unique = UUID(int=parts.machine.rng.getrandbits(128), version=4).hex
    if is_stray:
        log.rename_directory(log_stray_directory_name(*key, unique), goes_on=False)
        log.close_handlers()
    else:
        log.rename_directory(log_delete_directory_name(*key, unique), goes_on=False)
        parts.doomed.add(log.directory, log)
