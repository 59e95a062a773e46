"""Batches that a log may hold: their records decode, and their markers can be replayed.

A valid checksum does not say so, and a log with a batch that is refused cannot be opened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tidelog.errors import TidelogError
from tidelog.log.producers.replay import check_markers
from tidelog.log.reading.record_count import count_records
from tidelog.manager.rescue.rescued_partition import LeftOut
from tidelog.records.decoding.bounded_decode import decode_bounded

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.records.batch_columns import BatchColumns
    from tidelog.records.file_records import Piece


class ReadableBatches:
    """Leaves out what cannot be read of the batches of one log, in order; reports it."""

    def __init__(self, leave_out: Callable[[LeftOut], None]) -> None:
        self._leave_out = leave_out
        self._open: set[int] = set()

    def of(self, piece: Piece) -> Piece:
        """Return the piece without batches that are refused."""
        try:
            _check(piece)
        except TidelogError:
            kept = [at for at in range(len(piece.batches)) if self._is_readable(piece, at)]
            piece = piece._replace(batches=piece.batches.select(np.array(kept, np.int64)))
        return self._in_transactions(piece)

    def _is_readable(self, piece: Piece, at: int) -> bool:
        one = piece._replace(batches=piece.batches.slice(at, at + 1))
        try:
            _check(one)
        except TidelogError as error:
            self._report(one, f"records cannot be read: {getattr(error, 'reason', error)}")
            return False
        return True

    def _in_transactions(self, piece: Piece) -> Piece:
        """Leave out plain batches of producers with an open transaction, which none writes."""
        batches = piece.batches
        is_transactional = batches.is_transactional
        if not self._open and not is_transactional.any():
            return piece
        refused = []
        ours = np.flatnonzero(batches.producer_id >= 0)
        columns = (batches.producer_id, is_transactional, batches.is_control, batches.records_count)
        for at, producer, is_part, is_control, count in zip(
            ours.tolist(), *(column[ours].tolist() for column in columns), strict=True
        ):
            if is_control and count:
                self._open.discard(producer)
            elif is_part:
                self._open.add(producer)
            elif producer in self._open:
                refused.append(at)
        for at in refused:
            one = piece._replace(batches=batches.slice(at, at + 1))
            self._report(one, "a plain batch inside a transaction of its producer")
        kept = np.delete(np.arange(len(batches)), refused)
        return piece._replace(batches=batches.select(kept)) if refused else piece

    def _report(self, one: Piece, reason: str) -> None:
        batch = one.batches
        where = one.path, int(batch.position[0]), int(batch.size[0])
        offsets = batch.first_offset, batch.next_offset
        self._leave_out(LeftOut(*where, 0, *offsets, reason, is_loss=True))


def _check(piece: Piece) -> None:
    batches = piece.batches_in_data
    for _ in decode_bounded(piece.data, batches):
        pass
    check_markers(batches, piece.data)


def records_of(piece: Piece) -> int:
    """Return the records in some readable batches, without control records."""
    batches: BatchColumns = piece.batches
    every = np.ones(len(batches), np.bool_)
    first = min(batches.first_offset, 0)
    counted = count_records([(piece, every)], first, batches.next_offset)
    return counted.records
