"""One segment as a reader without a lock sees it, and the search for a place in it.

No index is trusted: a cleaner or another process may have replaced the files since they were
listed, so an entry counts only where a batch with a matching checksum confirms it.
"""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidelog.records.batch import BATCH_PREFIX, LOG_OVERHEAD, MAGIC_V2
from tidelog.records.file_records import FileRecords
from tidelog.records.memory import walk
from tidelog.records.neighbours import contradicts
from tidelog.segment.filenames import DELETED_SUFFIX, log_file, offset_index_file
from tidelog.segment.index_file import MAX_INDEX_BYTES
from tidelog.segment.offset_index import OFFSET_INDEX_ENTRY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidelog.env.files import FileSystem, OpenFile

_INDEX_BLOCK: Final = 4096
_SEARCH_BYTES: Final = 64 << 10
"""Bytes read at a time in search of a batch: index entries are 4 KiB apart by default."""


class Hints(NamedTuple):
    """Offset index entries, as far as they rise: places where a batch probably starts.

    ``offsets`` are last offsets of the batches that start at ``positions``.
    """

    offsets: NDArray[np.int64]
    positions: NDArray[np.int64]


NO_HINTS: Final = Hints(np.empty(0, np.int64), np.empty(0, np.int64))


@dataclass(frozen=True, slots=True)
class ReadOnlySegment:
    """A ``.log`` file of a snapshot; ``size_bytes`` is its size then, the bytes that count.

    ``suffix`` is ``.swap`` for a complete replacement that was being renamed to its final name.
    """

    directory: str
    base_offset: int
    size_bytes: int
    suffix: str = ""

    @property
    def path(self) -> str:
        """The ``.log`` file's path."""
        return log_file(self.directory, self.base_offset, self.suffix)

    def open(self, fs: FileSystem) -> OpenFile:
        """Open the records again, under the name that they have by now.

        Raises:
            FileNotFoundError: the segment was deleted.
        """
        names = [self.path, log_file(self.directory, self.base_offset)]
        for path in names:
            with suppress(FileNotFoundError):
                return fs.open(path)
        return fs.open(names[-1] + DELETED_SUFFIX)

    def hints(self, fs: FileSystem) -> Hints:
        """Read the offset index; an absent, torn or preallocated one gives what it has."""
        try:
            raw = _read_used(fs, offset_index_file(self.directory, self.base_offset, self.suffix))
        except FileNotFoundError:
            return NO_HINTS
        whole = len(raw) // OFFSET_INDEX_ENTRY.itemsize
        entries = np.frombuffer(raw, OFFSET_INDEX_ENTRY, count=whole)
        offsets = entries["relative_offset"].astype(np.int64)
        positions = entries["position"].astype(np.int64)
        falling = np.nonzero((np.diff(offsets) <= 0) | (np.diff(positions) <= 0))[0]
        count = int(falling[0]) + 1 if len(falling) else whole
        # The first batch needs no entry, and the zeros of an unused index are none.
        is_place = (positions[:count] > 0) & (offsets[:count] >= 0)
        return Hints(offsets[:count][is_place] + self.base_offset, positions[:count][is_place])


def _read_used(fs: FileSystem, path: str) -> bytes:
    """Return an index file's bytes up to the zeros of a preallocated one, and some of those."""
    size, raw = _INDEX_BLOCK, b""
    with closing(fs.open(path)) as file:
        while True:
            block = file.pread(size, len(raw))
            raw += block
            if (
                len(raw) > MAX_INDEX_BYTES
                or len(block) < size
                or not block[-OFFSET_INDEX_ENTRY.itemsize :].strip(b"\0")
            ):
                return raw
            size *= 2


class Place(NamedTuple):
    """Where a walk starts, and the last offset before that; -1 if it is not known."""

    position: int
    before: int = -1


def place_for(file: OpenFile, hints: Hints, offset: int) -> Place:
    """Return a place at or before the batch that holds ``offset``, where a walk may start.

    A hint counts only if a whole batch with a matching checksum starts there that begins at or
    below the hint's own offset; where none does, the walk starts at the beginning. Where the
    headers before it contradict its offsets, the walk starts further in front.
    """
    nearest = _confirmed(file, hints, offset)
    if nearest < 0:
        return Place(0)
    position = int(hints.positions[nearest])
    earlier = Hints(hints.offsets[:nearest], hints.positions[:nearest])
    known = _confirmed(file, earlier, offset)
    start = int(hints.positions[known]) if known >= 0 else 0
    records, before = FileRecords(file, start, position), -1
    for piece in records.pieces(_SEARCH_BYTES):
        before = int(piece.batches.last_offset[-1])
    if records.next_position != position:
        return Place(position)
    return Place(start) if contradicts(file, position, before) else Place(position, before)


def place_of(file: OpenFile, hints: Hints, offset: int) -> Place:
    """Return where the batch that holds ``offset`` starts, for a walk from there.

    It is found by headers: a batch before it with a wrong checksum is passed over. Where no batch
    claims the offset, as in a hole that compaction left, or the batch before it claims more, the
    walk has to start further in front, so that a bad header is met and not taken for a hole.
    """
    start = place_for(file, hints, offset)
    before = start.before
    for piece in FileRecords(file, start=start.position).pieces(_SEARCH_BYTES):
        batches = piece.batches
        found = np.flatnonzero(batches.last_offset >= offset)
        if len(found):
            at = int(found[0])
            before = int(batches.last_offset[at - 1]) if at else before
            is_held = before < batches.base_offset[at] <= offset
            return Place(int(batches.position[at]), before) if is_held else start
        before = int(batches.last_offset[-1])
    return start


def _confirmed(file: OpenFile, hints: Hints, offset: int) -> int:
    """Return the index of the nearest hint at or below ``offset`` that counts; -1 if none does."""
    index = int(np.searchsorted(hints.offsets, offset, side="right")) - 1
    while index >= 0:
        if _is_batch(file, int(hints.positions[index]), int(hints.offsets[index])):
            return index
        index = (index - 1) // 2  # bad hints come in runs
    return -1


def _is_batch(file: OpenFile, position: int, offset: int) -> bool:
    """Say whether a whole, valid batch that begins at or below ``offset`` is at ``position``."""
    prefix = file.pread(BATCH_PREFIX.size, position)
    if len(prefix) < BATCH_PREFIX.size:
        return False
    header = BATCH_PREFIX.unpack(prefix)
    size = header.length + LOG_OVERHEAD
    # Checked before the batch is read: a wrong hint may point at any bytes, taken for a length.
    if not 0 <= header.offset <= offset or not 0 <= header.magic <= MAGIC_V2:
        return False
    if not 0 <= size <= file.size() - position:
        return False
    found = walk(file.pread(size, position), check_crc=True)
    return len(found.batches) == 1 and found.error is None
