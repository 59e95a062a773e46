"""Replacing a segment whose offsets do not fit 32 bits by segments whose offsets do.

Old versions of Kafka could make such segments. Kafka: ``LocalLog.splitOverflowedSegment``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tidelog.errors import CorruptMessage, InvalidArgument, InvariantError, KafkaStorageError
from tidelog.log.local_log import LocalLog
from tidelog.segment.filenames import CLEANED_SUFFIX
from tidelog.segment.segment_split import split_overflowed

if TYPE_CHECKING:
    from tidelog.log.context import LogContext
    from tidelog.log.segments import LogSegments
    from tidelog.segment.segment import LogSegment


def open_cleaned_segment(context: LogContext, base_offset: int) -> LogSegment:
    """Make an empty segment named ``.cleaned``; one left by an earlier attempt is deleted first."""
    left = context.open_segment(base_offset, suffix=CLEANED_SUFFIX)
    left.delete()
    return context.open_segment(base_offset, suffix=CLEANED_SUFFIX, preallocate=True)


def split_overflowed_segment(
    context: LogContext, segments: LogSegments, segment: LogSegment
) -> list[LogSegment]:
    """Replace ``segment`` by segments that its offsets fit; return those removed for good.

    Raises InvalidArgument if they do fit, and KafkaStorageError if the segment is damaged, so that
    it cannot be split; nothing was changed then.
    """
    if not segment.has_overflow():
        raise InvalidArgument(f"the offsets of {segment} fit")
    try:
        parts = split_overflowed(segment, partial(open_cleaned_segment, context))
    except (CorruptMessage, InvariantError) as error:
        raise KafkaStorageError(f"{segment.path} cannot be split: {error}") from error
    return LocalLog(context, segments).replace_segments(parts, [segment])
