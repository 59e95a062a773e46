"""Batches built from columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tidelog.codec.compression import Codec
from tidelog.errors import InvalidArgument
from tidelog.kernels.runtime import gate
from tidelog.records.batch import BATCH_HEADER, TimestampType
from tidelog.records.builder import BatchSpec, build_batch, pack_batch
from tidelog.records.bulk_builder import RecordSource, build_batches, rebuild
from tidelog.records.decoding.record_columns import decode
from tidelog.records.memory import walk

if TYPE_CHECKING:
    from tidelog.records.builder import RecordFields

RECORDS = [
    (
        10**12 + i * 7919 % 100,
        None if i % 7 == 0 else b"key%d" % i,
        None if i % 11 == 0 else b"v" * (i % 300),
        () if i % 3 else (("h", b"x"), ("\u00e9", None)),
    )
    for i in range(200)
]
ODD_RECORDS: list[RecordFields] = [
    (-1, b"k", b"v", [("h", b"1")]),
    (2**63 - 1, b"k", b"v", [("name", None)]),
    (0, None, None, ()),
]
DATA = build_batch(RECORDS, base_offset=77)
PRODUCER = BatchSpec(
    base_offset=500,
    leader_epoch=2,
    producer_id=5,
    producer_epoch=1,
    base_sequence=2**31 - 50,
    transactional=True,
)
APPENDED = BatchSpec(timestamp_type=TimestampType.LOG_APPEND_TIME, max_timestamp=77)


def source() -> RecordSource:
    return RecordSource.of(decode(DATA, walk(DATA).batches))


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("codec", Codec)
def test_records_are_spread_over_batches_without_holes(codec: Codec) -> None:
    """Offsets and sequences continue from batch to batch; no batch exceeds its size limit."""
    spec = BatchSpec(**{**_fields(PRODUCER), "codec": codec})

    built = build_batches(source(), spec, batch_bytes=4096)

    found = walk(built.data, check_crc=True)
    assert (found.error, found.next_position) == (None, len(built.data))
    assert np.array_equal(found.batches.array, built.batches.array)
    columns = decode(built.data, built.batches)
    assert columns.offset.tolist() == list(range(500, 700))
    assert [(r.timestamp, r.key, r.value, r.headers) for r in columns.records()] == RECORDS
    sequences = [record.sequence for record in columns.records()]
    assert sequences == [(2**31 - 50 + i) % 2**31 for i in range(200)]
    if codec is Codec.NONE:
        assert built.batches.size.max() <= 4096


def _fields(spec: BatchSpec) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in BatchSpec.__dataclass_fields__}


@pytest.mark.parametrize("spec", [BatchSpec(), PRODUCER, APPENDED])
@pytest.mark.parametrize("codec", Codec)
def test_kernels_and_plain_code_write_the_same_bytes(spec: BatchSpec, codec: Codec) -> None:
    """Both cut at the same records and write the same batches."""
    spec = BatchSpec(**{**_fields(spec), "codec": codec})
    chosen = np.arange(199, 0, -3)
    written = []
    for way in (False, True):
        gate.force(way)
        written.append(build_batches(source(), spec, chosen=chosen, batch_bytes=2000))
    gate.force(None)

    assert written[0].data.tobytes() == written[1].data.tobytes()
    assert np.array_equal(written[0].batches.array, written[1].batches.array)


@pytest.mark.parametrize("spec", [BatchSpec(), PRODUCER, APPENDED])
@pytest.mark.parametrize("batch_bytes", [80, 2000])
def test_odd_records_are_the_same_bytes_by_kernels_and_plain_code(
    spec: BatchSpec, batch_bytes: int
) -> None:
    """Distances of timestamps wrap; a header name that is not valid UTF-8 keeps its bytes."""
    area = build_batch(ODD_RECORDS)[BATCH_HEADER.size :].replace(b"name", b"n\xff\xedn")
    header = BATCH_HEADER.unpack(build_batch(ODD_RECORDS))
    odd = pack_batch(header, area)
    written = []
    for way in (False, True):
        gate.force(way)
        columns = decode(odd, walk(odd).batches)
        built = build_batches(RecordSource.of(columns), spec, batch_bytes=batch_bytes)
        written.append((bytes(built.data), bytes(rebuild(columns, spec))))
    gate.force(None)

    assert written[0] == written[1]
    assert all(b"n\xff\xedn" in data for data in written[0])
    found = decode(written[0][0], walk(written[0][0]).batches)
    timestamps = [77, 77, 77] if spec is APPENDED else [-1, 2**63 - 1, 0]
    assert found.timestamp.tolist() == timestamps


@pytest.mark.usefixtures("engine")
def test_a_record_larger_than_a_batch_has_its_own() -> None:
    """``batch_bytes`` limits batches, not records."""
    built = build_batches(source(), batch_bytes=1)

    assert built.batches.records_count.tolist() == [1] * 200


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("spec", [BatchSpec(), PRODUCER, APPENDED])
def test_one_batch_is_rebuilt_as_it_would_be_built(spec: BatchSpec) -> None:
    """Records that went through columns make the same batch as when built directly."""
    columns = decode(DATA, walk(DATA).batches)

    assert bytes(rebuild(columns, spec)) == build_batch(RECORDS, spec)


@pytest.mark.usefixtures("engine")
def test_a_rebuilt_batch_may_have_holes() -> None:
    """Given offsets are kept, as compaction requires."""
    columns = decode(DATA, walk(DATA).batches)
    chosen = columns.select(np.array([3, 9]))

    data = bytes(rebuild(chosen, BatchSpec(), offsets=[5, 8]))

    assert decode(data, walk(data).batches).offset.tolist() == [5, 8]


@pytest.mark.usefixtures("engine")
def test_no_records_make_no_batches() -> None:
    """No records chosen give no bytes."""
    built = build_batches(source(), chosen=np.array([], np.int64))

    assert (len(built.data), len(built.batches)) == (0, 0)


@pytest.mark.usefixtures("engine")
def test_a_timestamp_below_minus_one_is_refused() -> None:
    """The only negative timestamp is -1, for none."""
    records = source()
    records.table[1, 5] = -2

    with pytest.raises(InvalidArgument):
        build_batches(records)


@pytest.mark.parametrize(
    "spec",
    [BatchSpec(last_offset=500), BatchSpec(delete_horizon_ms=5), BatchSpec(max_timestamp=5)],
)
def test_what_belongs_to_one_batch_is_refused_for_many(spec: BatchSpec) -> None:
    """A last offset, horizon or greatest timestamp applies to a single batch only."""
    with pytest.raises(InvalidArgument):
        build_batches(source(), spec)
