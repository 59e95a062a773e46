"""Decoding of batches in bounded memory, even of one that decompresses to gigabytes.

A large batch is decompressed piece by piece into a window, and decoded from there. Kafka:
``DefaultRecordBatch.streamingIterator``.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from tidelog.codec.compression import DEFAULT_DECOMPRESSED_LIMIT, Codec, decompress_in_pieces
from tidelog.codec.layout import byte_view
from tidelog.codec.varint import read_varint
from tidelog.errors import CorruptMessage, InvalidRecord, MessageTooLarge
from tidelog.kernels import rows
from tidelog.lazy import np
from tidelog.records import legacy
from tidelog.records.array_rows import SLACK_BYTES, as_bytes
from tidelog.records.batch import BATCH_HEADER, INT32_MAX, LOG_OVERHEAD, MIN_RECORD_LENGTH
from tidelog.records.decoding.record_areas import (
    AREA_FROM_BATCH,
    decode_areas,
    decode_whole_records,
)
from tidelog.records.decoding.record_columns import (
    DECODE_ERRORS,
    GROUP_BYTES,
    RecordColumns,
    decode_groups,
)
from tidelog.records.decoding.unpacked import legacy_row

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.codec.layout import Buffer
    from tidelog.records.array_rows import Bytes, Ints
    from tidelog.records.batch_columns import BatchColumns

LARGE_BYTES: Final = 8 << 20
"""A batch that decompresses to more than this many bytes is decoded in windows."""

_MOST_VARINT_BYTES: Final = 5
_SMALLEST_OLD_BYTES: Final = LOG_OVERHEAD + MIN_RECORD_LENGTH


def decode_bounded(
    data: Buffer,
    batches: BatchColumns,
    *,
    limit: int = DEFAULT_DECOMPRESSED_LIMIT,
    group_bytes: int = GROUP_BYTES,
    large_bytes: int = LARGE_BYTES,
) -> Iterator[RecordColumns]:
    """Decode ``batches`` a few at a time, like ``decode_groups``, and large ones in parts.

    Memory is bounded by ``group_bytes``, ``large_bytes`` and the largest record, not by the size of
    a batch. ``limit`` applies to each record, and to each whole batch of magic 0 or 1.

    Raises:
        InvalidRecord, CorruptMessage, UnsupportedCompressionType: as ``decode``; all batches before
            the damaged one, and the records before the damage in a large one, have been yielded.
        MessageTooLarge: a record is larger than ``limit`` once it is decompressed.
    """
    decoding = BoundedDecoding(
        as_bytes(data), batches, limit=limit, group_bytes=group_bytes, large_bytes=large_bytes
    )
    yield from decoding.groups()


class BoundedDecoding:
    """One walk through batches as ``decode_bounded`` makes it.

    ``at`` is the index of the batch that comes next; after an error, of the one at fault.
    """

    def __init__(
        self,
        data: Bytes,
        batches: BatchColumns,
        *,
        limit: int,
        group_bytes: int,
        large_bytes: int = LARGE_BYTES,
    ) -> None:
        self.at = 0
        self._data = data
        self._batches = batches
        self._limit = limit
        self._group_bytes = group_bytes
        self._large_bytes = large_bytes

    def groups(self) -> Iterator[RecordColumns]:
        """Yield the records, up to a batch that does not decode; then raise its error."""
        large = np.flatnonzero(self._batches.size > self._large_bytes).tolist()
        for end in [*large, len(self._batches)]:
            while self.at < end:
                yield from self._usual(end)
            if end < len(self._batches):
                yield from self._one_large()

    def _usual(self, end: int) -> Iterator[RecordColumns]:
        """Decode batches, of which one may turn out to be large or damaged, up to that one."""
        try:
            yield from self._grouped(end, self._group_bytes)
        except DECODE_ERRORS:
            pass
        else:
            return
        try:
            yield from self._grouped(end, 1)  # one by one, which finds the batch
        except MessageTooLarge:
            yield from self._one_large()

    def _grouped(self, end: int, group_bytes: int) -> Iterator[RecordColumns]:
        rest = self._batches.slice(self.at, end)
        for group in decode_groups(
            self._data, rest, limit=self._large_bytes, group_bytes=group_bytes
        ):
            self.at += len(group.batches)
            yield group

    def _one_large(self) -> Iterator[RecordColumns]:
        one = self._batches.slice(self.at, self.at + 1)
        yield from _decode_large(self._data, one, self._limit, self._group_bytes)
        self.at += 1


def _decode_large(
    data: Bytes, batch: BatchColumns, limit: int, window_bytes: int
) -> Iterator[RecordColumns]:
    try:
        if int(batch.magic[0]) < 2:
            yield from _decode_old(data, batch, limit, window_bytes)
            return
        for array, plain in _Windows(data, batch, limit, window_bytes).decode():
            yield RecordColumns(array, plain, batch)
    except (CorruptMessage, InvalidRecord) as error:
        raise type(error)(error.reason, int(batch.position[0])) from error


def _decode_old(
    data: Bytes, batch: BatchColumns, limit: int, window_bytes: int
) -> Iterator[RecordColumns]:
    """Decode a batch of magic 0 or 1: its bytes as a whole, its records a few at a time."""
    at, size = int(batch.position[0]), int(batch.size[0])
    found = legacy.expand(byte_view(data), at, size, limit=limit)
    is_wrapper = int(batch.codec[0]) != Codec.NONE
    held = found.data if is_wrapper else found.data[at : at + size]
    plain = np.frombuffer(b"".join((held, bytes(SLACK_BYTES))), np.uint8)
    shift, records = 0 if is_wrapper else -at, iter(found.records)
    while part := list(islice(records, max(1, window_bytes // _SMALLEST_OLD_BYTES))):
        array = np.array([legacy_row(record, shift, 0) for record in part], np.int64).T.copy()
        types = np.array([record.timestamp_type for record in part], np.int8)
        yield RecordColumns(array, plain, batch, types)


class _Windows:
    """The uncompressed bytes of one batch, decoded in windows of whole records."""

    def __init__(self, data: Bytes, batch: BatchColumns, limit: int, window_bytes: int) -> None:
        self._window_bytes = window_bytes
        self._fields = [int(batch.array[field, 0]) for field in AREA_FROM_BATCH]
        self._left = int(batch.records_count[0])
        if self._left < 0:
            raise InvalidRecord(f"the number of records is negative: {self._left}")
        start = int(batch.position[0])
        packed = byte_view(data)[start + BATCH_HEADER.size : start + int(batch.size[0])]
        codec = Codec.of_attributes(int(batch.attributes[0]))
        # Topics may take records of any size, and one that is not compressed is in memory already.
        self._limit = INT32_MAX if codec is Codec.NONE else limit
        self._pieces = (
            (packed[at : at + window_bytes] for at in range(0, len(packed), window_bytes))
            if codec is Codec.NONE
            else decompress_in_pieces(codec, packed, window_bytes)
        )

    def decode(self) -> Iterator[tuple[Ints, Bytes]]:
        """Yield rows and the bytes they refer to; errors are those of a batch decoded at once."""
        window = bytearray()
        needed = self._window_bytes
        for piece in self._pieces if self._left else ():
            window += piece
            if len(window) < needed:
                continue
            if not self._left:
                break
            plain, area = self._area(window)
            array, used, reason = decode_whole_records(plain, area)
            if array.shape[1]:
                self._left -= array.shape[1]
                yield array, plain
            del window[:used]
            needed = max(self._window_bytes, self._bytes_needed(window, reason))
        if window or self._left:
            plain, area = self._area(window)
            try:
                array = decode_areas(plain, area, np.zeros(1, np.int64))
            except InvalidRecord:
                array, _, _ = decode_whole_records(plain, area)
                # If bytes are left over after the last record, that one counts as malformed.
                yield np.ascontiguousarray(array[:, : self._left - 1]), plain
                raise
            if not self._left:
                raise InvalidRecord("bytes are left over after the last record")
            yield array, plain

    def _area(self, window: bytearray) -> tuple[Bytes, Ints]:
        """Return a copy of the window with slack after it, and the area of its records."""
        plain = np.frombuffer(bytes(window) + bytes(SLACK_BYTES), np.uint8)
        area = np.array([0, len(window), *self._fields], np.int64)[:, np.newaxis]
        area[rows.AREA_COUNT] = self._left
        return plain, area

    def _bytes_needed(self, window: bytearray, reason: str) -> int:
        """Return the window size that its first record, which is incomplete, requires."""
        if not self._left and window:
            raise InvalidRecord("bytes are left over after the last record")
        if len(window) < _MOST_VARINT_BYTES:
            return _MOST_VARINT_BYTES
        size_bytes, at = read_varint(window, 0)
        if size_bytes < 0 or at + size_bytes <= len(window):
            raise InvalidRecord(reason)
        if size_bytes > self._limit:
            raise MessageTooLarge("a decompressed record", size_bytes, self._limit)
        return at + size_bytes
