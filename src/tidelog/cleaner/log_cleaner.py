"""The background cleaners of a broker: each repeatedly cleans the dirtiest log.

A cleaner is a chain of scheduler tasks, so that an error ends one task and never a cleaner. The
tasks run on threads of the cleaners' own: a throttled cleaning may last for hours, and checkpoints,
retention and all else must not wait for it. Kafka: ``LogCleaner`` and its ``CleanerThread``.
"""

from __future__ import annotations

import logging
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.cleaner.rewriting.background_writers import WriterSlots
from tidelog.cleaner.throttle import CleanerIo, Throttler
from tidelog.env.clock import NS_PER_MS
from tidelog.env.forks import OfOneProcess
from tidelog.errors import CleaningAborted, InvalidConfig

if TYPE_CHECKING:
    from tidelog.cleaner.cleaner import Cleaner
    from tidelog.cleaner.cleaner_manager import GrabbedLog, Key, LogCleanerManager
    from tidelog.cleaner.stats import CleanerStats
    from tidelog.config.broker_config import BrokerConfig
    from tidelog.env.machine import Machine
    from tidelog.env.scheduler import Handle, OwnThreads
    from tidelog.log.log import Log

MIN_PIECE_BYTES: Final = 1 << 16
POLL_MS: Final = 10
MAX_STOP_MS: Final = 30_000
"""How long ``shutdown`` waits at most; cleanings stop before their next piece or step of sleep."""

_logger = logging.getLogger(__name__)


class CleanerMetrics(NamedTuple):
    """Kafka's gauges of the cleaner, under Kafka's names; ratios are truncated percentages.

    The last two have a value per data directory with failed partitions.
    """

    max_buffer_utilization_percent: int
    cleaner_recopy_percent: int
    max_clean_time_secs: int
    max_compaction_delay_secs: int
    dead_thread_count: int
    max_dirty_percent: int
    time_since_last_run_ms: int
    uncleanable_partitions_count: dict[str, int]
    uncleanable_bytes: dict[str, int]


class LogCleaner(OfOneProcess):
    """Cleans compacted logs in the background, or one pass at a time with ``run_once``.

    ``_lock`` guards the last stats, the handles, the number of running tasks, the count of errors
    that ended a task, and ``_generation``: tasks of an older generation schedule no successor and
    stop cleaning. Source: Kafka LogCleaner.

    Args:
        config: of the broker; ``reconfigure`` replaces it.
        manager: of the logs that it cleans.
        machine: disk, clock, scheduler, random numbers and sleep.
    """

    def __init__(self, config: BrokerConfig, manager: LogCleanerManager, machine: Machine) -> None:
        self._config = config
        self.manager: Final = manager
        self._machine: Final = machine
        self._lock: Final = Lock()
        self._handles: dict[int, Handle] = {}
        self._last_stats: dict[int, CleanerStats] = {}
        self._generation = 0
        self._threads: OwnThreads | None = None
        self._running = 0
        self.dead_thread_count = 0
        rate = config.log_cleaner_io_max_bytes_per_second
        self._background_threads: Final = config.scheduler_threads  # their number never changes
        self.writer_slots: Final = WriterSlots(self._max_writers())
        self.throttler: Final = Throttler(rate, machine.clock, machine.sleep_ms)

    # In the background

    def startup(self) -> None:
        """Start ``log.cleaner.threads`` cleaners."""
        self.manager.load_failures()
        with self._lock:
            self._generation += 1
            generation = self._generation
        threads, start_threads = self._config.cleaner_threads, self._machine.start_threads
        if threads < 1:
            _logger.warning("cleaner-not-started threads=%d", threads)
        elif start_threads is not None:
            self._threads = start_threads(threads, "kafka-log-cleaner-thread")
        for number in range(threads):
            self._schedule(number, 0, generation)

    def shutdown(self) -> None:
        """Prevent further cleanings, abort those that run, and wait until they have stopped."""
        if self.is_inherited:
            return
        with self._lock:
            self._generation += 1
            handles = list(self._handles.values())
            self._handles.clear()
        for handle in handles:
            handle.cancel()
        clock = self._machine.clock
        until_ns = clock.monotonic_ns() + MAX_STOP_MS * NS_PER_MS
        while self._running and clock.monotonic_ns() < until_ns:
            self._machine.sleep_ms(POLL_MS)
        threads, self._threads = self._threads, None
        if threads is not None and not self._running:
            threads.shutdown()

    def check_settings(self, config: BrokerConfig) -> None:
        """Raise InvalidConfig if a running cleaner cannot change to these settings.

        One change may at most double or halve the number of threads. Source: Kafka
        LogCleaner.validateReconfiguration.
        """
        now, wanted = self._config.log_cleaner_threads, config.log_cleaner_threads
        if wanted < 1 or not now // 2 <= wanted <= now * 2:
            least, most = max(now // 2, 1), now * 2
            reason = (
                f"log.cleaner.threads: {wanted} is outside [{least}, {most}], to which {now} can be"
                " changed at once"
            )
            raise InvalidConfig((reason,))

    def reconfigure(self, config: BrokerConfig) -> None:
        """Replace the settings: the cleaners are stopped and started again."""
        self.check_settings(config)
        self.shutdown()
        self._config = config
        self.writer_slots.limit = self._max_writers()
        self.throttler.update_rate(config.log_cleaner_io_max_bytes_per_second)
        self.startup()

    def _max_writers(self) -> int:
        """Return how many threads may write for all cleaners: half of those not cleaning."""
        has_own_threads = self._machine.start_threads is not None
        cleaning = 0 if has_own_threads else self._config.cleaner_threads
        return max(self._background_threads - cleaning, 0) // 2

    def _schedule(self, number: int, delay_ms: int, generation: int) -> None:
        with self._lock:
            if generation == self._generation:
                scheduler = self._threads or self._machine.scheduler
                self._handles[number] = scheduler.schedule(
                    f"kafka-log-cleaner-thread-{number}",
                    lambda: self._run(number, generation),
                    delay_ms=delay_ms,
                )

    def _run(self, number: int, generation: int) -> None:
        """Do one pass, then schedule the next: at once if a log was cleaned."""
        delay_ms = self._config.log_cleaner_backoff_ms
        with self._lock:
            if generation != self._generation:
                return
            self._running += 1
        try:
            if self._run_pass(number, generation):
                delay_ms = 0
        except Exception:  # no error may end the chain of tasks
            with self._lock:
                self.dead_thread_count += 1
            _logger.exception("cleaner-pass-failed number=%d", number)
        finally:
            with self._lock:
                self._running -= 1
            self._schedule(number, delay_ms, generation)

    # One pass

    def run_once(self) -> bool:
        """Clean the dirtiest log, then delete old segments; return whether a log was cleaned.

        Source: Kafka CleanerThread.tryCleanFilthiestLog.
        """
        return self._run_pass(0, self._generation)

    def _run_pass(self, number: int, generation: int) -> bool:
        """Do one pass for the cleaner of a number, which stops once its generation has ended."""
        now_ms = self._machine.clock.now_ms()
        grabbed = self.manager.grab_filthiest(now_ms)
        stats = None if grabbed is None else self._clean(grabbed, generation, now_ms)
        if stats is not None:
            with self._lock:
                self._last_stats[number] = stats
        for key, log in self.manager.grab_deletable():
            self._delete_old(key, log, generation, now_ms)
        self.manager.failures()
        return stats is not None

    def _check_done(self, key: Key, generation: int) -> None:
        """Raise CleaningAborted if the cleaner is stopping, or the partition's cleaning has to.

        Source: Kafka CleanerThread.checkDone.
        """
        if generation != self._generation:
            raise CleaningAborted("the cleaner is shutting down")
        self.manager.check(key)

    def _clean(self, grabbed: GrabbedLog, generation: int, now_ms: int) -> CleanerStats | None:
        """Clean a log that is in progress and end that state; return None if it was not cleaned."""
        key, log, to_clean = grabbed
        result = None
        try:
            self._check_done(key, generation)
            # A power cut may have torn them, as they need not be flushed; and while a cleaning
            # fails, retention waits.
            log.delete_segments_below_start()
            result = self._cleaner(key, generation).clean(
                *(log, to_clean.offsets, now_ms),
                on_swapped=lambda end: self.manager.note_swapped(key, log, end),
            )
        except CleaningAborted as error:
            _logger.info("cleaning-aborted directory=%s reason=%s", log.directory, error)
        except Exception as error:  # noqa: BLE001 - recorded, and retried later
            self.manager.mark_uncleanable(key, error, now_ms)
        finally:
            if result is None:
                self.manager.done(key)
            else:
                self.manager.done_cleaning(key, log, result.end_offset)
        if result is None:
            return None
        _log_stats(log, result.end_offset, result.stats)
        return result.stats

    def _delete_old(self, key: Key, log: Log, generation: int, now_ms: int) -> None:
        """Run the retention pass of a log that is in progress, unless it has to stop."""
        try:
            self._check_done(key, generation)
            log.delete_old_segments(now_ms)
        except CleaningAborted:
            pass  # a later pass deletes them
        except Exception as error:  # noqa: BLE001 - as in _clean
            self.manager.mark_uncleanable(key, error, now_ms)
        finally:
            self.manager.done(key)

    def _cleaner(self, key: Key, generation: int) -> Cleaner:
        """Return a cleaner for one log, with one thread's share of the buffers."""
        from tidelog.cleaner.cleaner import (  # noqa: PLC0415 - loads NumPy; few logs are compacted
            Cleaner,
            CleanerSettings,
        )

        config, machine = self._config, self._machine
        threads = max(config.cleaner_threads, 1)
        settings = CleanerSettings(
            config.log_cleaner_dedupe_buffer_size // threads,
            config.log_cleaner_io_buffer_load_factor,
        )

        piece_bytes = max(2 * config.log_cleaner_io_buffer_size // threads, MIN_PIECE_BYTES)
        io = CleanerIo(piece_bytes, lambda: self._check_done(key, generation), self.throttler)
        return Cleaner(
            settings,
            clock=machine.clock,
            scheduler=machine.scheduler,
            rng=machine.rng,
            io=io,
            writer_slots=self.writer_slots,
        )

    # Metrics

    def metrics(self) -> CleanerMetrics:
        """Return the gauges of the cleaner."""
        with self._lock:
            last = list(self._last_stats.values())
        failed: dict[str, int] = {}
        waiting: dict[str, int] = {}
        logs = self.manager.logs()
        for key in self.manager.failures().keys() & logs.keys():
            directory = logs[key].data_dir
            failed[directory] = failed.get(directory, 0) + 1
            size_bytes = self.manager.uncleanable_bytes(key, logs[key])
            waiting[directory] = waiting.get(directory, 0) + size_bytes
        read = sum(stats.bytes_read for stats in last)
        return CleanerMetrics(
            int(100 * max((stats.buffer_utilization for stats in last), default=0)),
            100 * sum(stats.bytes_written for stats in last) // max(read, 1),
            max((stats.map_ns + stats.copy_ns for stats in last), default=0) // 1_000_000_000,
            self.manager.max_delay_ms // 1000,
            self.dead_thread_count,
            int(100 * self.manager.max_dirty_ratio),
            self._machine.clock.now_ms() - self.manager.last_run_ms,
            failed,
            waiting,
        )


def _log_stats(log: Log, end_offset: int, stats: CleanerStats) -> None:
    seconds = max((stats.map_ns + stats.copy_ns) / 1e9, 1e-9)
    mib = 1 << 20
    _logger.info(
        "log-cleaned directory=%s end_offset=%d seconds=%.1f read_mib=%.1f written_mib=%.1f"
        " mib_per_second=%.1f map_seconds=%.1f records_read=%d records_kept=%d"
        " records_per_second=%d buffer_utilization_percent=%.1f invalid_records=%d",
        log.directory,
        end_offset,
        seconds,
        stats.bytes_read / mib,
        stats.bytes_written / mib,
        (stats.bytes_read + stats.map_bytes_read) / mib / seconds,
        stats.map_ns / 1e9,
        stats.records_read,
        stats.records_written,
        round(stats.records_read / seconds),
        100 * stats.buffer_utilization,
        stats.invalid_records,
    )
