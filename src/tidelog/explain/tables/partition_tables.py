"""The system tables whose rows are about one partition each, read from its files."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tidelog.cleaner.compaction import Compaction
from tidelog.codec.checkpoint_file import read_leader_epochs
from tidelog.codec.compression import codec_name
from tidelog.config.broker_config import BrokerConfig
from tidelog.env.scheduler import InlineScheduler
from tidelog.explain.describe import describe_log
from tidelog.explain.tables.system_table import (
    PARTITION,
    TOPIC,
    Column,
    ColumnType,
    SystemTable,
)
from tidelog.log.leader_epoch import LEADER_EPOCH_FILE
from tidelog.log.retention_outlook import Rule
from tidelog.manager.compaction_plan import plan_compaction
from tidelog.readonly.gaps import find_gaps
from tidelog.readonly.read_only_log import ReadUpTo
from tidelog.readonly.snapshot_log import answer_at_once

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tidelog.explain.tables.system_table import Row, TableSource
    from tidelog.readonly.snapshot_log import SnapshotLog
    from tidelog.records.memory import BatchColumns
    from tidelog.segment.filenames import TopicPartition

_TEXT, _INT, _LONG = ColumnType.TEXT, ColumnType.INT, ColumnType.LONG
_FLAG, _TIME = ColumnType.BOOLEAN, ColumnType.TIME


def _time(ms: int) -> int | None:
    """Return a timestamp; None for -1, which Kafka uses for none."""
    return ms if ms >= 0 else None


# partitions


def _partitions(source: TableSource, key: TopicPartition) -> Iterator[Row]:
    with source.open(key) as log:
        offsets = log.offsets()
        yield (
            *key,
            log.directory,
            offsets.log_start_offset,
            offsets.last_stable_offset,
            offsets.high_watermark,
            offsets.log_end_offset,
            len(log.segments),
            log.size_bytes,
            None if log.damage is None else str(log.damage),
        )


PARTITIONS: Final = SystemTable(
    "partitions",
    "one partition: its offsets and size",
    (
        TOPIC,
        PARTITION,
        Column("directory", _TEXT, "path of the partition's directory"),
        Column("logStartOffset", _LONG, "first offset that can be read"),
        Column("lastStableOffset", _LONG, "end (exclusive) of what read_committed may read"),
        Column("highWatermark", _LONG, "end (exclusive) of what consumers may read"),
        Column("logEndOffset", _LONG, "the offset that the next record will get"),
        Column("segments", _INT, "number of segments"),
        Column("sizeBytes", _LONG, "bytes of record batches"),
        Column("damage", _TEXT, "what ends the readable part of the log; null: nothing", True),
    ),
    of_partition=_partitions,
)


# segments


def _segments(source: TableSource, key: TopicPartition) -> Iterator[Row]:
    with source.open(key) as log:
        facts = describe_log(log, source.topic(key.topic), with_contents=True)
    for segment in facts.segments:
        contents = segment.contents
        if contents is None:
            continue
        yield (
            *key,
            segment.base_offset,
            segment.end_offset,
            segment.log_bytes,
            segment.index_bytes,
            segment.time_index_bytes,
            segment.txn_index_bytes,
            segment.is_active,
            contents.batches,
            contents.records,
            contents.control_batches,
            contents.transactional_batches,
            _time(contents.min_timestamp),
            _time(contents.max_timestamp),
            contents.codecs,
            contents.is_whole,
        )


SEGMENTS: Final = SystemTable(
    "segments",
    "one segment of a partition, counted from its batch headers",
    (
        TOPIC,
        PARTITION,
        Column("baseOffset", _LONG, "first offset that the segment may hold"),
        Column("endOffset", _LONG, "base offset of the next segment, or the log end offset"),
        Column("logBytes", _LONG, "bytes of record batches"),
        Column("indexBytes", _LONG, "bytes of the offset index file, 0 without one"),
        Column("timeIndexBytes", _LONG, "bytes of the time index file, 0 without one"),
        Column("txnIndexBytes", _LONG, "bytes of the transaction index file, 0 without one"),
        Column("isActive", _FLAG, "whether appends go to this segment"),
        Column("batches", _LONG, "number of record batches"),
        Column("records", _LONG, "number of records as headers state it, without control records"),
        Column("controlBatches", _LONG, "number of batches of control records"),
        Column("transactionalBatches", _LONG, "number of data batches of transactions"),
        Column("minTimestamp", _TIME, "least base timestamp of its batches", True),
        Column("maxTimestamp", _TIME, "greatest timestamp", True),
        Column("codecs", ColumnType.COUNTS, "number of batches by codec"),
        Column("isWhole", _FLAG, "false if damage ended the count"),
    ),
    of_partition=_segments,
)


# batches


def _batches(source: TableSource, key: TopicPartition) -> Iterator[Row]:
    with source.open(key) as log:
        bases = [segment.base_offset for segment in log.segments]
        for piece in log.pieces(log.log_start_offset, log.log_end_offset):
            yield from _batch_rows(key, bases, piece.batches)


def _batch_rows(
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
        TOPIC,
        PARTITION,
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
        TOPIC,
        PARTITION,
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
        found = log.transactions(ReadUpTo.LOG_END)
    if found.damage is not None:
        raise found.damage
    for txn in found.aborted:
        yield *key, "aborted", txn.producer_id, None, txn.first_offset, txn.last_offset, None, False
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
        )


TRANSACTIONS: Final = SystemTable(
    "transactions",
    "one transaction that is open, or was aborted; committed ones leave no trace to list",
    (
        TOPIC,
        PARTITION,
        Column("state", _TEXT, "open or aborted"),
        Column("producerId", _LONG, "id of the producer"),
        Column("producerEpoch", _INT, "epoch that began an open transaction", True),
        Column("firstOffset", _LONG, "offset of its first record"),
        Column("markerOffset", _LONG, "offset of the abort marker; null while it is open", True),
        Column("firstTimestamp", _TIME, "when an open transaction began", True),
        Column("holdsLastStableOffset", _FLAG, "whether read_committed waits for it"),
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
        TOPIC,
        PARTITION,
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
        TOPIC,
        PARTITION,
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
        size = gone.size_bytes
        bounds, reason = (gone.base_offset, gone.end_offset, size), gone.reason
        yield *key, *bounds, True, reason, None, None, None, Rule.of_reason(reason).value
    for kept in plan.kept:
        bounds = kept.base_offset, kept.end_offset, kept.size_bytes
        rule = None if kept.rule is None else kept.rule.value
        yield *key, *bounds, False, None, kept.due_ms, kept.more_bytes, kept.held_by or None, rule


PLAN_RETENTION: Final = SystemTable(
    "plan_retention",
    "one segment: whether retention would delete it now, or when it would",
    (
        TOPIC,
        PARTITION,
        Column("baseOffset", _LONG, "first offset that the segment may hold"),
        Column("endOffset", _LONG, "end of its offsets, exclusive"),
        Column("sizeBytes", _LONG, "bytes of record batches"),
        Column("isDeleted", _FLAG, "whether retention would delete it now"),
        Column("reason", _TEXT, "the rule that deletes it", True),
        Column("due", _TIME, "when retention by time would delete it; null: never", True),
        Column("moreBytes", _LONG, "growth of the log until retention by size deletes it", True),
        Column("heldBy", _TEXT, "what else prevents that; null: nothing", True),
        Column(
            "rule",
            _TEXT,
            "what deletes it: time, size, log start offset, share of the disk; null: none",
            True,
        ),
    ),
    of_partition=_plan_retention,
)


def _plan_compaction(source: TableSource, key: TopicPartition) -> Iterator[Row]:
    config = source.config(key.topic)
    if not config.is_compacted:
        return
    compaction = Compaction(
        BrokerConfig(),
        clock=source.clock,
        scheduler=InlineScheduler(),
        rng=random.SystemRandom(),
    )
    facts = plan_compaction(
        lambda: source.open(key), config, source.cleaner_lines(key), source.clock, compaction
    ).as_json()
    yield *key, *(facts.get(column.name) for column in PLAN_COMPACTION.columns[2:])


PLAN_COMPACTION: Final = SystemTable(
    "plan_compaction",
    "one compacted partition: how dirty it is, and what a cleaning would drop",
    (
        TOPIC,
        PARTITION,
        Column("firstDirtyOffset", _LONG, "end (exclusive) of what is cleaned"),
        Column("firstUncleanableOffset", _LONG, "end (exclusive) of what may be cleaned now"),
        Column("heldBy", _TEXT, "what sets that end", True),
        Column("dirtyRatio", ColumnType.DOUBLE, "share of the cleanable bytes that is dirty"),
        Column("sizeBytes", _LONG, "bytes of record batches"),
        Column("recordsRead", _LONG, "records that a cleaning would read", True),
        Column("recordsKept", _LONG, "records that it would keep", True),
        Column("bytesRead", _LONG, "bytes that it would read", True),
        Column("bytesKept", _LONG, "bytes that it would write", True),
        Column("dropped", ColumnType.COUNTS, "dropped records by reason", True),
        Column("failure", _TEXT, "why the last cleanings failed", True),
    ),
    of_partition=_plan_compaction,
)
