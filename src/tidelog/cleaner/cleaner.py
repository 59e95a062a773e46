"""One cleaning of one log: a map of its dirty part's keys, then groups of segments copied.

Owns the order of the steps and the swap of new segments for old. Must not know which log is to be
cleaned, other logs, or checkpoints. Kafka: ``Cleaner``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.cleaner.background_writers import Aside
from tidelog.cleaner.cleanable_range import GroupLimits, group_by_size, sizes_of
from tidelog.cleaner.offset_map import OffsetMap
from tidelog.cleaner.offset_map_builder import KeyMapBuilder
from tidelog.cleaner.segment_copy import Copier, Round
from tidelog.cleaner.stats import Tally
from tidelog.cleaner.swap import Swaps, behind
from tidelog.kernels.runtime.gate import use_kernels

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from tidelog.cleaner.background_writers import Hands
    from tidelog.cleaner.cleaning_result import Dropped
    from tidelog.cleaner.record_filter import Filtered
    from tidelog.cleaner.throttle import Pace
    from tidelog.env.clock import Clock
    from tidelog.env.scheduler import Scheduler
    from tidelog.log.log import Log
    from tidelog.segment.segment import LogSegment
    from tidelog.segment.txn_index import AbortedTxn


class CleanerSettings(NamedTuple):
    """What one cleaner may use: bytes for its map, how full that may get."""

    map_bytes: int
    load_factor: float


class Cleanable(NamedTuple):
    """The part of a log that one cleaning is about; both ends are bases of what is read.

    Offsets from ``first_dirty_offset`` on were never cleaned; those from
    ``first_uncleanable_offset`` on must not be. Source: Kafka LogToClean.
    """

    first_dirty_offset: int
    first_uncleanable_offset: int

    @property
    def is_empty(self) -> bool:
        """Whether nothing is dirty; then nothing is done, as in Kafka."""
        return self.first_dirty_offset >= self.first_uncleanable_offset


class Cleaned(NamedTuple):
    """What one cleaning did; the next one begins at ``end_offset``."""

    end_offset: int
    tally: Tally


class Cleaner:
    """Cleans one log at a time. Source: Kafka Cleaner.

    ``hands``: the threads that may help it and others, as in ``Aside``.
    """

    def __init__(
        self,
        settings: CleanerSettings,
        *,
        clock: Clock,
        scheduler: Scheduler,
        rng: Random,
        pace: Pace,
        hands: Hands | None = None,
    ) -> None:
        self._settings: Final = settings
        self._clock: Final = clock
        self._scheduler: Final = scheduler
        self._rng: Final = rng
        self._pace: Final = pace
        self._hands: Final = hands

    def clean(self, log: Log, cleanable: Cleanable, now_ms: int) -> Cleaned:
        """Compact ``log`` up to where the map is full, or to where its cleanable part ends.

        Each group of segments is made durable and put in place while the next one is cleaned, no
        later; after an abort or an error those done stay.

        Raises:
            CleaningAborted: the check between two pieces asked for it, or a segment with offsets
                that do not fit had to be split; clean again later.
            CorruptMessage, InvalidRecord: a batch is damaged.
            InvalidArgument: a record cannot be written again, as a negative timestamp cannot.
            SegmentOffsetOverflow: the offset of a batch is damaged.
            KafkaStorageError: the disk failed.
        """
        tally, started = Tally(), self._clock.monotonic_ns()
        if cleanable.is_empty:
            return Cleaned(cleanable.first_dirty_offset, tally)
        plan, end_offset = self._map(log, cleanable, now_ms, tally)
        mapped = self._clock.monotonic_ns()
        tally.map_ns = mapped - started
        copier = Copier(plan, tally, self._pace)
        aside = Aside(self._scheduler, self._hands)
        swaps = Swaps(log, copier, self._pace, aside)
        try:
            for group in _groups(log, end_offset, cleanable):
                swaps.clean(group)
        finally:
            try:
                swaps.settle()
            finally:
                aside.end()
        tally.copy_ns = self._clock.monotonic_ns() - mapped
        return Cleaned(end_offset, tally)

    def plan(
        self,
        log: Log,
        cleanable: Cleanable,
        now_ms: int,
        on_dropped: Callable[[Dropped], None] | None = None,
    ) -> Cleaned:
        """Do all that ``clean`` does but write; ``on_dropped`` is told what would go."""
        tally = Tally()
        if cleanable.is_empty:
            return Cleaned(cleanable.first_dirty_offset, tally)
        plan, end_offset = self._map(log, cleanable, now_ms, tally)
        copier = Copier(plan._replace(on_dropped=on_dropped), tally, self._pace)
        for group in _groups(log, end_offset, cleanable):
            copier.copy(group, behind(log, group), log.producers.producers, _Nowhere())
        return Cleaned(end_offset, tally)

    def _map(self, log: Log, cleanable: Cleanable, now_ms: int, tally: Tally) -> tuple[Round, int]:
        """Read the keys; return what copying has to know, and where this round ends."""
        start, end = cleanable
        offset_map = OffsetMap(
            self._settings.map_bytes,
            self._settings.load_factor,
            start_offset=start,
            span=end - start,
            rng=self._rng,
            with_kernels=_pays_for_kernels(log, end),
        )
        segments = log.segments.overlapping(start, log.log_end_offset + 1)
        KeyMapBuilder(offset_map, start, end, tally, self._pace).build(segments)
        tally.buffer_utilization = offset_map.utilization
        retention_ms = log.config.delete_retention_ms
        clean = [segment for segment in log.segments if segment.base_offset < start]
        old_ms = clean[-1].modified_ms - retention_ms if clean else 0
        plan = Round(offset_map, start, end, now_ms, retention_ms, old_ms)
        return plan, offset_map.latest_offset + 1


def _pays_for_kernels(log: Log, end_offset: int) -> bool:
    """Say whether there is enough to clean; plain code hashes about 1 MB/s of small records."""
    size_bytes = sum(part.size_bytes for part in log.segments if part.base_offset < end_offset)
    return use_kernels(size_bytes * 8)


def _groups(log: Log, end_offset: int, cleanable: Cleanable) -> list[list[LogSegment]]:
    """Return the segments to be copied, those together that become one."""
    segments = [segment for segment in log.segments if segment.base_offset < end_offset]
    sizes = sizes_of(segments, cleanable.first_uncleanable_offset)
    config = log.config
    limits = GroupLimits(config.segment_size_bytes, config.segment_index_bytes)
    remaining = iter(segments)
    return [[next(remaining) for _ in group] for group in group_by_size(sizes, limits)]


class _Nowhere:
    """Takes what would be written, and forgets it."""

    def append(self, filtered: Filtered) -> None:
        pass

    def name_aborted(self, aborted: Sequence[AbortedTxn]) -> None:
        pass
