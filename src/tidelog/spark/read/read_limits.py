"""How much of what is there one micro-batch takes, and when it is worth one.

Owns the sharing of a limit among partitions, and the wait for enough offsets. Must not know Spark.
Spark: ``KafkaMicroBatchStream.rateLimit`` and ``delayBatch``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from tidelog.spark.read.stream_offsets import StreamOffset

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tidelog.env.clock import Clock
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.segment.filenames import TopicPartition
    from tidelog.spark.options.source_options import TriggerLimits

    Offsets = Mapping[TopicPartition, int]

_NS_PER_MS: Final = 1_000_000
_WHOLE: Final = 1 << 62


class RateLimit:
    """Applies ``TriggerLimits`` to one batch after the other."""

    def __init__(self, limits: TriggerLimits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._last_batch_ns: int | None = None

    def is_to_wait(self, begin: StreamOffset, available: StreamOffset) -> bool:
        """Say whether there is too little for a batch, and time to wait for more; asked once each.

        The first batch waits for nothing.
        """
        least = self._limits.min_offsets
        if least is None:
            return False
        now_ns = self._clock.monotonic_ns()
        last_ns = self._last_batch_ns
        delay_ns = self._limits.max_delay_ms * _NS_PER_MS
        if last_ns is not None and now_ns - last_ns < delay_ns:
            offsets = available.offsets.items()
            if sum(end - begin.offsets.get(place, 0) for place, end in offsets) < least:
                return True
        self._last_batch_ns = now_ns
        return False

    def apply(
        self,
        begins: Offsets,
        available: StreamOffset,
        logs: Mapping[TopicPartition, ReadOnlyLog],
    ) -> StreamOffset:
        """Return an end within the limits; each partition with something new gets on.

        Args:
            begins: where the batch begins in each partition.
            available: the end of what is there.
            logs: to look up bytes in; a partition without is not cut by bytes.
        """
        ends = dict(available.offsets)
        if self._limits.max_offsets is not None:
            ends = limit_offsets(begins, ends, self._limits.max_offsets)
        if self._limits.max_bytes is not None:
            ends = limit_bytes(begins, ends, self._limits.max_bytes, logs)
        return StreamOffset(ends, available.topic_ids)


def limit_offsets(begins: Offsets, ends: Offsets, most: int) -> dict[TopicPartition, int]:
    """Share ``most`` offsets in proportion to what each partition has; each gets one at least."""
    sizes = {place: ends[place] - begin for place, begin in begins.items()}
    total = sum(size for size in sizes.values() if size > 0)
    limited = dict(ends)
    for place, size in sizes.items():
        if size > 0:
            share = most * size / total
            taken = math.ceil(share) if share < 1 else math.floor(share)
            limited[place] = min(begins[place] + taken, ends[place])
    return limited


def limit_bytes(
    begins: Offsets, ends: Offsets, most: int, logs: Mapping[TopicPartition, ReadOnlyLog]
) -> dict[TopicPartition, int]:
    """Share ``most`` bytes of log likewise; cuts are made at index entries, so it may be more."""
    wanted = [place for place in begins if place in logs and begins[place] < ends[place]]
    sizes = {
        place: logs[place].splits(begins[place], ends[place], _WHOLE)[0].size_bytes
        for place in wanted
    }
    total = sum(sizes.values())
    limited = dict(ends)
    if total > most:
        for place, size in sizes.items():
            share = max(most * size // total, 1)
            limited[place] = logs[place].splits(begins[place], ends[place], share)[0].end_offset
    return limited
