"""Replaying batches of the log into producer state and leader epochs.

Kafka: ``LogSegment.updateProducerState`` and ``UnifiedLog.loadProducersFromRecords``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tidelog.errors import InvalidRecord
from tidelog.kernels import rows
from tidelog.lazy import np
from tidelog.log.leader_epoch import EpochEntry
from tidelog.log.producers.producer_append import ProducerBatch
from tidelog.log.producers.producer_entry import BATCHES_TO_RETAIN
from tidelog.records.batch import MAGIC_V2, BatchFlags
from tidelog.records.control import read_marker
from tidelog.records.validation.append_origin import AppendOrigin
from tidelog.segment.txn_index import AbortedTxn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tidelog.codec.layout import Buffer
    from tidelog.log.producers.producer_entry import CompletedTxn
    from tidelog.log.producers.producer_state import ProducerStateManager
    from tidelog.records.batch_columns import BatchColumns
    from tidelog.records.control import EndTxnMarker

_TELLING: Final = BATCHES_TO_RETAIN + 1


def producer_batches(batches: BatchColumns, data: Buffer) -> Iterator[tuple[int, ProducerBatch]]:
    """Yield position and producer fields of each batch that has a producer id, in order.

    ``data`` holds the batches at their positions; only the records of markers are read.
    """
    for row in batches.rows_with_producer():
        attributes, position = row[rows.ATTRIBUTES], row[rows.POSITION]
        batch = ProducerBatch(
            row[rows.PRODUCER_ID],
            row[rows.PRODUCER_EPOCH],
            row[rows.BASE_SEQUENCE],
            row[rows.BASE_OFFSET],
            row[rows.LAST_OFFSET],
            row[rows.MAX_TIMESTAMP],
            bool(attributes & BatchFlags.TRANSACTIONAL),
            bool(attributes & BatchFlags.CONTROL),
        )
        if batch.is_control and row[rows.RECORDS_COUNT]:
            timestamp, marker = _read_marker(data, position)
            batch = batch._replace(marker=marker, marker_timestamp=timestamp)
        yield position, batch


def _read_marker(data: Buffer, position: int) -> tuple[int, EndTxnMarker]:
    try:
        return read_marker(data, position)
    except InvalidRecord as error:
        raise InvalidRecord(error.reason, position) from error


def check_markers(batches: BatchColumns, data: Buffer) -> None:
    """Raise if the marker in one of these batches cannot be read, as replaying it would."""
    for _ in producer_batches(batches.select(np.flatnonzero(batches.is_control)), data):
        pass


def replay_producers(
    producers: ProducerStateManager,
    batches: BatchColumns,
    data: Buffer,
    aborted: Callable[[AbortedTxn], object] = lambda _: None,
) -> None:
    """Feed batches that were accepted before; add the transactions they abort to ``aborted``.

    Sequences are not checked. ``map_end_offset`` moves after the last batch of magic 2, so that a
    snapshot which recovery leaves has the offset that Kafka's has. Raises InvalidTxnState for a
    plain batch inside a transaction, and InvalidRecord, with its batch's position, for a marker
    that cannot be read; producer state then is as before that marker.
    """
    try:
        for _, batch in producer_batches(batches.select(_telling(batches)), data):
            info = producers.prepare_update(batch.producer_id, AppendOrigin.REPLICATION)
            completed = info.append(batch)
            producers.update(info)
            if completed is not None:
                complete(producers, completed, aborted)
    except InvalidRecord as error:
        before = batches.base_offset[batches.position == error.position]
        producers.map_end_offset = max(producers.map_end_offset, *before.tolist(), 0)
        raise
    with_offset = np.flatnonzero(batches.magic >= MAGIC_V2)[-1:]
    if len(with_offset):
        producers.map_end_offset = int(batches.last_offset[with_offset[0]]) + 1


def complete(
    producers: ProducerStateManager, txn: CompletedTxn, index: Callable[[AbortedTxn], object]
) -> None:
    """Complete a transaction; an aborted one is first handed to ``index``.

    If that fails the transaction stays open, so that no reader takes its records for committed.
    """
    if txn.is_aborted:
        stable = producers.last_stable_offset(txn)
        index(AbortedTxn(0, txn.producer_id, txn.first_offset, txn.last_offset, stable))
    producers.complete_txn(txn)


def _telling(batches: BatchColumns) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Choose the batches that leave a trace in producer state, so that the others cost nothing.

    Between two markers, and while its epoch and transactional flag stay the same, a producer's
    state is given by its first batch (which may open a transaction) and its last five.
    """
    owned = np.flatnonzero(batches.producer_id >= 0)
    if owned.size <= _TELLING:
        return owned
    chosen = batches.select(owned)
    is_control = chosen.is_control
    runs = np.stack(
        [
            2 * np.cumsum(is_control) - is_control,
            chosen.producer_id,
            chosen.producer_epoch,
            chosen.is_transactional,
        ]
    )
    # A producer that changes epoch or flag between two markers is kept whole: order matters there.
    _, producer_of = np.unique(runs[:2], axis=1, return_inverse=True)
    _, run_of = np.unique(runs, axis=1, return_inverse=True)
    producer_of, run_of = producer_of.ravel(), run_of.ravel()
    is_mixed = np.bincount(producer_of)[producer_of] != np.bincount(run_of)[run_of]
    order = np.argsort(run_of, kind="stable")
    sizes = np.bincount(run_of)
    starts = np.cumsum(sizes) - sizes
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size) - np.repeat(starts, sizes)
    is_edge = (rank == 0) | (rank >= sizes[run_of] - BATCHES_TO_RETAIN)
    kept: np.ndarray[tuple[int], np.dtype[np.intp]] = owned[is_edge | is_mixed]
    return kept


def epoch_changes(batches: BatchColumns, known_epoch: int) -> list[EpochEntry]:
    """Return each leader epoch that is above all before it, ``known_epoch`` (-1 none) included.

    Batches of magic 0 and 1 have none.
    """
    seen = np.maximum.accumulate(np.concatenate(([known_epoch], batches.leader_epoch)))
    return [
        EpochEntry(int(batches.leader_epoch[index]), int(batches.base_offset[index]))
        for index in np.flatnonzero(np.diff(seen)).tolist()
    ]
