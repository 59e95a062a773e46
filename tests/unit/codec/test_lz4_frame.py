"""LZ4 frames as Kafka writes and reads them."""

from __future__ import annotations

import random

import lz4.frame
import pytest

from tidelog.codec import lz4_frame
from tidelog.errors import CorruptMessage, MessageTooLarge

LIMIT = 1 << 22
TEXT = b"flint vapor heron zephyr willow cedar larch ridge " * 40
END_MARK = bytes(4)
HEADER_BYTES = 7


def write(plain: bytes, level: int | None = None, magic: int = 2) -> bytes:
    return lz4_frame.compress(memoryview(plain), level, magic)


def read(data: bytes, limit: int = LIMIT, magic: int = 2) -> bytes:
    return lz4_frame.decompress(memoryview(data), limit, magic)


def foreign(plain: bytes, **flags: object) -> bytes:
    packed: bytes = lz4.frame.compress(
        plain, **{"block_linked": False, "store_size": False} | flags
    )
    return packed


def flipped(data: bytes, at: int) -> bytes:
    damaged = bytearray(data)
    damaged[at] ^= 1
    return bytes(damaged)


def test_the_header_is_kafkas() -> None:
    """Version 1, independent blocks of 64 KiB, no checksums, no size, and the right checksum."""
    assert write(TEXT)[:HEADER_BYTES].hex() == "04224d18604082"
    assert write(TEXT, magic=1)[:HEADER_BYTES].hex() == "04224d18604082"


def test_for_magic_0_the_header_checksum_is_the_wrong_one() -> None:
    """Old clients include the frame's magic and verify it so; nothing else differs."""
    assert write(TEXT, magic=0)[:HEADER_BYTES].hex() == "04224d1860401a"
    assert write(TEXT)[HEADER_BYTES:] == write(TEXT, magic=0)[HEADER_BYTES:]


@pytest.mark.parametrize("level", [9, 3])
def test_blocks_hold_64_kib_and_are_independent(level: int) -> None:
    """Each block can be read on its own after the same header; noise is stored uncompressed."""
    plain = random.Random(1).randbytes(65_536) + bytes(65_536) + TEXT
    area = write(plain, level)
    at, blocks = HEADER_BYTES, []
    while area[at : at + 4] != END_MARK:
        size = int.from_bytes(area[at : at + 4], "little") & 0x7FFFFFFF
        blocks.append(read(area[:HEADER_BYTES] + area[at : at + 4 + size] + END_MARK))
        at += 4 + size

    assert [plain[:65_536], plain[65_536:131_072], plain[131_072:]] == blocks
    assert len(area) == at + len(END_MARK)


def test_the_default_level_is_the_fast_compressor_and_others_compress_better() -> None:
    """Kafka's level 9 is not lz4's level 9."""
    plain = bytes(random.Random(2).choices(b"abcdefgh", k=20_000))

    assert write(plain) == write(plain, 9)
    assert len(write(plain, 17)) == len(write(plain, 12)) <= len(write(plain, 3))
    assert len(write(plain, 8)) < len(write(plain, 9))


@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
@pytest.mark.parametrize("flags", [{}, {"block_checksum": True}, {"store_size": True}])
def test_frames_with_other_options_are_read(block_size: int, flags: dict[str, bool]) -> None:
    """Block sizes up to 4 MiB, block checksums and a content size are allowed."""
    plain = TEXT * 100

    assert plain == read(foreign(plain, block_size=block_size, content_checksum=True, **flags))
    assert plain == read(foreign(plain, block_size=block_size, **flags))


def test_a_block_checksum_is_checked() -> None:
    """A block with a wrong checksum is corrupt."""
    area = foreign(TEXT, block_checksum=True)

    with pytest.raises(CorruptMessage):
        read(flipped(area, len(area) - len(END_MARK) - 1))


def test_a_content_checksum_is_read_but_not_checked() -> None:
    """As in Kafka it is not verified, but it must be present."""
    area = foreign(TEXT, content_checksum=True)

    assert read(flipped(area, len(area) - 1)) == TEXT
    with pytest.raises(CorruptMessage, match="truncated"):
        read(area[:-1])


def test_a_content_size_is_skipped() -> None:
    """As in Kafka it is not compared with the size of the blocks."""
    area = lz4.frame.compress(TEXT, block_linked=False, store_size=True)
    lying = area[:6] + (5).to_bytes(8, "little") + area[14:]
    checked = bytes([lz4_frame._header_checksum(lying[4:14])])

    assert read(area) == TEXT
    assert read(lying[:14] + checked + lying[15:]) == TEXT


@pytest.mark.parametrize("size", [0, 1, 7, 2**40, 2**64 - 1])
def test_our_header_checksum_is_the_librarys(size: int) -> None:
    """The library accepts a ten-byte header, with a content size, that has our checksum."""
    descriptor = bytes([0x68, 0x40]) + size.to_bytes(8, "little")
    header = lz4_frame.FRAME_MAGIC + descriptor
    checksum = bytes([lz4_frame._header_checksum(descriptor)])

    assert size == lz4.frame.get_frame_info(header + checksum + END_MARK)["content_size"]


def test_a_wrong_header_checksum_is_corrupt_but_for_magic_0() -> None:
    """For magic 0 the byte is ignored, because old writers got it wrong."""
    area = flipped(write(TEXT), 6)

    assert read(area, magic=0) == TEXT
    for magic in (1, 2):
        with pytest.raises(CorruptMessage, match="checksum"):
            read(area, magic=magic)


@pytest.mark.parametrize(
    ("flg", "bd"),
    [
        *((flg, 0x40) for flg in (0x20, 0xA0, 0x40, 0x61, 0x62)),
        *((0x60, bd) for bd in (0x30, 0xC0, 0x41, 0x48)),
    ],
)
def test_a_header_that_kafka_does_not_support_is_corrupt(flg: int, bd: int) -> None:
    """Version 1, independent blocks, reserved bits zero, block size codes 4 to 7."""
    descriptor = bytes([flg, bd])
    checksum = bytes([lz4_frame._header_checksum(descriptor)])
    area = lz4_frame.FRAME_MAGIC + descriptor + checksum + write(TEXT)[HEADER_BYTES:]

    for magic in (0, 2):
        with pytest.raises(CorruptMessage, match="unsupported"):
            read(area, magic=magic)


def test_linked_blocks_are_corrupt() -> None:
    """Other programs often write them; Kafka rejects them."""
    with pytest.raises(CorruptMessage, match="unsupported"):
        read(lz4.frame.compress(TEXT * 100, block_linked=True))


@pytest.mark.parametrize("data", [b"", b"\x04\x22\x4d\x18", bytes(20), b"\x50\x2a\x4d\x18" * 5])
def test_what_is_not_a_frame_is_corrupt(data: bytes) -> None:
    """A skippable frame is not accepted either."""
    with pytest.raises(CorruptMessage):
        read(data)


@pytest.mark.parametrize("flags", [{}, {"content_checksum": True}])
def test_reading_stops_at_the_first_end_mark(flags: dict[str, bool]) -> None:
    """What follows is ignored, even another frame."""
    area = foreign(TEXT, **flags)

    assert read(area + area) == TEXT
    assert read(area + b"anything") == TEXT


def test_a_block_larger_than_the_frame_allows_is_corrupt() -> None:
    """No block may be, or expand to, more than 64 KiB."""
    stored = (70_000 | 0x80000000).to_bytes(4, "little") + bytes(70_000)
    grown = foreign(bytes(70_000), block_size=5)[HEADER_BYTES:-4]

    for body in (stored, grown):
        with pytest.raises(CorruptMessage):
            read(lz4_frame.STANDARD_HEADER + body + END_MARK)


def test_large_frames_are_read_in_pieces() -> None:
    """The limit applies beyond the first piece too."""
    plain = random.Random(4).randbytes(3_000_000)
    area = write(plain)

    assert plain == read(area, len(plain))
    with pytest.raises(MessageTooLarge):
        read(area, len(plain) - 1)
