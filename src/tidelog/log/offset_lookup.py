"""The offset for a time, and for the targets earliest, latest and max timestamp.

It needs no lock. Kafka: ``UnifiedLog.fetchOffsetByTimestamp`` and ``ListOffsetsRequest``.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from tidelog.log.leader_epoch import LeaderEpochCache
    from tidelog.log.log_reads import LogView

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
        late = (s for s in view.segments if s.largest_timestamp() >= target)
        segment = next(late, None)
        start = offsets.log_start_offset
        found = None if segment is None else segment.find_offset_by_timestamp(target, start)
    return TimestampedOffset(*found) if found else None
