"""The batches of a range of offsets, segment by segment, while the files may change.

Kafka has no such reader.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np

from tidelog.errors import CorruptMessage, KafkaStorageError, OffsetOutOfRange
from tidelog.readonly.log_end import end_of
from tidelog.readonly.log_snapshot import MAX_LOOKS, SnapshotOutdated, changing
from tidelog.readonly.partition_files import overlapping
from tidelog.readonly.read_only_segment import NO_HINTS, position_of, walk_segment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.readonly.partition_files import PartitionFiles
    from tidelog.readonly.read_only_segment import ReadOnlySegment
    from tidelog.records.file_records import Piece


def walk_range(
    files: PartitionFiles, start: int, end: int, *, log_end_offset: int, check_crc: bool
) -> Iterator[tuple[str, Piece]]:
    """Yield pieces of batches that hold offsets of ``[start, end)``, each with its file's path.

    The first batch is found by headers, so bad ones before it do not matter. Where files have
    changed, or a batch is bad, the walk goes on in a new snapshot. Bad bytes at or behind
    ``log_end_offset`` end the last piece: what they are was determined when the end was found.

    Raises:
        OffsetOutOfRange: retention was faster than the reader.
        CorruptMessage: damage below the log's end, after all pieces before it; two snapshots in a
            row show it.
        KafkaStorageError: the log was truncated or deleted meanwhile, or changes too fast.
    """
    yield from _Walk(files, start, end, log_end_offset, check_crc=check_crc).pieces()


class _Walk:
    """One walk; ``start`` is the next offset to be found."""

    def __init__(
        self, files: PartitionFiles, start: int, end: int, log_end_offset: int, *, check_crc: bool
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

    def pieces(self) -> Iterator[tuple[str, Piece]]:
        """Yield the pieces, each with its file's path."""
        waiting = overlapping(self._files.segments, self._start, self._end)
        while waiting:
            segment = waiting.pop(0)
            try:
                for piece in self._pieces_of(segment):
                    yield segment.path, piece
                    self._start = max(self._start, int(piece.batches.last_offset[-1]) + 1)
                    self._renewals, self._damage = 0, None
            except SnapshotOutdated as outdated:
                waiting = self._renew(str(outdated))
            except CorruptMessage as bad:
                if self._start >= self._log_end_offset:
                    return
                if self._damage is not None and self._damage.args == bad.args:
                    raise
                waiting = self._renew(str(bad))
                self._damage = bad
        if self._truncated_to is not None:
            raise KafkaStorageError(
                f"{self._files.directory} was truncated to offset {self._truncated_to} while it"
                " was read"
            )

    def _renew(self, reason: str) -> list[ReadOnlySegment]:
        """Take a new snapshot; return the segments in which the walk goes on."""
        self._renewals += 1
        if self._renewals > MAX_LOOKS:
            raise changing(self._files.directory, reason)
        self._files.renew()
        segments = self._files.segments
        if not segments or segments[0].base_offset > self._start:
            first = segments[0].base_offset if segments else self._end
            error = OffsetOutOfRange(self._start, first, self._log_end_offset)
            raise error.of_log(os.path.basename(self._files.directory))
        now = self._files.ask(end_of)
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
            position = 0
            if self._anchor > segment.base_offset:
                hints = self._files.hints_of(segment) if segment.size_bytes else NO_HINTS
                position = position_of(file, hints, self._anchor)
            for piece in walk_segment(file, position, check_crc=self._check_crc):
                if found := batches_between(piece, self._start, self._end):
                    yield found
                if int(piece.batches.last_offset[-1]) + 1 >= self._end:
                    return


def batches_between(piece: Piece, start: int, end: int) -> Piece | None:
    """Return the part of a piece whose batches hold offsets of ``[start, end)``, if any does."""
    batches = piece.batches
    first = int(np.searchsorted(batches.last_offset, start))
    last = int(np.searchsorted(batches.base_offset, end))
    return piece._replace(batches=batches.slice(first, last)) if first < last else None
