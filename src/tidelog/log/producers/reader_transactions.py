"""Transactions as the batches of a log show them, for readers that keep no producer state.

It is more lenient than producer state, which rejects what no broker writes: a reader has to show
such a log, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple

from tidelog.codec.shown_rows import Named, OrMinus1, TransactionalId
from tidelog.errors import InvalidArgument
from tidelog.lazy import np
from tidelog.log.reading.committed import AbortedTransaction

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tidelog.codec.layout import Buffer
    from tidelog.log.producers.producer_snapshot import ProducerSnapshotEntry
    from tidelog.records.batch_columns import BatchColumns
    from tidelog.records.file_records import Piece


class DecidedTransaction(NamedTuple):
    """An aborted transaction.

    Transactions that were committed are such values too, on the way. The transactional id is none
    of what a log knows.
    """

    producer_id: Annotated[OrMinus1, "Its producer."]
    first_offset: Annotated[int, "Offset of its first record."]
    last_offset: Annotated[int, Named("markerOffset"), "Offset of its abort marker."]
    transactional_id: TransactionalId = None


class Transactions:
    """Follows the batches of a log; ``open`` holds first offsets by producer."""

    def __init__(self, entries: Iterable[ProducerSnapshotEntry] = ()) -> None:
        """Begin with what a snapshot knows to be open."""
        self.open = {
            entry.producer_id: entry.txn_first_offset
            for entry in entries
            if entry.txn_first_offset >= 0
        }
        self.aborted: list[DecidedTransaction] = []
        self.abort_markers: set[tuple[int, int]] = set()
        """Producer and offset of each abort marker, also of those that ended nothing."""

    def last_stable_offset(self, end_offset: int) -> int:
        """Return the end (exclusive) of what is decided, below ``end_offset``."""
        return min(self.open.values(), default=end_offset)

    def aborted_from(self, start_offset: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that a reader from ``start_offset`` on may meet."""
        return [
            AbortedTransaction(txn.producer_id, txn.first_offset)
            for txn in self.aborted
            if txn.last_offset >= start_offset
        ]

    def follow(self, piece: Piece) -> None:
        """Take note of the next batches.

        Raises InvalidRecord or CorruptMessage for a marker that cannot be read.
        """
        if not piece.batches.has_transactional():
            return
        batches = piece.batches_in_data
        batches = batches.select(batches.is_transactional)
        markers = np.flatnonzero(batches.is_control).tolist()
        start = 0
        for index in (*markers, len(batches)):
            between = batches.slice(start, index)
            producers, firsts = np.unique(between.producer_id, return_index=True)
            for producer_id, first in zip(producers.tolist(), firsts.tolist(), strict=True):
                self.open.setdefault(producer_id, int(between.base_offset[first]))
            if index < len(batches) and batches.records_count[index]:
                self._end(batches, index, piece.data)
            start = index + 1

    def _end(self, batches: BatchColumns, index: int, data: Buffer) -> None:
        from tidelog.records.control import read_marker  # noqa: PLC0415 - few logs have markers

        producer_id = int(batches.producer_id[index])
        try:
            _, marker = read_marker(data, int(batches.position[index]))
        except InvalidArgument:
            return  # a control record of some other kind ends nothing
        first_offset = self.open.pop(producer_id, None)
        if marker.is_commit:
            return
        end = int(batches.base_offset[index])
        self.abort_markers.add((producer_id, end))
        if first_offset is not None:
            self.aborted.append(DecidedTransaction(producer_id, first_offset, end))
