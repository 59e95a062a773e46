"""One partition as ``tidelog list`` and the system table ``partitions`` show it."""

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
