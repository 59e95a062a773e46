"""Which offsets of a range are superseded by a later record with the same key: a bit for each.

Kafka has no such set: its cleaner looks up the key of each record that it copies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from tidelog.errors import SegmentOffsetOverflow
from tidelog.kernels.compaction import key_rows as keys

if TYPE_CHECKING:
    from tidelog.cleaner.keys.key_table import KeyTable
    from tidelog.records.array_rows import Bools, Bytes, Ints

OFFSETS_PER_BYTE: Final = 8
"""Offsets whose bits fit one byte."""


def bytes_for(span: int) -> int:
    """Return how many bytes hold the bits of ``span`` offsets."""
    return max(-(-span // OFFSETS_PER_BYTE), 0)


class SupersededOffsets:
    """A bit for each offset in [``bits_start``, ``bits_end``): a later record has its key.

    Records above ``latest_offset`` (inclusive) are not known, and stay. ``state`` has the elements
    that ``key_rows`` names.
    """

    def __init__(self, bits: Bytes, state: Ints, *, with_kernels: bool) -> None:
        self.bits: Final = bits
        self.state: Final = state
        self.with_kernels: Final = with_kernels

    @classmethod
    def of_range(
        cls, start: int, end: int, latest_offset: int, *, with_kernels: bool
    ) -> SupersededOffsets:
        """Return the offsets of [start, end), none of them superseded yet."""
        state = np.zeros(keys.STATE_WORDS, np.int64)
        state[keys.BITS_START], state[keys.BITS_END] = start, max(end, start)
        state[keys.LATEST_OFFSET] = latest_offset
        bits = np.zeros(bytes_for(end - start), np.uint8)
        return cls(bits, state, with_kernels=with_kernels)

    @property
    def latest_offset(self) -> int:
        """Last offset whose record is known (inclusive), -1 at first."""
        return int(self.state[keys.LATEST_OFFSET])

    @latest_offset.setter
    def latest_offset(self, offset: int) -> None:
        self.state[keys.LATEST_OFFSET] = offset

    @property
    def bits_start(self) -> int:
        """First offset that has a bit."""
        return int(self.state[keys.BITS_START])

    @property
    def bits_end(self) -> int:
        """Offset after the last one that has a bit."""
        return int(self.state[keys.BITS_END])

    def has_bits(self, offsets: Ints) -> Bools:
        """Return for each offset, all within the bits, whether a later record has its key."""
        bits = offsets - self.bits_start
        is_set: Bools = (self.bits[bits >> 3] >> (bits & 7) & 1) != 0
        return is_set

    def look_up(self, data: Bytes, table: KeyTable, start: int, end: int) -> None:  # noqa: ARG002 - of an ``OffsetMap``
        """Raise SegmentOffsetOverflow if a record has no bit: its offset does not fit a segment."""
        if start < end:
            raise SegmentOffsetOverflow(self.bits_start, int(table.rows[keys.OFFSET, end - 1]))
