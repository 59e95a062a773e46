"""Which part of a log is dirty, how dirty the log is, and whether it should be cleaned.

Kafka: ``LogCleanerManager.cleanableOffsets`` and ``LogToClean``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from tidelog.cleaner.cleanable_range import OffsetsToClean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tidelog.cleaner.source_log import SourceLog, SourceSegment
    from tidelog.config.log_config import LogConfig

_log = logging.getLogger(__name__)


class DirtyStart(NamedTuple):
    """The first dirty offset of a log; ``is_reset``: the checkpoint was outside of the log."""

    offset: int
    is_reset: bool


class CleanableLimit(NamedTuple):
    """The offset from which on a log must not be cleaned, and the rule behind it."""

    offset: int
    held_by: str


class LogToClean(NamedTuple):
    """How much of a log is clean and dirty, in bytes. Source: Kafka LogToClean.

    ``compaction_delay_ms`` is by how much the oldest dirty record exceeds
    ``max.compaction.lag.ms``. ``is_reset``: the checkpoint was outside of the log.
    """

    offsets: OffsetsToClean
    clean_bytes: int
    cleanable_bytes: int
    compaction_delay_ms: int
    is_reset: bool
    held_by: str

    @property
    def total_bytes(self) -> int:
        """Bytes that count for the ratio."""
        return self.clean_bytes + self.cleanable_bytes

    @property
    def dirty_ratio(self) -> float:
        """Dirty share of the bytes; 0 if there are none. Source: Kafka cleanableRatio."""
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else 0.0

    @property
    def needs_compaction_now(self) -> bool:
        """Whether a cleanable record exceeds ``max.compaction.lag.ms``."""
        return self.compaction_delay_ms > 0 and self.cleanable_bytes > 0

    def is_eligible(self, min_ratio: float) -> bool:
        """Return whether to clean it: compaction is overdue, or the ratio exceeds ``min_ratio``."""
        has_bytes = self.total_bytes > 0
        return has_bytes and (self.needs_compaction_now or self.dirty_ratio > min_ratio)


def dirty_start(
    log: SourceLog, checkpoint: int | None, config: LogConfig | None = None
) -> DirtyStart:
    """Return the first offset never cleaned: the checkpoint, or the log start.

    A checkpoint outside of the log is ignored. ``config`` stands for the log's own settings.
    """
    start = log.log_start_offset
    if checkpoint is None:
        return DirtyStart(start, is_reset=False)
    if start <= checkpoint <= log.log_end_offset:
        return DirtyStart(checkpoint, is_reset=False)
    # In a log that is compacted and deleted, retention moves the start past the checkpoint.
    if checkpoint > start or not (config or log.config).is_deleted:
        _log.warning(
            "cleaner-checkpoint-reset directory=%s checkpoint=%d log_start=%d log_end=%d",
            *(log.directory, checkpoint, start, log.log_end_offset),
        )
    return DirtyStart(start, is_reset=True)


def cleanable_limit(
    log: SourceLog, first_dirty: int, now_ms: int, config: LogConfig | None = None
) -> CleanableLimit:
    """Return the least of last stable offset, active segment, and first segment within the lag.

    ``config`` stands for the log's own settings.
    """
    active = log.segments.active.base_offset
    limits = [
        CleanableLimit(active, "the active segment"),
        CleanableLimit(log.last_stable_offset, "an open transaction"),
    ]
    if log.last_stable_offset >= log.high_watermark:
        limits[1] = CleanableLimit(log.last_stable_offset, "the high watermark")
    if log.pinned_from is not None:
        limits.append(CleanableLimit(log.pinned_from, "a transaction that is being applied"))
    lag_ms = (config or log.config).min_compaction_lag_ms
    if lag_ms > 0:
        limits += [
            CleanableLimit(segment.base_offset, "min.compaction.lag.ms")
            for segment in _inactive_from(log, first_dirty)
            if segment.largest_timestamp() > now_ms - lag_ms
        ][:1]
    least = min(limits, key=lambda limit: limit.offset)
    return CleanableLimit(max(least.offset, first_dirty), least.held_by)


def examine(
    log: SourceLog, checkpoint: int | None, now_ms: int, config: LogConfig | None = None
) -> LogToClean:
    """Return what of ``log`` is dirty and may be cleaned now.

    ``config`` stands for the log's own settings.
    The range ends at a segment's base offset: the segment that contains the limit is not cleaned.
    A segment in whose middle the dirty part begins counts as clean and as dirty, as in Kafka.
    Source: Kafka LogCleanerManager.cleanableOffsets, LogToClean.
    """
    config = config or log.config
    first_dirty, is_reset = dirty_start(log, checkpoint, config)
    limit, held_by = cleanable_limit(log, first_dirty, now_ms, config)
    segments = log.segments
    active = segments.active.base_offset  # first: a roll meanwhile only makes it too low
    first_uncleanable = next((each.base_offset for each in _inactive_from(log, limit)), active)
    clean = [segment for segment in segments if segment.base_offset < first_dirty]
    dirty = segments.overlapping(min(first_dirty, first_uncleanable), first_uncleanable)
    return LogToClean(
        OffsetsToClean(first_dirty, first_uncleanable),
        _bytes_of(clean),
        _bytes_of(dirty),
        _compaction_delay_ms(log, first_dirty, now_ms, config.max_compaction_lag_ms),
        is_reset,
        held_by,
    )


def _bytes_of(segments: Iterable[SourceSegment]) -> int:
    return sum(segment.size_bytes for segment in segments)


def _inactive_from(log: SourceLog, offset: int) -> Sequence[SourceSegment]:
    """Return the inactive segments, beginning with the one that contains ``offset``."""
    active = log.segments.active.base_offset
    if offset >= active:
        return ()
    return log.segments.overlapping(offset, active)


def _compaction_delay_ms(log: SourceLog, first_dirty: int, now_ms: int, max_lag_ms: int) -> int:
    firsts = (segment.first_batch_timestamp() for segment in _inactive_from(log, first_dirty))
    earliest_ms = min((first for first in firsts if first > 0), default=now_ms)
    return max(now_ms - max_lag_ms - earliest_ms, 0)
