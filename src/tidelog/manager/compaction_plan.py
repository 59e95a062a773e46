"""How the cleaner stands with a log that is only read, and what a cleaning of it would do.

Both are answers of one snapshot, by the cleaner's own rules, so a writer may be at work beside.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

from tidelog.cleaner.cleaner_checkpoints import CleanerCheckpoints
from tidelog.cleaner.compaction import Compaction, examine_log
from tidelog.cleaner.failed_cleanings_file import read_failures
from tidelog.config.broker_config import BrokerConfig
from tidelog.env.scheduler import InlineScheduler
from tidelog.readonly.snapshot_log import answer_at_once

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tidelog.cleaner.compaction import CompactionProgress, Spread
    from tidelog.cleaner.compaction_facts import CompactionFacts
    from tidelog.cleaner.failed_cleanings import Failure
    from tidelog.cleaner.rewriting.filter_result import DroppedRecords
    from tidelog.config.log_config import LogConfig
    from tidelog.env.clock import Clock
    from tidelog.env.files import FileSystem
    from tidelog.readonly.read_only_log import ReadOnlyLog
    from tidelog.readonly.snapshot_log import SnapshotLog


class CleanerLines(NamedTuple):
    """What a cleaner has noted in a data directory: how far it came, and where it failed."""

    checkpoints: Mapping[tuple[str, int], int]
    failures: Mapping[tuple[str, int], Failure]

    @classmethod
    def read(cls, fs: FileSystem, path: str) -> CleanerLines:
        """Read both files of a data directory; KafkaStorageError if one is malformed."""
        return cls(CleanerCheckpoints(fs).read(path), read_failures(fs, path))


def compaction_to_plan(
    clock: Clock,
    config: BrokerConfig | None = None,
    *,
    on_progress: Callable[[CompactionProgress], None] = lambda _: None,
    spread: Spread | None = None,
) -> Compaction:
    """Return what reads keys for plans: on this thread, unless they are spread."""
    return Compaction(
        config or BrokerConfig(),
        clock=clock,
        scheduler=InlineScheduler(),
        rng=random.SystemRandom(),
        on_progress=on_progress,
        spread=spread,
    )


def plan_compaction(
    open_log: Callable[[], ReadOnlyLog],
    config: LogConfig,
    lines: CleanerLines,
    clock: Clock,
    compaction: Compaction | None = None,
    *,
    on_answer: Callable[[], Callable[[DroppedRecords], None]] = lambda: _ignore,
) -> CompactionFacts:
    """Return how a log stands and, with ``compaction``, what a cleaning of it would do.

    Args:
        open_log: opens the log, again where its files have changed.
        config: the settings in force.
        lines: what the cleaner has noted; read before the log.
        clock: its time of day is that of the cleaning.
        compaction: reads the keys; None: they are not read.
        on_answer: is called before the keys are read, again where the log is read again; what it
            returns is called with the records that would be dropped.

    Raises CorruptMessage, InvalidRecord, KafkaStorageError, UnknownTopicOrPartition.
    """

    def facts_of(log: SnapshotLog) -> CompactionFacts:
        key, now_ms = (log.topic, log.partition), clock.now_ms()
        line, failure = lines.checkpoints.get(key), lines.failures.get(key)
        facts = examine_log(key, log, line, failure, now_ms)
        return facts if compaction is None else compaction.plan(log, facts, now_ms, on_answer())

    return answer_at_once(open_log, config, clock, facts_of)


def _ignore(_: DroppedRecords) -> None:
    """Do nothing."""
