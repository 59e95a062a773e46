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
from tidelog.records.batch import INT64_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence

GREATEST_OFFSET: Final = INT64_MAX - 1
"""The greatest offset of a record: the log end offset after it must still fit in 64 bits."""


class OffsetBounds(NamedTuple):
    """Offsets that the batches of a range of bytes may have: those of ``[lowest, end)``, rising.

    ``lowest`` is the segment's base offset or, if it is known, the offset after the batch before
    the range. ``end`` is the next segment's base offset, or the log end.
    """

    lowest: int = 0
    end: int = INT64_MAX

    def after(self, last_offset: int) -> OffsetBounds:
        """Return the bounds of what follows a batch."""
        return OffsetBounds(max(self.lowest, last_offset + 1), self.end)

    def hold(self, first_offset: int, last_offset: int) -> bool:
        """Return whether a batch with these offsets is possible here."""
        return self.lowest <= first_offset <= last_offset < self.end

    def reason(self, first_offset: int, last_offset: int) -> str:
        """Describe a batch whose offsets are impossible here."""
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

    It is the one without which all others are in order, and which fits, by its own number of
    offsets, the gap that it would leave: the checksum covers that number, so a sound batch stood
    somewhere in there before a bit flipped.

    Args:
        first: the earlier batch in the file.
        second: the next one, which begins at or below the last offset of ``first``.
        bounds: those of ``first``.
        after: the first offset of what follows ``second``; the end of the bounds if nothing does.
    """
    first_base, first_last = first[rows.BASE_OFFSET], first[rows.LAST_OFFSET]
    second_base, second_last = second[rows.BASE_OFFSET], second[rows.LAST_OFFSET]
    is_first = bounds.lowest <= second_base <= second_last < after
    is_first &= first_last - first_base < second_base - bounds.lowest
    is_second = bounds.lowest <= first_base <= first_last < after
    is_second &= second_last - second_base < after - first_last - 1
    if is_first == is_second:
        return Damaged.UNDECIDED
    return Damaged.FIRST if is_first else Damaged.SECOND
