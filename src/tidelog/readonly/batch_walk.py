"""The batches of a range of offsets, segment by segment, while the files may change.

Kafka has no such reader.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from tidelog.errors import CorruptMessage, KafkaStorageError, OffsetOutOfRange
from tidelog.readonly.held_files import SnapshotOutdated
from tidelog.readonly.log_end import end_of
from tidelog.readonly.log_snapshot import MAX_LOOKS, changing
from tidelog.readonly.missing.damaged_range import DamagedRange
from tidelog.readonly.partition_files import overlapping
from tidelog.records.batch import BATCH_HEADER
from tidelog.records.damage.past_damage import behind_damage
from tidelog.records.file_records import FileRecords

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.readonly.missing.damaged_range import OnDamage
    from tidelog.readonly.partition_files import PartitionFiles
    from tidelog.readonly.read_only_segment import ReadOnlySegment
    from tidelog.records.damage.sound_offsets import OffsetBounds
    from tidelog.records.file_records import Piece


PIECE_BYTES: Final = 8 << 20
"""Bytes read at a time: in a Spark worker, what is done once a piece weighs more than caches."""


def walk_range(
    files: PartitionFiles,
    start: int,
    end: int,
    *,
    log_end_offset: int,
    check_crc: bool,
    piece_bytes: int = PIECE_BYTES,
    on_damage: OnDamage | None = None,
) -> Iterator[Piece]:
    """Yield pieces of batches, of about ``piece_bytes``, that hold offsets of ``[start, end)``.

    The first batch is found by headers, so bad ones before it do not matter. Where files have
    changed, or a batch is bad, the walk continues in a new snapshot. Bad bytes at or behind
    ``log_end_offset`` end the last piece: what they are was determined when the end was found.
    With ``on_damage``, damage is reported to it and skipped.

    Raises:
        OffsetOutOfRange: retention was faster than the reader.
        CorruptMessage: damage below the log's end, after all pieces before it; two snapshots in a
            row show it.
        KafkaStorageError: the log was truncated or deleted meanwhile, or changes too fast.
    """
    walk = _Walk(
        *(files, start, end, log_end_offset),
        check_crc=check_crc,
        piece_bytes=piece_bytes,
        on_damage=on_damage,
    )
    yield from walk.pieces()


class _Walk:
    """One walk; ``start`` is the next offset to be found."""

    def __init__(
        self,
        files: PartitionFiles,
        start: int,
        end: int,
        log_end_offset: int,
        *,
        check_crc: bool,
        piece_bytes: int,
        on_damage: OnDamage | None,
    ) -> None:
        self._files = files
        self._start = start
        self._end = end
        self._log_end_offset = log_end_offset
        self._check_crc = check_crc
        self._piece_bytes = piece_bytes
        self._truncated_to: int | None = None
        self._renewals = 0
        self._damage: CorruptMessage | None = None
        self._first = start
        self._on_damage = on_damage
        self._skipped: DamagedRange | None = None
        self._resumed: dict[str, tuple[int, OffsetBounds]] = {}

    def pieces(self) -> Iterator[Piece]:
        """Yield the pieces."""
        waiting = overlapping(self._files.segments, self._start, self._end)
        while waiting:
            segment = waiting.pop(0)
            try:
                records = self._records_of(segment)
                records.likely_end = segment.likely_end(self._end)
                if segment.coarse is not None:
                    behind = records.likely_end or records.end
                    segment.file.will_read(records.start, behind + BATCH_HEADER.size)
                for piece in self._pieces_of(records):
                    self._report_skipped(piece.batches.first_offset)
                    yield piece
                    self._start = max(self._start, piece.batches.next_offset)
                    self._renewals, self._damage = 0, None
            except SnapshotOutdated as outdated:
                self._resumed.clear()
                waiting = self._renew(str(outdated))
            except CorruptMessage as bad:
                if self._start >= self._log_end_offset:
                    return
                if self._damage is None or self._damage.args != bad.args:
                    waiting = self._renew(str(bad))
                    self._damage = bad
                elif self._on_damage is None:
                    raise
                else:
                    self._skip(segment, records, bad.reason)
                    waiting.insert(0, segment)
        self._report_skipped(self._end)
        if self._truncated_to is not None:
            raise KafkaStorageError(
                f"{self._files.directory} was truncated to offset {self._truncated_to} while it"
                " was read"
            )

    def _skip(self, segment: ReadOnlySegment, walked: FileRecords, reason: str) -> None:
        """Let the walk continue at the next valid batch."""
        position, end = walked.next_position, behind_damage(walked)
        before = self._skipped
        if before is None or (before.path, before.end) != (segment.path, position):
            self._report_skipped(self._start)
            before = DamagedRange(segment.path, position, end, self._start, 0, reason)
        self._skipped = before._replace(end=end)
        self._resumed[segment.path] = end, segment.bounds.after(self._start - 1)
        self._renewals, self._damage = 0, None

    def _report_skipped(self, next_offset: int) -> None:
        """Report the damage before ``next_offset``, if there was any."""
        skipped, self._skipped = self._skipped, None
        if skipped is not None and self._on_damage is not None:
            self._on_damage(skipped._replace(end_offset=max(next_offset, skipped.start_offset)))

    def _renew(self, reason: str) -> list[ReadOnlySegment]:
        """Take a new snapshot; return the segments in which the walk continues."""
        self._renewals += 1
        if self._renewals > MAX_LOOKS:
            raise changing(self._files.directory, reason)
        self._files.renew()
        segments = self._files.segments
        if not segments or segments[0].base_offset > self._start:
            first = segments[0].base_offset if segments else self._end
            error = OffsetOutOfRange(self._start, first, self._log_end_offset)
            raise error.of_log(os.path.basename(self._files.directory))
        past_damage = self._files.past_damage
        now = self._files.ask(lambda snapshot: end_of(snapshot, past_damage=past_damage))
        if now.damage is None and now.offset < min(self._end, self._log_end_offset):
            self._end = self._truncated_to = now.offset
        return overlapping(self._files.segments, self._anchor, self._end)

    @property
    def _anchor(self) -> int:
        """Where to continue: the last batch found, so that what follows it is checked again."""
        return self._start - (self._start > self._first)

    def _records_of(self, segment: ReadOnlySegment) -> FileRecords:
        """Return the segment's batches from where the walk has come to on."""
        if segment.path in self._resumed:
            position, bounds = self._resumed[segment.path]
            return FileRecords(segment.file, position, bounds=bounds)
        return segment.records_from(self._anchor, segment.bounds)

    def _pieces_of(self, records: FileRecords) -> Iterator[Piece]:
        """Yield the pieces that hold offsets of the rest of the range."""
        for piece in records.whole_pieces(self._piece_bytes, check_crc=self._check_crc):
            if found := piece.between(self._start, self._end):
                yield found
            if piece.batches.next_offset >= self._end:
                return
