"""Batches read back as they were written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machinery.scale import examples
from tests.machinery.strategies import records, stored_batches

from tidelog.codec.compression import Codec
from tidelog.kernels.runtime import gate
from tidelog.records.builder import BatchSpec, build_batch
from tidelog.records.bulk_builder import RecordSource, build_batches
from tidelog.records.decoding.record_columns import decode
from tidelog.records.memory import walk

if TYPE_CHECKING:
    from tests.machinery.strategies import BatchSample

    from tidelog.records.builder import RecordFields
    from tidelog.records.decoding.record_columns import RecordColumns
    from tidelog.records.memory import Walk


def read(data: bytes, *, by_kernels: bool) -> tuple[Walk, RecordColumns]:
    gate.force(by_kernels)
    try:
        found = walk(data, check_crc=True)
        return found, decode(data, found.batches)
    finally:
        gate.force(None)


@settings(max_examples=examples(30), deadline=None)
@given(samples=stored_batches())
def test_a_log_of_batches_reads_back(samples: list[BatchSample]) -> None:
    """Headers, offsets, keys and values are the same, by kernels and by plain code."""
    data = b"".join(sample.data for sample in samples)

    plain, columns = read(data, by_kernels=False)
    compiled, compiled_columns = read(data, by_kernels=True)

    assert np.array_equal(plain.batches.array, compiled.batches.array)
    assert np.array_equal(columns.array, compiled_columns.array)
    found = list(columns.records())
    written = [record for sample in samples for record in sample.records]
    assert [record.offset for record in found] == [o for s in samples for o in s.offsets]
    assert [(r.key, r.value, list(r.headers)) for r in found] == [
        (key, value, list(headers)) for _, key, value, headers in written
    ]
    appended = [s.spec.max_timestamp for s in samples for _ in s.records]
    times = [
        own if append is None else append
        for append, (own, *_) in zip(appended, written, strict=True)
    ]
    assert [record.timestamp for record in found] == times


@settings(max_examples=examples(60), deadline=None)
@given(
    written=st.lists(records(), min_size=1, max_size=20),
    codec=st.sampled_from(Codec),
    batch_bytes=st.integers(1, 2000),
)
def test_records_written_in_bulk_read_back(
    written: list[RecordFields], codec: Codec, batch_bytes: int
) -> None:
    """Columns split into batches give the same records again, and the same bytes both ways."""
    data = build_batch(written)
    source = RecordSource.of(decode(data, walk(data).batches))
    built = []
    for way in (False, True):
        gate.force(way)
        built.append(build_batches(source, BatchSpec(codec=codec), batch_bytes=batch_bytes))
    gate.force(None)

    assert built[0].data.tobytes() == built[1].data.tobytes()
    found = list(decode(built[0].data, built[0].batches).records())
    assert [(r.timestamp, r.key, r.value, list(r.headers)) for r in found] == [
        (timestamp, key, value, list(headers)) for timestamp, key, value, headers in written
    ]
