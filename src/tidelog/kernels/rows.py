"""Rows of the arrays that kernels fill, and the statuses they return.

Kernels and their callers share these numbers. The module compiles nothing, so it may be imported at
any time. Arrays are 2-D, int64 and C-contiguous: a row holds one field, a column one batch, area or
record.
"""

from __future__ import annotations

from typing import Final

# One column per batch, filled by ``walk_batches``.
POSITION: Final = 0
"""Byte in ``data`` at which the batch starts."""
SIZE: Final = 1
"""Size of the whole batch in bytes, including offset and length fields."""
BASE_OFFSET: Final = 2
LAST_OFFSET: Final = 3
LEADER_EPOCH: Final = 4
MAGIC: Final = 5
ATTRIBUTES: Final = 6
BASE_TIMESTAMP: Final = 7
MAX_TIMESTAMP: Final = 8
PRODUCER_ID: Final = 9
PRODUCER_EPOCH: Final = 10
BASE_SEQUENCE: Final = 11
RECORDS_COUNT: Final = 12
CRC: Final = 13
BATCH_COLUMNS: Final = 14

# One column per record area (the uncompressed bytes after a batch header): the kernels' input.
AREA_START: Final = 0
"""First byte of the area in ``data``."""
AREA_END: Final = 1
"""Byte after the last one of the area."""
AREA_COUNT: Final = 2
AREA_BASE_OFFSET: Final = 3
AREA_BASE_TIMESTAMP: Final = 4
AREA_MAX_TIMESTAMP: Final = 5
AREA_ATTRIBUTES: Final = 6
AREA_COLUMNS: Final = 7

# One column per record, filled by ``decode_records``.
OFFSET: Final = 0
TIMESTAMP: Final = 1
KEY_AT: Final = 2
KEY_SIZE: Final = 3
"""In bytes, -1 for null."""
VALUE_AT: Final = 4
VALUE_SIZE: Final = 5
"""In bytes, -1 for null."""
HEADERS_AT: Final = 6
"""Byte after the header count."""
HEADERS_COUNT: Final = 7
AREA: Final = 8
"""Index of the record's area."""
RECORD_COLUMNS: Final = 9

# One column per header, filled by ``header_positions``.
HEADER_NAME_AT: Final = 0
HEADER_NAME_SIZE: Final = 1
HEADER_VALUE_AT: Final = 2
HEADER_VALUE_SIZE: Final = 3
"""In bytes, -1 for null."""
HEADER_COLUMNS: Final = 4

# One column per index entry, filled by ``plan_index_entries``.
ENTRY_OFFSET: Final = 0
"""Last offset of the batch that the entry points to."""
ENTRY_POSITION: Final = 1
ENTRY_TIMESTAMP: Final = 2
"""Greatest timestamp up to and including that batch."""
ENTRY_TIMESTAMP_OFFSET: Final = 3
ENTRY_COLUMNS: Final = 4

# One element each, filled by ``survey_batches``; 1 means true.
SURVEY_GREATEST_SIZE: Final = 0
SURVEY_GREATEST_TIMESTAMP: Final = 1
SURVEY_GREATEST_EPOCH: Final = 2
SURVEY_GREATEST_PRODUCER_ID: Final = 3
SURVEY_GREATEST_CODEC: Final = 4
SURVEY_LAST_CODEC: Final = 5
"""Codec of the last compressed batch, 0 if there is none."""
SURVEY_HAS_BASE_OFFSET: Final = 6
"""Whether a batch of magic 2 has a base offset other than 0."""
SURVEY_ARE_OFFSETS_RISING: Final = 7
"""Whether each last offset is greater than the one before."""
SURVEY_IS_UNIFORM: Final = 8
"""Whether all batches have the same leader epoch and the same magic."""
SURVEY_COLUMNS: Final = 9

# One column per record area, filled by ``validate_records``.
VALID_MAX_TIMESTAMP: Final = 0
"""Greatest timestamp of the area's records, -1 if there is none."""
VALID_IS_DENSE: Final = 1
"""1 if the records' offset deltas are 0, 1, 2 and so on."""
VALID_COLUMNS: Final = 2

# Statuses; only negative ones are errors.
OK: Final = 0
FULL: Final = 1
"""The output array is full; call again from where the kernel stopped."""
LEGACY: Final = 2
"""A batch of magic 0 or 1, which only plain code reads."""
BAD_LENGTH: Final = -1
BAD_MAGIC: Final = -2
BAD_CRC: Final = -3
BAD_ARGUMENT: Final = -4
"""The caller's arrays or positions are inconsistent; nothing was written."""
BAD_OFFSETS: Final = -5
"""The next batch is whole, and its CRC matches, but its offsets are outside the bounds."""
BAD_VARINT: Final = -10
BAD_RECORD_LENGTH: Final = -11
BAD_KEY_LENGTH: Final = -12
BAD_VALUE_LENGTH: Final = -13
BAD_HEADERS_COUNT: Final = -14
BAD_HEADER: Final = -15
BAD_RECORD_END: Final = -16
BAD_COUNT: Final = -17
MISSING_RECORDS: Final = -18
BYTES_LEFT_OVER: Final = -19
NULL_KEY: Final = -20
BAD_TIMESTAMP: Final = -21
TOO_LONG: Final = -22

STATUS_TEXT: Final = {
    BAD_LENGTH: "the batch length is too small",
    BAD_MAGIC: "the magic is not 0, 1 or 2",
    BAD_CRC: "the CRC does not match the bytes",
    BAD_ARGUMENT: "a position is outside the data",
    BAD_OFFSETS: "the offsets of a batch are impossible",
    BAD_VARINT: "a varint is malformed or cut short",
    BAD_RECORD_LENGTH: "the record's length is negative or extends past the end of the batch",
    BAD_KEY_LENGTH: "the key extends past the end of its record",
    BAD_VALUE_LENGTH: "the value extends past the end of its record",
    BAD_HEADERS_COUNT: "the number of headers is negative or greater than the bytes left",
    BAD_HEADER: "a header has no key or extends past the end of its record",
    BAD_RECORD_END: "the record's length differs from the size of its fields",
    BAD_COUNT: "the number of records is negative",
    MISSING_RECORDS: "the batch holds fewer records than its header states",
    BYTES_LEFT_OVER: "bytes are left over after the last record",
    NULL_KEY: "the record has no key, and the topic needs one",
    BAD_TIMESTAMP: "the timestamp is negative or outside the limits",
    TOO_LONG: "the record is too large for a batch",
}
"""The error text of each negative status."""

SMALLEST_RECORD_BYTES: Final = 7
"""Size of a record without key, value and headers: seven one-byte fields."""

ANY_OFFSET: Final = -(2**63)
"""As the lowest offset of a walk: offsets are not checked."""

# Positions in a batch of magic 2; a test compares them with records/batch.py.
LOG_OVERHEAD: Final = 12
PREFIX_BYTES: Final = 17
HEADER_BYTES: Final = 61
CRC_FROM: Final = 21
"""First byte that the CRC covers."""
SMALLEST_LENGTH: Final = 14
"""Least value of the length field of a batch of any magic."""

# Attribute bits, which ``records.batch`` names ``BatchFlags``.
CODEC_BITS: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
"""Every record's timestamp is the batch's greatest timestamp."""
TRANSACTIONAL_BIT: Final = 0x10
CONTROL_BIT: Final = 0x20
DELETE_HORIZON_BIT: Final = 0x40
UNUSUAL_FLAGS: Final = LOG_APPEND_TIME | CONTROL_BIT
