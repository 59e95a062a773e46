"""Snapshots, transaction indexes and leader epochs against a replay of the batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.explain.verify.checked import Checked
from tidelog.explain.verify.verify_producers import EpochChecks, ProducerChecks, check_txn_index
from tidelog.log.producers.producer_snapshot import ProducerSnapshotEntry, pack_snapshot
from tidelog.log.producers.reader_transactions import Transactions
from tidelog.records.builder import build_batch
from tidelog.records.control import build_marker
from tidelog.records.file_records import FileRecords
from tidelog.records.memory import walk
from tidelog.segment.filenames import producer_snapshot_file, transaction_index_file
from tidelog.segment.txn_index import AbortedTxn, TransactionIndex
from tidelog.testing import CrashFileSystem, ManualClock

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tidelog.explain.verify.findings import Finding
    from tidelog.records.builder import BatchFields

DIRECTORY = "/data/t-0"
LOG = f"{DIRECTORY}/00000000000000000000.log"
RECORD = (100, b"k", b"v", ())


def batch(base: int, sequence: int = -1, *, transactional: bool = False, epoch: int = 0) -> bytes:
    """Make a batch of one record: of producer 7, if it has a sequence."""
    fields: BatchFields = {"base_offset": base, "transactional": transactional}
    if sequence >= 0:
        fields |= {"producer_id": 7, "producer_epoch": epoch, "base_sequence": sequence}
    return build_batch([RECORD], **fields)


def marker(base: int, *, is_commit: bool = False) -> bytes:
    """Make the marker that ends a transaction of producer 7."""
    return build_marker(
        producer_id=7,
        producer_epoch=0,
        coordinator_epoch=0,
        is_commit=is_commit,
        timestamp=100,
        base_offset=base,
    )


def entry(last_sequence: int, last_offset: int, **fields: int) -> ProducerSnapshotEntry:
    """Return what a snapshot says of producer 7 after one batch of one record."""
    known = ProducerSnapshotEntry(7, 0, last_sequence, last_offset, 0, 100, -1, -1)
    return known._replace(**fields)


def words(findings: Iterable[Finding]) -> list[tuple[str, str, int | None, str]]:
    """Return severity, file, byte and words of findings."""
    return [
        (row.severity.value, row.path.rpartition("/")[2], row.byte, row.what) for row in findings
    ]


def checked(
    *parts: bytes,
    snapshots: Mapping[int, list[ProducerSnapshotEntry] | bytes] | None = None,
    end: int,
    cleaned_to: int = 0,
) -> tuple[ProducerChecks, list[tuple[str, str, int | None, str]]]:
    """Replay a log of these batches with these snapshots beside it."""
    fs = CrashFileSystem()
    fs.make_directory(DIRECTORY)
    fs.write(LOG, b"".join(parts))
    snapshots = snapshots or {}
    for offset, known in snapshots.items():
        data = known if isinstance(known, bytes) else pack_snapshot(known)
        fs.write(producer_snapshot_file(DIRECTORY, offset), data)
    before = sorted(fs.list(DIRECTORY))
    checks = ProducerChecks(fs, DIRECTORY, ManualClock(), list(snapshots), cleaned_to)
    found = []
    for piece in FileRecords(fs.open(LOG)).pieces():
        found += words(checks.feed(piece, LOG))
    found += words(checks.finish(end))
    assert sorted(fs.list(DIRECTORY)) == before
    return checks, found


def test_snapshots_that_agree_have_no_findings() -> None:
    """Each is compared when its offset is reached, also in the middle of a piece."""
    parts = [batch(0, 0), batch(1, 1), batch(2, 2)]
    snapshots = {1: [entry(0, 0)], 2: [entry(1, 1)], 3: [entry(2, 2)]}

    assert checked(*parts, snapshots=snapshots, end=3)[1] == []


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"last_sequence": 9}, "last_sequence"),
        ({"producer_epoch": 3}, "producer_epoch"),
        ({"last_offset": 0}, "last_offset"),
        ({"txn_first_offset": 1}, "txn_first_offset"),
    ],
)
def test_a_snapshot_that_differs_is_told_with_its_byte(fields: dict[str, int], name: str) -> None:
    """Of the entry, after the header of the file."""
    wrong = entry(1, 1)._replace(**fields)

    _, ((severity, file, byte, what),) = checked(
        batch(0, 0), batch(1, 1), snapshots={2: [wrong]}, end=2
    )

    assert (severity, file, byte) == ("damage", f"{2:020d}.snapshot", 10)
    assert what.startswith(f"producer 7: {name} is {getattr(wrong, name)}")


def test_a_producer_of_deleted_batches_is_not_compared() -> None:
    """The snapshot knows more than the log: what was there before it, or compaction took."""
    other = entry(4, 9)._replace(producer_id=8)

    assert checked(batch(0, 0), snapshots={1: [entry(0, 0), other]}, end=1)[1] == []
    assert checked(batch(9, 0), snapshots={10: [entry(5, 9)]}, end=10, cleaned_to=20)[1] == []


def test_a_snapshot_that_does_not_read_is_damage() -> None:
    """It is dropped by the next opening."""
    _, (found,) = checked(batch(0, 0), snapshots={1: b"nonsense"}, end=1)

    assert found[:3] == ("damage", f"{1:020d}.snapshot", 0)


def test_a_snapshot_behind_the_end_tells_of_lost_records() -> None:
    """Somebody knew producers up to an offset that the log does not reach."""
    _, ((severity, file, _, what),) = checked(batch(0, 0), snapshots={5: [entry(4, 4)]}, end=1)

    assert (severity, file) == ("damage", f"{5:020d}.snapshot")
    assert what == "knows the producers up to offset 5, but the log ends at 1"


def test_what_no_broker_writes_is_told_and_ends_the_comparison() -> None:
    """A plain batch inside an open transaction; with file and byte of it."""
    first = batch(0, 0, transactional=True)
    checks, found = checked(first, batch(1, 1), snapshots={2: [entry(9, 9)]}, end=2)

    ((severity, _, _, what),) = found
    assert (severity, "no broker writes this" in what) == ("damage", True)
    assert not checks.is_sure


def txn_findings(
    *indexed: AbortedTxn, is_compacted: bool = False, is_rebuilt: bool = False
) -> list[tuple[str, str, int | None, str]]:
    """Compare an index with a log whose one transaction, from 0 on, was aborted at 1."""
    fs = CrashFileSystem()
    fs.make_directory(DIRECTORY)
    fs.write(LOG, batch(0, 0, transactional=True) + marker(1))
    transactions = Transactions()
    for piece in FileRecords(fs.open(LOG)).pieces():
        transactions.follow(piece)
    path = transaction_index_file(DIRECTORY, 0)
    TransactionIndex(fs, path, 0).append_all(list(indexed))
    how = {"is_compacted": is_compacted, "is_rebuilt": is_rebuilt}
    return words(check_txn_index(fs, path, 0, transactions, Checked(), **how))


ABORTED = AbortedTxn(0, 7, 0, 1, 2)


def test_an_index_of_the_aborted_transactions_has_no_findings() -> None:
    """One entry for each."""
    assert txn_findings(ABORTED) == []


def test_a_missing_entry_is_damage_unless_it_is_made_anew() -> None:
    """Compaction drops it by right."""
    ((severity, _, _, what),) = txn_findings()

    assert severity == "damage"
    assert what.startswith("1 aborted transactions are missing, as that of producer 7")
    assert [row[0] for row in txn_findings(is_rebuilt=True)] == ["unusual"]
    assert txn_findings(is_compacted=True) == []


def test_an_entry_without_a_marker_is_damage() -> None:
    """With the byte of the entry."""
    found = txn_findings(ABORTED, AbortedTxn(0, 7, 3, 5, 6))

    assert found == [
        (
            "damage",
            f"{0:020d}.txnindex",
            34,
            "entry 1 (producer 7, marker 5): no abort marker is there",
        )
    ]


def test_an_entry_that_begins_too_late_is_damage() -> None:
    """Readers would take the first records for committed."""
    ((severity, _, byte, what),) = txn_findings(ABORTED._replace(first_offset=1))

    assert (severity, byte) == ("damage", 0)
    assert what.endswith("begins at 1, its transaction at 0")


def epoch_findings(
    entries: list[tuple[int, int]], *epochs: int, end: int = 9, start: int = 0
) -> list[tuple[str, str]]:
    """Compare a file of epochs with batches of these epochs, one offset each."""
    checks = EpochChecks("/data/t-0/leader-epoch-checkpoint", entries, start)
    data = b"".join(
        build_batch([RECORD], base_offset=offset, leader_epoch=epoch)
        for offset, epoch in enumerate(epochs)
    )
    rows = [*checks.feed(walk(data).batches), *checks.findings(end)]
    return [(row.severity.value, row.what) for row in rows]


def test_epochs_that_agree_have_no_findings() -> None:
    """An epoch may have no batches; batches without epochs, and deleted ones, do not count."""
    assert epoch_findings([(0, 0), (2, 1), (5, 3)], 0, 2, 2, 5) == []
    assert epoch_findings([(0, 0)], 0, -1) == []
    assert epoch_findings([(3, 2)], 1, 1, 3, start=2) == []


def test_the_first_batch_of_another_epoch_is_told() -> None:
    """Once; a lower one is damage, a higher one comes from another cluster."""
    assert epoch_findings([(0, 0), (4, 1)], 0, 3, 3) == [
        ("damage", "the batch at offset 1 is of epoch 3, here it is 4")
    ]
    ((severity, what),) = epoch_findings([(0, 0)], 0, 7)
    assert (severity, "comes from another cluster" in what) == ("unusual", True)


def test_batches_whose_epochs_fall_are_what_no_recovery_mends() -> None:
    """The file of epochs that a recovery makes of them contradicts them again."""
    rows = epoch_findings([(0, 0), (3, 1)], 0, 3, 0)

    assert rows == [("damage", "the batch at offset 2 is of epoch 0, after one of 3")]


def test_epochs_that_do_not_rise_or_lie_behind_the_end_are_damage() -> None:
    """The file itself is wrong."""
    assert [row[0] for row in epoch_findings([(1, 0), (1, 4)], 1)] == ["damage"]
    assert epoch_findings([(0, 0), (1, 10)], 0) == [
        ("damage", "an epoch begins at 10, but the log ends at 9")
    ]


def test_a_snapshot_inside_a_batch_is_damage_wherever_the_batch_is() -> None:
    """No log ends there; that the batch is the last one must not end the check."""
    pair = build_batch([RECORD] * 2, base_offset=0)
    for batches in ([pair], [pair, batch(2)]):
        _, (found,) = checked(*batches, snapshots={1: []}, end=2)

        assert (found[0], found[1]) == ("damage", f"{1:020d}.snapshot")
        assert "inside the batch at 0" in found[3]
