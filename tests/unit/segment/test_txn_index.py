"""The index of aborted transactions: format, collection, truncation, damage."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from tidelog.errors import CorruptIndex, InvalidArgument
from tidelog.segment.txn_index import ABORTED_TXN, AbortedTxn, TransactionIndex

if TYPE_CHECKING:
    from tests.unit.segment.conftest import Room

NAME = "00000000000000000000.txnindex"

ABORTED = [
    AbortedTxn(0, 0, first_offset=0, last_offset=10, last_stable_offset=11),
    AbortedTxn(0, 1, first_offset=5, last_offset=15, last_stable_offset=13),
    AbortedTxn(0, 2, first_offset=18, last_offset=35, last_stable_offset=25),
    AbortedTxn(0, 3, first_offset=32, last_offset=50, last_stable_offset=40),
]


def make(room: Room, base_offset: int = 0) -> TransactionIndex:
    return TransactionIndex(room.fs, room.path(NAME), base_offset)


def filled(room: Room) -> TransactionIndex:
    index = make(room)
    index.append_all(ABORTED)
    return index


def test_an_entry_has_34_bytes(room: Room) -> None:
    """Version, producer, first and last offset, last stable offset; big-endian, no padding.

    Scenario: TransactionIndexTest.testAbortedTxnSerde
    """
    make(room).append_all([AbortedTxn(0, 42, 7, 12, 13)])

    assert room.fs.read(room.path(NAME)).hex() == (
        "0000" + "000000000000002a" + "0000000000000007" + "000000000000000c" + "000000000000000d"
    )


def test_the_first_entry_creates_the_file(room: Room) -> None:
    """Queries, flushing, resetting, truncating and closing do not."""
    index = make(room)

    index.sanity_check()
    index.collect_aborted(0, 10)
    index.truncate_to(0)
    index.reset()
    index.sync()
    index.close()

    assert (index.all_aborted(), room.names()) == ([], [])


@pytest.mark.parametrize(
    ("fetch_offset", "upper", "found", "is_complete"),
    [
        (0, 100, ABORTED, False),
        (0, 32, ABORTED[:3], True),
        (0, 35, ABORTED, True),
        (10, 35, ABORTED, True),
        (11, 35, ABORTED[1:], True),
        (20, 41, ABORTED[2:], False),
    ],
)
def test_collect_returns_transactions_that_overlap_the_range(
    room: Room, fetch_offset: int, upper: int, found: list[AbortedTxn], is_complete: bool
) -> None:
    """Markers at or above the fetch offset, begun below the bound; complete once the LSO passes it.

    Scenario: TransactionIndexTest.testCollectAbortedTransactions
    """
    result = filled(room).collect_aborted(fetch_offset, upper)

    assert (list(result.aborted), result.is_complete) == (found, is_complete)


def test_last_offsets_must_increase(room: Room) -> None:
    """Markers are written in log order; one bad entry of several rejects them all.

    Scenario: TransactionIndexTest.testLastOffsetCannotDecrease,
    TransactionIndexTest.testLastOffsetMustIncrease
    """
    index = filled(room)

    with pytest.raises(InvalidArgument):
        index.append_all([ABORTED[3]])
    with pytest.raises(InvalidArgument):
        index.append_all([AbortedTxn(0, 1, 50, 60, 61), AbortedTxn(0, 1, 50, 60, 61)])

    assert index.all_aborted() == ABORTED


def test_a_reopened_index_does_not_remember_the_last_marker(room: Room) -> None:
    """As in Kafka, the order is only checked among entries written since the index was opened.

    Scenario: TransactionIndexTest.testPositionSetCorrectlyWhenOpened
    """
    filled(room).close()
    index = make(room)

    index.append_all([ABORTED[0]])

    assert index.all_aborted() == [*ABORTED, ABORTED[0]]


@pytest.mark.parametrize(("offset", "left"), [(51, 4), (50, 3), (16, 2), (10, 0), (0, 0)])
def test_truncation_removes_from_the_first_marker_at_or_above(
    room: Room, offset: int, left: int
) -> None:
    """The file ends after the remaining entries, and the order is checked from there.

    Scenario: TransactionIndexTest.testTruncate
    """
    index = filled(room)

    index.truncate_to(offset)

    assert index.all_aborted() == ABORTED[:left]
    assert room.fs.stat(room.path(NAME)).size_bytes == left * ABORTED_TXN.size
    if left < len(ABORTED):
        index.append_all([ABORTED[left]])


def test_reset_empties_any_file(room: Room) -> None:
    """Recovery starts with it, even if the file is unreadable."""
    room.fs.write(room.path(NAME), b"\x01" * 40)
    index = make(room)

    index.reset()
    index.append_all([ABORTED[0]])

    assert index.all_aborted() == ABORTED[:1]


def test_a_partial_entry_at_the_end_is_ignored_and_overwritten(room: Room) -> None:
    """A crash may leave a partial entry."""
    room.fs.write(room.path(NAME), ABORTED_TXN.pack(ABORTED[0]) + b"\0" * 33)
    index = make(room)

    index.append_all([ABORTED[1]])

    assert make(room).all_aborted() == ABORTED[:2]


@pytest.mark.parametrize("version", [0x100, 0x7FFF])
def test_an_unknown_version_is_corrupt(room: Room, version: int) -> None:
    """As in Kafka, only the first byte of the version counts."""
    room.fs.write(room.path(NAME), ABORTED_TXN.pack(ABORTED[0]._replace(version=version)))

    with pytest.raises(CorruptIndex):
        make(room).all_aborted()


def test_the_second_byte_of_the_version_is_ignored(room: Room) -> None:
    """Kafka does not read it."""
    room.fs.write(room.path(NAME), ABORTED_TXN.pack(ABORTED[0]._replace(version=1)))

    make(room).sanity_check()


def test_a_marker_below_the_base_offset_is_corrupt(room: Room) -> None:
    """An entry is in the segment of its marker, even if the transaction began in an older one.

    Scenario: TransactionIndexTest.testSanityCheck
    """
    filled(room).close()

    make(room, base_offset=10).sanity_check()
    with pytest.raises(CorruptIndex):
        make(room, base_offset=11).sanity_check()


def test_sync_makes_the_entries_durable_and_closes_the_file(room: Room) -> None:
    """The next append opens the file again.

    Scenario: TransactionIndexTest.testFlush
    """
    index = filled(room)
    for path in (room.directory, "/data", "/"):
        room.fs.sync_directory(path)

    index.sync()
    assert index._file is None
    room.fs.power_cut()

    assert make(room).all_aborted() == ABORTED


def test_a_failed_write_adds_nothing(room: Room) -> None:
    """The entry can be written once there is space."""
    index = filled(room)
    room.fs.fail("pwrite", ".txnindex", OSError(errno.ENOSPC, "full"))
    later = AbortedTxn(0, 4, 60, 70, 71)

    with pytest.raises(OSError, match="full"):
        index.append_all([later])
    index.append_all([later])

    assert index.all_aborted() == [*ABORTED, later]


def test_a_file_that_could_not_be_created_needs_no_sync(room: Room) -> None:
    """On a full disk, say: the flush of the segment must not miss it, and take the disk offline."""
    index = make(room)
    room.fs.fail("open", ".txnindex", OSError(errno.ENOSPC, "full"))
    with pytest.raises(OSError, match="full"):
        index.append_all(ABORTED)

    index.sync()
    index.append_all(ABORTED)
    index.sync()

    assert index.all_aborted() == ABORTED


def test_many_entries_are_kept_in_order(room: Room) -> None:
    """Entries are appended one at a time, across every growth of the memory."""
    aborted = [AbortedTxn(0, i, i, i, i + 1) for i in range(100)]
    index = make(room)

    for txn in aborted:
        index.append_all([txn])

    assert index.all_aborted() == make(room).all_aborted() == aborted


def test_renaming_and_deleting(room: Room) -> None:
    """The file is renamed and deleted with the index; without a file only the path changes.

    Scenario: TransactionIndexTest.testDeleteIfExists, TransactionIndexTest.testRenameIndex
    """
    index = make(room)
    index.rename(room.path(NAME + ".cleaned"))
    index.append_all([ABORTED[0]])

    index.rename(room.path(NAME))
    index.append_all([ABORTED[1]])

    assert make(room).all_aborted() == ABORTED[:2]
    assert (index.delete_if_exists(), index.delete_if_exists()) == (True, False)
    assert room.names() == []
