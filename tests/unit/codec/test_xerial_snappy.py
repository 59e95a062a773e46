"""Snappy in xerial's framing."""

from __future__ import annotations

import random

import cramjam
import pytest

from tidelog.codec import xerial_snappy
from tidelog.errors import CorruptMessage, MessageTooLarge

LIMIT = 1 << 20
HEADER = bytes.fromhex("82534e4150505900 00000001 00000001")
TEXT = b"flint vapor heron zephyr willow cedar larch ridge " * 10


def raw(plain: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(plain))


def block(plain: bytes) -> bytes:
    packed = raw(plain)
    return len(packed).to_bytes(4, "big") + packed


def read(data: bytes, limit: int = LIMIT) -> bytes:
    return xerial_snappy.decompress(memoryview(data), limit, 2)


def test_a_header_and_blocks_of_32_kib_are_written() -> None:
    """Kafka writes the header at once, and a block whenever 32 KiB are full."""
    plain = random.Random(3).randbytes(70_000)

    area = xerial_snappy.compress(memoryview(plain), None, 2)

    cuts = [plain[:32_768], plain[32_768:65_536], plain[65_536:]]
    assert HEADER + b"".join(block(cut) for cut in cuts) == area


def test_empty_input_is_a_header_alone() -> None:
    """Without bytes there is no block."""
    assert xerial_snappy.compress(memoryview(b""), None, 2) == HEADER
    assert read(HEADER) == b""


def test_blocks_larger_than_written_are_read() -> None:
    """The reader assumes no block size; only the limit bounds a block."""
    assert bytes(200_000) == read(HEADER + block(bytes(200_000)))


@pytest.mark.parametrize("plain", [b"", b"short", TEXT])
def test_without_the_magic_all_data_is_one_raw_block(plain: bytes) -> None:
    """Fewer than 16 bytes, or another start, is what Snappy itself writes."""
    assert plain == read(raw(plain))


def test_the_version_in_the_first_header_is_not_checked() -> None:
    """The magic alone shows that blocks follow."""
    assert read(HEADER[:8] + bytes(8) + block(TEXT)) == TEXT


def test_concatenated_streams_are_one() -> None:
    """A header may occur in place of a block size."""
    assert read(HEADER + block(TEXT) + block(b"x") + HEADER + block(TEXT)) == TEXT + b"x" + TEXT


@pytest.mark.parametrize("damaged", [HEADER[:15], HEADER[:6] + b"?" + HEADER[7:], HEADER[:8] * 2])
def test_a_damaged_header_between_blocks_is_corrupt(damaged: bytes) -> None:
    """Bytes that start with the first half of the magic must be a header."""
    with pytest.raises(CorruptMessage, match="header"):
        read(HEADER + block(TEXT) + damaged)


@pytest.mark.parametrize("rest", [b"\x00", b"\x00\x00", b"\x00\x00\x00"])
def test_less_than_a_size_at_the_end_is_ignored(rest: bytes) -> None:
    """Xerial's reader treats it as the end, too."""
    assert read(HEADER + block(TEXT) + rest) == TEXT


def test_a_truncated_block_is_corrupt() -> None:
    """After its size, a block must be complete."""
    area = HEADER + block(TEXT)
    assert len(area) > len(HEADER) + 10
    for size in range(len(HEADER) + 4, len(area)):
        with pytest.raises(CorruptMessage):
            read(area[:size])


@pytest.mark.parametrize("size", ["ffffffff", "80000000", "7fffffff", "00000000"])
def test_an_impossible_size_is_corrupt(size: str) -> None:
    """A negative size, one beyond the data, and an empty block, which lacks its length."""
    with pytest.raises(CorruptMessage):
        read(HEADER + bytes.fromhex(size))


def test_a_length_beyond_what_snappy_can_expand_to_is_corrupt() -> None:
    """Four gigabytes claimed by a few bytes are rejected before memory is allocated."""
    claim = bytes.fromhex("ffffffff0f") + bytes(20)

    with pytest.raises(CorruptMessage, match="claims 4294967295"):
        read(claim, 2**40)


def test_a_block_at_the_maximum_expansion_is_read() -> None:
    """The bound rejects no real block; zeros compress best of all."""
    plain = bytes(10_000_000)

    assert plain == read(raw(plain), len(plain))


def test_a_block_beyond_the_limit_is_rejected_before_it_is_read() -> None:
    """The length stored in the block is enough to reject it."""
    with pytest.raises(MessageTooLarge) as caught:
        read(HEADER + block(TEXT) + block(TEXT), len(TEXT) + 1)

    assert (2 * len(TEXT), len(TEXT) + 1) == (caught.value.size_bytes, caught.value.limit_bytes)
