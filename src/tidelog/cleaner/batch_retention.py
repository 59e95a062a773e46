"""What is to be done with each batch, before any record is looked at.

Owns the rules for batches: aborted ones go, markers stay until their transaction is empty and its
horizon has passed, and a header stays where a producer's state hangs on it. Must not know keys.
Kafka: the record filter's ``checkBatchRetention`` in ``Cleaner.cleanInto``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from tidelog.codec.layout import byte_view
from tidelog.kernels import rows
from tidelog.kernels.compaction import key_rows as keys
from tidelog.records.batch import BATCH_HEADER, BatchFlags
from tidelog.records.control import control_type, first_record
from tidelog.records.record import scan_record

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.cleaner.cleaned_transactions import CleanedTransactions
    from tidelog.cleaner.header_summary import Glance
    from tidelog.log.producers.producer_entry import ProducerStateEntry
    from tidelog.records.array_rows import Bytes, Ints
    from tidelog.records.control import ControlType
    from tidelog.records.memory import BatchColumns
    from tidelog.segment.txn_index import AbortedTxn

NO_OFFSET: Final = -1
_CONTROL: Final = int(BatchFlags.CONTROL)
_TRANSACTIONAL: Final = int(BatchFlags.TRANSACTIONAL)
_DELETE_HORIZON: Final = int(BatchFlags.DELETE_HORIZON)
_CODEC: Final = int(BatchFlags.CODEC)


class LastBatches:
    """Which batch is the last of each active producer; its header must stay.

    That is the one with the producer's last data offset; of a producer that is known by a marker
    only, any control batch of its present epoch. Source: Kafka Cleaner.cleanSegments.
    """

    def __init__(self, producers: Mapping[int, ProducerStateEntry]) -> None:
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
        """Return the indices of those among ``batches``."""
        found: list[int] = []
        if len(self._sorted):
            at = self._sorted.searchsorted(batches.last_offset)
            at[at == len(self._sorted)] = 0
            hits = (self._sorted[at] == batches.last_offset) & (batches.producer_id >= 0)
            for index in np.flatnonzero(hits).tolist():
                producer_id, offset = batches.array[[rows.PRODUCER_ID, rows.LAST_OFFSET], index]
                if self._offsets.get(int(producer_id), NO_OFFSET) == offset:
                    found.append(index)
        if self._epochs:
            for index in np.flatnonzero(batches.is_control).tolist():
                producer_id, epoch = batches.array[[rows.PRODUCER_ID, rows.PRODUCER_EPOCH], index]
                if self._epochs.get(int(producer_id)) == epoch:
                    found.append(index)
        return found


@dataclass(frozen=True, slots=True)
class MarkRules:
    """What decides about batches in one cleaning of some segments.

    ``end_offset`` is where the cleaning ends for the whole log (exclusive): the batch that ends
    there stays at least as a header, so that the end can still be read.
    """

    transactions: CleanedTransactions
    last_batches: LastBatches
    end_offset: int
    now_ms: int

    def mark(
        self, data: Bytes, batches: BatchColumns, glance: Glance
    ) -> tuple[Ints, list[AbortedTxn]]:
        """Return a mark for each batch, and the transactions the index has to name on.

        ``data`` holds the batches, at their positions; ``glance`` is one at them.
        """
        marks = np.full(len(batches), keys.JUDGE, np.int64)
        is_at_end = batches.last_offset == self.end_offset - 1
        if is_at_end.any():
            marks[is_at_end] |= keys.RETAIN_EMPTY
        last = self.last_batches.find(batches)
        if last:
            marks[last] |= keys.RETAIN_EMPTY
        aborted: list[AbortedTxn] = []
        for index in _special_ones(batches, glance):
            row = batches.row(index)
            if row[rows.ATTRIBUTES] & _CONTROL:
                marks[index] = self._mark_marker(data, row, int(marks[index]), aborted)
            elif self.transactions.on_batch(row[rows.PRODUCER_ID], row[rows.LAST_OFFSET]):
                marks[index] &= ~keys.JUDGE
        return marks, aborted

    def _mark_marker(
        self, data: Bytes, row: list[int], mark: int, aborted: list[AbortedTxn]
    ) -> int:
        kind = read_control_type(data, row)
        is_emptied, txn = self.transactions.on_marker(
            row[rows.PRODUCER_ID], row[rows.LAST_OFFSET], kind
        )
        if txn is not None:
            aborted.append(txn)
        mark &= ~keys.JUDGE
        if not is_emptied:
            return mark | keys.KEEP
        has_horizon = row[rows.ATTRIBUTES] & _DELETE_HORIZON
        if has_horizon and row[rows.BASE_TIMESTAMP] <= self.now_ms:
            return mark
        return mark | keys.KEEP | keys.MARK_EMPTIED


def read_control_type(data: Bytes, row: list[int]) -> ControlType | None:
    """Return what the control batch at the row's position says; None if it is empty."""
    if not row[rows.RECORDS_COUNT]:
        return None
    position = row[rows.POSITION]
    if row[rows.ATTRIBUTES] & _CODEC:
        record = first_record(data, position)
        return None if record is None else control_type(record.key)
    view = byte_view(data)
    span = scan_record(view, position + BATCH_HEADER.size, position + row[rows.SIZE])
    key = bytes(view[span.key_at : span.key_at + max(span.key_size, 0)])
    return control_type(key if span.key_size >= 0 else None)


def mark_for_map(
    data: Bytes, batches: BatchColumns, glance: Glance, transactions: CleanedTransactions
) -> Ints:
    """Return JUDGE for each batch whose keys count: no control batch, none of an aborted one."""
    marks = np.full(len(batches), keys.JUDGE, np.int64)
    for index in _special_ones(batches, glance):
        row = batches.row(index)
        producer_id, last_offset = row[rows.PRODUCER_ID], row[rows.LAST_OFFSET]
        if row[rows.ATTRIBUTES] & _CONTROL:
            transactions.on_marker(producer_id, last_offset, read_control_type(data, row))
            marks[index] = 0
        elif transactions.on_batch(producer_id, last_offset):
            marks[index] = 0
    return marks


def _special_ones(batches: BatchColumns, glance: Glance) -> list[int]:
    """Return the indices of control batches and of batches of transactions."""
    if not glance.has_special:
        return []
    is_special = (batches.attributes & (_CONTROL | _TRANSACTIONAL)) != 0
    found: list[int] = np.flatnonzero(is_special & (batches.magic >= 2)).tolist()
    return found
