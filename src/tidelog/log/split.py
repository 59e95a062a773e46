"""A segment whose offsets do not fit 32 bits, split into some whose offsets do.

Old versions of Kafka could make such segments. Owns the split; ``LocalLog`` swaps the result in.
Kafka: ``LocalLog.splitOverflowedSegment``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.codec.layout import byte_view
from tidelog.errors import InvalidArgument, InvariantError
from tidelog.log.local_log import LocalLog
from tidelog.records import legacy
from tidelog.records.batch import INT32_MAX
from tidelog.segment.filenames import CLEANED_SUFFIX

if TYPE_CHECKING:
    from tidelog.log.context import LogContext
    from tidelog.log.segments import LogSegments
    from tidelog.records.file_records import Piece
    from tidelog.records.memory import BatchColumns
    from tidelog.segment.segment import LogSegment

MAGIC_V2: Final = 2


def open_cleaned_segment(context: LogContext, base_offset: int) -> LogSegment:
    """Make an empty segment named ``.cleaned``; what an earlier try left there goes first."""
    left = context.open_segment(base_offset, suffix=CLEANED_SUFFIX)
    left.delete()
    return context.open_segment(base_offset, suffix=CLEANED_SUFFIX, preallocate=True)


def split_overflowed_segment(
    context: LogContext, segments: LogSegments, segment: LogSegment
) -> list[LogSegment]:
    """Replace ``segment`` by segments that its offsets fit; return what is gone for good."""
    if not segment.has_overflow():
        raise InvalidArgument(f"the offsets of {segment} fit")
    parts: list[LogSegment] = []
    try:
        for piece in segment.file_records().pieces():
            _copy(context, piece, parts)
        for part in parts:
            part.become_inactive()
            part.flush()
            part.set_modified_ms(segment.modified_ms)
        _check_whole(parts, segment)
    except BaseException:
        for part in parts:
            part.delete()
        raise
    return LocalLog(context, segments).replace_segments(parts, [segment])


def _check_whole(parts: list[LogSegment], segment: LogSegment) -> None:
    copied_bytes = sum(part.size_bytes for part in parts)
    if copied_bytes != segment.size_bytes:
        raise InvariantError(f"{copied_bytes} of {segment.size_bytes} bytes could be split")


def _first_offset(piece: Piece, batches: BatchColumns, index: int) -> int:
    if batches.magic[index] >= MAGIC_V2:
        return int(batches.base_offset[index])
    position, size = int(batches.position[index]), int(batches.size[index])
    return legacy.base_offset(byte_view(piece.data), position, size)


def _copy(context: LogContext, piece: Piece, parts: list[LogSegment]) -> None:
    """Append the batches of one piece; begin a part wherever the next batch does not fit."""
    batches = piece.batches_in_data
    start = 0
    while start < len(batches):
        if not parts or int(batches.last_offset[start]) - parts[-1].base_offset > INT32_MAX:
            first_offset = _first_offset(piece, batches, start)
            parts.append(context.open_segment(first_offset, suffix=CLEANED_SUFFIX))
        part = parts[-1]
        reach = part.base_offset + INT32_MAX
        end = int(batches.last_offset.searchsorted(reach, "right"))
        taken = batches.slice(start, max(end, start + 1))
        data = piece.data[int(taken.position[0]) : int(taken.end[-1])]
        part.append(int(taken.last_offset[-1]), data, taken)
        start += len(taken)
