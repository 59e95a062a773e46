"""What lies in bytes that recovery cuts off: batches and records that can be read, and the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tidelog.errors import CorruptMessage, InvalidRecord
from tidelog.log.record_count import count_records
from tidelog.records.batch import BATCH_PREFIX, LOG_OVERHEAD, MIN_RECORD_LENGTH
from tidelog.records.file_records import FileRecords

if TYPE_CHECKING:
    from tidelog.env.files import OpenFile
    from tidelog.log.loading.load_watch import Loss
    from tidelog.records.file_records import Piece

_PIECE_BYTES: Final = 64 << 10
"""Small, since each bad batch begins another read."""

_BLOCK_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class LostBytes:
    """Bytes of a .log file that are cut off: ``size_bytes`` from byte ``position`` of ``path`` on.

    ``batches`` and ``records`` count what could still be read behind the bad bytes; offsets are
    theirs, the last one inclusive, None without any. ``unreadable_bytes`` are in no valid batch.
    """

    path: str
    position: int
    size_bytes: int
    reason: str
    is_segment: bool
    batches: int
    records: int
    first_offset: int | None
    last_offset: int | None
    unreadable_bytes: int
    is_all_zeros: bool


class _Counter:
    """Adds up the batches of one loss."""

    def __init__(self) -> None:
        self.batches = 0
        self.records = 0
        self.first_offset: int | None = None
        self.last_offset: int | None = None

    def add(self, piece: Piece) -> None:
        first, last = int(piece.batches.base_offset[0]), int(piece.batches.last_offset[-1])
        self.batches += len(piece.batches)
        self.first_offset = first if self.first_offset is None else self.first_offset
        self.last_offset = last
        try:
            counted = count_records([piece], min(first, 0), max(last, first) + 1)
        except (InvalidRecord, CorruptMessage):
            return  # an old batch whose records are unreadable counts as a batch only
        self.records += counted.records + counted.aborted


def look_into(loss: Loss) -> LostBytes:
    """Count what lies in bytes that are about to be cut off.

    Behind a bad batch the walk goes on where its header claims that it ends, if that is credible.
    """
    counter = _Counter()
    position, unreadable = loss.position, 0
    while position < loss.end:
        records = FileRecords(loss.file, position, loss.end)
        for piece in records.pieces(_PIECE_BYTES, check_crc=True):
            counter.add(piece)
        skipped = _stated_size(loss.file, records.next_position, loss.end)
        unreadable += skipped
        position = records.next_position + skipped
    return LostBytes(
        path=loss.path,
        position=loss.position,
        size_bytes=loss.end - loss.position,
        reason=loss.reason,
        is_segment=loss.is_segment,
        batches=counter.batches,
        records=counter.records,
        first_offset=counter.first_offset,
        last_offset=counter.last_offset,
        unreadable_bytes=unreadable,
        is_all_zeros=not counter.batches and only_zeros(loss.file, loss.position, loss.end),
    )


def _stated_size(file: OpenFile, position: int, end: int) -> int:
    """Return the bytes to skip: those of the bad batch, or all if its length is not credible."""
    left = end - position
    prefix = file.pread(min(BATCH_PREFIX.size, left), position)
    if len(prefix) < BATCH_PREFIX.size:
        return left
    header = BATCH_PREFIX.unpack(prefix)
    size = header.length + LOG_OVERHEAD
    is_credible = header.length >= MIN_RECORD_LENGTH and size <= left and header.magic in {0, 1, 2}
    return size if is_credible else left


def only_zeros(file: OpenFile, position: int, end: int) -> bool:
    """Return whether bytes ``[position, end)`` of a file are all zero."""
    while position < end:
        block = file.pread(min(_BLOCK_BYTES, end - position), position)
        if not block or block.strip(b"\0"):
            return not block
        position += len(block)
    return True
