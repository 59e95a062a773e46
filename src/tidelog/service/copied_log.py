"""What a copy that is being moved to holds of its log, and what it lacks: they are two logs.

``PartitionMover`` decides when; here are the bytes. Kafka: ``ReplicaAlterLogDirsThread``, which
fetches them as a follower does.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from tidelog.errors import KafkaStorageError, UnexpectedAppendOffset
from tidelog.records.isolation import Isolation

if TYPE_CHECKING:
    from tidelog.log.log import Log
    from tidelog.segment.filenames import TopicPartition
    from tidelog.segment.segment import LogSegment

_log = logging.getLogger(__name__)

PIECE_BYTES: Final = 1 << 20
_FAR: Final = (1 << 31) - 1


def begin(current: Log, copy: Log) -> None:
    """Let the copy begin where the disk has the log, with the producers of what its archive has."""
    start = current.local_log_start_offset
    copy.truncate_fully_and_start_at(start, current.archived_producers(start))


def align(current: Log, copy: Log) -> None:
    """Make the copy hold nothing that the log does not: either may have been truncated since."""
    if copy.log_end_offset > current.log_end_offset:
        copy.truncate_to(current.log_end_offset)
    if copy.log_end_offset < current.local_log_start_offset:
        begin(current, copy)
    copy.update_high_watermark(min(current.high_watermark, copy.log_end_offset))
    copy.maybe_increment_log_start_offset(min(current.local_log_start_offset, copy.high_watermark))
    first = current.segments.first_base_offset
    if current.log_start_offset < current.local_log_start_offset == first:
        # While nothing moved, the disk gave up what the archive has. Of a copy that begins within a
        # segment a checkpoint notes where: that would hide what the archive has before it.
        copy.delete_segments_below_start()
        if copy.local_log_start_offset > copy.segments.first_base_offset:
            begin(current, copy)


def take_up(key: TopicPartition, current: Log, copy: Log) -> None:
    """Continue a copy that an earlier process has left, or begin again if it is of other records.

    The log may have been truncated, or have lost its end, while the copy's directory was offline,
    and have grown again since: what the two hold at the end of the copy differs then. Or it was
    compacted since, by a process that moves nothing. Then the copy may have values of keys whose
    tombstones are gone from the log: they would be back.
    """
    align(current, copy)
    end = copy.log_end_offset
    if end <= copy.local_log_start_offset:
        return
    is_there = end > current.local_log_start_offset and _is_same_at(end - 1, current, copy)
    if not (is_there and _is_as_large(current, copy)):
        _log.warning("move-begun-anew topic=%s partition=%d", *key)
        begin(current, copy)


def _is_as_large(current: Log, copy: Log) -> bool:
    """Return whether the log has as many bytes as the copy up to where that ends.

    Retention may have deleted more of either: they are compared from where both have begun.
    """
    start = max(current.local_log_start_offset, copy.local_log_start_offset)
    copied = _bytes_after(current, start) - _bytes_after(current, copy.log_end_offset)
    return copied == _bytes_after(copy, start)


def _is_same_at(last: int, current: Log, copy: Log) -> bool:
    """Return whether the log has the last batch of the copy, which ends at offset ``last``."""
    pieces = []
    for log in (current, copy):
        reading = log.read(last, PIECE_BYTES, isolation=Isolation.LOG_END)
        with reading as found, log.watch("reading"):
            pieces.append(found.read())
    return pieces[0].startswith(pieces[1])


def left_bytes(current: Log, copy: Log) -> int:
    """Return about how many bytes the copy lacks."""
    return _bytes_after(current, copy.log_end_offset)


def _bytes_after(log: Log, offset: int) -> int:
    """Return how many bytes of a log lie at and after ``offset``."""
    if offset >= log.log_end_offset:
        return 0
    behind = [part.size_bytes for part in log.segments if part.base_offset > offset]
    floor = log.segments.floor(offset)
    return sum(behind) + (0 if floor is None else _bytes_from(log, floor, offset))


def _bytes_from(current: Log, segment: LogSegment, offset: int) -> int:
    """Return how many bytes of a segment of the log lie at and after ``offset``."""
    with current.watch("reading"):
        found = segment.translate_offset(offset)
    return 0 if found is None else segment.size_bytes - found.position


def copy_rest(current: Log, copy: Log) -> None:
    """Copy what the copy lacks, while nothing is appended or deleted."""
    align(current, copy)
    while copy.log_end_offset < current.log_end_offset:
        copy_piece(current, copy)
    _roll_as(current, copy, current.log_end_offset)
    align(current, copy)


def _roll_as(current: Log, copy: Log, offset: int) -> None:
    """Let the copy have the segments of the log up to an offset.

    An archive has each closed segment as it is, also one of which a crash has left nothing. And
    retention would delete records of other segments at other times.
    """
    for segment in current.segments:
        if copy.segments.active.base_offset < segment.base_offset <= offset:
            copy.roll(segment.base_offset)


def copy_piece(current: Log, copy: Log) -> int:
    """Append the next batches to the copy; return how many bytes they are.

    Raises KafkaStorageError if there are none, CorruptMessage for a damaged one: a batch whose
    offset is wrong would make the copy skip the sound ones after it.
    """
    start = copy.log_end_offset
    reading = current.read(start, PIECE_BYTES, isolation=Isolation.LOG_END)
    with reading as found, current.watch("reading"):
        piece, error = found.batches()
    if piece is None:
        reason = f"{current.directory} has no records at {start}, below its end"
        raise error or KafkaStorageError(reason)
    data = piece.data[: piece.batches_in_data.next_position]
    # Of old batches the first offset is not known; a batch lies in one segment.
    _roll_as(current, copy, int(piece.batches.last_offset[0]))
    try:
        copy.append_as_follower(data, _FAR, keeps_segment=True)
    except UnexpectedAppendOffset as error:
        # The log starts inside of its first batch, which comes whole.
        if copy.log_end_offset != copy.local_log_start_offset:
            raise
        copy.truncate_fully_and_start_at(error.first_offset)
        copy.append_as_follower(data, _FAR, keeps_segment=True)
        align(current, copy)
    return len(data)
