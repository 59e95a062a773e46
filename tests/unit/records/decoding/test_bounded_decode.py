"""Large batches decoded in parts."""

from __future__ import annotations

import tracemalloc
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.machinery.old_batches import build_entry, build_old

from tidelog.codec.compression import Codec, compress
from tidelog.errors import CorruptMessage, InvalidRecord, MessageTooLarge
from tidelog.records.batch import BATCH_HEADER
from tidelog.records.builder import build_batch, pack_batch
from tidelog.records.decoding.bounded_decode import decode_bounded
from tidelog.records.decoding.record_columns import decode_groups
from tidelog.records.memory import walk

if TYPE_CHECKING:
    from tidelog.records.record import Record

CODECS = list(Codec)


def batch(count: int, codec: Codec, base_offset: int = 0, size: int = 50) -> bytes:
    records = [
        (n, b"%d" % n, bytes(n % size) if n % 3 else None, ((f"h{n}", b"x"),) * (n % 2))
        for n in range(count)
    ]
    return build_batch(records, base_offset=base_offset, codec=codec)


def whole(data: bytes) -> list[Record]:
    groups = decode_groups(data, walk(data).batches)
    return [record for group in groups for record in group.records()]


def in_parts(data: bytes, **bounds: int) -> list[Record]:
    groups = decode_bounded(data, walk(data).batches, **bounds)
    return [record for group in groups for record in group.records()]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("window_bytes", [1, 40, 1000])
def test_windows_hold_the_records_of_the_whole(codec: Codec, window_bytes: int) -> None:
    """The records are the same for any codec and window, even if one is larger than the window."""
    data = batch(3, codec) + batch(100, codec, 3) + batch(5, codec, 103) + batch(80, codec, 108)

    assert in_parts(data, group_bytes=window_bytes, large_bytes=500) == whole(data)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_large_batch_of_an_old_format_is_decoded_in_parts(magic: int, codec: Codec) -> None:
    """Its records are those of the whole, a few at a time."""
    old = [(n, b"%d" % n, bytes(n) if n % 3 else None) for n in range(100)]
    data = build_old(magic, old, codec=codec) + batch(5, codec, 100)
    groups = list(decode_bounded(data, walk(data).batches, group_bytes=300, large_bytes=50))

    assert [record for group in groups for record in group.records()] == whole(data)
    assert max(map(len, groups)) <= 300 // 26


@pytest.mark.parametrize("magic", [0, 1])
def test_an_old_format_is_decompressed_within_bounds(magic: int) -> None:
    """The limit applies to a wrapper as a whole; the error of its records names where it is."""
    old = [(n, None, b"v") for n in range(100)]
    first = batch(1, Codec.NONE)
    data = first + build_old(magic, old, base_offset=1, codec=Codec.GZIP)
    damaged = compress(Codec.GZIP, build_entry(magic, 0, (0, None, b"v")) * 9 + bytes(12))
    bad = first + build_entry(magic, 1, (0, None, damaged), codec=Codec.GZIP)

    with pytest.raises(MessageTooLarge):
        in_parts(data, limit=1000, large_bytes=100)
    with pytest.raises(CorruptMessage, match="inner record length 0") as caught:
        in_parts(bad, large_bytes=10)
    assert caught.value.position == len(first)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_with_a_wrong_count_is_invalid(codec: Codec) -> None:
    """A record too many or too few is an error in parts as it is when decoded at once."""
    data = batch(100, codec)
    header = BATCH_HEADER.unpack(data)
    for count in (1, 50, 99, 101, 200):
        altered = pack_batch(
            header._replace(records_count=count, last_offset_delta=count - 1),
            data[BATCH_HEADER.size :],
        )
        with pytest.raises(InvalidRecord):
            whole(altered)
        with pytest.raises(InvalidRecord):
            in_parts(altered, group_bytes=64, large_bytes=100)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("codec", CODECS)
def test_a_negative_count_is_invalid(codec: Codec) -> None:
    """However large the batch becomes; the error names where it is."""
    header, area = BATCH_HEADER.unpack(batch(9, Codec.NONE)), bytes(5_000)
    first = batch(1, codec)
    data = pack_batch(
        header._replace(records_count=-5, attributes=int(codec)), compress(codec, area)
    )

    with pytest.raises(InvalidRecord) as caught:
        in_parts(first + data, group_bytes=64, large_bytes=100)
    assert caught.value.position == len(first)


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("windows", [1, 2, 3])
def test_bytes_behind_the_last_record_are_invalid(codec: Codec, windows: int) -> None:
    """Also where the records end with a window, and whole windows follow."""
    plain = batch(100, Codec.NONE)
    header, area = BATCH_HEADER.unpack(plain), plain[BATCH_HEADER.size :]
    left_over = compress(codec, area + b"\xff" * windows * len(area))
    data = pack_batch(header._replace(attributes=int(codec)), left_over)

    with pytest.raises(InvalidRecord, match="left over"):
        in_parts(data, group_bytes=len(area), large_bytes=100)


@pytest.mark.parametrize("at", range(500, 1000, 70))
def test_damage_is_reported_with_the_batchs_position(at: int) -> None:
    """The error has the batch's position, and comes after the records before the damage."""
    first = batch(10, Codec.NONE)
    plain = bytearray(batch(100, Codec.NONE, 10, size=1)[BATCH_HEADER.size :])
    plain[at : at + 20] = bytes([255] * 20)
    header = BATCH_HEADER.unpack(batch(100, Codec.GZIP, 10))
    data = first + pack_batch(header, compress(Codec.GZIP, bytes(plain)))
    seen: list[int] = []

    with pytest.raises(InvalidRecord) as raised:
        seen.extend(
            offset
            for group in decode_bounded(data, walk(data).batches, group_bytes=64, large_bytes=300)
            for offset in group.offset.tolist()
        )

    assert raised.value.position == len(first)
    assert seen == list(range(len(seen)))
    assert len(seen) > 30


def test_a_stream_that_is_cut_is_damage() -> None:
    """A truncated stream is an error, also after complete records."""
    header = BATCH_HEADER.unpack(batch(100, Codec.GZIP))
    packed = batch(100, Codec.GZIP)[BATCH_HEADER.size : -10]

    with pytest.raises(CorruptMessage, match="truncated"):
        in_parts(pack_batch(header, packed), group_bytes=64, large_bytes=100)


def test_the_limit_is_not_for_what_is_not_compressed() -> None:
    """A topic with a large ``max.message.bytes`` takes such a record, which is to be read again."""
    data = build_batch([(1, None, b"v" * 1000, ()), (1, None, b"w", ())])

    assert in_parts(data, group_bytes=64, large_bytes=100, limit=100) == whole(data)


def test_the_limit_holds_for_a_record() -> None:
    """The limit does not apply to a batch, which may hold any number of records."""
    data = batch(200, Codec.ZSTD)

    assert len(in_parts(data, group_bytes=64, large_bytes=100, limit=100)) == 200
    with pytest.raises(MessageTooLarge):
        in_parts(data, group_bytes=64, large_bytes=100, limit=40)


def test_memory_follows_the_window_not_the_batch() -> None:
    """A batch of 64 MB, compressed to some kilobytes, takes the memory of a few windows."""
    record = (0, None, bytes(1 << 16), ())
    data = build_batch([record] * 1024, codec=Codec.ZSTD)
    batches = walk(data).batches
    tracemalloc.start()

    count = sum(
        len(group)
        for group in decode_bounded(data, batches, group_bytes=1 << 18, large_bytes=1 << 20)
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert count == 1024
    assert peak < 8 << 20


def test_nothing_is_decoded_of_a_batch_without_records() -> None:
    """Nothing is decompressed, as when decoded at once."""
    header = BATCH_HEADER.unpack(batch(100, Codec.GZIP))
    data = pack_batch(header._replace(records_count=0), bytes(5000))

    assert in_parts(data, group_bytes=64, large_bytes=100) == whole(data) == []
    assert np.sum(walk(data).batches.records_count) == 0
