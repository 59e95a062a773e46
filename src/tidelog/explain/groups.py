"""Where consumer groups are in their partitions, from the files of a data directory.

Kafka: ``kafka-consumer-groups --describe``, which asks a broker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

from tidelog.codec.shown_rows import (
    Named,
    OrMinus1,
    PartitionNumber,
    Stored,
    TimeOrMinus1,
    TopicName,
    shown,
)
from tidelog.errors import UnknownTopicOrPartition
from tidelog.readonly.group_positions import OFFSETS_TOPIC, read_committed_position
from tidelog.records.known_records import known_records
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Container

    from tidelog.readonly.group_positions import Position
    from tidelog.readonly.read_only_directory import ReadOnlyDirectory


class GroupPosition(NamedTuple):
    """A position of a group in a partition.

    The high watermark is not known either if the topic is another one than when the position was
    committed.
    """

    group: Annotated[str, "Name of the group."]
    topic: TopicName
    partition: PartitionNumber
    offset: Annotated[int, "Offset of the next record that it reads."]
    high_watermark: Annotated[
        int | None, "High watermark of the partition; null: it is not in the directory."
    ]
    leader_epoch: Annotated[
        OrMinus1, Stored.INT32, "Leader epoch of the last record that it has read; -1: not known."
    ]
    commit_time_ms: Annotated[
        TimeOrMinus1, Named("commitTimestamp"), "When the position was committed."
    ]
    metadata: Annotated[str, "Text that the reader has committed with it."]

    @property
    def key(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)

    @property
    @shown(after="high_watermark")
    def lag(self) -> int | None:
        """Offsets from the position to the high watermark; null: not known."""
        return None if self.high_watermark is None else max(self.high_watermark - self.offset, 0)


class ChangedPosition(NamedTuple):
    """A position of a group that is changed."""

    group: Annotated[str, "Name of the group."]
    topic: TopicName
    partition: PartitionNumber
    offset: Annotated[int | None, "Position before; null: none."]
    new_offset: Annotated[int | None, "Position afterwards; null: it is deleted."]


def group_positions(
    directory: ReadOnlyDirectory, groups: Container[str] | None = None
) -> list[GroupPosition]:
    """Return the committed positions of groups, None: of all, by group, topic and partition.

    Raises CorruptMessage, KafkaStorageError; PartitionsElsewhere if a part of the positions, or a
    partition that they are about, is in another data directory.
    """
    directory.check_present({OFFSETS_TOPIC: None})
    found: dict[tuple[str, TopicPartition], Position] = {}
    for log in directory.logs(OFFSETS_TOPIC):
        records = log.settled_records()
        for _, one in known_records(records, read_committed_position, log.directory):
            if groups is not None and one.group not in groups:
                continue
            if one.position is None:
                found.pop((one.group, one.key), None)
            else:
                found[one.group, one.key] = one.position
    read: dict[str, set[int]] = {}
    for _, key in found:
        read.setdefault(key.topic, set()).add(key.partition)
    directory.check_present(read)
    ends: dict[TopicPartition, int | None] = {}
    for _, key in found:
        if key not in ends:
            ends[key] = _high_watermark(directory, key)
    return [
        GroupPosition(
            *(group, *key, position.offset),
            ends[key] if _is_of(directory, key, position) else None,
            position.leader_epoch,
            position.commit_time_ms,
            position.metadata,
        )
        for (group, key), position in sorted(found.items(), key=lambda item: item[0])
    ]


def _high_watermark(directory: ReadOnlyDirectory, key: TopicPartition) -> int | None:
    try:
        with directory.open(*key) as log:
            return log.high_watermark
    except UnknownTopicOrPartition:
        return None


def _is_of(directory: ReadOnlyDirectory, key: TopicPartition, position: Position) -> bool:
    """Return whether the topic is the one that the position was committed for, or may be it."""
    topic = directory.topics.get(key.topic)
    known = None if topic is None else topic.topic_id
    return position.topic_id is None or known is None or known == position.topic_id
