"""Producer state that cannot be known, because a batch that is needed for it is damaged."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.machinery.log_home import LogHome

from tidelog.errors import CorruptMessage, InvalidArgument, KafkaStorageError
from tidelog.records.control import build_marker
from tidelog.testing import build_batch

if TYPE_CHECKING:
    from tidelog.log.log import Log

NOW_MS = 1_700_000_000_000
SIZE = len(build_batch([(NOW_MS, b"key", b"value", ())]))


def damaged(*, closed: bool) -> tuple[LogHome, Log]:
    """Make a log of nine producers in three segments, a length in the middle one damaged.

    Only the first snapshot is left.
    """
    home = LogHome(internal_segment_bytes=3 * SIZE, index_interval_bytes=0)
    log = home.open()
    for number in range(9):
        batch = build_batch(
            [(NOW_MS, b"key", b"value", ())],
            producer_id=number,
            producer_epoch=0,
            base_sequence=0,
        )
        log.append_as_leader(batch)
        home.clock.advance(0)
    if closed:
        log.flush()
        log.close()
        for name in home.files(".snapshot")[1:]:
            home.fs.delete(f"{home.directory}/{name}")
    path = f"{home.directory}/{3:020}.log"
    with closing(home.fs.open(path, "w")) as file:
        file.pwrite((3).to_bytes(4, "big"), SIZE + 8)
    return home, log


def test_a_log_is_not_opened_with_half_of_its_producers() -> None:
    """Retries would be taken for new batches, and open transactions be forgotten."""
    home, _ = damaged(closed=True)
    before = home.files()

    with pytest.raises(KafkaStorageError, match=f"{3:020}.log"):
        home.open(recovery_point=9)

    assert home.files() == before


def test_a_truncation_that_would_lose_producers_changes_nothing() -> None:
    """It is refused before anything is cut, and the log stays as it was."""
    home, log = damaged(closed=False)
    log.producers.snapshots.delete_all()
    producers, files = log.producers.producers, home.files()

    with pytest.raises(CorruptMessage):
        log.truncate_to(8)

    assert (log.log_end_offset, log.producers.producers) == (9, producers)
    assert home.files() == files
    assert log.append_records([(NOW_MS, b"key", b"value", ())]).first_offset == 9


def test_a_truncation_that_stops_half_way_takes_the_log_offline() -> None:
    """The newest snapshot cannot be read, and after the one before it lies the damage.

    The records are gone by then; the next append would leave a gap where they were.
    """
    home, log = damaged(closed=False)
    home.write(f"{6:020}.snapshot", b"no snapshot")

    with pytest.raises(CorruptMessage):
        log.truncate_to(8)

    assert (log.needs_reopening, home.failures) == (True, [])
    with pytest.raises(KafkaStorageError, match="must be reopened"):
        log.append_records([(NOW_MS, b"key", b"value", ())])
    log.close_handlers()
    log = home.open(clean=False, recovery_point=0)
    assert log.append_records([(NOW_MS, b"key", b"value", ())]).first_offset == 4


def test_a_truncation_behind_a_marker_that_cannot_be_read_changes_nothing() -> None:
    """Whether its transaction was committed is unknown."""
    home = LogHome()
    log = home.open()
    ends = {"producer_id": 1, "producer_epoch": 0, "base_offset": 1, "leader_epoch": 0}
    begun = build_batch(
        [(NOW_MS, b"key", b"value", ())],
        base_offset=0,
        leader_epoch=0,
        producer_id=1,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    marker = build_marker(is_commit=True, coordinator_epoch=0, timestamp=NOW_MS, **ends)
    for data in (begun, marker):
        log.append_as_follower(data, 0)
    for _ in range(4):
        log.append_records([(NOW_MS, b"key", b"value", ())])
    key = len(begun) + marker.rindex(b"\0\0\0\1")
    with closing(home.fs.open(f"{home.directory}/{0:020}.log", "w")) as file:
        file.pwrite(b"\x09", key + 3)
    before = home.read(f"{0:020}.log")

    with pytest.raises(InvalidArgument, match="not a transaction marker"):
        log.truncate_to(4)

    assert (log.log_end_offset, log.is_offline) == (6, False)
    assert home.read(f"{0:020}.log") == before


def test_the_greatest_timestamp_is_not_taken_from_half_a_segment() -> None:
    """A later one may be after the damage: retention would delete the segment too early."""
    _, log = damaged(closed=False)
    segment = log.segments.all[1]
    segment.time_index.reset()
    segment.offset_index.reset()

    with pytest.raises(CorruptMessage):
        segment.truncate_indexes(6)
