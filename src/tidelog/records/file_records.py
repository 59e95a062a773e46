"""Record batches in a file: read in large pieces into one buffer, or passed on as a slice.

Kafka: ``FileRecords`` and ``FileLogInputStream``.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.codec.layout import byte_view
from tidelog.env.attempts import Closable
from tidelog.errors import CorruptMessage
from tidelog.kernels import rows
from tidelog.lazy import np
from tidelog.records.array_rows import SLACK_BYTES, as_bytes
from tidelog.records.batch import BATCH_HEADER, BATCH_PREFIX, LOG_OVERHEAD, MAGIC_V2, entry_length
from tidelog.records.damage.neighbours import base_offset_at, settle
from tidelog.records.damage.sound_offsets import Damaged
from tidelog.records.memory import walk

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.codec.layout import Buffer
    from tidelog.env.files import FileSystem, OpenFile
    from tidelog.records.array_rows import Bytes
    from tidelog.records.batch import BatchHeader
    from tidelog.records.batch_columns import BatchColumns
    from tidelog.records.damage.sound_offsets import OffsetBounds

PIECE_BYTES: Final = 1 << 20
"""Bytes read at a time: the fastest size measured, see benchmarks."""

_SMALL_BYTES: Final = 64 << 10
"""Of so few bytes the batches are found in plain code, in less time than it takes to load NumPy."""


def piece_buffer(piece_bytes: int) -> Bytes:
    """Return a buffer for pieces of ``piece_bytes`` bytes, which holds anything at first."""
    # Not zeros: to clear a block that was used before takes a sixth of the time of reading into it.
    return np.empty(piece_bytes + SLACK_BYTES, np.uint8)


def _new_buffer(size_bytes: int) -> Buffer:
    """Return a buffer for a piece; a small one does not need arrays."""
    if size_bytes > _SMALL_BYTES:
        return piece_buffer(size_bytes)
    return memoryview(bytearray(size_bytes + SLACK_BYTES))


class Piece(NamedTuple):
    """Some whole batches of a file, which lie in ``buffer`` until the next piece overwrites it.

    Positions in ``batches`` are positions in the file; ``buffer`` begins at byte ``data_position``.
    """

    buffer: Buffer
    batches: BatchColumns
    data_position: int
    path: str

    @property
    def data(self) -> Bytes:
        """The buffer as an array."""
        return as_bytes(self.buffer)

    @property
    def batches_in_data(self) -> BatchColumns:
        """The batches with positions in ``data``, as the decoders require."""
        return self.batches.shifted(-self.data_position)

    def between(self, start_offset: int, end_offset: int) -> Piece | None:
        """Return the part whose batches may hold offsets of ``[start, end)``, None if none may."""
        batches = self.batches
        numbers = range(len(batches))
        first = bisect_left(numbers, start_offset, key=lambda at: batches.row(at)[rows.LAST_OFFSET])
        last = bisect_left(numbers, end_offset, key=lambda at: batches.row(at)[rows.BASE_OFFSET])
        if last < len(batches) and batches.row(last)[rows.MAGIC] < MAGIC_V2:
            last += 1  # its header has the last offset only
        return self._replace(batches=batches.slice(first, last)) if first < last else None


class FileRecords(Closable):
    """The batches in bytes ``[start, end)`` of a file, which is borrowed unless ``open`` opened it.

    After ``pieces`` or ``headers`` is exhausted, ``error`` is what stopped it, None at the end of
    the bytes, and ``trailing_bytes`` is the number of bytes from there on that are not in a batch:
    a torn tail if there is no error.

    With ``bounds``, the offsets that its batches may have, one with other offsets is invalid, and
    so is one that the next header contradicts, which may lie beyond ``end``.
    """

    def __init__(
        self,
        file: OpenFile,
        start: int = 0,
        end: int | None = None,
        *,
        bounds: OffsetBounds | None = None,
    ) -> None:
        self.file = file
        self.bounds = bounds
        self._owns_file = False
        self.start = start
        self.end = file.size() if end is None else end
        self.next_position = start
        self.error: CorruptMessage | None = None
        self.damaged_end = start
        """Where the damage ends that ``error`` is about; ``next_position`` if that is unknown."""
        self.is_oversized = False
        """Whether ``error`` is a batch of more than ``max_batch_bytes``."""
        self.likely_end: int | None = None
        """A byte after all that is wanted, if known: one read ends there, since no more is needed.

        Where that is inside a batch, or more is wanted, the next read continues.
        """

    @classmethod
    def open(cls, fs: FileSystem, path: str) -> FileRecords:
        """Open a whole file, read-only; ``close`` closes it."""
        records = cls(fs.open(path, "r"))
        records._owns_file = True
        return records

    def close(self) -> None:
        """Close the file if ``open`` opened it."""
        if self._owns_file:
            self._owns_file = False
            self.file.close()

    @property
    def lowest(self) -> int:
        """The lowest offset that a batch may have."""
        return self.bounds.lowest if self.bounds is not None else 0

    @property
    def trailing_bytes(self) -> int:
        """Bytes from the first one that is not in a batch to the end."""
        return self.end - self.next_position

    def pieces(
        self,
        piece_bytes: int = PIECE_BYTES,
        start: int | None = None,
        *,
        check_crc: bool = False,
        buffer: Buffer | None = None,
        first_bytes: int | None = None,
        max_batch_bytes: int | None = None,
    ) -> Iterator[Piece]:
        """Yield the batches from byte ``start`` on, some at a time, until one is invalid or torn.

        Args:
            piece_bytes: bytes to read at once; a larger batch makes one larger piece, limited to
                the size of the file.
            start: first byte of a batch; None: the start of the records.
            check_crc: whether a batch with a wrong CRC is invalid.
            buffer: the buffer to read into, from ``piece_buffer``; replaced if it is too small.
            first_bytes: bytes to read first, where few may do; None: as ``piece_bytes``.
            max_batch_bytes: a batch that claims to be larger, and is larger than a piece, is
                invalid, and no memory is taken for it; None: there is no limit but the file's size.

        Errors are not raised but stored in ``error``, after all batches before them have been
        yielded. Raises OSError.
        """
        self.next_position = self.start if start is None else start
        self.error, self.is_oversized = None, False
        piece_bytes = max(piece_bytes, BATCH_HEADER.size)
        needed, bounds = first_bytes or piece_bytes, self.bounds
        if buffer is None:
            buffer = b""
        while self.error is None and self.next_position < self.end:
            position = self.next_position
            wanted = self._wanted(position, needed)
            if len(buffer) < wanted + SLACK_BYTES:
                buffer = _new_buffer(wanted)
            filled = self.file.pread_into(byte_view(buffer)[:wanted], position)
            found = walk(buffer, 0, filled, check_crc=check_crc, in_memory=False, bounds=bounds)
            self.next_position = self.damaged_end = position + found.next_position
            self.error = self._located(found.error)
            if found.batches.count:
                needed = piece_bytes
                batches = found.batches
                batches.move(position)
                if bounds is not None:
                    rest = byte_view(buffer)[found.next_position : filled]
                    batches = self._undisputed(batches, bounds, rest, is_checked=check_crc)
                    bounds = bounds.after(found.batches.next_offset - 1)
                if batches.count:
                    yield Piece(buffer[:filled], batches, position, self.file.path)
            elif self.error is None:
                needed = self._size_of_next(buffer, filled)
                # Try once: a file that was truncated meanwhile has no more bytes.
                if not wanted < needed <= self.end - position:
                    return
                if max_batch_bytes is not None and needed > max_batch_bytes:
                    reason = f"a batch of {needed:,} bytes; at most {max_batch_bytes:,} are read"
                    self.error = CorruptMessage(reason, position, self.file.path)
                    self.is_oversized = True

    def _wanted(self, position: int, needed: int) -> int:
        """Return how many bytes to read from ``position`` on."""
        wanted = min(needed, self.end - position)
        likely_end = self.likely_end
        if likely_end is not None and position < likely_end < position + wanted:
            self.likely_end = None
            # With the next header, which shows the last batch to be right.
            wanted = min(likely_end + BATCH_HEADER.size - position, wanted)
        return wanted

    def _undisputed(
        self, batches: BatchColumns, bounds: OffsetBounds, rest: memoryview, *, is_checked: bool
    ) -> BatchColumns:
        """Return the batches, without the last one if what follows shows it to be damaged.

        ``rest`` are the bytes that were read after them. Takes note of which of the two is
        damaged. Where CRCs are not compared, what follows may also be no batch, since the length of
        the last one is wrong.
        """
        last = len(batches) - 1
        following = base_offset_at(self.file, self.next_position, rest, self.end)
        if following is None:
            is_fine = is_checked or self.next_position >= self.file.size()
        else:
            is_fine = following >= batches.next_offset
        if is_fine:
            return batches
        if last:
            bounds = bounds.after(batches.row(last - 1)[rows.LAST_OFFSET])
        dispute = settle(self.file, batches.row(last), bounds, is_checked=is_checked)
        if dispute is None:
            return batches
        self.error = CorruptMessage(dispute.reason, dispute.position, self.file.path)
        self.next_position, self.damaged_end = dispute.position, dispute.end
        return batches if dispute.damaged is Damaged.SECOND else batches.slice(0, last)

    def whole_pieces(
        self, piece_bytes: int = PIECE_BYTES, *, check_crc: bool = False
    ) -> Iterator[Piece]:
        """Yield the batches as ``pieces``; then raise CorruptMessage unless they reach the end."""
        yield from self.pieces(piece_bytes, check_crc=check_crc)
        self.check_complete()

    def check_complete(self) -> None:
        """Raise CorruptMessage if ``pieces``, exhausted, stopped before the end of the bytes."""
        if self.problem is not None:
            raise self.problem

    @property
    def problem(self) -> CorruptMessage | None:
        """What is wrong at the first byte that is not in a batch; None if there is no such byte."""
        if self.error is None and self.trailing_bytes:
            reason = "a batch is cut off by the end of the file"
            return CorruptMessage(reason, self.next_position, self.file.path)
        return self.error

    def _located(self, error: CorruptMessage | None) -> CorruptMessage | None:
        if error is None:
            return None
        return CorruptMessage(error.reason, self.next_position, self.file.path)

    def _size_of_next(self, buffer: Buffer, filled: int) -> int:
        """Return the size of the batch at the buffer's start, 0 if its length is not there."""
        if filled <= BATCH_PREFIX.size:
            return 0
        return entry_length(byte_view(buffer), 0) + LOG_OVERHEAD

    def headers(self) -> Iterator[tuple[int, BatchHeader]]:
        """Yield each batch's position and header, for tools."""
        for piece in self.pieces():
            for index, position in enumerate(piece.batches.position.tolist()):
                yield position, piece.batches.header(index)


class FileSlice(Closable):
    """Bytes ``[position, position + size)`` of a file, which stays open until the slice is closed.

    The result of a read of a log, to be sent by ``sendfile`` or read, then closed. A slice holds
    its own reference to ``file``.
    """

    __slots__ = ("_is_closed", "file", "position", "size")

    def __init__(self, file: OpenFile, position: int, size: int) -> None:
        self.file = file.hold()
        self.position = position
        self.size = size
        self._is_closed = False

    def __len__(self) -> int:
        return self.size

    def read(self) -> bytes:
        """Return the bytes; fewer if the file has been truncated since."""
        return self.file.pread(self.size, self.position)

    def skip(self, size: int) -> None:
        """Leave out the first ``size`` bytes, which were sent."""
        self.position += size
        self.size -= size

    def fileno(self) -> int:
        """Return the descriptor for ``sendfile``; valid until ``close``."""
        return self.file.fileno()

    def close(self) -> None:
        """Release the file; closing twice has no effect."""
        if not self._is_closed:
            self._is_closed = True
            self.file.close()
