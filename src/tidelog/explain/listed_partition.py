"""One partition as ``tidelog list`` and the system table ``partitions`` show it, and one topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

from tidelog.codec.shown_rows import (
    Damage,
    HighWatermark,
    Int32,
    LastStable,
    LogBytes,
    LogEnd,
    LogStart,
    PartitionNumber,
    TopicName,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.readonly.read_only_log import ReadOnlyLog


class ListedPartition(NamedTuple):
    """One partition."""

    topic: TopicName
    partition: PartitionNumber
    log_start_offset: LogStart
    last_stable_offset: LastStable
    high_watermark: HighWatermark
    log_end_offset: LogEnd
    segments: Annotated[Int32, "Number of segments."]
    size_bytes: LogBytes
    damage: Damage

    @property
    def offsets(self) -> int:
        """How many offsets lie between the start and the end of the log."""
        return self.log_end_offset - self.log_start_offset


class ListedTopic(NamedTuple):
    """The partitions of a topic together."""

    topic: TopicName
    partitions: Annotated[Int32, "Number of partitions that are there."]
    offsets: Annotated[int, "Offsets between the starts and ends of their logs."]
    segments: Annotated[Int32, "Number of segments."]
    size_bytes: Annotated[int, "Size of their `.log` files, in bytes."]

    @classmethod
    def of(cls, topic: str, partitions: Sequence[ListedPartition]) -> ListedTopic:
        """Return the sums of a topic."""
        offsets = sum(one.offsets for one in partitions)
        segments = sum(one.segments for one in partitions)
        size_bytes = sum(one.size_bytes for one in partitions)
        return cls(topic, len(partitions), offsets, segments, size_bytes)


def list_partition(log: ReadOnlyLog) -> ListedPartition:
    """Return what a log looks like from outside; KafkaStorageError."""
    offsets = log.offsets()
    return ListedPartition(
        log.topic,
        log.partition,
        offsets.log_start_offset,
        offsets.last_stable_offset,
        offsets.high_watermark,
        offsets.log_end_offset,
        len(log.segments),
        log.size_bytes,
        None if log.damage is None else str(log.damage),
    )
