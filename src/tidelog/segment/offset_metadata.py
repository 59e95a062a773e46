"""An offset with its location: segment and byte position. Kafka: ``LogOffsetMetadata``."""

from __future__ import annotations

from typing import Final, NamedTuple

from tidelog.records.batch import UNKNOWN_OFFSET

UNKNOWN_POSITION: Final = -1


class LogOffsetMetadata(NamedTuple):
    """An offset, the base offset of its segment and its byte position in it (-1: unknown).

    Source: Kafka LogOffsetMetadata.
    """

    offset: int
    segment_base_offset: int = UNKNOWN_OFFSET
    position: int = UNKNOWN_POSITION

    @property
    def is_offset_only(self) -> bool:
        """Whether segment and position are unknown."""
        return self.segment_base_offset == UNKNOWN_OFFSET and self.position == UNKNOWN_POSITION

    def is_on_older_segment(self, that: LogOffsetMetadata) -> bool:
        """Whether this is in an earlier segment; False if either segment is unknown."""
        known = not self.is_offset_only and not that.is_offset_only
        return known and self.segment_base_offset < that.segment_base_offset
