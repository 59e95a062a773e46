"""A partition's log opened to be read only: no lock, no change, also beside a live writer.

Nothing but bytes with a valid checksum is trusted. Kafka has no such reader; its tools walk single
files.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.codec.checkpoint_file import LEADER_EPOCH_FILE, read_leader_epochs
from tidelog.codec.given_values import check_flags, check_offsets
from tidelog.codec.one_line import Drawn
from tidelog.codec.shown_rows import HighWatermark, LastStable, LogEnd, LogStart
from tidelog.env.attempts import Closable
from tidelog.env.forks import refuse_pickling
from tidelog.env.moments import time_ms
from tidelog.errors import (
    CorruptFile,
    CorruptIndex,
    CorruptMessage,
    InvalidArgument,
    OffsetOutOfRange,
    UnknownTopicOrPartition,
)
from tidelog.lazy import np
from tidelog.log.reading.committed import open_producers
from tidelog.log.topic_id import PARTITION_METADATA_FILE, read_partition_metadata
from tidelog.readonly.batch_walk import PIECE_BYTES, walk_range
from tidelog.readonly.checkpoints import NO_LINES, Checkpoints, Lines
from tidelog.readonly.held_files import SnapshotOutdated
from tidelog.readonly.log_end import find_end
from tidelog.readonly.missing.damaged_range import DamagedRange, ignore_damage
from tidelog.readonly.missing.holes import find_holes
from tidelog.readonly.partition_files import PartitionFiles, overlapping
from tidelog.readonly.read_files import reading
from tidelog.readonly.replayed_transactions import (
    LogTransactions,
    ReplayedTransactions,
    Snapshot,
    begun,
    indexed_aborted,
    newest_snapshot,
    replay_transactions,
)
from tidelog.records.batch import INT64_MAX
from tidelog.records.isolation import ReadUpTo
from tidelog.segment.filenames import (
    log_directory_name,
    offset_from_file_name,
    parse_topic_partition,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

    from tidelog.env.files import FileSystem
    from tidelog.env.moments import Moment
    from tidelog.log.reading.offset_lookup import TimestampedOffset
    from tidelog.log.reading.record_count import RecordCount
    from tidelog.readonly.log_snapshot import LogSnapshot
    from tidelog.readonly.missing.damaged_range import OnDamage
    from tidelog.readonly.read_files import ReadFiles
    from tidelog.readonly.read_only_segment import ReadOnlySegment
    from tidelog.readonly.splits import CutPoints, Split
    from tidelog.records.array_rows import Bools
    from tidelog.records.decoding.record_columns import RecordColumns
    from tidelog.records.file_records import Piece
    from tidelog.records.record import Record


LEAST_PIECE_BYTES: Final = 1 << 20
"""What is read at once for a reader that wants little."""


class Offsets(NamedTuple):
    """The offsets of one log; all but the first are exclusive ends."""

    log_start_offset: LogStart
    high_watermark: HighWatermark
    last_stable_offset: LastStable
    log_end_offset: LogEnd


def open_read_only(
    directory: str,
    *,
    fs: FileSystem,
    checkpoints: Checkpoints | None = None,
    on_damage: OnDamage | None = None,
    below_start: bool = False,
) -> ReadOnlyLog:
    """Open one partition directory, as ``data/flights-0``, to be read only.

    Takes no lock and changes nothing. Reads the data directory's checkpoints first, then lists the
    segments, so that what the checkpoints promise is in the listing. To open many logs, pass
    ``checkpoints`` that were read just before. With ``on_damage``, reads continue after damage, and
    report to it what they skip. ``below_start``: the log begins at the first record in its files,
    whatever log start the checkpoint states.

    Raises:
        InvalidTopic: the directory's name is not one of a partition.
        UnknownTopicOrPartition: there is no such directory.
        KafkaStorageError: a checkpoint file is malformed, the disk failed, or the log is changed
            faster than it can be read.
    """
    directory = directory.rstrip("/") or directory
    name, data_dir = os.path.basename(directory), os.path.dirname(directory)
    key = parse_topic_partition(name)
    files = reading(fs)
    # A directory that waits for deletion, or an incomplete copy, has no lines of its own.
    is_live = name == log_directory_name(*key)

    def read_lines() -> Lines:
        if not is_live:
            return NO_LINES
        return lines_in(Checkpoints.read(data_dir, fs=files), again=True)

    def lines_in(found: Checkpoints, *, again: bool = False) -> Lines:
        lines = found.lines_of(key)
        start = max(lines.log_start_offset, files.join_archive(directory, key[1], again=again))
        return lines._replace(log_start_offset=0 if below_start else start)

    known = lines_in(checkpoints) if checkpoints is not None and is_live else read_lines()
    return ReadOnlyLog(directory, fs=files, lines=known, read_lines=read_lines, on_damage=on_damage)


class ReadOnlyLog(Drawn, Closable):
    """One partition's log as it was when it was opened; used by one thread at a time.

    Offsets and ``segments`` stay as they were then: records appended later are not seen. Files
    stay open until ``close``, up to a number; where one that is to be read was replaced, deleted or
    cut meanwhile, the read continues in the files that are there now.
    """

    __reduce__ = refuse_pickling

    def __init__(
        self,
        directory: str,
        *,
        fs: ReadFiles,
        lines: Lines,
        read_lines: Callable[[], Lines],
        on_damage: OnDamage | None = None,
    ) -> None:
        self.directory = directory
        self.topic, self.partition = parse_topic_partition(os.path.basename(directory))
        self._fs = fs
        self._replays: dict[tuple[int, int, int | None], ReplayedTransactions] = {}
        try:
            self._files = PartitionFiles(
                directory, fs, lines, read_lines, past_damage=on_damage is not None
            )
        except FileNotFoundError:
            above = os.path.dirname(directory)
            raise UnknownTopicOrPartition(
                f"no partition {os.path.basename(directory)} in {above}"
            ) from None
        self._on_damage = on_damage
        self._skipped_to = 0
        self._holes: set[tuple[int, int]] = set()
        self._end = find_end(self._files)
        self._lines, self._segments = self._files.lines, self._files.segments
        self._archived_start = fs.archived_start(directory)

    def _told(self) -> str:
        return (
            f"{self.directory!r}: log_start_offset={self.log_start_offset},"
            f" high_watermark={self.high_watermark}, log_end_offset={self.log_end_offset},"
            f" segments={len(self.segments)}"
        )

    def close(self) -> None:
        """Close the files and drop what was read of the indexes; a later read opens them again."""
        self._files.release()
        self._replays.clear()

    @property
    def fs(self) -> FileSystem:
        """The file system, to be read only."""
        return self._fs

    @property
    def snapshot(self) -> LogSnapshot:
        """The snapshot from which the offsets come.

        Raises SnapshotOutdated once a read has taken another one; callers stay in this package.
        """
        snapshot = self._files.snapshot
        if snapshot.segments is not self._segments:
            raise SnapshotOutdated(f"{self.directory} was read again")
        return snapshot

    @property
    def segments(self) -> tuple[ReadOnlySegment, ...]:
        """The segments, in order; the last one's size may go beyond the log end."""
        return self._segments

    @property
    def bounded_segments(self) -> list[tuple[ReadOnlySegment, int]]:
        """The segments, each with the base offset of the next one, or the log end offset."""
        ends = [*(segment.base_offset for segment in self.segments[1:]), self.log_end_offset]
        return list(zip(self.segments, ends, strict=False))  # a log may have no segment

    @property
    def topic_id(self) -> UUID | None:
        """The topic's id in ``partition.metadata``; None where there is no such file.

        Raises KafkaStorageError, InvalidArgument for an unreadable file.
        """
        return read_partition_metadata(
            self._fs, os.path.join(self.directory, PARTITION_METADATA_FILE)
        )

    @property
    def log_start_offset(self) -> int:
        """First offset a reader may ask for: the checkpoint's, or the first segment's base.

        Where the log begins in an archive it may begin in a gap, before its first segment.
        """
        first = self._first_base
        if self._archived_start is not None:
            first = min(first, self._archived_start)
        return max(self._lines.log_start_offset, first)

    @property
    def is_archived(self) -> bool:
        """Whether it is read from an archive, whole or where the disk has it no more."""
        return self._archived_start is not None

    @property
    def _first_base(self) -> int:
        """The base offset of the first segment, 0 if there is none."""
        return self.segments[0].base_offset if self.segments else 0

    @property
    def disk_and_archive(self) -> tuple[int, int] | None:
        """The offset from which on the disk has all, and the end of what the archive has.

        None for a log that does not begin in an archive.
        """
        return self._fs.disk_and_archive(self.directory)

    @property
    def log_end_offset(self) -> int:
        """Offset after the last whole, valid batch."""
        return self._end.offset

    @property
    def damage(self) -> CorruptMessage | None:
        """What is wrong at the log end, if it is more than an unfinished batch."""
        return self._end.damage

    @property
    def high_watermark(self) -> int:
        """The checkpoint's high watermark, clamped into the log; without one, the log end."""
        line = self._lines.high_watermark
        if line is None:
            return self.log_end_offset
        return min(max(line, self.log_start_offset), self.log_end_offset)

    @property
    def checkpointed_high_watermark(self) -> int | None:
        """The checkpoint's high watermark as it stands there; None without a line."""
        return self._lines.high_watermark

    @property
    def holes(self) -> list[tuple[int, int]]:
        """Offsets ``[start, end)`` beside segments that reads so far found in none.

        A segment is lost there, or the log was compacted. Only an archived log has such offsets
        before its first segment: those from its start on.
        """
        return sorted(self._holes)

    def find_holes(self, start: int | None = None, end: int | None = None) -> list[tuple[int, int]]:
        """Return the holes beside segments, clipped to ``[start, end)``, without reading records.

        None: the log start, the log end. What they mean is as in ``holes``; one next to a damaged
        segment is not found. Raises KafkaStorageError.
        """
        last = self.log_end_offset if end is None else end
        check_offsets(start or 0, last)
        first = max(self.log_start_offset, start or 0)
        found = self._files.ask(lambda snapshot: find_holes(snapshot, first, last))
        base = min(self._first_base, last)
        return [(first, base), *found] if first < base else found

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size_bytes for segment in self.segments)

    def offsets(self, up_to: ReadUpTo = ReadUpTo.HIGH_WATERMARK) -> Offsets:
        """Return all offsets; the last stable one for a reader that goes ``up_to`` there."""
        return Offsets(
            self.log_start_offset,
            self.high_watermark,
            self.last_stable_offset(up_to),
            self.log_end_offset,
        )

    @property
    def end_position(self) -> int:
        """Byte of the last segment after its last whole, valid batch."""
        return self._end.position

    def offset_at(self, target: Moment, end_offset: int | None = None) -> TimestampedOffset | None:
        """Return the offset for a time, or an ``OffsetTarget``; None if there is none.

        For a time, in ms or as a ``datetime``: that of the first record with this timestamp or a
        later one. ``end_offset`` is the exclusive end of what the caller may see, None: the high
        watermark. Raises InvalidArgument for an unknown target, CorruptMessage for damage before
        the answer, and KafkaStorageError, also where the leader epochs cannot be read.
        """
        from tidelog.log.reading.offset_lookup import OffsetTarget, SearchedLog, fetch_offset

        wanted = time_ms(target)
        ends = (OffsetTarget.EARLIEST, OffsetTarget.LATEST)
        if wanted < 0 and wanted not in {*ends, OffsetTarget.MAX_TIMESTAMP}:
            raise InvalidArgument(f"{target} is neither a time in ms nor a known target")
        end = self.high_watermark if end_offset is None else end_offset
        check_offsets(end)

        def find(snapshot: LogSnapshot) -> TimestampedOffset | None:
            bounded = [(segment, segment.bounds) for segment in snapshot.segments]
            searched = SearchedLog(bounded, self.log_start_offset, end)
            return fetch_offset(searched, self.leader_epochs, wanted)

        found = self._files.ask(find)
        if wanted in ends:
            return found
        if found is None or wanted == OffsetTarget.MAX_TIMESTAMP:
            self.check_undamaged(end)
        return found if found is not None and found.offset < end else None

    def leader_epochs(self) -> list[tuple[int, int]]:
        """Return each leader epoch in ``leader-epoch-checkpoint``, with the offset it begins at.

        Raises KafkaStorageError; CorruptFile for a malformed file.
        """
        try:
            return read_leader_epochs(self._fs, os.path.join(self.directory, LEADER_EPOCH_FILE))
        except InvalidArgument as error:
            raise CorruptFile(str(error)) from error

    def known_epochs(self) -> tuple[tuple[int, int], ...]:
        """Return ``leader_epochs``, none of a malformed file: records can be read without them."""
        try:
            return tuple(self.leader_epochs())
        except CorruptFile:
            return ()  # verify reports what is wrong with the file

    def end_offset(self, up_to: ReadUpTo = ReadUpTo.HIGH_WATERMARK) -> int:
        """Return the exclusive end for a reader that goes ``up_to`` there."""
        is_all = ReadUpTo(up_to) is ReadUpTo.LOG_END
        return self.log_end_offset if is_all else self.high_watermark

    def visible_end(
        self, up_to: ReadUpTo = ReadUpTo.HIGH_WATERMARK, *, committed: bool = False
    ) -> int:
        """Return the exclusive end for a reader, maybe of committed records only."""
        check_flags(committed=committed)
        return self.last_stable_offset(up_to) if committed else self.end_offset(up_to)

    def last_stable_offset(self, up_to: ReadUpTo = ReadUpTo.HIGH_WATERMARK) -> int:
        """Return the exclusive end for a reader of committed records that goes ``up_to`` there.

        All transactions with records below it are decided. In a log with damage before that end it
        lies at the damage or before: what comes behind, a marker too, is not known.
        """
        end = self.end_offset(up_to)
        # One that is open may have begun below. Kafka: UnifiedLog.maybeIncrementFirstUnstableOffset
        return max(self._replayed(end, end).last_stable_offset, self.log_start_offset)

    def transactions(
        self, up_to: ReadUpTo = ReadUpTo.HIGH_WATERMARK, *, aborted: bool = True
    ) -> LogTransactions:
        """Return what is open for a reader that goes ``up_to`` there, and what was aborted.

        The first open one holds the last stable offset. Without ``aborted`` only what lies after
        the newest producer snapshot is read, else the whole log. Raises KafkaStorageError.
        """
        check_flags(aborted=aborted)
        first, end = self.log_start_offset, self.end_offset(up_to)
        found = self._replayed(first if aborted else end, end)

        def from_start(start: int, end: int) -> Iterator[Piece]:
            return self.quiet_pieces(start, end) if start >= first else iter(())

        opened = begun(found.transactions.open, from_start)
        known = tuple(found.transactions.aborted) if aborted else ()
        at_end = self.damage if end >= self.log_end_offset else None
        return LogTransactions(opened, known, found.damage or at_end)

    def pieces(
        self,
        start_offset: int | None = None,
        end_offset: int | None = None,
        *,
        committed: bool = False,
        check_crc: bool = True,
        piece_bytes: int = PIECE_BYTES,
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
            piece_bytes: how many bytes to read at once; a larger batch makes a larger piece.

        Raises:
            OffsetOutOfRange: the range does not lie in the log.
            CorruptMessage: damage, with file and byte, after all pieces before it; also where the
                range ends at a log end that is damaged.
            KafkaStorageError: the disk failed, or the log was deleted or truncated meanwhile.
        """
        check_flags(check_crc=check_crc)
        start, end = self._range(start_offset, end_offset, committed=committed)
        if not committed:
            yield from self._all_pieces(start, end, check_crc=check_crc, piece_bytes=piece_bytes)
            return
        shown = self._shown_pieces(start, end, check_crc=check_crc, piece_bytes=piece_bytes)
        for piece, is_shown in shown:
            yield piece._replace(batches=piece.batches.select(is_shown))

    def near_pieces(
        self, start_offset: int, end_offset: int, size_bytes: int, *, committed: bool = False
    ) -> tuple[int, Iterator[Piece]]:
        """Return the pieces of about ``size_bytes`` from an offset on, and the end of their range.

        As ``pieces``, for readers that come again for more, of an owner's log in its archive: no
        more is fetched, and which transactions were aborted is looked up in the owner's indexes.
        ``end_offset`` lies at or below the last stable offset.
        """
        end = end_offset
        for segment in overlapping(self.segments, start_offset, end_offset)[:1]:
            # The next segment's beginning: what lies between them is passed with this one.
            end = min(end, segment.bounds.end)
            if segment.coarse is not None:
                near = segment.coarse.offset_behind(start_offset, size_bytes)
                end = end if near is None else min(end, near)
        piece_bytes = min(max(size_bytes, LEAST_PIECE_BYTES), PIECE_BYTES)
        pieces = self.pieces(start_offset, end, piece_bytes=piece_bytes)
        return end, self._without_aborted(pieces, start_offset, end) if committed else pieces

    def _without_aborted(self, pieces: Iterator[Piece], start: int, end: int) -> Iterator[Piece]:
        from tidelog.log.reading.committed import AbortedFilter

        try:
            aborted = self._files.ask(lambda snapshot: indexed_aborted(snapshot, start, end))
        except CorruptIndex:
            yield from self.pieces(start, end, committed=True)
            return
        shown_by = AbortedFilter(aborted)
        for piece in pieces:
            yield piece._replace(batches=piece.batches.select(shown_by.is_shown(piece.batches)))

    def decodable_pieces(
        self,
        start_offset: int,
        end_offset: int,
        *,
        committed: bool = False,
        check_crc: bool = True,
        piece_bytes: int = PIECE_BYTES,
    ) -> Iterator[Piece]:
        """Yield what ``pieces`` yields, without batches that do not decode if damage is skipped.

        To find them each batch is decoded. Arguments and errors as ``pieces``.
        """
        from tidelog.records.decoding.decoded import undecodable

        for piece in self.pieces(
            *(start_offset, end_offset),
            committed=committed,
            check_crc=check_crc,
            piece_bytes=piece_bytes,
        ):
            bad = {} if self._on_damage is None else undecodable(piece)
            for at, reason in bad.items():
                self._report_batch(piece, at, reason)
            good = np.ones(len(piece.batches), np.bool_)
            good[list(bad)] = False
            if not bad:
                yield piece
            elif good.any():
                yield piece._replace(batches=piece.batches.select(good))

    def pieces_with_visibility(
        self, start_offset: int, end_offset: int, *, committed: bool = False
    ) -> Iterator[tuple[Piece, Bools]]:
        """Yield the pieces of all batches, each with which of them such a reader is shown.

        Control batches count as shown. Arguments and errors as ``pieces``.
        """
        start, end = self._range(start_offset, end_offset, committed=committed)
        if committed:
            yield from self._shown_pieces(start, end)
            return
        for piece in self._all_pieces(start, end):
            yield piece, np.ones(len(piece.batches), np.bool_)

    def records(
        self,
        start_offset: int | None = None,
        end_offset: int | None = None,
        *,
        since_ms: Moment | None = None,
        committed: bool = False,
    ) -> Iterator[Record]:
        """Yield what ``columns`` yields, record by record; slow, for tools and tests.

        Arguments and errors as ``columns``.
        """
        found = self.columns(start_offset, end_offset, since_ms=since_ms, committed=committed)
        for columns in found:
            yield from columns.records()

    def settled_records(
        self, start_offset: int | None = None, up_to: ReadUpTo = ReadUpTo.HIGH_WATERMARK
    ) -> Iterator[Record]:
        """Yield the records from ``start_offset`` to the high watermark that no marker can undo.

        As ``ReadableLog.settled_records``; None: from the log start offset. Errors as ``columns``.
        """
        known = self.transactions(up_to, aborted=False).open
        opened = {txn.producer_id: txn.first_offset for txn in known}
        for columns in self.columns(start_offset, self.end_offset(up_to), committed=True):
            is_settled = open_producers(columns.batches, opened) < 0
            yield from columns.select(is_settled[columns.batch]).records()

    def columns(
        self,
        start_offset: int | None = None,
        end_offset: int | None = None,
        *,
        since_ms: Moment | None = None,
        committed: bool = False,
    ) -> Iterator[RecordColumns]:
        """Yield the records with offsets in ``[start, end)``, without control records.

        ``since_ms``, in ms or as a ``datetime``, leaves out records with an earlier timestamp, and
        whole batches without decoding them. Arguments and errors as ``pieces``; a batch that does
        not decode is damage. What is yielded is valid until the next one is asked for.
        """
        start, end = self._range(start_offset, end_offset, committed=committed)
        since = -INT64_MAX if since_ms is None else time_ms(since_ms)
        for piece in self.pieces(start, end, committed=committed):
            yield from self._decoded(piece, start, end, since)

    def _decoded(
        self, piece: Piece, start: int, end: int, since_ms: int
    ) -> Iterator[RecordColumns]:
        """Yield the records of a piece; where damage is skipped, past what does not decode."""
        from tidelog.records.decoding.decoded import decoded

        while len(piece.batches):
            try:
                yield from decoded(piece, start, end, since_ms)
            except CorruptMessage as bad:
                if self._on_damage is None:
                    raise
                at = piece.batches.position.tolist().index(bad.position)
                self._report_batch(piece, at, bad.reason)
                behind = piece.batches.slice(at + 1, len(piece.batches))
                piece = piece._replace(batches=behind)
            else:
                return

    def _report_batch(self, piece: Piece, at: int, reason: str) -> None:
        """Report that a batch is skipped."""
        batches = piece.batches
        first, last = batches.base_offset.item(at), batches.last_offset.item(at)
        if self._on_damage is not None:
            where = piece.path, int(batches.position[at]), int(batches.end[at])
            self._on_damage(DamagedRange(*where, first, last + 1, reason))

    def count_records(
        self, start_offset: int | None = None, end_offset: int | None = None
    ) -> RecordCount:
        """Count what the offsets ``[start, end)`` hold: records, aborted ones, markers, gaps.

        Args:
            start_offset: inclusive; None: the log start offset.
            end_offset: exclusive; None: the high watermark. Above the last stable offset open
                transactions count.

        Raises:
            OffsetOutOfRange: the range does not lie between log start and log end.
            CorruptMessage, KafkaStorageError: as ``pieces``; also where damage ends the log before
                the range ends, and for a batch that reaches out of the range, or has an old format,
                and does not decode.
        """
        from tidelog.log.reading.record_count import check_range, count_records

        start = self.log_start_offset if start_offset is None else start_offset
        end = self.high_watermark if end_offset is None else end_offset
        try:
            check_range(start, end, self.log_start_offset, self.log_end_offset)
        except OffsetOutOfRange as error:
            is_behind = max(start, end) > self.log_end_offset and start >= self.log_start_offset
            if self.damage is not None and is_behind:
                raise self.damage from error
            error.of_log(f"{self.topic}-{self.partition}")
            raise
        return count_records(self._shown_pieces(start, end), start, end)

    def splits(self, start_offset: int, end_offset: int, target_bytes: int) -> list[Split]:
        """Cut offsets ``[start, end)`` into shares of about ``target_bytes``, at index entries.

        The shares cover the range without gap or overlap, in order. Sizes are estimates; without
        an index a segment is not cut.

        Raises:
            CorruptMessage: the range is empty because the log is damaged where it begins; else
                reading the last share raises it.
            InvalidArgument: ``target_bytes`` is not positive.
        """
        from tidelog.readonly.splits import cut

        if target_bytes < 1:
            raise InvalidArgument(f"a split of {target_bytes} bytes is not possible")
        if start_offset >= end_offset:
            self.check_undamaged(end_offset)
        return cut(
            self._cut_points(start_offset, end_offset), start_offset, end_offset, target_bytes
        )

    def _range(
        self, start_offset: int | None, end_offset: int | None, *, committed: bool = False
    ) -> tuple[int, int]:
        """Return the range to read; raise OffsetOutOfRange unless it lies in the log."""
        check_flags(committed=committed)
        start = self.log_start_offset if start_offset is None else start_offset
        end = end_offset
        if end is None:
            end = self.last_stable_offset() if committed else self.high_watermark
        check_offsets(start, end)
        if start < self.log_start_offset:
            raise self.out_of_range(start)
        if start < end and end > self.log_end_offset and self.damage is None:
            raise self.out_of_range(end)
        return start, end

    def out_of_range(self, offset: int) -> OffsetOutOfRange:
        """Return the error about an offset that the log does not hold; it names the log."""
        error = OffsetOutOfRange(offset, self.log_start_offset, self.log_end_offset)
        return error.of_log(f"{self.topic}-{self.partition}")

    def damage_at(self, end: int, *, committed: bool = False) -> CorruptMessage | None:
        """Return the damage that keeps a read from going beyond ``end``; None if none does.

        For ``committed`` records that is also damage that hides what was decided after it.
        """
        if end >= self.log_end_offset and self.damage is not None:
            return self.damage
        for (_, reach, until), one in self._replays.items() if committed else ():
            # Of those that look for the last stable offset; others end where they have to.
            at_end = self.damage if until is None and reach >= self.log_end_offset else None
            hidden = one.damage or at_end
            if hidden is not None and end >= one.last_stable_offset:
                return hidden
        return None

    def check_undamaged(self, end: int) -> None:
        """Raise the damage at the log end if a range with this end (exclusive) reaches it.

        Where damage is skipped it is reported instead.
        """
        bad = self.damage_at(end)
        if bad is None:
            return
        if self._on_damage is None:
            raise bad
        # Offsets that were promised are missing: whatever follows in the last file is not valid.
        at, path = bad.position or 0, bad.path or self.directory
        behind = max(at, self.segments[-1].size_bytes) if self.segments else at
        promised = self._lines.promised_end
        self._on_damage(DamagedRange(path, at, behind, self.log_end_offset, promised, bad.reason))

    def _replayed(
        self, known_offset: int, end: int, *, until_decided: int | None = None
    ) -> ReplayedTransactions:
        """Return the transactions below ``end``, all aborted ones from ``known_offset`` on.

        With ``until_decided``, at least those with records below that offset.
        """
        start, asked = self.log_start_offset, (known_offset, end, until_decided)
        if asked not in self._replays:
            known = newest_snapshot(self._fs, self.directory, start, known_offset)
            self._files.check_topic()
            self._replays[asked] = replay_transactions(
                known or Snapshot(start, []),
                end,
                self.quiet_pieces,
                until_decided=until_decided,
            )
        return self._replays[asked]

    def quiet_pieces(self, start: int, end: int) -> Iterator[Piece]:
        """Yield pieces as ``pieces``; another read reports the damage that this one skips."""
        reported, self._on_damage = self._on_damage, self._on_damage and ignore_damage
        try:
            yield from self.pieces(start, end)
        finally:
            self._on_damage = reported

    def _shown_pieces(
        self, start: int, end: int, *, check_crc: bool = True, piece_bytes: int = PIECE_BYTES
    ) -> Iterator[tuple[Piece, Bools]]:
        """Yield each piece, and which of its batches a reader of committed records is shown."""
        from tidelog.log.reading.committed import AbortedFilter

        # A marker beyond the range may say that a transaction in it was aborted.
        replayed = self._replayed(start, self.log_end_offset, until_decided=end)
        shown_by = AbortedFilter(replayed.transactions.aborted_from(start))
        for piece in self._all_pieces(start, end, check_crc=check_crc, piece_bytes=piece_bytes):
            yield piece, shown_by.is_shown(piece.batches)
        bad = self.damage_at(end, committed=True)
        if bad is not None:
            raise bad

    def _all_pieces(
        self, start: int, end: int, *, check_crc: bool = True, piece_bytes: int = PIECE_BYTES
    ) -> Iterator[Piece]:
        """Yield all pieces, and take note of holes between segments."""
        before = ""
        # Else the walk would take a new snapshot for one in which retention was faster.
        base = self._first_base
        if start < min(base, end):
            self._holes.add((start, min(base, end)))
        first = reached = max(start, base)
        for piece in walk_range(
            self._files,
            first,
            end,
            log_end_offset=self.log_end_offset,
            check_crc=check_crc,
            piece_bytes=piece_bytes,
            on_damage=self._on_damage and self._noting_skipped,
        ):
            if piece.path != before:
                base_offset = offset_from_file_name(os.path.basename(piece.path))
                if base_offset > max(reached, self._skipped_to):
                    self._holes.add((reached, base_offset))
                before = piece.path
            yield piece
            reached = piece.batches.next_offset
        reached = max(reached, self._skipped_to)
        if reached < end:
            self._holes.update(self.find_holes(reached, end))
        self.check_undamaged(end)

    def _noting_skipped(self, skipped: DamagedRange) -> None:
        self._skipped_to = max(self._skipped_to, skipped.end_offset)
        if self._on_damage is not None:
            self._on_damage(skipped)

    def _cut_points(self, start: int, end: int) -> Iterator[CutPoints]:
        """Yield the places at which each segment of the range may be cut."""
        from tidelog.readonly.splits import cut_points

        for segment, next_base in self.bounded_segments:
            if segment.base_offset < end and next_base > start:
                yield cut_points(segment.places, start, end, next_base, segment.size_bytes)
