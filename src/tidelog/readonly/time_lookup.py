"""The offset for a timestamp, in a log that is only read.

An index entry is a hint, as everywhere beside a writer: it counts only if the batch that it names
confirms it. Kafka: ``UnifiedLog.fetchOffsetByTimestamp``.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidelog.codec.checkpoint_file import read_leader_epochs
from tidelog.errors import CorruptIndex, CorruptMessage, InvalidArgument, KafkaStorageError
from tidelog.log.leader_epoch import LEADER_EPOCH_FILE
from tidelog.log.offset_lookup import NO_TIMESTAMP, OffsetTarget, TimestampedOffset
from tidelog.readonly.log_snapshot import SnapshotOutdated
from tidelog.readonly.read_only_segment import Place, place_for
from tidelog.records.file_records import FileRecords
from tidelog.records.record_columns import decode_to_damage
from tidelog.segment.filenames import time_index_file
from tidelog.segment.index_file import read_index_file
from tidelog.segment.segment_reads import first_with
from tidelog.segment.time_index import TIME_INDEX_ENTRY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.env.files import OpenFile
    from tidelog.readonly.log_snapshot import LogSnapshot
    from tidelog.readonly.partition_files import PartitionFiles
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
    files: PartitionFiles, target: int, start_offset: int, end_offset: int
) -> TimestampedOffset | None:
    """Return the offset for ``target``: EARLIEST, LATEST, MAX_TIMESTAMP or a time in ms.

    For a time: the first record from the log start on with that timestamp or a later one.

    Args:
        files: the log's; control records count, they have timestamps too.
        target: see above.
        start_offset: the log start; also the answer for EARLIEST.
        end_offset: exclusive end of what the caller may see; also the answer for LATEST.

    Returns:
        None if there is no such record below ``end_offset``.

    Raises:
        InvalidArgument: ``target`` is negative, and none of those above.
        CorruptMessage: damage lies before the answer.
        KafkaStorageError: the leader epochs cannot be read, or the log changes too fast.
    """
    if target in {OffsetTarget.EARLIEST, OffsetTarget.LATEST}:
        return _end_of_log(files, target, start_offset, end_offset)
    if target != OffsetTarget.MAX_TIMESTAMP and target < 0:
        raise InvalidArgument(f"{target} is neither a time in ms nor a known target")
    if target == OffsetTarget.MAX_TIMESTAMP:
        found = files.ask(_find_greatest)
    else:
        found = files.ask(lambda snapshot: _find_late(snapshot, target, start_offset))
    return found if found is not None and found.offset < end_offset else None


def largest_timestamp(snapshot: LogSnapshot, segment: ReadOnlySegment, *, is_active: bool) -> int:
    """Return a segment's greatest timestamp in ms; without any, when its file was last changed.

    Raises SnapshotOutdated, and CorruptMessage for damage in an inactive segment. Source: Kafka
    LogSegment.largestTimestamp.
    """
    return _SegmentSearch(snapshot, segment, is_active=is_active).largest_timestamp()


def greatest_timestamp(
    snapshot: LogSnapshot, segment: ReadOnlySegment, *, is_active: bool, with_index: bool
) -> int:
    """Return a segment's greatest timestamp in ms, -1 without any; errors as above.

    Without its index all its batch headers are read.
    """
    search = _SegmentSearch(snapshot, segment, is_active=is_active, with_index=with_index)
    return search.greatest().timestamp


def first_batch_timestamp(snapshot: LogSnapshot, segment: ReadOnlySegment) -> int:
    """Return the greatest timestamp of a segment's first batch in ms, -1 if there is none.

    Raises SnapshotOutdated. Source: Kafka LogSegment.getFirstBatchTimestamp.
    """
    with snapshot.opened(segment) as file:
        for piece in FileRecords(file).pieces(_GROUP_BYTES):
            return int(piece.batches.max_timestamp[0])
    return NO_TIMESTAMP


def _end_of_log(files: PartitionFiles, target: int, start: int, end: int) -> TimestampedOffset:
    path = f"{files.directory}/{LEADER_EPOCH_FILE}"
    try:
        epochs = read_leader_epochs(files.fs, path)
    except InvalidArgument as error:
        raise KafkaStorageError(str(error)) from error
    if target == OffsetTarget.LATEST:
        return TimestampedOffset(NO_TIMESTAMP, end, epochs[-1][0] if epochs else None)
    is_known = bool(epochs) and epochs[0][1] <= start
    return TimestampedOffset(NO_TIMESTAMP, start, epochs[0][0] if is_known else None)


def _find_late(
    snapshot: LogSnapshot, timestamp: int, start_offset: int
) -> TimestampedOffset | None:
    # As in Kafka, the search ends in the first segment that reaches the time, even if compaction
    # has removed the records that did.
    searches = _searches(snapshot)
    late = next((search for search in searches if search.largest_timestamp() >= timestamp), None)
    return None if late is None else late.first_from(timestamp, start_offset)


def _find_greatest(snapshot: LogSnapshot) -> TimestampedOffset | None:
    best, where = _NOTHING, None
    for search in _searches(snapshot):
        greatest = search.greatest()
        if where is None or greatest.timestamp > best.timestamp:
            best, where = greatest, search
    return None if where is None else where.first_with(best.position, best.timestamp)


def _searches(snapshot: LogSnapshot) -> Iterator[_SegmentSearch]:
    for segment in snapshot.segments:
        is_active = segment is snapshot.segments[-1]
        yield _SegmentSearch(snapshot, segment, is_active=is_active)


class _SegmentSearch:
    """The lookups in one segment of a log."""

    def __init__(
        self,
        snapshot: LogSnapshot,
        segment: ReadOnlySegment,
        *,
        is_active: bool,
        with_index: bool = True,
    ) -> None:
        self._snapshot = snapshot
        self._segment = segment
        self._is_active = is_active
        self._fs = snapshot.fs
        self._hints: Hints = segment.hints(snapshot.fs)
        self._timestamps, self._offsets = self._time_entries(with_index=with_index)

    def first_from(self, timestamp: int, start_offset: int) -> TimestampedOffset | None:
        """Return the first record at or above both; None if the segment has none."""
        with self._snapshot.opened(self._segment) as file:
            known = int(self._timestamps.searchsorted(timestamp, "right")) - 1
            position = self._at_entry(file, known).position
        return self.first_behind(position, timestamp, start_offset)

    def largest_timestamp(self) -> int:
        """Return the greatest timestamp; without any, when the file was changed."""
        timestamp = self.greatest().timestamp
        if timestamp >= 0:
            return timestamp
        try:
            return self._fs.stat(self._segment.path).mtime_ms
        except FileNotFoundError:
            raise SnapshotOutdated(f"{self._segment.path} was deleted") from None

    def greatest(self) -> _Greatest:
        """Return the greatest timestamp of the segment and the first batch that has it."""
        with self._snapshot.opened(self._segment) as file:
            best = self._at_entry(file, len(self._timestamps) - 1)
            if best.timestamp > NO_TIMESTAMP and not self._is_active:
                return best
            for piece in self._pieces(file, Place(best.position)):
                at = int(piece.batches.max_timestamp.argmax())
                timestamp = int(piece.batches.max_timestamp[at])
                if timestamp > best.timestamp:
                    best = _Greatest(timestamp, int(piece.batches.position[at]))
        return best

    def first_behind(
        self, position: int, timestamp: int, start_offset: int
    ) -> TimestampedOffset | None:
        """Return the first record at or above both that lies at byte ``position`` or behind."""
        with self._snapshot.opened(self._segment) as file:
            for piece in self._pieces(file, Place(position)):
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
        """Return the first record of that time, in the first batch of which it is the greatest."""
        with self._snapshot.opened(self._segment) as file:
            for piece in self._pieces(file, Place(position)):
                batches = piece.batches_in_data
                chosen = np.flatnonzero(batches.max_timestamp == timestamp)[:1]
                if len(chosen):
                    found = first_with(piece.data, batches.select(chosen), timestamp)
                    return TimestampedOffset(*found) if found else None
        return None

    def _pieces(self, file: OpenFile, place: Place) -> Iterator[Piece]:
        """Yield the batches; whatever ends those of the last segment is the log's end."""
        try:
            bounds = self._snapshot.bounds_of(self._segment, place.before)
            yield from FileRecords(file, place.position, bounds=bounds).whole_pieces(check_crc=True)
        except CorruptMessage:
            if not self._is_active:
                raise

    def _time_entries(self, *, with_index: bool) -> tuple[Ints, Ints]:
        """Return timestamps and offsets of the time index, up to the first that does not rise."""
        raw, segment = b"", self._segment
        if with_index:
            name = segment.directory, segment.base_offset, segment.suffix
            with suppress(FileNotFoundError, CorruptIndex):
                raw, _ = read_index_file(self._fs, time_index_file(*name))
        entries = np.frombuffer(raw, TIME_INDEX_ENTRY, count=len(raw) // TIME_INDEX_ENTRY.itemsize)
        timestamps = entries["timestamp_ms"].astype(np.int64)
        offsets = entries["relative_offset"].astype(np.int64)
        falling = np.flatnonzero((np.diff(timestamps) <= 0) | (np.diff(offsets) < 0))
        count = int(falling[0]) + 1 if len(falling) else len(entries)
        return timestamps[:count], offsets[:count] + self._segment.base_offset

    def _at_entry(self, file: OpenFile, number: int) -> _Greatest:
        """Return a time index entry, if the batch that it names confirms it; else nothing."""
        if number < 0 or self._timestamps[number] < 0:
            return _NOTHING
        timestamp, offset = int(self._timestamps[number]), int(self._offsets[number])
        for piece in self._pieces(file, place_for(file, self._hints, offset)):
            at = int(piece.batches.last_offset.searchsorted(offset))
            if at < len(piece.batches):
                is_so = piece.batches.max_timestamp[at] == timestamp
                is_so &= piece.batches.base_offset[at] <= offset
                return _Greatest(timestamp, int(piece.batches.position[at])) if is_so else _NOTHING
        return _NOTHING
