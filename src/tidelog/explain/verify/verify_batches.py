"""Checks of every batch of a .log file: checksum, structure, offsets, and the records inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from tidelog.errors import TidelogError
from tidelog.explain.verify.findings import CUT, Finding, damage, unusual
from tidelog.records.batch import MAGIC_V2
from tidelog.records.damage.past_damage import stated_size
from tidelog.records.decoding.bounded_decode import decode_bounded
from tidelog.records.file_records import FileRecords

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from tidelog.env.files import OpenFile
    from tidelog.records.batch_columns import BatchColumns
    from tidelog.records.damage.sound_offsets import OffsetBounds
    from tidelog.records.decoding.record_columns import RecordColumns
    from tidelog.records.file_records import Piece

_MAX_BAD_BATCHES: Final = 100
"""After this number of bad batches in one file the search for good ones ends."""


class BatchChecks:
    """What must hold of the batches of one segment, in order.

    ``next_offset`` is where they end by now; ``records`` counts those that were decoded, and
    ``gaps`` the offsets that are in no batch.
    """

    def __init__(self, path: str, base_offset: int) -> None:
        """Begin a segment with offsets from ``base_offset`` on."""
        self._path = path
        self.next_offset = base_offset
        self.records = 0
        self.gaps = 0
        self.first_gap: int | None = None
        self._last_record = -1, -1
        """The position of its batch, and its offset."""

    def feed(self, piece: Piece) -> Iterator[Finding]:
        """Check the next batches, whose offsets are sound; yield what is wrong with them."""
        batches = piece.batches
        self._count_gaps(batches)
        spans = batches.last_offset - batches.base_offset
        is_v2 = batches.magic >= MAGIC_V2
        is_over = is_v2 & ((batches.records_count < 0) | (batches.records_count > spans + 1))
        yield from self._at_batches(
            batches, is_over, "a batch says it has more records than offsets"
        )
        yield from self._check_records(piece)

    def _count_gaps(self, batches: BatchColumns) -> None:
        # The first offset of an old batch is known only when it is decoded.
        is_v2 = batches.magic >= MAGIC_V2
        before = np.concatenate(([self.next_offset], batches.last_offset[:-1] + 1))
        holes = np.where(is_v2, np.maximum(batches.base_offset - before, 0), 0)
        if holes.any() and self.first_gap is None:
            self.first_gap = int(batches.position[int((holes > 0).argmax())])
        self.gaps += int(holes.sum())
        self.next_offset = max(self.next_offset, batches.next_offset)

    def _check_records(self, piece: Piece) -> Iterator[Finding]:
        batches = piece.batches_in_data
        records_before = self.records
        try:
            for group in decode_bounded(piece.data, batches):
                yield from self._check_group(group, piece.data_position)
        except TidelogError:
            self.records = records_before
            yield from self._find_undecodable(piece)

    def _find_undecodable(self, piece: Piece) -> Iterator[Finding]:
        batches = piece.batches_in_data
        for index in range(len(batches)):
            records_before = self.records
            try:
                for group in decode_bounded(piece.data, batches.slice(index, index + 1)):
                    self.records += len(group)
            except TidelogError as error:
                self.records = records_before
                at = int(piece.batches.position[index])
                reason = getattr(error, "reason", str(error))
                yield damage(self._path, at, f"records of a batch cannot be read: {reason}", CUT)

    def _check_group(self, group: RecordColumns, data_position: int) -> Iterator[Finding]:
        batches = group.batches.shifted(data_position)
        of = group.batch
        self.records += len(group)
        is_v2 = batches.magic[of] >= MAGIC_V2
        is_outside = is_v2 & (
            (group.offset < batches.base_offset[of]) | (group.offset > batches.last_offset[of])
        )
        is_same_batch = np.diff(of, prepend=-1) == 0
        is_falling = is_same_batch & (np.diff(group.offset, prepend=-1) <= 0)
        if len(group):  # else all of them are in the groups before
            self._continue(group, batches, is_falling)
        is_late = is_v2 & (group.timestamp > batches.max_timestamp[of])
        for is_bad, what in (
            (is_outside, "a record's offset lies outside its batch"),
            (is_falling, "offsets of records do not rise"),
            (is_late, "a record is later than its batch says: lookups by time may miss it"),
        ):
            in_batch = np.zeros(len(batches), np.bool_)
            in_batch[of[is_bad]] = True
            yield from self._at_batches(batches, in_batch, what)

    def _continue(
        self, group: RecordColumns, batches: BatchColumns, is_falling: NDArray[np.bool_]
    ) -> None:
        """Compare the first record with the last one before it, of the same large batch or not."""
        first, last = (int(batches.position[group.batch[at]]) for at in (0, -1))
        if self._last_record[0] == first:
            is_falling[0] = group.offset[0] <= self._last_record[1]
        self._last_record = last, int(group.offset[-1])

    def _at_batches(
        self, batches: BatchColumns, is_bad: NDArray[np.bool_], what: str
    ) -> Iterator[Finding]:
        for index in np.flatnonzero(is_bad).tolist():
            position, offset = int(batches.position[index]), int(batches.base_offset[index])
            yield damage(self._path, position, f"{what} (base offset {offset})", CUT)


def search_behind(
    file: OpenFile,
    records: FileRecords,
    bounds: OffsetBounds,
    checks: BatchChecks,
    feed: Callable[[Piece], Iterator[Finding]],
) -> Iterator[Finding]:
    """Look for good batches after the bad one that ended ``records``; yield further bad ones.

    ``bounds`` are those of the segment; ``feed`` yields what is found in good batches. A bad one is
    skipped by the length in its header.
    """
    end = records.end
    for _ in range(_MAX_BAD_BATCHES):
        position, behind = records.next_position, records.damaged_end
        if behind <= position:
            behind = position + stated_size(file, position, end)
        if behind == position:
            what = f"{end - position:,} bytes from here on were not looked at"
            yield unusual(file.path, position, what, "see the damage before")
            return
        known = bounds.after(checks.next_offset - 1)
        records = FileRecords(file, behind, end, bounds=known)
        for piece in records.pieces(check_crc=True):
            yield from feed(piece)
        if not records.trailing_bytes:
            return
        reason = "a batch is cut off" if records.error is None else records.error.reason
        yield damage(file.path, records.next_position, reason, CUT)
