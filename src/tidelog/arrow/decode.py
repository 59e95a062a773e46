"""Records as Arrow record batches with selected columns, without a loop over records.

All batches of one ``ArrowDecoder`` share one schema object, because Spark checks only the first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from tidelog.arrow.buffers import bitmap, fixed, gather, new_array
from tidelog.arrow.direct import Wanted, direct_columns
from tidelog.arrow.schema import HEADER_TYPE, HEADERS_TYPE, TIMESTAMP_TYPE
from tidelog.codec.layout import byte_view
from tidelog.codec.varint import read_varint
from tidelog.errors import InvalidTimestamp, InvariantError
from tidelog.kernels.rows import STATUS_TEXT
from tidelog.kernels.runtime.gate import use_kernels
from tidelog.records.batch import TimestampType
from tidelog.records.decoding.bounded_decode import decode_bounded
from tidelog.records.decoding.decoded import located
from tidelog.records.decoding.record_columns import DECODE_ERRORS, RecordColumns
from tidelog.records.record import read_headers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

    from tidelog.arrow.buffers import Bytes, Gathered, Ints
    from tidelog.records.batch_columns import BatchColumns
    from tidelog.records.file_records import Piece

MAX_ROWS: Final = 1 << 16
"""Maximum number of rows of a table; larger tables gain nothing in Spark."""

DIRECT_ROWS: Final = 1 << 17
"""Approximate rows of a table of plain batches: the records of one piece of a typical log."""

MAX_BYTES: Final = 4 << 20
"""Maximum bytes of keys, values and headers in a table, unless a single record is larger."""

_FIXED_BYTES: Final = 40
"""Bytes of a row besides its key and value."""

_MICROS: Final = 1000
_MAX_TIMESTAMP: Final = (2**63 - 1) // _MICROS
_CREATE_TIME: Final = pa.scalar(int(TimestampType.CREATE_TIME), pa.int32())
_NO_HEADERS: Final = pa.scalar(None, HEADERS_TYPE)


class ArrowDecoder:
    """Converts records of one topic partition to tables; used by one thread.

    Args:
        schema: the columns to build, from ``tidelog.arrow.schema.select``.
        topic: the value of the column ``topic``.
        partition: the value of the column ``partition``.
    """

    def __init__(self, schema: pa.Schema, topic: str, partition: int) -> None:
        self.schema = schema
        self._constants = _Constants(topic, partition)
        self._makers: dict[str, Callable[[RecordColumns], pa.Array]] = {
            "key": lambda rows: gather(rows.data, rows.key_at, rows.key_size).array(pa.binary()),
            "value": lambda rows: gather(rows.data, rows.value_at, rows.value_size).array(
                pa.binary()
            ),
            "topic": lambda rows: self._constants.of("topic", len(rows)),
            "partition": lambda rows: self._constants.of("partition", len(rows)),
            "offset": lambda rows: fixed(pa.int64(), rows.offset),
            "timestamp": _timestamps,
            "timestampType": self._timestamp_types,
            "headers": self._headers,
        }

    def tables_of_piece(
        self, piece: Piece, start_offset: int, end_offset: int
    ) -> Iterator[pa.RecordBatch]:
        """Yield the records of a log's piece with offsets ``[start, end)``, as ``tables`` does.

        Raises:
            CorruptMessage: a batch does not decode; with file and byte, after what is before it.
            InvalidTimestamp: a timestamp does not fit in microseconds.
        """
        try:
            yield from self.tables_of(piece.data, piece.batches_in_data, start_offset, end_offset)
        except DECODE_ERRORS as error:
            raise located(piece, error) from error

    def tables_of(
        self, data: Bytes, batches: BatchColumns, start_offset: int, end_offset: int
    ) -> Iterator[pa.RecordBatch]:
        """Decode ``batches``, whose positions are bytes in ``data``; yield as ``tables`` does.

        Raises:
            InvalidTimestamp: a timestamp does not fit in microseconds.
            InvalidRecord, CorruptMessage, UnsupportedCompressionType, MessageTooLarge: as
                ``decode_bounded``.
        """
        wanted = Wanted(self.schema.names, start_offset, end_offset)
        for part in _parts(batches):
            found = direct_columns(data, part, wanted)
            if found is None:
                for group in decode_bounded(data, part):
                    yield from self.tables(group, start_offset, end_offset)
                continue
            length, made = found
            arrays = [
                made[name] if name in made else self._constants.of(name, length)
                for name in self.schema.names
            ]
            yield self._table(arrays, length)

    def tables(
        self, columns: RecordColumns, start_offset: int = 0, end_offset: int | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the records with offsets ``[start_offset, end_offset)``, without control records.

        Raises:
            InvalidTimestamp: a timestamp does not fit in microseconds.
        """
        rows = _visible(columns, start_offset, end_offset)
        for part in self._cut(rows):
            arrays = [self._makers[name](part) for name in self.schema.names]
            yield self._table(arrays, len(part))

    def _table(self, arrays: list[pa.Array], length: int) -> pa.RecordBatch:
        if arrays:
            return pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        # Of no arrays PyArrow would make a batch without rows.
        rows = pa.StructArray.from_buffers(pa.struct([]), length, [None], children=[])
        return pa.RecordBatch.from_struct_array(rows)

    def _cut(self, rows: RecordColumns) -> Iterator[RecordColumns]:
        """Split into parts of about equal bytes, each within ``MAX_ROWS`` and ``MAX_BYTES``."""
        if not len(rows):
            return
        if len(rows) <= MAX_ROWS and rows.data.nbytes <= MAX_BYTES:
            yield rows
            return
        ends = np.cumsum(self._sizes(rows))
        parts = max(-(-len(rows) // MAX_ROWS), -(-int(ends[-1]) // MAX_BYTES))
        splits = np.searchsorted(ends, np.arange(1, parts) * (int(ends[-1]) // parts), "right")
        start = 0
        for end in [*splits.tolist(), len(rows)]:
            if end > start:
                yield _slice(rows, start, end)
                start = end

    def _sizes(self, rows: RecordColumns) -> Ints:
        sizes = np.full(len(rows), _FIXED_BYTES)
        if "key" in self.schema.names:
            sizes += np.maximum(rows.key_size, 0)
        if "value" in self.schema.names:
            sizes += np.maximum(rows.value_size, 0)
        if "headers" in self.schema.names:
            sizes += rows.headers_count * _FIXED_BYTES
        return sizes

    def _timestamp_types(self, rows: RecordColumns) -> pa.Array:
        batches = rows.batches
        if (batches.magic == 2).all() and not batches.is_log_append_time.any():
            return self._constants.of("timestampType", len(rows))
        return fixed(pa.int32(), rows.timestamp_type.astype(np.int32))

    def _headers(self, rows: RecordColumns) -> pa.Array:
        if rows.headers_count.any():
            return headers_array(rows)
        return self._constants.of("headers", len(rows))


class _Constants:
    """Arrays of one repeated value, created once and sliced to the required length."""

    def __init__(self, topic: str, partition: int) -> None:
        self._values: dict[str, pa.Scalar] = {
            "topic": pa.scalar(topic, pa.string()),
            "partition": pa.scalar(partition, pa.int32()),
            "timestampType": _CREATE_TIME,
            "headers": _NO_HEADERS,
        }
        self._arrays: dict[str, pa.Array] = {}

    def of(self, name: str, length: int) -> pa.Array:
        """Return the column ``name`` of ``length`` rows."""
        made = self._arrays.get(name)
        if made is None or len(made) < length:
            # Lengths vary a little.
            made = self._arrays[name] = pa.repeat(self._values[name], length + length // 8)
        return made[:length]


def _parts(batches: BatchColumns) -> Iterator[BatchColumns]:
    """Split batches, in order, into groups of about ``DIRECT_ROWS`` records.

    A negative count, that of an old wrapper, is unknown and counts as 0.
    """
    parts = np.cumsum(np.maximum(batches.records_count, 0)) // DIRECT_ROWS
    start = 0
    for end in [*(np.flatnonzero(np.diff(parts)) + 1).tolist(), len(batches)]:
        yield batches.slice(start, end)
        start = end


def _visible(columns: RecordColumns, start_offset: int, end_offset: int | None) -> RecordColumns:
    """Drop control records and offsets outside the range; copies only if there are any."""
    if not len(columns):
        return columns
    is_control = columns.batches.is_control
    offset = columns.offset
    is_below = int(offset.min()) < start_offset
    is_above = end_offset is not None and int(offset.max()) >= end_offset
    if not (is_below or is_above or is_control.any()):
        return columns
    wanted = (offset >= start_offset) & ~is_control[columns.batch]
    if end_offset is not None:
        wanted &= offset < end_offset
    return columns.select(wanted)


def _slice(rows: RecordColumns, start: int, end: int) -> RecordColumns:
    types = rows.timestamp_type[start:end]
    return RecordColumns(rows.array[:, start:end], rows.data, rows.batches, types)


def _timestamps(rows: RecordColumns) -> pa.Array:
    millis = rows.timestamp
    if max(int(millis.max()), -int(millis.min())) > _MAX_TIMESTAMP:
        at = int(np.abs(millis.astype(np.float64)).argmax())
        raise InvalidTimestamp(
            f"timestamp {millis[at]} of offset {rows.offset[at]} does not fit in microseconds:"
            " name the columns to read, without timestamp"
        )
    buffer, micros = new_array(len(millis), np.int64)
    np.multiply(millis, _MICROS, out=micros)
    return pa.Array.from_buffers(TIMESTAMP_TYPE, len(millis), [None, buffer], 0)


def headers_array(rows: RecordColumns) -> pa.Array:
    """Return each record's headers as a list of name and value; null if it has none."""
    counts = rows.headers_count
    offsets_buffer, offsets = new_array(len(counts) + 1, np.int32)
    total = int(counts.sum())
    positions = np.empty((4, total), np.int64)
    find = _find_by_kernel if use_kernels(total * 32) else find_headers_plain
    find(rows.data, rows.headers_at, counts, offsets, positions)
    names = _names(rows, gather(rows.data, positions[0], positions[1]))
    values = gather(rows.data, positions[2], positions[3]).array(pa.binary())
    pairs = pa.StructArray.from_arrays([names, values], fields=list(HEADER_TYPE))
    has_any = counts > 0
    nulls = len(counts) - int(np.count_nonzero(has_any))
    validity = bitmap(has_any) if nulls else None
    buffers = [validity, offsets_buffer]
    return pa.Array.from_buffers(HEADERS_TYPE, len(counts), buffers, nulls, children=[pairs])


def find_headers_plain(
    data: Bytes, headers_at: Ints, counts: Ints, offsets: NDArray[np.int32], positions: Ints
) -> None:
    """Fill ``offsets``, and per header a column of ``positions``: name at, size, value at, size.

    Reference for the kernel ``header_positions``. The decoder has checked the bytes.
    """
    view = byte_view(data)
    offsets[0] = 0
    offsets[1:] = np.cumsum(counts)
    column = 0
    for at, count in zip(headers_at.tolist(), counts.tolist(), strict=True):
        position = at
        for _ in range(count):
            name_size, name_at = read_varint(view, position)
            value_size, value_at = read_varint(view, name_at + name_size)
            positions[:, column] = name_at, name_size, value_at, max(value_size, -1)
            position = value_at + max(value_size, 0)
            column += 1


def _find_by_kernel(
    data: Bytes, headers_at: Ints, counts: Ints, offsets: NDArray[np.int32], positions: Ints
) -> None:
    from tidelog.kernels.gather import header_positions  # noqa: PLC0415 - compiles when imported

    found = header_positions(data, headers_at, counts, offsets, positions)
    if found < 0:
        raise InvariantError(f"headers: {STATUS_TEXT[found]}")


def _names(rows: RecordColumns, gathered: Gathered) -> pa.Array:
    """Return header names as text; bytes that are not UTF-8 become U+FFFD, as in Java."""
    names = gathered.array(pa.string())
    try:
        names.validate(full=True)
    except pa.ArrowInvalid:
        view = byte_view(rows.data)
        lists = zip(rows.headers_at.tolist(), rows.headers_count.tolist(), strict=True)
        texts = [name for at, count in lists for name, _ in read_headers(view, at, count)]
        return pa.array(texts, pa.string())
    return names
