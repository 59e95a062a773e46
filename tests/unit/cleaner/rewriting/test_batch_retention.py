"""What compaction does with whole batches, by their headers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

from tidelog.cleaner.rewriting.batch_retention import (
    BatchRetentionRules,
    LastBatches,
    actions_for_map,
    read_control_type,
)
from tidelog.cleaner.rewriting.cleaned_transactions import CleanedTransactions
from tidelog.cleaner.rewriting.header_summary import HeaderSummary
from tidelog.codec.compression import Codec
from tidelog.errors import InvalidRecord
from tidelog.kernels import rows
from tidelog.kernels.compaction.key_rows import FILTER, KEEP, MARK_EMPTIED, RETAIN_EMPTY
from tidelog.log.producers.producer_entry import BatchMetadata, ProducerStateEntry
from tidelog.records.array_rows import as_bytes
from tidelog.records.batch_columns import BatchColumns
from tidelog.records.builder import build_batch
from tidelog.records.control import CONTROL_KEY, ControlKey, ControlType
from tidelog.records.memory import walk
from tidelog.segment.txn_index import AbortedTxn

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tidelog.records.array_rows import Bytes

NOW_MS: Final = 5_000
FAR: Final = 10_000
"""An end offset above all batches."""


def data(producer_id: int = -1, *, transactional: bool = False) -> dict[str, Any]:
    """Return the fields of a batch with one record."""
    if producer_id < 0:
        return {}
    fields = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0}
    return {**fields, "transactional": transactional}


def marker(kind: int, producer_id: int, **fields: Any) -> dict[str, Any]:
    """Return the fields of a control batch of this type."""
    key = CONTROL_KEY.pack(ControlKey(0, kind))
    producer = {"producer_id": producer_id, "producer_epoch": 0}
    return {"key": key, "control": True, "transactional": True, **producer, **fields}


def read(*batches: dict[str, Any]) -> tuple[Bytes, BatchColumns, HeaderSummary]:
    """Build batches of one record each, at offsets 0, 1, 2 and so on, and read their headers."""
    built = [
        build_batch([(NOW_MS, fields.pop("key", b"k"), b"v", ())], base_offset=offset, **fields)
        for offset, fields in enumerate(dict(fields) for fields in batches)
    ]
    source = as_bytes(b"".join(built))
    found = walk(source).batches
    assert len(found) == len(batches)
    return source, found, HeaderSummary.of(found, with_kernels=False)


def empty(batches: BatchColumns, index: int) -> None:
    """Make a batch one whose records compaction has dropped."""
    batches.array[rows.RECORDS_COUNT, index] = 0


def rules(
    *, aborted: Iterable[AbortedTxn] = (), end_offset: int = FAR, last: Sequence[int] = ()
) -> BatchRetentionRules:
    """Return rules where each producer of ``last`` has its last record at the offset of its id."""
    transactions = CleanedTransactions()
    transactions.add_aborted(aborted)
    entries = {number: entry(number, number) for number in last}
    return BatchRetentionRules(transactions, LastBatches(entries), end_offset, NOW_MS)


def entry(producer_id: int, last_offset: int, epoch: int = 0) -> ProducerStateEntry:
    """Return a producer whose last record is at ``last_offset``; -1: one that has only a marker."""
    batches = (BatchMetadata(0, last_offset, 0, NOW_MS),) if last_offset >= 0 else ()
    return ProducerStateEntry(producer_id, epoch, batches=batches)


def test_the_last_batch_of_each_producer_is_found() -> None:
    """By its last offset, or for a producer with a marker only by its epoch."""
    last = LastBatches(
        {
            0: entry(0, 0),
            3: entry(3, 1),
            7: entry(7, 12),
            8: entry(8, -1, epoch=3),
            9: entry(9, -1, epoch=0),
        }
    )
    cases = [
        # producer, epoch, last offset, whether it is a control batch, whether it is found
        (0, 0, 0, False, True),
        (5, 0, 0, False, False),
        (5, 0, 1, False, False),
        (-1, -1, 1, False, False),
        (3, 0, 1, False, True),
        (7, 0, 11, False, False),
        (-1, -1, 12, False, False),
        (7, 0, 12, False, True),
        (7, 0, 13, False, False),
        (0, 0, 20, True, False),
        (4, 0, 21, True, False),
        (8, 2, 22, True, False),
        (8, 3, 23, True, True),
        (8, 3, 24, False, False),
        (9, 0, 25, True, True),
    ]
    array = np.zeros((rows.BATCH_COLUMNS, len(cases)), np.int64)
    fields = [rows.PRODUCER_ID, rows.PRODUCER_EPOCH, rows.LAST_OFFSET, rows.ATTRIBUTES]
    array[fields] = np.array([(*case[:3], case[3] * 0x20) for case in cases]).T
    array[rows.MAGIC] = 2

    assert last.find(BatchColumns(array)) == [i for i, case in enumerate(cases) if case[4]]
    assert LastBatches({}).find(BatchColumns(array)) == []


def test_batches_of_aborted_transactions_are_dropped() -> None:
    """Other batches of the producer, and committed ones, are filtered; markers end both."""
    aborted = AbortedTxn(0, 1, 0, 4, 0)
    batches = read(
        data(1, transactional=True),
        data(2, transactional=True),
        data(1),
        data(),
        marker(ControlType.ABORT, 1),
        marker(ControlType.COMMIT, 2),
        data(1, transactional=True),
    )

    actions, indexed = rules(aborted=[aborted]).actions_for(*batches)

    assert actions.tolist() == [0, FILTER, FILTER, FILTER, KEEP, KEEP, FILTER]
    assert indexed == [aborted]


def test_what_is_put_into_the_map_is_neither_aborted_nor_a_marker() -> None:
    """The same transactions are followed."""
    transactions = CleanedTransactions()
    transactions.add_aborted([AbortedTxn(0, 1, 0, 2, 0)])
    batches = read(
        data(1, transactional=True),
        data(2, transactional=True),
        marker(ControlType.ABORT, 1),
        data(1, transactional=True),
        data(),
    )

    assert actions_for_map(*batches, transactions).tolist() == [0, FILTER, 0, FILTER, FILTER]


def test_an_empty_transaction_keeps_its_marker_until_the_horizon_has_passed() -> None:
    """A horizon passes in its millisecond; a marker without one gets one."""
    commit, abort = ControlType.COMMIT, ControlType.ABORT
    batches = read(
        marker(commit, 1),
        marker(commit, 2, delete_horizon_ms=NOW_MS),
        marker(commit, 3, delete_horizon_ms=NOW_MS + 1),
        marker(abort, 4, delete_horizon_ms=NOW_MS),
        marker(ControlType.LEADER_CHANGE, 5, delete_horizon_ms=NOW_MS),
        marker(commit, 6, codec=Codec.GZIP, delete_horizon_ms=NOW_MS),
        marker(commit, 7, delete_horizon_ms=NOW_MS),
        marker(commit, 8),
    )
    empty(batches[1], 6)
    empty(batches[1], 7)

    actions, indexed = rules().actions_for(*batches)

    waits = KEEP | MARK_EMPTIED
    assert actions.tolist() == [waits, 0, waits, 0, KEEP, 0, 0, waits]
    assert indexed == []


def test_headers_that_producers_and_the_cleaned_end_need_stay() -> None:
    """Also those of batches whose records are dropped, and of markers."""
    batches = read(
        data(1, transactional=True),
        data(1, transactional=True),
        data(),
        marker(ControlType.COMMIT, 9, delete_horizon_ms=NOW_MS),
        data(),
    )
    aborted = [AbortedTxn(0, 1, 0, 9, 0)]

    at_last, _ = rules(aborted=aborted, last=[1]).actions_for(*batches)
    at_end, _ = rules(aborted=aborted, end_offset=4).actions_for(*batches)

    assert at_last.tolist() == [0, RETAIN_EMPTY, FILTER, 0, FILTER]
    assert at_end.tolist() == [0, 0, FILTER, RETAIN_EMPTY, FILTER]


def test_batches_of_old_formats_are_not_special() -> None:
    """What would be attributes of magic 2 means nothing there."""
    source, batches, summary = read(marker(ControlType.COMMIT, 1), marker(ControlType.COMMIT, 1))
    batches.array[rows.MAGIC, 0] = 1

    actions, _ = rules().actions_for(source, batches, summary)

    assert actions.tolist() == [FILTER, KEEP | MARK_EMPTIED]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("kind", [ControlType.ABORT, ControlType.COMMIT, ControlType.KRAFT_VOTERS])
def test_the_type_of_a_control_batch_is_in_its_first_key(codec: Codec, kind: ControlType) -> None:
    """At any position, compressed or not; without records it has none."""
    source, batches, _ = read(data(), marker(kind, 1, codec=codec), data())

    assert read_control_type(source, batches.row(1)) is kind
    empty(batches, 1)
    assert read_control_type(source, batches.row(1)) is None


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("key", [None, b"", b"\0\0\0"])
def test_a_control_record_without_a_whole_key_is_invalid(codec: Codec, key: bytes | None) -> None:
    """The cleaning stops there: what the marker ends is not known."""
    source, batches, _ = read(marker(0, 1, key=key, codec=codec))

    with pytest.raises(InvalidRecord):
        read_control_type(source, batches.row(0))
