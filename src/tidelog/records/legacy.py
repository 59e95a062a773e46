"""Batches of magic 0 and 1: one record, or one compressed wrapper around several.

They are only read, one record at a time in plain code; everything new is magic 2. Inner records get
their offsets and timestamps by the rules of their wrapper. Kafka: ``LegacyRecord`` and
``AbstractLegacyRecordBatch``.
"""

from __future__ import annotations

import zlib
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

from tidelog.codec.compression import DEFAULT_DECOMPRESSED_LIMIT, Codec, decompress
from tidelog.codec.layout import Layout, Wire
from tidelog.errors import CorruptMessage, InvalidRecord
from tidelog.records.batch import (
    LOG_OVERHEAD,
    MIN_RECORD_LENGTH,
    NO_TIMESTAMP,
    BatchFlags,
    TimestampType,
    entry_length,
    wrap_int64,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


class LegacyHeaderV0(NamedTuple):
    """The fixed part of a magic 0 record. Source: Kafka LegacyRecord."""

    offset: Annotated[int, Wire("q", "Offset of the record; of a wrapper: of its last record.")]
    length: Annotated[int, Wire("i", "Bytes that follow this field.")]
    crc: Annotated[int, Wire("I", "CRC-32 of all bytes from the magic on.")]
    magic: Annotated[int, Wire("b", "Format version, 0.")]
    attributes: Annotated[int, Wire("B", "Codec in bits 0 to 2.")]


class LegacyHeaderV1(NamedTuple):
    """The fixed part of a magic 1 record. Source: Kafka LegacyRecord."""

    offset: Annotated[int, Wire("q", "As in magic 0; relative inside a wrapper.")]
    length: Annotated[int, Wire("i", "Bytes that follow this field.")]
    crc: Annotated[int, Wire("I", "CRC-32 of all bytes from the magic on.")]
    magic: Annotated[int, Wire("b", "Format version, 1.")]
    attributes: Annotated[int, Wire("B", "Codec in bits 0 to 2, timestamp type in bit 3.")]
    timestamp: Annotated[int, Wire("q", "Timestamp in ms, -1 none.")]


class FieldSize(NamedTuple):
    """The length in front of a key or a value of magic 0 and 1."""

    size: Annotated[int, Wire("i", "Bytes that follow, -1: null.")]


LEGACY_HEADER_V0: Final = Layout(LegacyHeaderV0)
LEGACY_HEADER_V1: Final = Layout(LegacyHeaderV1)
FIELD_SIZE: Final = Layout(FieldSize)
assert LEGACY_HEADER_V0.size == 18
assert LEGACY_HEADER_V1.size == 26
_MOST_KEPT_BYTES: Final = 8 << 20
"""The records of a wrapper that decompresses to more bytes are parsed again for each reading.

As objects they take more than ten times the bytes that they have in the wrapper.
"""
CRC_START: Final = 16
"""The CRC covers the bytes from the magic on."""


class LegacyRecord(NamedTuple):
    """One record of magic 0 or 1, with the positions of its key and value in the buffer."""

    offset: int
    magic: int
    attributes: int
    crc: int
    timestamp: int
    timestamp_type: TimestampType
    key_at: int
    key_size: int
    value_at: int
    value_size: int
    crc_matches: bool = True

    @property
    def codec_id(self) -> int:
        """Number of the codec of a wrapper's value, 0 for an uncompressed record."""
        return self.attributes & BatchFlags.CODEC


class Expansion(NamedTuple):
    """The records of one legacy batch, and the buffer that their positions refer to.

    ``records`` may be iterated over several times.
    """

    data: memoryview
    records: Iterable[LegacyRecord]


class _ParsedAnew:
    """Records that are parsed again each time they are iterated over."""

    def __init__(self, parse: Callable[[], Iterator[LegacyRecord]]) -> None:
        self._parse = parse

    def __iter__(self) -> Iterator[LegacyRecord]:
        return self._parse()


def checksum_matches(data: memoryview, at: int, size: int, crc: int) -> bool:
    """Return whether the legacy entry of ``size`` bytes at byte ``at`` has the checksum ``crc``."""
    return checksum(data[at + CRC_START : at + size]) == crc


def checksum(data: bytes | memoryview, crc: int = 0) -> int:
    """Return the checksum of bytes from ``CRC_START`` on; ``crc``: of the bytes before."""
    return zlib.crc32(data, crc)


def read_header(data: memoryview, at: int, size: int) -> LegacyHeaderV1:
    """Read the fixed part of the entry at ``at``; a timestamp that does not fit reads as -1.

    The caller has checked that ``size`` bytes are there, at least 26: the smallest entry.
    """
    v0 = LEGACY_HEADER_V0.unpack(data, at)
    if v0.magic == 1 and size >= LEGACY_HEADER_V1.size:
        return LEGACY_HEADER_V1.unpack(data, at)
    return LegacyHeaderV1(*v0, timestamp=NO_TIMESTAMP)


def scan_legacy(data: memoryview, at: int, size: int) -> LegacyRecord:
    """Parse the entry of ``size`` bytes at ``at``; raise InvalidRecord if a field does not fit.

    Bytes after the value are ignored, as in Kafka. Source: Kafka LegacyRecord.
    """
    header = read_header(data, at, size)
    if header.magic not in (0, 1):
        raise InvalidRecord(f"a record has magic {header.magic}, not 0 or 1", at)
    fixed = LEGACY_HEADER_V1.size if header.magic == 1 else LEGACY_HEADER_V0.size
    key_at, key_size = _field(data, at, at + fixed, at + size)
    value_at, value_size = _field(data, at, key_at + max(key_size, 0), at + size)
    return LegacyRecord(
        header.offset,
        header.magic,
        header.attributes,
        header.crc,
        header.timestamp,
        _timestamp_type(header),
        key_at,
        key_size,
        value_at,
        value_size,
    )


def _field(data: memoryview, record_at: int, at: int, end: int) -> tuple[int, int]:
    if at + FIELD_SIZE.size > end:
        raise InvalidRecord("a record of magic 0 or 1 is cut short", record_at)
    size = max(FIELD_SIZE.unpack(data, at).size, -1)
    at += FIELD_SIZE.size
    if at + size > end:
        raise InvalidRecord("a field extends past the end of its record", record_at)
    return at, size


def _timestamp_type(header: LegacyHeaderV1) -> TimestampType:
    if header.magic == 0:
        return TimestampType.NO_TIMESTAMP_TYPE
    if header.attributes & BatchFlags.LOG_APPEND_TIME:
        return TimestampType.LOG_APPEND_TIME
    return TimestampType.CREATE_TIME


def expand(
    data: memoryview,
    at: int,
    size: int,
    *,
    limit: int = DEFAULT_DECOMPRESSED_LIMIT,
    check_inner: bool = False,
) -> Expansion:
    """Return the records of the legacy batch at ``at`` with absolute offsets.

    An uncompressed record is returned as it is. A wrapper is decompressed, to at most ``limit``
    bytes. With ``check_inner``, as the produce path requires, a wrong inner CRC clears the record's
    ``crc_matches``. Source: Kafka AbstractLegacyRecordBatch.DeepRecordsIterator.
    """
    wrapper = scan_legacy(data, at, size)
    if wrapper.codec_id == Codec.NONE:
        return Expansion(data, [wrapper])
    inner_data = _decompress(data, at, wrapper, limit)
    is_kept = len(inner_data) <= _MOST_KEPT_BYTES
    records = _records(partial(_inner_records, inner_data, at, wrapper, check_inner), is_kept)
    last_offset = _check_inner(records, at)
    if wrapper.magic == 1:
        base_offset = _absolute_base(at, wrapper.offset, last_offset)
        records = _records(partial(_with_base, records, base_offset), is_kept)
    return Expansion(inner_data, records)


def _records(
    parse: Callable[[], Iterator[LegacyRecord]],
    is_kept: bool,  # noqa: FBT001 - private
) -> Iterable[LegacyRecord]:
    return list(parse()) if is_kept else _ParsedAnew(parse)


def _check_inner(records: Iterable[LegacyRecord], batch_at: int) -> int:
    """Return the offset of the last record of a wrapper; raise InvalidRecord if it may not be."""
    last_offset, is_any_compressed = None, False
    for record in records:
        last_offset = record.offset
        is_any_compressed |= record.codec_id != Codec.NONE
    if last_offset is None:
        raise InvalidRecord("a compressed record set contains no records", batch_at)
    if is_any_compressed:
        raise InvalidRecord("a record in a compressed record set is itself compressed", batch_at)
    return last_offset


def _with_base(records: Iterable[LegacyRecord], base_offset: int) -> Iterator[LegacyRecord]:
    """Yield the records of a wrapper of magic 1 with absolute offsets."""
    for record in records:
        yield record._replace(offset=wrap_int64(base_offset + record.offset))


def base_offset(
    data: memoryview, at: int, size: int, *, limit: int = DEFAULT_DECOMPRESSED_LIMIT
) -> int:
    """Return the offset of the first record of the legacy batch at ``at``; may decompress it."""
    return next(iter(expand(data, at, size, limit=limit).records)).offset


def _decompress(data: memoryview, at: int, wrapper: LegacyRecord, limit: int) -> memoryview:
    if wrapper.codec_id not in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4):
        reason = f"a compressed record set of magic {wrapper.magic} has codec {wrapper.codec_id}"
        raise InvalidRecord(reason, at)
    if wrapper.value_size < 0:
        raise InvalidRecord("a compressed record set has a null value", at)
    packed = data[wrapper.value_at : wrapper.value_at + wrapper.value_size]
    codec = Codec(wrapper.codec_id)
    return memoryview(decompress(codec, packed, limit=limit, magic=wrapper.magic))


def _inner_records(
    data: memoryview,
    batch_at: int,
    wrapper: LegacyRecord,
    check: bool,  # noqa: FBT001 - private
) -> Iterator[LegacyRecord]:
    """Yield the entries of a decompressed set; a truncated last entry is ignored."""
    at = 0
    while at + LOG_OVERHEAD <= len(data):
        length = entry_length(data, at)
        if length < MIN_RECORD_LENGTH:
            reason = f"inner record length {length} is below the minimum of {MIN_RECORD_LENGTH}"
            raise CorruptMessage(reason, batch_at)
        size = LOG_OVERHEAD + length
        if at + size > len(data):
            return
        record = scan_legacy(data, at, size)
        if check and not checksum_matches(data, at, size, record.crc):
            record = record._replace(crc_matches=False)
        yield _in_wrapper(record, wrapper)
        at += size


def _in_wrapper(record: LegacyRecord, wrapper: LegacyRecord) -> LegacyRecord:
    """Apply the wrapper's timestamp rules to an inner record of magic 1."""
    if record.magic == 0:
        return record
    appended = wrapper.timestamp_type is TimestampType.LOG_APPEND_TIME
    timestamp = wrapper.timestamp if appended else record.timestamp
    return record._replace(timestamp=timestamp, timestamp_type=wrapper.timestamp_type)


def _absolute_base(at: int, wrapper_offset: int, last_inner_offset: int) -> int:
    if wrapper_offset == 0:  # old versions of librdkafka did not set it
        return 0
    if wrapper_offset < last_inner_offset:
        reason = f"wrapper offset {wrapper_offset} is below its last inner offset"
        raise InvalidRecord(f"{reason}, {last_inner_offset}", at)
    return wrap_int64(wrapper_offset - last_inner_offset)
