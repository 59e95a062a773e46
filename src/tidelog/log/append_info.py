"""The input of an append, and its result. Kafka: ``LogAppendInfo``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from tidelog.codec.compression import Codec

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.codec.layout import Buffer
    from tidelog.records.validation.own_records import OwnRecords
    from tidelog.segment.offset_metadata import LogOffsetMetadata

Appended: TypeAlias = "Buffer | OwnRecords | list[Buffer]"
"""The input of an append. A list holds batches of clients, one from each of several requests."""

HighWatermarkRule: TypeAlias = "Callable[[LogOffsetMetadata], LogOffsetMetadata | None]"
"""Returns how far the high watermark may be raised, given the log end; None: not at all."""

NO_GUARD: Final = 0
"""The verification guard of an append that brings none."""


class AppendInfo(NamedTuple):
    """What an append did. Offsets are inclusive, timestamps in ms, -1 for what is not known.

    ``is_duplicate``: the batches were in the log already, at these offsets; nothing was written.
    ``source_codec`` is the last codec other than none that the batches came with, and
    ``last_offset_of_first_batch`` as the batches came; neither is set for a duplicate.
    ``records_converted`` counts the records that were written again, for another format, codec or
    offsets without gaps; Kafka has it in RecordValidationStats.
    Source: Kafka LogAppendInfo.
    """

    first_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time: int
    log_start_offset: int
    valid_bytes: int
    last_leader_epoch: int
    is_duplicate: bool = False
    source_codec: Codec = Codec.NONE
    last_offset_of_first_batch: int = -1
    records_converted: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether there was nothing to append."""
        return self.valid_bytes == 0

    @property
    def offset_count(self) -> int:
        """How many offsets the batches take: their records, unless a follower's have gaps.

        0 where the first offset is not known, as for batches of magic 0 and 1 on a follower.
        Source: Kafka LogAppendInfo.numMessages.
        """
        if self.first_offset < 0 or self.last_offset < 0:
            return 0
        return self.last_offset - self.first_offset + 1
