"""One cleaning of a log on demand, or the plan of it, as values.

Such a cleaning ignores ``min.cleanable.dirty.ratio``. Kafka has none: its cleaner chooses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.cleaner.cleaner import Cleaner, CleanerSettings
from tidelog.cleaner.compaction_facts import CompactionFacts
from tidelog.cleaner.keys.offset_map import usable_entries
from tidelog.cleaner.pick import examine
from tidelog.cleaner.spread.spread_cleaner import SpreadCleaner
from tidelog.cleaner.throttle import CleanerIo

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tidelog.cleaner.failed_cleanings import Failure
    from tidelog.cleaner.rewriting.filter_result import DroppedRecords
    from tidelog.cleaner.source_log import SourceLog
    from tidelog.cleaner.spread.spread_cleaner import Workers
    from tidelog.config.broker_config import BrokerConfig
    from tidelog.config.log_config import LogConfig
    from tidelog.env.clock import Clock
    from tidelog.env.files import FileSystem
    from tidelog.env.scheduler import Scheduler
    from tidelog.log.log import Log

PIECE_BYTES: Final = 1 << 20


class CompactionProgress(NamedTuple):
    """How many bytes a cleaning of one log has read, and about how many it will read in all."""

    topic: str
    partition: int
    done_bytes: int
    total_bytes: int


def examine_log(
    key: tuple[str, int],
    log: SourceLog,
    checkpoint: int | None,
    failure: Failure | None,
    now_ms: int,
    *,
    config: LogConfig | None = None,
) -> CompactionFacts:
    """Return how a log stands, without reading its keys.

    Args:
        key: its topic and partition.
        log: the log, or a snapshot of it.
        checkpoint: its line in the cleaner's checkpoint; None without one.
        failure: how its cleanings have failed; None if they have not.
        now_ms: the time.
        config: stands for the log's own settings.

    Raises CorruptMessage, KafkaStorageError.
    """
    found = examine(log, checkpoint, now_ms, config)
    in_force = config or log.config
    return CompactionFacts(
        *key,
        is_compacted=in_force.is_compacted,
        to_clean=found,
        end_offset=found.offsets.first_dirty_offset,
        size_bytes=log.size_bytes,
        stats=None,
        failure=failure,
        cleanup_policy=",".join(in_force.cleanup_policy) if in_force.is_policy_known else None,
    )


class Spread(NamedTuple):
    """Many processes that clean, and from which size on they do.

    A log of less than ``min_bytes`` is cleaned by this process alone, if all its keys are certain
    to fit one offset map. ``is_exact``: keys are compared themselves, not only by their hashes,
    which one process alone does not do; so ``min_bytes`` has no effect.
    """

    workers: Workers
    fs: FileSystem
    min_bytes: int
    is_exact: bool = False

    def why_local(self, facts: CompactionFacts, config: BrokerConfig) -> str | None:
        """Return why this process alone cleans a log; None: it does not."""
        size_bytes, (start, end) = facts.to_clean.total_bytes, facts.to_clean.offsets
        if not facts.is_due:
            return "there is nothing to clean"
        if size_bytes >= self.min_bytes or self.is_exact:
            return None
        load_factor = config.log_cleaner_io_buffer_load_factor
        if end - start > usable_entries(config.log_cleaner_dedupe_buffer_size, load_factor):
            return None
        return f"{size_bytes:,} bytes are less than {self.min_bytes:,}"


class Compaction:
    """Cleans logs on demand, one cleaning each.

    Args:
        config: the broker's settings; the cleaner's buffers are used whole.
        clock: measures how long a cleaning takes.
        scheduler: runs the background writers.
        rng: makes the random keys of hashes.
        check_done: raises CleaningAborted once a cleaning is to stop.
        on_progress: called repeatedly during a cleaning or its plan.
        spread: many processes that clean what is large; None: this process cleans all.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        clock: Clock,
        scheduler: Scheduler,
        rng: Random,
        check_done: Callable[[], None] = lambda: None,
        on_progress: Callable[[CompactionProgress], None] = lambda _: None,
        spread: Spread | None = None,
    ) -> None:
        settings = CleanerSettings(
            config.log_cleaner_dedupe_buffer_size, config.log_cleaner_io_buffer_load_factor
        )
        self._on_progress: Final = on_progress
        self._progress = CompactionProgress("", 0, 0, 0)
        io = CleanerIo(PIECE_BYTES, check_done, watch_read=self._have_read)
        self._cleaner: Final = Cleaner(settings, clock=clock, scheduler=scheduler, rng=rng, io=io)
        self._config: Final = config
        self._spread: Final = spread
        self._clock: Final = clock
        self._rng: Final = rng

    def clean(
        self,
        log: Log,
        facts: CompactionFacts,
        now_ms: int,
        config: LogConfig | None = None,
        *,
        check_planned: Callable[[], None] = lambda: None,
        on_swapped: Callable[[int], None] = lambda _: None,
    ) -> CompactionFacts:
        """Clean what is dirty by ``facts``; other arguments and errors as ``Cleaner.clean``.

        ``check_planned``: see ``SpreadCleaner.clean``.
        """
        if not facts.is_due:
            return facts
        self._begin(facts)
        offsets, spread = facts.to_clean.offsets, self._spread_for(facts)
        if spread is None:
            done = self._cleaner.clean(log, offsets, now_ms, config, on_swapped=on_swapped)
        else:
            done = spread.clean(
                *(log, offsets, now_ms, config), check_planned=check_planned, on_swapped=on_swapped
            )
        return facts.after(done)

    def _spread_for(self, facts: CompactionFacts) -> SpreadCleaner | None:
        """Return what cleans a log by many processes; None if this one alone does it."""
        spread = self._spread
        if spread is None or spread.why_local(facts, self._config) is not None:
            return None
        total = self._progress.total_bytes
        spread.workers.watch(lambda share: self._have_done(int(share * total)))
        return SpreadCleaner(
            spread.workers,
            clock=self._clock,
            fs=spread.fs,
            rng=self._rng,
            is_exact=spread.is_exact,
        )

    def plan(
        self,
        log: SourceLog,
        facts: CompactionFacts,
        now_ms: int,
        on_dropped: Callable[[DroppedRecords], None] = lambda _: None,
    ) -> CompactionFacts:
        """Return what ``clean`` would do; nothing is written. Errors as ``Cleaner.clean``.

        ``on_dropped`` is called with the records that would be dropped, unless it is spread.
        """
        if not facts.is_due:
            return facts
        self._begin(facts)
        offsets, spread = facts.to_clean.offsets, self._spread_for(facts)
        if spread is not None:
            return facts.after(spread.plan(log, offsets, now_ms))
        # With a callback, the oldest tombstone that stays is found, too.
        return facts.after(self._cleaner.plan(log, offsets, now_ms, on_dropped))

    def _begin(self, facts: CompactionFacts) -> None:
        """Report nothing done yet: what is dirty is read twice, for the map and for the copy."""
        found = facts.to_clean
        total = found.clean_bytes + 2 * found.cleanable_bytes
        self._progress = CompactionProgress(facts.topic, facts.partition, 0, total)
        self._on_progress(self._progress)

    def _have_read(self, size_bytes: int) -> None:
        self._have_done(self._progress.done_bytes + size_bytes)

    def _have_done(self, done_bytes: int) -> None:
        self._progress = self._progress._replace(done_bytes=done_bytes)
        self._on_progress(self._progress)
