"""A partition's log opened to be read only: no lock, no change, also beside a live writer.

Owns how far such a reader may go and what it says of damage. Must not know who writes, nor trust
anything but bytes with a valid checksum. Kafka has no such reader; its tools walk single files.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidelog.codec.checkpoint_file import read_checkpoint
from tidelog.errors import CorruptMessage, InvalidArgument, KafkaStorageError, OffsetOutOfRange
from tidelog.log.read_only_segment import (
    NO_HINTS,
    Hints,
    ReadOnlySegment,
    ends_here,
    position_for,
    walk_segment,
)
from tidelog.records.columns import iterate
from tidelog.segment.filenames import is_log_file, offset_from_file_name, parse_topic_partition

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self

    from tidelog.env.files import FileSystem, OpenFile
    from tidelog.records.file_records import Piece
    from tidelog.records.record import Record

HIGH_WATERMARK_FILE: Final = "replication-offset-checkpoint"
LOG_START_OFFSET_FILE: Final = "log-start-offset-checkpoint"
INT64_MAX: Final = 2**63 - 1


class ReadUpTo(StrEnum):
    """How far a read-only reader goes."""

    HIGH_WATERMARK = "highWatermark"
    LOG_END = "logEnd"


class Split(NamedTuple):
    """A share of a log: offsets ``[start_offset, end_offset)`` in about ``size_bytes`` bytes."""

    start_offset: int
    end_offset: int
    size_bytes: int


class _LogEnd(NamedTuple):
    offset: int
    damage: CorruptMessage | None


def open_read_only(directory: str, *, fs: FileSystem) -> ReadOnlyLog:
    """Open one partition directory, as ``data/flights-0``, to be read only.

    Takes no lock and changes nothing. Reads the data directory's checkpoints first, then lists the
    segments, so that what the checkpoints promise is in the listing.

    Raises:
        InvalidTopic: the directory's name is not one of a partition.
        FileNotFoundError: there is no such directory.
        KafkaStorageError: a checkpoint file is malformed.
    """
    directory = directory.rstrip("/") or directory
    key = parse_topic_partition(os.path.basename(directory))
    data_dir = os.path.dirname(directory)
    high_watermarks = read_checkpoint(fs, os.path.join(data_dir, HIGH_WATERMARK_FILE))
    log_starts = read_checkpoint(fs, os.path.join(data_dir, LOG_START_OFFSET_FILE))
    return ReadOnlyLog(
        directory,
        fs=fs,
        checkpointed_high_watermark=high_watermarks.get(key),
        checkpointed_log_start=log_starts.get(key, 0),
    )


class ReadOnlyLog:
    """One partition's log as it was when it was opened; used by one thread at a time.

    Offsets are those of ``open_read_only``'s moment: records appended later are not seen.
    """

    def __init__(
        self,
        directory: str,
        *,
        fs: FileSystem,
        checkpointed_high_watermark: int | None,
        checkpointed_log_start: int,
    ) -> None:
        self.directory = directory
        self.topic, self.partition = parse_topic_partition(os.path.basename(directory))
        self._fs = fs
        self._checkpointed_high_watermark = checkpointed_high_watermark
        self._checkpointed_log_start = checkpointed_log_start
        self.segments = self._list()
        self._hints: dict[int, Hints] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Forget what was read of the indexes; files are open only while they are read."""
        self._hints.clear()

    @property
    def log_start_offset(self) -> int:
        """First offset a reader may ask for: the checkpoint's, or the first segment's base."""
        first = self.segments[0].base_offset if self.segments else 0
        return max(self._checkpointed_log_start, first)

    @property
    def log_end_offset(self) -> int:
        """Offset after the last whole, valid batch; the walk to it starts at the last hint."""
        return self._end.offset

    @property
    def damage(self) -> CorruptMessage | None:
        """What is wrong at the log end, if it is more than an unfinished batch."""
        return self._end.damage

    @property
    def high_watermark(self) -> int:
        """The checkpoint's high watermark, clamped into the log; without one, the log end."""
        if self._checkpointed_high_watermark is None:
            return self.log_end_offset
        return min(
            max(self._checkpointed_high_watermark, self.log_start_offset), self.log_end_offset
        )

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments as listed."""
        return sum(segment.size_bytes for segment in self.segments)

    def end_offset(self, up_to: ReadUpTo = ReadUpTo.HIGH_WATERMARK) -> int:
        """Return the exclusive end for a reader that goes ``up_to`` there."""
        return self.high_watermark if up_to is ReadUpTo.HIGH_WATERMARK else self.log_end_offset

    def pieces(
        self, start_offset: int | None = None, end_offset: int | None = None
    ) -> Iterator[Piece]:
        """Yield pieces of whole, checked batches that hold offsets of ``[start, end)``.

        The first and last batch may hold offsets outside the range. A piece's bytes are valid
        until the next piece is asked for.

        Args:
            start_offset: inclusive; None: the log start offset.
            end_offset: exclusive; None: the high watermark.

        Raises:
            OffsetOutOfRange: the range does not lie in the log.
            CorruptMessage: damage, with file and byte, after all pieces before it.
            KafkaStorageError: a segment went away while it was to be read.
        """
        start = self.log_start_offset if start_offset is None else start_offset
        end = self.high_watermark if end_offset is None else end_offset
        if start < self.log_start_offset:
            raise OffsetOutOfRange(start, self.log_start_offset, self.log_end_offset)
        if start >= end:
            return
        for index, segment in enumerate(self.segments):
            if segment.base_offset >= end:
                break
            is_last = index + 1 == len(self.segments)
            if is_last or self.segments[index + 1].base_offset > start:
                yield from self._segment_pieces(segment, start, end)
        if self.damage is not None and end >= self.log_end_offset:
            raise self.damage

    def records(
        self,
        start_offset: int | None = None,
        end_offset: int | None = None,
        *,
        since_ms: int | None = None,
    ) -> Iterator[Record]:
        """Yield the records with offsets in ``[start, end)``, without control records.

        ``since_ms`` leaves out records with an earlier timestamp, and whole batches without
        decoding them. Arguments and errors as ``pieces``.
        """
        start = self.log_start_offset if start_offset is None else start_offset
        end = self.high_watermark if end_offset is None else end_offset
        since = -INT64_MAX if since_ms is None else since_ms
        for piece in self.pieces(start, end):
            batches = piece.batches_in_data
            for record in iterate(piece.data, batches.select(batches.max_timestamp >= since)):
                if start <= record.offset < end and record.timestamp >= since:
                    yield record

    def splits(self, start_offset: int, end_offset: int, target_bytes: int) -> list[Split]:
        """Cut offsets ``[start, end)`` into shares of about ``target_bytes``, at index entries.

        The shares cover the range without gap or overlap, in order. Sizes are estimates; without
        an index a segment is not cut.
        """
        if target_bytes < 1:
            raise InvalidArgument(f"a split of {target_bytes} bytes is none")
        cuts: list[Split] = []
        start, taken = start_offset, 0
        for offset, size_bytes in self._cut_points(start_offset, end_offset):
            taken += size_bytes
            if taken >= target_bytes and start < offset < end_offset:
                cuts.append(Split(start, offset, taken))
                start, taken = offset, 0
        if start < end_offset:
            cuts.append(Split(start, end_offset, taken))
        return cuts

    def _cut_points(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield (offset at which one may cut, bytes since the last one) from start to end."""
        for index, segment in enumerate(self.segments):
            is_last = index + 1 == len(self.segments)
            next_base = end if is_last else self.segments[index + 1].base_offset
            if segment.base_offset >= end or next_base <= start:
                continue
            hints = self._hints_of(segment)
            last_position = 0
            for offset, position in zip(
                hints.offsets.tolist(), hints.positions.tolist(), strict=True
            ):
                if start <= offset < end:
                    # The batch at this position goes to the left share: its end is not known here.
                    yield offset + 1, position - last_position
                last_position = position if offset < end else last_position
            if next_base <= end:
                yield next_base, max(segment.size_bytes - last_position, 0)

    def _hints_of(self, segment: ReadOnlySegment) -> Hints:
        if segment.base_offset not in self._hints:
            self._hints[segment.base_offset] = segment.hints(self._fs)
        return self._hints[segment.base_offset]

    def _segment_pieces(self, segment: ReadOnlySegment, start: int, end: int) -> Iterator[Piece]:
        """Yield the segment's pieces; a bad batch is read twice before it counts as damage."""
        with _opened(segment, self._fs) as file:
            hints = self._hints_of(segment) if start > segment.base_offset else NO_HINTS
            position, doubted = position_for(file, hints, start), -1
            while True:
                try:
                    for piece in walk_segment(file, position):
                        if wanted := _between(piece, start, end):
                            yield wanted
                        if piece.batches.last_offset[-1] >= end - 1:
                            return
                except CorruptMessage as bad:
                    if bad.position == doubted or bad.position is None:
                        raise
                    if segment is self.segments[-1] and ends_here(file, bad.position):
                        return
                    position = doubted = bad.position
                else:
                    return

    @cached_property
    def _end(self) -> _LogEnd:
        """Walk to the log end and look at what lies there."""
        if not self.segments:
            return _LogEnd(self._checkpointed_log_start, None)
        segment = self.segments[-1]
        offset, damage = segment.base_offset, None
        with _opened(segment, self._fs) as file:
            position = position_for(file, self._hints_of(segment), INT64_MAX)
            try:
                for piece in walk_segment(file, position):
                    offset = int(piece.batches.last_offset[-1]) + 1
                    position = int(piece.batches.end[-1])
            except CorruptMessage as bad:
                position = position if bad.position is None else bad.position
                damage = None if ends_here(file, position) else bad
        promised = self._checkpointed_high_watermark or 0
        if damage is None and offset < promised:
            reason = f"offsets {offset} to {promised - 1}, below the high watermark, are missing"
            damage = CorruptMessage(reason, position, segment.path)
        return _LogEnd(max(offset, self.log_start_offset), damage)

    def _list(self) -> tuple[ReadOnlySegment, ...]:
        segments = []
        for name in self._fs.list(self.directory):
            if is_log_file(name):
                path = os.path.join(self.directory, name)
                try:
                    size_bytes = self._fs.stat(path).size_bytes
                except FileNotFoundError:
                    continue  # deleted since the listing, as retention does
                base_offset = offset_from_file_name(name)
                segments.append(ReadOnlySegment(self.directory, base_offset, size_bytes))
        return tuple(sorted(segments, key=lambda segment: segment.base_offset))


def _between(piece: Piece, start: int, end: int) -> Piece | None:
    """Return the part of a piece whose batches hold offsets of ``[start, end)``, if any does."""
    batches = piece.batches
    first = int(np.searchsorted(batches.last_offset, start))
    last = int(np.searchsorted(batches.base_offset, end))
    return piece._replace(batches=batches.slice(first, last)) if first < last else None


@contextmanager
def _opened(segment: ReadOnlySegment, fs: FileSystem) -> Iterator[OpenFile]:
    try:
        file = segment.open(fs)
    except FileNotFoundError:
        raise KafkaStorageError(f"{segment.path} was deleted while the log was read") from None
    try:
        yield file
    finally:
        file.close()
