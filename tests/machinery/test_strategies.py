"""Generated data is valid and matches its description."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import HealthCheck, Phase, given, settings
from tests.machinery.record_values import iterate
from tests.machinery.strategies import batch_samples, batches, stored_batches

from tidelog.codec.compression import Codec
from tidelog.records.batch import BATCH_HEADER, TimestampType
from tidelog.records.memory import walk

if TYPE_CHECKING:
    from tests.machinery.strategies import BatchSample

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@QUICK
@given(batches(base_offset=7))
def test_a_produced_batch_is_whole_and_without_gaps(data: bytes) -> None:
    """It is one batch with a valid checksum and a record for each of its offsets."""
    found = walk(data, check_crc=True)

    header = BATCH_HEADER.unpack(data)
    assert (found.batches.count, found.next_position, found.error) == (1, len(data), None)
    assert (header.base_offset, header.last_offset_delta) == (7, header.records_count - 1)


@QUICK
@given(batch_samples())
def test_a_sample_reads_as_its_records(sample: BatchSample) -> None:
    """Offsets, timestamps, keys, values and headers are read back from the bytes."""
    found = list(iterate(sample.data, walk(sample.data, check_crc=True).batches))

    is_appended = sample.spec.timestamp_type is TimestampType.LOG_APPEND_TIME
    expected = [
        (offset, sample.spec.max_timestamp if is_appended else time, key, value, tuple(headers))
        for offset, (time, key, value, headers) in zip(sample.offsets, sample.records, strict=True)
    ]
    assert [(r.offset, r.timestamp, r.key, r.value, r.headers) for r in found] == expected


@QUICK
@given(stored_batches(start_offset=5))
def test_stored_batches_follow_each_other(samples: list[BatchSample]) -> None:
    """As in a log, they are contiguous, offsets increase and leader epochs do not decrease."""
    data = b"".join(sample.data for sample in samples)
    found = walk(data, check_crc=True)

    ends = [5, *(sample.end_offset for sample in samples)]
    epochs = found.batches.leader_epoch.tolist()
    assert (found.batches.count, found.next_position, found.error) == (
        len(samples),
        len(data),
        None,
    )
    assert all(s.spec.base_offset >= end for s, end in zip(samples, ends, strict=False))
    assert (found.batches.last_offset + 1).tolist() == ends[1:]
    assert epochs == sorted(epochs)


def test_samples_of_every_kind_occur() -> None:
    """Every codec, nulls, headers, append times, transactions, horizons and gaps occur."""
    drawn: list[BatchSample] = []
    once = settings(
        QUICK, max_examples=150, phases=[Phase.generate], derandomize=True, database=None
    )

    @once
    @given(batch_samples())
    def draw(sample: BatchSample) -> None:
        drawn.append(sample)

    draw()

    specs = [sample.spec for sample in drawn]
    records = [record for sample in drawn for record in sample.records]
    assert {spec.codec for spec in specs} == set(Codec)
    assert {spec.timestamp_type.kafka_name for spec in specs} == {"CreateTime", "LogAppendTime"}
    assert {spec.transactional for spec in specs} == {False, True}
    assert {spec.delete_horizon_ms is None for spec in specs} == {False, True}
    assert {sample.end_offset > len(sample.records) for sample in drawn} == {False, True}
    assert {key is None for _, key, _, _ in records} == {False, True}
    assert {value is None for _, _, value, _ in records} == {False, True}
    assert {bool(headers) for *_, headers in records} == {False, True}
