"""One record of a v2 batch: its bytes, read and written one at a time.

This is the plain-Python reference of the decode kernel; ``Record`` is the value that tools and
tests use. Kafka: ``DefaultRecord``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from tidelog.codec.one_line import record_line
from tidelog.codec.varint import read_varint, read_varlong, write_varint, write_varlong
from tidelog.errors import InvalidRecord
from tidelog.records.batch import INT32_MAX, NO_SEQUENCE, TimestampType

if TYPE_CHECKING:
    from collections.abc import Sequence

Header: TypeAlias = "tuple[str, bytes | None]"
RawHeader: TypeAlias = "tuple[bytes, bytes | None]"

MIN_RECORD_BYTES: Final = 7
"""Size of the smallest record: seven one-byte fields, no key, no value, no headers."""

_ENCODED_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}".encode()


class Record(NamedTuple):
    """One record as a reader sees it. Source: Kafka Record and ConsumerRecord.

    ``timestamp`` is in ms (-1: none); ``leader_epoch`` is None if the batch has none (-1, or an old
    format); ``sequence`` is the producer's, -1 without one.
    """

    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    leader_epoch: int | None = None
    sequence: int = NO_SEQUENCE

    def __repr__(self) -> str:
        return record_line(self, self._fields)


class RecordSpan(NamedTuple):
    """The fields of a record as positions in the buffer it was read from; a size of -1 is null."""

    timestamp_delta: int
    offset_delta: int
    key_at: int
    key_size: int
    value_at: int
    value_size: int
    headers_at: int
    headers_count: int
    next_position: int


def advance_sequence(base_sequence: int, delta: int) -> int:
    """Return the sequence ``delta`` records after ``base_sequence``; 0 follows 2**31-1."""
    return NO_SEQUENCE if base_sequence < 0 else (base_sequence + delta) % (INT32_MAX + 1)


def scan_record(data: memoryview, at: int, end: int) -> RecordSpan:
    """Parse the record at byte ``at``; the record area ends before byte ``end``.

    Every length is checked, including those of the headers. Raises InvalidRecord with the record's
    position. Source: Kafka DefaultRecord.readFrom.
    """
    try:
        length, body = read_varint(data, at)
        timestamp_delta, position = read_varlong(data, body + 1)  # one byte of unused attributes
        offset_delta, position = read_varint(data, position)
        key_size, key_at = read_varint(data, position)
        position = key_at + key_size if key_size > 0 else key_at
        value_size, value_at = read_varint(data, position)
        position = value_at + value_size if value_size > 0 else value_at
        # Most records have no headers, and their count, 0, is one byte: no call is needed.
        has_headers = data[position] != 0
        count, headers_at = read_varint(data, position) if has_headers else (0, position + 1)
        if not 0 <= count <= end - headers_at:
            raise InvalidRecord(f"the number of headers, {count}, is invalid", at)  # noqa: TRY301 - the handler below adds the same position
        position = _skip_headers(data, headers_at, count) if has_headers else headers_at
    except (IndexError, InvalidRecord) as error:
        reason = error.reason if isinstance(error, InvalidRecord) else "a record is cut short"
        raise InvalidRecord(reason, at) from error
    if position != body + length or position > end:
        reason = f"the record's length is {length}, but its fields take {position - body} bytes"
        raise InvalidRecord(reason, at)
    return RecordSpan(
        timestamp_delta,
        offset_delta,
        key_at,
        max(key_size, -1),
        value_at,
        max(value_size, -1),
        headers_at,
        count,
        position,
    )


def _skip_headers(data: memoryview, at: int, count: int) -> int:
    for _ in range(count):
        name_size, at = read_varint(data, at)
        if name_size < 0:
            raise InvalidRecord("a header has no key", at)
        value_size, at = read_varint(data, at + name_size)
        at += max(value_size, 0)
    return at


def read_headers(data: memoryview, at: int, count: int) -> tuple[Header, ...]:
    """Return the ``count`` headers that begin at byte ``at``; ``scan_record`` has checked them.

    In a name that is not valid UTF-8, invalid bytes are replaced by U+FFFD, as in Java.
    """
    raw = read_raw_headers(data, at, count)
    return tuple((text_as_java(name), value) for name, value in raw)


def read_raw_headers(data: memoryview, at: int, count: int) -> tuple[RawHeader, ...]:
    """Return the ``count`` headers that begin at byte ``at``, with the bytes of their names."""
    headers = []
    for _ in range(count):
        name_size, at = read_varint(data, at)
        name = bytes(data[at : at + name_size])
        value_size, at = read_varint(data, at + name_size)
        headers.append((name, slice_or_none(data, at, value_size)))
        at += max(value_size, 0)
    return tuple(headers)


def text_as_java(data: bytes) -> str:
    """Decode UTF-8 as Java does: U+FFFD for invalid bytes, one for each encoded surrogate."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _ENCODED_SURROGATE.sub(_REPLACEMENT, data).decode("utf-8", "replace")


def slice_or_none(data: memoryview, at: int, size: int) -> bytes | None:
    """Copy ``size`` bytes from ``at``; return None for a negative size, which is null."""
    return None if size < 0 else bytes(data[at : at + size])


def write_record(
    out: bytearray,
    timestamp_delta: int,
    offset_delta: int,
    *,
    key: bytes | None,
    value: bytes | None,
    headers: Sequence[Header | RawHeader] = (),
) -> None:
    """Append one record to ``out``. Source: Kafka DefaultRecord.writeTo."""
    body = bytearray(1)  # attributes, always 0
    if timestamp_delta or offset_delta:
        write_varlong(body, timestamp_delta)
        write_varint(body, offset_delta)
    else:  # the first record of a batch, and in a batch of one the only one
        body += b"\0\0"
    _write_sized(body, key)
    _write_sized(body, value)
    if headers:
        write_varint(body, len(headers))
    else:
        body.append(0)
    for name, header_value in headers:
        _write_sized(body, name.encode() if isinstance(name, str) else name)
        _write_sized(body, header_value)
    write_varint(out, len(body))
    out += body


def _write_sized(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out.append(1)  # -1 in zigzag form
        return
    size = len(value)
    if size < 64:
        out.append(size << 1)
    else:
        write_varint(out, size)
    out += value
