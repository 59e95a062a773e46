"""The offsets of one log, as one value that is always consistent.

Kafka: the offset fields of ``UnifiedLog`` and ``LocalLog``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.errors import InvalidArgument, InvariantError
from tidelog.records.batch import INT64_MAX
from tidelog.segment.offset_metadata import LogOffsetMetadata

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Self


class LogOffsetSnapshot(NamedTuple):
    """The offsets of a log at one moment, with segment and byte position of each.

    ``log_start`` is inclusive, all others are exclusive ends. ``last_stable`` is what readers of
    committed records see. Source: Kafka LogOffsetSnapshot.
    """

    log_start: LogOffsetMetadata
    last_stable: LogOffsetMetadata
    high_watermark: LogOffsetMetadata
    log_end: LogOffsetMetadata


class _Fields(NamedTuple):
    log_start_offset: int
    high_watermark_metadata: LogOffsetMetadata
    log_end: LogOffsetMetadata
    recovery_point: int
    first_unstable: LogOffsetMetadata | None = None


class LogOffsets(_Fields):
    """The offsets one log shows to readers. A change makes a new value, checked as a whole.

    ``log_start_offset`` is inclusive, all others are exclusive ends. ``first_unstable`` is the
    first offset of a transaction that is open, or closed by a marker that is not replicated.

    A tuple, which is made in a third of the time of a frozen dataclass: each append makes one.
    """

    __slots__ = ()

    def __new__(
        cls,
        log_start_offset: int,
        high_watermark_metadata: LogOffsetMetadata,
        log_end: LogOffsetMetadata,
        recovery_point: int,
        first_unstable: LogOffsetMetadata | None = None,
    ) -> Self:
        """Check the offsets; raise InvariantError."""
        # Without the properties below: each append comes here.
        watermark, end = high_watermark_metadata.offset, log_end.offset
        stable = watermark if first_unstable is None else min(first_unstable.offset, watermark)
        made = (
            log_start_offset,
            high_watermark_metadata,
            log_end,
            recovery_point,
            first_unstable,
        )
        if not 0 <= log_start_offset <= stable <= watermark <= end:
            raise InvariantError(f"0 <= start <= stable <= high watermark <= end breaks: {made}")
        if not log_start_offset <= recovery_point <= end:
            raise InvariantError(f"start <= recovery point <= end does not hold: {made}")
        return tuple.__new__(cls, made)

    @classmethod
    def _make(cls, iterable: Iterable[Any]) -> Self:  # type: ignore[override]  # as it is called
        """Make one as ``_replace`` does, and check it, too."""
        return cls(*iterable)

    @property
    def log_end_offset(self) -> int:
        """Offset the next record will get."""
        return self.log_end.offset

    @property
    def high_watermark(self) -> int:
        """Readers see offsets below it."""
        return self.high_watermark_metadata.offset

    @property
    def last_stable(self) -> LogOffsetMetadata:
        """The first unstable offset if it is below the high watermark, else that."""
        unstable = self.first_unstable
        if unstable is not None and unstable.offset < self.high_watermark:
            return unstable
        return self.high_watermark_metadata

    @property
    def last_stable_offset(self) -> int:
        """Readers of committed records see offsets below it."""
        return self.last_stable.offset

    def with_high_watermark(self, proposed: LogOffsetMetadata) -> LogOffsets:
        """Clamp ``proposed`` into the log. Source: Kafka UnifiedLog.updateHighWatermark."""
        if proposed.offset < 0:
            raise InvalidArgument(f"high watermark {proposed.offset} is negative")
        if proposed.offset < self.log_start_offset:
            proposed = LogOffsetMetadata(self.log_start_offset)
        elif proposed.offset >= self.log_end_offset:
            proposed = self.log_end
        return LogOffsets(  # as ``with_log_end``: most appends come here too
            self.log_start_offset,
            proposed,
            self.log_end,
            self.recovery_point,
            self.first_unstable,
        )

    def with_log_end(self, log_end: LogOffsetMetadata) -> LogOffsets:
        """Move the end on, or to another segment; a watermark at the end moves with it.

        Source: Kafka UnifiedLog.updateLogEndOffset.
        """
        watermark = self.high_watermark_metadata
        if watermark.offset == log_end.offset:
            watermark = log_end
        # As ``replace`` would, in a third of the time: every append comes here.
        return LogOffsets(
            self.log_start_offset, watermark, log_end, self.recovery_point, self.first_unstable
        )

    def appended(self, log_end: LogOffsetMetadata, watermark: LogOffsetMetadata) -> LogOffsets:
        """Move the end on, and the high watermark to ``watermark`` unless it is there already."""
        old = self.high_watermark_metadata
        if watermark.offset <= old.offset:
            return self.with_log_end(log_end)
        if watermark.offset >= log_end.offset:
            watermark = log_end  # which knows where it lies
        return LogOffsets(
            self.log_start_offset, watermark, log_end, self.recovery_point, self.first_unstable
        )

    def with_place_forgotten(self) -> LogOffsets:
        """Forget where the high watermark lies; who asks next looks it up again."""
        return self._replace(high_watermark_metadata=LogOffsetMetadata(self.high_watermark))

    def truncated(
        self, log_end: LogOffsetMetadata, log_start_offset: int, high_watermark: int | None = None
    ) -> LogOffsets:
        """Cut all offsets to a new end and start; the watermark to ``high_watermark`` if given.

        The new end may be above the old one (a follower that starts over), and so may the start.
        A watermark below the end loses its place, which is looked up again: above a gap of offsets
        it may have been in a segment that is gone.
        """
        offset = self.high_watermark if high_watermark is None else high_watermark
        if offset >= log_end.offset:
            watermark = log_end
        else:
            watermark = LogOffsetMetadata(max(offset, log_start_offset))
        recovery_point = min(max(self.recovery_point, log_start_offset), log_end.offset)
        return LogOffsets(log_start_offset, watermark, log_end, recovery_point)

    def with_log_start(self, log_start_offset: int) -> LogOffsets:
        """Move the start; watermark, stable offset and recovery point are raised to it."""
        watermark, unstable = self.high_watermark_metadata, self.first_unstable
        start = LogOffsetMetadata(log_start_offset)
        return self._replace(
            log_start_offset=log_start_offset,
            high_watermark_metadata=watermark if watermark.offset >= log_start_offset else start,
            first_unstable=start if unstable and unstable.offset < log_start_offset else unstable,
            recovery_point=max(self.recovery_point, log_start_offset),
        )

    def with_first_unstable(self, first_unstable: LogOffsetMetadata | None) -> LogOffsets:
        """Move the first unstable offset, clamped up to the log start; None: all is stable."""
        if first_unstable is not None and first_unstable.offset < self.log_start_offset:
            first_unstable = LogOffsetMetadata(self.log_start_offset)
        return self._replace(first_unstable=first_unstable)

    def with_recovery_point(self, recovery_point: int) -> LogOffsets:
        """Raise the recovery point; a lower one changes nothing. It never passes the end."""
        raised = min(max(self.recovery_point, recovery_point), self.log_end_offset)
        return self._replace(recovery_point=raised)


def check_offsets_left(first_offset: int, count: int) -> None:
    """Raise InvalidArgument if the log end would exceed int64, as in no log of real records."""
    if first_offset + count > INT64_MAX:
        raise InvalidArgument(
            f"{count} records from offset {first_offset} on exceed the greatest offset"
        )
