"""One segment as a reader without a lock sees it.

No index is trusted: a cleaner or another process may have replaced the files since they were
listed, so an entry counts only where a batch with a matching checksum confirms it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from contextlib import closing, suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.errors import CorruptIndex, CorruptMessage, KafkaStorageError
from tidelog.lazy import np
from tidelog.readonly.held_files import (
    MeasuredFile,
    SnapshotOutdated,
    check_topic,
    outdated_if_gone,
)
from tidelog.readonly.read_files import ReadFiles
from tidelog.records.batch import INT64_MAX, NO_TIMESTAMP
from tidelog.records.damage.neighbours import base_offset_at
from tidelog.records.damage.past_damage import valid_size
from tidelog.records.file_records import FileRecords
from tidelog.segment.filenames import (
    DELETED_SUFFIX,
    log_file,
    offset_index_file,
    time_index_file,
)
from tidelog.segment.index_entries import (
    OFFSET_INDEX_ENTRY,
    TIME_INDEX_ENTRY,
    OffsetPosition,
    TimestampOffset,
)
from tidelog.segment.index_file import MAX_INDEX_BYTES, read_index_file
from tidelog.segment.segment_reads import SegmentSearch, largest_timestamp_in
from tidelog.segment.unfinished_end import ends_here

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.archive.coarse_index import CoarseIndex
    from tidelog.env.files import FileSystem, OpenFile
    from tidelog.readonly.held_files import HeldFiles
    from tidelog.records.array_rows import Ints
    from tidelog.records.damage.sound_offsets import OffsetBounds

_INDEX_BLOCK: Final = 4096
_BELOW_ALL: Final = -(2**31) - 1


_FEW_BYTES: Final = 64 << 10
"""Entries of so few bytes are read in less time than it takes to load NumPy."""


class Hints(NamedTuple):
    """Offset index entries, as far as they rise: places where a batch probably starts.

    ``offsets`` are last offsets of the batches that start at ``positions``.
    """

    offsets: Sequence[int] | Ints
    positions: Sequence[int] | Ints


NO_HINTS: Final = Hints((), ())


def read_hints(fs: FileSystem, path: str, base_offset: int) -> Hints:
    """Read an offset index; an absent, torn or preallocated one gives what it has."""
    try:
        raw = _read_used(fs, path)
    except FileNotFoundError:
        return NO_HINTS
    read = hints_in if len(raw) <= _FEW_BYTES else hints_in_many
    return read(raw, base_offset)


def hints_in(raw: bytes, base_offset: int) -> Hints:
    """Return the entries in the bytes of an offset index, up to the first that does not rise."""
    offsets, positions = [], []
    before = _BELOW_ALL, _BELOW_ALL
    for offset, position in OFFSET_INDEX_ENTRY.unpack_all(raw):
        if offset <= before[0] or position <= before[1]:
            break
        # The first batch needs no entry, and the zeros of an unused index are none.
        if position > 0 and offset >= 0:
            offsets.append(base_offset + offset)
            positions.append(position)
        before = offset, position
    return Hints(offsets, positions)


def hints_in_many(raw: bytes, base_offset: int) -> Hints:
    """Return what ``hints_in`` returns, as arrays."""
    whole = len(raw) // OFFSET_INDEX_ENTRY.size
    entries = np.frombuffer(raw, OFFSET_INDEX_ENTRY.dtype, count=whole)
    offsets = entries["relative_offset"].astype(np.int64)
    positions = entries["position"].astype(np.int64)
    falling = np.nonzero((np.diff(offsets) <= 0) | (np.diff(positions) <= 0))[0]
    count = int(falling[0]) + 1 if len(falling) else whole
    is_place = (positions[:count] > 0) & (offsets[:count] >= 0)
    return Hints(offsets[:count][is_place] + base_offset, positions[:count][is_place])


def _read_used(fs: FileSystem, path: str) -> bytes:
    """Return an index file's bytes up to the zeros of a preallocated one, and some of those."""
    size, raw = _INDEX_BLOCK, b""
    with closing(fs.open(path)) as file:
        while True:
            block = file.pread(size, len(raw))
            raw += block
            if (
                len(raw) > MAX_INDEX_BYTES
                or len(block) < size
                or not block[-OFFSET_INDEX_ENTRY.size :].strip(b"\0")
            ):
                return raw
            size *= 2


class HintedOffsets:
    """The entries of an offset index that a batch confirms, for lookups."""

    def __init__(self, file: OpenFile, base_offset: int, hints: Hints) -> None:
        self._file = file
        self._base_offset = base_offset
        self._hints = hints

    def lookup(self, offset: int) -> OffsetPosition:
        """Return the nearest entry at or below ``offset`` that counts; (base offset, 0) if none.

        An entry counts only if a whole batch with a matching checksum starts there that begins at
        or below the entry's own offset.
        """
        file, (offsets, positions) = self._file, self._hints
        index = bisect_right(offsets, offset) - 1
        while index >= 0:
            found = OffsetPosition(int(offsets[index]), int(positions[index]))
            # Its offset is looked at first: a wrong hint may point at any bytes.
            base_offset = base_offset_at(file, found.position)
            is_fitting = base_offset is not None and 0 <= base_offset <= found.offset
            if is_fitting and valid_size(file, found.position, file.size()):
                return found
            index = (index - 1) // 2  # bad hints come in runs
        return OffsetPosition(self._base_offset, 0)


class HintedTimes:
    """The entries of a time index that a batch confirms, for lookups; read when first asked for."""

    def __init__(self, segment: ReadOnlySegment) -> None:
        self._segment = segment

    @property
    def last_entry(self) -> TimestampOffset:
        """The last entry, if it counts; else (-1, base offset)."""
        return self._confirmed(len(self._entries[0]) - 1)

    def lookup(self, timestamp: int) -> TimestampOffset:
        """Return the last entry at or before ``timestamp``, if it counts; else (-1, base offset).

        An entry counts only if the batch that it names says the same.
        """
        if self._segment.coarse is not None:
            return self._segment.coarse.before(timestamp)
        return self._confirmed(int(self._entries[0].searchsorted(timestamp, "right")) - 1)

    @cached_property
    def _entries(self) -> tuple[Ints, Ints]:
        """Timestamps and offsets of the time index, up to the first that does not rise."""
        raw, segment = b"", self._segment
        path = time_index_file(segment.directory, segment.base_offset, segment.suffix)
        with suppress(FileNotFoundError, CorruptIndex):
            raw, _ = read_index_file(segment.fs, path)
        entries = np.frombuffer(raw, TIME_INDEX_ENTRY.dtype, len(raw) // TIME_INDEX_ENTRY.size)
        timestamps = entries["timestamp_ms"].astype(np.int64)
        offsets = entries["relative_offset"].astype(np.int64)
        falling = np.flatnonzero((np.diff(timestamps) <= 0) | (np.diff(offsets) < 0))
        count = int(falling[0]) + 1 if len(falling) else len(entries)
        return timestamps[:count], offsets[:count] + segment.base_offset

    def _confirmed(self, number: int) -> TimestampOffset:
        segment, (timestamps, offsets) = self._segment, self._entries
        if number >= 0 and timestamps[number] >= 0:
            entry = TimestampOffset(int(timestamps[number]), int(offsets[number]))
            with suppress(CorruptMessage):  # the walk that begins in front of it finds that
                around = entry.offset, entry.offset + 1
                for piece in segment.pieces_between(*around, segment.bounds):
                    if piece.batches.max_timestamp[0] == entry.timestamp:
                        return entry
        return TimestampOffset(NO_TIMESTAMP, segment.base_offset)


class ReadOnlySegment(SegmentSearch):
    """A ``.log`` file of a snapshot; ``size_bytes`` is its size then, the bytes that count.

    ``suffix`` is ``.swap`` for a complete replacement that was being renamed to its final name.
    ``bounds``: the offsets that its batches may have. ``is_active``: whether it is the last one.

    Raises SnapshotOutdated where a file is no longer what it was.
    """

    def __init__(
        self,
        directory: str,
        base_offset: int,
        size_bytes: int,
        suffix: str = "",
        *,
        held: HeldFiles,
        bounds: OffsetBounds,
        is_active: bool,
    ) -> None:
        self.directory: Final = directory
        self.base_offset = base_offset
        self.size_bytes: Final = size_bytes
        self.suffix: Final = suffix
        self.bounds: Final = bounds
        self.is_active: Final = is_active
        self.held: Final = held
        self._hints: Hints | None = None

    @property
    def fs(self) -> FileSystem:
        """The file system, to be read only."""
        return self.held.fs

    @property
    def path(self) -> str:
        """The ``.log`` file's path."""
        return log_file(self.directory, self.base_offset, self.suffix)

    @property
    def file(self) -> MeasuredFile:
        """The records as they were measured; opened when they are read."""
        # Not kept: a circle of references would keep files open until the next collection.
        below = partial(self.held.of, self.base_offset, self._open_again)
        return MeasuredFile(below, self.path, self.size_bytes)

    def _open_again(self) -> OpenFile:
        with outdated_if_gone(self.path):
            file = self.open(self.fs)
        try:
            check_topic(self.fs, self.directory, self.held.topic_id)
        except KafkaStorageError:
            file.close()
            raise
        if file.size() < self.size_bytes:
            file.close()
            raise SnapshotOutdated(f"{self.path} was cut or replaced")
        return file

    def open(self, fs: FileSystem) -> OpenFile:
        """Open the records under the name that they have by now.

        Raises FileNotFoundError: the segment was deleted.
        """
        names = [self.path, log_file(self.directory, self.base_offset)]
        for path in names:
            with suppress(FileNotFoundError):
                return fs.open(path)
        return fs.open(names[-1] + DELETED_SUFFIX)

    @property
    def hints(self) -> Hints:
        """The entries of the offset index, read once; of a segment on a disk."""
        if self._hints is None:
            path = offset_index_file(self.directory, self.base_offset, self.suffix)
            self._hints = read_hints(self.fs, path, self.base_offset)
        return self._hints

    @property
    def places(self) -> Hints:
        """Where the segment may be cut: index entries, or estimates where these are far away."""
        return self.hints if self.coarse is None else Hints(*self.coarse.estimate())

    def forget(self) -> None:
        """Drop what was read of the offset index; a later read does it again."""
        self._hints = None
        vars(self).pop("coarse", None)

    @property
    def modified_ms(self) -> int:
        """Time of modification of the .log file, in ms since the epoch."""
        with outdated_if_gone(self.path):
            stat = self.fs.stat(self.path)
        return stat.mtime_ms

    @cached_property
    def coarse(self) -> CoarseIndex | None:
        """The coarse index of a segment in an archive; None for one on a disk."""
        fs = self.fs
        return fs.coarse_index(self.path) if isinstance(fs, ReadFiles) else None

    def likely_end(self, offset: int) -> int | None:
        """Return a byte at or behind the batches below ``offset``, if the index is right.

        None where it does not say one, or where ``offset`` is behind the segment.
        """
        if offset >= self.bounds.end:
            return None
        if self.coarse is not None:
            return self.coarse.likely_end(offset)
        offsets, positions = self.hints
        at = bisect_left(offsets, offset) + 1  # the batch of that entry may begin before
        return int(positions[at]) if at < len(positions) else None

    @property
    def max_timestamp(self) -> int:
        """Maximum timestamp of the segment in ms, -1 if it has none."""
        return super().max_timestamp if self.coarse is None else self.coarse.max_timestamp

    @property
    def offset_index(self) -> HintedOffsets | CoarseIndex:
        """The entries of the offset index that count."""
        if self.coarse is not None:
            return self.coarse
        return HintedOffsets(self.file, self.base_offset, self.hints)

    @property
    def time_index(self) -> HintedTimes:
        """The entries of the time index that count."""
        return HintedTimes(self)

    def extent(self) -> tuple[MeasuredFile, int]:
        """Return the .log file, and its bytes that count."""
        return self.file, self.size_bytes

    def largest_so_far(self, *, with_index: bool = True) -> TimestampOffset:
        """Return the maximum timestamp with its offset; (-1, base offset) if there is none.

        Without its time index all headers of the segment are read.
        """
        indexed = TimestampOffset(NO_TIMESTAMP, self.base_offset)
        if with_index:
            indexed = self.time_index.last_entry
            if indexed.timestamp > NO_TIMESTAMP and not self.is_active:
                return indexed
        start = self.position_before(indexed.offset)
        records = FileRecords(self.file, start, self.size_bytes, bounds=self.bounds)
        later = largest_timestamp_in(records.pieces(check_crc=True))
        self.check_end(records)
        return later if later.timestamp > indexed.timestamp else indexed

    def check_end(self, records: FileRecords) -> None:
        """Raise the error that has ended a walk, unless it is an unfinished end of the log."""
        if not self.is_unfinished(records):
            records.check_complete()

    def is_unfinished(self, records: FileRecords) -> bool:
        """Return whether what follows batches, to the end of the file, is an unfinished batch.

        One with the right checksum is finished: only its offsets are wrong. Nor is one after which
        the index knows a valid batch, whatever length it claims.
        """
        file, position = records.file, records.next_position
        return (
            self.is_active
            and self.last_entry.position <= position
            and ends_here(file, position)
            and not valid_size(file, position, records.end)
        )

    @property
    def last_entry(self) -> OffsetPosition:
        """The last entry of the offset index that a batch confirms."""
        return self.offset_index.lookup(INT64_MAX)

    def tail(self) -> FileRecords:
        """Return the batches from that entry on, or from one before where headers contradict it.

        Of an archived segment: from the last entry but one of its own index, if that is right.
        """
        near = None if self.coarse is None else self.coarse.near_end()
        if near is not None:
            hints = Hints((near.offset,), (near.position,))
            found = HintedOffsets(self.file, self.base_offset, hints).lookup(near.offset)
            if position := found.position:
                return self.file_records(position, bounds=self.bounds)
        return self.records_from(self.last_entry.offset, self.bounds)

    def next_offset(self) -> int:
        """Return the offset after the last batch; CorruptMessage for damage at the end."""
        records = self.tail()
        reached = records.lowest
        for piece in records.whole_pieces(check_crc=True):
            reached = piece.batches.next_offset
        return reached
