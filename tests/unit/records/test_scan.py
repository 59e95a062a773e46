"""One batch in a buffer."""

from __future__ import annotations

import pytest
from tests.machinery.old_batches import build_entry

from tidelog.errors import CorruptMessage
from tidelog.records.batch import BATCH_HEADER
from tidelog.records.builder import build_batch
from tidelog.records.scan import batch_row, crc_matches, header_of_row, whole_batch_size

BATCH = build_batch([(10, b"k", b"v", ())], base_offset=2**63 - 1, leader_epoch=3)


def test_fields_and_header_are_the_same() -> None:
    """The fourteen fields of a batch can be converted back to its header."""
    row = batch_row(memoryview(BATCH), 0, len(BATCH))

    assert header_of_row(row) == BATCH_HEADER.unpack(BATCH)


def test_a_last_offset_wraps_as_in_java() -> None:
    """Base offset plus delta is a 64-bit sum."""
    data = bytearray(build_batch([(1, b"", b"", ())] * 2))
    BATCH_HEADER.pack_into(BATCH_HEADER.unpack(data)._replace(base_offset=2**63 - 1), data, 0)

    row = batch_row(memoryview(data), 0, len(data))
    assert row[3] == -(2**63)
    assert header_of_row(row) == BATCH_HEADER.unpack(data)


@pytest.mark.parametrize("magic", [0, 1])
def test_an_old_batch_shorter_than_a_new_header_has_a_size(magic: int) -> None:
    """Batches of magic 0 and 1 may be as short as 26 bytes."""
    entry = build_entry(magic, 0, (5, None, None))

    assert whole_batch_size(memoryview(entry), 0, len(entry), in_memory=True) == len(entry)
    assert crc_matches(entry, batch_row(memoryview(entry), 0, len(entry)))


def test_an_old_batch_without_room_for_its_timestamp_has_none() -> None:
    """A magic 1 batch may be as short as one of magic 0; decoding its records fails later."""
    entry = bytearray(build_entry(0, 0, (5, None, None)))
    entry[16] = 1

    assert batch_row(memoryview(entry), 0, len(entry))[8] == -1


@pytest.mark.parametrize("length", [-1, -(2**31), 0, 13])
def test_no_batch_is_shorter_than_14_bytes(length: int) -> None:
    """A length below 14 is corruption."""
    bad = bytearray(BATCH)
    bad[8:12] = length.to_bytes(4, "big", signed=True)

    with pytest.raises(CorruptMessage):
        whole_batch_size(memoryview(bad), 0, len(bad), in_memory=True)
