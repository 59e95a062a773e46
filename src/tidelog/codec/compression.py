"""The four compression codecs of Kafka's record batches, with bounded decompression.

Each codec's framing is a module of its own, imported on first use. Kafka: ``CompressionType`` and
``Compression``.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final, Protocol, cast

from tidelog.codec.layout import byte_view
from tidelog.errors import InvalidArgument, MessageTooLarge, UnsupportedCompressionType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.codec.layout import Buffer

DEFAULT_DECOMPRESSED_LIMIT: Final = 256 * 1024 * 1024
"""Default limit for the decompressed bytes of one batch.

The limit is tidelog's own: Kafka decompresses as a stream and needs none. A batch of the default
``max.message.bytes`` of 1 MiB filled with text stays below a twentieth of it, while a crafted
batch of a few kilobytes could expand to gigabytes.
"""


class Codec(IntEnum):
    """A compression codec by its number in the batch attributes. Source: Kafka CompressionType."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def kafka_name(self) -> str:
        """The name used in settings and by ``tidelog dump``."""
        return self.name.lower()

    @classmethod
    def of_attributes(cls, attributes: int) -> Codec:
        """Return the codec in bits 0 to 2 of a batch's attributes.

        Raises:
            UnsupportedCompressionType: the number is 5, 6 or 7.
        """
        number = attributes & 0x07
        if number > cls.ZSTD:
            raise UnsupportedCompressionType(f"unknown compression type {number}")
        return cls(number)

    @classmethod
    def named(cls, codec: Codec | str) -> Codec:
        """Return a codec, or the one with this ``compression.type`` name; else InvalidArgument."""
        if isinstance(codec, cls):
            return codec
        found = _CODEC_BY_NAME.get(codec) if isinstance(codec, str) else None
        if found is None:
            known = ", ".join(_CODEC_BY_NAME)
            raise InvalidArgument(f"there is no codec {codec!r}: use one of {known}")
        return found


def codec_name(number: int) -> str:
    """Return Kafka's name of a codec by its number, of a number without a codec too."""
    return Codec(number).kafka_name if number in _KNOWN_NUMBERS else f"unknown {number}"


_KNOWN_NUMBERS: Final = frozenset(Codec)
_CODEC_BY_NAME: Final = {codec.kafka_name: codec for codec in Codec}

_MODULES: Final = {
    Codec.GZIP: "tidelog.codec.gzip_members",
    Codec.SNAPPY: "tidelog.codec.xerial_snappy",
    Codec.LZ4: "tidelog.codec.lz4_frame",
    Codec.ZSTD: "tidelog.codec.zstd_frames",
}


class _Framing(Protocol):
    def compress(self, data: memoryview, level: int | None, magic: int) -> bytes: ...

    def decompress(self, data: memoryview, limit: int, magic: int) -> bytes: ...

    def pieces(self, data: memoryview, piece_bytes: int) -> Iterator[bytes]: ...


@cache
def _framing(codec: Codec) -> _Framing:
    return cast("_Framing", import_module(_MODULES[codec]))


def compress(codec: Codec, data: Buffer, level: int | None = None, magic: int = 2) -> bytes:
    """Return ``data`` compressed in Kafka's framing of ``codec``.

    Args:
        codec: which codec; NONE copies.
        data: the records' bytes.
        level: gzip 1 to 9 or -1, lz4 1 to 17, zstd -131072 to 22; None is Kafka's default. Snappy
            and NONE have no levels and ignore it.
        magic: magic of the batch; it changes one byte of lz4.

    Raises:
        InvalidArgument: the codec does not have this level.
    """
    if codec == Codec.NONE:
        return bytes(byte_view(data))
    return _framing(codec).compress(byte_view(data), level, magic)


def decompress(
    codec: Codec, data: Buffer, *, limit: int = DEFAULT_DECOMPRESSED_LIMIT, magic: int = 2
) -> bytes:
    """Return the decompressed bytes.

    Args:
        codec: which codec; NONE copies.
        data: a whole compressed record area. Trailing bytes are accepted where Kafka's reader of
            that codec accepts them; see the framing's module.
        limit: maximum number of bytes to return. Memory grows with the bytes actually
            produced, not with the size that the data claims.
        magic: magic of the batch; Kafka's lz4 for magic 0 has a wrong header checksum.

    Raises:
        CorruptMessage: the data is damaged or truncated.
        MessageTooLarge: the result is larger than ``limit`` bytes.
    """
    if codec == Codec.NONE:
        plain = bytes(byte_view(data))
        if len(plain) > limit:
            raise MessageTooLarge("decompressed records", len(plain), limit)
        return plain
    return _framing(codec).decompress(byte_view(data), limit, magic)


def decompress_in_pieces(codec: Codec, data: Buffer, piece_bytes: int) -> Iterator[bytes]:
    """Yield what ``decompress`` returns in pieces, without a limit on the total size.

    Args:
        codec: which codec, of a batch of magic 2; not NONE.
        data: a whole compressed record area.
        piece_bytes: maximum size of a piece; a snappy block may be larger.

    Raises:
        CorruptMessage: the data is damaged or truncated; what precedes the damage was yielded.
    """
    return _framing(codec).pieces(byte_view(data), piece_bytes)
