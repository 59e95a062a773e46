"""A walk past damage takes memory for batches that are there, not for what a length claims."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.machinery.old_batches import build_old

from tidelog.records.builder import build_batch
from tidelog.records.damage.past_damage import BadBytes, walk_past_damage
from tidelog.testing.crash_files import CrashFileSystem

if TYPE_CHECKING:
    from tidelog.env.files import OpenFile

PATH = "/log"
SMALL = build_batch([(1000, b"k", b"v", ())], base_offset=3)


class Watched:
    """A file that knows the most bytes that were read at once."""

    def __init__(self, below: OpenFile) -> None:
        self._below = below
        self.most = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._below, name)

    def pread(self, size: int, position: int) -> bytes:
        """Read."""
        data = self._below.pread(size, position)
        self.most = max(self.most, len(data))
        return data

    def pread_into(self, buffer: Any, position: int) -> int:
        """Read."""
        count = self._below.pread_into(buffer, position)
        self.most = max(self.most, count)
        return count


def walked(data: bytes) -> tuple[list[int | str], int]:
    """Walk over bytes; return offsets and reasons, and the most bytes that were read at once."""
    fs = CrashFileSystem()
    fs.write(PATH, data)
    file = Watched(fs.open(PATH))
    found: list[int | str] = []
    for one in walk_past_damage(cast("OpenFile", file), 0, len(data)):
        found += [one.reason] if isinstance(one, BadBytes) else one.batches.base_offset.tolist()
    file.close()
    return found, file.most


@pytest.mark.parametrize("magic", [1, 2])
def test_a_large_batch_is_read_if_its_checksum_is_right(magic: int) -> None:
    """Of every format, before and after damage; one with a wrong checksum is bad bytes."""
    value = bytes(5 << 20)
    large = build_batch([(1000, b"k", value, ())], base_offset=1)
    if magic == 1:
        large = build_old(1, [(1000, b"k", value)], base_offset=1)
    damaged = large[:-1] + b"x"

    assert walked(large + SMALL)[0] == [1, 3]
    assert walked(SMALL[:-1] + b"x" + large + SMALL)[0] == ["the CRC of a batch is wrong", 1, 3]
    assert walked(damaged + SMALL)[0] == ["the CRC of a batch is wrong", 3]


def test_a_length_that_is_damaged_takes_no_memory() -> None:
    """It may claim all of a file, in which the next batch is found."""
    broken = bytearray(SMALL)
    broken[8:12] = struct.pack(">i", 20 << 20)
    data = bytes(broken) + SMALL + bytes(21 << 20)

    found, most = walked(data)

    assert found[:2] == ["the CRC of a batch is wrong", 3]
    assert most <= 1 << 20
