"""Writes batches, each at its offset, to the segments of a new log."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np

from tidelog.codec.layout import byte_view
from tidelog.kernels import rows
from tidelog.records import legacy
from tidelog.records.batch import (
    INT32_MAX,
    MAGIC_V2,
    NO_LEADER_EPOCH,
)
from tidelog.records.builder import gap_batch
from tidelog.segment.filenames import log_file

if TYPE_CHECKING:
    from tidelog.env.files import FileSystem, OpenFile
    from tidelog.records.batch_columns import BatchColumns
    from tidelog.records.file_records import Piece


class NewLog:
    """The ``.log`` files of a new log, in a directory that exists.

    A segment begins where the one before it ends, also where offsets are missing, so that no
    segment seems to be missing; only an int32 must hold all of its offsets.
    """

    def __init__(self, fs: FileSystem, directory: str, segment_bytes: int) -> None:
        self._fs = fs
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._file: OpenFile | None = None
        self._base_offset = 0
        self._size_bytes = 0
        self._epoch = NO_LEADER_EPOCH
        self.next_offset: int | None = None
        self.segments = 0

    def append(self, piece: Piece, *, is_segment: bool = False) -> None:
        """Write the batches of a piece, which have greater offsets than those before.

        ``is_segment``: they were in a segment together with what is in the last one, whatever the
        size.
        """
        limit = INT32_MAX if is_segment else self._segment_bytes
        self._epoch = max(self._epoch, int(piece.batches.leader_epoch.max()))
        for found in piece.batches.runs():
            run, start = found, int(found.position[0]) - piece.data_position
            data = byte_view(piece.buffer)[start : start + int(found.size.sum())]
            while len(run):
                count = self._fitting(run, limit)
                if not count:
                    base = self._base_of(piece, run)
                    if self._file is None or self._size_bytes or base != self._base_offset:
                        self.roll(base)
                    count = self._fitting(run, limit) or 1
                size = int(run.size[:count].sum())
                self._write(data[:size], int(run.last_offset[count - 1]) + 1)
                run, data = run.slice(count), data[size:]

    def _fitting(self, run: BatchColumns, limit: int) -> int:
        """Return how many batches fit into the segment; 0 also if there is none."""
        if self._file is None:
            return 0
        room = limit - self._size_bytes
        by_size = int(np.searchsorted(np.cumsum(run.size), room, "right"))
        greatest = self._base_offset + INT32_MAX
        return min(by_size, int(np.searchsorted(run.last_offset, greatest, "right")))

    def _base_of(self, piece: Piece, run: BatchColumns) -> int:
        """Return where a segment begins that these batches come first in."""
        first = run.first_offset
        expected = first if self.next_offset is None else self.next_offset
        if run.row(0)[rows.MAGIC] < MAGIC_V2 and self.next_offset is None:
            at = int(run.position[0]) - piece.data_position
            return legacy.base_offset(byte_view(piece.buffer), at, int(run.size[0]))
        return expected if first - expected <= INT32_MAX >> 1 else first

    def roll(self, base_offset: int) -> None:
        """Begin a segment, which may hold offsets from ``base_offset`` on."""
        self._close()
        self._file = self._fs.open(log_file(self._directory, base_offset), "x")
        self._base_offset, self._size_bytes = base_offset, 0
        if self.next_offset is None:
            self.next_offset = base_offset
        self.segments += 1

    def extend_to(self, end_offset: int) -> bool:
        """Let the log end at ``end_offset`` by an empty batch, as compaction leaves them.

        Returns whether that is possible: an int32 must hold the number of missing offsets.
        """
        start = self.next_offset
        if start is None or end_offset - start > INT32_MAX:
            return False
        if end_offset - 1 - self._base_offset > INT32_MAX:
            self.roll(start)
        self._write(memoryview(gap_batch(start, end_offset, self._epoch)), end_offset)
        return True

    def finish(self) -> None:
        """Make the files durable; the caller syncs their names."""
        self._close()

    def _write(self, data: memoryview, next_offset: int) -> None:
        assert self._file is not None
        self._file.pwrite(data, self._size_bytes)
        self._size_bytes += len(data)
        self.next_offset = next_offset

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with closing(file):
                file.sync()
