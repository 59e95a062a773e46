"""Which part of a log is dirty, how dirty the log is, and which log is the dirtiest.

Owns the choice. Must not know states, checkpoint files or time: they come in as values. Kafka:
``LogCleanerManager.grabFilthiestCompactedLog`` and ``cleanableOffsets``, ``LogToClean``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from tidelog.cleaner.cleaner import Cleanable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.log.log import Log
    from tidelog.segment.segment import LogSegment

_log = logging.getLogger(__name__)


class DirtyStart(NamedTuple):
    """Where the dirty part of a log begins; ``is_reset``: the checkpoint said something absurd."""

    offset: int
    is_reset: bool


class Limit(NamedTuple):
    """From which offset on a log may not be cleaned, and what it is that holds it there."""

    offset: int
    held_by: str


class LogToClean(NamedTuple):
    """How much of a log is clean and dirty, in bytes. Source: Kafka LogToClean.

    ``delay_ms`` is how much longer than ``max.compaction.lag.ms`` the oldest dirty record waits.
    """

    cleanable: Cleanable
    clean_bytes: int
    cleanable_bytes: int
    delay_ms: int
    is_reset: bool
    held_by: str

    @property
    def total_bytes(self) -> int:
        """Bytes that count for the ratio."""
        return self.clean_bytes + self.cleanable_bytes

    @property
    def dirty_ratio(self) -> float:
        """Share of the bytes that is dirty, 0 of none."""
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else 0.0

    @property
    def must_be_cleaned(self) -> bool:
        """Whether something waits longer than it may."""
        return self.delay_ms > 0 and self.cleanable_bytes > 0

    def is_eligible(self, min_ratio: float) -> bool:
        """Say whether to clean it: it waited too long, or the ratio is above ``min_ratio``."""
        has_bytes = self.total_bytes > 0
        return has_bytes and (self.must_be_cleaned or self.dirty_ratio > min_ratio)


def dirty_start(log: Log, checkpoint: int | None) -> DirtyStart:
    """Return the first offset never cleaned; a checkpoint outside of the log does not count."""
    start = log.log_start_offset
    if checkpoint is None:
        return DirtyStart(start, is_reset=False)
    if start <= checkpoint <= log.log_end_offset:
        return DirtyStart(checkpoint, is_reset=False)
    # Retention moves the start of a log that is compacted and deleted: nothing strange.
    if checkpoint > start or not log.config.is_deleted:
        _log.warning(
            "cleaner-checkpoint-reset directory=%s checkpoint=%d log_start=%d log_end=%d",
            *(log.directory, checkpoint, start, log.log_end_offset),
        )
    return DirtyStart(start, is_reset=True)


def limit(log: Log, first_dirty: int, now_ms: int) -> Limit:
    """Return the least of last stable offset, active segment, and what is younger than the lag."""
    active = log.segments.active.base_offset
    limits = [Limit(active, "active segment"), Limit(log.last_stable_offset, "open transaction")]
    if log.last_stable_offset >= log.high_watermark:
        limits[1] = Limit(log.last_stable_offset, "high watermark")
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        limits += [
            Limit(segment.base_offset, "min.compaction.lag.ms")
            for segment in _inactive_from(log, first_dirty)
            if segment.largest_timestamp() > now_ms - lag_ms
        ][:1]
    least = min(limits, key=lambda found: found.offset)
    return Limit(max(least.offset, first_dirty), least.held_by)


def examine(log: Log, checkpoint: int | None, now_ms: int) -> LogToClean:
    """Say what of ``log`` is dirty and may be cleaned now.

    The cleaning ends with a segment: the one that holds the limit is left out whole. A segment in
    whose middle the dirty part begins counts as clean and as dirty, as in Kafka.
    """
    first_dirty, is_reset = dirty_start(log, checkpoint)
    stop, held_by = limit(log, first_dirty, now_ms)
    uncleanable = next(iter(_inactive_from(log, stop)), log.segments.active).base_offset
    segments = log.segments
    clean = [segment for segment in segments if segment.base_offset < first_dirty]
    dirty = segments.overlapping(min(first_dirty, uncleanable), uncleanable)
    return LogToClean(
        Cleanable(first_dirty, uncleanable),
        _bytes_of(clean),
        _bytes_of(segment for segment in dirty if segment.base_offset < uncleanable),
        _delay_ms(log, first_dirty, now_ms),
        is_reset,
        held_by,
    )


def _bytes_of(segments: Iterable[LogSegment]) -> int:
    return sum(segment.size_bytes for segment in segments)


def _inactive_from(log: Log, offset: int) -> tuple[LogSegment, ...]:
    """Return the segments from the one that holds ``offset`` on, without the active one."""
    active = log.segments.active.base_offset
    if offset >= active:
        return ()
    return log.segments.overlapping(offset, active)


def _delay_ms(log: Log, first_dirty: int, now_ms: int) -> int:
    firsts = (part.first_batch_timestamp() for part in _inactive_from(log, first_dirty))
    earliest_ms = min((first for first in firsts if first > 0), default=now_ms)
    return max(now_ms - log.config.max_compaction_lag_ms - earliest_ms, 0)
