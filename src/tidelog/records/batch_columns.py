"""The headers and positions of many batches, as one table.

There is no object per batch: the headers of a thousand batches are one 2-D int64 array, which is
how all other modules see batches. Kafka: the fields of ``DefaultRecordBatch``.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from tidelog.kernels import rows
from tidelog.kernels.runtime.gate import use_kernels
from tidelog.lazy import np
from tidelog.records.array_rows import Row
from tidelog.records.batch import (
    BATCH_HEADER,
    INT32_MAX,
    MAGIC_V2,
    NO_SEQUENCE,
    BatchFlags,
)
from tidelog.records.scan import header_of_row

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tidelog.records.array_rows import Bools, Ints
    from tidelog.records.batch import BatchHeader


def advance_sequences(base_sequence: Ints, delta: Ints) -> Ints:
    """Return ``record.advance_sequence`` of each pair."""
    return np.where(base_sequence < 0, NO_SEQUENCE, (base_sequence + delta) & INT32_MAX)


class BatchColumns:
    """Headers of many batches: an int64 array with one row per field and one column per batch.

    The rows are those of ``tidelog.kernels.rows`` (``POSITION`` to ``CRC``). Positions are relative
    to the buffer or file that the batches were found in; ``size`` includes the first 12 bytes. For
    magic 0 and 1, ``base_offset`` and ``last_offset`` both hold the offset field, which is the
    offset of the *last* record (``legacy.base_offset`` finds the first one by decompression),
    ``records_count`` is 1, or -1 for a wrapper, ``base_timestamp`` and ``max_timestamp`` both hold
    the timestamp, and leader epoch and producer fields are -1.
    """

    __slots__ = ("array",)

    position = Row(rows.POSITION, "Byte at which each batch starts.")
    size = Row(rows.SIZE, "Bytes of each whole batch.")
    base_offset = Row(rows.BASE_OFFSET, "First offset; of magic 0 and 1 the last one.")
    last_offset = Row(rows.LAST_OFFSET, "Last offset, inclusive.")
    leader_epoch = Row(rows.LEADER_EPOCH, "Leader epoch, -1 unknown.")
    magic = Row(rows.MAGIC, "Format version: 0, 1 or 2.")
    attributes = Row(rows.ATTRIBUTES, "Codec and flags, see ``BatchFlags``.")
    base_timestamp = Row(rows.BASE_TIMESTAMP, "Base of the deltas in ms, or the delete horizon.")
    max_timestamp = Row(rows.MAX_TIMESTAMP, "Greatest timestamp or append time in ms, -1 none.")
    producer_id = Row(rows.PRODUCER_ID, "Producer id, -1 none.")
    producer_epoch = Row(rows.PRODUCER_EPOCH, "Producer epoch, -1 none.")
    base_sequence = Row(rows.BASE_SEQUENCE, "Sequence of the first record, -1 none.")
    records_count = Row(rows.RECORDS_COUNT, "Records by the header, -1: old wrapper.")
    crc = Row(rows.CRC, "Checksum in the header, unsigned.")

    def __init__(self, array: Ints) -> None:
        self.array = array

    @classmethod
    def of_rows(cls, headers: Sequence[Sequence[int]]) -> BatchColumns:
        """Make columns from one sequence of 14 numbers per batch, which nobody changes any more."""
        return _RowBatches(headers)

    @classmethod
    def joined(cls, columns: Sequence[BatchColumns]) -> BatchColumns:
        """Return the batches of several columns in one, in order."""
        if len(columns) == 1:
            return columns[0]
        return cls(np.hstack([each.array for each in columns])) if columns else cls.of_rows([])

    def __len__(self) -> int:
        count: int = self.array.shape[1]
        return count

    @property
    def count(self) -> int:
        """Number of batches."""
        return len(self)

    @property
    def first_offset(self) -> int:
        """The base offset of the first batch; there must be one."""
        return self.row(0)[rows.BASE_OFFSET]

    @property
    def next_offset(self) -> int:
        """The offset after the last batch; there must be one."""
        return self.row(-1)[rows.LAST_OFFSET] + 1

    @property
    def next_position(self) -> int:
        """The byte after the last batch; there must be one."""
        row = self.row(-1)
        return row[rows.POSITION] + row[rows.SIZE]

    def runs(self) -> Iterator[BatchColumns]:
        """Yield adjacent batches together."""
        breaks = np.flatnonzero(self.position[1:] != self.end[:-1]) + 1
        for start, end in pairwise([0, *breaks.tolist(), len(self)]):
            if start < end:
                yield self.slice(start, end)

    @property
    def end(self) -> Ints:
        """Byte after each batch."""
        return self.position + self.size

    @property
    def codec(self) -> Ints:
        """Number of the codec, 0 none."""
        return self.attributes & BatchFlags.CODEC

    @property
    def last_sequence(self) -> Ints:
        """Sequence of the last record: base sequence plus last offset delta, with wrap-around."""
        return advance_sequences(self.base_sequence, self.last_offset - self.base_offset)

    @property
    def is_log_append_time(self) -> Bools:
        """Whether timestamps are append times (magic 1 and 2)."""
        return self._has(BatchFlags.LOG_APPEND_TIME, from_magic=1)

    @property
    def is_transactional(self) -> Bools:
        """Whether the batch belongs to a transaction."""
        return self._has(BatchFlags.TRANSACTIONAL)

    def has_transactional(self) -> bool:
        """Return whether there is a batch that belongs to a transaction."""
        return bool(self.is_transactional.any())

    @property
    def is_control(self) -> Bools:
        """Whether the batch holds control records."""
        return self._has(BatchFlags.CONTROL)

    @property
    def has_delete_horizon(self) -> Bools:
        """Whether ``base_timestamp`` is the delete horizon."""
        return self._has(BatchFlags.DELETE_HORIZON)

    def _has(self, flag: int, *, from_magic: int = 2) -> Bools:
        is_set: Bools = ((self.attributes & flag) != 0) & (self.magic >= from_magic)
        return is_set

    def row(self, index: int) -> list[int]:
        """Return the 14 numbers of one batch; a negative index counts from the end."""
        found: list[int] = self.array[:, index].tolist()
        return found

    @property
    def few(self) -> Sequence[Sequence[int]] | None:
        """The 14 numbers of each batch, if that is how they are kept; None: it is an array.

        Lists of a few batches are looked at sooner than arrays, and are not to be changed.
        """
        return None

    def rows_with_producer(self) -> list[list[int]]:
        """Return the 14 numbers of each batch that has a producer id, in order."""
        table: list[list[int]] = self.array[:, self.producer_id >= 0].T.tolist()
        return table

    def header(self, index: int) -> BatchHeader:
        """Return the header of one batch, for tools; old formats are converted to magic 2."""
        return header_of_row(self.row(index))

    def slice(self, start: int, end: int | None = None) -> BatchColumns:
        """Return batches ``[start, end)`` as a view that shares memory with this."""
        return BatchColumns(self.array[:, start:end])

    def select(self, chosen: Bools | Ints) -> BatchColumns:
        """Return a copy with the batches selected by a mask or by indices."""
        return BatchColumns(np.ascontiguousarray(self.array[:, chosen]))

    def move(self, delta_position: int) -> None:
        """Add ``delta_position`` bytes to each position."""
        self.array[rows.POSITION] += delta_position

    def shifted(self, delta_position: int) -> BatchColumns:
        """Return a copy with ``delta_position`` bytes added to each position."""
        array = self.array.copy()
        array[rows.POSITION] += delta_position
        return BatchColumns(array)


class Survey(NamedTuple):
    """A summary of the batches of an append, in the order of ``SURVEY_COLUMNS``."""

    greatest_size: int
    greatest_timestamp: int
    greatest_epoch: int
    greatest_producer_id: int
    greatest_codec: int
    last_codec: int
    has_base_offset: int
    are_offsets_rising: int
    is_uniform: int


def survey(batches: BatchColumns) -> Survey:
    """Summarize one or more batches; the rows ``SURVEY_...`` of the kernels define each number."""
    if len(batches) == 1:
        return _survey_one(batches.row(0))
    array = np.ascontiguousarray(batches.array)
    if use_kernels(array.shape[1] * BATCH_HEADER.size):
        from tidelog.kernels.survey import survey_batches  # noqa: PLC0415 - compiles when imported

        out = np.empty(rows.SURVEY_COLUMNS, np.int64)
        survey_batches(array, out)
        return Survey(*out.tolist())
    codecs, last = batches.codec, batches.last_offset
    epoch, magic = batches.leader_epoch, batches.magic
    compressed = codecs[codecs.nonzero()]
    return Survey(
        greatest_size=int(batches.size.max()),
        greatest_timestamp=int(batches.max_timestamp.max()),
        greatest_epoch=int(epoch.max()),
        greatest_producer_id=int(batches.producer_id.max()),
        greatest_codec=int(codecs.max()),
        last_codec=int(compressed[-1]) if compressed.size else 0,
        has_base_offset=int((batches.base_offset[magic >= MAGIC_V2] != 0).any()),
        are_offsets_rising=int((last[1:] > last[:-1]).all()),
        is_uniform=int((epoch == epoch[0]).all() and (magic == magic[0]).all()),
    )


def _survey_one(row: list[int]) -> Survey:
    """Summarize one batch, as nearly every append is."""
    codec = row[rows.ATTRIBUTES] & BatchFlags.CODEC
    return Survey(
        row[rows.SIZE],
        row[rows.MAX_TIMESTAMP],
        row[rows.LEADER_EPOCH],
        row[rows.PRODUCER_ID],
        codec,
        codec,
        int(row[rows.MAGIC] >= MAGIC_V2 and row[rows.BASE_OFFSET] != 0),
        1,  # are_offsets_rising
        1,  # is_uniform
    )


class _RowBatches(BatchColumns):
    """Batches by their rows of 14 numbers, which become an array only where one is asked for.

    Plain code finds batches as rows, and a reader of a log's end needs no more of them.
    """

    __slots__ = ("_array", "_rows")

    def __init__(self, headers: Sequence[Sequence[int]]) -> None:
        self._rows: Sequence[Sequence[int]] | None = headers

    @property
    def array(self) -> Ints:  # type: ignore[override]  # nobody replaces it
        """The array, made when it is first asked for."""
        headers = self._rows
        if headers is not None:
            table = np.array(headers, np.int64).reshape(-1, rows.BATCH_COLUMNS)
            self._array: Ints = np.ascontiguousarray(table.T)
            self._rows = None  # the array may be changed from now on
        return self._array

    def __len__(self) -> int:
        return super().__len__() if self._rows is None else len(self._rows)

    @property
    def few(self) -> Sequence[Sequence[int]] | None:
        return self._rows

    def row(self, index: int) -> list[int]:
        return super().row(index) if self._rows is None else [*self._rows[index]]

    def rows_with_producer(self) -> list[list[int]]:
        if self._rows is None:
            return super().rows_with_producer()
        return [[*row] for row in self._rows if row[rows.PRODUCER_ID] >= 0]

    def slice(self, start: int, end: int | None = None) -> BatchColumns:
        if self._rows is None:
            return super().slice(start, end)
        return _RowBatches(self._rows[start:end])

    def has_transactional(self) -> bool:
        if self._rows is None:
            return super().has_transactional()
        newer = (row for row in self._rows if row[rows.MAGIC] >= MAGIC_V2)
        return any(row[rows.ATTRIBUTES] & BatchFlags.TRANSACTIONAL for row in newer)

    def move(self, delta_position: int) -> None:
        if self._rows is None:
            super().move(delta_position)
        elif delta_position:
            moved = [(row[rows.POSITION] + delta_position, *row[1:]) for row in self._rows]
            self._rows = moved
