"""Arrow tables as record batches, grouped by partition.

Kafka: the producer's ``RecordAccumulator`` and ``MemoryRecordsBuilder``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tidelog.arrow.record_tables import column, record_source
from tidelog.arrow.row_partitions import Partitioner, rows_by_partition
from tidelog.errors import InvalidRecord, InvalidTimestamp
from tidelog.kernels import rows
from tidelog.records.batch import NO_TIMESTAMP, TimestampType
from tidelog.records.builder import BatchSpec
from tidelog.records.bulk_builder import build_batches
from tidelog.records.validation.record_rules import KEYLESS, time_limits

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from tidelog.arrow.batch_form import BatchForm
    from tidelog.arrow.buffers import Bytes
    from tidelog.records.batch_columns import BatchColumns
    from tidelog.records.bulk_builder import RecordSource
    from tidelog.records.validation.policy import LeaderPolicy


class Encoded(NamedTuple):
    """Whole batches of one partition."""

    partition: int
    data: Bytes
    batches: BatchColumns
    records: int


class TopicEncoder:
    """Converts tables of one topic to batches; used by one thread.

    Base offsets start at 0 in each partition, and leader epochs are -1; appending the batches to a
    log sets both.

    Args:
        partitions: number of partitions of the topic.
        form: how batches are built.
        first: the partition at which rows without a key start.
        policy: the topic's rules for records; None for no checks.
    """

    def __init__(
        self,
        partitions: int,
        form: BatchForm,
        first: int = 0,
        policy: LeaderPolicy | None = None,
    ) -> None:
        self._form = form
        self._policy = policy
        self._partitioner = Partitioner(partitions, form.batch_bytes, first)
        self._next_offsets = [0] * partitions

    def encode(self, table: pa.RecordBatch, now_ms: int) -> Iterator[Encoded]:
        """Yield the batches of each partition that has rows, in order of partitions.

        Args:
            table: some or all of the columns key, value, headers, timestamp and partition.
            now_ms: the timestamp of rows without one.

        Raises:
            InvalidArgument, InvalidRecord, InvalidTimestamp, UnknownTopicOrPartition: a row is not
                a valid record, or not valid for the topic; nothing of the table is yielded.
        """
        form = self._form
        records = record_source(table, now_ms)
        if self._policy is not None:
            check_rows(records, self._policy, now_ms)
        chosen = self._partitioner.assign(records, column(table, "partition"))
        order = rows_by_partition(chosen, len(self._next_offsets))
        for partition, chosen_rows in enumerate(order):
            if len(chosen_rows):
                base_offset = self._next_offsets[partition]
                made = build_batches(
                    records,
                    BatchSpec(base_offset=base_offset, codec=form.codec, level=form.level),
                    chosen=chosen_rows,
                    batch_bytes=form.batch_bytes,
                )
                self._next_offsets[partition] += len(chosen_rows)
                yield Encoded(partition, made.data, made.batches, len(chosen_rows))


def check_rows(records: RecordSource, policy: LeaderPolicy, now_ms: int) -> None:
    """Check keys and timestamps as a leader does on append.

    Raises:
        InvalidRecord: a row has no key, and the topic is or might be compacted.
        InvalidTimestamp: a row's timestamp is outside the topic's limits.
    """
    if policy.needs_keys:
        without_key = np.flatnonzero(records.table[rows.KEY_SIZE] < 0)
        if len(without_key):
            raise InvalidRecord(f"row {without_key[0]} {KEYLESS[policy.is_policy_known]}")
    if policy.timestamp_type is TimestampType.CREATE_TIME:
        times = records.table[rows.TIMESTAMP]
        least, greatest = time_limits(
            now_ms, policy.timestamp_before_max_ms, policy.timestamp_after_max_ms
        )
        outside = np.flatnonzero(((times < least) | (times > greatest)) & (times != NO_TIMESTAMP))
        if len(outside):
            row = int(outside[0])
            limits = f"[{least}, {greatest}], the topic's limits"
            raise InvalidTimestamp(f"timestamp {times[row]} of row {row} is outside {limits}")
