"""Readers at full speed beside a writer that rolls and a retention pass that deletes."""

from __future__ import annotations

import sys
import threading
import time
from functools import partial
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Unpack

import pytest
from tests.machinery.log_home import LogHome
from tests.machinery.scale import scaled

from tidelog.config.log_config import LogConfig
from tidelog.env.clock import SYSTEM_CLOCK
from tidelog.env.scheduler import ThreadScheduler
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import OffsetOutOfRange
from tidelog.log.listeners import LogListener
from tidelog.log.log import Log
from tidelog.records.control import build_marker
from tidelog.records.isolation import Isolation
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.testing import ManualClock, build_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tidelog.records.builder import BatchFields

READERS = 3
CONFIG = LogConfig(
    internal_segment_bytes=2_000,
    index_interval_bytes=300,
    segment_index_bytes=120,
    retention_bytes=6_000,
    retention_ms=-1,
    file_delete_delay_ms=20,
)


def value_of(offset: int) -> bytes:
    """Return the value that the record at an offset has."""
    return b"%d:" % offset + bytes([offset % 251]) * (offset % 90)


PATIENCE_NS = 60_000_000_000
"""How much longer threads run on a busy machine until each of them has done something."""


class Traffic:
    """A log with everything that continues around it, each on a thread of its own."""

    def __init__(self, log: Log, seconds: float) -> None:
        self.log = log
        self.end_ns = time.monotonic_ns() + int(seconds * 1e9)
        self.errors: list[BaseException] = []
        self.aborted: set[int] = set()
        self.read = dict.fromkeys(Isolation, 0)
        self.deleted = 0
        self.snapshots = 0

    def run(self) -> None:
        """Run all until the time is over."""
        jobs: list[Callable[[], None]] = [self.write, self.retain, self.flush, self.place]
        jobs += [partial(self.follow, kind) for kind in Isolation]
        threads = [threading.Thread(target=self._guarded, args=[job]) for job in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _guarded(self, job: Callable[[], None]) -> None:
        try:
            while not self.errors and not self._is_over():
                job()
        except BaseException as error:  # noqa: BLE001 - the test shows it
            self.errors.append(error)

    def _is_over(self) -> bool:
        """Whether time is up and everything happened at least once, or far too much time passed."""
        now_ns = time.monotonic_ns()
        has_all = self.deleted and self.snapshots and all(self.read.values())
        return now_ns >= (self.end_ns if has_all else self.end_ns + PATIENCE_NS)

    def write(self) -> None:
        """Append some batches, plain and in a transaction that ends one way or the other."""
        log, rng = self.log, Random(self.log.log_end_offset)
        for _ in range(rng.randint(1, 5)):
            self._append(rng.randint(1, 4))
        sequence = 0
        known = log.producers.last_entry(1)
        if known is not None:
            sequence = known.last_sequence + 1
        guard = log.start_verification(1, sequence, 0, supports_epoch_bump=False)
        is_commit = rng.random() < 0.5
        if not is_commit:
            self.aborted.add(log.log_end_offset)
        self._append(
            1, guard, producer_id=1, producer_epoch=0, base_sequence=sequence, transactional=True
        )
        marker = build_marker(
            producer_id=1, producer_epoch=0, coordinator_epoch=0, is_commit=is_commit, timestamp=0
        )
        log.append_as_leader(marker, origin=AppendOrigin.COORDINATOR, transaction_version=0)
        log.update_high_watermark(log.log_end_offset)
        if rng.random() < 0.1:
            log.roll()

    def _append(self, count: int, guard: int = 0, **fields: Unpack[BatchFields]) -> None:
        first = self.log.log_end_offset
        now_ms = SYSTEM_CLOCK.now_ms()
        records = [(now_ms, None, value_of(first + n), ()) for n in range(count)]
        data = build_batch(records, **fields)
        assert self.log.append_as_leader(data, verification_guard=guard).first_offset == first

    def retain(self) -> None:
        """Delete what is too much; let others run."""
        self.deleted += self.log.delete_old_segments()

    def flush(self) -> None:
        """Flush, beside the task that does so after each roll."""
        self.log.flush()
        assert self.log.recovery_point <= self.log.log_end_offset

    def place(self) -> None:
        """Take the offsets with their places: all are of one moment, and in one order."""
        taken = self.log.offset_snapshot()
        places = [(place.segment_base_offset, place.position) for place in taken]
        assert list(taken) == sorted(taken)
        assert places == sorted(places)
        assert taken.log_start.offset <= self.log.log_start_offset
        self.snapshots += 1

    def follow(self, isolation: Isolation) -> None:
        """Read from the start to the end; each record is the one written there, in order."""
        start = self.log.log_start_offset
        last = start - 1
        try:
            for record in self.log.records(start, isolation=isolation):
                assert record.offset > last
                assert record.value == value_of(record.offset)
                if isolation is Isolation.READ_COMMITTED:
                    assert record.offset not in self.aborted
                last = record.offset
                self.read[isolation] += 1
        except OffsetOutOfRange:
            # Retention has overtaken this reader, which then begins again.
            assert last + 1 < self.log.log_start_offset


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    """A log on the real disk, with a scheduler of threads."""
    scheduler = ThreadScheduler(2)
    scheduler.start()
    log = Log.open(
        str(tmp_path / "flights-0"),
        fs=SYSTEM_FILES,
        clock=SYSTEM_CLOCK,
        scheduler=scheduler,
        rng=Random(0),
        config=CONFIG,
    )
    yield log
    log.close()
    scheduler.shutdown()


@pytest.mark.parametrize(
    "seconds", [1.5, pytest.param(scaled(60), marks=[pytest.mark.slow, pytest.mark.timeout(200)])]
)
def test_readers_beside_a_writer_and_retention_see_no_wrong_record(
    log: Log, seconds: float
) -> None:
    """No error, no record but those that were written, in order; aborted ones are not shown.

    Scenario: UnifiedLogTest.testReadCommittedWithConcurrentHighWatermarkUpdates
    """
    traffic = Traffic(log, seconds)

    traffic.run()

    assert traffic.errors == []
    assert traffic.deleted > 0
    assert traffic.snapshots > 0
    assert all(count > 0 for count in traffic.read.values())
    assert log.log_end_offset > log.log_start_offset > 0


class Counting(ManualClock):
    """Each look at it shows one millisecond more; so does every thread's."""

    def __init__(self) -> None:
        super().__init__()
        self._ticks = count(1)

    def now_ms(self) -> int:
        return next(self._ticks)


def run_interleaved(work: Callable[[], None]) -> None:
    """Run the same work on three threads that take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)


def test_append_times_of_two_threads_lie_in_the_log_in_order() -> None:
    """The time is taken when no other append can come between: lower stamps are never behind."""
    home = LogHome(message_timestamp_type="LogAppendTime")
    home.clock = Counting()
    log = home.open()
    data = build_batch([(-1, None, b"value", ())])

    def append() -> None:
        for _ in range(300):
            log.append_as_leader(data)

    run_interleaved(append)

    times = [record.timestamp for record in log.records(isolation=Isolation.LOG_END)]
    assert len(times) == 900
    assert times == sorted(set(times))


class Ends(LogListener):
    """Keeps the log ends it hears; ``then`` runs after each."""

    def __init__(self, then: Callable[[], object] = lambda: None) -> None:
        self.heard: list[int] = []
        self._then = then

    def on_log_end_offset_updated(self, log_end_offset: int) -> None:
        self.heard.append(log_end_offset)
        self._then()


def test_another_thread_can_append_while_a_listener_runs() -> None:
    """A listener holds no lock of the log: what it waits for can continue."""
    log = LogHome().open()
    data = build_batch([(0, None, b"value", ())])

    def append_on_another_thread() -> None:
        if log.log_end_offset < 3:
            thread = threading.Thread(target=log.append_as_leader, args=[data], daemon=True)
            thread.start()
            thread.join(timeout=30)
            assert not thread.is_alive()

    ends = Ends(append_on_another_thread)
    log.add_listener(ends)
    log.append_as_leader(data)

    assert ends.heard == [1, 2, 3]


def test_listeners_hear_the_changes_of_all_threads_in_order() -> None:
    """Each change once, none lost, whichever thread makes it."""
    log = LogHome().open()
    data = build_batch([(0, None, b"value", ())])
    ends = Ends()
    log.add_listener(ends)

    def append() -> None:
        for _ in range(300):
            log.append_as_leader(data)

    run_interleaved(append)

    assert ends.heard == list(range(1, 901))
