"""The cleaners of a broker: so many at once, each cleaning the dirtiest log, again and again.

Owns the loop, its settings, what is counted and logged. Threads are the scheduler's: each cleaner
is a chain of its tasks, so that an error ends one task and never a cleaner. Must not know data
directories or recovery. Kafka: ``LogCleaner`` and its ``CleanerThread``.
"""

from __future__ import annotations

import logging
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.cleaner.background_writers import Hands
from tidelog.cleaner.cleaner import Cleaner, CleanerSettings
from tidelog.cleaner.cleaner_manager import LogCleanerManager
from tidelog.cleaner.throttle import Pace, Throttle
from tidelog.errors import CleaningAborted, InvalidConfig

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tidelog.cleaner.cleaner_manager import Grabbed, Key, Logs
    from tidelog.cleaner.stats import Tally
    from tidelog.config.broker_config import BrokerConfig
    from tidelog.env.clock import Clock
    from tidelog.env.files import FileSystem
    from tidelog.env.scheduler import Handle, Scheduler
    from tidelog.log.log import Log

LEAST_PIECE_BYTES: Final = 1 << 16
POLL_MS: Final = 10
LONGEST_STOP_MS: Final = 30_000
"""How long ``shutdown`` waits for cleanings that run; each ends at its next piece."""

_logger = logging.getLogger(__name__)


class Machine(NamedTuple):
    """The doors that the cleaners use; ``sleep_ms`` waits."""

    fs: FileSystem
    clock: Clock
    scheduler: Scheduler
    rng: Random
    sleep_ms: Callable[[int], None]


class CleanerMetrics(NamedTuple):
    """Kafka's gauges of the cleaner, by their names there; ratios in percent, truncated."""

    max_buffer_utilization_percent: int
    cleaner_recopy_percent: int
    max_clean_time_secs: int
    max_compaction_delay_secs: int
    dead_thread_count: int
    max_dirty_percent: int
    time_since_last_run_ms: int
    uncleanable_partitions_count: dict[str, int]
    uncleanable_bytes: dict[str, int]


class LogCleaner:
    """Cleans compacted logs in background, or one at a time by hand.

    ``_lock`` guards the last tallies, the handles, how many tasks run, the count of errors that
    ended one, and ``_generation``: tasks of an older one schedule no other and stop cleaning.
    Source: Kafka LogCleaner.

    Args:
        config: of the broker; ``reconfigure`` takes another.
        logs: returns the current logs.
        machine: disk, clock, scheduler and the rest.
    """

    def __init__(self, config: BrokerConfig, logs: Callable[[], Logs], machine: Machine) -> None:
        self._config = config
        self._logs: Final = logs
        self._machine: Final = machine
        self._lock: Final = Lock()
        self._handles: dict[int, Handle] = {}
        self._last: dict[int, Tally] = {}
        self._generation = 0
        self._running = 0
        self.dead_thread_count = 0
        rate = config.log_cleaner_io_max_bytes_per_second
        self._threads: Final = config.background_threads  # the scheduler's; they stay as many
        self.hands: Final = Hands(self._helpers())
        self.throttle: Final = Throttle(rate, machine.clock, machine.sleep_ms)
        self.manager: Final = LogCleanerManager(
            logs, fs=machine.fs, clock=machine.clock, sleep_ms=machine.sleep_ms
        )

    # In background

    def startup(self) -> None:
        """Start ``log.cleaner.threads`` cleaners."""
        self.manager.recall_failures()
        with self._lock:
            self._generation += 1
            generation = self._generation
        if self._config.log_cleaner_threads < 1:
            _logger.warning("cleaner-not-started threads=%d", self._config.log_cleaner_threads)
        for number in range(self._config.log_cleaner_threads):
            self._schedule(number, 0, generation)

    def shutdown(self) -> None:
        """Let no cleaning begin any more, and wait for those that run to stop."""
        with self._lock:
            self._generation += 1
            handles = list(self._handles.values())
            self._handles.clear()
        for handle in handles:
            handle.cancel()
        clock = self._machine.clock
        until_ns = clock.monotonic_ns() + LONGEST_STOP_MS * 1_000_000
        while self._running and clock.monotonic_ns() < until_ns:
            self._machine.sleep_ms(POLL_MS)

    def check_settings(self, config: BrokerConfig) -> None:
        """Raise InvalidConfig if a running cleaner does not take these settings.

        The number of threads may at most double or halve at once. Source: Kafka
        LogCleaner.validateReconfiguration.
        """
        now, wanted = self._config.log_cleaner_threads, config.log_cleaner_threads
        if wanted < 1 or not now // 2 <= wanted <= now * 2:
            least, most = max(now // 2, 1), now * 2
            reason = f"log.cleaner.threads: {now} can become {least} to {most} at once"
            raise InvalidConfig((reason,))

    def reconfigure(self, config: BrokerConfig) -> None:
        """Go on with other settings: the cleaners are stopped and started again."""
        self.check_settings(config)
        self.shutdown()
        self._config = config
        self.hands.limit = self._helpers()
        self.throttle.bytes_per_second = config.log_cleaner_io_max_bytes_per_second
        self.startup()

    def _helpers(self) -> int:
        """Return how many threads may help all cleaners: half of those that these leave free."""
        return max(self._threads - self._config.log_cleaner_threads, 0) // 2

    def _schedule(self, number: int, delay_ms: int, generation: int) -> None:
        with self._lock:
            if generation == self._generation:
                self._handles[number] = self._machine.scheduler.schedule(
                    f"kafka-log-cleaner-thread-{number}",
                    lambda: self._run(number, generation),
                    delay_ms=delay_ms,
                )

    def _run(self, number: int, generation: int) -> None:
        """Clean once, then let the next task do so: at once if there was something to clean."""
        delay_ms = self._config.log_cleaner_backoff_ms
        with self._lock:
            if generation != self._generation:
                return
            self._running += 1
        try:
            if self.run_once(number):
                delay_ms = 0
        except Exception:  # whatever it was, the next task goes on
            with self._lock:
                self.dead_thread_count += 1
            _logger.exception("cleaner-died number=%d", number)
        finally:
            with self._lock:
                self._running -= 1
            self._schedule(number, delay_ms, generation)

    # One pass

    def run_once(self, number: int = 0) -> bool:
        """Clean the dirtiest log, if any, and return whether; then delete old segments."""
        now_ms = self._machine.clock.now_ms()
        grabbed = self.manager.grab_filthiest(now_ms)
        is_cleaned = grabbed is not None and self._clean(grabbed, number, now_ms)
        for key, log in self.manager.grab_deletable():
            self._delete_old(key, log, now_ms)
        self.manager.failures()
        return is_cleaned

    def _clean(self, grabbed: Grabbed, number: int, now_ms: int) -> bool:
        """Clean a log that is in progress, which it is no more on return; say whether it went."""
        key, log, to_clean = grabbed
        cleaned = None
        try:
            cleaned = self.cleaner(key).clean(log, to_clean.cleanable, now_ms)
        except CleaningAborted as error:
            _logger.info("cleaning-stopped directory=%s reason=%s", log.directory, error)
        except Exception as error:  # noqa: BLE001 - the partition is left alone for a while, with the error
            self.manager.fail(key, error, now_ms)
        finally:
            if cleaned is None:
                self.manager.done(key)
            else:
                self.manager.done_cleaning(key, log, cleaned.end_offset)
        if cleaned is None:
            return False
        with self._lock:
            self._last[number] = cleaned.tally
        _log_tally(log, cleaned.end_offset, cleaned.tally)
        return True

    def _delete_old(self, key: Key, log: Log, now_ms: int) -> None:
        try:
            log.delete_old_segments(now_ms)
        except Exception as error:  # noqa: BLE001 - as in _clean
            self.manager.fail(key, error, now_ms)
        finally:
            self.manager.done(key)

    def cleaner(self, key: Key) -> Cleaner:
        """Return a cleaner for one log, with a thread's share of the buffers."""
        config, machine, generation = self._config, self._machine, self._generation
        threads = max(config.log_cleaner_threads, 1)
        settings = CleanerSettings(
            config.log_cleaner_dedupe_buffer_size // threads,
            config.log_cleaner_io_buffer_load_factor,
        )

        def check() -> None:
            if generation != self._generation:
                raise CleaningAborted("the cleaner is shutting down")
            self.manager.check(key)

        piece_bytes = max(2 * config.log_cleaner_io_buffer_size // threads, LEAST_PIECE_BYTES)
        pace = Pace(piece_bytes, check, self.throttle)
        return Cleaner(
            settings,
            clock=machine.clock,
            scheduler=machine.scheduler,
            rng=machine.rng,
            pace=pace,
            hands=self.hands,
        )

    # What it has done

    def metrics(self) -> CleanerMetrics:
        """Return the gauges of the cleaner."""
        with self._lock:
            last = list(self._last.values())
        failed: dict[str, int] = {}
        waiting: dict[str, int] = {}
        logs = self._logs()
        for key in self.manager.failures().keys() & logs.keys():
            directory = logs[key].directory.rpartition("/")[0]
            failed[directory] = failed.get(directory, 0) + 1
            size_bytes = self.manager.uncleanable_bytes(key, logs[key])
            waiting[directory] = waiting.get(directory, 0) + size_bytes
        read = sum(tally.bytes_read for tally in last)
        return CleanerMetrics(
            int(100 * max((tally.buffer_utilization for tally in last), default=0)),
            100 * sum(tally.bytes_written for tally in last) // max(read, 1),
            max((tally.map_ns + tally.copy_ns for tally in last), default=0) // 1_000_000_000,
            self.manager.max_delay_ms // 1000,
            self.dead_thread_count,
            int(100 * self.manager.max_dirty_ratio),
            self._machine.clock.now_ms() - self.manager.last_run_ms,
            failed,
            waiting,
        )


def _log_tally(log: Log, end_offset: int, tally: Tally) -> None:
    seconds = max((tally.map_ns + tally.copy_ns) / 1e9, 1e-9)
    mib = 1 << 20
    _logger.info(
        "log-cleaned directory=%s end_offset=%d seconds=%.1f read_mib=%.1f written_mib=%.1f"
        " mib_per_second=%.1f map_seconds=%.1f records_read=%d records_kept=%d"
        " records_per_second=%d buffer_utilization_percent=%.1f invalid_records=%d",
        log.directory,
        end_offset,
        seconds,
        tally.bytes_read / mib,
        tally.bytes_written / mib,
        (tally.bytes_read + tally.map_bytes_read) / mib / seconds,
        tally.map_ns / 1e9,
        tally.records_read,
        tally.records_written,
        round(tally.records_read / seconds),
        100 * tally.buffer_utilization,
        tally.invalid_records,
    )
