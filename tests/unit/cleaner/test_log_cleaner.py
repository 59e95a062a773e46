"""Background cleaners: the loop, its errors and its metrics."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.cleaning import CleanerHome, kept

from tidelog.cleaner.cleaner_manager import LogCleanerManager
from tidelog.cleaner.log_cleaner import LogCleaner
from tidelog.cleaner.rewriting.background_writers import TASK_NAME, Job
from tidelog.cleaner.states import Event, Phase
from tidelog.cleaner.throttle import STOP_POLL_MS
from tidelog.config.broker_config import BrokerConfig
from tidelog.env.machine import Machine
from tidelog.errors import InvalidConfig
from tidelog.log.log import Log
from tidelog.testing.manual_time import ManualScheduler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

KEY = ("flights", 0)


class Place:
    """One log and the cleaner of a broker."""

    def __init__(self, settings: dict[str, Any] | None = None, **broker: Any) -> None:
        self.home = CleanerHome(**{"min_cleanable_dirty_ratio": 0.01, **(settings or {})})
        self.log = self.home.open()
        self.logs: Mapping[tuple[str, int], Log] = {KEY: self.log}
        home = self.home
        self.sleep_ms: Callable[[int], object] = home.clock.advance
        """What a cleaner does instead of sleeping."""
        machine = Machine(home.fs, home.clock, home.scheduler, Random(0), self._sleep)
        self.config = BrokerConfig(**broker)
        manager = LogCleanerManager(
            lambda: self.logs, fs=machine.fs, clock=machine.clock, sleep_ms=machine.sleep_ms
        )
        self.cleaner = LogCleaner(self.config, manager, machine)

    def _sleep(self, ms: int) -> None:
        self.sleep_ms(ms)

    def fill(self, values: int = 6) -> None:
        for number in range(values):
            self.home.append(self.log, (number % 2, number))
        self.log.roll()

    def damage(self, at: int = 65) -> None:
        """Flip a bit of the first segment: by default one of the first batch's records."""
        path = f"{self.home.directory}/00000000000000000000.log"
        data = bytearray(self.home.fs.read(path))
        data[at] ^= 1
        file = self.home.fs.open(path, "w")
        file.pwrite(data, 0)
        file.close()

    def offsets(self) -> list[int]:
        return [offset for offset, _, _ in kept(self.log)]


@pytest.fixture
def place() -> Iterator[Place]:
    made = Place()
    yield made
    made.log.close()


def test_dirty_logs_are_cleaned_in_background(place: Place) -> None:
    """A started cleaner cleans a dirty log, waits while none is dirty, and cleans again.

    Scenario: LogCleanerParameterizedIntegrationTest.cleanerTest
    """
    place.fill()
    place.cleaner.startup()
    place.home.clock.advance(0)
    first = place.offsets()
    place.fill()
    place.home.clock.advance(place.config.log_cleaner_backoff_ms)

    assert first == [4, 5]
    assert place.offsets() == [10, 11]
    assert place.cleaner.manager.checkpoint(KEY, place.log) == 12


def test_shutdown_stops_the_loop(place: Place) -> None:
    """After a shutdown no log is cleaned."""
    place.cleaner.startup()
    place.cleaner.shutdown()
    place.fill()

    place.home.clock.advance(10 * place.config.log_cleaner_backoff_ms)

    assert place.offsets() == list(range(6))


def test_other_settings_restart_the_cleaners(place: Place) -> None:
    """New settings apply from then on, and the metrics keep their values.

    Scenario: LogCleanerTest.testMetricsActiveAfterReconfiguration,
    LogCleanerParameterizedIntegrationTest.cleanerConfigUpdateTest
    """
    place.fill()
    place.cleaner.startup()
    place.home.clock.advance(0)

    place.cleaner.reconfigure(BrokerConfig(log_cleaner_io_max_bytes_per_second=1e6))

    assert place.cleaner.throttler.bytes_per_second == 1e6
    assert place.cleaner.metrics().cleaner_recopy_percent > 0
    assert "kafka-log-cleaner-thread-0" in place.home.scheduler.pending()


@pytest.mark.parametrize(("now", "taken"), [(1, (1, 2)), (4, (2, 8)), (5, (2, 10))])
def test_the_number_of_cleaners_at_most_doubles_or_halves(now: int, taken: tuple[int, int]) -> None:
    """A typing error must not start a thousand threads; a refused change has no effect."""
    place = Place(log_cleaner_threads=now)
    cleaner = place.cleaner

    for threads in taken:
        cleaner.check_settings(BrokerConfig(log_cleaner_threads=threads))
    for threads in (taken[0] - 1, taken[1] + 1):
        with pytest.raises(InvalidConfig, match=r"log\.cleaner\.threads"):
            cleaner.reconfigure(BrokerConfig(log_cleaner_threads=threads))

    assert cleaner._config.log_cleaner_threads == now
    place.log.close()


def test_new_settings_while_a_log_is_cleaned_leave_as_many_cleaners_as_before() -> None:
    """The running cleaning is aborted without an error, and begins again; no cleaner is added."""
    place = Place(log_cleaner_io_max_bytes_per_second=1000.0)
    place.fill(100)
    place.home.clock.advance(301)
    slept: list[int] = []

    def sleep_ms(ms: int) -> None:  # in the middle of the cleaning
        slept.append(ms)
        place.sleep_ms = place.home.clock.advance
        place.cleaner.reconfigure(place.config)

    place.sleep_ms = sleep_ms
    place.cleaner.startup()

    place.home.clock.advance(0)

    assert slept == [STOP_POLL_MS]
    assert list(place.home.scheduler.pending()).count("kafka-log-cleaner-thread-0") == 1
    assert place.cleaner.dead_thread_count == 0
    place.log.close()


def test_an_abort_ends_a_throttled_cleaning_at_once() -> None:
    """A cleaning that has to sleep for hours stops within one step of that sleep."""
    place = Place(log_cleaner_io_max_bytes_per_second=1.0)
    place.fill(100)
    place.home.clock.advance(301)
    slept: list[int] = []

    def sleep_ms(ms: int) -> None:
        slept.append(ms)
        if len(slept) == 3:  # as another thread does in abort_and_pause
            place.cleaner.manager._apply(KEY, Event.PAUSE)

    place.sleep_ms = sleep_ms

    assert not place.cleaner.run_once()

    assert slept == [STOP_POLL_MS] * 3
    assert place.cleaner.manager.state(KEY).phase is Phase.PAUSED
    assert place.offsets() == list(range(100))
    place.log.close()


def test_a_task_that_could_not_be_cancelled_does_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that the scheduler has already taken runs after the shutdown, but grabs no log."""
    place.fill()
    place.cleaner.startup()
    place.cleaner._handles.clear()  # so that the shutdown cannot cancel it
    grabbed: list[int] = []
    monkeypatch.setattr(place.cleaner.manager, "grab_filthiest", grabbed.append)

    place.cleaner.shutdown()
    late = place.home.scheduler.pending()
    place.home.clock.advance(0)

    assert late.count("kafka-log-cleaner-thread-0") == 1
    assert grabbed == []
    assert place.cleaner.dead_thread_count == 0


def test_a_shutdown_before_a_cleaning_begins_stops_it_too() -> None:
    """A shutdown while a log is being chosen is not missed: nothing is cleaned or deleted."""
    settings = {"cleanup_policy": ("compact", "delete"), "retention_ms": 1000}
    place = Place(settings)
    place.fill()
    place.home.clock.advance(1001)

    class Logs(dict[tuple[str, int], Log]):
        """The logs, of which the first look is followed by a shutdown, as by another thread."""

        def items(self) -> Any:
            place.logs = {KEY: place.log}
            place.cleaner.shutdown()
            return place.logs.items()

    place.cleaner.startup()
    place.logs = Logs({KEY: place.log})

    place.home.clock.advance(0)

    assert place.offsets() == list(range(6))
    assert place.cleaner.manager.state(KEY).phase is Phase.NONE
    assert place.cleaner.manager.failures() == {}
    place.log.close()


def test_a_partition_that_cannot_be_cleaned_is_seen_and_tried_again(place: Place) -> None:
    """A damaged log is in the metrics and failures, and is cleaned once it has been repaired.

    Scenario: LogCleanerLagIntegrationTest.
    testMarksPartitionsAsOfflineAndPopulatesUncleanableMetrics
    """
    place.fill()
    place.damage()
    place.cleaner.startup()
    place.home.clock.advance(0)

    metrics = place.cleaner.metrics()
    assert metrics.uncleanable_partitions_count == {"/data": 1}
    assert metrics.uncleanable_bytes == {"/data": place.log.size_bytes}
    assert "CRC" in place.cleaner.manager.failures()[KEY].error
    assert place.cleaner.dead_thread_count == 0

    place.damage()  # flips the bit back
    place.home.clock.advance(75_000)
    assert place.offsets() == [4, 5]
    assert place.cleaner.metrics().uncleanable_partitions_count == {}


def test_damage_below_the_log_start_stops_no_cleaning() -> None:
    """A power cut may leave it, and neither a cleaning nor retention came past it any more."""
    place = Place({"cleanup_policy": ("compact", "delete")})
    place.fill()
    place.fill()
    place.log.delete_records(6)
    place.damage()

    assert place.cleaner.run_once()
    assert place.log.segments.base_offsets == [6, 12]
    assert place.offsets() == [10, 11]
    place.log.close()


def test_a_damaged_offset_is_not_retried_at_once(place: Place) -> None:
    """An offset that no CRC covers and no split can repair is a failure, not an endless loop."""
    place.fill()
    place.damage(at=70)
    place.cleaner.startup()

    place.home.clock.advance(0)

    assert "impossible offsets" in place.cleaner.manager.failures()[KEY].error
    assert place.cleaner.manager.failures()[KEY].times == 1


def test_an_error_of_the_loop_itself_is_counted_and_the_loop_goes_on(place: Place) -> None:
    """An error that escapes one pass only ends that pass; it is counted as a dead thread.

    Scenario: LogCleanerLagIntegrationTest.testIsThreadFailed
    """
    place.fill()
    place.cleaner.startup()
    logs = place.logs

    class Failing(dict[tuple[str, int], Log]):
        """Logs that cannot be listed."""

        def items(self) -> Any:
            raise RuntimeError("no logs")

    place.logs = Failing()
    place.home.clock.advance(0)
    dead = place.cleaner.dead_thread_count
    place.logs = logs

    place.home.clock.advance(place.config.log_cleaner_backoff_ms)

    assert dead == 1
    assert place.offsets() == [4, 5]


def test_a_full_disk_is_tried_again(place: Place) -> None:
    """A cleaning that fails on a full disk leaves the log unchanged, and is repeated later."""
    import errno

    place.fill()
    place.home.fs.fail("pwrite", ".cleaned", OSError(errno.ENOSPC, "full"))
    place.cleaner.run_once()
    first = place.offsets()
    place.home.clock.advance(60_000)

    place.cleaner.run_once()

    assert (first, place.offsets()) == (list(range(6)), [4, 5])
    assert place.home.files(".cleaned") == []


def test_a_cleaning_that_fails_later_has_come_so_far() -> None:
    """The checkpoint says up to where the log is clean: what is swapped in stays."""
    place = Place({"internal_segment_bytes": 200})
    place.fill(8)
    bases = place.log.segments.base_offsets
    assert len(bases) > 3
    place.home.fs.fail("rename", f"{bases[2]:020}.log.cleaned", OSError(5, "bad disk"))

    place.cleaner.run_once()

    assert place.cleaner.manager.failures().keys() == {KEY}
    assert place.cleaner.manager.checkpoint(KEY, place.log) == bases[2]


def test_compacted_and_deleted_logs_lose_old_segments_too() -> None:
    """The cleaner runs the retention pass of compacted logs.

    Scenario: LogCleanerParameterizedIntegrationTest.testCleansCombinedCompactAndDeleteTopic
    """
    place = Place({"cleanup_policy": ("compact", "delete"), "retention_ms": 1000})
    place.fill()
    place.home.clock.advance(1001)
    place.home.append(place.log, ("new", 1))

    place.cleaner.run_once()

    assert place.offsets() == [6]
    assert place.log.log_start_offset == 6
    place.log.close()


def test_the_numbers_of_the_last_cleanings_are_gauges(place: Place) -> None:
    """Utilization, recopied share, seconds and delay are those of each cleaner's last cleaning.

    Scenario: LogCleanerTest.testMaxBufferUtilizationPercentMetric,
    LogCleanerTest.testMaxCleanTimeMetric, LogCleanerTest.testMaxCleanTimeSecs,
    LogCleanerTest.testMaxCompactionDelayMetrics, LogCleanerTest.testLogCleanerStats
    """
    place.fill(100)
    size_bytes = sum(segment.size_bytes for segment in place.log.segments)

    place.cleaner.run_once()

    metrics = place.cleaner.metrics()
    assert metrics.cleaner_recopy_percent == 100 * place.log.size_bytes // size_bytes
    assert metrics.max_buffer_utilization_percent == 0
    assert metrics.max_clean_time_secs == 0
    assert metrics.max_dirty_percent == 100
    assert metrics.time_since_last_run_ms == 0
    assert metrics.max_compaction_delay_secs == 0


def test_bytes_read_and_written_count_against_the_rate() -> None:
    """A low rate makes the cleaner sleep, and it still cleans the log."""
    place = Place(log_cleaner_io_max_bytes_per_second=1000.0)
    place.fill(100)
    place.home.clock.advance(301)
    before_ms = place.home.clock.now_ms()

    place.cleaner.run_once()

    assert place.offsets() == [98, 99]
    assert place.cleaner.throttler.total_bytes > 2 * 7000
    assert place.home.clock.now_ms() > before_ms
    place.log.close()


@pytest.mark.parametrize(
    ("background", "cleaners", "limit"), [(10, 1, 4), (10, 4, 3), (10, 9, 0), (1, 1, 0), (2, 4, 0)]
)
def test_cleaners_leave_threads_to_other_tasks(background: int, cleaners: int, limit: int) -> None:
    """Half of the background threads that do not clean may write for all cleaners together.

    So a flush or a checkpoint gets a thread that does not wait for the sync of a cleaned segment.
    """
    place = Place(background_threads=background, log_cleaner_threads=cleaners)
    taken = [Job(lambda: None) for _ in range(limit)]
    wrote = []

    place.fill()
    assert [place.cleaner.writer_slots.try_acquire(job) for job in taken] == [True] * limit
    assert not place.cleaner.writer_slots.try_acquire(Job(lambda: None))
    for _ in range(2):
        assert place.cleaner.run_once()
        wrote.append(TASK_NAME in [entry.name for entry in place.home.scheduler._queue])
        for job in taken:
            job.cancel()
        place.fill()

    assert wrote == [False, limit > 0]


def test_other_settings_change_the_number_of_background_writers() -> None:
    """More cleaners leave fewer writers; the number of background threads does not change."""
    place = Place(log_cleaner_threads=2, background_threads=10)
    assert place.cleaner.writer_slots.limit == 4

    place.cleaner.reconfigure(BrokerConfig(log_cleaner_threads=4, background_threads=100))

    assert place.cleaner.writer_slots.limit == 3


class ThreadsOfItsOwn(ManualScheduler):
    """Counts the threads that were started for the cleaners and not ended yet."""

    def __init__(self, place: Place) -> None:
        super().__init__(place.home.clock)
        self.started: list[tuple[int, str]] = []

    def start(self, threads: int, name: str) -> ThreadsOfItsOwn:
        self.started.append((threads, name))
        return self

    def shutdown(self) -> None:
        self.started.pop()
        self.forget()


def test_cleaners_have_threads_of_their_own() -> None:
    """A throttled cleaning occupies no thread that checkpoints, retention or moves need."""
    place = Place(log_cleaner_threads=2, background_threads=1)
    own = ThreadsOfItsOwn(place)
    machine = place.cleaner._machine._replace(start_threads=own.start)
    cleaner = LogCleaner(place.cleaner._config, place.cleaner.manager, machine)

    cleaner.startup()
    names = [f"kafka-log-cleaner-thread-{number}" for number in (0, 1)]
    assert (own.started, own.pending()) == ([(2, "kafka-log-cleaner-thread")], names)
    assert not set(names) & set(place.home.scheduler.pending())

    cleaner.reconfigure(replace(place.cleaner._config, log_cleaner_threads=4))
    assert own.started == [(4, "kafka-log-cleaner-thread")]
    assert len(own.pending()) == 4

    cleaner.shutdown()
    assert (own.started, own.pending()) == ([], [])


@pytest.mark.parametrize(("background", "limit"), [(10, 5), (1, 0)])
def test_cleaners_with_their_own_threads_leave_half_of_the_others(
    background: int, limit: int
) -> None:
    """Their background writers use at most that many; without any they write by themselves."""
    place = Place(log_cleaner_threads=4, background_threads=background)
    machine = place.cleaner._machine._replace(start_threads=ThreadsOfItsOwn(place).start)

    cleaner = LogCleaner(place.cleaner._config, place.cleaner.manager, machine)

    assert cleaner.writer_slots.limit == limit
