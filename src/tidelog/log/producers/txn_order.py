"""Transactions of one log in the order of their first offsets.

Kafka: the ``TreeMap`` fields of ``ProducerStateManager``.
"""

from __future__ import annotations

from bisect import bisect_left, insort
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

    def clear(self) -> None:
        """Forget all."""
        self._txns.clear()
        self.offsets.clear()
