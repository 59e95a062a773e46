"""The transactions of a cleaning: which were aborted, and which have no records left.

Kafka: ``CleanedTransactionMetadata``.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from tidelog.records.control import ControlType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.segment.txn_index import AbortedTxn


class CleanedTransactions:
    """Follows the transactions of one cleaning through its batches, in offset order.

    Source: Kafka CleanedTransactionMetadata.
    """

    def __init__(self) -> None:
        self._upcoming: list[tuple[int, int, AbortedTxn]] = []
        self._aborted: dict[int, AbortedTxn] = {}
        self._observed: set[int] = set()
        self._committed: set[int] = set()
        self._added = 0

    def copy(self) -> CleanedTransactions:
        """Return another one in the same state."""
        other = CleanedTransactions()
        other._upcoming, other._added = list(self._upcoming), self._added
        other._aborted = dict(self._aborted)
        other._observed, other._committed = set(self._observed), set(self._committed)
        return other

    def add_aborted(self, aborted: Iterable[AbortedTxn]) -> None:
        """Add aborted transactions from the indexes; adding one twice is harmless."""
        for txn in aborted:
            self._added += 1
            heappush(self._upcoming, (txn.first_offset, self._added, txn))

    def on_batch(self, producer_id: int, last_offset: int) -> bool:
        """Record a transactional batch; return whether its transaction was aborted."""
        self._consume_aborted_up_to(last_offset)
        if producer_id in self._aborted:
            self._observed.add(producer_id)
            return True
        self._committed.add(producer_id)
        return False

    def on_marker(
        self, producer_id: int, last_offset: int, kind: ControlType | None
    ) -> tuple[bool, AbortedTxn | None]:
        """Record a control batch; ``kind`` is None if it is empty.

        Returns:
            Whether its transaction has no batches left, and the aborted transaction that must stay
            in the transaction index, if any.
        """
        self._consume_aborted_up_to(last_offset)
        if kind is None:
            return True, None
        if kind is ControlType.ABORT:
            txn = self._aborted.pop(producer_id, None)
            if txn is not None and producer_id in self._observed:
                self._observed.discard(producer_id)
                return False, txn
            return True, None
        if kind is ControlType.COMMIT:
            is_empty = producer_id not in self._committed
            self._committed.discard(producer_id)
            return is_empty, None
        return False, None

    def _consume_aborted_up_to(self, last_offset: int) -> None:
        while self._upcoming and self._upcoming[0][0] <= last_offset:
            txn = heappop(self._upcoming)[2]
            if txn.producer_id not in self._aborted:
                self._aborted[txn.producer_id] = txn
                self._observed.discard(txn.producer_id)
