"""Records as columns: the offset, key, value and headers of each record of many batches.

There is no object per record on this path, unless ``Record`` values are asked for. Kafka:
``DefaultRecordBatch.iterator``.
"""

from __future__ import annotations

from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Final

from tidelog.codec.compression import DEFAULT_DECOMPRESSED_LIMIT, Codec
from tidelog.codec.layout import byte_view
from tidelog.codec.one_line import Told
from tidelog.errors import (
    CorruptMessage,
    InvalidRecord,
    MessageTooLarge,
    UnsupportedCompressionType,
)
from tidelog.kernels import rows
from tidelog.lazy import np
from tidelog.records.array_rows import Row, as_bytes
from tidelog.records.batch import TimestampType
from tidelog.records.batch_columns import advance_sequences
from tidelog.records.decoding.record_areas import areas_of, decode_areas
from tidelog.records.decoding.unpacked import Unpacked
from tidelog.records.record import Record, read_headers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from tidelog.codec.layout import Buffer
    from tidelog.records.array_rows import Bools, Bytes, Ints
    from tidelog.records.batch_columns import BatchColumns
    from tidelog.records.record import Header

GROUP_BYTES: Final = 4 << 20
"""Bytes of records that ``decode_groups`` yields at a time, unless a batch is larger."""
DECODE_ERRORS: Final = (
    CorruptMessage,
    InvalidRecord,
    MessageTooLarge,
    UnsupportedCompressionType,
)
_new_record: Final[Callable[[tuple[object, ...]], Record]] = partial(tuple.__new__, Record)
"""``Record._make``, in a third of the time, for tuples that have all fields."""
_TYPES: Final = {int(kind): kind for kind in TimestampType}


class RecordColumns(Told):
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

    def _told(self) -> str:
        places = f", offsets {self.offset[0]:,} to {self.offset[-1]:,}" if len(self) else ""
        return f"of {len(self):,} records in {len(self.batches):,} batches{places}"

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
        """Yield every record as a value, control records included."""
        return map(_new_record, zip(*self.fields(), strict=True))

    def fields(self) -> tuple[Iterable[object], ...]:
        """Return the fields of every record, each as a column of values, in ``Record``'s order."""
        batches, batch = self.batches, self.batch
        epochs = [None if epoch < 0 else epoch for epoch in batches.leader_epoch.tolist()]
        sequences = advance_sequences(
            batches.base_sequence[batch], self.offset - batches.base_offset[batch]
        )
        return (
            self.offset.tolist(),
            self.timestamp.tolist(),
            map(_TYPES.__getitem__, self.timestamp_type.tolist()),
            self._parts(self.key_at, self.key_size),
            self._parts(self.value_at, self.value_size),
            self._headers(),
            map(epochs.__getitem__, batch.tolist()),
            sequences.tolist(),
        )

    def _parts(self, at: Ints, size: Ints) -> Iterable[bytes | None]:
        """Return a copy of the key or value of each record."""
        is_null = size < 0
        if is_null.all():
            return repeat(None, len(size))
        first = int(at[~is_null].min())
        last = int((at + size)[~is_null].max())
        copied = self.data[first:last].tobytes()  # slices of bytes are bytes
        starts = at - first
        cuts = map(slice, starts.tolist(), (starts + size).tolist())
        if not is_null.any():
            return map(copied.__getitem__, cuts)
        return [
            None if null else copied[cut] for null, cut in zip(is_null.tolist(), cuts, strict=True)
        ]

    def _headers(self) -> Iterable[tuple[Header, ...]]:
        counts = self.headers_count
        if not counts.any():
            return repeat((), len(counts))
        return map(
            read_headers, repeat(byte_view(self.data)), self.headers_at.tolist(), counts.tolist()
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
