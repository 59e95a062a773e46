"""What a reader without a lock knows of transactions, and how offsets become numbers of records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.machinery.log_home import LogHome

from tidelog.errors import CorruptMessage, OffsetOutOfRange
from tidelog.readonly.read_only_log import ReadOnlyLog, open_read_only
from tidelog.records.builder import build_batch
from tidelog.records.control import build_marker
from tidelog.records.isolation import ReadUpTo
from tidelog.records.memory import walk

if TYPE_CHECKING:
    from tidelog.log.log import Log


ABORTER, COMMITTER = 7, 8
LOG = "00000000000000000000.log"


def write(log: Log, producer_id: int, sequence: int, count: int = 1) -> None:
    """Append records of a transaction."""
    batch = build_batch(
        [(100, None, b"value", ())] * count,
        base_offset=log.log_end_offset,
        leader_epoch=0,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        transactional=True,
    )
    log.append_as_follower(batch, leader_epoch=0)


def end(log: Log, producer_id: int, *, commit: bool) -> None:
    """Append the marker that ends a transaction."""
    marker = build_marker(
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        is_commit=commit,
        timestamp=100,
        base_offset=log.log_end_offset,
        leader_epoch=0,
    )
    log.append_as_follower(marker, leader_epoch=0)


@pytest.fixture
def home() -> LogHome:
    """A log: 0-1 aborted at 3, 2 and 4 committed at 5, 6 plain, 7 open."""
    home = LogHome()
    with home.open() as log:
        write(log, ABORTER, 0, 2)
        write(log, COMMITTER, 0)
        end(log, ABORTER, commit=False)
        write(log, COMMITTER, 1)
        end(log, COMMITTER, commit=True)
        log.append_records([(100, None, b"value", ())])
        write(log, ABORTER, 2)
        log.update_high_watermark(8)
    return home


def read_only(home: LogHome) -> ReadOnlyLog:
    return open_read_only(home.directory, fs=home.fs)


def test_a_reader_of_committed_records_ends_at_the_first_open_transaction(home: LogHome) -> None:
    """The last stable offset is the first offset of what is not decided."""
    with read_only(home) as log:
        assert (log.last_stable_offset(), log.log_end_offset) == (7, 8)


def test_a_reader_skips_what_was_aborted(home: LogHome) -> None:
    """Records of aborted transactions are left out, those of their producer's next are not."""
    with read_only(home) as log:
        assert [record.offset for record in log.records(committed=True)] == [2, 4, 6]


@pytest.mark.parametrize("snapshot", [b"", b"no snapshot at all"])
def test_a_bad_snapshot_is_passed_over(home: LogHome, snapshot: bytes) -> None:
    """Without a readable snapshot the whole log is replayed, to the same answers."""
    for name in home.files(".snapshot"):
        home.write(name, snapshot)

    with read_only(home) as log:
        assert log.last_stable_offset() == 7
        assert [record.offset for record in log.records(committed=True)] == [2, 4, 6]


def test_a_transaction_undecided_above_the_high_watermark_is_open_below_it(home: LogHome) -> None:
    """A marker that readers do not see decides nothing for them; to the log end it does."""
    home.fs.write("/data/replication-offset-checkpoint", b"0\n1\nflights 0 5\n")

    with read_only(home) as log:
        assert log.last_stable_offset() == 2
        assert log.last_stable_offset(ReadUpTo.LOG_END) == 7


def test_damage_leaves_undecided_what_lies_before_it(home: LogHome) -> None:
    """Where the marker may be damaged the transaction is not shown; then comes the damage."""
    for name in home.files(".snapshot"):
        home.fs.delete(f"{home.directory}/{name}")
    data = bytearray(home.read(LOG))
    position = int(walk(data).batches.position[4])
    data[position + 70] ^= 1
    home.write(LOG, bytes(data))
    seen: list[int] = []

    with read_only(home) as log, pytest.raises(CorruptMessage, match=f"byte {position}"):
        seen.extend(record.offset for record in log.records(committed=True))

    assert seen == []


def test_offsets_are_told_apart_from_records(home: LogHome) -> None:
    """Records, aborted ones, markers and gaps between two offsets add up to their distance."""
    with home.open() as log:
        assert log.count_records(0, 8) == (4, 2, 2, 0)
        assert log.count_records(1, 4) == (1, 1, 1, 0)


def test_offsets_that_hold_nothing_are_gaps() -> None:
    """Offsets that a leader's compaction left out are counted as such."""
    home = LogHome()
    with home.open() as log:
        for base in (3, 9):
            batch = build_batch([(1, None, b"v", ())] * 2, base_offset=base, leader_epoch=0)
            log.append_as_follower(batch, leader_epoch=0)

        assert log.count_records(0, 11) == (4, 0, 0, 7)
        assert log.count_records(4, 10) == (2, 0, 0, 4)


def test_readers_beside_a_writer_count_as_the_log_does(home: LogHome) -> None:
    """The same numbers from the files; without bounds, all that readers see."""
    with read_only(home) as log:
        assert log.count_records(0, 8) == (4, 2, 2, 0)
        assert log.count_records(1, 4) == (1, 1, 1, 0)
        assert log.count_records() == log.count_records(0, log.high_watermark)


@pytest.mark.parametrize(
    ("bounds", "reason"),
    [
        ((0, 8), "flights-0: offset 0 is out of range: the log holds [1, 8]"),
        ((1, 9), "flights-0: offset 9 is out of range: the log holds [1, 8]"),
        ((9, 9), "flights-0: offset 9 is out of range: the log holds [1, 8]"),
        ((5, 4), "flights-0: offset 4 is out of range: the range begins at 5"),
    ],
)
def test_a_range_that_is_not_in_the_log_is_not_counted(
    home: LogHome, bounds: tuple[int, int], reason: str
) -> None:
    """Deleted records are not counted, offsets to come are not gaps, and no range is reversed."""
    home.fs.write("/data/log-start-offset-checkpoint", b"0\n1\nflights 0 1\n")
    with read_only(home) as log, pytest.raises(OffsetOutOfRange) as of_files:
        log.count_records(*bounds)

    with home.open() as log:
        log.update_high_watermark(8)
        log.maybe_increment_log_start_offset(1)
        with pytest.raises(OffsetOutOfRange) as of_log:
            log.count_records(*bounds)

    assert [str(of_files.value), str(of_log.value)] == [reason] * 2
