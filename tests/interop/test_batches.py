"""Batches of magic 2: other libraries read ours, and we read theirs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.machinery.scale import examples
from tests.machinery.strategies import batch_samples, records, stored_specs

from tidelog.codec.compression import Codec, decompress
from tidelog.records.batch import BATCH_HEADER, TimestampType
from tidelog.records.builder import BatchSpec, build_batch
from tidelog.records.bulk_builder import RecordSource, build_batches
from tidelog.records.control import build_marker
from tidelog.records.decoding.record_columns import decode
from tidelog.records.memory import walk

if TYPE_CHECKING:
    from tests.interop.conftest import Library
    from tests.machinery.strategies import BatchSample

    from tidelog.records.batch import BatchHeader
    from tidelog.records.builder import RecordFields

    Both = tuple[Library, Codec]

SOME = settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],  # the engine is set once a test
)
MANY: list[RecordFields] = [
    (
        1_700_000_000_000 + (number * 7919) % 1000,
        None if number % 7 == 0 else f"key-{number}".encode(),
        None if number % 11 == 0 else bytes(range(number % 200)) * 3,
        (("größe", b"1"), ("größe", None), ("", b"")) if number % 5 == 0 else (),
    )
    for number in range(500)
]
PRODUCER = BatchSpec(producer_id=2**40, producer_epoch=7, base_sequence=11, transactional=True)


def ours(data: bytes) -> list[tuple[object, ...]]:
    """Read batches as tidelog does."""
    found = walk(data, check_crc=True)
    assert (found.error, found.next_position) == (None, len(data))
    return [
        (each.offset, each.timestamp, each.timestamp_type, each.key, each.value, each.headers)
        for each in decode(data, found.batches).records()
    ]


def expected(sample: BatchSample) -> list[tuple[object, ...]]:
    """Return what a reader of a sample should see."""
    spec = sample.spec
    is_append_time = spec.timestamp_type is TimestampType.LOG_APPEND_TIME
    return [
        (
            offset,
            spec.max_timestamp if is_append_time else timestamp,
            int(spec.timestamp_type),
            key,
            value,
            tuple(headers),
        )
        for offset, (timestamp, key, value, headers) in zip(
            sample.offsets, sample.records, strict=True
        )
    ]


@SOME
@given(data=st.data())
def test_others_read_our_batches(library_and_codec: Both, data: st.DataObject) -> None:
    """Another library reads the same records from any batch that a log may contain."""
    library, codec = library_and_codec
    spec = data.draw(stored_specs())
    sample = data.draw(batch_samples(st.just(replace(spec, codec=codec)), base_offset=2**33))

    (batch,) = library.batches(sample.data)

    assert batch.validate_crc()
    assert expected(sample) == [tuple(record) for record in library.records(batch)]
    assert (codec, spec.transactional) == (batch.compression_type, batch.is_transactional)
    assert spec.producer_id == batch.producer_id
    assert (spec.producer_epoch, spec.base_sequence) == (batch.producer_epoch, batch.base_sequence)


@pytest.mark.usefixtures("engine")
@SOME
@given(data=st.data())
def test_we_read_the_batches_of_others(library_and_codec: Both, data: st.DataObject) -> None:
    """We read the same records from a producer's batch, in plain and in compiled code."""
    library, codec = library_and_codec
    times = st.integers(0, 2**62)  # aiokafka takes -1 for a record that was not there
    sent = data.draw(st.lists(records(times=times), min_size=1, max_size=8))

    built = library.build(header(BatchSpec()), codec, sent)

    rows = [
        (offset, timestamp, 0, key, value, tuple(headers))
        for offset, (timestamp, key, value, headers) in enumerate(sent)
    ]
    assert rows == ours(built)


def header(spec: BatchSpec) -> BatchHeader:
    """Return the header of a batch with one record, built by us."""
    return BATCH_HEADER.unpack(build_batch([(0, None, None, ())], spec))


@pytest.mark.parametrize("spec", [BatchSpec(), PRODUCER], ids=["plain", "transactional"])
def test_our_batches_have_the_bytes_of_others(library_and_codec: Both, spec: BatchSpec) -> None:
    """The same records give the same header and, decompressed, the same record bytes."""
    library, codec = library_and_codec
    theirs = library.build(header(spec), codec, MANY)
    epoch = BATCH_HEADER.unpack(theirs).leader_epoch  # -1 or 0: the leader sets it anyway

    mine = build_batch(MANY, replace(spec, codec=codec, leader_epoch=epoch))

    assert plain(codec, theirs) == plain(codec, mine)
    assert codec is not Codec.NONE or theirs == mine


def plain(codec: Codec, data: bytes) -> tuple[object, bytes]:
    """Return what does not depend on the compression ratio."""
    head = BATCH_HEADER.unpack(data)._replace(crc=0, length=0)
    return head, bytes(decompress(codec, data[BATCH_HEADER.size :]))


@pytest.mark.usefixtures("engine")
def test_others_read_what_we_write_in_bulk(library_and_codec: Both) -> None:
    """Batches built from columns have all records in order, and contiguous offsets."""
    library, codec = library_and_codec
    single = build_batch(MANY)
    source = RecordSource.of(decode(single, walk(single).batches))

    built = build_batches(source, replace(PRODUCER, codec=codec), batch_bytes=4096)

    found = library.batches(bytes(built.data))
    assert len(found) > 10
    assert all(batch.validate_crc() for batch in found)
    assert [11 + batch.base_offset for batch in found] == [batch.base_sequence for batch in found]
    assert ours(single) == [tuple(record) for batch in found for record in library.records(batch)]


@pytest.mark.parametrize("is_commit", [True, False], ids=["commit", "abort"])
def test_others_read_our_transaction_markers(library: Library, is_commit: bool) -> None:
    """A marker is a control batch whose key has the type that clients check."""
    built = build_marker(
        producer_id=5, producer_epoch=1, coordinator_epoch=3, is_commit=is_commit, timestamp=9
    )

    (batch,) = library.batches(built)

    assert (batch.is_control_batch, batch.is_transactional) == (True, True)
    (record,) = library.records(batch)
    assert record.key == bytes([0, 0, 0, int(is_commit)])
