"""What is known of producers after a log was opened again: as much as before."""

from __future__ import annotations

import errno
import random
import struct

import pytest
from tests.machinery.log_home import LogHome

from tidelog.log.producers.recall import RECALLED_BYTES, RECENT_MS
from tidelog.records.builder import build_batch

NOW_MS = 1_700_000_000_000
"""When the tests' clock begins: producers that wrote nothing for a day are forgotten."""
FIRST = "00000000000000000000.log"
SMALL = {"index_interval_bytes": 200}


def batch(producer: int, sequence: int, count: int = 1, epoch: int = 0, size: int = 10) -> bytes:
    """Return a batch of an idempotent producer."""
    records = [(NOW_MS, None, bytes(size), ()) for _ in range(count)]
    return build_batch(records, producer_id=producer, producer_epoch=epoch, base_sequence=sequence)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_producers_are_known_as_before(seed: int, clean: bool) -> None:
    """The last five batches of each, after a stop in order and after a kill, twice."""
    home, rng = LogHome(**SMALL), random.Random(seed)
    log = home.open()
    sequences = dict.fromkeys(range(4), 0)
    for _ in range(60):
        producer, count = rng.randrange(4), rng.randrange(1, 4)
        log.append_as_leader(batch(producer, sequences[producer], count))
        sequences[producer] += count
    before = log.active_producers()
    for _ in range(2):
        if clean:
            log.close()
        home.restart()
        log = home.open(clean=clean, recovery_point=log.recovery_point)
        assert log.active_producers() == before
        assert all(len(entry.batches) == 5 for entry in before.values())


@pytest.mark.parametrize("rolled_at", [(), (9,), (6, 8), (5, 6, 7, 8, 9)])
def test_a_repeat_of_all_that_was_in_flight_is_recognized(rolled_at: tuple[int, ...]) -> None:
    """Each gets the offset that it has, and nothing is written; wherever segments begin."""
    home = LogHome()
    log = home.open()
    offsets = []
    for at in range(9):
        offsets.append(log.append_as_leader(batch(7, at)).first_offset)
        if at + 1 in rolled_at:
            log.roll()
    log.close()
    home.restart()
    log = home.open()
    for at in range(4, 9):
        info = log.append_as_leader(batch(7, at))
        assert (info.is_duplicate, info.first_offset) == (True, offsets[at])
    assert log.log_end_offset == 9


def test_batches_of_an_earlier_epoch_are_not_recalled() -> None:
    """A producer that began again repeats nothing of before."""
    home = LogHome()
    log = home.open()
    for at in range(3):
        log.append_as_leader(batch(7, at))
    log.append_as_leader(batch(7, 0, epoch=1))
    before = log.active_producers()
    log.close()
    home.restart()
    assert home.open().active_producers() == before
    assert len(before[7].batches) == 1


def test_only_the_end_of_a_recent_log_is_looked_at() -> None:
    """What is further back, or older, is as in Kafka: the last batch is known."""
    for size, wait_ms in ((RECALLED_BYTES // 3, 0), (10, RECENT_MS + 1)):
        home = LogHome()
        log = home.open()
        for at in range(6):
            log.append_as_leader(batch(7, at, size=size))
        log.close()
        home.restart()
        home.clock.advance(wait_ms)
        (entry,) = home.open().active_producers().values()
        assert len(entry.batches) == (1 if wait_ms else 3)


@pytest.mark.parametrize(
    ("fault", "size"),
    [("unreadable", 10), ("index of garbage", RECALLED_BYTES // 4), ("damaged batch", 10)],
)
def test_an_older_segment_that_is_bad_keeps_no_log_from_being_opened(fault: str, size: int) -> None:
    """The batches after the bad part are recalled, without a gap; the rest is as in Kafka."""
    home = LogHome(index_interval_bytes=1)
    log = home.open()
    for at in range(8):
        log.append_as_leader(batch(7, at, size=size))
        if at == 5:
            log.roll()
    log.close()
    home.restart()
    if fault == "unreadable":
        home.fs.fail("pread", FIRST, OSError(errno.EIO, "bad sectors"), 9)
    elif fault == "index of garbage":
        # In the middle of a batch.
        home.write(FIRST.replace(".log", ".index"), struct.pack(">ii", 1, RECALLED_BYTES - 9))
    else:
        data = home.read(FIRST)
        each = len(data) // 6
        home.write(FIRST, data[: 4 * each] + bytes(each) + data[5 * each :])
    log = home.open()
    (entry,) = log.active_producers().values()
    assert [one.last_offset for one in entry.batches] == [6, 7]
    assert log.append_as_leader(batch(7, 7, size=size)).is_duplicate
    assert log.append_as_leader(batch(7, 8)).first_offset == 8
