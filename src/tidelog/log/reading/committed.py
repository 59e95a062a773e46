"""Which batches a reader of committed records gets: those of aborted transactions are skipped.

Kafka: the consumer's ``CompletedFetch.nextFetchedRecord``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tidelog.lazy import np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tidelog.records.array_rows import Bools, Ints
    from tidelog.records.batch_columns import BatchColumns


class AbortedTransaction(NamedTuple):
    """A transaction whose records a reader of committed records skips, by its first offset."""

    producer_id: int
    first_offset: int


class AbortedFilter:
    """Finds the batches of aborted transactions among batches passed in order.

    ``aborted`` holds all aborted transactions that reach into the batches to come: those of which
    the marker lies at or after the first of them.
    """

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._waiting = sorted(aborted, key=lambda txn: txn.first_offset, reverse=True)
        self._skipped_producers: set[int] = set()

    def is_shown(self, batches: BatchColumns) -> Bools:
        """Return, per batch, whether it belongs to no aborted transaction; control batches do not.

        ``batches`` follow those of the previous call.
        """
        shown = np.ones(len(batches), np.bool_)
        if not self._waiting and not self._skipped_producers:
            return shown
        transactional = np.flatnonzero(batches.is_transactional)
        offsets, producers = batches.last_offset.tolist(), batches.producer_id.tolist()
        is_control = batches.is_control.tolist()
        for index in transactional.tolist():
            while self._waiting and self._waiting[-1].first_offset <= offsets[index]:
                self._skipped_producers.add(self._waiting.pop().producer_id)
            if is_control[index]:
                # Only an abort marker can end a transaction that was aborted.
                self._skipped_producers.discard(producers[index])
            elif producers[index] in self._skipped_producers:
                shown[index] = False
        return shown


def open_producers(batches: BatchColumns, opened: Mapping[int, int]) -> Ints:
    """Return the producer of each batch if its transaction is one of ``opened``, else -1.

    ``opened`` has the first offset of each transaction, by producer.
    """
    owners = np.full(len(batches), -1, np.int64)
    for producer_id, first_offset in opened.items():
        is_its = (batches.producer_id == producer_id) & (batches.base_offset >= first_offset)
        owners[is_its & batches.is_transactional] = producer_id
    return owners


def without_aborted(batches: BatchColumns, aborted: Sequence[AbortedTransaction]) -> BatchColumns:
    """Return ``batches`` without those of transactions in ``aborted``; control batches stay.

    ``aborted`` holds all aborted transactions that reach into these batches.
    """
    if not aborted:
        return batches
    return batches.select(AbortedFilter(aborted).is_shown(batches))
