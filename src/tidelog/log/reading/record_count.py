"""How many records lie between two offsets, as opposed to how many offsets.

Kafka reports lags in offsets, which compaction and transactions make too large.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from tidelog.codec.given_values import check_offsets
from tidelog.errors import OffsetOutOfRange
from tidelog.lazy import np
from tidelog.records.decoding.bounded_decode import decode_bounded
from tidelog.records.decoding.decoded import located
from tidelog.records.decoding.record_columns import DECODE_ERRORS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.records.array_rows import Bools, Ints
    from tidelog.records.file_records import Piece

_COUNTED_MAGIC: Final = 2


class RecordCount(NamedTuple):
    """What the offsets of a range hold; the four numbers add up to its length."""

    records: Annotated[int, "Records, those of open transactions included."]
    aborted: Annotated[int, "Records of aborted transactions."]
    control: Annotated[int, "Control records, such as markers."]
    gaps: Annotated[int, "Offsets without a record."]


_NOTHING: Final = RecordCount(0, 0, 0, 0)


def total_count(counts: Iterable[RecordCount]) -> RecordCount:
    """Return the sum of several counts, or of none."""
    return RecordCount(*map(sum, zip(_NOTHING, *counts, strict=True)))


def check_range(start: int, end: int, log_start_offset: int, log_end_offset: int) -> None:
    """Raise OffsetOutOfRange unless ``[start, end)`` lies in the log, and ``start <= end``."""
    check_offsets(start, end)
    for offset in (start, end):
        if not log_start_offset <= offset <= log_end_offset:
            raise OffsetOutOfRange(offset, log_start_offset, log_end_offset)
    if end < start:
        raise OffsetOutOfRange(end, log_start_offset, log_end_offset, start)


def count_records(
    pieces: Iterable[tuple[Piece, Bools]], start_offset: int, end_offset: int
) -> RecordCount:
    """Count the records with offsets in ``[start, end)``.

    Args:
        pieces: batches in order, and which of them are not of aborted transactions; some may be
            outside the range.
        start_offset: inclusive.
        end_offset: exclusive.

    Raises:
        CorruptMessage: a batch that must be decoded does not decode.
    """
    counted = np.zeros(3, np.int64)
    for piece, is_shown in pieces:
        numbers = _numbers(piece, start_offset, end_offset)
        is_control = piece.batches.is_control
        of_each = (is_shown & ~is_control, ~is_shown & ~is_control, is_control)
        counted += [int(numbers[chosen].sum()) for chosen in of_each]
    records, aborted_records, control = counted.tolist()
    gaps = end_offset - start_offset - records - aborted_records - control
    return RecordCount(records, aborted_records, control, gaps)


def _numbers(piece: Piece, start: int, end: int) -> Ints:
    """Return, for each batch, how many of its records are in the range.

    The header has it, except for batches that reach out of the range and for those of old formats.
    """
    batches = piece.batches_in_data
    numbers = batches.records_count.copy()
    numbers[(batches.last_offset < start) | (batches.base_offset >= end)] = 0
    is_cut = (batches.base_offset < start) | (batches.last_offset >= end)
    is_unclear = (is_cut & (numbers != 0)) | (batches.magic < _COUNTED_MAGIC)
    unclear = np.flatnonzero(is_unclear)
    numbers[unclear] = 0
    decoded = batches.select(unclear)
    try:
        for group in decode_bounded(piece.data, decoded):  # a large batch in several groups
            is_inside = (group.offset >= start) & (group.offset < end)
            found = np.bincount(group.batch[is_inside], minlength=len(group.batches))
            at = np.searchsorted(decoded.position, group.batches.position)
            numbers[unclear[at]] += found
    except DECODE_ERRORS as error:
        raise located(piece, error) from error
    return numbers
