"""One segment as a reader without a lock sees it: bytes that may change under its hands.

Owns the search for a place to start, and the walk from there. Must not know
checkpoints or other segments. Nothing here writes, locks or trusts an index: a cleaner or another
process may have replaced the files since they were listed.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidelog.errors import CorruptMessage
from tidelog.records.batch import BATCH_PREFIX, LOG_OVERHEAD, MAGIC_V2
from tidelog.records.file_records import FileRecords
from tidelog.records.memory import walk
from tidelog.segment.filenames import DELETED_SUFFIX, log_file, offset_index_file
from tidelog.segment.offset_index import OFFSET_INDEX_ENTRY
from tidelog.segment.offset_rules import are_usual, first_impossible, reason_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tidelog.env.files import FileSystem, OpenFile
    from tidelog.records.file_records import Piece

_INDEX_BLOCK: Final = 4096
_PIECE_BYTES: Final = 8 << 20
"""Bytes read at a time: in a Spark worker, what is done once a piece weighs more than caches."""


class Hints(NamedTuple):
    """Offset index entries, as far as they rise: places where a batch probably starts.

    ``offsets`` are last offsets of the batches that start at ``positions``.
    """

    offsets: NDArray[np.int64]
    positions: NDArray[np.int64]


NO_HINTS: Final = Hints(np.empty(0, np.int64), np.empty(0, np.int64))


@dataclass(frozen=True, slots=True)
class ReadOnlySegment:
    """A ``.log`` file of a directory listing; ``size_bytes`` is its size at that time."""

    directory: str
    base_offset: int
    size_bytes: int

    @property
    def path(self) -> str:
        """The ``.log`` file's path."""
        return log_file(self.directory, self.base_offset)

    def open(self, fs: FileSystem) -> OpenFile:
        """Open the records; where they wait for deletion, under that name.

        Raises:
            FileNotFoundError: the segment is gone for good.
        """
        try:
            return fs.open(self.path)
        except FileNotFoundError:
            return fs.open(self.path + DELETED_SUFFIX)

    def hints(self, fs: FileSystem) -> Hints:
        """Read the offset index; an absent, torn or preallocated one gives what it has."""
        try:
            raw = _read_used(fs, offset_index_file(self.directory, self.base_offset))
        except FileNotFoundError:
            return NO_HINTS
        whole = len(raw) // OFFSET_INDEX_ENTRY.itemsize
        entries = np.frombuffer(raw, OFFSET_INDEX_ENTRY, count=whole)
        offsets = entries["relative_offset"].astype(np.int64)
        positions = entries["position"].astype(np.int64)
        falling = np.nonzero((np.diff(offsets) <= 0) | (np.diff(positions) <= 0))[0]
        count = int(falling[0]) + 1 if len(falling) else whole
        # No use for the first batch, which is found anyway, nor for the zeros of an unused index.
        is_place = (positions[:count] > 0) & (offsets[:count] >= 0)
        return Hints(offsets[:count][is_place] + self.base_offset, positions[:count][is_place])


def _read_used(fs: FileSystem, path: str) -> bytes:
    """Return an index file's bytes up to the zeros of a preallocated one, and some of those."""
    size, raw = _INDEX_BLOCK, b""
    with closing(fs.open(path)) as file:
        while True:
            block = file.pread(size, len(raw))
            raw += block
            if len(block) < size or not block[-OFFSET_INDEX_ENTRY.itemsize :].strip(b"\0"):
                return raw
            size *= 2


def position_for(file: OpenFile, hints: Hints, offset: int) -> int:
    """Return a byte position at or before the batch that holds ``offset``, for a walk to start.

    A hint counts only if a whole batch with a matching checksum starts there that begins at or
    below the hint's own offset; where none does, the walk starts at the beginning.
    """
    index = int(np.searchsorted(hints.offsets, offset, side="right")) - 1
    while index >= 0:
        position = int(hints.positions[index])
        if _is_batch(file, position, int(hints.offsets[index])):
            return position
        index = (index - 1) // 2  # bad hints come in runs
    return 0


def _is_batch(file: OpenFile, position: int, offset: int) -> bool:
    """Say whether a whole, valid batch that begins at or below ``offset`` is at ``position``."""
    prefix = file.pread(BATCH_PREFIX.size, position)
    if len(prefix) < BATCH_PREFIX.size:
        return False
    header = BATCH_PREFIX.unpack(prefix)
    size = header.length + LOG_OVERHEAD
    # Looked at before the batch is read: a hint that lies may point at any bytes, as a length.
    if not 0 <= header.offset <= offset or not 0 <= header.magic <= MAGIC_V2:
        return False
    if not 0 <= size <= file.size() - position:
        return False
    found = walk(file.pread(size, position), check_crc=True)
    return len(found.batches) == 1 and found.error is None


def walk_segment(
    file: OpenFile, position: int, *, check_crc: bool = True, before: int = -1
) -> Iterator[Piece]:
    """Yield pieces of whole, checked batches from byte ``position`` of an open file on.

    Without ``check_crc`` only their lengths, formats and offsets are looked at. ``before`` is the
    last offset before that position, -1 if it is not known.

    Raises:
        CorruptMessage: after the pieces before it, bytes that are no batch; ``position`` says
            where. A batch that is cut off by the end of the file counts as such, and so does one
            whose offsets cannot be: negative, or not above those of the batch before.
    """
    records = FileRecords(file, start=position)
    for piece in records.pieces(_PIECE_BYTES, check_crc=check_crc):
        batches = piece.batches
        bad = None
        if not are_usual(batches, batches.last_offset.item(0), before):
            bad = first_impossible(batches, 0, before)
        if bad is not None:
            if bad:
                yield piece._replace(batches=batches.slice(0, bad))
            raise CorruptMessage(reason_of(batches, bad), int(batches.position[bad]), file.path)
        before = batches.last_offset.item(-1)
        yield piece
    if records.error is not None:
        raise CorruptMessage(records.error.reason, records.next_position, file.path)
    if records.trailing_bytes:
        reason = "a batch is cut off by the end of the file"
        raise CorruptMessage(reason, records.next_position, file.path)
