"""Building single batches."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
from tests.machinery.record_values import iterate

from tidelog.codec.compression import Codec
from tidelog.errors import InvalidArgument
from tidelog.records.batch import BATCH_HEADER, BatchFlags, TimestampType
from tidelog.records.builder import BatchFields, BatchSpec, build_batch, empty_batch
from tidelog.records.memory import walk

if TYPE_CHECKING:
    from tests.machinery.fields import SequenceFields


GOLDEN = bytes.fromhex(
    "0000000000000000 00000046 00000000 02 d70a9a39 0000 00000001 00000000000003e8"
    "00000000000003ed ffffffffffffffff ffff ffffffff 00000002 10000000026b027600"
    "16000a02026b010202680278"
)
GOLDEN_EMPTY = bytes.fromhex(
    "000000000000000a 00000031 00000000 02 d2166f6b 0010 00000004 ffffffffffffffff"
    "00000000000003ed 000000000000002a 0001 00000000 00000000"
)
RECORDS = [(1000, b"k", b"v", ()), (1005, b"k", None, (("h", b"x"),))]
PRODUCER: SequenceFields = {"producer_id": 42, "producer_epoch": 1, "base_sequence": 0}


def test_a_batch_is_kafkas_to_the_byte() -> None:
    """The golden vector: two records, a null value, a header."""
    assert build_batch(RECORDS, leader_epoch=0) == GOLDEN


def test_an_emptied_batch_is_kafkas_to_the_byte() -> None:
    """A batch kept without records has no base timestamp, codec or horizon; other bits are kept."""
    full = build_batch(
        [(1005, b"k", b"v", ())],
        base_offset=10,
        leader_epoch=0,
        last_offset=14,
        codec=Codec.ZSTD,
        delete_horizon_ms=7,
        transactional=True,
        **PRODUCER,
    )

    assert empty_batch(BATCH_HEADER.unpack(full)) == GOLDEN_EMPTY


@pytest.mark.parametrize("codec", Codec)
def test_records_come_back_from_every_codec(codec: Codec) -> None:
    """With every codec, the records read as they were given."""
    data = build_batch(RECORDS, codec=codec, base_offset=7)

    found = [(r.timestamp, r.key, r.value, r.headers) for r in iterate(data, walk(data).batches)]

    assert found == RECORDS


def test_no_records_make_no_batch() -> None:
    """No records give no bytes."""
    assert build_batch([]) == b""


def test_given_offsets_may_have_holes() -> None:
    """Offsets may have gaps, and the batch may end after its last record."""
    data = build_batch(RECORDS, base_offset=10, offsets=[12, 19], last_offset=30)

    batches = walk(data).batches

    assert [r.offset for r in iterate(data, batches)] == [12, 19]
    assert (batches.base_offset.item(), batches.last_offset.item()) == (10, 30)


def test_the_base_timestamp_is_the_first_records() -> None:
    """Later records may be older than the first; the header has the greatest timestamp."""
    data = build_batch([(50, b"", b"", ()), (10, b"", b"", ()), (90, b"", b"", ())])

    header = BATCH_HEADER.unpack(data)

    assert (header.base_timestamp, header.max_timestamp) == (50, 90)


def test_a_delete_horizon_takes_the_place_of_the_base_timestamp() -> None:
    """With a horizon the deltas are relative to it, and records keep their timestamps."""
    data = build_batch(RECORDS, delete_horizon_ms=1)

    header = BATCH_HEADER.unpack(data)
    found = [record.timestamp for record in iterate(data, walk(data).batches)]

    assert (header.base_timestamp, found) == (1, [1000, 1005])
    assert header.attributes == BatchFlags.DELETE_HORIZON


def test_log_append_time_is_stated_once() -> None:
    """With LogAppendTime all records have the batch's greatest timestamp."""
    appended = TimestampType.LOG_APPEND_TIME
    data = build_batch(RECORDS, timestamp_type=appended, max_timestamp=7777)

    found = [(r.timestamp, r.timestamp_type) for r in iterate(data, walk(data).batches)]

    assert found == [(7777, appended)] * 2


@pytest.mark.parametrize(
    "fields",
    [
        {"transactional": True},
        {"producer_id": 1},
        {"producer_id": 1, "producer_epoch": 0},
        {"timestamp_type": TimestampType.LOG_APPEND_TIME},
        {"last_offset": 0},
        {"offsets": [5, 5]},
        {"offsets": [5, 4]},
        {"offsets": [0, 2**31]},
        {"offsets": [0]},
    ],
)
def test_fields_that_do_not_fit_are_refused(fields: dict[str, Any]) -> None:
    """A transaction needs a producer, a producer an epoch and a sequence; offsets must increase."""
    with pytest.raises(InvalidArgument):
        build_batch(RECORDS, **fields)


@pytest.mark.parametrize("timestamp", [-2, 2**63, -(2**70)])
def test_a_timestamp_out_of_range_is_rejected(timestamp: int) -> None:
    """The only negative timestamp is -1, for none, and the greatest is that of an int64."""
    with pytest.raises(InvalidArgument):
        build_batch([(0, b"", b"", ()), (timestamp, b"", b"", ())])


@pytest.mark.parametrize("timestamps", [(-1, 2**63 - 1), (2**63 - 1, -1)])
def test_timestamps_as_far_apart_as_can_be_come_back(timestamps: tuple[int, int]) -> None:
    """A delta that exceeds an int64 wraps around, as in Java, and the timestamps are restored."""
    data = build_batch([(timestamp, b"", b"", ()) for timestamp in timestamps])

    found = [record.timestamp for record in iterate(data, walk(data, check_crc=True).batches)]
    assert tuple(found) == timestamps


@pytest.mark.parametrize(
    "fields",
    [
        {"base_offset": 2**63},
        {"base_offset": 2**63 - 1},
        {"leader_epoch": 2**31},
        {"max_timestamp": 2**63},
        {"producer_id": 2**63, "producer_epoch": 0, "base_sequence": 0},
        {"producer_id": 1, "producer_epoch": 2**15, "base_sequence": 0},
        {"producer_id": 1, "producer_epoch": 0, "base_sequence": 2**31},
    ],
)
def test_a_number_larger_than_its_field_is_refused(fields: dict[str, Any]) -> None:
    """Numbers that do not fit in their field, and a last offset beyond an int64, are rejected."""
    with pytest.raises(InvalidArgument):
        build_batch(RECORDS, **fields)


def test_fields_change_a_spec() -> None:
    """Single fields by name override those of a spec."""
    spec = BatchSpec(base_offset=5, leader_epoch=3)

    assert BATCH_HEADER.unpack(build_batch(RECORDS, spec, leader_epoch=4)).leader_epoch == 4


def test_the_fields_that_may_be_passed_are_those_of_a_spec() -> None:
    """``BatchFields`` names each field of ``BatchSpec``, with its type."""
    fields = {field.name: field.type for field in dataclasses.fields(BatchSpec)}
    kinds = BatchFields.__annotations__.items()

    assert {name: kind.__forward_arg__ for name, kind in kinds} == fields
