"""A partition's log opened to be read only: no lock, no change, also beside a live writer.

Owns how far such a reader may go and what it says of damage. Must not know who writes, nor trust
anything but bytes with a valid checksum. Kafka has no such reader; its tools walk single files.
"""

from __future__ import annotations

import os
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.codec.checkpoint_file import OffsetCheckpoint, read_checkpoint
from tidelog.errors import (
    CorruptMessage,
    InvalidArgument,
    KafkaStorageError,
    OffsetOutOfRange,
)
from tidelog.log.committed import AbortedFilter
from tidelog.log.decoded import decoded
from tidelog.readonly.batch_walk import walk_range
from tidelog.readonly.log_end import LogEnd, find_end
from tidelog.readonly.replayed_transactions import (
    ReplayedTransactions,
    Snapshot,
    newest_snapshot,
    replay_transactions,
)
from tidelog.readonly.segment_listing import ReadOnlyFiles
from tidelog.readonly.splits import CutPoints, Split, cut, cut_points
from tidelog.records.batch import INT64_MAX
from tidelog.segment.filenames import (
    log_directory_name,
    parse_topic_partition,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from tidelog.env.files import FileSystem
    from tidelog.readonly.read_only_segment import ReadOnlySegment
    from tidelog.records.file_records import Piece
    from tidelog.records.record import Record
    from tidelog.records.record_columns import RecordColumns

HIGH_WATERMARK_FILE: Final = "replication-offset-checkpoint"
LOG_START_OFFSET_FILE: Final = "log-start-offset-checkpoint"


class ReadUpTo(StrEnum):
    """How far a read-only reader goes."""

    HIGH_WATERMARK = "highWatermark"
    LOG_END = "logEnd"


class Checkpoints(NamedTuple):
    """What a data directory's checkpoint files say of its logs, by (topic, partition)."""

    high_watermarks: OffsetCheckpoint
    log_starts: OffsetCheckpoint

    @classmethod
    def read(cls, data_dir: str, *, fs: FileSystem) -> Checkpoints:
        """Read both files; KafkaStorageError if one is malformed."""
        try:
            high_watermarks = read_checkpoint(fs, os.path.join(data_dir, HIGH_WATERMARK_FILE))
            log_starts = read_checkpoint(fs, os.path.join(data_dir, LOG_START_OFFSET_FILE))
        except InvalidArgument as error:
            raise KafkaStorageError(str(error)) from error
        return cls(high_watermarks, log_starts)


def open_read_only(
    directory: str, *, fs: FileSystem, checkpoints: Checkpoints | None = None
) -> ReadOnlyLog:
    """Open one partition directory, as ``data/flights-0``, to be read only.

    Takes no lock and changes nothing. Reads the data directory's checkpoints first, then lists the
    segments, so that what the checkpoints promise is in the listing. Who opens many logs gives
    ``checkpoints`` that were read just before.

    Raises:
        InvalidTopic: the directory's name is not one of a partition.
        FileNotFoundError: there is no such directory.
        KafkaStorageError: a checkpoint file is malformed.
    """
    directory = directory.rstrip("/") or directory
    name = os.path.basename(directory)
    key = parse_topic_partition(name)
    known = checkpoints or Checkpoints.read(os.path.dirname(directory), fs=fs)
    # A directory that waits for deletion, or a copy in the making, has no lines of its own.
    is_live = name == log_directory_name(*key)
    return ReadOnlyLog(
        directory,
        fs=fs,
        checkpointed_high_watermark=known.high_watermarks.get(key) if is_live else None,
        checkpointed_log_start=known.log_starts.get(key, 0) if is_live else 0,
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
        self._files = ReadOnlyFiles(directory, fs)
        self._replays: dict[tuple[int, int, int | None], ReplayedTransactions] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Forget what was read of the indexes; files are open only while they are read."""
        self._files.forget()
        self._replays.clear()

    @property
    def segments(self) -> tuple[ReadOnlySegment, ...]:
        """The segments as they were listed, in order."""
        return self._files.segments

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

    def last_stable_offset(self, up_to: ReadUpTo = ReadUpTo.HIGH_WATERMARK) -> int:
        """Return the exclusive end for a reader of committed records that goes ``up_to`` there.

        All transactions with records below it are decided. In a log with damage before that end it
        lies at the damage or before: what comes behind, a marker too, is not known.
        """
        end = self.end_offset(up_to)
        return self._replayed(end, end).last_stable_offset

    def pieces(
        self,
        start_offset: int | None = None,
        end_offset: int | None = None,
        *,
        committed: bool = False,
        check_crc: bool = True,
    ) -> Iterator[Piece]:
        """Yield pieces of whole, checked batches that hold offsets of ``[start, end)``.

        The first and last batch may hold offsets outside the range. A piece's bytes are valid
        until the next piece is asked for.

        Args:
            start_offset: inclusive; None: the log start offset.
            end_offset: exclusive; None: the high watermark, or the last stable offset.
            committed: leave out the batches of aborted transactions. The caller sees to it that the
                range ends at or below the last stable offset.
            check_crc: compare checksums; without, only lengths and formats are checked.

        Raises:
            OffsetOutOfRange: the range does not lie in the log.
            CorruptMessage: damage, with file and byte, after all pieces before it; also where the
                range ends at a log end that is damaged.
            KafkaStorageError: a segment went away while it was to be read.
        """
        start, end = self._range(start_offset, end_offset, committed=committed)
        for _, piece in self._located_pieces(start, end, committed=committed, check_crc=check_crc):
            yield piece

    def records(
        self,
        start_offset: int | None = None,
        end_offset: int | None = None,
        *,
        since_ms: int | None = None,
        committed: bool = False,
    ) -> Iterator[Record]:
        """Yield what ``columns`` yields, record by record; slow, for tools and tests."""
        found = self.columns(start_offset, end_offset, since_ms=since_ms, committed=committed)
        for columns in found:
            yield from columns.records()

    def columns(
        self,
        start_offset: int | None = None,
        end_offset: int | None = None,
        *,
        since_ms: int | None = None,
        committed: bool = False,
    ) -> Iterator[RecordColumns]:
        """Yield the records with offsets in ``[start, end)``, without control records.

        ``since_ms`` leaves out records with an earlier timestamp, and whole batches without
        decoding them. Arguments and errors as ``pieces``; a batch that does not decode is damage.
        What is yielded is valid until the next is asked for.
        """
        start, end = self._range(start_offset, end_offset, committed=committed)
        since = -INT64_MAX if since_ms is None else since_ms
        for path, piece in self._located_pieces(start, end, committed=committed):
            yield from decoded(path, piece, start, end, since)

    def splits(self, start_offset: int, end_offset: int, target_bytes: int) -> list[Split]:
        """Cut offsets ``[start, end)`` into shares of about ``target_bytes``, at index entries.

        The shares cover the range without gap or overlap, in order. Sizes are estimates; without
        an index a segment is not cut.

        Raises:
            CorruptMessage: the range is empty because the log is damaged where it begins; else
                reading the last share says so.
        """
        if target_bytes < 1:
            raise InvalidArgument(f"a split of {target_bytes} bytes is none")
        if start_offset >= end_offset:
            self._check_undamaged(end_offset)
        return cut(
            self._cut_points(start_offset, end_offset), start_offset, end_offset, target_bytes
        )

    def _range(
        self, start_offset: int | None, end_offset: int | None, *, committed: bool = False
    ) -> tuple[int, int]:
        """Return the range to read; raise OffsetOutOfRange unless it lies in the log."""
        start = self.log_start_offset if start_offset is None else start_offset
        end = end_offset
        if end is None:
            end = self.last_stable_offset() if committed else self.high_watermark
        if start < self.log_start_offset:
            raise OffsetOutOfRange(start, self.log_start_offset, self.log_end_offset)
        if start < end and end > self.log_end_offset and self.damage is None:
            raise OffsetOutOfRange(end, self.log_start_offset, self.log_end_offset)
        return start, end

    def _check_undamaged(self, end: int) -> None:
        if self.damage is not None and end >= self.log_end_offset:
            raise self.damage

    def _replayed(
        self, known_offset: int, end: int, *, until_decided: int | None = None
    ) -> ReplayedTransactions:
        """Return the transactions below ``end``, all aborted ones from ``known_offset`` on.

        With ``until_decided``, at least those with records below that offset.
        """
        start, asked = self.log_start_offset, (known_offset, end, until_decided)
        if asked not in self._replays:
            known = newest_snapshot(self._fs, self.directory, start, known_offset)
            self._replays[asked] = replay_transactions(
                known or Snapshot(start, []), end, self.pieces, until_decided=until_decided
            )
        return self._replays[asked]

    def _located_pieces(
        self, start: int, end: int, *, committed: bool = False, check_crc: bool = True
    ) -> Iterator[tuple[str, Piece]]:
        """Yield each piece with the path of its file, by request without aborted batches."""
        if not committed:
            yield from self._all_pieces(start, end, check_crc=check_crc)
            return
        # A marker beyond the range may say that a transaction in it was aborted.
        replayed = self._replayed(start, self.log_end_offset, until_decided=end)
        shown_by = AbortedFilter(replayed.transactions.aborted_from(start))
        for path, piece in self._all_pieces(start, end, check_crc=check_crc):
            shown = shown_by.is_shown(piece.batches)
            yield path, piece._replace(batches=piece.batches.select(shown))
        # The end may lie where it does because damage hides what was decided behind it.
        for known in self._replays.values():
            if known.damage is not None and end >= known.last_stable_offset:
                raise known.damage

    def _all_pieces(
        self, start: int, end: int, *, check_crc: bool = True
    ) -> Iterator[tuple[str, Piece]]:
        """Yield each piece with the path of its file."""
        yield from walk_range(
            self._files, start, end, log_end_offset=self.log_end_offset, check_crc=check_crc
        )
        self._check_undamaged(end)

    @cached_property
    def _end(self) -> LogEnd:
        """The log end, looked for when it is first asked for."""
        promised = self._checkpointed_high_watermark or 0
        return find_end(self._files, self._checkpointed_log_start, promised)

    def _cut_points(self, start: int, end: int) -> Iterator[CutPoints]:
        """Yield the places at which each segment of the range may be cut."""
        for index, segment in enumerate(self.segments):
            is_last = index + 1 == len(self.segments)
            next_base = self.log_end_offset if is_last else self.segments[index + 1].base_offset
            if segment.base_offset < end and next_base > start:
                hints = self._files.hints_of(segment)
                size_bytes = segment.size_bytes
                yield cut_points(hints, start, end, next_base=next_base, size_bytes=size_bytes)
