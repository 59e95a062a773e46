"""The rule for the offsets of a sound batch, which no checksum covers.

Magic 2 is held to its base and last offset, magic 0 and 1 to the last offset only. The walks apply
the rule batch by batch; where two neighbours contradict each other, ``damaged_of`` decides. Kafka
has no such rule: depending on the bit that flips, the broker does not start, drops a segment or
the whole log, or does not notice.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.kernels import rows
from tidelog.records.array_rows import every
from tidelog.records.batch import INT32_MAX, INT64_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.records.batch_columns import BatchColumns

GREATEST_OFFSET: Final = INT64_MAX - 1
"""The greatest offset of a record: the log end offset after it must still fit in 64 bits."""


class OffsetBounds(NamedTuple):
    """Offsets that the batches of a range of bytes may have: those of ``[lowest, end)``, rising.

    ``lowest`` is the segment's base offset or, if it is known, the offset after the batch before
    the range. ``end`` is the next segment's base offset, or the log end.
    """

    lowest: int = 0
    end: int = INT64_MAX

    @classmethod
    def of_segment(cls, base_offset: int, end: int = INT64_MAX) -> OffsetBounds:
        """Return the bounds of a segment, whose indexes hold int32s above its base offset."""
        return cls(base_offset, min(end, base_offset + INT32_MAX + 1))

    def after(self, last_offset: int) -> OffsetBounds:
        """Return the bounds of what follows a batch."""
        return OffsetBounds(max(self.lowest, last_offset + 1), self.end)

    def hold(self, first_offset: int, last_offset: int) -> bool:
        """Return whether a batch with these offsets is possible here."""
        return self.lowest <= first_offset <= last_offset < self.end

    def first_unsound(self, batches: BatchColumns) -> int | None:
        """Return the index of the first batch that is impossible here; None if there is none.

        ``batches`` are adjacent ones, in file order.
        """
        if not len(batches):
            return None
        first, last = batches.base_offset, batches.last_offset
        is_within = self.lowest <= first.item(0) and last.item(-1) < self.end
        if is_within and every(first[1:] > last[:-1]) and every(first <= last):
            return None
        is_bad = (last < first) | (last >= self.end) | (first < self.lowest)
        is_bad[1:] |= first[1:] <= last[:-1]
        return int(is_bad.argmax())

    def reason(self, first_offset: int, last_offset: int) -> str:
        """Describe a batch whose offsets are impossible here."""
        if first_offset - last_offset > INT64_MAX:  # the sum of base offset and delta has wrapped
            last_offset += 2**64
        fitting = f"{self.lowest} or above"
        if self.end != INT64_MAX:
            fitting = f"from {self.lowest} to {self.end - 1}"
        return f"batch has impossible offsets {first_offset} to {last_offset}; it needs {fitting}"


class Damaged(Enum):
    """Which of two neighbours that contradict each other is damaged."""

    FIRST = auto()
    SECOND = auto()
    UNDECIDED = auto()


def damaged_of(
    first: Sequence[int], second: Sequence[int], bounds: OffsetBounds, after: int
) -> Damaged:
    """Return which of two batches, given by their header rows, has the wrong base offset.

    It is the one without which all others are in order. If that is either, it is the one that fits,
    by its own number of offsets, the gap that it would leave: the checksum covers that number, so a
    sound batch stood somewhere in there before a bit flipped.

    Args:
        first: the earlier batch in the file.
        second: the next one, which begins at or below the last offset of ``first``.
        bounds: those of ``first``.
        after: the first offset of what follows ``second``; the end of the bounds if nothing does.
    """
    first_base, first_last = first[rows.BASE_OFFSET], first[rows.LAST_OFFSET]
    second_base, second_last = second[rows.BASE_OFFSET], second[rows.LAST_OFFSET]
    is_first = bounds.lowest <= second_base <= second_last < after
    is_second = bounds.lowest <= first_base <= first_last < after
    if is_first and is_second:
        is_first = first_last - first_base < second_base - bounds.lowest
        is_second = second_last - second_base < after - first_last - 1
    if is_first == is_second:
        return Damaged.UNDECIDED
    return Damaged.FIRST if is_first else Damaged.SECOND


def reason_of(
    damaged: Damaged,
    first: Sequence[int],
    second: Sequence[int],
    bounds: OffsetBounds,
    after: int,
) -> str:
    """Describe what ``damaged_of`` has decided; arguments as there."""
    first_is = first[rows.BASE_OFFSET], first[rows.LAST_OFFSET]
    second_is = second[rows.BASE_OFFSET], second[rows.LAST_OFFSET]
    if damaged is Damaged.FIRST:
        return bounds._replace(end=second_is[0]).reason(*first_is)
    if damaged is Damaged.SECOND:
        return OffsetBounds(first_is[1] + 1, after).reason(*second_is)
    at = f"at byte {second[rows.POSITION]}, {second_is[0]} to {second_is[1]}"
    return (
        f"offsets {first_is[0]} to {first_is[1]} of a batch contradict those of the next one,"
        f" {at}: one of the two is damaged"
    )
