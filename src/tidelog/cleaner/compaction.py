"""One cleaning of a log on demand, or the plan of it, as values.

Such a cleaning ignores ``min.cleanable.dirty.ratio``. Kafka has none: its cleaner chooses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tidelog.cleaner.cleaner import Cleaner, CleanerSettings
from tidelog.cleaner.pick import examine
from tidelog.cleaner.throttle import CleanerIo

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tidelog.cleaner.cleaner import CleaningResult
    from tidelog.cleaner.failed_cleanings import Failure
    from tidelog.cleaner.filter_result import DroppedRecords
    from tidelog.cleaner.pick import ExaminedLog, LogToClean
    from tidelog.cleaner.source_log import SourceLog
    from tidelog.cleaner.stats import CleanerStats
    from tidelog.config.broker_config import BrokerConfig
    from tidelog.config.log_config import LogConfig
    from tidelog.env.clock import Clock
    from tidelog.env.scheduler import Scheduler
    from tidelog.log.log import Log

PIECE_BYTES: Final = 1 << 20


class CompactionProgress(NamedTuple):
    """How many bytes a cleaning of one log has read, and about how many it will read in all."""

    topic: str
    partition: int
    done_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class CompactionFacts:
    """One log and its cleaning: ``to_clean`` as it was before, ``end_offset`` where it ended.

    ``stats`` is None where nothing was done: the log is not compacted, or nothing is dirty.
    ``size_bytes`` is the log's size before.
    """

    topic: str
    partition: int
    is_compacted: bool
    to_clean: LogToClean
    end_offset: int
    size_bytes: int
    stats: CleanerStats | None
    failure: Failure | None

    @property
    def is_whole(self) -> bool:
        """Whether the cleaning reached all that may be cleaned; else another one has to follow."""
        return self.end_offset >= self.to_clean.offsets.first_uncleanable_offset

    @property
    def is_due(self) -> bool:
        """Whether the log is compacted and has something dirty that may be cleaned."""
        return self.is_compacted and not self.to_clean.offsets.is_empty

    @property
    def freed_bytes(self) -> int:
        """Bytes that are dropped."""
        return 0 if self.stats is None else self.stats.bytes_read - self.stats.bytes_written

    @property
    def true_dirty_ratio(self) -> float | None:
        """Share of the bytes read that is dropped, known only once all keys were read."""
        if self.stats is None or not self.stats.bytes_read:
            return None
        return self.freed_bytes / self.stats.bytes_read

    def after(self, cleaned: CleaningResult) -> CompactionFacts:
        """Return the facts with what a cleaning did."""
        return replace(self, end_offset=cleaned.end_offset, stats=cleaned.stats)

    def as_json(self) -> dict[str, Any]:
        """Return the facts under the names that every command uses in JSON.

        What only a cleaning knows is None where nothing was cleaned.
        """
        found, stats = self.to_clean, self.stats
        return {
            "topic": self.topic,
            "partition": self.partition,
            "isCompacted": self.is_compacted,
            "firstDirtyOffset": found.offsets.first_dirty_offset,
            "firstUncleanableOffset": found.offsets.first_uncleanable_offset,
            "heldBy": found.held_by,
            "cleanBytes": found.clean_bytes,
            "cleanableBytes": found.cleanable_bytes,
            "dirtyRatio": found.dirty_ratio,
            "sizeBytes": self.size_bytes,
            "failure": None if self.failure is None else self.failure.error,
            "endOffset": None if stats is None else self.end_offset,
            "trueDirtyRatio": self.true_dirty_ratio,
            "recordsRead": None if stats is None else stats.records_read,
            "recordsKept": None if stats is None else stats.records_written,
            "bytesRead": None if stats is None else stats.bytes_read,
            "bytesKept": None if stats is None else stats.bytes_written,
            "oldestTombstone": None if stats is None else stats.oldest_tombstone_ms,
            "dropped": {}
            if stats is None
            else {cause.value: count for cause, count in stats.dropped.items()},
        }


def examine_log(
    key: tuple[str, int],
    log: ExaminedLog,
    checkpoint: int | None,
    failure: Failure | None,
    now_ms: int,
    *,
    config: LogConfig | None = None,
) -> CompactionFacts:
    """Return how a log stands, without reading its keys.

    Args:
        key: its topic and partition.
        log: the log, or a snapshot of it.
        checkpoint: its line in the cleaner's checkpoint; None without one.
        failure: how its cleanings have failed; None if they have not.
        now_ms: the time.
        config: stands for the log's own settings.

    Raises CorruptMessage, KafkaStorageError.
    """
    found = examine(log, checkpoint, now_ms, config)
    return CompactionFacts(
        *key,
        is_compacted=(config or log.config).is_compacted,
        to_clean=found,
        end_offset=found.offsets.first_dirty_offset,
        size_bytes=log.size_bytes,
        stats=None,
        failure=failure,
    )


class Compaction:
    """Cleans logs on demand, one cleaning each.

    Args:
        config: the broker's settings; the cleaner's buffers are used whole.
        clock: measures how long a cleaning takes.
        scheduler: runs the background writers.
        rng: makes the random keys of hashes.
        check_done: raises CleaningAborted once a cleaning is to stop.
        on_progress: called repeatedly during a cleaning or its plan.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock,
        scheduler: Scheduler,
        rng: Random,
        check_done: Callable[[], None] = lambda: None,
        on_progress: Callable[[CompactionProgress], None] = lambda _: None,
    ) -> None:
        settings = CleanerSettings(
            config.log_cleaner_dedupe_buffer_size, config.log_cleaner_io_buffer_load_factor
        )
        self._on_progress: Final = on_progress
        self._progress = CompactionProgress("", 0, 0, 0)
        io = CleanerIo(PIECE_BYTES, check_done, watch_read=self._have_read)
        self._cleaner: Final = Cleaner(settings, clock=clock, scheduler=scheduler, rng=rng, io=io)

    def clean(
        self, log: Log, facts: CompactionFacts, now_ms: int, config: LogConfig | None = None
    ) -> CompactionFacts:
        """Clean what is dirty by ``facts``; ``config`` and errors as ``Cleaner.clean``."""
        if not facts.is_due:
            return facts
        self._begin(facts)
        return facts.after(self._cleaner.clean(log, facts.to_clean.offsets, now_ms, config))

    def plan(
        self,
        log: SourceLog,
        facts: CompactionFacts,
        now_ms: int,
        on_dropped: Callable[[DroppedRecords], None] = lambda _: None,
    ) -> CompactionFacts:
        """Return what ``clean`` would do; nothing is written. Errors as ``Cleaner.clean``.

        ``on_dropped`` is called with the records that would be dropped.
        """
        if not facts.is_due:
            return facts
        self._begin(facts)
        # With a callback, the oldest tombstone that stays is found, too.
        offsets = facts.to_clean.offsets
        return facts.after(self._cleaner.plan(log, offsets, now_ms, on_dropped))

    def _begin(self, facts: CompactionFacts) -> None:
        """Report nothing done yet: what is dirty is read twice, for the map and for the copy."""
        found = facts.to_clean
        total = found.clean_bytes + 2 * found.cleanable_bytes
        self._progress = CompactionProgress(facts.topic, facts.partition, 0, total)
        self._on_progress(self._progress)

    def _have_read(self, size_bytes: int) -> None:
        done_bytes = self._progress.done_bytes + size_bytes
        self._progress = self._progress._replace(done_bytes=done_bytes)
        self._on_progress(self._progress)
