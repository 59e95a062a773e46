"""Which offset goes with a time, in a log that is only read.

Owns the search. An index entry is a hint, as everywhere beside a writer: it counts only if the
batch that it names says the same. Kafka: ``UnifiedLog.fetchOffsetByTimestamp``.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidelog.codec.checkpoint_file import read_leader_epochs
from tidelog.errors import CorruptMessage, InvalidArgument, KafkaStorageError
from tidelog.log.leader_epoch import LEADER_EPOCH_FILE
from tidelog.log.offset_lookup import NO_TIMESTAMP, OffsetTarget, TimestampedOffset
from tidelog.readonly.read_only_segment import position_for, walk_segment
from tidelog.records.record_columns import decode_to_damage
from tidelog.segment.filenames import time_index_file
from tidelog.segment.segment_reads import first_with
from tidelog.segment.time_index import TIME_INDEX_ENTRY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.env.files import FileSystem, OpenFile
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.readonly.read_only_segment import Hints, ReadOnlySegment
    from tidelog.records.array_rows import Ints
    from tidelog.records.file_records import Piece

_GROUP_BYTES: Final = 16 << 10


class _Greatest(NamedTuple):
    """The greatest timestamp up to some batch, and where that batch starts."""

    timestamp: int
    position: int


_NOTHING: Final = _Greatest(NO_TIMESTAMP, 0)


def find_offset(
    log: ReadOnlyLog, target: int, end_offset: int, *, fs: FileSystem
) -> TimestampedOffset | None:
    """Return the offset for ``target``: EARLIEST, LATEST, MAX_TIMESTAMP or a time in ms.

    For a time: the first record from the log start on with that timestamp or a later one.

    Args:
        log: the log; control records count, they have timestamps too.
        target: see above.
        end_offset: exclusive end of what the caller may see; also the answer for LATEST.
        fs: where the log lies.

    Returns:
        None if there is no such record below ``end_offset``.

    Raises:
        CorruptMessage: damage lies before the answer.
        KafkaStorageError: the leader epochs do not read.
    """
    if target in {OffsetTarget.EARLIEST, OffsetTarget.LATEST}:
        return _end_of_log(log, target, end_offset, fs)
    if target == OffsetTarget.MAX_TIMESTAMP:
        found = _find_greatest(log, fs)
    elif target < 0:
        raise InvalidArgument(f"{target} is no time in ms, nor a target known here")
    else:
        # As in Kafka, the search ends in the first segment that reaches the time, even if
        # compaction has removed the records that did.
        searches = (_SegmentSearch(log, at, fs) for at in range(len(log.segments)))
        late = next((search for search in searches if search.largest_timestamp() >= target), None)
        found = None if late is None else late.first_from(target, log.log_start_offset)
    return found if found is not None and found.offset < end_offset else None


def _end_of_log(log: ReadOnlyLog, target: int, end: int, fs: FileSystem) -> TimestampedOffset:
    path = f"{log.directory}/{LEADER_EPOCH_FILE}"
    try:
        epochs = read_leader_epochs(fs, path)
    except InvalidArgument as error:
        raise KafkaStorageError(str(error)) from error
    if target == OffsetTarget.LATEST:
        return TimestampedOffset(NO_TIMESTAMP, end, epochs[-1][0] if epochs else None)
    start = log.log_start_offset
    is_known = bool(epochs) and epochs[0][1] <= start
    return TimestampedOffset(NO_TIMESTAMP, start, epochs[0][0] if is_known else None)


def _find_greatest(log: ReadOnlyLog, fs: FileSystem) -> TimestampedOffset | None:
    best, where = _NOTHING, None
    for at in range(len(log.segments)):
        search = _SegmentSearch(log, at, fs)
        greatest = search.greatest()
        if where is None or greatest.timestamp > best.timestamp:
            best, where = greatest, search
    return None if where is None else where.first_with(best.position, best.timestamp)


class _SegmentSearch:
    """The lookups in one segment of a log."""

    def __init__(self, log: ReadOnlyLog, number: int, fs: FileSystem) -> None:
        self._segment: ReadOnlySegment = log.segments[number]
        self._is_active = self._segment is log.segments[-1]
        self._fs = fs
        self._hints: Hints = self._segment.hints(fs)
        self._timestamps, self._offsets = self._time_entries()

    def first_from(self, timestamp: int, start_offset: int) -> TimestampedOffset | None:
        """Return the first record at or above both; None if the segment has none."""
        with closing(self._segment.open(self._fs)) as file:
            known = int(self._timestamps.searchsorted(timestamp, "right")) - 1
            position = self._at_entry(file, known).position
        return self.first_behind(position, timestamp, start_offset)

    def largest_timestamp(self) -> int:
        """Return the greatest timestamp; without any, when the file was changed, as Kafka does."""
        timestamp = self.greatest().timestamp
        return timestamp if timestamp >= 0 else self._fs.stat(self._segment.path).mtime_ms

    def greatest(self) -> _Greatest:
        """Return the greatest timestamp of the segment and the first batch that has it."""
        with closing(self._segment.open(self._fs)) as file:
            best = self._at_entry(file, len(self._timestamps) - 1)
            if best.timestamp > NO_TIMESTAMP and not self._is_active:
                return best
            for piece in self._pieces(file, best.position):
                at = int(piece.batches.max_timestamp.argmax())
                timestamp = int(piece.batches.max_timestamp[at])
                if timestamp > best.timestamp:
                    best = _Greatest(timestamp, int(piece.batches.position[at]))
        return best

    def first_behind(
        self, position: int, timestamp: int, start_offset: int
    ) -> TimestampedOffset | None:
        """Return the first record at or above both that lies at byte ``position`` or behind."""
        with closing(self._segment.open(self._fs)) as file:
            for piece in self._pieces(file, position):
                batches = piece.batches_in_data
                is_hopeful = batches.max_timestamp >= timestamp
                is_hopeful &= batches.last_offset >= start_offset
                hopeful = batches.select(is_hopeful)
                for group in decode_to_damage(piece.data, hopeful, group_bytes=_GROUP_BYTES):
                    fits = (group.timestamp >= timestamp) & (group.offset >= start_offset)
                    if fits.any():
                        at = int(fits.argmax())
                        epoch = int(group.batches.leader_epoch[group.batch[at]])
                        return TimestampedOffset(
                            int(group.timestamp[at]),
                            int(group.offset[at]),
                            None if epoch < 0 else epoch,
                        )
        return None

    def first_with(self, position: int, timestamp: int) -> TimestampedOffset | None:
        """Return the first record of that time, in the first batch that says it is its greatest."""
        with closing(self._segment.open(self._fs)) as file:
            for piece in self._pieces(file, position):
                batches = piece.batches_in_data
                chosen = np.flatnonzero(batches.max_timestamp == timestamp)[:1]
                if len(chosen):
                    found = first_with(piece.data, batches.select(chosen), timestamp)
                    return TimestampedOffset(*found) if found else None
        return None

    def _pieces(self, file: OpenFile, position: int) -> Iterator[Piece]:
        """Yield the batches; whatever ends those of the last segment is the log's end."""
        try:
            yield from walk_segment(file, position)
        except CorruptMessage:
            if not self._is_active:
                raise

    def _time_entries(self) -> tuple[Ints, Ints]:
        """Return timestamps and offsets of the time index, as far as they rise."""
        try:
            raw = self._fs.read(time_index_file(self._segment.directory, self._segment.base_offset))
        except FileNotFoundError:
            raw = b""
        entries = np.frombuffer(raw, TIME_INDEX_ENTRY, count=len(raw) // TIME_INDEX_ENTRY.itemsize)
        timestamps = entries["timestamp_ms"].astype(np.int64)
        offsets = entries["relative_offset"].astype(np.int64)
        falling = np.flatnonzero((np.diff(timestamps) <= 0) | (np.diff(offsets) < 0))
        count = int(falling[0]) + 1 if len(falling) else len(entries)
        return timestamps[:count], offsets[:count] + self._segment.base_offset

    def _at_entry(self, file: OpenFile, number: int) -> _Greatest:
        """Return what a time index entry says, if the batch it names says so too; else nothing."""
        if number < 0 or self._timestamps[number] < 0:
            return _NOTHING
        timestamp, offset = int(self._timestamps[number]), int(self._offsets[number])
        for piece in self._pieces(file, position_for(file, self._hints, offset)):
            at = int(piece.batches.last_offset.searchsorted(offset))
            if at < len(piece.batches):
                is_so = piece.batches.max_timestamp[at] == timestamp
                is_so &= piece.batches.base_offset[at] <= offset
                return _Greatest(timestamp, int(piece.batches.position[at])) if is_so else _NOTHING
        return _NOTHING
