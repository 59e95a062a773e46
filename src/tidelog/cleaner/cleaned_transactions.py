"""Transactions as a cleaning round meets them: which were aborted, which have no records left.

Owns what is carried from batch to batch. Must not know bytes or deletion. Kafka:
``CleanedTransactionMetadata``.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from tidelog.records.control import ControlType

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tidelog.segment.segment import LogSegment
    from tidelog.segment.txn_index import AbortedTxn


def collect_aborted(
    segments: Sequence[LogSegment], start_offset: int, end_offset: int
) -> list[AbortedTxn]:
    """Return the aborted transactions that touch [start, end), by the indexes of ``segments``.

    These are the segments from the one that holds ``start_offset`` on, to the log's end: an abort
    may be noted long after its transaction's records.
    """
    found: list[AbortedTxn] = []
    for segment in segments:
        part = segment.collect_aborted(start_offset, end_offset)
        found += part.aborted
        if part.is_complete:
            break
    return found


class CleanedTransactions:
    """The transactions of one round, met in the order of offsets.

    Source: Kafka CleanedTransactionMetadata.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int, AbortedTxn]] = []
        self._aborted: dict[int, AbortedTxn] = {}
        self._observed: set[int] = set()
        self._committed: set[int] = set()
        self._added = 0

    def add_aborted(self, aborted: Iterable[AbortedTxn]) -> None:
        """Take note of transactions that the indexes say were aborted; repeats do no harm."""
        for txn in aborted:
            self._added += 1
            heappush(self._waiting, (txn.first_offset, self._added, txn))

    def on_batch(self, producer_id: int, last_offset: int) -> bool:
        """Meet a transactional batch; return whether its transaction was aborted."""
        self._begin(last_offset)
        if producer_id in self._aborted:
            self._observed.add(producer_id)
            return True
        self._committed.add(producer_id)
        return False

    def on_marker(
        self, producer_id: int, last_offset: int, kind: ControlType | None
    ) -> tuple[bool, AbortedTxn | None]:
        """Meet a control batch, whose ``kind`` is None if it is empty.

        Returns:
            Whether it has nothing to mark any more, and the aborted transaction that the
            transaction index still has to name.
        """
        self._begin(last_offset)
        if kind is None:
            return True, None
        if kind is ControlType.ABORT:
            txn = self._aborted.pop(producer_id, None)
            if txn is not None and producer_id in self._observed:
                self._observed.discard(producer_id)
                return False, txn
            return True, None
        if kind is ControlType.COMMIT:
            is_emptied = producer_id not in self._committed
            self._committed.discard(producer_id)
            return is_emptied, None
        return False, None

    def _begin(self, last_offset: int) -> None:
        while self._waiting and self._waiting[0][0] <= last_offset:
            txn = heappop(self._waiting)[2]
            if txn.producer_id not in self._aborted:
                self._aborted[txn.producer_id] = txn
                self._observed.discard(txn.producer_id)
