"""Which partitions of a data directory a read means, and their logs.

Owns the choice by topic, pattern or assignment, and topic ids. Must not know offsets. Spark:
``ConsumerStrategy``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from tidelog.codec.metadata_files import (
    PARTITION_METADATA_FILE,
    format_uuid,
    read_partition_metadata,
)
from tidelog.datadir.partition_directories import live_partitions
from tidelog.errors import InvalidArgument, UnknownTopicOrPartition
from tidelog.readonly.read_only_log import Checkpoints, open_read_only
from tidelog.segment.filenames import log_directory_name

if TYPE_CHECKING:
    from tidelog.env.files import FileSystem
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.segment.filenames import TopicPartition
    from tidelog.spark.options.source_options import TopicChoice

INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})
"""Topics that a pattern never means. Source: Kafka ``exclude.internal.topics``."""


class PartitionDirectories:
    """The partition directories of a data directory; checkpoints are as at its making."""

    def __init__(self, fs: FileSystem, path: str) -> None:
        self.checkpoints = Checkpoints.read(path, fs=fs)
        self._fs = fs
        self._path = path

    def open(self, topic: str, partition: int) -> ReadOnlyLog:
        """Open a log to be read only; FileNotFoundError where it is gone."""
        directory = self._directory(topic, partition)
        return open_read_only(directory, fs=self._fs, checkpoints=self.checkpoints)

    def topic_id(self, topic: str, partition: int) -> str | None:
        """Return the topic's id in Kafka's form; None where the directory does not say."""
        path = os.path.join(self._directory(topic, partition), PARTITION_METADATA_FILE)
        topic_id = read_partition_metadata(self._fs, path)
        return None if topic_id is None else format_uuid(topic_id)

    def _directory(self, topic: str, partition: int) -> str:
        return os.path.join(self._path, log_directory_name(topic, partition))


def list_partitions(fs: FileSystem, path: str) -> list[TopicPartition]:
    """Return the partitions whose directories lie in a data directory, in order.

    Raises:
        InvalidArgument: there is no such directory.
    """
    try:
        return live_partitions(fs, path)
    except OSError as error:
        raise InvalidArgument(f"{path} is no data directory: {error.strerror}") from error


def choose(found: list[TopicPartition], choice: TopicChoice, path: str) -> list[TopicPartition]:
    """Return the partitions that ``choice`` means out of those found.

    A pattern needs to match some part of a name only, as in Spark's Kafka source.
    """
    if choice.pattern is not None:
        search = choice.pattern.search
        return [
            place for place in found if place.topic not in INTERNAL_TOPICS and search(place.topic)
        ]
    topics = choice.topics if choice.assigned is None else tuple(choice.assigned)
    missing = [topic for topic in topics if topic not in {place.topic for place in found}]
    if missing:
        there = ", ".join(sorted({place.topic for place in found})) or "none"
        raise UnknownTopicOrPartition(f"no topic {missing[0]} in {path}; topics there: {there}")
    if choice.assigned is None:
        return [place for place in found if place.topic in topics]
    wanted = {(topic, n) for topic, numbers in choice.assigned.items() for n in numbers}
    absent = wanted - set(found)
    if absent:
        topic, number = min(absent)
        raise UnknownTopicOrPartition(f"topic {topic} in {path} has no partition {number}")
    return [place for place in found if place in wanted]
