"""The offset for a time, and for the targets earliest, latest and max timestamp.

It needs no lock. Kafka: ``UnifiedLog.fetchOffsetByTimestamp`` and ``ListOffsetsRequest``.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.log.segments import segments_from

if TYPE_CHECKING:
    from tidelog.log.leader_epoch import LeaderEpochCache
    from tidelog.log.log_reads import LogView
    from tidelog.segment.segment_reads import TimestampAndOffset

NO_TIMESTAMP: Final = -1
NO_OFFSET: Final = -1


class OffsetTarget(IntEnum):
    """Targets other than a time. Source: Kafka ListOffsetsRequest."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


class TimestampedOffset(NamedTuple):
    """An offset, its record's timestamp in ms (-1: none meant) and its leader epoch, if known."""

    timestamp: int
    offset: int
    leader_epoch: int | None


def fetch_offset(view: LogView, epochs: LeaderEpochCache, target: int) -> TimestampedOffset | None:
    """Return the offset for ``target``: an ``OffsetTarget``, or a time in ms.

    For a time: the first record from the log start on with that timestamp or a later one. None if
    there is no such record.
    """
    offsets = view.offsets
    if target in {OffsetTarget.EARLIEST, OffsetTarget.EARLIEST_LOCAL}:
        first = epochs.earliest
        start = offsets.log_start_offset
        is_known = first is not None and first.start_offset <= start
        epoch = first.epoch if first is not None and is_known else None
        return TimestampedOffset(NO_TIMESTAMP, start, epoch)
    if target == OffsetTarget.LATEST:
        return TimestampedOffset(NO_TIMESTAMP, offsets.log_end_offset, epochs.latest_epoch)
    if target in {OffsetTarget.LATEST_TIERED, OffsetTarget.EARLIEST_PENDING_UPLOAD}:
        return TimestampedOffset(NO_TIMESTAMP, NO_OFFSET, None)
    if target == OffsetTarget.MAX_TIMESTAMP:
        # max() takes the first of equals, which is the oldest segment.
        newest = max(view.segments, key=lambda segment: segment.max_timestamp)
        found = newest.find_max_timestamp()
    else:
        found = _find_late(view, target)
    return TimestampedOffset(*found) if found else None


def _find_late(view: LogView, timestamp: int) -> TimestampAndOffset | None:
    # Unlike Kafka's, the search goes on where compaction has removed the records that reach the
    # time, or they lie below the log start.
    start = view.offsets.log_start_offset
    for segment in segments_from(view.segments, start):
        if not segment.size_bytes or segment.largest_timestamp() < timestamp:
            continue
        found = segment.find_offset_by_timestamp(timestamp, start)
        if found or segment.max_timestamp < 0:
            return found
    return None
