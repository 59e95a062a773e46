"""Snappy in the framing of the xerial library, which differs from Snappy's own framing.

Kafka: ``SnappyCompression`` over ``org.xerial.snappy.SnappyInputStream`` and
``SnappyOutputStream``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import cramjam

from tidelog.codec.layout import Layout, Wire
from tidelog.codec.varint import read_unsigned_varint
from tidelog.errors import CorruptMessage, InvalidRecord, MessageTooLarge

if TYPE_CHECKING:
    from collections.abc import Iterator


class XerialHeader(NamedTuple):
    """The header before the blocks."""

    magic: Annotated[bytes, Wire("8s", "82 'SNAPPY' 00.")]
    version: Annotated[int, Wire("i", "Version of the writer, 1.")]
    compatible_version: Annotated[int, Wire("i", "Oldest version that can read it, 1.")]


class _BlockSize(NamedTuple):
    size_bytes: Annotated[int, Wire("i", "Compressed bytes of the block that follows.")]


XERIAL_HEADER: Final = Layout(XerialHeader)
_BLOCK_SIZE: Final = Layout(_BlockSize)
assert XERIAL_HEADER.size == 16

MAGIC: Final = b"\x82SNAPPY\x00"
BLOCK_BYTES: Final = 32 * 1024
_MIN_VERSION: Final = 1
_HEADER: Final = XERIAL_HEADER.pack(XerialHeader(MAGIC, 1, 1))
_MAGIC_AS_SIZE: Final = _BLOCK_SIZE.unpack(MAGIC).size_bytes

_MAX_EXPANSION: Final = 22
"""A copy element yields at most 64 bytes from three, so a block expands at most 22-fold."""


def compress(data: memoryview, _level: int | None, _magic: int) -> bytes:
    """Return the header followed by blocks of up to 32 KiB of input each."""
    parts: list[bytes] = [_HEADER]
    for at in range(0, len(data), BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[at : at + BLOCK_BYTES]))
        parts.append(_BLOCK_SIZE.pack(_BlockSize(len(block))))
        parts.append(block)
    return b"".join(parts)


def decompress(data: memoryview, limit: int, _magic: int) -> bytes:
    """Return the bytes of all blocks; data without the magic is one raw block.

    Headers may recur between blocks (concatenated streams). Up to three trailing bytes are
    ignored, as in xerial's reader. Stricter than xerial in one point: a damaged header between
    blocks is an error, not the end of the data.
    """
    left = limit
    parts = []
    for packed in _blocks(data):
        block = _read_block(packed, left, limit)
        parts.append(block)
        left -= len(block)
    return b"".join(parts)


def pieces(data: memoryview, _piece_bytes: int) -> Iterator[bytes]:
    """Yield what ``decompress`` returns, block by block; the writer chose the block size."""
    for packed in _blocks(data):
        max_bytes = len(packed) * _MAX_EXPANSION
        yield bytes(_read_block(packed, max_bytes, max_bytes))


def _blocks(data: memoryview) -> Iterator[memoryview]:
    if len(data) < XERIAL_HEADER.size or bytes(data[: len(MAGIC)]) != MAGIC:
        yield data
        return
    at = XERIAL_HEADER.size  # as in xerial, the first header's version is not checked
    while len(data) - at >= _BLOCK_SIZE.size:
        size_bytes = _BLOCK_SIZE.unpack(data, at).size_bytes
        if size_bytes == _MAGIC_AS_SIZE:
            at = _skip_header(data, at)
            continue
        at += _BLOCK_SIZE.size
        if not 0 <= size_bytes <= len(data) - at:
            raise CorruptMessage(f"snappy block of {size_bytes} bytes is truncated", position=at)
        yield data[at : at + size_bytes]
        at += size_bytes


def _skip_header(data: memoryview, at: int) -> int:
    if len(data) - at < XERIAL_HEADER.size:
        raise CorruptMessage("snappy header is truncated", position=at)
    header = XERIAL_HEADER.unpack(data, at)
    if header.magic != MAGIC or header.version < _MIN_VERSION:
        raise CorruptMessage("snappy header is damaged", position=at)
    return at + XERIAL_HEADER.size


def _read_block(block: memoryview, left: int, limit: int) -> memoryview:
    try:
        size_bytes, _ = read_unsigned_varint(block, 0)
    except InvalidRecord as error:
        raise CorruptMessage("snappy block has no length") from error
    if size_bytes > len(block) * _MAX_EXPANSION:
        raise CorruptMessage(f"snappy block claims {size_bytes} bytes from {len(block)}")
    if size_bytes > left:
        raise MessageTooLarge("decompressed records", limit - left + size_bytes, limit)
    try:
        return memoryview(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CorruptMessage(f"snappy block is damaged: {error}") from error
