"""Limits the size of a micro-batch, and delays one until enough offsets are available.

Spark: ``KafkaMicroBatchStream.rateLimit`` and ``delayBatch``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from tidelog.env.clock import NS_PER_MS
from tidelog.spark.read.stream_offsets import StreamOffset

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.env.clock import Clock
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.readonly.splits import Split
    from tidelog.segment.filenames import TopicPartition
    from tidelog.spark.options.source_options import TriggerLimits

    Offsets = Mapping[TopicPartition, int]

_UNLIMITED: Final = 1 << 62


class RateLimit:
    """Applies ``TriggerLimits`` to successive micro-batches."""

    def __init__(self, limits: TriggerLimits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._last_batch_ns: int | None = None

    def delay_batch(self, begin: StreamOffset, available: StreamOffset) -> bool:
        """Return whether to delay the batch, since too few offsets are available so far.

        The first batch is never delayed. Call this once for each attempt at a batch: if the batch
        is not delayed, the maximum delay of the next one starts now.
        """
        minimum = self._limits.min_offsets
        if minimum is None:
            return False
        now_ns = self._clock.monotonic_ns()
        last_ns = self._last_batch_ns
        delay_ns = self._limits.max_delay_ms * NS_PER_MS
        if last_ns is not None and now_ns - last_ns < delay_ns:
            ends = available.offsets.items()
            if sum(end - begin.offsets.get(partition, 0) for partition, end in ends) < minimum:
                return True
        self._last_batch_ns = now_ns
        return False

    def apply(
        self,
        begins: Offsets,
        available: StreamOffset,
        logs: Mapping[TopicPartition, ReadOnlyLog],
    ) -> StreamOffset:
        """Return the end of a batch within the limits; each partition with new offsets advances.

        Args:
            begins: where the batch begins in each partition (inclusive).
            available: the end of the available offsets (exclusive).
            logs: the logs to look up sizes in; a partition without a log is not limited by bytes.
        """
        ends = dict(available.offsets)
        if self._limits.max_offsets is not None:
            ends = limit_offsets(begins, ends, self._limits.max_offsets)
        if self._limits.max_bytes is not None:
            ends = limit_bytes(begins, ends, self._limits.max_bytes, logs)
        return StreamOffset(ends, available.topic_ids)


def limit_offsets(begins: Offsets, ends: Offsets, limit: int) -> dict[TopicPartition, int]:
    """Share ``limit`` offsets in proportion to the size of each partition, at least one each."""
    sizes = {partition: ends[partition] - begin for partition, begin in begins.items()}
    total = sum(size for size in sizes.values() if size > 0)
    limited = dict(ends)
    for partition, size in sizes.items():
        if size > 0:
            share = limit * size / total
            count = math.ceil(share) if share < 1 else math.floor(share)
            limited[partition] = min(begins[partition] + count, ends[partition])
    return limited


def limit_bytes(
    begins: Offsets, ends: Offsets, limit: int, logs: Mapping[TopicPartition, ReadOnlyLog]
) -> dict[TopicPartition, int]:
    """Share ``limit`` bytes in proportion to the size of each partition.

    Splits are made at index entries, so a batch may exceed the limit.
    """

    def first_split(partition: TopicPartition, size_bytes: int) -> Split:
        log = logs[partition]
        return log.splits(begins[partition], ends[partition], size_bytes)[0]

    growing = [each for each in begins if each in logs and begins[each] < ends[each]]
    sizes = {partition: first_split(partition, _UNLIMITED).size_bytes for partition in growing}
    total = sum(sizes.values())
    limited = dict(ends)
    if total > limit:
        for partition, size in sizes.items():
            share = max(limit * size // total, 1)
            limited[partition] = first_split(partition, share).end_offset
    return limited
