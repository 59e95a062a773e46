"""LZ4 frames, limited to the part of the format that Kafka writes and reads.

The frame header and Kafka's rules for it are here; the blocks are left to the library. Kafka:
``Lz4BlockOutputStream`` and ``Lz4BlockInputStream``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import lz4.frame

from tidelog.errors import CorruptMessage, InvalidArgument, MessageTooLarge

if TYPE_CHECKING:
    from collections.abc import Iterator

FRAME_MAGIC: Final = bytes.fromhex("04224d18")
STANDARD_HEADER: Final = FRAME_MAGIC + bytes.fromhex("604082")
"""Version 01, independent blocks, no optional fields; 64 KiB blocks; the header checksum."""

LEGACY_HEADER: Final = FRAME_MAGIC + bytes.fromhex("60401a")
"""The same for magic 0, where Kafka computed the checksum over the frame magic as well."""

DEFAULT_LEVEL: Final = 9
_LEAST_HIGH_LEVEL: Final = 3
_MOST_HIGH_LEVEL: Final = 12

_FLG_VERSION: Final = 0xC0
_FLG_VERSION_1: Final = 0x40
_FLG_INDEPENDENT: Final = 0x20
_FLG_CONTENT_SIZE: Final = 0x08
_FLG_CONTENT_CHECKSUM: Final = 0x04
_FLG_RESERVED: Final = 0x03
_BD_RESERVED: Final = 0x8F
_CONTENT_SIZE_BYTES: Final = 8
_CHECKSUM_BYTES: Final = 4

_FIRST_PIECE: Final = 64 * 1024
_LARGEST_PIECE: Final = 4 * 1024 * 1024


def compress(data: memoryview, level: int | None, magic: int) -> bytes:
    """Return ``data`` as one frame. ``level``: 1 to 17 or None.

    Level 9, the default, selects the fast compressor, any other level the high compressor, whose
    own levels end at 12. Source: Kafka Lz4BlockOutputStream.
    """
    chosen = DEFAULT_LEVEL if level is None else level
    if not 1 <= chosen <= 17:
        raise InvalidArgument(f"lz4 level {level} is not 1 to 17")
    high = min(max(chosen, _LEAST_HIGH_LEVEL), _MOST_HIGH_LEVEL)
    frame: bytes = lz4.frame.compress(
        data,
        compression_level=0 if chosen == DEFAULT_LEVEL else high,
        block_size=lz4.frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        content_checksum=False,
        block_checksum=False,
        store_size=False,
    )
    if magic == 0:
        return LEGACY_HEADER + frame[len(LEGACY_HEADER) :]
    return frame


def decompress(data: memoryview, limit: int, magic: int) -> bytes:
    """Return the bytes of the first frame; trailing bytes are ignored, as in Kafka.

    Block checksums are verified; the content checksum and the stated content size are not.
    Stricter than Kafka in one point: an empty stored block does not end the frame; only four zero
    bytes do.
    """
    trailer_bytes = 0
    if data[: len(STANDARD_HEADER)] != STANDARD_HEADER:
        data, trailer_bytes = _with_plain_header(data, magic)
    decompressor = lz4.frame.LZ4FrameDecompressor()
    try:
        plain = _read(decompressor, data, limit)
    except RuntimeError as error:
        raise CorruptMessage(f"lz4 data is damaged: {error}") from error
    if len(decompressor.unused_data or b"") < trailer_bytes:
        raise CorruptMessage("lz4 frame is truncated")
    return plain


def pieces(data: memoryview, piece_bytes: int) -> Iterator[bytes]:
    """Yield what ``decompress`` returns for a batch of magic 2, up to ``piece_bytes`` at a time."""
    trailer_bytes = 0
    if data[: len(STANDARD_HEADER)] != STANDARD_HEADER:
        data, trailer_bytes = _with_plain_header(data, magic=2)
    decompressor = lz4.frame.LZ4FrameDecompressor()
    rest: memoryview | bytes = data
    try:
        while not decompressor.eof:
            part = decompressor.decompress(rest, piece_bytes)
            if not (part or decompressor.eof):
                raise CorruptMessage("lz4 frame is truncated")
            yield part
            rest = b""
    except RuntimeError as error:
        raise CorruptMessage(f"lz4 data is damaged: {error}") from error
    if len(decompressor.unused_data or b"") < trailer_bytes:
        raise CorruptMessage("lz4 frame is truncated")


def _read(decompressor: lz4.frame.LZ4FrameDecompressor, data: memoryview, limit: int) -> bytes:
    piece_bytes = _FIRST_PIECE
    part = decompressor.decompress(data, piece_bytes)
    parts = [part]
    total = len(part)
    while total <= limit and not decompressor.eof:
        if decompressor.needs_input or not part:
            raise CorruptMessage("lz4 frame is truncated")
        piece_bytes = min(2 * piece_bytes, _LARGEST_PIECE)
        part = decompressor.decompress(b"", piece_bytes)
        parts.append(part)
        total += len(part)
    if total > limit:
        raise MessageTooLarge("decompressed records", total, limit)
    return b"".join(parts)


def _with_plain_header(data: memoryview, magic: int) -> tuple[memoryview, int]:
    """Check the header by Kafka's rules and replace it by one that declares only what is verified.

    Returns the frame and the size in bytes of the content checksum that must follow its end mark.
    """
    if len(data) < len(STANDARD_HEADER) or data[:4] != FRAME_MAGIC:
        raise CorruptMessage("not an lz4 frame")
    flg, bd = data[4], data[5]
    if flg & (_FLG_VERSION | _FLG_INDEPENDENT | _FLG_RESERVED) != _FLG_VERSION_1 | _FLG_INDEPENDENT:
        raise CorruptMessage(f"lz4 frame has unsupported flags 0x{flg:02x}")
    if bd & _BD_RESERVED or bd >> 4 < 4:
        raise CorruptMessage(f"lz4 frame has an unsupported block size 0x{bd:02x}")
    end = 6 + (_CONTENT_SIZE_BYTES if flg & _FLG_CONTENT_SIZE else 0)
    if end >= len(data):
        raise CorruptMessage("lz4 header is truncated")
    if magic > 0 and data[end] != _header_checksum(data[4:end]):
        raise CorruptMessage("lz4 header has a wrong checksum")
    plain = bytes((flg & ~(_FLG_CONTENT_SIZE | _FLG_CONTENT_CHECKSUM), bd))
    header = FRAME_MAGIC + plain + bytes((_header_checksum(plain),))
    trailer_bytes = _CHECKSUM_BYTES if flg & _FLG_CONTENT_CHECKSUM else 0
    return memoryview(b"".join((header, data[end + 1 :]))), trailer_bytes


_PRIMES: Final = (2654435761, 2246822519, 3266489917, 668265263, 374761393)
_UINT32_MAX: Final = 2**32 - 1


def _header_checksum(descriptor: bytes | memoryview) -> int:
    """Return the second byte of the XXH32 of the descriptor (2 or 10 bytes, so no stripes)."""
    value = _PRIMES[4] + len(descriptor)
    words = len(descriptor) // 4 * 4
    for at in range(0, words, 4):
        word = int.from_bytes(descriptor[at : at + 4], "little")
        value = _rotate(value + word * _PRIMES[2], 17) * _PRIMES[3]
    for byte in descriptor[words:]:
        value = _rotate(value + byte * _PRIMES[4], 11) * _PRIMES[0]
    value &= _UINT32_MAX
    value = (value ^ value >> 15) * _PRIMES[1] & _UINT32_MAX
    value = (value ^ value >> 13) * _PRIMES[2] & _UINT32_MAX
    return (value ^ value >> 16) >> 8 & 0xFF


def _rotate(value: int, bits: int) -> int:
    value &= _UINT32_MAX
    return (value << bits | value >> (32 - bits)) & _UINT32_MAX
