"""What is counted in bytes that recovery cuts off."""

from __future__ import annotations

import pytest

from tidelog.log.loading.load_watch import Loss
from tidelog.log.loading.lost_records import LostBytes, look_into
from tidelog.testing import CrashFileSystem, build_batch

PATH = "/data/a.log"


def batch(offset: int, count: int = 2) -> bytes:
    """Make a batch of records."""
    return build_batch([(1, None, b"value", ())] * count, base_offset=offset)


def lost(data: bytes, position: int) -> LostBytes:
    """Look into the bytes from ``position`` on."""
    fs = CrashFileSystem()
    fs.make_directory("/data")
    fs.write(PATH, data)
    file = fs.open(PATH)
    try:
        return look_into(Loss(PATH, 0, file, position, len(data), 0, "why", is_segment=False))
    finally:
        file.close()


def test_batches_behind_a_bad_one_still_read() -> None:
    """The search continues after the bad batch, and again after the next bad one."""
    bad = bytearray(batch(2))
    bad[-1] ^= 1
    good = batch(0)
    data = good + bytes(bad) + batch(4, 3) + bytes(bad) + batch(9)

    found = lost(data, len(good))

    assert (found.batches, found.records) == (2, 5)
    assert (found.first_offset, found.last_offset) == (4, 10)
    assert found.unreadable_bytes == 2 * len(bad)
    assert not found.is_all_zeros


@pytest.mark.parametrize("stated", [1, 40])
def test_records_of_a_batch_with_a_wrong_offset_count(stated: int) -> None:
    """It is cut off with the sound ones after it, whatever offset it states."""
    found = lost(batch(2) + batch(stated) + batch(6), 0)

    assert (found.batches, found.records) == (3, 6)
    assert (found.first_offset, found.last_offset) == (min(stated, 2), 7)


@pytest.mark.parametrize("garbage", [b"\xff" * 300, batch(0)[:-1], b"\x01"])
def test_bytes_without_a_batch_are_unreadable(garbage: bytes) -> None:
    """Where no next batch can be found, all the rest counts as unreadable."""
    found = lost(garbage, 0)

    assert (found.batches, found.records, found.first_offset) == (0, 0, None)
    assert found.unreadable_bytes == found.size_bytes == len(garbage)


def test_zeros_are_nothing_lost() -> None:
    """The unused end of a preallocated file is distinguished from lost bytes."""
    assert lost(batch(0) + bytes(5000), len(batch(0))).is_all_zeros
