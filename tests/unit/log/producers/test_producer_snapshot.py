"""The bytes of a producer snapshot."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.codec.crc32c import crc32c
from tidelog.errors import CorruptSnapshot
from tidelog.log.producers.producer_snapshot import (
    ProducerSnapshotEntry,
    pack_snapshot,
    unpack_snapshot,
)

INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT16 = st.integers(-(2**15), 2**15 - 1)
ENTRIES = st.lists(
    st.builds(ProducerSnapshotEntry, INT64, INT16, INT32, INT64, INT32, INT64, INT32, INT64)
)
ONE = ProducerSnapshotEntry(
    producer_id=42,
    producer_epoch=1,
    last_sequence=4,
    last_offset=11,
    offset_delta=4,
    timestamp=1000,
    coordinator_epoch=-1,
    txn_first_offset=7,
)


def test_a_snapshot_has_kafkas_bytes() -> None:
    """One producer and none are packed as Kafka packs them."""
    one = (
        "0001 567aeaea 00000001 000000000000002a 0001 00000004 000000000000000b 00000004"
        "00000000000003e8 ffffffff 0000000000000007"
    )

    assert bytes.fromhex(one) == pack_snapshot([ONE])
    assert bytes.fromhex("0001 48674bc7 00000000") == pack_snapshot([])


@settings(max_examples=50)
@given(ENTRIES)
def test_entries_survive_packing(entries: list[ProducerSnapshotEntry]) -> None:
    """What was packed is unpacked, in its order.

    Scenario: ProducerStateManagerTest.testReadWriteSnapshot
    """
    assert entries == unpack_snapshot(pack_snapshot(entries))


@pytest.mark.parametrize("size", range(len(pack_snapshot([ONE]))))
def test_a_cut_snapshot_is_corrupt(size: int) -> None:
    """No prefix of a snapshot reads as one.

    Scenario: ProducerStateManagerTest.testLoadFromTruncatedSnapshotFile
    """
    with pytest.raises(CorruptSnapshot):
        unpack_snapshot(pack_snapshot([ONE])[:size])


@pytest.mark.parametrize("position", range(len(pack_snapshot([ONE]))))
def test_a_flipped_byte_is_noticed(position: int) -> None:
    """Version and checksum together cover every byte.

    Scenario: ProducerStateManagerTest.testLoadFromCorruptSnapshotFile
    """
    data = bytearray(pack_snapshot([ONE]))
    data[position] ^= 0x40

    with pytest.raises(CorruptSnapshot):
        unpack_snapshot(bytes(data))


def test_bytes_behind_the_entries_mean_nothing() -> None:
    """As in Kafka, if the checksum covers them."""
    entry = ProducerSnapshotEntry(1, 0, 4, 11, 4, 1000, -1, -1)
    data = pack_snapshot([entry]) + bytes(46)

    checked = data[:2] + crc32c(data[6:]).to_bytes(4, "big") + data[6:]

    assert unpack_snapshot(checked) == [entry]
