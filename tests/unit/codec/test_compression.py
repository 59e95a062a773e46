"""Properties of every codec: round trips, limits, damage, levels."""

from __future__ import annotations

import random
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tidelog.codec.compression import Codec, compress, decompress, decompress_in_pieces
from tidelog.errors import (
    CorruptMessage,
    InvalidArgument,
    KafkaError,
    MessageTooLarge,
    UnsupportedCompressionType,
)

if TYPE_CHECKING:
    from tests.conftest import Enumerated


REAL = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
SIZES = [0, 1, 2, 100, 16_384, 32_767, 32_768, 32_769, 65_536, 65_537, 131_073, 1_500_000]
TEXT = b"flint vapor heron zephyr willow cedar larch ridge marsh inlet delta quartz "

# Made by Kafka 4.3.1 (magic 0 and 1: by the builders of 3.9.2), with what they were made from.
WRITTEN_BY_KAFKA = [
    (Codec.GZIP, 2, "1f8b08000000000000ffe36100024606004b84d74307000000", "0c000000000100"),
    (Codec.LZ4, 2, "04224d18604082070000800c00000000010000000000", "0c000000000100"),
    (Codec.ZSTD, 2, "28b52ffd0058600000160000000a6b65792d310100010000", "160000000a6b65792d310100"),
    (
        Codec.SNAPPY,
        2,
        (
            "82534e415050590000000001000000010000002826944a0000001c6b6e6f6c6c206c617263682073"
            "74226f6365616e2d3730332071756172747a2000"
        ),
        "4a0000001c6b6e6f6c6c206c61726368207374226f6365616e2d3730332071756172747a2000",
    ),
    (
        Codec.LZ4,
        0,
        (
            "04224d1860401a7200000016000100f02c78bf575a4d0000ffffffff0000006a616d626572206365"
            "6461722077696c6c6f77206c61726368207269646765206d6172736820696e6c657420652b00f208"
            "2d33323020666c696e74207661706f72206865726f6e204700557a657068790700034f0080666c69"
            "6e7420666c00000000"
        ),
        (
            "000000000000000000000078bf575a4d0000ffffffff0000006a616d626572206365646172207769"
            "6c6c6f77206c61726368207269646765206d6172736820696e6c657420656d6265722d3332302066"
            "6c696e74207661706f72206865726f6e20616d626572207a6570687972207a65706879722077696c"
            "6c6f7720666c696e7420666c"
        ),
    ),
    (
        Codec.LZ4,
        1,
        (
            "04224d186040823000000016000100f01b2970b2b92301000000015d3ef78bf4000000136d617273"
            "682064656c74612071756172747a20ffffffff00000000"
        ),
        (
            "00000000000000000000002970b2b92301000000015d3ef78bf4000000136d617273682064656c74"
            "612071756172747a20ffffffff"
        ),
    ),
]


@pytest.fixture(scope="module")
def compressed() -> list[tuple[Codec, bytes, bytes]]:
    """Small data of several kinds with its compressed form in each codec."""
    rng = random.Random(7)
    plains = [rng.randbytes(60), bytes(3000), TEXT * 4, rng.randbytes(20) + TEXT + bytes(40)]
    return [(codec, plain, compress(codec, plain)) for codec in REAL for plain in plains]


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("size", SIZES)
def test_data_survives_a_round_trip(codec: Codec, size: int) -> None:
    """Text, noise and zeros of any size come back, for every batch format."""
    noise = random.Random(size).randbytes(min(size, 300_000))
    for plain in (noise, (TEXT * (size // len(TEXT) + 1))[:size], bytes(size)):
        for magic in (0, 2):
            assert plain == decompress(codec, compress(codec, plain, magic=magic), magic=magic)


@pytest.mark.parametrize(("codec", "magic", "area", "plain"), WRITTEN_BY_KAFKA)
def test_what_kafka_compressed_is_read(codec: Codec, magic: int, area: str, plain: str) -> None:
    """Record areas of batches written by Kafka yield the original records."""
    assert plain == decompress(codec, bytes.fromhex(area), magic=magic).hex()


@pytest.mark.parametrize("codec", list(Codec))
def test_every_kind_of_buffer_is_accepted(codec: Codec) -> None:
    """Bytes, bytearrays, views and read-only arrays give the same result."""
    area = compress(codec, TEXT)
    array = np.frombuffer(b"x" + area, np.uint8)[1:]

    for buffer in (bytearray(area), memoryview(area), array):
        assert decompress(codec, buffer) == TEXT
        assert area == compress(codec, np.frombuffer(TEXT, np.uint8))


@pytest.mark.parametrize("codec", list(Codec))
def test_exactly_the_limit_is_returned_and_no_byte_more(codec: Codec) -> None:
    """The limit counts decompressed bytes."""
    area = compress(codec, TEXT * 1000)
    size = len(TEXT) * 1000

    assert size == len(decompress(codec, area, limit=size))
    for limit in (size - 1, 1, 0):
        with pytest.raises(MessageTooLarge) as caught:
            decompress(codec, area, limit=limit)
        assert (limit, True) == (caught.value.limit_bytes, caught.value.size_bytes > limit)


@pytest.mark.parametrize("codec", REAL)
def test_a_bomb_is_stopped_at_the_limit(codec: Codec) -> None:
    """A few kilobytes that expand to megabytes cost at most a few times the limit."""
    bomb = compress(codec, bytes(32 * 1024 * 1024))
    limit = 512 * 1024

    tracemalloc.start()
    with pytest.raises(MessageTooLarge):
        decompress(codec, bomb, limit=limit)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak_bytes < 4 * limit + len(bomb)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_a_stream_truncated_anywhere_is_corrupt(
    codec: Codec, compressed: list[tuple[Codec, bytes, bytes]]
) -> None:
    """These framings mark their end; without it nothing is returned. Only zstd accepts no data."""
    areas = [area for of, _, area in compressed if of == codec]
    assert sum(map(len, areas)) > 100
    for area in areas:
        for size in range(codec == Codec.ZSTD, len(area)):
            with pytest.raises(CorruptMessage):
                decompress(codec, area[:size])


def test_a_flipped_bit_gives_an_error_or_bytes_within_the_limit(
    compressed: list[tuple[Codec, bytes, bytes]], enumerated: Enumerated
) -> None:
    """Damage only ever raises Kafka's errors; some codecs do not notice it."""
    bits = sum(len(area) * 8 for _, _, area in compressed)
    enumerated("flipped bits", bits, at_least=1000)
    for codec, _, area in compressed:
        for bit in range(len(area) * 8):
            damaged = bytearray(area)
            damaged[bit // 8] ^= 1 << bit % 8
            try:
                plain = decompress(codec, damaged, limit=8192)
            except KafkaError as error:
                assert isinstance(error, CorruptMessage | MessageTooLarge)  # noqa: PT017 - either of two, or none
            else:
                assert len(plain) <= 8192


def test_noise_gives_an_error_or_bytes_within_the_limit() -> None:
    """Bytes that are not compressed data only ever raise Kafka's errors."""
    rng = random.Random(11)
    starts = [b"", *(compress(codec, TEXT)[:20] for codec in REAL)]
    for _ in range(2000):
        noise = rng.choice(starts) + rng.randbytes(rng.randrange(80))
        codec = rng.choice(REAL)
        try:
            plain = decompress(codec, noise, limit=8192)
        except (CorruptMessage, MessageTooLarge):
            continue
        assert len(plain) <= 8192


@pytest.mark.parametrize("codec", REAL)
@pytest.mark.parametrize("piece_bytes", [1, 100, 4096, 65_536])
def test_pieces_add_up_to_the_whole(codec: Codec, piece_bytes: int) -> None:
    """Pieces of any size give the same bytes; none is larger than requested."""
    plain = TEXT * 40 + bytes(5000)
    packed = compress(codec, plain)
    twice = packed * 2 if codec in (Codec.GZIP, Codec.ZSTD) else packed

    pieces = list(decompress_in_pieces(codec, twice, piece_bytes))

    assert b"".join(pieces) == decompress(codec, twice)
    assert codec is Codec.SNAPPY or max(map(len, pieces)) <= piece_bytes


@pytest.mark.parametrize("codec", REAL)
@pytest.mark.parametrize("seed", range(40))
def test_pieces_of_damaged_data_end_as_the_whole_does(codec: Codec, seed: int) -> None:
    """Truncated or with a flipped bit: the same bytes, or an error either way."""
    rng = random.Random(seed)
    packed = bytearray(compress(codec, rng.randbytes(300) + TEXT * rng.randrange(20)))
    packed[rng.randrange(len(packed))] ^= 1 << rng.randrange(8)
    damaged = bytes(packed[: rng.randrange(len(packed) // 2, 2 * len(packed))])

    def result(*, in_pieces: bool) -> bytes | None:
        try:
            if in_pieces:
                return b"".join(decompress_in_pieces(codec, damaged, 50))
            return decompress(codec, damaged)
        except CorruptMessage:
            return None

    assert result(in_pieces=True) == result(in_pieces=False)


@pytest.mark.parametrize(
    ("codec", "good", "bad"),
    [
        (Codec.GZIP, [-1, 1, 6, 9], [0, -2, 10]),
        (Codec.LZ4, [1, 3, 9, 12, 17], [0, -1, 18]),
        (Codec.ZSTD, [-131072, -1, 0, 1, 3, 22], [-131073, 23]),
    ],
)
def test_levels_are_kafkas(codec: Codec, good: list[int], bad: list[int]) -> None:
    """Every level that Kafka's settings allow works, and no other."""
    for level in good:
        assert decompress(codec, compress(codec, TEXT * 50, level=level)) == TEXT * 50
    for level in bad:
        with pytest.raises(InvalidArgument, match=str(level)):
            compress(codec, TEXT, level=level)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.SNAPPY])
def test_codecs_without_levels_ignore_one(codec: Codec) -> None:
    """A level set for the topic does not concern them."""
    assert compress(codec, TEXT) == compress(codec, TEXT, level=99)


def test_codecs_have_kafkas_numbers_and_names() -> None:
    """The number is stored in a batch's attributes; the name is used in settings."""
    names = ["none", "gzip", "snappy", "lz4", "zstd"]

    assert names == [Codec.of_attributes(0x78 | number).kafka_name for number in range(5)]
    assert list(Codec) == [Codec.named(name) for name in names]
    assert list(Codec) == [Codec.named(codec) for codec in Codec]


@pytest.mark.parametrize("number", [5, 6, 7])
def test_an_unknown_number_is_an_unsupported_compression_type(number: int) -> None:
    """The three bits have values without a codec."""
    with pytest.raises(UnsupportedCompressionType, match=str(number)):
        Codec.of_attributes(number)


@pytest.mark.parametrize("name", ["", "GZIP", "producer", "uncompressed", None, 4])
def test_an_unknown_name_is_rejected(name: Any) -> None:
    """Names are lower case; ``producer`` and ``uncompressed`` are settings, not codecs."""
    with pytest.raises(InvalidArgument, match="use one of none, gzip, snappy, lz4, zstd"):
        Codec.named(name)
