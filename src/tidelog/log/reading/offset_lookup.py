"""The offset for a time, and for the targets earliest, latest and max timestamp.

It needs no lock, and is the same for the owner of a log and a reader beside it. Kafka:
``UnifiedLog.fetchOffsetByTimestamp`` and ``ListOffsetsRequest``.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.records.batch import NO_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tidelog.records.damage.sound_offsets import OffsetBounds
    from tidelog.segment.segment_reads import SegmentSearch

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


class SearchedLog(NamedTuple):
    """A log at one moment, for lookups: its segments, ascending, each with the offsets of batches.

    ``start_offset`` is the log start, ``end_offset`` where the reader's view ends (exclusive).
    """

    segments: Sequence[tuple[SegmentSearch, OffsetBounds]]
    start_offset: int
    end_offset: int


def fetch_offset(
    log: SearchedLog, epochs: Callable[[], Sequence[tuple[int, int]]], target: int
) -> TimestampedOffset | None:
    """Return the offset for ``target``: an ``OffsetTarget``, or a time in ms.

    For a time: the first record from the log start on with that timestamp or a later one. None if
    there is no such record. ``epochs`` returns the leader epochs with their first offsets.

    Kafka looks in the first segment alone that reaches the time, and finds nothing if compaction or
    the log start has removed the records that did.
    """
    if target in {OffsetTarget.EARLIEST, OffsetTarget.EARLIEST_LOCAL}:
        known = [epoch for epoch, first in epochs()[:1] if first <= log.start_offset]
        return TimestampedOffset(NO_TIMESTAMP, log.start_offset, next(iter(known), None))
    if target == OffsetTarget.LATEST:
        known = [epoch for epoch, _ in epochs()[-1:]]
        return TimestampedOffset(NO_TIMESTAMP, log.end_offset, next(iter(known), None))
    if target in {OffsetTarget.LATEST_TIERED, OffsetTarget.EARLIEST_PENDING_UPLOAD}:
        return TimestampedOffset(NO_TIMESTAMP, NO_OFFSET, None)
    found = None
    if target == OffsetTarget.MAX_TIMESTAMP:
        # max() takes the first of equals, which is the oldest segment.
        newest = max(log.segments, key=lambda each: each[0].max_timestamp, default=None)
        if newest is not None:
            found = newest[0].find_max_timestamp(newest[1])
    else:
        # What waits for its deletion below the log start may be damaged, and was never flushed.
        shown = (each for each in log.segments if each[1].end > log.start_offset)
        late = (each for each in shown if each[0].largest_timestamp() >= target)
        for segment, bounds in late:
            found = segment.find_offset_by_timestamp(target, log.start_offset, bounds)
            if found is not None:
                break
    return TimestampedOffset(*found) if found else None
