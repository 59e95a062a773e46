"""What a log remembers of one producer."""

from __future__ import annotations

import pytest

from tidelog.log.producers.producer_entry import (
    NO_COORDINATOR_EPOCH,
    BatchMetadata,
    ProducerStateEntry,
    VerificationStateEntry,
    rewind_sequence,
)
from tidelog.log.producers.producer_snapshot import ProducerSnapshotEntry
from tidelog.records.batch import INT32_MAX, NO_PRODUCER_EPOCH

UNKNOWN = ProducerStateEntry(1)
FIRST, SECOND = BatchMetadata(2, 12, 2, 100), BatchMetadata(6, 16, 3, 200)
KNOWN = ProducerStateEntry(1, 5, 3, 200, 14, (FIRST, SECOND))


def test_nothing_is_known_of_a_new_producer() -> None:
    """-1 stands for each number that is not known, in memory and in a snapshot."""
    nothing = ProducerSnapshotEntry(1, -1, -1, -1, 0, -1, -1, -1)

    assert NO_PRODUCER_EPOCH == NO_COORDINATOR_EPOCH == -1
    assert (UNKNOWN.is_empty, UNKNOWN.last_sequence, UNKNOWN.last_data_offset) == (True, -1, -1)
    assert UNKNOWN.producer_epoch == -1
    assert UNKNOWN.to_snapshot() == nothing
    assert ProducerStateEntry.from_snapshot(nothing) == UNKNOWN


def test_the_last_batch_is_the_newest() -> None:
    """Sequence and offset are those of the last record of the batch remembered last."""
    assert (KNOWN.is_empty, KNOWN.last_sequence, KNOWN.last_data_offset) == (False, 6, 16)


def test_a_batch_begins_its_delta_before_its_end() -> None:
    """The delta is the count of records but one."""
    assert (SECOND.first_sequence, SECOND.first_offset) == (3, 13)
    assert BatchMetadata(1, 20, 3, 0).first_sequence == INT32_MAX - 1


def test_sequences_wrap_at_the_end_of_an_int32() -> None:
    """2**31 - 1 is followed by 0."""
    assert (rewind_sequence(0, 1), rewind_sequence(0, 0)) == (INT32_MAX, 0)


@pytest.mark.parametrize(
    ("epoch", "first", "last", "found"),
    [
        (5, 0, 2, FIRST),
        (5, 3, 6, SECOND),
        (5, 4, 6, None),
        (5, 3, 5, None),
        (5, 0, 6, None),
        (4, 3, 6, None),
        (6, 3, 6, None),
    ],
)
def test_a_duplicate_has_the_same_epoch_and_both_sequences(
    epoch: int, first: int, last: int, found: BatchMetadata | None
) -> None:
    """A batch that overlaps a remembered one is not its duplicate."""
    assert KNOWN.find_duplicate(epoch, first, last) == found


def test_another_epoch_forgets_the_batches() -> None:
    """Sequences count again in each epoch; the same epoch changes nothing."""
    assert KNOWN.with_epoch(5) is KNOWN
    assert KNOWN.with_epoch(6) == KNOWN._replace(producer_epoch=6, batches=())
    assert KNOWN.with_batch(6, SECOND).batches == (SECOND,)


def test_five_batches_are_remembered() -> None:
    """A sixth pushes out the oldest, by itself or with others."""
    batches = [BatchMetadata(number, number, 0, 100 + number) for number in range(8)]
    entry = UNKNOWN
    for batch in batches:
        entry = entry.with_batch(5, batch)

    assert entry.batches == tuple(batches[3:])
    assert entry.last_timestamp == 107
    merged = KNOWN.updated_by(KNOWN._replace(batches=tuple(batches[:4])))
    assert merged.batches == (SECOND, *batches[:4])


@pytest.mark.parametrize("txn_first_offset", [None, 0, 14])
def test_a_snapshot_keeps_the_last_batch_and_the_open_transaction(
    txn_first_offset: int | None,
) -> None:
    """A transaction may begin at offset 0."""
    entry = KNOWN._replace(txn_first_offset=txn_first_offset)

    kept = entry.to_snapshot()

    txn = -1 if txn_first_offset is None else txn_first_offset
    assert kept == ProducerSnapshotEntry(1, 5, 6, 16, 3, 200, 3, txn)
    assert ProducerStateEntry.from_snapshot(kept) == entry._replace(batches=(SECOND,))


def test_a_snapshot_keeps_a_batch_at_offset_zero() -> None:
    """Offset 0 is a record's, only -1 means that there is no batch."""
    entry = UNKNOWN.with_batch(0, BatchMetadata(0, 0, 0, 100))

    assert ProducerStateEntry.from_snapshot(entry.to_snapshot()) == entry


@pytest.mark.parametrize(
    ("sequence", "epoch", "expected"),
    [(7, 6, (7, 6)), (7, 5, (3, 5)), (2, 5, (2, 5)), (0, 4, (3, 5))],
)
def test_requests_of_one_transaction_keep_its_lowest_sequence(
    sequence: int, epoch: int, expected: tuple[int, int]
) -> None:
    """A higher epoch replaces sequence and epoch, a lower one changes nothing."""
    state = VerificationStateEntry(0, 1, lowest_sequence=3, epoch=5, supports_epoch_bump=False)

    state.lower_to(sequence, epoch)

    assert (state.lowest_sequence, state.epoch) == expected
