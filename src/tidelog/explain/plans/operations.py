"""What recovery, retention or a deletion of records does to a log, or would do, as values.

Over an ``OverlayFiles`` the same code changes nothing and its result is the plan.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from tidelog.errors import CorruptMessage
from tidelog.explain.plans.lost_records import LostBytes, look_into
from tidelog.explain.plans.retention_outlook import outlook_of
from tidelog.log.loading.load_watch import LoadWatcher
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tidelog.explain.plans.retention_outlook import SegmentOutlook
    from tidelog.log.loading.load_watch import Loss, RecoveryProgress
    from tidelog.log.log import Log
    from tidelog.log.retention import DeletedSegment
    from tidelog.manager.log_manager import LogManager


@dataclass(frozen=True, slots=True)
class RecoveredLog:
    """One log after it was loaded; offsets as then, the end exclusive.

    ``checked_bytes`` were read to find out; none after a clean shutdown. ``unchecked_bytes`` of
    records are believed, as they were flushed before. ``high_watermark`` is the line of the
    checkpoint, the end (exclusive) of what readers have seen; None without one.
    """

    topic: str
    partition: int
    log_start_offset: int
    log_end_offset: int
    checked_bytes: int
    unchecked_bytes: int
    high_watermark: int | None
    losses: tuple[LostBytes, ...]
    holes: tuple[tuple[int, int], ...] = ()
    """Offsets ``[start, end)`` between two segments that neither holds, in a log that is not
    compacted: a file seems to be lost."""

    @property
    def lost_bytes(self) -> int:
        """Bytes of all losses."""
        return sum(loss.size_bytes for loss in self.losses)

    @property
    def lost_records(self) -> int:
        """Records that could still have been read, in all losses."""
        return sum(loss.records for loss in self.losses)

    @property
    def is_damaged(self) -> bool:
        """Whether something other than zeros behind the log's end was lost."""
        if self.holes or self.lost_offsets is not None:
            return True
        return any(not loss.is_all_zeros for loss in self.losses)

    @property
    def lost_offsets(self) -> tuple[int, int] | None:
        """First and last offset (inclusive) known to be lost; None if no record is known to be.

        Those that readers have seen are lost where the log ends below them, readable or not.
        """
        cuts = [loss for loss in self.losses if loss.last_offset is not None]
        last = max((loss.last_offset or 0 for loss in cuts), default=-1)
        if self.high_watermark is not None and self.high_watermark > self.log_end_offset:
            last = max(last, self.high_watermark - 1)
        first = min((loss.from_offset for loss in cuts), default=self.log_end_offset)
        return (min(first, last), last) if last >= 0 else None


@dataclass(frozen=True, slots=True)
class ShrunkLog:
    """One log after some of its segments were deleted; ``size_bytes`` is what is left."""

    topic: str
    partition: int
    log_start_offset: int
    log_end_offset: int
    size_bytes: int
    deleted: tuple[DeletedSegment, ...]
    kept: tuple[SegmentOutlook, ...] = ()

    @property
    def freed_bytes(self) -> int:
        """Bytes of records in the deleted segments."""
        return sum(segment.size_bytes for segment in self.deleted)


class RecoveryNotes(LoadWatcher):
    """Keeps what the loading of one log reports; passes its progress on."""

    def __init__(self, on_progress: Callable[[RecoveryProgress], None] | None = None) -> None:
        self._on_progress = on_progress
        self.checked_bytes = 0
        self.losses: list[LostBytes] = []

    def start(self) -> None:
        """Begin with another log."""
        self.checked_bytes = 0
        self.losses.clear()

    def progressed(self, progress: RecoveryProgress) -> None:
        """Keep the bytes done so far."""
        self.checked_bytes = progress.done_bytes
        if self._on_progress is not None:
            self._on_progress(progress)

    def losing(self, loss: Loss) -> None:
        """Count what the bytes hold while they can be read."""
        self.losses.append(look_into(loss))


def recover_log(
    manager: LogManager,
    topic: str,
    partition: int,
    notes: RecoveryNotes,
    *,
    high_watermark: int | None = None,
    cleaned_to: int = 0,
) -> RecoveredLog:
    """Load one log, which recovers it; ``notes`` must be the watcher of ``manager``.

    ``high_watermark`` is the line of the checkpoint before, and ``cleaned_to`` that of the cleaner:
    holes below it are left by compaction. Errors as ``LogManager.partition``.
    """
    notes.start()
    log = manager.partition(topic, partition).log
    cut_bytes = sum(loss.size_bytes for loss in notes.losses)
    return RecoveredLog(
        topic,
        partition,
        log.log_start_offset,
        log.log_end_offset,
        notes.checked_bytes,
        max(log.size_bytes + cut_bytes - notes.checked_bytes, 0),
        high_watermark,
        tuple(notes.losses),
        () if log.config.is_compacted else tuple(_holes(log, cleaned_to)),
    )


def _holes(log: Log, cleaned_to: int) -> Iterator[tuple[int, int]]:
    segments = list(log.segments)
    for segment, behind in pairwise(segments):
        with suppress(CorruptMessage):
            end = max(segment.read_next_offset(), log.log_start_offset, cleaned_to)
            if end < behind.base_offset:
                yield end, behind.base_offset


def retain_log(manager: LogManager, topic: str, partition: int) -> ShrunkLog:
    """Delete the segments of one log that retention allows to be deleted now."""
    key = TopicPartition(topic, partition)
    deleted = manager.retain(key)[key]
    log = manager.partition(topic, partition).log
    return replace(_shrunk(topic, partition, log, deleted), kept=tuple(outlook_of(log)))


def delete_records(
    manager: LogManager, topic: str, partition: int, before_offset: int
) -> ShrunkLog:
    """Move one log's start to ``before_offset`` (-1: the high watermark); free whole segments.

    Raises PolicyViolation for a log that is only compacted, OffsetOutOfRange above the high
    watermark.
    """
    log = manager.partition(topic, partition).log
    log.delete_records(before_offset)
    return _shrunk(topic, partition, log, log.delete_segments_below_start())


def _shrunk(topic: str, partition: int, log: Log, deleted: Sequence[DeletedSegment]) -> ShrunkLog:
    offsets = log.log_start_offset, log.log_end_offset
    return ShrunkLog(topic, partition, *offsets, log.size_bytes, tuple(deleted))
