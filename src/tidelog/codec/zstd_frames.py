"""Zstandard frames as Kafka writes and reads them.

The block headers bound the size of the output before it is produced. Contexts are kept per
thread, because a context used by two threads at once crashes the interpreter. Kafka:
``ZstdCompression``.
"""

from __future__ import annotations

from threading import local
from typing import TYPE_CHECKING, Final, NamedTuple

import zstandard

from tidelog.errors import CorruptMessage, InvalidArgument, MessageTooLarge

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_LEVEL: Final = 3
MIN_LEVEL: Final = -131072
MAX_LEVEL: Final = 22

_SKIPPABLE_MAGIC: Final = 0x184D2A50
_SKIPPABLE_HEADER_BYTES: Final = 8
_BLOCK_HEADER_BYTES: Final = 3
_BLOCK_RLE: Final = 1
_BLOCK_COMPRESSED: Final = 2
_BLOCK_RESERVED: Final = 3
_MAX_BLOCK_BYTES: Final = 128 * 1024
_CHECKSUM_BYTES: Final = 4

_ONE_CALL_BYTES: Final = 1024 * 1024
"""Frames whose output cannot exceed this are read in one call, 10 % faster than in pieces."""

_KEPT_WINDOW_BYTES: Final = 8 * 1024 * 1024
"""Frames with a larger window use a context of their own, so that its memory is released."""

_FIRST_PIECE: Final = 256 * 1024
_LARGEST_PIECE: Final = 4 * 1024 * 1024
_MAX_KEPT_LEVELS: Final = 8


class _Contexts(local):
    def __init__(self) -> None:
        self.decompressor = zstandard.ZstdDecompressor()
        self.compressors: dict[int, zstandard.ZstdCompressor] = {}

    def compressor(self, level: int) -> zstandard.ZstdCompressor:
        made = self.compressors.get(level)
        if made is None:
            if len(self.compressors) >= _MAX_KEPT_LEVELS:
                self.compressors.clear()
            made = zstandard.ZstdCompressor(
                level=level, write_content_size=False, write_checksum=False
            )
            self.compressors[level] = made
        return made


_contexts: Final = _Contexts()


class _Frame(NamedTuple):
    """The end of a frame (exclusive) and the maximum number of bytes its blocks can produce."""

    end: int
    max_bytes: int
    content_bytes: int | None
    window_bytes: int


def compress(data: memoryview, level: int | None, _magic: int) -> bytes:
    """Return one frame without content size or checksum. ``level``: -131072 to 22 or None."""
    chosen = DEFAULT_LEVEL if level is None else level
    if not MIN_LEVEL <= chosen <= MAX_LEVEL:
        raise InvalidArgument(f"zstd level {level} is not {MIN_LEVEL} to {MAX_LEVEL}")
    return _contexts.compressor(chosen).compress(data)


def decompress(data: memoryview, limit: int, _magic: int) -> bytes:
    """Return the bytes of all frames, b"" if there is none; only whole frames may follow.

    Stricter than zstd-jni, Kafka's reader, in one point: zstd-jni silently drops a truncated
    further frame.
    """
    left = limit
    parts: list[bytes] = []
    try:
        for framed, frame in _frames(data):
            part = _read(framed, frame, left, limit)
            parts.append(part)
            left -= len(part)
    except zstandard.ZstdError as error:
        raise CorruptMessage(f"zstd data is damaged: {error}") from error
    return parts[0] if len(parts) == 1 else b"".join(parts)


def pieces(data: memoryview, piece_bytes: int) -> Iterator[bytes]:
    """Yield what ``decompress`` returns, up to ``piece_bytes`` at a time."""
    try:
        for framed, _ in _frames(data):
            with zstandard.ZstdDecompressor().stream_reader(framed) as reader:
                while part := reader.read(piece_bytes):
                    yield part
    except zstandard.ZstdError as error:
        raise CorruptMessage(f"zstd data is damaged: {error}") from error


def _frames(data: memoryview) -> Iterator[tuple[memoryview, _Frame]]:
    """Yield the bytes of each frame and what its headers say, without skippable frames."""
    at = 0
    while at < len(data):
        end = _skip(data, at)
        if end is None:
            frame = _measure(data, at)
            end = frame.end
            yield data[at:end], frame
        at = end


def _skip(data: memoryview, at: int) -> int | None:
    """Return the end of the skippable frame at ``at``; None if there is none."""
    if int.from_bytes(data[at : at + 4], "little") & ~0xF != _SKIPPABLE_MAGIC:
        return None
    size_bytes = int.from_bytes(data[at + 4 : at + 8], "little")
    end = at + _SKIPPABLE_HEADER_BYTES + size_bytes
    if end > len(data):
        raise CorruptMessage("zstd data is truncated")
    return end


def _measure(data: memoryview, at: int) -> _Frame:
    """Walk the block headers, which give the frame's end and bound the size of its output."""
    frame = data[at:]
    header = zstandard.get_frame_parameters(frame)
    at += zstandard.frame_header_size(frame)
    block_bytes = min(header.window_size, _MAX_BLOCK_BYTES)
    max_bytes = 0
    is_last = False
    while not is_last:
        block = int.from_bytes(data[at : at + _BLOCK_HEADER_BYTES], "little")
        is_last, kind, size_bytes = bool(block & 1), block >> 1 & 3, block >> 3
        at += _BLOCK_HEADER_BYTES + (1 if kind == _BLOCK_RLE else size_bytes)
        if at > len(data):
            raise CorruptMessage("zstd data is truncated")
        if kind == _BLOCK_RESERVED:
            raise CorruptMessage("zstd block has a reserved type")
        max_bytes += block_bytes if kind == _BLOCK_COMPRESSED else size_bytes
    at += _CHECKSUM_BYTES if header.has_checksum else 0
    if at > len(data):
        raise CorruptMessage("zstd data is truncated")
    unknown = header.content_size == zstandard.CONTENTSIZE_UNKNOWN
    content_bytes = None if unknown else header.content_size
    return _Frame(at, max_bytes, content_bytes, header.window_size)


def _read(data: memoryview, frame: _Frame, left: int, limit: int) -> bytes:
    content_bytes = frame.content_bytes
    if content_bytes is not None:
        # The library allocates the stated content size, so it is checked first.
        if content_bytes > frame.max_bytes:
            raise CorruptMessage(f"zstd frame claims {content_bytes} bytes, more than it can hold")
        if content_bytes > left:
            raise MessageTooLarge("decompressed records", limit - left + content_bytes, limit)
    is_small = frame.max_bytes <= _ONE_CALL_BYTES and frame.window_bytes <= _KEPT_WINDOW_BYTES
    # The library's one-shot call does not verify a frame that states no content.
    if is_small and content_bytes != 0:
        part = _contexts.decompressor.decompress(data, max_output_size=max(1, frame.max_bytes))
    else:
        part = _read_pieces(data, left)
    if len(part) > left:
        raise MessageTooLarge("decompressed records", limit + 1, limit)
    return part


def _read_pieces(data: memoryview, left: int) -> bytes:
    parts: list[bytes] = []
    total, piece_bytes = 0, _FIRST_PIECE
    with zstandard.ZstdDecompressor().stream_reader(data) as reader:
        while total <= left and (part := reader.read(piece_bytes)):
            parts.append(part)
            total += len(part)
            piece_bytes = min(2 * piece_bytes, _LARGEST_PIECE)
    return b"".join(parts)
