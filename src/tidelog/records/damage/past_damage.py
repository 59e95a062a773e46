"""The batches of damaged bytes: what is before, between and after the bad ones.

A log has no marks between batches. Behind a bad one the walk continues where its length says that
it ends, if a batch starts there, or else at the next batch with a valid CRC. Kafka has no such
walk: its recovery cuts a log at the first bad batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.codec.crc32c import crc32c
from tidelog.env.sparse import next_data
from tidelog.lazy import np
from tidelog.records.batch import (
    BATCH_HEADER,
    BATCH_PREFIX,
    LOG_OVERHEAD,
    MAGIC_V2,
    MIN_RECORD_LENGTH,
)
from tidelog.records.file_records import FileRecords
from tidelog.records.memory import walk
from tidelog.records.scan import CRC_COVERS_FROM, WRONG_CRC

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tidelog.env.files import OpenFile
    from tidelog.records.damage.sound_offsets import OffsetBounds
    from tidelog.records.file_records import Piece

_PIECE_BYTES: Final = 64 << 10
"""Small, since each bad batch begins another read."""

_SEARCH_BYTES: Final = 64 << 10
_ZEROS: Final = bytes(_SEARCH_BYTES + BATCH_HEADER.size)
_LARGE_BYTES: Final = 4 << 20
"""A batch that claims to be larger is checked in chunks before it is read as a whole."""
_MAGIC_AT: Final = BATCH_HEADER.offsets["magic"]
_MOST_READS: Final = 4
"""Bytes that a search may read in vain, as a multiple of those that it looks through: the bytes of
a record may look like the starts of any number of large batches."""


class BadBytes(NamedTuple):
    """Bytes ``[position, end)`` of a file that are in no valid batch, and what is wrong."""

    position: int
    end: int
    reason: str


def walk_past_damage(
    file: OpenFile,
    start: int,
    end: int,
    *,
    piece_bytes: int = _PIECE_BYTES,
    bounds: OffsetBounds | None = None,
) -> Iterator[Piece | BadBytes]:
    """Yield all that bytes ``[start, end)`` hold, in order: pieces of batches, and bad bytes.

    CRCs are checked. Offsets are with ``bounds``, those that the batches may have; None: any will
    do. A piece's bytes are valid until the next one is asked for. Raises OSError.
    """
    position, largest = start, _LARGE_BYTES
    while position < end:
        records = FileRecords(file, position, end, bounds=bounds)
        for piece in records.pieces(piece_bytes, check_crc=True, max_batch_bytes=largest):
            if bounds is not None:
                bounds = bounds.after(piece.batches.next_offset - 1)
            yield piece
        position = records.next_position
        if position >= end:
            return
        problem = records.problem
        reason = "" if problem is None else problem.reason
        if records.is_oversized:
            # A length that was damaged may claim all of the file: no memory is taken for that.
            size = valid_size(file, position, end)
            if size > largest:
                largest = size
                continue
            reason = WRONG_CRC
        behind = behind_damage(records)
        yield BadBytes(position, behind, reason)
        position = behind


def behind_damage(records: FileRecords) -> int:
    """Return where the next valid batch starts after what ended ``records``; else their end."""
    at = records.next_position
    if records.damaged_end > at:
        return records.damaged_end
    return next_batch(records.file, at, records.end)


def next_batch(file: OpenFile, position: int, end: int) -> int:
    """Return where the first valid batch after the bad one at ``position`` starts; else ``end``.

    The bytes of a record may contain whole batches. So one that is found inside the bad batch
    counts only if what follows it looks like a batch too.
    """
    stated = position + stated_size(file, position, end)
    if stated == end or (stated > position and valid_size(file, stated, end)):
        return stated
    return _search(file, position + 1, end)


def stated_size(file: OpenFile, position: int, end: int) -> int:
    """Return the size that a batch claims; 0 if that is not credible."""
    prefix = file.pread(min(BATCH_PREFIX.size, end - position), position)
    if len(prefix) < BATCH_PREFIX.size:
        return 0
    header = BATCH_PREFIX.unpack(prefix)
    size = header.length + LOG_OVERHEAD
    return size if header.length >= MIN_RECORD_LENGTH and size <= end - position else 0


def valid_size(file: OpenFile, position: int, end: int) -> int:
    """Return the size of the valid batch at ``position`` that ends by ``end``; 0 if none does.

    Any offsets will do.
    """
    size = stated_size(file, position, end)
    if not size:
        return 0
    if size > _LARGE_BYTES:
        return size if _is_checksum_right(file, position, size) else 0
    found = walk(file.pread(size, position), check_crc=True, in_memory=False)
    return size if len(found.batches) == 1 and found.error is None else 0


def _is_checksum_right(file: OpenFile, position: int, size: int) -> bool:
    """Return whether a large batch has the checksum that it stores."""
    data = file.pread(BATCH_HEADER.size, position)
    header = BATCH_HEADER.unpack(data)
    if not 0 <= header.magic <= MAGIC_V2:
        return False
    add: Callable[[bytes, int], int] = crc32c
    if header.magic == MAGIC_V2:
        start, crc = CRC_COVERS_FROM, header.crc
    else:
        from tidelog.records import legacy  # noqa: PLC0415 - few logs have old batches

        old = legacy.read_header(memoryview(data), 0, size)
        start, crc, add = legacy.CRC_START, old.crc, legacy.checksum
    found, end = 0, position + size
    for at in range(position + start, end, _SEARCH_BYTES):
        found = add(file.pread(min(_SEARCH_BYTES, end - at), at), found)
    return found == crc


def _search(file: OpenFile, start: int, end: int) -> int:
    left = _MOST_READS * (end - start)
    position = start
    while position < end:
        data = file.pread(min(len(_ZEROS), end - position), position)
        is_empty = _ZEROS.startswith(data)
        for at in () if is_empty else _candidates(data):
            left -= stated_size(file, position + at, end)
            if left < 0:
                return end
            size = valid_size(file, position + at, end)
            if size and _is_followed(file, position + at, size, end):
                return position + at
        position += _SEARCH_BYTES
        if is_empty:  # a header may begin with zeros
            position = max(position, next_data(file, position, end) - BATCH_HEADER.size)
    return end


def _candidates(data: bytes) -> list[int]:
    """Return the positions at which a batch of magic 2 may start, by magic and length."""
    found = np.frombuffer(data, np.uint8)
    count = len(found) - BATCH_HEADER.size + 1
    if count <= 0:
        return []
    starts = np.flatnonzero(found[_MAGIC_AT : _MAGIC_AT + count] == MAGIC_V2)
    # The high bytes of an offset and of a length, which a short look may exclude.
    starts = starts[(found[starts] < 0x80) & (found[starts + 8] < 0x80)]
    return [int(at) for at in starts if BATCH_HEADER.unpack(data, int(at)).last_offset_delta >= 0]


def _is_followed(file: OpenFile, position: int, size: int, end: int) -> bool:
    """Return whether nothing, zeros or the start of a later batch follow a batch."""
    header = BATCH_HEADER.unpack(file.pread(BATCH_HEADER.size, position))
    behind = position + size
    data = file.pread(min(BATCH_PREFIX.size, end - behind), behind)
    if len(data) < BATCH_PREFIX.size or not data.strip(b"\0"):
        return True
    after = BATCH_PREFIX.unpack(data)
    is_later = after.offset > header.base_offset + header.last_offset_delta
    return is_later and 0 <= after.magic <= MAGIC_V2 and after.length >= MIN_RECORD_LENGTH
