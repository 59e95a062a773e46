"""A file of batches that a log adopts as a segment: its records are the log's, written once."""

from __future__ import annotations

import errno
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.log_home import LogHome, all_values
from tests.machinery.old_batches import build_old

from tidelog.errors import InvalidArgument, InvalidTxnState, KafkaStorageError
from tidelog.log.leader_epoch import EpochEntry
from tidelog.records.control import build_marker
from tidelog.records.isolation import Isolation
from tidelog.records.memory import walk
from tidelog.testing import build_batch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tidelog.log.log import Log

STAGED = "/data/tidelog.staged"


def batch(value: bytes, offset: int, epoch: int = 0, **fields: Any) -> bytes:
    """Make a batch of one record."""
    records = [(1_000 + offset, b"key", value, ())]
    return build_batch(records, base_offset=offset, leader_epoch=epoch, **fields)


def opened(count: int = 2) -> tuple[LogHome, Log]:
    """Open a new log with a record in each of ``count`` batches."""
    home = LogHome(index_interval_bytes=60, segment_index_bytes=1200)
    log = home.open()
    for offset in range(count):
        log.append_as_leader(batch(b"%d" % offset, 0))
    return home, log


def adopt(home: LogHome, log: Log, *pieces: bytes, path: str = STAGED) -> None:
    """Let the log adopt a file that is written in these pieces, each of whole batches."""
    home.fs.write(path, b"".join(pieces))
    with closing(home.fs.open(path, "w")) as file:
        file.sync()
    log.adopt_segment(path, [(piece, walk(piece).batches) for piece in pieces])


def files_of(home: LogHome) -> dict[str, bytes]:
    """Return all files of the log."""
    return {name: home.read(name) for name in home.files()}


def recovered(home: LogHome) -> dict[str, bytes]:
    """Return the files as a recovery of all segments, and a close, leave them."""
    home.restart()
    for name in home.files():
        if not name.endswith((".log", ".metadata")):
            home.fs.delete(f"{home.directory}/{name}")
    home.open(clean=False, recovery_point=0).close()
    return files_of(home)


def test_a_file_becomes_the_active_segment() -> None:
    """It gets no copy: its name moves, and readers and appends continue after its last batch."""
    home, log = opened()
    adopt(home, log, batch(b"a", 2), batch(b"b", 3) + batch(b"c", 4))
    log.append_as_leader(batch(b"d", 0))

    assert not home.fs.exists(STAGED)
    assert log.segments.base_offsets == [0, 2]
    assert all_values(log) == [(0, b"0"), (1, b"1"), (2, b"a"), (3, b"b"), (4, b"c"), (5, b"d")]


@pytest.mark.parametrize("count", [0, 2])
def test_what_an_adoption_leaves_is_what_a_recovery_makes(count: int) -> None:
    """Indexes, producer snapshots and leader epochs; with records before the file, or none."""
    home, log = opened(count)
    adopt(home, log, *(batch(b"v" * 40, count + number, epoch=3) for number in range(9)))
    adopt(home, log, *(batch(b"v" * 40, count + 9 + number, epoch=4) for number in range(5)))
    entries = log.segments.active.offset_index.entry_count, log.segments.active.max_timestamp
    log.close()
    left = files_of(home)

    assert entries == (4, 1_000 + count + 13)
    assert recovered(home) == left


def test_all_is_durable_before_the_file_is_moved() -> None:
    """A recovery deletes the segments after one that it cuts: the file is the only copy."""
    for operations in range(60):
        home, log = opened()
        file = [batch(b"a", 2), batch(b"b", 3)]
        home.fs.write(STAGED, b"".join(file))
        with closing(home.fs.open(STAGED, "w")) as staged:
            staged.sync()
        home.fs.sync_directory("/data")
        home.fs.crash_after(operations)
        try:
            log.adopt_segment(STAGED, [(one, walk(one).batches) for one in file])
            is_done = True
        except BaseException:  # noqa: BLE001 - a power cut
            is_done = False
        home.power_cut("none")
        log = home.open(clean=False)
        values = [value for _, value in all_values(log)]
        is_adopted = not home.fs.exists(STAGED)

        assert values == ([b"0", b"1", b"a", b"b"] if is_adopted else [b"0", b"1"][: len(values)])
        assert is_adopted or not is_done
        if is_done:
            return
    pytest.fail("the adoption did not end")


def test_an_empty_active_segment_is_renamed_over() -> None:
    """It is never deleted first: a crash in between would leave a log without a last segment."""
    home, log = opened()
    log.roll()
    traced = home.fs.trace()
    adopt(home, log, batch(b"a", 2))

    assert [one.path for one in traced if one.name == "delete"] == []
    assert log.segments.base_offsets == [0, 2]
    assert all_values(log)[2:] == [(2, b"a")]


def test_epochs_of_a_file_are_assigned() -> None:
    """Durably, before its batches are in the log."""
    home, log = opened()
    adopt(home, log, batch(b"a", 2, epoch=1), batch(b"b", 3, epoch=4))
    home.power_cut("none")

    log = home.open(clean=False)
    assert log.epochs.entries == (EpochEntry(0, 0), EpochEntry(1, 2), EpochEntry(4, 3))


def test_a_gap_before_a_file_stays() -> None:
    """A copy of a compacted log has the offsets of its source; no gap lies between segments."""
    home, log = opened(0)
    adopt(home, log, batch(b"a", 7), batch(b"b", 9))
    adopt(home, log, batch(b"c", 20))

    assert log.segments.base_offsets == [0, 10]
    assert all_values(log) == [(7, b"a"), (9, b"b"), (20, b"c")]


def transactions(first: int) -> list[bytes]:
    """Return batches of two transactional producers: one commits, one aborts, then begins again."""
    fields: dict[str, Any] = {"producer_epoch": 0, "transactional": True}
    ends: dict[str, Any] = {"producer_epoch": 0, "coordinator_epoch": 0, "timestamp": 1_000}
    ends["leader_epoch"] = 0
    return [
        batch(b"x", first, producer_id=1, base_sequence=0, **fields),
        batch(b"y", first + 1, producer_id=2, base_sequence=0, **fields),
        build_marker(producer_id=1, is_commit=False, base_offset=first + 2, **ends),
        batch(b"z", first + 3, producer_id=1, base_sequence=1, **fields),
        build_marker(producer_id=2, is_commit=True, base_offset=first + 4, **ends),
    ]


def test_producers_of_a_file_are_known_as_after_an_append() -> None:
    """Open transactions, those that were aborted, and sequences."""
    home, log = opened()
    adopt(home, log, *transactions(2))
    other, copy = opened()
    copy.roll()
    for one in transactions(2):
        copy.append_as_follower(one, 0)

    log.update_high_watermark(7)
    copy.update_high_watermark(7)
    assert log.last_stable_offset == copy.last_stable_offset == 5
    committed = Isolation.READ_COMMITTED
    assert all_values(log, committed) == all_values(copy, committed)
    log.close()
    copy.close()
    for name in ("00000000000000000002.txnindex", "00000000000000000007.snapshot"):
        assert home.read(name) == other.read(name)
    left = files_of(home)
    assert recovered(home) == left


def test_a_file_that_a_follower_would_refuse_stays_where_it_is() -> None:
    """Old formats, offsets that do not rise, epochs that fall, bytes after the batches."""
    home, log = opened()
    log.maybe_assign_epoch(3, 2)
    good = batch(b"a", 2, epoch=3)
    refused: list[tuple[Sequence[bytes], str]] = [
        ([], "no batches"),
        ([build_old(1, [(1, b"k", b"v")], base_offset=2)], "old format"),
        ([batch(b"a", 1, epoch=3)], "below the log end 2"),
        ([good, good], "offsets do not follow"),
        ([good, batch(b"b", 2**31 + 5, epoch=3)], "offsets do not follow"),
        ([batch(b"a", 2, epoch=2)], "leader epoch is below 3"),
        ([good, batch(b"a", 3, epoch=2)], "leader epoch is below 3"),
    ]
    for pieces, reason in refused:
        with pytest.raises(InvalidArgument, match=reason):
            adopt(home, log, *pieces)
        assert home.fs.exists(STAGED)
    home.fs.write(STAGED, good + b"more")
    with pytest.raises(InvalidArgument, match="bytes, of which"):
        log.adopt_segment(STAGED, [(good, walk(good).batches)])

    assert log.log_end_offset == 2
    assert log.segments.base_offsets == [0]


def test_a_file_with_a_plain_batch_inside_a_transaction_is_refused() -> None:
    """No log with such a batch can be opened again."""
    home, log = opened()
    plain = batch(b"p", 3, producer_id=1, producer_epoch=0, base_sequence=1)
    with pytest.raises(InvalidTxnState):
        adopt(home, log, transactions(2)[0], plain)

    assert (log.log_end_offset, home.fs.exists(STAGED)) == (2, True)


def test_a_disk_that_is_full_before_the_move_changes_nothing() -> None:
    """The adoption can be tried again."""
    home, log = opened()
    home.fs.fail("rename", STAGED, OSError(errno.ENOSPC, "no space left"))
    with pytest.raises(KafkaStorageError):
        adopt(home, log, batch(b"a", 2))

    assert (log.log_end_offset, home.fs.exists(STAGED)) == (2, True)
    adopt(home, log, batch(b"a", 2))
    assert all_values(log)[2:] == [(2, b"a")]


def test_a_disk_that_is_full_before_a_move_behind_a_gap_leaves_no_gap() -> None:
    """The segment that was rolled for the file would begin above the log's end."""
    home, log = opened()
    home.fs.fail("rename", STAGED, OSError(errno.ENOSPC, "no space left"))
    with pytest.raises(KafkaStorageError):
        adopt(home, log, batch(b"a", 100, epoch=1))

    assert log.segments.base_offsets == [0, 2]
    log.close()
    log = home.open()
    assert (log.log_end_offset, log.epochs.entries) == (2, (EpochEntry(0, 0),))
    adopt(home, log, batch(b"a", 100))
    assert all_values(log)[2:] == [(100, b"a")]


def test_a_file_goes_into_a_gap_before_an_empty_segment() -> None:
    """That segment is replaced by one where the log ends."""
    home, log = opened()
    log.roll(100)

    adopt(home, log, batch(b"a", 4))

    assert log.segments.base_offsets == [0, 2]
    assert all_values(log)[2:] == [(4, b"a")]
    log.close()
    assert home.open().log_end_offset == 5


def test_a_disk_that_is_full_after_the_move_takes_the_log_offline() -> None:
    """The batches are in the log; opening it again recovers them."""
    home, log = opened()
    home.fs.fail("pwrite", "2.index", OSError(errno.ENOSPC, "no space left"))
    with pytest.raises(KafkaStorageError, match="adopting a segment failed"):
        adopt(home, log, *(batch(b"v" * 40, 2 + number) for number in range(9)))
    with pytest.raises(KafkaStorageError, match="must be reopened"):
        log.append_as_leader(batch(b"x", 0))
    log.close_handlers()

    assert home.failures == []
    assert home.open(clean=False).log_end_offset == 11
