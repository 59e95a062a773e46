"""Batches without the records that compaction drops.

Owns what is written for each batch: nothing, its header, itself, or a new batch with the records
that stay. Must not know segments or files. ``rewrite`` has the plain twin of the kernel.
Kafka: ``MemoryRecords.filterTo``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from tidelog.cleaner.key_table import KeyTable, check_status
from tidelog.cleaner.rewrite import Rewriting, rewrite_old, rewrite_plainly
from tidelog.cleaner.runs import Run, find_runs
from tidelog.cleaner.tally import Cause, Tally
from tidelog.codec.compression import Codec, compress
from tidelog.codec.layout import byte_view
from tidelog.kernels import columns as rows
from tidelog.kernels import key_columns as keys
from tidelog.records.batch import BATCH_HEADER, BatchFlags
from tidelog.records.builder import pack_batch
from tidelog.records.columns import decode_groups
from tidelog.records.memory import BatchColumns
from tidelog.records.scan import header_of_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tidelog.cleaner.offset_map import OffsetMap
    from tidelog.records.table import Bools, Bytes, Ints

_LOOKED_AT: Final = keys.JUDGE | keys.KEEP
_CONTROL: Final = int(BatchFlags.CONTROL)
_CAUSES: Final = {
    keys.SUPERSEDED: Cause.SUPERSEDED,
    keys.EXPIRED: Cause.TOMBSTONE,
    keys.KEYLESS: Cause.KEYLESS,
}
GROWTH_BYTES: Final = 10
"""Bytes by which a record may grow when its batch gets another base timestamp."""


class Filtered(NamedTuple):
    """Batches that are left, in one buffer that the next ones overwrite, and their headers."""

    data: Bytes
    batches: BatchColumns


class Dropped(NamedTuple):
    """Records that go, for whoever wants to name them."""

    offsets: Ints
    causes: list[Cause]


class RecordFilter:
    """Filters the pieces of one cleaning round, in order.

    Args:
        offset_map: what the round knows of keys.
        now_ms: the time by which delete horizons are set and have passed.
        delete_retention_ms: how long a tombstone stays after it was first cleaned.
        tally: where to count.
        on_dropped: told of each record that goes; naming them takes time.
    """

    def __init__(
        self,
        offset_map: OffsetMap,
        *,
        now_ms: int,
        delete_retention_ms: int,
        tally: Tally,
        on_dropped: Callable[[Dropped], None] | None = None,
    ) -> None:
        self._map = offset_map
        self._now_ms = now_ms
        self._horizon_ms = now_ms + delete_retention_ms
        self._tally = tally
        self._on_dropped = on_dropped
        self._table = KeyTable(with_kernels=offset_map.with_kernels)
        self._out: Bytes = np.empty(0, np.uint8)

    def filter(
        self, source: Bytes, batches: BatchColumns, marks: Ints, *, keep_old_tombstones: bool
    ) -> Iterator[Filtered]:
        """Yield what is left of some batches, in order.

        Args:
            source: holds the batches.
            batches: with positions in ``source``.
            marks: what is to be done with each.
            keep_old_tombstones: tombstones of magic 0 and 1 stay.

        Raises CorruptMessage and InvalidRecord for batches that do not read, InvalidArgument for a
        negative timestamp in a batch that has to be written again.
        """
        for run in find_runs(source, batches, marks):
            run.walk(self._table)
            self._judge(run, keep_old_tombstones=keep_old_tombstones)
            rewriting = self._rewrite(run)
            self._count(run, rewriting)
            if len(rewriting.batches):
                yield Filtered(rewriting.data, rewriting.batches)

    def _judge(self, run: Run, *, keep_old_tombstones: bool) -> None:
        """Fill VERDICT of all records in the table."""
        table, offset_map = self._table, self._map
        offsets = table.rows[keys.OFFSET, : table.count]
        first_bit = int(offsets.searchsorted(offset_map.bits_start))
        after_bits = int(offsets.searchsorted(offset_map.bits_end))
        known = int(offsets.searchsorted(offset_map.latest_offset, "right"))
        offset_map.look_up(run.data, table, 0, min(first_bit, known))
        offset_map.look_up(run.data, table, min(max(after_bits, first_bit), known), known)
        if run.legacy is not None or not table.with_kernels:
            self._judge_plainly(run, keep_old_tombstones=keep_old_tombstones)
            return
        from tidelog.kernels.key_walk import judge_keys  # noqa: PLC0415 - compiles when imported

        check_status(
            judge_keys(
                run.areas,
                run.marks,
                table.rows,
                table.count,
                offset_map.bits,
                offset_map.state,
                self._now_ms,
            )
        )

    def _judge_plainly(self, run: Run, *, keep_old_tombstones: bool) -> None:
        """Do what the kernel ``judge_keys`` does, with arrays; knows old batches too."""
        table, offset_map = self._table, self._map
        judged = table.rows[:, : table.count]
        offsets, batch = judged[keys.OFFSET], judged[keys.AREA]
        has_bit = (offsets >= offset_map.bits_start) & (offsets < offset_map.bits_end)
        is_superseded = ~has_bit & (offsets < judged[keys.LATEST])
        bits = offsets[has_bit] - offset_map.bits_start
        is_superseded[has_bit] = (offset_map.bits[bits >> 3] >> (bits & 7) & 1) != 0
        is_due = run.batches.has_delete_horizon & (run.batches.base_timestamp <= self._now_ms)
        if run.legacy is not None:
            is_due[:] = not keep_old_tombstones
        is_expired = is_due[batch] & (judged[keys.VALUE_SIZE] < 0)
        verdict = np.where(is_expired, keys.EXPIRED, keys.STAYS)
        verdict[is_superseded] = keys.SUPERSEDED
        verdict[judged[keys.KEY_SIZE] < 0] = keys.KEYLESS
        verdict[offsets > offset_map.latest_offset] = keys.STAYS
        verdict[(run.marks[batch] & keys.KEEP) != 0] = keys.STAYS
        judged[keys.VERDICT] = verdict

    def _rewrite(self, run: Run) -> Rewriting:
        table = self._table
        if run.legacy is not None:
            return rewrite_old(
                run.legacy, run.marks, table.rows[:, : table.count], self._horizon_ms
            )
        if not table.with_kernels:
            written = rewrite_plainly(run, table.rows[:, : table.count], self._horizon_ms)
        else:
            written = self._rewrite_by_kernel(run)
        return written if run.is_plain else _packed_again(run, written)

    def _rewrite_by_kernel(self, run: Run) -> Rewriting:
        from tidelog.kernels.key_rewrite import rewrite_batches  # noqa: PLC0415 - compiles when imported

        table, count = self._table, len(run.batches)
        bytes_needed = len(run.data) + GROWTH_BYTES * table.count + BATCH_HEADER.size * count
        if len(self._out) < bytes_needed:
            self._out = np.empty(bytes_needed, np.uint8)
        written = np.empty((rows.BATCH_COLUMNS, count), np.int64)
        fates = np.empty(count, np.int64)
        status, kept, size = rewrite_batches(
            run.data,
            np.ascontiguousarray(run.batches.array),
            run.marks,
            table.rows,
            table.count,
            self._horizon_ms,
            run.is_plain,
            self._out,
            written,
            fates,
        )
        check_status(status)
        return Rewriting(self._out[:size], BatchColumns(written[:, :kept]), fates)

    def _count(self, run: Run, rewriting: Rewriting) -> None:
        table, tally = self._table, self._tally
        verdicts = np.bincount(table.rows[keys.VERDICT, : table.count], minlength=4)
        looked_at = (run.marks & _LOOKED_AT) != 0
        unseen = int(run.batches.records_count[~looked_at].sum())
        tally.records_read += table.count + unseen
        tally.records_written += int(verdicts[keys.STAYS])
        tally.invalid_records += int(verdicts[keys.KEYLESS])
        tally.batches_read += len(run.batches)
        tally.batches_written += len(rewriting.batches)
        tally.batches_rewritten += int((rewriting.fates == keys.REWRITTEN).sum())
        tally.bytes_read += int(run.batches.size.sum())
        tally.bytes_written += len(rewriting.data)
        self._count_causes(run, verdicts, looked_at, rewriting.fates)
        if self._on_dropped is not None:
            self._name(run, looked_at, self._on_dropped)

    def _count_causes(self, run: Run, verdicts: Ints, looked_at: Bools, fates: Ints) -> None:
        tally, batches = self._tally, run.batches
        for verdict, cause in _CAUSES.items():
            tally.drop(cause, int(verdicts[verdict]))
        if not looked_at.all():
            is_control = batches.is_control
            for cause, chosen in ((Cause.ABORTED, ~is_control), (Cause.MARKER, is_control)):
                tally.drop(cause, int(batches.records_count[chosen & ~looked_at].sum()))
        was_empty = (batches.records_count == 0) & (fates == keys.DROPPED)
        tally.drop(Cause.EMPTY, int(was_empty.sum()))

    def _name(self, run: Run, looked_at: Bools, tell: Callable[[Dropped], None]) -> None:
        """Tell of each record that goes, those of batches that went unseen too."""
        judged = self._table.rows[:, : self._table.count]
        stays = judged[keys.VERDICT] == keys.STAYS
        tombstones = judged[keys.TIMESTAMP][stays & (judged[keys.VALUE_SIZE] < 0)]
        if len(tombstones):
            self._tally.meet_tombstone(int(tombstones.min()))
        gone = judged[:, ~stays]
        verdicts = gone[keys.VERDICT].tolist()
        tell(Dropped(gone[keys.OFFSET].copy(), [_CAUSES[verdict] for verdict in verdicts]))
        for is_control, cause in ((False, Cause.ABORTED), (True, Cause.MARKER)):
            unseen = run.batches.select(~looked_at & (run.batches.is_control == is_control))
            for group in decode_groups(run.source, unseen):
                tell(Dropped(group.offset.copy(), [cause] * len(group)))


def _packed_again(run: Run, written: Rewriting) -> Rewriting:
    """Compress what was written of compressed batches; put whole ones between as they were."""
    out = bytearray()
    headers: list[list[int]] = []
    source, data = byte_view(run.source), byte_view(written.data)
    whole = iter(run.batches.array[:, written.fates == keys.COPIED].T.tolist())
    for row in written.batches.array.T.tolist():
        at = len(out)
        if row[rows.POSITION] < 0:
            original = next(whole)
            out += source[original[rows.POSITION] : original[rows.POSITION] + original[rows.SIZE]]
        else:
            start = row[rows.POSITION] + BATCH_HEADER.size
            records = data[start : row[rows.POSITION] + row[rows.SIZE]]
            codec = Codec.of_attributes(row[rows.ATTRIBUTES])
            packed = compress(codec, records) if row[rows.RECORDS_COUNT] else b""
            batch = pack_batch(header_of_row(row), packed)
            out += batch
            row[rows.CRC] = BATCH_HEADER.unpack(batch).crc
        row[rows.POSITION], row[rows.SIZE] = at, len(out) - at
        headers.append(row)
    return Rewriting(np.frombuffer(out, np.uint8), BatchColumns.of_rows(headers), written.fates)
