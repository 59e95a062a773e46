"""Compressed batches and old formats, unpacked into one buffer before they are decoded.

Kafka: ``DefaultRecordBatch.compressedIterator``.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from tidelog.codec.compression import DEFAULT_DECOMPRESSED_LIMIT, Codec, decompress
from tidelog.codec.layout import byte_view
from tidelog.errors import CorruptMessage, InvalidRecord
from tidelog.kernels import rows
from tidelog.lazy import np
from tidelog.records import legacy
from tidelog.records.array_rows import SLACK_BYTES
from tidelog.records.batch import BATCH_HEADER, BatchFlags
from tidelog.records.decoding.record_areas import AREA_FROM_BATCH, decode_areas

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tidelog.records.array_rows import Bytes, Ints
    from tidelog.records.batch_columns import BatchColumns


class Unpacked:
    """The uncompressed bytes of compressed batches and old formats, in one new buffer."""

    def __init__(
        self,
        data: Bytes,
        batches: BatchColumns,
        limit: int = DEFAULT_DECOMPRESSED_LIMIT,
        group_bytes: int | None = None,
    ) -> None:
        self._view = byte_view(data)
        self._limit = limit
        self._is_limit_for_all = group_bytes is None
        self._plain = bytearray()
        self._areas: list[list[int]] = []
        self._area_batches: list[int] = []
        self._legacy = array("q")
        self._legacy_types = array("b")
        taken = 0
        for row in batches.array.T.tolist():
            self._take(taken, row)
            taken += 1
            if group_bytes is not None and len(self._plain) >= group_bytes:
                break
        self._batches = batches.slice(0, taken)

    def _take(self, index: int, row: list[int]) -> None:
        try:
            if row[rows.MAGIC] < 2:
                self._take_legacy(index, row)
            else:
                self._take_area(index, row)
        except (CorruptMessage, InvalidRecord) as error:
            raise type(error)(error.reason, row[rows.POSITION]) from error

    def _allowed(self) -> int:
        return self._limit - len(self._plain) if self._is_limit_for_all else self._limit

    def _take_area(self, index: int, row: list[int]) -> None:
        start = row[rows.POSITION] + BATCH_HEADER.size
        packed = self._view[start : row[rows.POSITION] + row[rows.SIZE]]
        codec = Codec.of_attributes(row[rows.ATTRIBUTES])
        at = len(self._plain)
        if codec is Codec.NONE:
            self._plain += packed
        elif row[rows.RECORDS_COUNT]:  # without records there is nothing to decompress
            self._plain += decompress(codec, packed, limit=self._allowed())
        self._areas.append([at, len(self._plain), *(row[field] for field in AREA_FROM_BATCH)])
        self._area_batches.append(index)

    def _take_legacy(self, index: int, row: list[int]) -> None:
        position, size = row[rows.POSITION], row[rows.SIZE]
        found = legacy.expand(self._view, position, size, limit=self._allowed())
        shift = len(self._plain)
        if row[rows.ATTRIBUTES] & BatchFlags.CODEC:
            self._plain += found.data
        else:
            self._plain += self._view[position : position + size]
            shift -= position
        for record in found.records:
            self._legacy.extend(legacy_row(record, shift, index))
            self._legacy_types.append(record.timestamp_type)

    def areas(self) -> tuple[Bytes, Ints]:
        """Return the uncompressed bytes of the v2 batches taken, and their record areas in them."""
        self._plain += bytes(SLACK_BYTES)
        areas = np.array(self._areas, np.int64).reshape(-1, rows.AREA_COLUMNS).T.copy()
        return np.frombuffer(self._plain, np.uint8), areas

    def decode(self) -> tuple[Ints, Bytes, BatchColumns, NDArray[np.int8] | None]:
        """Decode the batches taken, in order; return the arguments of ``RecordColumns``."""
        data, areas = self.areas()
        taken = np.array(self._area_batches, np.int64)
        decoded = decode_areas(data, areas, self._batches.position[taken])
        if not self._legacy:
            return decoded, data, self._batches, None
        decoded[rows.AREA] = taken[decoded[rows.AREA]]
        types = self._batches.is_log_append_time[decoded[rows.AREA]].astype(np.int8)
        old = np.frombuffer(self._legacy, np.int64).reshape(-1, rows.RECORD_COLUMNS).T
        both = np.hstack([decoded, old])
        order = np.argsort(both[rows.AREA], kind="stable")
        types = np.concatenate([types, np.frombuffer(self._legacy_types, np.int8)])[order]
        return np.ascontiguousarray(both[:, order]), data, self._batches, types


def legacy_row(record: legacy.LegacyRecord, shift: int, batch: int) -> tuple[int, ...]:
    """Return a record as a row of ``RecordColumns``, its positions moved on by ``shift`` bytes."""
    return (
        record.offset,
        record.timestamp,
        record.key_at + shift,
        record.key_size,
        record.value_at + shift,
        record.value_size,
        0,
        0,
        batch,
    )
