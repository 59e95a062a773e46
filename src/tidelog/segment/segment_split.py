"""Splitting a segment with offsets that do not fit its base offset.

Old versions of Kafka wrote such segments. The caller replaces the old segment by the new ones.
Kafka: ``LocalLog.splitOverflowedSegment``, which leaves out the aborted transactions: its readers
of committed records are given those records after a split.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.codec.layout import byte_view
from tidelog.errors import CorruptIndex, CorruptMessage, InvalidArgument, InvariantError
from tidelog.records import legacy
from tidelog.records.batch import INT32_MAX, INT64_MAX
from tidelog.segment.filenames import is_log_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.records.file_records import Piece
    from tidelog.segment.segment import LogSegment
    from tidelog.segment.txn_index import AbortedTxn


def split_overflowed(
    segment: LogSegment, open_cleaned: Callable[[int], LogSegment]
) -> list[LogSegment]:
    """Copy the batches of ``segment`` into new segments in which all offsets fit.

    Each part gets the aborted transactions whose markers are in it. Opening the log recovers a
    segment without an offset index, or with a damaged transaction index. The parts of such a
    segment have no offset index either, so that they are recovered in its place.

    Args:
        segment: one with an overflow, see ``LogSegment.has_overflow``; it is not changed.
        open_cleaned: creates an empty ``.cleaned`` segment with this base offset.

    Returns:
        The new segments in ascending order, inactive and durable, with the modification time of
        ``segment``.

    Raises:
        InvalidArgument: the segment's files have a suffix, or all its offsets fit.
        CorruptMessage: a batch is damaged. After any error the new files are deleted.
    """
    if not is_log_file(segment.path) or not segment.has_overflow():
        raise InvalidArgument(f"all offsets of {segment.path} fit; there is nothing to split")
    aborted = _aborted_transactions(segment)
    is_complete = aborted is not None and segment.has_offset_index()
    new: list[LogSegment] = []
    try:
        _copy(segment, open_cleaned, new)
        _copy_aborted(aborted or [], new)
        for made in new:
            made.become_inactive()
            # The original is deleted once these replace it.
            made.flush()
            made.set_modified_ms(segment.modified_ms)
            if not is_complete:
                made.offset_index.delete_if_exists()
        _check_total(segment, new)
    except BaseException:
        for made in new:
            made.delete()
        raise
    return new


def _aborted_transactions(segment: LogSegment) -> list[AbortedTxn] | None:
    """Return the entries of the transaction index; None for one that is damaged."""
    try:
        segment.txn_index.sanity_check()
        return segment.txn_index.all_aborted()
    except CorruptIndex:
        return None


def _copy_aborted(aborted: list[AbortedTxn], new: list[LogSegment]) -> None:
    """Add each entry to the index of the part that holds its marker.

    A marker that compaction has removed from before the first part needs none: so have been the
    records of its transaction.
    """
    by_marker = {entry.last_offset: entry for entry in aborted}
    bases = [made.base_offset for made in new]
    for made, start, end in zip(new, bases, [*bases[1:], INT64_MAX], strict=True):
        made.update_txn_index([by_marker[at] for at in sorted(by_marker) if start <= at < end])


def _check_total(segment: LogSegment, new: list[LogSegment]) -> None:
    copied = sum(made.size_bytes for made in new)
    if copied != segment.size_bytes:
        raise InvariantError(f"{segment.path} has {segment.size_bytes} bytes, {copied} were copied")


def _copy(
    segment: LogSegment, open_cleaned: Callable[[int], LogSegment], new: list[LogSegment]
) -> None:
    records = segment.file_records()
    for piece in records.pieces():
        start, count = 0, len(piece.batches)
        while start < count:
            fitting = _count_fitting(piece, start, new[-1].base_offset) if new else 0
            if not fitting:
                base_offset = _base_offset(piece, start)
                if new and base_offset <= new[-1].base_offset:
                    position = int(piece.batches.position[start])
                    raise CorruptMessage("offsets decrease", position, segment.path)
                new.append(open_cleaned(base_offset))
                fitting = _count_fitting(piece, start, new[-1].base_offset)
            _append(piece, start, start + fitting, new[-1])
            start += fitting
    if records.error is not None:
        raise records.error


def _count_fitting(piece: Piece, start: int, base_offset: int) -> int:
    """Return the number of batches from ``start`` on whose offsets fit ``base_offset``."""
    relative = piece.batches.last_offset[start:] - base_offset
    unfit = (relative < 0) | (relative > INT32_MAX)
    return int(unfit.argmax()) if unfit.any() else len(relative)


def _append(piece: Piece, start: int, end: int, target: LogSegment) -> None:
    if start == end:
        raise InvariantError(f"a batch does not fit the segment made for it: {target.path}")
    batches = piece.batches_in_data.slice(start, end)
    data = piece.data[int(batches.position[0]) : batches.next_position]
    target.append(int(batches.last_offset.max()), data, batches)


def _base_offset(piece: Piece, index: int) -> int:
    batches = piece.batches_in_data
    if batches.magic[index] >= 2:
        return int(batches.base_offset[index])
    position, size = int(batches.position[index]), int(batches.size[index])
    return legacy.base_offset(byte_view(piece.data), position, size)
