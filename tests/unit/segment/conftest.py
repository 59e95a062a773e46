"""A partition directory in memory, and segments in it."""

from __future__ import annotations

import struct
import zlib
from random import Random
from typing import TYPE_CHECKING, Any, Unpack

import pytest

from tidelog.config.log_config import LogConfig
from tidelog.errors import InvariantError, OffsetsOutOfOrder, SegmentOffsetOverflow
from tidelog.records.builder import BatchSpec
from tidelog.records.memory import walk
from tidelog.segment.segment import LogSegment
from tidelog.testing import CrashFileSystem, ManualClock, build_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tidelog.records.builder import BatchFields
    from tidelog.segment.offset_index import OffsetIndex
    from tidelog.segment.time_index import TimeIndex

DIRECTORY = "/data/topic-0"


def is_refused(append: Callable[[], object]) -> bool:
    """Return whether an index refuses entries for their order or range."""
    try:
        append()
    except (InvariantError, OffsetsOutOfOrder, SegmentOffsetOverflow):
        return True
    return False


class Room:
    """One directory with its clock; its segments are opened with a few settings changed."""

    directory = DIRECTORY

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.fs = CrashFileSystem(clock=self.clock)
        self.fs.make_directory(DIRECTORY)

    def path(self, name: str) -> str:
        """Return the path of a file in the directory."""
        return f"{DIRECTORY}/{name}"

    def names(self) -> list[str]:
        """Return the names in the directory."""
        return sorted(self.fs.list(DIRECTORY))

    def segment(
        self, base_offset: int = 0, *, suffix: str = "", preallocate: bool = False, **config: Any
    ) -> LogSegment:
        """Open a segment with the default settings except for ``config``."""
        return LogSegment.open(
            DIRECTORY,
            base_offset,
            LogConfig(**config),
            fs=self.fs,
            clock=self.clock,
            rng=Random(1),
            suffix=suffix,
            preallocate=preallocate,
        )

    def batch(
        self,
        offsets: Sequence[int],
        timestamps: Sequence[int] | None = None,
        **spec: Unpack[BatchFields],
    ) -> bytes:
        """Build one batch with records of 100 bytes at these offsets."""
        times = [-1] * len(offsets) if timestamps is None else timestamps
        records = [(time, None, b"x" * 100, ()) for time in times]
        return build_batch(records, BatchSpec(base_offset=offsets[0]), offsets=offsets, **spec)

    def append_data(self, segment: LogSegment, data: bytes) -> None:
        """Append batches that are already built."""
        batches = walk(data).batches
        segment.append(int(batches.last_offset[-1]), data, batches)

    def append(
        self,
        segment: LogSegment,
        offsets: Sequence[int],
        timestamps: Sequence[int] | None = None,
        **spec: Unpack[BatchFields],
    ) -> int:
        """Append one batch and return its size in bytes."""
        data = self.batch(offsets, timestamps, **spec)
        self.append_data(segment, data)
        return len(data)

    def stored(self, segment: LogSegment) -> bytes:
        """Return the bytes of a segment's file."""
        return self.fs.read(segment.path)[: segment.size_bytes]

    def legacy(self, offset: int, timestamp: int = -1, value: bytes = b"x" * 60) -> bytes:
        """Build one plain record of magic 1."""
        return legacy_entry(offset, timestamp, value)

    def legacy_set(self, offsets: Sequence[int], timestamp: int = -1) -> bytes:
        """Build a compressed set of magic 1, whose inner offsets start at 0."""
        inner = b"".join(legacy_entry(o - offsets[0], timestamp, b"x") for o in offsets)
        packer = zlib.compressobj(wbits=31)
        packed = packer.compress(inner) + packer.flush()
        return legacy_entry(offsets[-1], timestamp, packed, attributes=1)


def entries(segment: LogSegment) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the entries of a segment's offset index and of its time index."""
    return offset_entries(segment.offset_index), time_entries(segment.time_index)


def offset_entries(index: OffsetIndex) -> list[tuple[int, int]]:
    """Return offset and position of each entry."""
    return [(index.base_offset + key, value) for key, value in fields(index)]


def time_entries(index: TimeIndex) -> list[tuple[int, int]]:
    """Return timestamp and offset of each entry."""
    return [(key, index.base_offset + value) for key, value in fields(index)]


def fields(index: OffsetIndex | TimeIndex) -> Iterator[tuple[int, int]]:
    """Yield the entries of an index as they are in its file."""
    found = index.entries()
    return zip(found.filled_keys.tolist(), found.filled_values.tolist(), strict=True)


def legacy_entry(offset: int, timestamp: int, value: bytes, attributes: int = 0) -> bytes:
    body = struct.pack(">bbqii", 1, attributes, timestamp, -1, len(value)) + value
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


@pytest.fixture
def room() -> Room:
    return Room()
