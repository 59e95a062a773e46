"""Zstandard frames as Kafka writes and reads them."""

from __future__ import annotations

import random
from typing import Any

import pytest
import zstandard

from tidelog.codec import zstd_frames
from tidelog.errors import CorruptMessage, MessageTooLarge

LIMIT = 1 << 22
TEXT = b"flint vapor heron zephyr willow cedar larch ridge " * 40
SKIPPABLE = bytes.fromhex("5a2a4d18 05000000") + b"extra"


def write(plain: bytes, level: int | None = None) -> bytes:
    return zstd_frames.compress(memoryview(plain), level, 2)


def read(data: bytes, limit: int = LIMIT) -> bytes:
    return zstd_frames.decompress(memoryview(data), limit, 2)


def foreign(plain: bytes, **options: Any) -> bytes:
    return zstandard.ZstdCompressor(**options).compress(plain)


def streamed(plain: bytes, **options: Any) -> bytes:
    stream = zstandard.ZstdCompressor(**options).compressobj()
    return stream.compress(plain) + stream.flush()


def lying_frame(claimed: int, blocks: bytes) -> bytes:
    return bytes.fromhex("28b52ffd e0") + claimed.to_bytes(8, "little") + blocks


def test_a_frame_has_neither_size_nor_checksum() -> None:
    """Kafka's frames, which are written as a stream, have neither."""
    frame = zstandard.get_frame_parameters(write(TEXT))

    assert (
        frame.content_size,
        frame.has_checksum,
        frame.dict_id,
    ) == (zstandard.CONTENTSIZE_UNKNOWN, False, 0)


def test_levels_make_a_difference() -> None:
    """The level reaches the library, and each level has its own compressor."""
    plain = bytes(random.Random(2).choices(b"abcdefgh", k=60_000))
    sizes = [len(write(plain, level)) for level in (-100, 3, 19)]

    assert sorted(sizes, reverse=True) == sizes
    assert write(plain) == write(plain, 3)
    for level in range(-9, 4):
        assert plain == read(write(plain, level))


@pytest.mark.parametrize("size", [0, 1, 2000, 131_072, 1_048_576, 1_048_577, 3_000_000])
@pytest.mark.parametrize("checked", [False, True])
def test_frames_of_other_writers_are_read(size: int, checked: bool) -> None:
    """Frames with or without size and checksum are read, in one call or in pieces."""
    plain = random.Random(size).randbytes(size)

    for written in (foreign, streamed):
        for sized in (False, True):
            area = written(plain, write_checksum=checked, write_content_size=sized)
            assert plain == read(area)


def test_concatenated_frames_are_one_stream() -> None:
    """As Kafka's reader, it continues with the next frame; skippable frames yield nothing."""
    area = (
        SKIPPABLE + write(TEXT) + foreign(b"x" * 2_000_000) + SKIPPABLE + write(b"") + write(b"y")
    )

    assert read(area) == TEXT + b"x" * 2_000_000 + b"y"


def test_no_frame_yields_nothing() -> None:
    """An empty record area is valid."""
    assert read(b"") == b""
    assert read(SKIPPABLE) == b""


@pytest.mark.parametrize(
    "rest", [b"\x00", b"\x28\xb5\x2f\xfd", b"garbage", SKIPPABLE[:-1], b"\x50"]
)
def test_anything_but_whole_frames_after_a_frame_is_corrupt(rest: bytes) -> None:
    """Garbage, which Kafka rejects too, and a truncated frame, which Kafka silently drops."""
    with pytest.raises(CorruptMessage):
        read(write(TEXT) + rest)


@pytest.mark.parametrize("size", [100, 3_000_000])
def test_a_checksum_is_verified_if_present(size: int) -> None:
    """This holds in one call and in pieces."""
    area = bytearray(foreign(bytes(size), write_checksum=True))
    area[-1] ^= 1

    with pytest.raises(CorruptMessage):
        read(bytes(area))


@pytest.mark.parametrize("claimed", [1, 2**31, 2**40, 2**63])
def test_a_size_that_the_blocks_cannot_yield_is_corrupt(claimed: int) -> None:
    """It is rejected before the library allocates memory for it."""
    with pytest.raises(CorruptMessage, match="claims"):
        read(lying_frame(claimed, bytes.fromhex("010000")), 2**50)


def test_a_frame_that_claims_to_be_empty_is_checked() -> None:
    """One byte in a frame that declares none is damage."""
    with pytest.raises(CorruptMessage):
        read(bytes.fromhex("28b52ffd 20 00 090000 61"))


def test_a_declared_size_beyond_the_limit_is_rejected_at_once() -> None:
    """The error names the size that the frame declares."""
    with pytest.raises(MessageTooLarge) as caught:
        read(foreign(bytes(5_000_000)), 1_000_000)

    assert caught.value.size_bytes == 5_000_000


def test_a_run_of_repeated_blocks_is_stopped_at_the_limit() -> None:
    """A four-byte block that expands to 128 KiB is the densest bomb of the format."""
    blocks = (131_072 << 3 | 1 << 1).to_bytes(3, "little") + b"a"
    area = bytes.fromhex("28b52ffd 00 58") + blocks * 8000 + bytes.fromhex("010000")

    with pytest.raises(MessageTooLarge):
        read(area, 1_000_000)


def test_the_limit_counts_all_frames() -> None:
    """A bomb cannot evade the limit by being split into frames."""
    area = write(bytes(100)) * 3

    assert bytes(300) == read(area, 300)
    with pytest.raises(MessageTooLarge):
        read(area, 299)


def test_a_block_of_the_reserved_type_is_corrupt() -> None:
    """The format has three types of blocks."""
    with pytest.raises(CorruptMessage, match="reserved type"):
        read(bytes.fromhex("28b52ffd 00 58 070000"))


def test_a_window_beyond_zstds_own_limit_is_corrupt() -> None:
    """Kafka's reader accepts at most 128 MiB; this frame asks for 2 TiB."""
    with pytest.raises(CorruptMessage):
        read(bytes.fromhex("28b52ffd 00 f8 090000 61"))


def test_a_frame_that_needs_a_dictionary_is_corrupt() -> None:
    """Kafka does not use dictionaries."""
    area = bytes.fromhex("28b52ffd 01 58 07 090000 61")

    with pytest.raises(CorruptMessage):
        read(area)
