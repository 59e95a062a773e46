"""Finds the record batches in a buffer: a walk from header to header, compiled or plain.

Kafka: ``MemoryRecords`` and ``ByteBufferLogInputStream``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.codec.layout import byte_view
from tidelog.errors import CorruptMessage
from tidelog.kernels import rows
from tidelog.kernels.runtime.gate import use_kernels
from tidelog.lazy import np
from tidelog.records.array_rows import as_bytes
from tidelog.records.batch import (
    BATCH_HEADER,
    BATCH_PREFIX,
    LOG_OVERHEAD,
)
from tidelog.records.batch_columns import BatchColumns
from tidelog.records.scan import WRONG_CRC, batch_row, crc_matches, whole_batch_size

if TYPE_CHECKING:
    from tidelog.codec.layout import Buffer
    from tidelog.records.damage.sound_offsets import OffsetBounds

_CAPACITY: Final = 1 << 14
_USUAL_BATCH: Final = 1 << 12
"""Typical size of a batch in bytes, by which the first array of a walk is sized."""
_HEADER_WORK: Final = 64
"""The work that a header is in plain code."""
_CRC_SHARE: Final = 1024
"""The CRC of this number of bytes is one byte of work."""
_UNBOUNDED: Final = rows.ANY_OFFSET, 0


class Walk(NamedTuple):
    """The result of a walk: whole batches, then ``next_position``, the first byte not in one.

    Without an ``error``, fewer bytes follow than a batch needs: the end, or a torn tail. With one,
    the bytes at ``next_position`` are not a valid batch.
    """

    batches: BatchColumns
    next_position: int
    error: CorruptMessage | None


class _Walker(NamedTuple):
    """One walk: the bytes, their end, and the rules to apply."""

    data: Buffer
    view: memoryview
    end: int
    check_crc: bool
    in_memory: bool
    bounds: OffsetBounds | None

    def next_row(self, position: int, lowest: int) -> tuple[int, ...]:
        """Return the header of the batch at ``position``; empty if no whole batch is left.

        ``lowest`` is the least offset that it may have, if there are bounds.
        """
        size = whole_batch_size(self.view, position, self.end, in_memory=self.in_memory)
        if not size:
            return ()
        row = batch_row(self.view, position, size)
        if self.check_crc and not crc_matches(self.view, row):
            raise CorruptMessage(WRONG_CRC, position)
        if self.bounds is not None:
            bounds = self.bounds._replace(lowest=lowest)
            offsets = row[rows.BASE_OFFSET], row[rows.LAST_OFFSET]
            if not bounds.hold(*offsets):
                raise CorruptMessage(bounds.reason(*offsets), position)
        return row

    def plain(self, position: int) -> Walk:
        """Walk from ``position`` in plain code."""
        found: list[tuple[int, ...]] = []
        error = None
        lowest, _ = self.bounds or _UNBOUNDED
        try:
            while row := self.next_row(position, lowest):
                found.append(row)
                position += row[rows.SIZE]
                lowest = row[rows.LAST_OFFSET] + 1
        except CorruptMessage as corrupt:
            error = corrupt
        return Walk(BatchColumns.of_rows(found), position, error)

    def compiled(self, position: int) -> Walk:
        """Walk with the kernel, and in plain code where the kernel stops before the end."""
        from tidelog.kernels.scan_kernel import walk_batches  # noqa: PLC0415 - compiles when imported

        data, found = as_bytes(self.data), list[BatchColumns]()
        capacity = min((self.end - position) // _USUAL_BATCH + 2, _CAPACITY)
        lowest, end_offset = self.bounds or _UNBOUNDED
        while True:
            out = np.empty((rows.BATCH_COLUMNS, capacity), np.int64)
            count, position, status = walk_batches(
                data, position, self.end, self.check_crc, lowest, end_offset, out
            )
            if count:
                found.append(BatchColumns(out[:, :count].copy()))
                if self.bounds is not None:
                    lowest = int(out[rows.LAST_OFFSET, count - 1]) + 1
            if position == self.end:
                return Walk(BatchColumns.joined(found), position, None)
            if status == rows.FULL:
                capacity = _CAPACITY
                continue
            try:
                row = self.next_row(position, lowest)
            except CorruptMessage as error:
                return Walk(BatchColumns.joined(found), position, error)
            if not row:
                return Walk(BatchColumns.joined(found), position, None)
            found.append(BatchColumns.of_rows([row]))
            position += row[rows.SIZE]
            if self.bounds is not None:
                lowest = row[rows.LAST_OFFSET] + 1


def walk(
    data: Buffer,
    start: int = 0,
    end: int | None = None,
    *,
    check_crc: bool = False,
    in_memory: bool = True,
    bounds: OffsetBounds | None = None,
) -> Walk:
    """Find the batches in bytes ``[start, end)`` of ``data``; stop at the first invalid one.

    Args:
        data: the buffer; positions in the result are relative to it.
        start: first byte of a batch.
        end: byte after the last; None: the whole buffer.
        check_crc: also check each batch's CRC; a wrong one is an error.
        in_memory: whether to apply the rules for produce and fetch data; otherwise those for files,
            where an incomplete batch is a torn tail whatever its magic.
        bounds: the offsets that batches may have, or a batch is invalid; None: any.

    Unlike in Kafka's file reader, a magic above 2 is an error in files too: no client can read it.
    Source: Kafka ByteBufferLogInputStream and FileLogInputStream.
    """
    view = byte_view(data)
    stop = len(view) if end is None else end
    walker = _Walker(data, view, stop, check_crc, in_memory, bounds)
    if use_kernels(_work_of(view, start, stop, check_crc=check_crc)):
        return walker.compiled(start)
    return walker.plain(start)


def _work_of(view: memoryview, start: int, stop: int, *, check_crc: bool) -> int:
    """Return the work of a plain walk, as if all batches had the size of the first."""
    size = BATCH_HEADER.size
    if stop - start >= size:
        size = max(size, LOG_OVERHEAD + BATCH_PREFIX.unpack(view, start).length)
    return plain_work(stop - start, size, check_crc=check_crc)


def plain_work(size_bytes: int, batch_bytes: int, *, check_crc: bool) -> int:
    """Return the work of a plain walk over batches of this size, as for ``use_kernels``."""
    batches = -(-size_bytes // batch_bytes)
    return batches * _HEADER_WORK + (size_bytes // _CRC_SHARE if check_crc else 0)
