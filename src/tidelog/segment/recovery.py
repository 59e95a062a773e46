"""Rebuilding a segment's indexes from its .log file, up to the first bad batch.

Owns the one pass over the file. Must not know how the segment is opened, or what the observer
keeps. Kafka: ``LogSegment.recover``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from tidelog.errors import CorruptMessage, InvalidRecord
from tidelog.segment.checked_batches import BatchChecker
from tidelog.segment.indexing import IndexState, PlannedEntries, plan_entries
from tidelog.segment.offset_index import check_relative

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.env.files import OpenFile
    from tidelog.records.memory import BatchColumns
    from tidelog.records.table import Bytes
    from tidelog.segment.checked_batches import CheckedBatches, Helpers
    from tidelog.segment.reading import SegmentView
    from tidelog.segment.txn_index import AbortedTxn, TransactionIndex

_log = logging.getLogger(__name__)


class RecoveryObserver(Protocol):
    """Who else wants to see each batch that recovery keeps: producer state, leader epochs."""

    def observe(
        self, batches: BatchColumns, data: Bytes, aborted: Callable[[AbortedTxn], object]
    ) -> None:
        """Take note of whole, valid batches, in the order of the file.

        Args:
            batches: with positions in ``data``; batches of magic 0 and 1 too.
            data: valid until the call returns; it may hold nothing but the control batches, and
                then the positions of others mean nothing.
            aborted: to be told of each transaction that a marker among them aborts, in order.

        Raises:
            CorruptMessage: a control batch does not read; ``position`` is its place in ``data``.
                Recovery keeps it, as Kafka does, and cuts what follows.
            InvalidRecord: likewise.
        """


class Recovered(NamedTuple):
    """How many bytes hold valid batches, and what is to be written of them.

    ``state`` is what the next batch has to know. ``reason`` says what is wrong behind the valid
    bytes; empty where the file just ends.
    """

    valid_bytes: int
    state: IndexState
    entries: list[PlannedEntries]
    aborted: list[AbortedTxn]
    reason: str = ""

    def write_to(self, view: SegmentView, txn_index: TransactionIndex) -> None:
        """Fill the indexes, which the caller has reset; OffsetsOutOfOrder if offsets go back."""
        if self.entries:
            PlannedEntries.joined(self.entries).append_to(view.offset_index, view.time_index)
        txn_index.append_all(self.aborted)


class Cut(NamedTuple):
    """Bytes ``[position, end)`` of a .log file that recovery is about to cut off."""

    file: OpenFile
    position: int
    end: int
    reason: str


def check(
    view: SegmentView,
    interval_bytes: int,
    observer: RecoveryObserver | None,
    helpers: Helpers | None = None,
) -> Recovered:
    """Read the bytes of ``view`` and say what its indexes have to hold; changes no file.

    So a log that its observer refuses stays as it is. With ``helpers`` several threads check the
    bytes; the observer is called on this one.

    Raises:
        SegmentOffsetOverflow: a batch's last offset does not fit the segment.
    """
    state = IndexState(offset_of_max_timestamp=view.base_offset)
    checker = BatchChecker(view.file, view.size_bytes, view.base_offset, helpers)
    valid_bytes = 0
    entries: list[PlannedEntries] = []
    aborted: list[AbortedTxn] = []
    reason: CorruptMessage | InvalidRecord | None = None
    for piece in checker.pieces():
        check_relative(view.base_offset, piece.batches.last_offset - view.base_offset)
        kept, reason = _observe(piece, observer, aborted)
        plan = plan_entries(state, kept, valid_bytes, interval_bytes)
        entries.append(plan)
        state = plan.after
        valid_bytes = int(kept.end[-1])
        if reason is not None:
            break
    reason = reason or checker.error
    if reason is not None:
        cut = view.file.path, valid_bytes
        _log.warning("segment-cut path=%s position=%d reason=%s", *cut, reason.reason)
    why = "" if reason is None else reason.reason
    return Recovered(valid_bytes, state, entries, aborted, why)


def _observe(
    piece: CheckedBatches, observer: RecoveryObserver | None, aborted: list[AbortedTxn]
) -> tuple[BatchColumns, CorruptMessage | InvalidRecord | None]:
    """Show a piece to the observer; return the batches to keep, and what the observer refused."""
    if observer is None:
        return piece.batches, None
    try:
        observer.observe(piece.in_data, piece.data, aborted.append)
    except (CorruptMessage, InvalidRecord) as error:
        refused = np.flatnonzero(piece.in_data.position == error.position)
        if not len(refused):
            raise
        return piece.batches.slice(0, int(refused[0]) + 1), error
    return piece.batches, None
