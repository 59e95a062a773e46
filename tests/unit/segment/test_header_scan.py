"""Finding a batch by its header."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.codec.compression import Codec
from tidelog.errors import CorruptMessage
from tidelog.records.damage.sound_offsets import OffsetBounds
from tidelog.segment.header_scan import (
    BatchPosition,
    WalkStart,
    find_batch,
    find_start,
    read_headers,
)
from tidelog.segment.index_entries import OffsetPosition

if TYPE_CHECKING:
    from tests.unit.segment.conftest import Room

    from tidelog.env.files import OpenFile


def file_of(room: Room, *parts: bytes) -> OpenFile:
    room.fs.write(room.path("x.log"), b"".join(parts))
    return room.fs.open(room.path("x.log"))


def found(room: Room, offset: int, *parts: bytes) -> BatchPosition | None:
    file = file_of(room, *parts)
    return find_batch(file, 0, file.size(), offset)


class Counting:
    """Counts the bytes that are read of a file; nothing but ``pread`` is used."""

    def __init__(self, file: OpenFile) -> None:
        self._file = file
        self.path = file.path
        self.bytes = 0

    def pread(self, size: int, position: int) -> bytes:
        self.bytes += size
        return self._file.pread(size, position)


def test_the_first_batch_that_reaches_the_offset_is_found(room: Room) -> None:
    """The last offset decides, so a batch that starts above counts if offsets are missing."""
    parts = [room.batch([50, 51]), room.batch([60, 61])]
    size = len(parts[0])

    assert found(room, 41, *parts) == BatchPosition(50, 51, 0, size, 2)
    assert found(room, 51, *parts) == BatchPosition(50, 51, 0, size, 2)
    assert found(room, 52, *parts) == BatchPosition(60, 61, size, len(parts[1]), 2)
    assert found(room, 62, *parts) is None


def test_an_old_compressed_set_gives_its_first_offset(room: Room) -> None:
    """The header has only the last one; the first is inside."""
    parts = [room.legacy(3), room.legacy_set([4, 5, 6]), room.batch([7])]

    assert found(room, 3, *parts) == BatchPosition(3, 3, 0, len(parts[0]), 1)
    assert found(room, 5, *parts) == BatchPosition(4, 6, len(parts[0]), len(parts[1]), 1)


@pytest.mark.parametrize("tail", [b"", b"\0" * 17, b"torn header of x"])
def test_bytes_too_few_for_a_batch_end_the_search(room: Room, tail: bytes) -> None:
    """Up to 17 bytes are not a header, whatever they are."""
    assert found(room, 9, room.batch([1, 2]), tail) is None


def test_a_torn_batch_ends_the_search(room: Room) -> None:
    """It declares more bytes than there are."""
    assert found(room, 3, room.batch([1, 2]), room.batch([3])[:-1]) is None


def test_zeros_are_damage(room: Room) -> None:
    """They occur after the end of a preallocated file; the error names byte and file."""
    first = room.batch([1, 2])

    with pytest.raises(CorruptMessage) as caught:
        found(room, 3, first, b"\0" * 18)

    assert (caught.value.position, caught.value.path) == (len(first), room.path("x.log"))


def test_a_negative_magic_is_damage(room: Room) -> None:
    """No reader could know what follows."""
    bad = bytearray(room.batch([3]))
    bad[16] = 255

    with pytest.raises(CorruptMessage):
        found(room, 3, room.batch([1, 2]), bytes(bad))


@pytest.mark.parametrize("magic", [3, 127])
def test_a_later_magic_is_skipped_like_magic_2(room: Room, magic: int) -> None:
    """As in Kafka, whose logs open with it; reading the batch itself raises the error."""
    bad = bytearray(room.batch([3]))
    bad[16] = magic

    position = found(room, 4, room.batch([1, 2]), bytes(bad), room.batch([4]))

    assert position is not None
    assert position.base_offset == 4


def test_damage_after_the_batch_is_not_noticed(room: Room) -> None:
    """The search reads no further than necessary."""
    assert found(room, 2, room.batch([1, 2]), b"\0" * 99) is not None


def test_bodies_of_large_batches_are_not_read(room: Room) -> None:
    """A walk over megabytes of large batches reads a few bytes of each."""
    large = [room.batch([i], codec=Codec.NONE) for i in range(3)]
    data = [room.batch(range(i * 1_000, i * 1_000 + 1_000)) for i in range(3)]
    file = file_of(room, *data, *large)
    counted = Counting(file)

    batches = list(read_headers(counted, 0, file.size()))  # type: ignore[arg-type]  # only pread is used

    assert len(batches) == 6
    assert counted.bytes < 40_000 < file.size()


def test_the_batch_after_a_large_one_is_found_by_its_header(room: Room) -> None:
    """Where all batches are large, an index entry points to the one before."""
    parts = [room.batch(range(i * 40_000, (i + 1) * 40_000)) for i in range(3)]
    file = file_of(room, *parts)
    size = len(parts[0])
    counted = Counting(file)
    bounds = OffsetBounds(0)

    start = find_start(counted, OffsetPosition(0, 0), file.size(), 40_000, bounds)  # type: ignore[arg-type]  # only pread is used

    assert start == WalkStart(size, bounds.after(39_999), start.batch)
    assert start.batch == BatchPosition(40_000, 79_999, size, len(parts[1]), 2)
    assert counted.bytes < 40_000 < 256 << 10 < size


def test_a_distant_batch_is_found_in_large_pieces(room: Room) -> None:
    """Without an index entry, the search covers the whole file."""
    count = 3_000
    parts = [room.batch([i]) for i in range(count)]
    size = len(parts[0])

    assert sum(map(len, parts)) > 256 << 10
    assert found(room, count - 1, *parts) == BatchPosition(
        count - 1, count - 1, size * (count - 1), size, 2
    )
    assert found(room, count, *parts) is None


def test_damage_far_away_is_an_error_too(room: Room) -> None:
    """It is before any batch that could be the result."""
    parts = [room.batch([i]) for i in range(3_000)]

    with pytest.raises(CorruptMessage):
        found(room, 3_000, *parts, b"\0" * 18)
