"""Cleans one log once: maps the keys of its dirty part, then copies groups of segments.

Kafka: ``Cleaner``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.cleaner.cleanable_range import GroupLimits, group_by_size, sizes_of
from tidelog.cleaner.keys.offset_map import OffsetMap
from tidelog.cleaner.keys.offset_map_builder import OffsetMapBuilder
from tidelog.cleaner.rewriting.background_writers import BackgroundWriters
from tidelog.cleaner.rewriting.delete_horizon import legacy_horizon_of
from tidelog.cleaner.rewriting.segment_copy import CleaningRound, CountedCopy, SegmentCopier
from tidelog.cleaner.rewriting.swap import SegmentSwapper
from tidelog.cleaner.stats import CleanerStats
from tidelog.errors import InvalidArgument
from tidelog.kernels.runtime.gate import use_kernels
from tidelog.log.directory_guard import is_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    from tidelog.cleaner.cleanable_range import OffsetsToClean
    from tidelog.cleaner.rewriting.background_writers import WriterSlots
    from tidelog.cleaner.rewriting.filter_result import DroppedRecords
    from tidelog.cleaner.source_log import SourceLog
    from tidelog.cleaner.throttle import CleanerIo
    from tidelog.config.log_config import LogConfig
    from tidelog.env.clock import Clock
    from tidelog.env.scheduler import Scheduler
    from tidelog.log.log import Log
    from tidelog.segment.segment import LogSegment


class CleanerSettings(NamedTuple):
    """Bytes that one cleaner may use for its offset map, and the load factor of that."""

    map_bytes: int
    load_factor: float


class CleaningResult(NamedTuple):
    """Where one cleaning ended (exclusive), which is where the next one begins; and its stats."""

    end_offset: int
    stats: CleanerStats


class Cleaner:
    """Cleans one log at a time. Source: Kafka Cleaner.

    Args:
        settings: of the offset map.
        clock: measures how long a cleaning takes.
        scheduler: runs the background writers.
        rng: makes the random keys of hashes.
        io: the piece size, the abort check and the throttler.
        writer_slots: a limit on background writers shared with other cleaners.
    """

    def __init__(
        self,
        settings: CleanerSettings,
        *,
        clock: Clock,
        scheduler: Scheduler,
        rng: Random,
        io: CleanerIo,
        writer_slots: WriterSlots | None = None,
    ) -> None:
        self._settings: Final = settings
        self._clock: Final = clock
        self._scheduler: Final = scheduler
        self._rng: Final = rng
        self._io: Final = io
        self._writer_slots: Final = writer_slots

    def clean(
        self,
        log: Log,
        to_clean: OffsetsToClean,
        now_ms: int,
        config: LogConfig | None = None,
        *,
        on_swapped: Callable[[int], None] = lambda _: None,
    ) -> CleaningResult:
        """Compact ``log`` up to where the map is full, or to the end of ``to_clean``.

        ``config`` stands for the log's own settings. Each group of segments is flushed and swapped
        in by the time the next one is copied; then ``on_swapped`` is called, on any thread, with
        the offset up to which the log is clean. Groups swapped in before an abort or an error stay
        cleaned. All of the log is made durable before the first of them: no durable record is
        dropped for a record, or a transaction's end, that a crash could still take.

        Raises:
            CleaningAborted: ``check_done`` asked for it, or a segment with offsets that do not fit
                its indexes had to be split; clean again later.
            CorruptMessage, InvalidRecord: a batch is damaged.
            InvalidArgument: ``to_clean`` does not end in the log; or a record cannot be rewritten,
                such as one with a negative timestamp.
            SegmentOffsetOverflow: the offset of a batch is damaged.
            KafkaStorageError: an I/O error.
        """
        stats, started_ns = CleanerStats(), self._clock.monotonic_ns()
        if to_clean.is_empty:
            return CleaningResult(to_clean.first_dirty_offset, stats)
        _check_range(log, to_clean)
        config = config or log.config
        with log.watch("cleaning"):
            cleaning_round = self._build_map(log, to_clean, now_ms, stats, config)
        mapped_ns = self._clock.monotonic_ns()
        stats.map_ns = mapped_ns - started_ns
        copier = SegmentCopier(cleaning_round, stats, self._io)
        writers = BackgroundWriters(self._scheduler, self._writer_slots)
        swapper = SegmentSwapper(log, copier, self._io, writers, on_swapped)
        # Records are dropped for later ones of their keys, which must be durable by then.
        log.flush()
        end_offset = cleaning_round.offset_map.latest_offset + 1
        try:
            groups = groups_of(log, end_offset, to_clean, config)
            for group, end in zip(groups, ends_of(groups, end_offset), strict=True):
                swapper.clean_segments(group, end)
            swapper.join()
        except BaseException as error:
            swapper.wait()
            # An interrupt may have stopped the swap, too: the log must then be reopened. Its error
            # must not replace the interrupt, by which the command ends.
            if not is_interrupt(error):
                swapper.join()
            raise
        finally:
            writers.close()
        stats.copy_ns = self._clock.monotonic_ns() - mapped_ns
        return CleaningResult(end_offset, stats)

    def plan(
        self,
        log: SourceLog,
        to_clean: OffsetsToClean,
        now_ms: int,
        on_dropped: Callable[[DroppedRecords], None] | None = None,
    ) -> CleaningResult:
        """Do what ``clean`` does, but write nothing; ``log`` may be a snapshot of one.

        ``on_dropped`` is called with the records that a cleaning would drop.
        """
        stats = CleanerStats()
        if to_clean.is_empty:
            return CleaningResult(to_clean.first_dirty_offset, stats)
        _check_range(log, to_clean)
        cleaning_round = self._build_map(log, to_clean, now_ms, stats, log.config)
        copier = SegmentCopier(cleaning_round._replace(on_dropped=on_dropped), stats, self._io)
        end_offset = cleaning_round.offset_map.latest_offset + 1
        # Without a target, and with the producers of one moment, all may be one group.
        segments = [segment for segment in log.segments if segment.base_offset < end_offset]
        following = [segment for segment in log.segments if segment.base_offset >= end_offset]
        copier.copy(segments, following, log.active_producers(), CountedCopy())
        return CleaningResult(end_offset, stats)

    def _build_map(
        self,
        log: SourceLog,
        to_clean: OffsetsToClean,
        now_ms: int,
        stats: CleanerStats,
        config: LogConfig,
    ) -> CleaningRound:
        """Build the offset map; return what all groups of this cleaning share."""
        start, end = to_clean
        offset_map = OffsetMap(
            self._settings.map_bytes,
            self._settings.load_factor,
            start_offset=start,
            span=end - start,
            rng=self._rng,
            with_kernels=is_worth_kernels(log, end),
        )
        segments = log.segments.overlapping(start, log.log_end_offset + 1)
        OffsetMapBuilder(offset_map, to_clean, stats, self._io).build(segments)
        stats.buffer_utilization = offset_map.utilization
        horizon_ms = legacy_horizon_of(log, start, config)
        retention_ms = config.delete_retention_ms
        return CleaningRound(offset_map, start, end, now_ms, retention_ms, horizon_ms)


def _check_range(log: SourceLog, to_clean: OffsetsToClean) -> None:
    """Raise InvalidArgument unless a range that is not empty ends in the log."""
    first, end = next(iter(log.segments)).base_offset, log.log_end_offset
    if not first < to_clean.first_uncleanable_offset <= end:
        asked = f"[{to_clean.first_dirty_offset}, {to_clean.first_uncleanable_offset})"
        raise InvalidArgument(f"offsets {asked} cannot be cleaned: the log holds [{first}, {end})")


def is_worth_kernels(log: SourceLog, end_offset: int) -> bool:
    """Return whether there is enough to clean to load compiled code.

    The factor: plain code hashes only about 1 MB/s of small records.
    """
    segments = (segment for segment in log.segments if segment.base_offset < end_offset)
    return use_kernels(sum(segment.size_bytes for segment in segments) * 8)


def groups_of(
    log: Log, end_offset: int, to_clean: OffsetsToClean, config: LogConfig
) -> list[list[LogSegment]]:
    """Return the segments to copy, in groups of which each becomes one segment."""
    segments = [segment for segment in log.segments if segment.base_offset < end_offset]
    sizes = sizes_of(segments, to_clean.first_uncleanable_offset)
    limits = GroupLimits(config.segment_size_bytes, config.segment_index_bytes)
    remaining = iter(segments)
    return [[next(remaining) for _ in group] for group in group_by_size(sizes, limits)]


def ends_of(groups: Sequence[Sequence[LogSegment]], end_offset: int) -> list[int]:
    """Return up to where each group is cleaned; the last one to the end of the cleaning."""
    return [*(group[0].base_offset for group in groups[1:]), end_offset][: len(groups)]
