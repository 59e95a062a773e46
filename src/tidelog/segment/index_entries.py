"""The entries of offset and time indexes: their bytes, and what lookups return of them.

They lie apart from the indexes, which keep them in arrays, so that a reader of a few entries needs
no arrays. Kafka: ``OffsetIndex`` and ``TimeIndex``.
"""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

from tidelog.codec.layout import Layout, Wire


class OffsetIndexEntry(NamedTuple):
    """One entry of a ``.index`` file. Source: Kafka OffsetIndex."""

    relative_offset: Annotated[int, Wire("i", "Last offset of a batch minus the base offset.")]
    position: Annotated[int, Wire("i", "Byte in the .log file at which the batch starts.")]


class TimeIndexEntry(NamedTuple):
    """One entry of a ``.timeindex`` file. Source: Kafka TimeIndex."""

    timestamp_ms: Annotated[int, Wire("q", "Greatest timestamp of the segment so far, in ms.")]
    relative_offset: Annotated[int, Wire("i", "Last offset of the first batch that has it.")]


OFFSET_INDEX_ENTRY: Final = Layout(OffsetIndexEntry)
TIME_INDEX_ENTRY: Final = Layout(TimeIndexEntry)
assert OFFSET_INDEX_ENTRY.size == 8
assert TIME_INDEX_ENTRY.size == 12


class OffsetPosition(NamedTuple):
    """An offset and the byte position in the .log file of the batch that contains it."""

    offset: int
    position: int


class TimestampOffset(NamedTuple):
    """A timestamp in ms, and the last offset of the first batch that has it as its maximum."""

    timestamp: int
    offset: int
