"""Rebuilding a segment's indexes from its .log file, up to the first bad batch.

Kafka: ``LogSegment.recover``.
"""

from __future__ import annotations

import logging
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from tidelog.errors import CorruptMessage, InvalidRecord, SegmentOffsetOverflow
from tidelog.records.file_records import FileRecords
from tidelog.segment.checked_batches import BatchChecker
from tidelog.segment.indexing import IndexState, PlannedEntries, plan_entries
from tidelog.segment.offset_rules import are_usual, first_impossible, first_too_far, reason_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.env.files import OpenFile
    from tidelog.records.array_rows import Bytes
    from tidelog.records.memory import BatchColumns
    from tidelog.segment.checked_batches import CheckedBatches, Helpers
    from tidelog.segment.segment_reads import SegmentView
    from tidelog.segment.txn_index import AbortedTxn, TransactionIndex

_log = logging.getLogger(__name__)


class RecoveryObserver(Protocol):
    """Receives each batch that recovery keeps, for producer state or leader epochs."""

    def observe(
        self, batches: BatchColumns, data: Bytes, aborted: Callable[[AbortedTxn], object]
    ) -> None:
        """Process valid batches, in file order.

        Args:
            batches: their headers, also of magic 0 and 1; control batches have positions in
                ``data``, the positions of all others have no meaning.
            data: the control batches among them.
            aborted: called for each transaction that a marker among them aborts, in order.

        Raises:
            CorruptMessage: a control batch cannot be read; ``position`` is where it starts in
                ``data``. Recovery keeps it, as Kafka does, and truncates after it.
            InvalidRecord: likewise.
        """


class Recovered(NamedTuple):
    """The valid part of a file, and what its indexes should contain.

    ``state`` is that of the index rule after the last batch, and ``next_offset`` the offset after
    it. ``reason`` describes the problem after the valid bytes; it is empty if the file just ends.
    """

    valid_bytes: int
    state: IndexState
    entries: list[PlannedEntries]
    aborted: list[AbortedTxn]
    next_offset: int
    reason: str = ""

    def write_to(self, view: SegmentView, txn_index: TransactionIndex) -> None:
        """Write the indexes, which the caller has reset."""
        if self.entries:
            PlannedEntries.joined(self.entries).append_to(view.offset_index, view.time_index)
        txn_index.append_all(self.aborted)


class Cut(NamedTuple):
    """Bytes ``[position, end)`` of a .log file that recovery is about to truncate.

    The log ends at ``next_offset`` then.
    """

    file: OpenFile
    position: int
    end: int
    next_offset: int
    reason: str


def check(
    view: SegmentView,
    interval_bytes: int,
    observer: RecoveryObserver | None,
    helpers: Helpers | None = None,
) -> Recovered:
    """Read the bytes of ``view`` and return what its indexes should contain; changes no file.

    A log that its observer rejects therefore stays unchanged. With ``helpers``, several threads
    check the bytes; the observer is called on this thread. A batch with impossible offsets counts
    as corrupt, like one with a wrong CRC.

    Raises:
        SegmentOffsetOverflow: a batch's last offset does not fit the segment, and the offsets
            after it increase: old versions of Kafka wrote such segments.
    """
    state = IndexState(offset_of_max_timestamp=view.base_offset)
    checker = BatchChecker(view.file, view.size_bytes, view.base_offset, helpers)
    valid_bytes, last_offset = 0, view.base_offset - 1
    entries: list[PlannedEntries] = []
    aborted: list[AbortedTxn] = []
    reason: CorruptMessage | InvalidRecord | None = None
    with closing(checker.pieces()) as pieces:
        for piece in pieces:
            possible, reason = _possible(piece, view, last_offset)
            kept, refused = _observe(possible, observer, aborted)
            reason = refused or reason
            if len(kept):
                plan = plan_entries(state, kept, valid_bytes, interval_bytes)
                entries.append(plan)
                state = plan.after
                valid_bytes, last_offset = int(kept.end[-1]), int(kept.last_offset[-1])
            if reason is not None:
                break
    reason = reason or checker.error
    if reason is not None:
        cut = view.file.path, valid_bytes
        _log.warning("segment-truncated path=%s position=%d reason=%s", *cut, reason.reason)
    why = "" if reason is None else reason.reason
    return Recovered(valid_bytes, state, entries, aborted, last_offset + 1, why)


def _possible(
    piece: CheckedBatches, view: SegmentView, last_offset: int
) -> tuple[CheckedBatches, CorruptMessage | None]:
    """Return the batches before the first one with impossible offsets, and the reason."""
    batches, base_offset = piece.batches, view.base_offset
    if are_usual(batches, base_offset, last_offset):
        return piece, None
    bad = first_impossible(batches, base_offset, last_offset)
    far = first_too_far(batches, base_offset)
    if far is not None and (bad is None or far < bad):
        position, offset = int(batches.position[far]), int(batches.last_offset[far])
        if _rises(view, position):
            raise SegmentOffsetOverflow(base_offset, offset)
        bad = far
    if bad is None:
        return piece, None
    reason = CorruptMessage(reason_of(batches, bad, base_offset), int(batches.position[bad]))
    before = piece._replace(batches=batches.slice(0, bad), in_data=piece.in_data.slice(0, bad))
    return before, reason


def _rises(view: SegmentView, position: int) -> bool:
    """Return whether all offsets from the batch at ``position`` are possible and increase."""
    last_offset = view.base_offset - 1
    for piece in FileRecords(view.file, position, view.size_bytes).pieces(check_crc=True):
        if first_impossible(piece.batches, view.base_offset, last_offset) is not None:
            return False
        last_offset = int(piece.batches.last_offset[-1])
    return True


def _observe(
    piece: CheckedBatches, observer: RecoveryObserver | None, aborted: list[AbortedTxn]
) -> tuple[BatchColumns, CorruptMessage | InvalidRecord | None]:
    """Pass a piece to the observer; return the batches to keep, and the observer's error."""
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
