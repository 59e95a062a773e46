"""Variable-length integers, one value at a time.

Arrays of records are read by ``tidelog.kernels``, which follows the same rules. Kafka:
``ByteUtils``.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from tidelog.errors import InvalidArgument, InvalidRecord

Bytes: TypeAlias = bytes | bytearray | memoryview
"""Input whose items are plain ``int``; the items of a NumPy array are not."""

MAX_VARINT_BYTES: Final = 5
MAX_VARLONG_BYTES: Final = 10
_UINT32_MAX: Final = 2**32 - 1
_UINT64_MAX: Final = 2**64 - 1


def read_varint(data: Bytes, at: int) -> tuple[int, int]:
    """Return the zigzag int32 at byte ``at`` and the position after it.

    Bits beyond the 32nd are dropped, as by Java's shifts.

    Raises:
        InvalidRecord: ``data`` ends inside the number, or the number has more than 5 bytes.

    Source: Kafka ByteUtils.readVarint.
    """
    try:
        raw, end = data[at], at + 1
    except IndexError:
        raw, end = read_unsigned_varint(data, at)  # raises, and names what is wrong
    if raw >= 0x80:  # most have one byte
        raw, end = read_unsigned_varint(data, at)
    return (raw >> 1) ^ -(raw & 1), end


def read_varlong(data: Bytes, at: int) -> tuple[int, int]:
    """Return the zigzag int64 at byte ``at`` and the position after it.

    Raises:
        InvalidRecord: ``data`` ends inside the number, or the number has more than 10 bytes.

    Source: Kafka ByteUtils.readVarlong.
    """
    raw, end = _read(data, at, MAX_VARLONG_BYTES)
    raw &= _UINT64_MAX
    return (raw >> 1) ^ -(raw & 1), end


def read_unsigned_varint(data: Bytes, at: int) -> tuple[int, int]:
    """Return the uint32 at byte ``at`` and the position after it; errors as ``read_varint``."""
    try:  # most have two bytes at most
        raw, end = data[at], at + 1
        if raw >= 0x80:
            high, end = data[end], at + 2
            raw = raw & 0x7F | high << 7
            if high >= 0x80:
                raw, end = _read(data, at, MAX_VARINT_BYTES)
    except IndexError:
        raw, end = _read(data, at, MAX_VARINT_BYTES)  # raises, and names what is wrong
    return raw & _UINT32_MAX, end


def _read(data: Bytes, at: int, max_bytes: int) -> tuple[int, int]:
    raw = shift = 0
    for byte in data[at : at + max_bytes]:
        raw |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return raw, at + shift // 7
    if shift == 7 * max_bytes:
        raise InvalidRecord(f"varint has more than {max_bytes} bytes", position=at)
    raise InvalidRecord("data ends inside a varint", position=at)


def write_varint(out: bytearray, value: int) -> None:
    """Append an int32 in zigzag form to ``out``. Source: Kafka ByteUtils.writeVarint."""
    if -64 <= value < 64:  # most are: one byte, and no calls
        out.append((value << 1) ^ (value >> 6))
    else:
        _write(out, _zigzag(value, bits=32))


def write_varlong(out: bytearray, value: int) -> None:
    """Append an int64 in zigzag form to ``out``. Source: Kafka ByteUtils.writeVarlong."""
    if -64 <= value < 64:
        out.append((value << 1) ^ (value >> 6))
    else:
        _write(out, _zigzag(value, bits=64))


def write_unsigned_varint(out: bytearray, value: int) -> None:
    """Append a uint32 to ``out``. Source: Kafka ByteUtils.writeUnsignedVarint."""
    if not 0 <= value <= _UINT32_MAX:
        raise InvalidArgument(f"{value} is not between 0 and {_UINT32_MAX}")
    _write(out, value)


def _write(out: bytearray, raw: int) -> None:
    while raw > 0x7F:
        out.append((raw & 0x7F) | 0x80)
        raw >>= 7
    out.append(raw)


def _zigzag(value: int, bits: int) -> int:
    limit = 1 << (bits - 1)
    if not -limit <= value < limit:
        raise InvalidArgument(f"{value} does not fit in {bits} bits")
    return (value << 1) ^ (value >> (bits - 1))
