"""All batches of a .log file with verified CRCs, checked by one or several threads.

Nothing in the file marks where batches begin, and recovery has no index to consult. Each thread but
the first therefore searches its part for a batch with a valid CRC. Because a record may itself
contain the bytes of a batch, the result of a thread counts only if the thread before it, walking
from batch to batch, ends exactly where that result begins. Otherwise a single thread checks the
rest, from where the previous thread ended. Kafka checks a segment on one thread.
"""

from __future__ import annotations

from contextlib import closing
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.codec.layout import byte_view
from tidelog.kernels import rows
from tidelog.lazy import np
from tidelog.records.array_rows import SLACK_BYTES
from tidelog.records.batch import BATCH_HEADER, INT32_MAX, LOG_OVERHEAD
from tidelog.records.batch_columns import BatchColumns
from tidelog.records.decoding.native_walk import walk_natively
from tidelog.records.file_records import FileRecords, piece_buffer
from tidelog.records.memory import walk

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from tidelog.env.files import OpenFile
    from tidelog.env.scheduler import Scheduler
    from tidelog.errors import CorruptMessage
    from tidelog.records.array_rows import Bytes, Ints
    from tidelog.records.file_records import Piece

PIECE_BYTES: Final = (1 << 20) + (1 << 16)
"""Bytes to read and check at a time: enough for most batches, and small enough for the cache."""

PART_BYTES: Final = 16 << 20
"""Initial size of a part, whose batches are passed on together, so that the headers of all batches
that fit in it are held in memory. Each part costs its reader some Python time, so with large
batches it grows, up to ``_MOST_PARTS`` times that; a part with too many headers ends early."""

_MOST_PARTS: Final = 16
_HELD_BATCHES: Final = 1 << 15
_SHARES: Final = 2
"""A part is at most this fraction of a thread's share of the remaining bytes, so that no thread
works alone for long at the end."""

LEAST_PART_BYTES: Final = 4 << 20
"""Below this size a second thread does not pay."""

_LARGE_BATCH_BYTES: Final = 4 << 20
"""A buffer grows up to a few batches of this size; larger ones are read one by one."""
_BATCHES_A_PIECE: Final = 4

_SEARCH_BYTES: Final = 64 << 10
_MAGIC_AT: Final = 16
_LENGTH_AT: Final = 8
_LAST_PIECE_BYTES: Final = 64 << 10


class Helpers(NamedTuple):
    """The scheduler that runs the threads, and the maximum number of threads."""

    scheduler: Scheduler
    threads: int


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


class _Part(NamedTuple):
    """The result of one thread: contiguous valid batches from byte ``start``.

    ``next_position`` is the byte after the last one; ``error`` is the problem there. ``is_last``
    means that no whole batch follows in the file.
    """

    start: int
    next_position: int
    found: CheckedBatches
    error: CorruptMessage | None
    is_last: bool


class BatchChecker:
    """The valid batches in bytes ``[0, end)`` of a file, up to the first invalid or torn one.

    ``base_offset`` is the segment's. Once ``pieces`` is exhausted, ``error`` is the problem that
    stopped it; None if it reached the end.
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
        """Yield the batches in pieces; the caller must close the generator. Raises OSError."""
        position = yield from self._checked_by_threads()
        while self.error is None and position < self._end:
            part = self._check_part(0, position, min(position + self._part_bytes, self._end))
            self._record_part(part, position)
            if len(part.found.batches):
                yield part.found
            position = part.next_position
            if part.is_last:
                return

    def _checked_by_threads(self) -> Generator[CheckedBatches, None, int]:
        """Yield batches while the parts of the threads join up; return the byte after the last."""
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
                self._record_part(part, position)
                if len(part.found.batches):
                    yield part.found
                position = part.next_position
                if part.error is not None or part.is_last:
                    return self._end
        return position

    def _tasks(self, threads: int) -> Iterator[Callable[[], _Part]]:
        """Divide the file into parts, each one when a thread is free to check it."""
        position = 0
        for number in count():
            left = self._end - position
            share = max(left // (threads * _SHARES), self._least_bytes)
            size = min(share, self._part_bytes, left)
            if not size:
                return
            yield partial(self._check_part, number, position, position + size)
            position += size

    def _record_part(self, part: _Part, position: int) -> None:
        """Keep the error found after a part, and adapt the size of the next part.

        The number of headers in a part should suit both its reader and the memory.
        """
        self.error = part.error
        number = max(len(part.found.batches), 1)
        wanted = _HELD_BATCHES * (part.next_position - position) // number
        self._part_bytes = min(max(wanted, self._first_bytes), _MOST_PARTS * self._first_bytes)

    def _check_part(self, number: int, start: int, stop: int) -> _Part:
        """Check the batches that start in ``[start, stop)``; part 0 starts with a batch.

        The last batch may end in the next part. A part whose first batch was found by searching
        includes that last batch only if it is of ordinary size: what was found may not be a real
        batch.
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
        """Return valid batches from ``start``, the byte after them, and the problem there.

        They are all batches in ``[start, stop)``, unless their headers need too much memory, and
        possibly the one that crosses ``stop`` but ends at or before ``limit``. Where compiled code
        stops, plain Python determines the problem.
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
        """Enlarge the buffer so that compiled code can read a batch of this size."""
        is_too_small = len(self._buffers[slot]) < batch_bytes + SLACK_BYTES
        if is_too_small and PIECE_BYTES < batch_bytes <= _LARGE_BATCH_BYTES:
            self._buffers[slot] = piece_buffer(_BATCHES_A_PIECE * batch_bytes)

    def _find_batch(self, start: int, stop: int, limit: int, buffer: Bytes) -> int:
        """Return the first byte in ``[start, stop)`` where a valid batch starts; -1 if none does.

        That batch ends at or before ``limit``. The search gives up once it has read as many bytes
        in vain as the part has, since the bytes of a record may look like the starts of any number
        of large batches.
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
        """Yield position and size of possible batches of magic 2, by offset, length and magic."""
        count = max(len(data) - BATCH_HEADER.size + 1, 0)
        positions = np.flatnonzero(data[_MAGIC_AT : _MAGIC_AT + count] == 2)
        # Offsets fit the segment, so the first one nearly always has the high half of its base.
        high = _int32_at(data, positions) - (self._base_offset >> 32)
        positions = positions[(high == 0) | (high == 1)]
        sizes = _int32_at(data, positions + _LENGTH_AT) + LOG_OVERHEAD
        fits = (sizes >= BATCH_HEADER.size) & (sizes <= INT32_MAX)
        yield from zip(positions[fits].tolist(), sizes[fits].tolist(), strict=True)


def _int32_at(data: Bytes, positions: Ints) -> Ints:
    """Return the big-endian 4-byte integers at ``positions``, unsigned."""
    four = data[positions[:, np.newaxis] + np.arange(4)].astype(np.int64)
    found: Ints = four @ np.array([1 << 24, 1 << 16, 1 << 8, 1])
    return found


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
        return CheckedBatches(batches, batches, np.empty(0, np.uint8))
    array = batches.array.copy()
    array[rows.POSITION] = -1
    is_control = batches.is_control
    ends = np.cumsum(batches.size[is_control])
    array[rows.POSITION, is_control] = ends - batches.size[is_control]
    return CheckedBatches(batches, BatchColumns(array), np.concatenate(data))
