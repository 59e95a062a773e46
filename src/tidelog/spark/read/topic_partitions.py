"""The partitions of a data directory that a read selects by topic, pattern or assignment.

Spark: ``ConsumerStrategy``.
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
"""Topics that a pattern never selects. Source: Kafka ``exclude.internal.topics``."""


class PartitionDirectories:
    """The partition directories of a data directory, with its checkpoints as of construction."""

    def __init__(self, fs: FileSystem, path: str) -> None:
        self.checkpoints = Checkpoints.read(path, fs=fs)
        self._fs = fs
        self._path = path

    def open(self, topic: str, partition: int) -> ReadOnlyLog:
        """Open a log read-only; FileNotFoundError if its directory does not exist."""
        directory = self._directory(topic, partition)
        return open_read_only(directory, fs=self._fs, checkpoints=self.checkpoints)

    def topic_id(self, topic: str, partition: int) -> str | None:
        """Return the topic's id in Kafka's base64 form; None if the directory has no metadata."""
        path = os.path.join(self._directory(topic, partition), PARTITION_METADATA_FILE)
        topic_id = read_partition_metadata(self._fs, path)
        return None if topic_id is None else format_uuid(topic_id)

    def _directory(self, topic: str, partition: int) -> str:
        return os.path.join(self._path, log_directory_name(topic, partition))


def list_partitions(fs: FileSystem, path: str) -> list[TopicPartition]:
    """Return the partitions of a data directory, in order.

    Raises:
        InvalidArgument: the directory cannot be listed.
    """
    try:
        return live_partitions(fs, path)
    except OSError as error:
        raise InvalidArgument(f"{path} is not a data directory: {error.strerror}") from error


def choose(found: list[TopicPartition], choice: TopicChoice, path: str) -> list[TopicPartition]:
    """Return those of the partitions ``found`` that ``choice`` selects.

    A pattern may match any part of a topic's name, as in Spark's Kafka source.

    Raises:
        UnknownTopicOrPartition: a topic or partition that ``choice`` names is not among them.
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
        raise UnknownTopicOrPartition(f"no topic {missing[0]} in {path}; its topics: {there}")
    if choice.assigned is None:
        return [place for place in found if place.topic in topics]
    wanted = {(topic, n) for topic, numbers in choice.assigned.items() for n in numbers}
    absent = wanted - set(found)
    if absent:
        topic, number = min(absent)
        raise UnknownTopicOrPartition(f"topic {topic} in {path} has no partition {number}")
    return [place for place in found if place in wanted]
