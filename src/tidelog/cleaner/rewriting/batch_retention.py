"""Which batches compaction retains, drops or filters, decided from their headers.

Batches of aborted transactions are dropped. A marker is retained until its transaction is empty and
the delete horizon has passed. A header is retained where the state of a producer depends on it.
Kafka: ``checkBatchRetention`` of the record filter in ``Cleaner.cleanInto``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tidelog.cleaner.rewriting.delete_horizon import has_passed
from tidelog.codec.layout import byte_view
from tidelog.kernels import rows
from tidelog.kernels.compaction import key_rows as keys
from tidelog.records.batch import BATCH_HEADER, BatchFlags
from tidelog.records.control import control_type, first_record
from tidelog.records.record import scan_record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.cleaner.rewriting.cleaned_transactions import CleanedTransactions
    from tidelog.cleaner.rewriting.header_summary import HeaderSummary
    from tidelog.log.producers.producer_entry import ProducerStateEntry
    from tidelog.records.array_rows import Bytes, Ints
    from tidelog.records.batch_columns import BatchColumns
    from tidelog.records.control import ControlType
    from tidelog.segment.txn_index import AbortedTxn


class LastOfProducer(NamedTuple):
    """A producer's last record, -1 if only markers are known, and its epoch.

    Source: Kafka LastRecord.
    """

    last_data_offset: int
    producer_epoch: int


class LastBatches:
    """Finds the last batch of each active producer, whose header must be retained.

    That is the batch with the producer's last data offset; for a producer that only has a marker,
    any control batch with its current epoch. Source: Kafka Cleaner.cleanSegments.
    """

    def __init__(self, producers: Mapping[int, ProducerStateEntry | LastOfProducer]) -> None:
        known = {
            producer_id: (entry.last_data_offset, entry.producer_epoch)
            for producer_id, entry in producers.items()
        }
        self._offsets = {
            producer_id: offset for producer_id, (offset, _) in known.items() if offset >= 0
        }
        self._epochs = {
            producer_id: epoch for producer_id, (offset, epoch) in known.items() if offset < 0
        }
        self._sorted = np.array(sorted(self._offsets.values()), np.int64)

    def find(self, batches: BatchColumns) -> list[int]:
        """Return the indices in ``batches`` of such last batches."""
        found: list[int] = []
        if len(self._sorted):
            at = self._sorted.searchsorted(batches.last_offset)
            at[at == len(self._sorted)] = 0
            for index in np.flatnonzero(self._sorted[at] == batches.last_offset).tolist():
                producer_id, offset = batches.array[[rows.PRODUCER_ID, rows.LAST_OFFSET], index]
                if self._offsets.get(int(producer_id)) == offset:
                    found.append(index)
        if self._epochs:
            for index in np.flatnonzero(batches.is_control).tolist():
                producer_id, epoch = batches.array[[rows.PRODUCER_ID, rows.PRODUCER_EPOCH], index]
                if self._epochs.get(int(producer_id)) == epoch:
                    found.append(index)
        return found


@dataclass(frozen=True, slots=True)
class BatchRetentionRules:
    """Decides what is done with each batch while one group of segments is cleaned.

    ``end_offset`` is the first uncleanable offset of the log: of the batch that ends there at least
    the header is retained, so that the end of the cleaned part stays known. ``now_ms`` is the time
    by which delete horizons have passed. Source: Kafka checkBatchRetention.
    """

    transactions: CleanedTransactions
    last_batches: LastBatches
    end_offset: int
    now_ms: int

    def actions_for(
        self, data: Bytes, batches: BatchColumns, summary: HeaderSummary
    ) -> tuple[Ints, list[AbortedTxn]]:
        """Return the flags of ``key_rows`` for each batch, and the aborted transactions to index.

        ``data`` contains the batches, at their positions; ``summary`` is theirs.
        """
        actions = np.full(len(batches), keys.FILTER, np.int64)
        is_at_end = batches.last_offset == self.end_offset - 1
        if is_at_end.any():
            actions[is_at_end] |= keys.RETAIN_EMPTY
        last = self.last_batches.find(batches)
        if last:
            actions[last] |= keys.RETAIN_EMPTY
        aborted: list[AbortedTxn] = []
        for index in _control_and_transactional(batches, summary):
            row = batches.row(index)
            if row[rows.ATTRIBUTES] & BatchFlags.CONTROL:
                actions[index] = self._marker_action(data, row, int(actions[index]), aborted)
            elif self.transactions.on_batch(row[rows.PRODUCER_ID], row[rows.LAST_OFFSET]):
                actions[index] &= ~keys.FILTER
        return actions, aborted

    def _marker_action(
        self, data: Bytes, row: list[int], action: int, aborted: list[AbortedTxn]
    ) -> int:
        kind = read_control_type(data, row)
        is_empty, txn = self.transactions.on_marker(
            row[rows.PRODUCER_ID], row[rows.LAST_OFFSET], kind
        )
        if txn is not None:
            aborted.append(txn)
        action &= ~keys.FILTER
        if not is_empty:
            return action | keys.KEEP
        if has_passed(row, self.now_ms):
            return action
        return action | keys.KEEP | keys.MARK_EMPTIED


def read_control_type(data: Bytes, row: list[int]) -> ControlType | None:
    """Return the type of the control batch at the row's position; None if the batch is empty."""
    if not row[rows.RECORDS_COUNT]:
        return None
    position = row[rows.POSITION]
    if row[rows.ATTRIBUTES] & BatchFlags.CODEC:
        record = first_record(data, position)
        return None if record is None else control_type(record.key)
    view = byte_view(data)
    span = scan_record(view, position + BATCH_HEADER.size, position + row[rows.SIZE])
    return control_type(bytes(view[span.key_at : span.key_at + max(span.key_size, 0)]))


def actions_for_map(
    data: Bytes, batches: BatchColumns, summary: HeaderSummary, transactions: CleanedTransactions
) -> Ints:
    """Return FILTER for each batch whose keys are put into the offset map, 0 for the others.

    The others are control batches and batches of aborted transactions.
    """
    actions = np.full(len(batches), keys.FILTER, np.int64)
    for index in _control_and_transactional(batches, summary):
        row = batches.row(index)
        producer_id, last_offset = row[rows.PRODUCER_ID], row[rows.LAST_OFFSET]
        if row[rows.ATTRIBUTES] & BatchFlags.CONTROL:
            transactions.on_marker(producer_id, last_offset, read_control_type(data, row))
            actions[index] = 0
        elif transactions.on_batch(producer_id, last_offset):
            actions[index] = 0
    return actions


def _control_and_transactional(batches: BatchColumns, summary: HeaderSummary) -> list[int]:
    """Return the indices of control batches and of batches of transactions."""
    if not summary.has_special:
        return []
    is_special = (batches.attributes & (BatchFlags.CONTROL | BatchFlags.TRANSACTIONAL)) != 0
    found: list[int] = np.flatnonzero(is_special & (batches.magic >= 2)).tolist()
    return found
