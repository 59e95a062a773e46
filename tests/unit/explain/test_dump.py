"""Dumps of single files. They are compared with Kafka's own dumps in tests/golden."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.directory_home import DataHome

from tidelog.errors import CorruptIndex, CorruptSnapshot, InvalidArgument, KafkaStorageError
from tidelog.explain.dump import dump_file, is_records_file
from tidelog.log.producers.producer_snapshot import ProducerSnapshotEntry, pack_snapshot

if TYPE_CHECKING:
    Row = dict[str, Any]

INDEX, TIME_INDEX = f"t-0/{100:020d}.index", f"t-0/{100:020d}.timeindex"
TXN_INDEX, SNAPSHOT = f"t-0/{100:020d}.txnindex", f"t-0/{100:020d}.snapshot"


def dump(name: str, content: str | bytes) -> list[Row]:
    """Dump a file with this content."""
    home = DataHome()
    home.write(name, content)
    return list(dump_file(home.fs, f"{home.path}/{name}"))


def numbers(*values: tuple[int, int]) -> bytes:
    """Return big-endian bytes of numbers (value, size)."""
    return b"".join(value.to_bytes(size, "big", signed=True) for value, size in values)


def test_an_offset_index_shows_offsets_of_the_log() -> None:
    """Offsets are absolute, not relative to the segment."""
    rows = dump(INDEX, numbers((3, 4), (700, 4), (8, 4), (900, 4)))

    assert rows == [{"offset": 103, "position": 700}, {"offset": 108, "position": 900}]


def test_a_time_index_shows_offsets_of_the_log() -> None:
    """Offsets are absolute; timestamps are in milliseconds."""
    rows = dump(TIME_INDEX, numbers((-1, 8), (3, 4), (70, 8), (4, 4)))

    assert rows == [{"timestamp": -1, "offset": 103}, {"timestamp": 70, "offset": 104}]


@pytest.mark.parametrize(("name", "entry_bytes"), [(INDEX, 8), (TIME_INDEX, 12)])
def test_the_unused_part_of_an_index_is_not_shown(name: str, entry_bytes: int) -> None:
    """The preallocated zeros of an active segment's index are left out after the first entry."""
    used = b"\1" * entry_bytes

    assert len(dump(name, used * 2 + bytes(entry_bytes << 20) + used)) == 2
    assert len(dump(name, bytes(entry_bytes * 1000))) == 1
    assert dump(name, b"") == []


@pytest.mark.parametrize("name", [INDEX, TIME_INDEX, TXN_INDEX])
def test_a_torn_index_is_shown_as_far_as_it_reads(name: str) -> None:
    """The entries are followed by an error with the number of bytes left."""
    home = DataHome()
    home.write(name, b"\1" * 41)
    rows = dump_file(home.fs, f"{home.path}/{name}")

    next(rows)
    with pytest.raises(CorruptIndex, match=r"ends in [157] bytes"):
        list(rows)


def test_a_transaction_index_shows_aborted_transactions() -> None:
    """The fields have Kafka's names."""
    row = dump(TXN_INDEX, numbers((0, 2), (7, 8), (100, 8), (105, 8), (103, 8)))[0]

    assert row == {
        "version": 0,
        "producerId": 7,
        "firstOffset": 100,
        "lastOffset": 105,
        "lastStableOffset": 103,
    }


def test_a_snapshot_shows_producers() -> None:
    """The first sequence of the last batch is shown, even if sequences have wrapped around."""
    open_txn = ProducerSnapshotEntry(7, 2, 1, 50, 2, 9, 4, 48)
    idle = ProducerSnapshotEntry(8, 0, -1, -1, 0, 9, -1, -1)

    rows = dump(SNAPSHOT, pack_snapshot([open_txn, idle]))

    assert (rows[0]["firstSequence"], rows[0]["currentTxnFirstOffset"]) == (2**31 - 1, 48)
    assert (rows[1]["firstSequence"], rows[1]["currentTxnFirstOffset"]) == (-1, None)


def test_a_damaged_snapshot_is_an_error() -> None:
    """Its checksum covers all of the file."""
    with pytest.raises(CorruptSnapshot):
        dump(SNAPSHOT, pack_snapshot([])[:-1] + b"\1")


@pytest.mark.parametrize(
    ("name", "content", "rows"),
    [
        (
            "recovery-point-offset-checkpoint",
            "0\n2\nt 0 5\nu 11 9\n",
            [
                {"topic": "t", "partition": 0, "offset": 5},
                {"topic": "u", "partition": 11, "offset": 9},
            ],
        ),
        ("t-0/leader-epoch-checkpoint", "0\n1\n3 40\n", [{"epoch": 3, "startOffset": 40}]),
        (
            "t-0/partition.metadata",
            "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg",
            [{"topicId": "AAAAAAAAAAAAAAAAAAAAAg"}],
        ),
        (
            "meta.properties",
            "version=1\nnode.id=3\ncluster.id=abc\nodd=x\n",
            [{"version": 1, "clusterId": "abc", "nodeId": 3, "directoryId": None, "odd": "x"}],
        ),
        (".kafka_cleanshutdown", '{"version":0,"brokerEpoch":5}', [{"brokerEpoch": 5}]),
    ],
)
def test_small_files_are_shown_line_by_line(name: str, content: str, rows: list[Row]) -> None:
    """Each line is a row with named fields."""
    assert rows == dump(name, content)


@pytest.mark.parametrize("suffix", [".deleted", ".swap", ".cleaned"])
def test_a_suffix_of_a_state_does_not_matter(suffix: str) -> None:
    """A file that is being swapped in or deleted is dumped like any other."""
    assert len(dump(INDEX + suffix, numbers((3, 4), (700, 4)))) == 1
    assert is_records_file(f"/data/t-0/{0:020d}.log{suffix}")


def test_files_of_batches_are_recognized_by_name() -> None:
    """They are segments, KRaft snapshots and staged files; checkpoint files are text."""
    names = ["1.log", "1-1.checkpoint", f"tidelog.{'a' * 32}.{'b' * 32}.staged"]
    others = ["1.index", "leader-epoch-checkpoint", "meta.properties", "log"]

    assert [is_records_file(name) for name in names] == [True] * 3
    assert [is_records_file(name) for name in others] == [False] * 4


@pytest.mark.parametrize("name", ["notes.txt", "tidelog", "t-0/notes.index"])
def test_an_unknown_file_is_refused(name: str) -> None:
    """It is refused when called, before the first row is taken."""
    home = DataHome()
    home.write(name, "")

    with pytest.raises(InvalidArgument):
        dump_file(home.fs, f"{home.path}/{name}")


def test_a_missing_file_is_an_error() -> None:
    """Elsewhere a missing checkpoint file counts as an empty one."""
    with pytest.raises(FileNotFoundError):
        dump_file(DataHome().fs, "/data/recovery-point-offset-checkpoint")


@pytest.mark.parametrize("content", ["1\n0\n", "0\n1\nt zero 5\n", b"\xff\xfe"])
def test_an_invalid_checkpoint_is_a_storage_error(content: str) -> None:
    """It is not an invalid argument: the user named the right file."""
    with pytest.raises(KafkaStorageError):
        dump("cleaner-offset-checkpoint", content)
