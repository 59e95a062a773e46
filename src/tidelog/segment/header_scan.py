"""Searching for a batch by reading only headers.

From an index entry to the batch is a short walk that must not read the bodies of large batches;
without an index entry nearby it may be a long one. Kafka:
``FileRecords.searchForOffsetFromPosition``.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.errors import CorruptMessage
from tidelog.records.batch import (
    BATCH_HEADER,
    BATCH_PREFIX,
    LOG_OVERHEAD,
    MAGIC_V2,
    MIN_RECORD_LENGTH,
)
from tidelog.records.damage.neighbours import base_offset_at
from tidelog.records.file_records import FileRecords
from tidelog.segment.index_entries import OffsetPosition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.env.files import OpenFile
    from tidelog.records.damage.sound_offsets import OffsetBounds

_CHUNK_BYTES: Final = 8 << 10
_SHORT_WALK_BYTES: Final = 256 << 10


class BatchPosition(NamedTuple):
    """The location of a batch: its offsets (both inclusive), position and size in bytes.

    For magic 0 and 1, ``base_offset`` equals ``last_offset`` until ``with_base_offset`` is called.
    """

    base_offset: int
    last_offset: int
    position: int
    size_bytes: int
    magic: int

    def with_base_offset(self, file: OpenFile) -> BatchPosition:
        """Return a copy with the first offset; an old batch has to be read for it."""
        if self.magic >= 2:
            return self
        from tidelog.records import legacy  # noqa: PLC0415 - few logs have old batches

        data = memoryview(file.pread(self.size_bytes, self.position))
        return self._replace(base_offset=legacy.base_offset(data, 0, self.size_bytes))


class WalkStart(NamedTuple):
    """Where a walk that checks its batches begins, and the offsets that are possible from there on.

    ``batch`` is the one that begins there and reaches the offset that was sought, if the headers
    alone show its offsets to be right.
    """

    position: int
    bounds: OffsetBounds
    batch: BatchPosition | None = None


def find_batch(file: OpenFile, start: int, end: int, offset: int) -> BatchPosition | None:
    """Return the first batch in bytes ``[start, end)`` whose last offset is at least ``offset``.

    ``start`` is the start of a batch. Raises CorruptMessage if the bytes before it are invalid.
    """
    position = start
    for batch in _first_headers(file, start, end):
        if batch.last_offset >= offset:
            return batch.with_base_offset(file)
        position = batch.position + batch.size_bytes
    if position - start < _SHORT_WALK_BYTES:
        return None
    records = FileRecords(file, position, end)
    found = first_reaching(records, offset)
    if found is None and records.error is not None:
        raise records.error
    return found


def confirmed_position(file: OpenFile, entry: OffsetPosition, end: int) -> int:
    """Return the position of an index entry if a batch there confirms it; else 0.

    The offset of an entry is the last one of the batch there, or of an append that begins with it.
    An entry that points too far would let what is before it be passed over.
    """
    with suppress(CorruptMessage):
        for batch in read_headers(file, entry.position, min(entry.position + 1, end), end):
            return entry.position if batch.base_offset <= entry.offset else 0
    return 0


def find_start(
    file: OpenFile, entry: OffsetPosition, end: int, offset: int, bounds: OffsetBounds
) -> WalkStart:
    """Return where a walk that checks its batches begins, to meet the one that holds ``offset``.

    It begins at an entry of the offset index at or before it, or at the first byte if no batch
    there confirms the entry. ``bounds`` are those of the segment, which has ``end`` bytes. Only
    headers are read, of the batches up to the one that reaches ``offset`` and of the next one.
    Where they are not in order, or one has an old format, whose checksum covers its magic, the walk
    has to begin in front: a bad header there must be met, and not taken for a gap.
    """
    start, is_confirmed = entry.position, entry.position == 0
    known, position, stop = bounds, start, min(end, start + _SHORT_WALK_BYTES)
    with suppress(CorruptMessage):
        for batch in _first_headers(file, start, end):
            is_confirmed = is_confirmed or batch.base_offset <= entry.offset
            if not is_confirmed:
                break
            in_order = known.hold(batch.base_offset, batch.last_offset)
            if batch.magic < MAGIC_V2 or not in_order:
                break
            behind = batch.position + batch.size_bytes
            if batch.last_offset >= offset:
                following = base_offset_at(file, behind, end=end)
                if following is not None and following <= batch.last_offset:
                    break
                return WalkStart(position, known, batch)
            known, position = known.after(batch.last_offset), behind
        else:
            if is_confirmed and position >= stop:
                return WalkStart(position, known)
    if not is_confirmed:
        return find_start(file, OffsetPosition(entry.offset, 0), end, offset, bounds)
    return WalkStart(start, bounds)


def _first_headers(file: OpenFile, start: int, end: int) -> Iterator[BatchPosition]:
    """Yield the batches that start within a short walk, and the first two wherever they do.

    Where all batches are large, an index entry points to the one before that which is sought.
    """
    for number, batch in enumerate(read_headers(file, start, end)):
        if number > 1 and batch.position - start >= _SHORT_WALK_BYTES:
            return
        yield batch


def read_headers(
    file: OpenFile, start: int, stop: int, end: int | None = None
) -> Iterator[BatchPosition]:
    """Yield the batches that start in bytes ``[start, stop)`` and end by ``end``.

    Only a few bytes are read at a time, so that the bodies of large batches are skipped. Raises
    CorruptMessage where the bytes are not a batch.
    """
    limit = stop if end is None else end
    chunk, chunk_start = b"", start
    position = start
    while position < stop and position < limit - BATCH_PREFIX.size:
        at = position - chunk_start
        if at + BATCH_HEADER.size > len(chunk):
            chunk_start, at = position, 0
            chunk = file.pread(min(_CHUNK_BYTES, limit - position), position)
        batch = _batch_at(chunk, at, position, limit, file.path)
        if batch is None:
            return
        position += batch.size_bytes
        yield batch


def _batch_at(chunk: bytes, at: int, position: int, limit: int, path: str) -> BatchPosition | None:
    """Return the batch at byte ``at`` of the chunk; None if it does not end by ``limit``."""
    if len(chunk) - at < BATCH_PREFIX.size:
        raise CorruptMessage("the file ends inside a batch header", position, path)
    prefix = BATCH_PREFIX.unpack(chunk, at)
    size = prefix.length + LOG_OVERHEAD
    if prefix.length < MIN_RECORD_LENGTH:
        raise CorruptMessage(f"batch declares a length of {prefix.length} bytes", position, path)
    if position + size > limit:
        return None
    if prefix.magic in {0, 1}:
        return BatchPosition(prefix.offset, prefix.offset, position, size, prefix.magic)
    # As in Kafka, a magic above 2 is read as 2, so that one flipped bit does not hide what follows.
    if prefix.magic < 0 or size < BATCH_HEADER.size or len(chunk) - at < BATCH_HEADER.size:
        raise CorruptMessage("batch header is damaged", position, path)
    last_offset = prefix.offset + BATCH_HEADER.unpack_field("last_offset_delta", chunk, at)
    return BatchPosition(prefix.offset, last_offset, position, size, prefix.magic)


def first_reaching(records: FileRecords, offset: int) -> BatchPosition | None:
    """Return the first batch whose last offset is at least ``offset``.

    None if there is none before the end of the batches, or the error that ends them. With bounds
    CRCs are checked, too.
    """
    for piece in records.pieces(check_crc=records.bounds is not None):
        batches = piece.batches
        reaches = batches.last_offset >= offset
        if reaches.any():
            at = int(reaches.argmax())
            found = BatchPosition(
                int(batches.base_offset[at]),
                int(batches.last_offset[at]),
                int(batches.position[at]),
                int(batches.size[at]),
                int(batches.magic[at]),
            )
            return found.with_base_offset(records.file)
    return None
