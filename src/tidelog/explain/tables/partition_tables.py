"""The system tables whose rows are about one partition each, read from its files."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tidelog.cleaner.compaction_facts import CompactionRow
from tidelog.codec.checkpoint_file import LEADER_EPOCH_FILE, read_leader_epochs
from tidelog.codec.compression import codec_name
from tidelog.codec.shown_rows import as_json
from tidelog.explain.describe import LogFacts, SegmentFacts, describe_log
from tidelog.explain.listed_partition import ListedPartition, list_partition
from tidelog.explain.segment_contents import SegmentContents
from tidelog.explain.tables.system_table import (
    PLACE,
    Column,
    ColumnType,
    SystemTable,
    cells_of,
    columns_of,
)
from tidelog.log.retention.retention_outlook import SegmentOutlook
from tidelog.manager.compaction_plan import compaction_to_plan
from tidelog.readonly.missing.gaps import find_gaps
from tidelog.readonly.snapshot_log import answer_at_once
from tidelog.records.isolation import ReadUpTo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.explain.tables.system_table import Row, TableSource
    from tidelog.readonly.snapshot_log import SnapshotLog
    from tidelog.records.batch_columns import BatchColumns
    from tidelog.segment.filenames import TopicPartition

_TEXT, _INT, _LONG = ColumnType.TEXT, ColumnType.INT, ColumnType.LONG
_FLAG, _TIME = ColumnType.BOOLEAN, ColumnType.TIME


def _time(ms: int) -> int | None:
    """Return a timestamp; None for -1, which Kafka uses for none."""
    return ms if ms >= 0 else None


# partitions


def _partitions(source: TableSource, key: TopicPartition) -> Iterator[Row]:
    with source.open(key) as log:
        yield *key, log.directory, *list_partition(log)[2:]


PARTITIONS: Final = SystemTable(
    "partitions",
    "one partition: its offsets and size",
    (*PLACE, *columns_of(LogFacts, "directory"), *columns_of(ListedPartition)[2:]),
    of_partition=_partitions,
)


# segments


def _segments(source: TableSource, key: TopicPartition) -> Iterator[Row]:
    with source.open(key) as log:
        facts = describe_log(log, source.topic(key.topic), with_contents=True)
    for segment in facts.segments:
        if segment.contents is not None:
            yield *key, *cells_of(segment), *cells_of(segment.contents)


SEGMENTS: Final = SystemTable(
    "segments",
    "one segment of a partition, counted from its batch headers",
    (*PLACE, *columns_of(SegmentFacts), *columns_of(SegmentContents)),
    of_partition=_segments,
)


# batches


def _batches(source: TableSource, key: TopicPartition) -> Iterator[Row]:
    with source.open(key) as log:
        bases = [segment.base_offset for segment in log.segments]
        for piece in log.pieces(log.log_start_offset, log.log_end_offset):
            yield from batch_rows(key, bases, piece.batches)


def batch_rows(
    key: TopicPartition, segment_bases: list[int], batches: BatchColumns
) -> Iterator[Row]:
    """Return a row for each batch. A piece lies in one segment."""
    offsets = batches.base_offset
    numbers = np.searchsorted(np.array(segment_bases, np.int64), offsets, "right") - 1
    bases = [segment_bases[max(number, 0)] for number in numbers.tolist()]
    codecs = [codec_name(number) for number in batches.codec.tolist()]
    types = np.where(batches.is_log_append_time, "LogAppendTime", "CreateTime").tolist()
    based = np.where(batches.has_delete_horizon, -1, batches.base_timestamp)
    horizons = np.where(batches.has_delete_horizon, batches.base_timestamp, -1)
    columns: list[list[Any]] = [
        bases,
        batches.position.tolist(),
        batches.size.tolist(),
        offsets.tolist(),
        batches.last_offset.tolist(),
        batches.records_count.tolist(),
        batches.magic.tolist(),
        codecs,
        types,
        [_time(ms) for ms in based.tolist()],
        [_time(ms) for ms in batches.max_timestamp.tolist()],
        [_time(ms) for ms in horizons.tolist()],
        batches.leader_epoch.tolist(),
        batches.producer_id.tolist(),
        batches.producer_epoch.tolist(),
        batches.base_sequence.tolist(),
        batches.last_sequence.tolist(),
        batches.is_transactional.tolist(),
        batches.is_control.tolist(),
        batches.crc.tolist(),
    ]
    for row in zip(*columns, strict=True):
        yield (*key, *row)


BATCHES: Final = SystemTable(
    "batches",
    "one record batch, from its header",
    (
        *PLACE,
        Column("segment", _LONG, "base offset of the batch's segment"),
        Column("position", _LONG, "byte of the .log file at which the batch begins"),
        Column("sizeBytes", _LONG, "bytes of the whole batch"),
        Column("baseOffset", _LONG, "first offset; of magic 0 and 1 the last one"),
        Column("lastOffset", _LONG, "last offset, inclusive"),
        Column("records", _LONG, "number of records; -1: a compressed batch of magic 0 or 1"),
        Column("magic", _INT, "version of the format: 0, 1 or 2"),
        Column("codec", _TEXT, "none, gzip, snappy, lz4 or zstd"),
        Column("timestampType", _TEXT, "CreateTime or LogAppendTime"),
        Column("baseTimestamp", _TIME, "timestamp of the first record as written", True),
        Column("maxTimestamp", _TIME, "greatest timestamp of the batch", True),
        Column("deleteHorizon", _TIME, "when compaction may drop its tombstones", True),
        Column("leaderEpoch", _INT, "epoch of the leader that appended it, -1 unknown"),
        Column("producerId", _LONG, "id of the producer, -1 without"),
        Column("producerEpoch", _INT, "epoch of the producer, -1 without"),
        Column("baseSequence", _INT, "sequence number of the first record, -1 without"),
        Column("lastSequence", _INT, "sequence number of the last record, -1 without"),
        Column("isTransactional", _FLAG, "whether the batch belongs to a transaction"),
        Column("isControl", _FLAG, "whether it holds control records"),
        Column("crc", _LONG, "checksum in the header, as an unsigned number"),
    ),
    of_partition=_batches,
    is_streamed=True,
)


# producers


def _producers(source: TableSource, key: TopicPartition) -> list[Row]:
    def rows_of(log: SnapshotLog) -> list[Row]:
        return [
            (
                *key,
                entry.producer_id,
                entry.producer_epoch,
                entry.coordinator_epoch,
                entry.last_sequence,
                entry.last_data_offset,
                _time(entry.last_timestamp),
                entry.txn_first_offset,
            )
            for entry in sorted(log.active_producers().values(), key=lambda one: one.producer_id)
        ]

    config = source.config(key.topic)
    return answer_at_once(lambda: source.open(key), config, source.clock, rows_of)


PRODUCERS: Final = SystemTable(
    "producers",
    "one idempotent or transactional producer that a partition's log remembers",
    (
        *PLACE,
        Column("producerId", _LONG, "id of the producer"),
        Column("producerEpoch", _INT, "its newest epoch"),
        Column("coordinatorEpoch", _INT, "epoch of the coordinator of its last marker, -1 without"),
        Column("lastSequence", _INT, "sequence number of its last record, -1 without"),
        Column("lastOffset", _LONG, "offset of its last record, -1 without"),
        Column("lastTimestamp", _TIME, "timestamp of its last batch", True),
        Column("currentTxnFirstOffset", _LONG, "first offset of its open transaction", True),
    ),
    of_partition=_producers,
)


# transactions


def _transactions(source: TableSource, key: TopicPartition) -> Iterator[Row]:
    with source.open(key) as log:
        stable = log.last_stable_offset(ReadUpTo.LOG_END)
        found = source.ids.named(log.transactions(ReadUpTo.LOG_END))
    if found.damage is not None:
        raise found.damage
    for txn in found.aborted:
        offsets = txn.first_offset, txn.last_offset
        yield *key, "aborted", txn.producer_id, None, *offsets, None, False, txn.transactional_id
    for opened in found.open:
        yield (
            *key,
            "open",
            opened.producer_id,
            None if opened.producer_epoch < 0 else opened.producer_epoch,
            opened.first_offset,
            None,
            _time(opened.first_timestamp),
            opened.first_offset == stable,
            opened.transactional_id,
        )


TRANSACTIONS: Final = SystemTable(
    "transactions",
    "one transaction that is open, or was aborted; committed ones leave no trace to list",
    (
        *PLACE,
        Column("state", _TEXT, "open or aborted"),
        Column("producerId", _LONG, "id of the producer"),
        Column("producerEpoch", _INT, "epoch that began an open transaction", True),
        Column("firstOffset", _LONG, "offset of its first record"),
        Column("markerOffset", _LONG, "offset of the abort marker; null while it is open", True),
        Column("firstTimestamp", _TIME, "when an open transaction began", True),
        Column("holdsLastStableOffset", _FLAG, "whether read_committed waits for it"),
        Column("transactionalId", _TEXT, "the producer's transactional id; null: not known", True),
    ),
    of_partition=_transactions,
)


# gaps


def _gaps(source: TableSource, key: TopicPartition) -> Iterator[Row]:
    with source.open(key) as log:
        for gap in find_gaps(log, 0, log.log_end_offset, fs=source.fs, committed=True):
            yield *key, gap.start_offset, gap.end_offset, gap.cause.value


GAPS: Final = SystemTable(
    "gaps",
    "a range of offsets without a record for a reader of committed records, and why",
    (
        *PLACE,
        Column("startOffset", _LONG, "first offset of the range"),
        Column("endOffset", _LONG, "end of the range, exclusive"),
        Column("cause", _TEXT, "what took the records, or what is there instead"),
    ),
    of_partition=_gaps,
)


# epochs


def _epochs(source: TableSource, key: TopicPartition) -> Iterator[Row]:
    path = os.path.join(source.directory.partition_path(*key), LEADER_EPOCH_FILE)
    entries = read_leader_epochs(source.fs, path) if source.fs.exists(path) else []
    with source.open(key) as log:
        end = log.log_end_offset
    ends = [start for _, start in entries[1:]] + [end]
    for (epoch, start), until in zip(entries, ends, strict=True) if entries else ():
        yield *key, epoch, start, until


EPOCHS: Final = SystemTable(
    "epochs",
    "one leader epoch of a partition, from its leader-epoch-checkpoint",
    (
        *PLACE,
        Column("epoch", _INT, "the epoch"),
        Column("startOffset", _LONG, "first offset that was appended in it"),
        Column("endOffset", _LONG, "start of the next epoch, or the log end offset"),
    ),
    of_partition=_epochs,
)


# plans


def _plan_retention(source: TableSource, key: TopicPartition) -> Iterator[Row]:
    plan = source.retention(key).of(key)
    for gone in plan.deleted:
        yield *key, *gone[:3], True, gone.reason, None, None, None, gone.rule.value, None
    for kept in plan.kept:
        bounds, outlook = kept[:3], list(as_json(kept).values())[3:]
        yield *key, *bounds, False, None, *outlook


PLAN_RETENTION: Final = SystemTable(
    "plan_retention",
    "one segment: whether retention would delete it now, or when it would",
    (
        *PLACE,
        *columns_of(SegmentOutlook, "baseOffset", "endOffset", "sizeBytes"),
        Column("isDeleted", _FLAG, "whether retention would delete it now"),
        Column("reason", _TEXT, "the rule that deletes it", True),
        Column("due", _TIME, "when retention by time would delete it; null: never", True),
        *columns_of(SegmentOutlook, "moreBytes", "heldBy"),
        Column(
            "rule",
            _TEXT,
            "what deletes it: time, size, log start offset, share of the disk; null: none",
            True,
        ),
        Column("isOnDisk", _FLAG, "whether the disk has it, too; null: it would be deleted", True),
    ),
    of_partition=_plan_retention,
)


def _plan_compaction(source: TableSource, key: TopicPartition) -> Iterator[Row]:
    if not source.config(key.topic).is_compacted:
        return
    opened, compaction = partial(source.open, key), compaction_to_plan(source.clock)
    facts = source.compaction_of(key, opened, compaction)
    yield tuple(cells_of(facts.as_row(), PLAN_COMPACTION.columns))


PLAN_COMPACTION: Final = SystemTable(
    "plan_compaction",
    "one compacted partition: how dirty it is, and what a cleaning would drop",
    columns_of(
        CompactionRow,
        *("topic", "partition", "firstDirtyOffset", "firstUncleanableOffset", "heldBy"),
        *("dirtyRatio", "sizeBytes", "recordsRead", "recordsKept", "bytesRead", "bytesKept"),
        *("dropped", "failure"),
        nullable=("heldBy", "dropped"),
    ),
    of_partition=_plan_compaction,
)
