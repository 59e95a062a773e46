"""GZIP streams (RFC 1952) as Kafka writes and reads them.

As in Java, a stream may consist of several members. isal decompresses about three times as fast as
zlib and is used if it is installed. Kafka: ``GzipCompression``.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final, Protocol

from tidelog.errors import CorruptMessage, InvalidArgument, MessageTooLarge

try:
    from isal import isal_zlib
except ImportError:
    isal_zlib = None  # type: ignore[assignment]  # fall back to zlib

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType


class _Member(Protocol):
    """The interface that zlib and isal share."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    @property
    def unconsumed_tail(self) -> bytes: ...

    def decompress(self, data: memoryview | bytes, max_length: int, /) -> bytes: ...


_library: ModuleType = isal_zlib or zlib
_open_member: Callable[[int], _Member] = _library.decompressobj
_error: type[Exception] = _library.error

DEFAULT_LEVEL: Final = -1
_GZIP_ONLY: Final = 31
_MEMBER_START: Final = b"\x1f\x8b\x08"
_SMALLEST_MEMBER: Final = 18
_FIRST_BITE: Final = 4096
"""What a member is given at first, then twice as much, since it copies what it does not use.

With large bites, copying what follows each of many tiny members would take quadratic time.
"""
_LARGEST_BITE: Final = 1024 * 1024


def compress(data: memoryview, level: int | None, _magic: int) -> bytes:
    """Return ``data`` as one member. ``level``: 1 to 9, -1 or None."""
    chosen = DEFAULT_LEVEL if level is None else level
    if chosen != DEFAULT_LEVEL and not 1 <= chosen <= 9:
        raise InvalidArgument(f"gzip level {level} is not 1 to 9 or -1")
    return zlib.compress(data, chosen, _GZIP_ONLY)


def decompress(data: memoryview, limit: int, _magic: int) -> bytes:
    """Return the bytes of all members; trailing bytes that are not a member are ignored.

    Source: java.util.zip.GZIPInputStream, which Kafka uses.
    """
    member = _open_member(_GZIP_ONLY)
    first = _read(member, data, limit, limit)
    if not member.eof:
        raise CorruptMessage("gzip data is truncated")
    at = len(data) - len(member.unused_data)
    if not _is_member(data, at):
        return first
    return first + _read_members(data, at, limit - len(first), limit)


def pieces(data: memoryview, piece_bytes: int) -> Iterator[bytes]:
    """Yield what ``decompress`` returns, up to ``piece_bytes`` at a time."""
    at, is_first = 0, True
    while is_first or _is_member(data, at):
        member, is_first = _open_member(_GZIP_ONLY), False
        bite: memoryview | bytes = b""
        bite_bytes = _FIRST_BITE
        while not member.eof:
            if not bite:
                bite = data[at : at + bite_bytes]
                at += len(bite)
                bite_bytes = min(2 * bite_bytes, _LARGEST_BITE)
            part, is_at_end = _read_piece(member, bite, piece_bytes), at == len(data)
            bite = member.unconsumed_tail
            if is_at_end and not (part or bite or member.eof):
                raise CorruptMessage("gzip data is truncated")
            yield part
        at -= len(member.unused_data)


def _read_piece(member: _Member, data: memoryview | bytes, piece_bytes: int) -> bytes:
    try:
        return member.decompress(data, piece_bytes)
    except _error as error:
        raise CorruptMessage(f"gzip data is damaged: {error}") from error


def _read_members(data: memoryview, at: int, left: int, limit: int) -> bytes:
    """Read the members after the first, which was given all: what follows was copied once."""
    parts = []
    while _is_member(data, at):
        member = _open_member(_GZIP_ONLY)
        bite = _FIRST_BITE
        while not member.eof:
            if at == len(data):
                raise CorruptMessage("gzip data is truncated")
            part = _read(member, data[at : at + bite], left, limit)
            left -= len(part)
            parts.append(part)
            at = min(at + bite, len(data)) - len(member.unused_data)
            bite = min(2 * bite, _LARGEST_BITE)
    return b"".join(parts)


def _is_member(data: memoryview, at: int) -> bool:
    return len(data) - at > _SMALLEST_MEMBER and bytes(data[at : at + 3]) == _MEMBER_START


def _read(member: _Member, data: memoryview, left: int, limit: int) -> bytes:
    try:
        part: bytes = member.decompress(data, left + 1)
    except _error as error:
        raise CorruptMessage(f"gzip data is damaged: {error}") from error
    if len(part) > left:
        raise MessageTooLarge("decompressed records", limit + 1, limit)
    return part
