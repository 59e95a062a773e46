"""The batches of a range of offsets, segment by segment, while the files may change.

Kafka has no such reader.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import numpy as np

from tidelog.errors import CorruptMessage, KafkaStorageError, OffsetOutOfRange
from tidelog.readonly.damaged_range import DamagedRange
from tidelog.readonly.log_end import end_of
from tidelog.readonly.log_snapshot import MAX_LOOKS, SnapshotOutdated, changing
from tidelog.readonly.partition_files import overlapping
from tidelog.readonly.read_only_segment import Place, place_of
from tidelog.records.file_records import FileRecords
from tidelog.records.past_damage import next_batch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.readonly.damaged_range import OnDamage
    from tidelog.readonly.partition_files import PartitionFiles
    from tidelog.readonly.read_only_segment import ReadOnlySegment
    from tidelog.records.file_records import Piece


def walk_range(
    files: PartitionFiles,
    start: int,
    end: int,
    *,
    log_end_offset: int,
    check_crc: bool,
    on_damage: OnDamage | None = None,
) -> Iterator[tuple[str, Piece]]:
    """Yield pieces of batches that hold offsets of ``[start, end)``, each with its file's path.

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
    walk = _Walk(files, start, end, log_end_offset, check_crc=check_crc, on_damage=on_damage)
    yield from walk.pieces()


_PIECE_BYTES: Final = 8 << 20
"""Bytes read at a time: in a Spark worker, what is done once a piece weighs more than caches."""


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
        on_damage: OnDamage | None,
    ) -> None:
        self._files = files
        self._start = start
        self._end = end
        self._log_end_offset = log_end_offset
        self._check_crc = check_crc
        self._truncated_to: int | None = None
        self._renewals = 0
        self._damage: CorruptMessage | None = None
        self._first = start
        self._on_damage = on_damage
        self._skipped: DamagedRange | None = None
        self._resumed: dict[str, Place] = {}
        self._damaged_end = 0

    def pieces(self) -> Iterator[tuple[str, Piece]]:
        """Yield the pieces, each with its file's path."""
        waiting = overlapping(self._files.segments, self._start, self._end)
        while waiting:
            segment = waiting.pop(0)
            try:
                for piece in self._pieces_of(segment):
                    self._report_skipped(int(piece.batches.base_offset[0]))
                    yield segment.path, piece
                    self._start = max(self._start, int(piece.batches.last_offset[-1]) + 1)
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
                    self._skip(segment, bad)
                    waiting.insert(0, segment)
        self._report_skipped(self._end)
        if self._truncated_to is not None:
            raise KafkaStorageError(
                f"{self._files.directory} was truncated to offset {self._truncated_to} while it"
                " was read"
            )

    def _skip(self, segment: ReadOnlySegment, bad: CorruptMessage) -> None:
        """Let the walk go on at the next valid batch."""
        position, end = bad.position or 0, self._damaged_end
        if end <= position:
            with self._files.snapshot.opened(segment) as file:
                end = next_batch(file, position, segment.size_bytes)
        before = self._skipped
        if before is None or (before.path, before.end) != (segment.path, position):
            self._report_skipped(self._start)
            before = DamagedRange(segment.path, position, end, self._start, 0, bad.reason)
        self._skipped = before._replace(end=end)
        self._resumed[segment.path] = Place(end, self._start - 1)
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
        past_damage = self._on_damage is not None
        now = self._files.ask(lambda snapshot: end_of(snapshot, past_damage=past_damage))
        if now.damage is None and now.offset < min(self._end, self._log_end_offset):
            self._end = self._truncated_to = now.offset
        return overlapping(self._files.segments, self._anchor, self._end)

    @property
    def _anchor(self) -> int:
        """Where to go on: with the last batch found, so that what follows it is checked again."""
        return self._start - (self._start > self._first)

    def _pieces_of(self, segment: ReadOnlySegment) -> Iterator[Piece]:
        """Yield the segment's pieces that hold offsets of the rest of the range."""
        with self._files.snapshot.opened(segment) as file:
            place = self._resumed.get(segment.path, Place(0))
            if not place.position and segment.size_bytes and self._anchor > segment.base_offset:
                place = place_of(file, self._files.hints_of(segment), self._anchor)
            bounds = self._files.snapshot.bounds_of(segment, place.before)
            records = FileRecords(file, place.position, bounds=bounds)
            try:
                for piece in records.whole_pieces(_PIECE_BYTES, check_crc=self._check_crc):
                    if found := batches_between(piece, self._start, self._end):
                        yield found
                    if int(piece.batches.last_offset[-1]) + 1 >= self._end:
                        return
            finally:
                self._damaged_end = records.damaged_end


def batches_between(piece: Piece, start: int, end: int) -> Piece | None:
    """Return the part of a piece whose batches hold offsets of ``[start, end)``, if any does."""
    batches = piece.batches
    first = int(np.searchsorted(batches.last_offset, start))
    last = int(np.searchsorted(batches.base_offset, end))
    return piece._replace(batches=batches.slice(first, last)) if first < last else None
