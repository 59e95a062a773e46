"""All batches of a .log file with their CRCs checked, by one thread or by several at once.

Owns how the bytes of one file are divided among threads. Must not know indexes or what batches
mean. Kafka checks a segment on one thread.

Nothing in the file says where batches begin, and recovery has no index to ask. So each thread but
the first looks for a batch that begins in its part and has the right CRC. A record may itself
hold the bytes of a batch; therefore what a thread found counts only if the thread before it,
walking from batch to batch, ends just there. Else one thread checks the rest, from where that one
ended.
"""

from __future__ import annotations

from contextlib import closing
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidelog.codec.layout import byte_view
from tidelog.kernels import rows
from tidelog.records.batch import BATCH_HEADER, INT32_MAX, LOG_OVERHEAD
from tidelog.records.file_records import FileRecords, piece_buffer
from tidelog.records.memory import BatchColumns, walk
from tidelog.records.native_walk import walk_natively
from tidelog.records.unpacked import SLACK_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from tidelog.env.files import OpenFile
    from tidelog.env.scheduler import Scheduler
    from tidelog.errors import CorruptMessage
    from tidelog.records.array_rows import Bytes, Ints
    from tidelog.records.file_records import Piece

PIECE_BYTES: Final = (1 << 20) + (1 << 16)
"""Bytes read and walked at a time: as many as stay in a processor's cache, and most batches."""

PART_BYTES: Final = 16 << 20
"""Bytes whose batches are handed on together, at first: the headers of as many batches as may fit
are held in memory. Where batches are large, it becomes up to ``_MOST_PARTS`` times that, for each
part costs its reader some Python; such a part ends early if it holds more of them all the same."""

_MOST_PARTS: Final = 16
_HELD_BATCHES: Final = 1 << 15
_SHARES: Final = 2
"""A part is at most this part of a thread's share of what is left, so that none works alone for
long at the end."""

LEAST_PART_BYTES: Final = 4 << 20
"""Below that a second thread does not pay."""

_LARGE_BATCH_BYTES: Final = 4 << 20
"""A buffer grows to some batches of up to that; larger ones are read one by one."""
_BATCHES_A_PIECE: Final = 4

_SEARCH_BYTES: Final = 64 << 10
_MAGIC_AT: Final = 16
_LENGTH_AT: Final = 8
_LAST_PIECE_BYTES: Final = 64 << 10


class Helpers(NamedTuple):
    """Who runs the work of several threads, and how many there may be."""

    scheduler: Scheduler
    threads: int


class CheckedBatches(NamedTuple):
    """Some good batches of the file, in order.

    ``batches`` has positions in the file. ``data`` holds the control batches among them and no
    others: ``in_data`` has the positions of those in it, and of the others any.
    """

    batches: BatchColumns
    in_data: BatchColumns
    data: Bytes


class _Kept(NamedTuple):
    """Some good batches, and the bytes of the control batches among them."""

    batches: BatchColumns
    controls: list[Bytes]


class _Part(NamedTuple):
    """What one thread found: good batches from ``start`` on, without a hole.

    ``next_position`` is behind the last; ``error`` is what is wrong there. ``is_last``: no whole
    batch follows in the file.
    """

    start: int
    next_position: int
    found: CheckedBatches
    error: CorruptMessage | None
    is_last: bool


class BatchChecker:
    """The good batches in bytes ``[0, end)`` of a file, up to the first bad or torn one.

    ``base_offset`` is the segment's. After ``pieces`` ran to its end, ``error`` says what stopped
    it, if not the end of the bytes.
    """

    def __init__(
        self,
        file: OpenFile,
        end: int,
        base_offset: int,
        helpers: Helpers | None = None,
        *,
        part_bytes: int = PART_BYTES,
    ) -> None:
        self.error: CorruptMessage | None = None
        self._file = file
        self._end = end
        self._base_offset = base_offset
        self._helpers = helpers if helpers is None or helpers.threads > 1 else None
        self._first_bytes = self._part_bytes = part_bytes
        self._least_bytes = min(LEAST_PART_BYTES, part_bytes)
        self._most_batches = part_bytes // BATCH_HEADER.size
        self._buffers = [piece_buffer(min(PIECE_BYTES, end))]

    def pieces(self) -> Generator[CheckedBatches, None, None]:
        """Yield the batches, some at a time; to be closed by the caller. Raises OSError."""
        position = yield from self._checked_by_threads()
        while self.error is None and position < self._end:
            part = self._check_part(0, position, min(position + self._part_bytes, self._end))
            self._take_note(part, position)
            if len(part.found.batches):
                yield part.found
            position = part.next_position
            if part.is_last:
                return

    def _checked_by_threads(self) -> Generator[CheckedBatches, None, int]:
        """Yield batches as long as parts that threads checked join up; return the byte behind."""
        helpers, position = self._helpers, 0
        if helpers is None or self._end < helpers.threads * self._least_bytes:
            return position
        self._buffers = [piece_buffer(PIECE_BYTES) for _ in range(helpers.threads + 1)]
        tasks = self._tasks(helpers.threads)
        parts = helpers.scheduler.run_ahead("segment-recovery", tasks, helpers.threads)
        with closing(parts):
            for part in parts:
                if part.start != position:
                    break
                self._take_note(part, position)
                if len(part.found.batches):
                    yield part.found
                position = part.next_position
                if part.error is not None or part.is_last:
                    return self._end
        return position

    def _tasks(self, threads: int) -> Iterator[Callable[[], _Part]]:
        """Cut the file into parts, each when somebody is free to check it."""
        position = 0
        for number in count():
            left = self._end - position
            share = max(left // (threads * _SHARES), self._least_bytes)
            size = min(share, self._part_bytes, left)
            if not size:
                return
            yield partial(self._check_part, number, position, position + size)
            position += size

    def _take_note(self, part: _Part, position: int) -> None:
        """Keep what is wrong behind a part, and let the next be of a size that suits.

        Their headers should be neither too few for the reader nor too many for memory.
        """
        self.error = part.error
        number = max(len(part.found.batches), 1)
        wanted = _HELD_BATCHES * (part.next_position - position) // number
        self._part_bytes = min(max(wanted, self._first_bytes), _MOST_PARTS * self._first_bytes)

    def _check_part(self, number: int, start: int, stop: int) -> _Part:
        """Check the batches that begin in ``[start, stop)``; part 0 begins with a batch.

        The last of them may end in the next part. A part whose beginning was only found takes that
        one if it is of usual size: what is found may be no batch of this file.
        """
        slot = number % len(self._buffers)
        limit = self._end
        if number:
            limit = min(stop + self._first_bytes, self._end)
            start = self._find_batch(start, stop, limit, self._buffers[slot])
            if start < 0:
                return _Part(-1, -1, _of_part([]), None, is_last=False)
        found, position, error = self._check_bytes(start, stop, limit, slot)
        if error is not None or position >= stop:
            is_last = position == self._end
            return _Part(start, position, _of_part(found), error, is_last)
        records = FileRecords(self._file, position, limit)
        piece = next(records.pieces(_LAST_PIECE_BYTES, check_crc=True), None)
        if piece is None:
            is_last = limit == self._end
            return _Part(start, position, _of_part(found), records.error, is_last)
        found.append(_without_data(piece._replace(batches=piece.batches.slice(0, 1))))
        position += int(piece.batches.size[0])
        return _Part(start, position, _of_part(found), None, is_last=position == self._end)

    def _check_bytes(
        self, start: int, stop: int, limit: int, slot: int
    ) -> tuple[list[_Kept], int, CorruptMessage | None]:
        """Return good batches from ``start`` on, the byte behind them, and what is wrong there.

        All that lie in ``[start, stop)`` are found, unless their headers take too much memory, and
        perhaps the one that ends behind it, below ``limit``. What makes compiled code stop is
        looked at by plain code.
        """
        found: list[_Kept] = []
        position, room = start, self._most_batches
        while position < stop and room > 0:
            buffer = self._buffers[slot]
            native = walk_natively(self._file, position, stop, limit, buffer, most=room)
            room -= len(native.batches)
            if native.next_position > position:
                found.append(_Kept(native.batches, native.controls))
            if native.next_position >= stop or room <= 0:
                return found, native.next_position, None
            records = FileRecords(self._file, native.next_position, stop)
            pieces = records.pieces(PIECE_BYTES, check_crc=True, buffer=buffer)
            piece = next(pieces, None)
            if piece is not None:
                found.append(_without_data(piece))
                room -= len(piece.batches)
                self._make_room(slot, int(piece.batches.size.max()))
            position = records.next_position
            if piece is None or records.error is not None:
                return found, position, records.error
        return found, position, None

    def _make_room(self, slot: int, batch_bytes: int) -> None:
        """Let compiled code take the next batch that is as large as this one."""
        is_too_small = len(self._buffers[slot]) < batch_bytes + SLACK_BYTES
        if is_too_small and PIECE_BYTES < batch_bytes <= _LARGE_BATCH_BYTES:
            self._buffers[slot] = piece_buffer(_BATCHES_A_PIECE * batch_bytes)

    def _find_batch(self, start: int, stop: int, limit: int, buffer: Bytes) -> int:
        """Return the first byte in ``[start, stop)`` at which a good batch begins; -1 for none.

        That batch ends at or before ``limit``. The search also gives up when it has read as much as
        the part has for what was no batch: bytes in a record may look like the beginnings of any
        number of large ones.
        """
        view = byte_view(buffer)
        left = limit - start
        for position in range(start, stop, _SEARCH_BYTES):
            room = min(_SEARCH_BYTES + BATCH_HEADER.size, self._end - position)
            filled = self._file.pread_into(view[:room], position)
            for at, size in self._candidates(buffer[:filled]):
                if position + at + size <= limit:
                    left -= size
                    if left < 0:
                        return -1
                    data = self._file.pread(size, position + at)
                    if len(walk(data, check_crc=True).batches) == 1:
                        return position + at
        return -1

    def _candidates(self, data: Bytes) -> Iterator[tuple[int, int]]:
        """Yield place and size of what may be a batch of magic 2, by offset, length and magic."""
        count = max(len(data) - BATCH_HEADER.size + 1, 0)
        places = np.flatnonzero(data[_MAGIC_AT : _MAGIC_AT + count] == 2)
        # The last offset fits the segment, so the high half of the first can hardly be another.
        high = _int32_at(data, places) - (self._base_offset >> 32)
        places = places[(high == 0) | (high == 1)]
        sizes = _int32_at(data, places + _LENGTH_AT) + LOG_OVERHEAD
        fits = (sizes >= BATCH_HEADER.size) & (sizes <= INT32_MAX)
        yield from zip(places[fits].tolist(), sizes[fits].tolist(), strict=True)


def _int32_at(data: Bytes, places: Ints) -> Ints:
    """Return the big-endian numbers of four bytes that stand at ``places``, unsigned."""
    four = data[places[:, np.newaxis] + np.arange(4)].astype(np.int64)
    found: Ints = four @ np.array([1 << 24, 1 << 16, 1 << 8, 1])
    return found


def _without_data(piece: Piece) -> _Kept:
    """Keep of a piece's bytes, which the next one overwrites, those of the control batches."""
    is_control = piece.batches.is_control
    if not is_control.any():
        return _Kept(piece.batches, [])
    controls = piece.batches.select(is_control)
    starts = controls.position - piece.data_position
    pairs = zip(starts.tolist(), (starts + controls.size).tolist(), strict=True)
    return _Kept(piece.batches, [piece.data[start:end].copy() for start, end in pairs])


def _of_part(found: list[_Kept]) -> CheckedBatches:
    """Put what was kept of the pieces of a part behind each other."""
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
