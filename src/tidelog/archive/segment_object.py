"""One closed segment as one object: its files one after the other, and a coarse index of its log.

Kafka: ``LogSegmentData``, whose parts its plugins put apart.
"""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidelog.archive.coarse_index import COARSE_BYTES, COARSE_ENTRY
from tidelog.archive.deltas import Entry
from tidelog.codec.checkpoint_file import LEADER_EPOCH_FILE, pack_leader_epochs, read_leader_epochs
from tidelog.codec.crc32c import crc32c
from tidelog.log.producers.producer_snapshot import unpack_snapshot
from tidelog.records.batch import NO_TIMESTAMP
from tidelog.records.damage.sound_offsets import OffsetBounds
from tidelog.records.file_records import FileRecords
from tidelog.segment.filenames import (
    log_file,
    offset_index_file,
    producer_snapshot_file,
    time_index_file,
    transaction_index_file,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.env.files import FileSystem

_READ_BYTES: Final = 1 << 20


class SegmentFacts(NamedTuple):
    """What a walk over a segment's batches finds; the time is in ms, -1 if no record has one."""

    size_bytes: int
    crc32c: int
    max_timestamp: int
    coarse: bytes


class SegmentObject:
    """The files of a closed segment as the parts of an object.

    Args:
        fs: the disk.
        directory: the log's.
        base_offset: the segment's.
        end_offset: where the next segment begins.

    Raises:
        CorruptMessage: a batch is damaged.
        OSError: the disk failed, or a file is gone.
    """

    def __init__(self, fs: FileSystem, directory: str, base_offset: int, end_offset: int) -> None:
        self._fs = fs
        self._log = log_file(directory, base_offset)
        self.base_offset: Final = base_offset
        self.end_offset: Final = end_offset
        self._facts = segment_facts(fs, directory, base_offset, end_offset)
        self._epochs = _epochs(fs, directory, end_offset)
        snapshot = self._small(producer_snapshot_file(directory, end_offset))
        self._opened = tuple(
            (one.producer_id, one.txn_first_offset)
            for one in (unpack_snapshot(snapshot) if snapshot else ())
            if one.txn_first_offset >= 0
        )
        self._small_parts = (
            self._facts.coarse,
            self._small(transaction_index_file(directory, base_offset)),
            snapshot,
            pack_leader_epochs(self._epochs),
            self._small(offset_index_file(directory, base_offset)),
            self._small(time_index_file(directory, base_offset)),
        )

    @property
    def object_bytes(self) -> int:
        """The size of the object."""
        return self._facts.size_bytes + sum(map(len, self._small_parts))

    def entry(self, name: str, etag: str) -> Entry:
        """Return what the archive says of it, once it is there under a name."""
        return Entry(
            name,
            self.base_offset,
            self.end_offset,
            self._facts.max_timestamp,
            self._facts.size_bytes,
            self._facts.crc32c,
            etag,
            (self._facts.size_bytes, *map(len, self._small_parts)),
            self._epochs,
            self._opened,
        )

    def parts(self) -> Iterator[bytes]:
        """Yield the object's bytes, about a MiB at a time."""
        with closing(self._fs.open(self._log)) as file:
            for start in range(0, self._facts.size_bytes, _READ_BYTES):
                yield file.pread(min(_READ_BYTES, self._facts.size_bytes - start), start)
        yield from self._small_parts

    def _small(self, path: str) -> bytes:
        """Return the bytes of a file, none if there is no such file."""
        try:
            return self._fs.read(path)
        except FileNotFoundError:
            return b""


def segment_facts(
    fs: FileSystem, directory: str, base_offset: int, end_offset: int
) -> SegmentFacts:
    """Check every batch of a closed segment, and return what is found of them, in one read.

    Arguments and errors as ``SegmentObject``.
    """
    bounds = OffsetBounds.of_segment(base_offset, end_offset)
    coarse: list[tuple[int, int, int]] = []
    largest, indexed, checksum = NO_TIMESTAMP, 0, 0
    with closing(fs.open(log_file(directory, base_offset))) as file:
        size_bytes = file.size()
        for piece in FileRecords(file, bounds=bounds).whole_pieces(check_crc=True):
            batches = piece.batches
            times = np.maximum.accumulate(np.maximum(batches.max_timestamp, largest))
            for number in np.flatnonzero(batches.position >= indexed).tolist():
                position = batches.position.item(number)
                if position < indexed:
                    continue
                before = times.item(number - 1) if number else largest
                coarse.append((batches.base_offset.item(number), position, before))
                indexed = position + COARSE_BYTES
            largest = times.item(-1)
            checksum = crc32c(piece.data[: batches.next_position - piece.data_position], checksum)
    return SegmentFacts(
        size_bytes, checksum, largest, np.array(coarse, COARSE_ENTRY.dtype).tobytes()
    )


def _epochs(fs: FileSystem, directory: str, end_offset: int) -> tuple[tuple[int, int], ...]:
    """Return the leader epochs that begin below an offset; none if the log has none."""
    try:
        found = read_leader_epochs(fs, os.path.join(directory, LEADER_EPOCH_FILE))
    except FileNotFoundError:
        return ()
    return tuple((epoch, start) for epoch, start in found if start < end_offset)
