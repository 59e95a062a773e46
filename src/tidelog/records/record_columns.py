"""Records as columns: the offset, key, value and headers of each record of many batches.

There is no object per record on this path; ``Record`` values are made one by one for tools and
tests. Kafka: ``DefaultRecordBatch.iterator``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from tidelog.codec.compression import DEFAULT_DECOMPRESSED_LIMIT, Codec
from tidelog.codec.layout import byte_view
from tidelog.errors import InvalidRecord
from tidelog.kernels import rows
from tidelog.records.array_rows import Row, as_bytes
from tidelog.records.batch import TimestampType
from tidelog.records.record import Record, advance_sequence, read_headers, slice_or_none
from tidelog.records.record_areas import areas_of, decode_areas, decode_before_damage
from tidelog.records.unpacked import Unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from tidelog.codec.layout import Buffer
    from tidelog.records.array_rows import Bools, Bytes, Ints
    from tidelog.records.memory import BatchColumns

GROUP_BYTES: Final = 4 << 20
"""Bytes of records that ``decode_groups`` yields at a time, unless a batch is larger."""


class RecordColumns:
    """Records of many batches: an int64 array with one row per field and one column per record.

    The rows are those of ``tidelog.kernels.rows`` (``OFFSET`` to ``AREA``). Positions are bytes in
    ``data``, which is the buffer that was decoded, or a new one if anything was compressed.
    ``batches`` are the batches decoded; ``batch`` is the index of each record's batch.
    """

    __slots__ = ("_types", "array", "batches", "data")

    offset = Row(rows.OFFSET, "Absolute offset.")
    timestamp = Row(rows.TIMESTAMP, "Timestamp in ms as readers see it, -1 none.")
    key_at = Row(rows.KEY_AT, "Byte in ``data`` at which the key starts.")
    key_size = Row(rows.KEY_SIZE, "Bytes of the key, -1 null.")
    value_at = Row(rows.VALUE_AT, "Byte in ``data`` at which the value starts.")
    value_size = Row(rows.VALUE_SIZE, "Bytes of the value, -1 null.")
    headers_at = Row(rows.HEADERS_AT, "Byte in ``data`` after the count of headers.")
    headers_count = Row(rows.HEADERS_COUNT, "Number of headers.")
    batch = Row(rows.AREA, "Index in ``batches`` of each record's batch.")

    def __init__(
        self,
        array: Ints,
        data: Bytes,
        batches: BatchColumns,
        types: NDArray[np.int8] | None = None,
    ) -> None:
        self.array = array
        self.data = data
        self.batches = batches
        self._types = types

    def __len__(self) -> int:
        count: int = self.array.shape[1]
        return count

    @property
    def is_control(self) -> Bools:
        """Whether each record is a control record, which applications do not see."""
        return self.batches.is_control[self.batch]

    @property
    def timestamp_type(self) -> NDArray[np.int8]:
        """``TimestampType`` of each record, as a number."""
        if self._types is not None:
            return self._types
        return self.batches.is_log_append_time[self.batch].astype(np.int8)

    def select(self, chosen: Bools | Ints) -> RecordColumns:
        """Return the records selected by a mask or by indices, over the same data and batches."""
        types = None if self._types is None else self._types[chosen]
        array = np.ascontiguousarray(self.array[:, chosen])
        return RecordColumns(array, self.data, self.batches, types)

    def records(self) -> Iterator[Record]:
        """Yield every record as a value, control records included; slow, for tools."""
        view = byte_view(self.data)
        types = self.timestamp_type.tolist()
        headers = self.batches.array.T.tolist()
        for row, kind in zip(self.array.T.tolist(), types, strict=True):
            header = headers[row[rows.AREA]]
            epoch = header[rows.LEADER_EPOCH]
            yield Record(
                row[rows.OFFSET],
                row[rows.TIMESTAMP],
                TimestampType(kind),
                slice_or_none(view, row[rows.KEY_AT], row[rows.KEY_SIZE]),
                slice_or_none(view, row[rows.VALUE_AT], row[rows.VALUE_SIZE]),
                read_headers(view, row[rows.HEADERS_AT], row[rows.HEADERS_COUNT]),
                None if epoch < 0 else epoch,
                advance_sequence(
                    header[rows.BASE_SEQUENCE], row[rows.OFFSET] - header[rows.BASE_OFFSET]
                ),
            )


def decode(
    data: Buffer, batches: BatchColumns, *, limit: int = DEFAULT_DECOMPRESSED_LIMIT
) -> RecordColumns:
    """Decode all records of ``batches``, whose positions are bytes in ``data``.

    Args:
        data: the buffer; the result refers to it if no batch is compressed.
        batches: as found by ``walk``, of any magic.
        limit: greatest number of decompressed bytes in total. For data of unknown origin use
            ``decode_groups``, whose limit applies to each batch.

    Raises:
        InvalidRecord: a batch does not hold the records it states; ``position`` is the batch's.
        CorruptMessage: compressed bytes are damaged.
        MessageTooLarge: they decompress to more than ``limit`` bytes.
        UnsupportedCompressionType: the codec does not exist.
    """
    return _decode_first(as_bytes(data), batches, limit, None)


def decode_groups(
    data: Buffer,
    batches: BatchColumns,
    *,
    limit: int = DEFAULT_DECOMPRESSED_LIMIT,
    group_bytes: int = GROUP_BYTES,
) -> Iterator[RecordColumns]:
    """Decode ``batches`` a few at a time, so that memory stays bounded.

    A group ends with the batch that makes it reach ``group_bytes`` of uncompressed bytes; ``limit``
    applies to each batch. A group's ``batches`` are only its own. Errors are those of ``decode``.
    """
    source = as_bytes(data)
    start = 0
    while start < len(batches):
        decoded = _decode_first(source, batches.slice(start), limit, group_bytes)
        start += len(decoded.batches)
        yield decoded


def decode_to_damage(
    data: Buffer,
    batches: BatchColumns,
    *,
    limit: int = DEFAULT_DECOMPRESSED_LIMIT,
    group_bytes: int = GROUP_BYTES,
) -> Iterator[RecordColumns]:
    """Like ``decode_groups``, but raise InvalidRecord only after all records before the damage.

    The last group then comes from the damaged batch. Kafka's iterators return those records too. A
    damaged compressed batch yields none, since its records cannot be decoded one by one.
    """
    source = as_bytes(data)
    start = 0
    try:
        for group in decode_groups(source, batches, limit=limit, group_bytes=group_bytes):
            yield group
            start += len(group.batches)
    except InvalidRecord as error:
        rest = batches.slice(start)
        for at in np.flatnonzero(rest.position == error.position)[:1].tolist():
            yield from decode_groups(source, rest.slice(0, at), limit=limit)
            bad = rest.slice(at, at + 1)
            if bad.magic[0] * 8 + bad.codec[0] == _PLAIN:
                yield RecordColumns(decode_before_damage(source, areas_of(bad)), source, bad)
        raise


def iterate(
    data: Buffer,
    batches: BatchColumns,
    *,
    control: bool = False,
    limit: int = DEFAULT_DECOMPRESSED_LIMIT,
) -> Iterator[Record]:
    """Yield the records of ``batches`` as values; ``control`` includes control records. For tools.

    Errors are those of ``decode``, raised after the records before the damage.
    """
    wanted = batches if control else batches.select(~batches.is_control)
    for group in decode_to_damage(data, wanted, limit=limit, group_bytes=1):
        yield from group.records()


def _decode_first(
    data: Bytes, batches: BatchColumns, limit: int, group_bytes: int | None
) -> RecordColumns:
    """Decode the first batches, up to ``group_bytes``; None: all, with ``limit`` for the total."""
    if not (batches.magic * 8 + batches.codec == _PLAIN).all():
        unpacked = Unpacked(data, batches, limit, group_bytes)
        return RecordColumns(*unpacked.decode())
    if group_bytes is not None:
        ends = np.cumsum(batches.size)
        batches = batches.slice(0, int(np.searchsorted(ends, group_bytes)) + 1)
    return RecordColumns(decode_areas(data, areas_of(batches), batches.position), data, batches)


_PLAIN: Final = 2 * 8 + Codec.NONE
"""The number made of magic and codec for a v2 batch whose records are not compressed."""
