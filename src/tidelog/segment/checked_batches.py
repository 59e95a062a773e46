"""All batches of a .log file with verified CRCs, and the bytes of the control batches in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidelog.kernels import rows
from tidelog.records.array_rows import SLACK_BYTES
from tidelog.records.batch import BATCH_HEADER
from tidelog.records.batch_columns import BatchColumns
from tidelog.records.decoding.native_walk import walk_natively
from tidelog.records.file_records import FileRecords, piece_buffer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.env.files import OpenFile
    from tidelog.errors import CorruptMessage
    from tidelog.records.array_rows import Bytes
    from tidelog.records.file_records import Piece

PIECE_BYTES: Final = (1 << 20) + (1 << 16)
"""Bytes to read and check at a time: enough for most batches, and small enough for the cache."""

PART_BYTES: Final = 16 << 20
"""Initial size of a part, whose batches are passed on together, so that the headers of all batches
that fit in it are held in memory. Each part costs its reader some Python time, so with large
batches it grows, up to ``_MOST_PARTS`` times that; a part with too many headers ends early."""

_MOST_PARTS: Final = 16
_HELD_BATCHES: Final = 1 << 15
_LARGE_BATCH_BYTES: Final = 4 << 20
"""A buffer grows up to a few batches of this size; larger ones are read one by one."""
_BATCHES_A_PIECE: Final = 4


class CheckedBatches(NamedTuple):
    """Valid batches of the file, in order.

    ``batches`` has positions in the file. ``data`` contains only the control batches among them;
    ``in_data`` has their positions in ``data``, and arbitrary ones for all other batches.
    """

    batches: BatchColumns
    in_data: BatchColumns
    data: Bytes


class _Kept(NamedTuple):
    """Valid batches, and the bytes of the control batches among them."""

    batches: BatchColumns
    controls: list[Bytes]


class BatchChecker:
    """The valid batches in bytes ``[0, end)`` of a file, up to the first invalid or torn one.

    Once ``pieces`` is exhausted, ``error`` is the problem that stopped it; None if it reached the
    end, or a batch that is not whole.
    """

    def __init__(self, file: OpenFile, end: int, *, part_bytes: int = PART_BYTES) -> None:
        self.error: CorruptMessage | None = None
        self._file = file
        self._end = end
        self._position = 0
        self._first_bytes = self._part_bytes = part_bytes
        self._most_batches = part_bytes // BATCH_HEADER.size
        self._buffer = piece_buffer(min(PIECE_BYTES, end))

    def pieces(self) -> Iterator[CheckedBatches]:
        """Yield the batches in pieces; raises OSError."""
        is_end = False
        while not is_end and self._position < self._end:
            start = self._position
            found: list[_Kept] = []
            is_end = self._check_part(found)
            count = sum(len(kept.batches) for kept in found)
            if count:
                yield _of_part(found)
            # The number of headers in a part should suit both its reader and the memory.
            wanted = _HELD_BATCHES * (self._position - start) // max(count, 1)
            self._part_bytes = min(max(wanted, self._first_bytes), _MOST_PARTS * self._first_bytes)

    def _check_part(self, found: list[_Kept]) -> bool:
        """Add the next batches, as many as a part has; return whether no whole one follows.

        Where compiled code stops, plain Python determines the problem.
        """
        stop, room = min(self._position + self._part_bytes, self._end), self._most_batches
        while self._position < stop and room > 0:
            native = walk_natively(
                *(self._file, self._position, stop, self._end, self._buffer), most=room
            )
            room -= len(native.batches)
            if native.next_position > self._position:
                found.append(_Kept(native.batches, native.controls))
                self._position = native.next_position
            if self._position >= stop or room <= 0:
                break
            records = FileRecords(self._file, self._position, self._end)
            pieces = records.pieces(PIECE_BYTES, check_crc=True, buffer=self._buffer)
            piece = next(pieces, None)
            if piece is not None:
                found.append(_without_data(piece))
                room -= len(piece.batches)
                self._make_room(int(piece.batches.size.max()))
            self._position, self.error = records.next_position, records.error
            if piece is None or self.error is not None:
                return True
        return False

    def _make_room(self, batch_bytes: int) -> None:
        """Enlarge the buffer so that compiled code can read a batch of this size."""
        is_too_small = len(self._buffer) < batch_bytes + SLACK_BYTES
        if is_too_small and PIECE_BYTES < batch_bytes <= _LARGE_BATCH_BYTES:
            self._buffer = piece_buffer(_BATCHES_A_PIECE * batch_bytes)


def _without_data(piece: Piece) -> _Kept:
    """Keep only the control batches of a piece, whose buffer the next piece overwrites."""
    is_control = piece.batches.is_control
    if not is_control.any():
        return _Kept(piece.batches, [])
    controls = piece.batches.select(is_control)
    starts = controls.position - piece.data_position
    pairs = zip(starts.tolist(), (starts + controls.size).tolist(), strict=True)
    return _Kept(piece.batches, [piece.data[start:end].copy() for start, end in pairs])


def _of_part(found: list[_Kept]) -> CheckedBatches:
    """Concatenate what was kept of the pieces of a part."""
    batches = BatchColumns.joined([kept.batches for kept in found])
    data = [part for kept in found for part in kept.controls]
    if not data:
        return CheckedBatches(batches, batches, _NO_BYTES)
    array = batches.array.copy()
    array[rows.POSITION] = -1
    is_control = batches.is_control
    ends = np.cumsum(batches.size[is_control])
    array[rows.POSITION, is_control] = ends - batches.size[is_control]
    return CheckedBatches(batches, BatchColumns(array), np.concatenate(data))


_NO_BYTES: Final = np.empty(0, np.uint8)
