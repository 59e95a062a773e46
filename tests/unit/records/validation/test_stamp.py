"""Header fields set by a leader."""

from __future__ import annotations

import numpy as np
import pytest
from tests.machinery.old_batches import build_old

from tidelog.errors import InvalidArgument
from tidelog.records.batch import BATCH_HEADER, BatchFlags, TimestampType
from tidelog.records.builder import build_batch, pack_batch
from tidelog.records.memory import walk
from tidelog.records.validation.stamp import stamp_append_time, stamp_in_place, stamp_offsets

BATCH = build_batch([(10, b"k", b"v", ()), (20, b"k", b"v", ())])
PAIR = BATCH + build_batch([(30, b"k", b"v", ())], last_offset=4)
APPEND = TimestampType.LOG_APPEND_TIME


@pytest.mark.usefixtures("engine")
def test_offsets_follow_each_other_and_spare_the_crc() -> None:
    """Each batch keeps its number of offsets; only twelve bytes of it change."""
    data = bytearray(PAIR)
    batches = walk(data).batches

    next_offset = stamp_offsets(data, batches, 2**40, 7)

    again = walk(data, check_crc=True)
    assert next_offset == 2**40 + 7
    assert again.batches.base_offset.tolist() == [2**40, 2**40 + 2]
    assert again.batches.leader_epoch.tolist() == [7, 7]
    assert again.error is None
    assert np.array_equal(again.batches.array, batches.array)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("base_offset", [0, 5])
def test_offsets_of_any_number_of_batches_follow_each_other(base_offset: int) -> None:
    """Their earlier offsets do not matter; one batch of one record is enough."""
    one = build_batch([(10, b"k", b"v", ())], base_offset=3)
    data = bytearray(one + build_batch([(30, b"k", b"v", ())], base_offset=9, last_offset=11) + one)
    batches = walk(data).batches

    assert stamp_offsets(data, batches, base_offset, 7) == base_offset + 5

    again = walk(data).batches
    assert (again.base_offset - base_offset).tolist() == [0, 1, 4]
    assert (again.last_offset - base_offset).tolist() == [0, 3, 4]
    single = bytearray(one)
    assert stamp_offsets(single, walk(single).batches, base_offset, 7) == base_offset + 1


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize(
    "bad",
    [
        build_old(1, [(1, b"k", b"v")]),
        pack_batch(BATCH_HEADER.unpack(BATCH)._replace(last_offset_delta=-3), BATCH[61:]),
    ],
    ids=["old", "no offsets"],
)
def test_a_batch_that_cannot_be_stamped_changes_nothing(bad: bytes) -> None:
    """Old formats and batches that span no offsets are rejected before anything is written."""
    data = bytearray(BATCH + bad)

    with pytest.raises(InvalidArgument):
        stamp_offsets(data, walk(data).batches, 100, 1)

    assert bytes(data) == BATCH + bad


def test_the_append_time_takes_a_new_crc() -> None:
    """Timestamp type and greatest timestamp are covered by the CRC."""
    data = bytearray(PAIR)
    batches = walk(data).batches

    stamp_append_time(data, batches, 99)

    again = walk(data, check_crc=True)
    assert (again.error, again.batches.max_timestamp.tolist()) == (None, [99, 99])
    assert again.batches.is_log_append_time.all()
    assert np.array_equal(again.batches.array, batches.array)


def test_only_known_flags_survive_a_new_type() -> None:
    """A change of type clears undefined bits and keeps the others."""
    kept = BatchFlags.TRANSACTIONAL | BatchFlags.DELETE_HORIZON
    header = BATCH_HEADER.unpack(BATCH)._replace(attributes=0x7F80 | kept)
    data = bytearray(pack_batch(header, BATCH[61:]))
    row = walk(data).batches.array[:, 0].tolist()

    stamp_in_place(data, row, APPEND, 99)

    expected = kept | BatchFlags.LOG_APPEND_TIME
    assert BATCH_HEADER.unpack(data).attributes == row[6] == expected


@pytest.mark.parametrize(
    ("attributes", "kind", "max_timestamp"),
    [(0, TimestampType.CREATE_TIME, 21), (0, APPEND, 20), (8, TimestampType.CREATE_TIME, 20)],
)
def test_a_new_type_or_timestamp_takes_a_new_crc(
    attributes: int, kind: TimestampType, max_timestamp: int
) -> None:
    """Either alone is enough."""
    header = BATCH_HEADER.unpack(BATCH)._replace(attributes=attributes)
    data = bytearray(pack_batch(header, BATCH[61:]))
    row = walk(data).batches.array[:, 0].tolist()

    stamp_in_place(data, row, kind, max_timestamp)

    again = walk(data, check_crc=True)
    assert again.error is None
    assert again.batches.array[:, 0].tolist() == row
    assert again.batches.max_timestamp.tolist() == [max_timestamp]
    assert again.batches.is_log_append_time.tolist() == [kind is APPEND]


@pytest.mark.parametrize("bit", range(15))
def test_each_defined_flag_survives_a_new_type(bit: int) -> None:
    """Codec, timestamp type, transaction, control and delete horizon: bits 0 to 6."""
    header = BATCH_HEADER.unpack(BATCH)._replace(attributes=1 << bit)
    data = bytearray(pack_batch(header, BATCH[61:]))
    row = walk(data).batches.array[:, 0].tolist()

    stamp_in_place(data, row, APPEND, 99)

    assert row[6] == BatchFlags.LOG_APPEND_TIME | (1 << bit if bit < 7 else 0)


def test_the_same_type_and_timestamp_spare_the_crc() -> None:
    """So the bytes stay as they were, a wrong CRC and undefined flags included."""
    for kind, attributes in ((TimestampType.CREATE_TIME, 0x80), (APPEND, 0x88)):
        header = BATCH_HEADER.unpack(BATCH)._replace(attributes=attributes)
        data = bytearray(pack_batch(header, BATCH[61:]))
        data[17] ^= 1
        before = bytes(data)

        stamp_in_place(data, walk(data).batches.array[:, 0].tolist(), kind, 20)

        assert bytes(data) == before


def test_nothing_new_changes_no_byte() -> None:
    """Writing the same fields again gives the same bytes."""
    data = bytearray(BATCH)

    stamp_in_place(data, walk(data).batches.array[:, 0].tolist(), TimestampType.CREATE_TIME, 20)

    assert bytes(data) == BATCH
