"""Transactions of one log in the order of their first offsets.

Kafka: the ``TreeMap`` fields of ``ProducerStateManager``.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.log.producers.producer_entry import TxnMetadata


class TxnOrder:
    """A map from first offset to transaction, ordered by offset."""

    def __init__(self) -> None:
        self._txns: dict[int, TxnMetadata] = {}
        self.offsets: list[int] = []
        """Their first offsets, in order."""

    def __iter__(self) -> Iterator[TxnMetadata]:
        return (self._txns[offset] for offset in self.offsets)

    def snapshot(self) -> list[TxnMetadata]:
        """Return all as of one moment, in no order, on any thread beside one that changes them."""
        return list(self._txns.copy().values())

    @property
    def first(self) -> TxnMetadata | None:
        """The transaction that began first."""
        return self._txns[self.offsets[0]] if self.offsets else None

    def put(self, txn: TxnMetadata) -> None:
        """Add a transaction, or replace the one with the same first offset."""
        offset = txn.first_offset.offset
        if offset not in self._txns:
            insort(self.offsets, offset)
        self._txns[offset] = txn

    def remove(self, first_offset: int) -> TxnMetadata | None:
        """Take out the transaction that began at ``first_offset`` and return it, if known."""
        txn = self._txns.pop(first_offset, None)
        if txn is not None:
            del self.offsets[bisect_left(self.offsets, first_offset)]
        return txn

    def remove_ended(self, end_offset: int) -> None:
        """Take out all transactions that have ended and whose marker lies below ``end_offset``."""
        kept = {
            offset: txn
            for offset, txn in self._txns.items()
            if txn.last_offset is None or txn.last_offset >= end_offset
        }
        if len(kept) < len(self._txns):
            self._txns = kept
            self.offsets = [offset for offset in self.offsets if offset in kept]

    def clear(self) -> None:
        """Forget all."""
        self._txns.clear()
        self.offsets.clear()


class FirstOpen:
    """Which of some transactions is the first one open, while they end in any order.

    ``begun`` has first offset and producer of each, in order of the offsets; no more of it is read
    than the answers need.
    """

    def __init__(self, begun: Iterator[tuple[int, int]]) -> None:
        self._unread = begun
        self._seen: deque[tuple[int, int]] = deque()
        self._ended: set[int] = set()

    def end(self, first_offset: int) -> None:
        """Count the transaction that began at ``first_offset`` no more."""
        self._ended.add(first_offset)

    def other_than(self, producer_id: int) -> int | None:
        """Return the first offset of the first that is open and not of this producer."""
        seen = self._seen
        while seen and seen[0][0] in self._ended:
            seen.popleft()
        for offset, owner in chain(seen, self._read()):
            if owner != producer_id and offset not in self._ended:
                return offset
        return None

    def _read(self) -> Iterator[tuple[int, int]]:
        for txn in self._unread:
            self._seen.append(txn)
            yield txn
