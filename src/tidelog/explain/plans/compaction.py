"""One cleaning of a log by hand, or the plan of it by the same code, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tidelog.cleaner.cleaner import Cleaner, CleanerSettings
from tidelog.cleaner.cleaner_checkpoints import CleanerCheckpoints
from tidelog.cleaner.failed_cleanings_file import read_failures, write_failures
from tidelog.cleaner.pick import examine
from tidelog.cleaner.throttle import CleanerIo
from tidelog.config.broker_config import BrokerConfig
from tidelog.explain.plans.examined_log import ReadOnlyExaminedLog
from tidelog.manager.log_registry import parent_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tidelog.cleaner.failed_cleanings import Failure
    from tidelog.cleaner.filter_result import DroppedRecords
    from tidelog.cleaner.pick import LogToClean
    from tidelog.cleaner.stats import CleanerStats
    from tidelog.config.log_config import LogConfig
    from tidelog.env.clock import Clock
    from tidelog.env.scheduler import Scheduler
    from tidelog.manager.log_manager import LogManager
    from tidelog.readonly.read_only_log import ReadOnlyLog

PIECE_BYTES: Final = 1 << 20


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
    def freed_bytes(self) -> int:
        """Bytes that are dropped."""
        return 0 if self.stats is None else self.stats.bytes_read - self.stats.bytes_written

    @property
    def true_dirty_ratio(self) -> float | None:
        """Share of the bytes read that is dropped, known only once all keys were read."""
        if self.stats is None or not self.stats.bytes_read:
            return None
        return self.freed_bytes / self.stats.bytes_read


def examine_log(
    log: ReadOnlyLog,
    config: LogConfig,
    checkpoint: int | None,
    failure: Failure | None,
    now_ms: int,
) -> CompactionFacts:
    """Return how a log that is only read stands, without reading its keys.

    Args:
        log: the log.
        config: the settings in force.
        checkpoint: its line in the cleaner's checkpoint; None without one.
        failure: how its cleanings have failed; None if they have not.
        now_ms: the time.

    Raises CorruptMessage, KafkaStorageError.
    """
    examined = ReadOnlyExaminedLog(log, config)
    found = examine(examined, checkpoint, now_ms)
    return CompactionFacts(
        log.topic,
        log.partition,
        config.is_compacted,
        found,
        found.offsets.first_dirty_offset,
        examined.size_bytes,
        None,
        failure,
    )


class Compaction:
    """Cleans the logs of an open data directory by hand, one cleaning each.

    ``is_plan``: nothing is written, and ``on_dropped`` is called with the records that a cleaning
    would drop.
    """

    def __init__(
        self,
        manager: LogManager,
        *,
        now_ms: int,
        clock: Clock,
        scheduler: Scheduler,
        rng: Random,
        is_plan: bool,
        on_dropped: Callable[[DroppedRecords], None] = lambda _: None,
    ) -> None:
        self._manager = manager
        self._now_ms = now_ms
        self._is_plan = is_plan
        self._on_dropped = on_dropped
        self._checkpoints = CleanerCheckpoints(manager.machine.fs)
        config = BrokerConfig()
        settings = CleanerSettings(
            config.log_cleaner_dedupe_buffer_size, config.log_cleaner_io_buffer_load_factor
        )
        io = CleanerIo(PIECE_BYTES, lambda: None)
        self._cleaner = Cleaner(settings, clock=clock, scheduler=scheduler, rng=rng, io=io)

    def examine(self, topic: str, partition: int) -> CompactionFacts:
        """Return how a log stands, without reading its keys."""
        log = self._manager.partition(topic, partition).log
        key = topic, partition
        checkpoint = self._checkpoints.read(parent_of(log)).get(key)
        found = examine(log, checkpoint, self._now_ms)
        return CompactionFacts(
            topic,
            partition,
            log.config.is_compacted,
            found,
            found.offsets.first_dirty_offset,
            log.size_bytes,
            None,
            read_failures(self._manager.machine.fs, parent_of(log)).get(key),
        )

    def clean(self, topic: str, partition: int) -> CompactionFacts:
        """Clean one log, ignoring min.cleanable.dirty.ratio, or return what that would do.

        Raises CorruptMessage, InvalidRecord, InvalidArgument, KafkaStorageError, CleaningAborted.
        """
        facts = self.examine(topic, partition)
        if not facts.is_compacted or facts.to_clean.offsets.is_empty:
            return facts
        log = self._manager.partition(topic, partition).log
        offsets = facts.to_clean.offsets
        if self._is_plan:
            cleaned = self._cleaner.plan(log, offsets, self._now_ms, self._on_dropped)
        else:
            cleaned = self._cleaner.clean(log, offsets, self._now_ms)
            self._note_cleaned((topic, partition), cleaned.end_offset)
        return CompactionFacts(
            topic,
            partition,
            facts.is_compacted,
            facts.to_clean,
            cleaned.end_offset,
            facts.size_bytes,
            cleaned.stats,
            facts.failure,
        )

    def _note_cleaned(self, key: tuple[str, int], end_offset: int) -> None:
        """Checkpoint how far the log is cleaned, and forget that its cleaning failed."""
        fs, path = self._manager.machine.fs, parent_of(self._manager.partition(*key).log)
        self._checkpoints.change(path, lambda lines: lines.update({key: end_offset}))
        failures = read_failures(fs, path)
        if failures.pop(key, None) is not None:
            write_failures(fs, path, failures)
