"""Batches of magic 0 and 1."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from tests.machinery.old_batches import build_entry, build_old

from tidelog.codec.compression import Codec, compress
from tidelog.errors import CorruptMessage, InvalidRecord, MessageTooLarge
from tidelog.records.batch import TimestampType
from tidelog.records.legacy import base_offset, expand, scan_legacy

RECORDS = [(10, b"k1", b"v1"), (30, None, b""), (20, b"k3", None)]
OLD_CODECS = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4]
APPEND = TimestampType.LOG_APPEND_TIME


def expanded(data: bytes, **options: Any) -> list[tuple[int, int, bytes | None, bytes | None]]:
    found = expand(memoryview(data), 0, len(data), **options)
    return [
        (r.offset, r.timestamp, _part(found.data, r.key_at, r.key_size),
         _part(found.data, r.value_at, r.value_size))
        for r in found.records
    ]  # fmt: skip


def _part(data: memoryview, at: int, size: int) -> bytes | None:
    return None if size < 0 else bytes(data[at : at + size])


def wrapper(magic: int, offset: int, inner: bytes, codec: Codec = Codec.GZIP) -> bytes:
    record = 5, None, compress(codec, inner, magic=magic)
    return build_entry(magic, offset, record, codec=codec)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_plain_record_is_itself(magic: int) -> None:
    """An uncompressed batch is one record; magic 0 has no timestamp."""
    entry = build_entry(magic, 7, (10, b"key", b"value"))

    assert expanded(entry) == [(7, 10 if magic else -1, b"key", b"value")]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", OLD_CODECS)
def test_a_wrapper_holds_records_with_absolute_offsets(magic: int, codec: Codec) -> None:
    """Offsets count back from the wrapper's, which is that of the last record."""
    data = build_old(magic, RECORDS, base_offset=40, codec=codec)

    found = expanded(data, check_inner=True)

    times = [10, 30, 20] if magic else [-1, -1, -1]
    assert [row[0] for row in found] == [40, 41, 42]
    assert [row[1] for row in found] == times
    assert [row[2:] for row in found] == [record[1:] for record in RECORDS]
    assert base_offset(memoryview(data), 0, len(data)) == 40


def test_holes_inside_a_wrapper_are_kept() -> None:
    """Relative offsets may have gaps after compaction."""
    inner = build_entry(1, 0, RECORDS[0]) + build_entry(1, 5, RECORDS[1])

    assert [row[0] for row in expanded(wrapper(1, 105, inner))] == [100, 105]


def test_a_wrapper_at_offset_zero_has_base_zero() -> None:
    """Old librdkafka left the wrapper's offset 0; inner offsets then start at 0."""
    inner = build_entry(1, 0, RECORDS[0]) + build_entry(1, 1, RECORDS[1])

    assert [row[0] for row in expanded(wrapper(1, 0, inner))] == [0, 1]


def test_a_wrapper_offset_below_the_last_inner_one_is_invalid() -> None:
    """A wrapper's offset cannot be less than its last inner offset."""
    inner = build_entry(1, 0, RECORDS[0]) + build_entry(1, 5, RECORDS[1])

    with pytest.raises(InvalidRecord):
        expanded(wrapper(1, 3, inner))


def test_log_append_time_of_the_wrapper_is_that_of_its_records() -> None:
    """With LogAppendTime inner timestamps are ignored."""
    data = build_old(1, RECORDS, codec=Codec.GZIP, timestamp_type=APPEND)

    found = expand(memoryview(data), 0, len(data)).records

    assert {(record.timestamp, record.timestamp_type) for record in found} == {(30, APPEND)}


def test_inner_records_of_the_other_magic_are_read() -> None:
    """Old brokers wrote them (KAFKA-4298): offsets follow the wrapper, timestamps the record."""
    in_v1 = expanded(wrapper(1, 9, build_entry(0, 0, RECORDS[0]) + build_entry(1, 1, RECORDS[1])))
    in_v0 = expanded(wrapper(0, 9, build_entry(0, 8, RECORDS[0]) + build_entry(1, 9, RECORDS[1])))

    assert [row[:2] for row in in_v1] == [(8, -1), (9, 30)]
    assert [row[:2] for row in in_v0] == [(8, -1), (9, 30)]


def test_a_cut_off_last_inner_record_is_left_out() -> None:
    """A truncated inner record ends the set without an error."""
    inner = build_entry(0, 4, RECORDS[0]) + build_entry(0, 5, RECORDS[1])[:-1]

    assert [row[0] for row in expanded(wrapper(0, 5, inner))] == [4]


@pytest.mark.parametrize(
    "data",
    [
        wrapper(1, 5, b""),
        wrapper(1, 5, wrapper(1, 0, build_entry(1, 0, RECORDS[0]))),
        build_entry(1, 5, (0, None, None), codec=Codec.GZIP),
        build_entry(1, 5, (0, None, b"x"), codec=Codec.ZSTD),
        build_entry(1, 5, (0, None, b"x"), codec=Codec.GZIP)[:20] + b"",
    ],
    ids=["no records", "nested", "no value", "zstd", "cut"],
)
def test_a_bad_wrapper_is_invalid(data: bytes) -> None:
    """A set without value or records, nested in a set, or with a later codec is invalid."""
    with pytest.raises((InvalidRecord, CorruptMessage)):
        expanded(data + bytes(26))


def test_an_inner_length_below_14_is_corruption() -> None:
    """An inner record shorter than the minimum is corrupt."""
    with pytest.raises(CorruptMessage):
        expanded(wrapper(0, 5, bytes(30)))


def test_inner_checksums_are_compared_if_asked() -> None:
    """Inner CRCs are checked on the produce path, not by readers."""
    inner = bytearray(build_entry(1, 0, RECORDS[0]))
    inner[-1] ^= 1
    data = wrapper(1, 5, bytes(inner))

    plain = expand(memoryview(data), 0, len(data))
    checked = expand(memoryview(data), 0, len(data), check_inner=True)

    found = [record.crc_matches for one in (plain, checked) for record in one.records]
    assert found == [True, False]


def test_a_wrapper_is_decompressed_within_bounds() -> None:
    """A set that decompresses beyond the limit is rejected."""
    data = build_old(1, [(0, None, bytes(100_000))], codec=Codec.GZIP)

    with pytest.raises(MessageTooLarge):
        expanded(data, limit=1000)


@pytest.mark.parametrize("magic", [0, 1])
def test_records_of_a_large_wrapper_are_parsed_when_they_are_read(
    magic: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are those of a small one; none of them is held, however many there are."""
    data = memoryview(build_old(magic, RECORDS * 3_000, base_offset=40, codec=Codec.GZIP))
    kept = list(expand(data, 0, len(data)).records)
    monkeypatch.setattr("tidelog.records.legacy._MOST_KEPT_BYTES", 1000)

    tracemalloc.start()
    try:
        first = base_offset(data, 0, len(data))
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    found = expand(data, 0, len(data))

    assert (first, peak_bytes < 4 * len(found.data)) == (40, True)
    assert list(found.records) == list(found.records) == kept


@pytest.mark.parametrize("magic", [0, 1])
def test_every_cut_entry_is_invalid(magic: int) -> None:
    """An entry whose fields extend past its end is invalid, wherever it is cut."""
    entry = build_entry(magic, 0, (1, b"key", b"value"))

    assert len(entry) > 30
    for size in range(26, len(entry)):
        with pytest.raises(InvalidRecord):
            scan_legacy(memoryview(entry), 0, size)


def test_bytes_behind_the_value_are_ignored() -> None:
    """Bytes after the value are ignored, as in Kafka."""
    entry = build_entry(1, 0, (1, b"key", b"value")) + b"more"

    assert expanded(entry)[0][3] == b"value"
