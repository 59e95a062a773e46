"""Compaction of a data directory by many processes, for programs that can start such.

The caller's ``Workers`` carry values between processes and call the three task functions here.
Kafka has nothing like it.
"""

from __future__ import annotations

import os
import random
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from tidelog.cleaner.compaction import CompactionProgress, Spread
from tidelog.cleaner.rewriting.background_writers import MAX_WRITERS
from tidelog.cleaner.spread.spread_cleaner import FileEvents, Workers
from tidelog.cleaner.spread.stages import (
    HashedFile,
    RewrittenGroup,
    hash_file,
    merge_bucket,
    rewrite_group,
)
from tidelog.codec.shown_rows import as_json
from tidelog.config.broker_config import BrokerConfig
from tidelog.config.log_config import LogConfig
from tidelog.datadir.partition_directories import is_partition_directory
from tidelog.env.clock import SYSTEM_CLOCK, ClockAt
from tidelog.env.machine import brief_machine
from tidelog.env.scheduler import start_threads
from tidelog.env.system_files import SYSTEM_FILES
from tidelog.errors import InvalidArgument, TidelogError, UnknownTopicOrPartition
from tidelog.manager.compaction_plan import CleanerLines, compaction_to_plan, plan_compaction
from tidelog.manager.log_manager import LogManager
from tidelog.manager.on_demand import Terms
from tidelog.readonly.absent_partitions import BY_ARGUMENT
from tidelog.readonly.read_only_directory import open_directory_read_only

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from tidelog.cleaner.compaction_facts import CompactionFacts
    from tidelog.cleaner.rewriting.cleaned_transactions import CleanedTransactions
    from tidelog.cleaner.spread.entries import OffsetSet
    from tidelog.cleaner.spread.plan import SpreadPlan
    from tidelog.readonly.read_only_directory import ReadOnlyDirectory
    from tidelog.segment.filenames import TopicPartition

__all__ = [
    "CompactedLog",
    "CompactionProgress",
    "Failed",
    "FileEvents",
    "NumberedEvents",
    "RewrittenGroup",
    "SpreadTerms",
    "Workers",
    "compact_spread",
    "hash_task",
    "merge_task",
    "plan_spread",
    "rewrite_task",
]


class CompactedLog(NamedTuple):
    """What was done to one log, or would be; ``why_local`` is None if many processes did it."""

    facts: CompactionFacts
    why_local: str | None

    def as_json(self) -> dict[str, Any]:
        """Return it under the names that every command uses in JSON."""
        return {**as_json(self.facts), "whyLocal": self.why_local}


class SpreadTerms(NamedTuple):
    """On which terms logs are compacted.

    ``now_ms`` is the time of day, None: that of the clock. ``overrides`` are topic settings that
    take precedence over a topic's own. ``min_bytes`` and ``is_exact``: see ``Spread``.
    """

    now_ms: int | None
    overrides: Mapping[str, str]
    min_bytes: int
    is_exact: bool

    def spread(self, workers: Workers) -> Spread:
        """Return the same with the processes that work."""
        return Spread(workers, SYSTEM_FILES, self.min_bytes, self.is_exact)


class Failed(NamedTuple):
    """A task that ended with an error of ours, which trying again would not change."""

    error: TidelogError


class NumberedEvents(NamedTuple):
    """The events of one file of a plan."""

    number: int
    found: FileEvents


def compact_spread(
    paths: Sequence[str],
    topics: Sequence[str],
    workers: Workers,
    terms: SpreadTerms,
    on_progress: Callable[[CompactionProgress], None],
    *,
    accept: str | None = BY_ARGUMENT,
) -> Iterator[CompactedLog]:
    """Compact the logs of some topics (none named: all) and yield what was done to each.

    The directories are locked until the iterator ends or is closed. ``accept``: see
    ``open_directory_read_only``. Raises DirectoryLocked, PartitionsElsewhere,
    UnknownTopicOrPartition, InvalidConfig, and as ``OnDemand.compact``.
    """
    directory, terms = _opened(paths, terms, accept)
    keys = _partitions(directory, topics)
    machine = brief_machine(SYSTEM_FILES, SYSTEM_CLOCK)
    config, spread = BrokerConfig(log_dirs=directory.paths), terms.spread(workers)
    usual = Terms(terms.now_ms, terms.overrides)
    threads = start_threads(MAX_WRITERS, "tidelog-compact")
    try:
        with LogManager(config, machine, overrides=terms.overrides) as manager:
            manager.on_demand.on_progress = on_progress
            for key in keys:
                facts = manager.on_demand.compact(
                    key, scheduler=threads, leaves_unknown=True, terms=usual, spread=spread
                )[key]
                yield CompactedLog(facts, spread.why_local(facts, config))
    finally:
        threads.shutdown()


def plan_spread(
    paths: Sequence[str],
    topics: Sequence[str],
    workers: Workers,
    terms: SpreadTerms,
    on_progress: Callable[[CompactionProgress], None],
    *,
    accept: str | None = BY_ARGUMENT,
) -> Iterator[CompactedLog]:
    """Yield what ``compact_spread`` would do; nothing is written, so a writer may be at work.

    Raises CorruptMessage, InvalidRecord, KafkaStorageError, PartitionsElsewhere,
    UnknownTopicOrPartition.
    """
    directory, terms = _opened(paths, terms, accept)
    config, spread = BrokerConfig(log_dirs=directory.paths), terms.spread(workers)
    assert terms.now_ms is not None
    clock = ClockAt(terms.now_ms)
    lines = {part: CleanerLines.read(SYSTEM_FILES, part.path) for part in directory.parts}
    compaction = compaction_to_plan(clock, config, on_progress=on_progress, spread=spread)
    for key in _partitions(directory, topics):
        settings = directory.topic(key.topic).config_in_force(LogConfig(), terms.overrides)
        noted = lines[directory.part_of(*key)]
        facts = plan_compaction(partial(directory.open, *key), settings, noted, clock, compaction)
        yield CompactedLog(facts, spread.why_local(facts, config))


def _opened(
    paths: Sequence[str], terms: SpreadTerms, accept: str | None
) -> tuple[ReadOnlyDirectory, SpreadTerms]:
    """Return the directories to look at, and the terms with the time of the beginning."""
    LogConfig().with_overrides(terms.overrides)
    now_ms = SYSTEM_CLOCK.now_ms() if terms.now_ms is None else terms.now_ms
    absolute = [os.path.abspath(path) for path in paths]
    directory = open_directory_read_only(*absolute, fs=SYSTEM_FILES, accept=accept)
    for path in directory.paths:
        if is_partition_directory(SYSTEM_FILES.list(path)):
            raise InvalidArgument(f"{path} is the directory of one partition: name the topic")
    return directory, terms._replace(now_ms=now_ms)


def _partitions(directory: ReadOnlyDirectory, topics: Sequence[str]) -> list[TopicPartition]:
    """Return the partitions of some topics, of all if none is named."""
    directory.check_present(dict.fromkeys(topics))
    found = [key for key in directory.partitions if not topics or key.topic in topics]
    unknown = sorted(set(topics) - {key.topic for key in found})
    if unknown:
        raise UnknownTopicOrPartition(f"there is no topic {', '.join(unknown)}")
    return found


# The tasks: what they yield or return must arrive in other processes


def hash_task(plan: SpreadPlan, number: int) -> Iterator[tuple[int, object]]:
    """Yield values for ``merge_task``, each with the bucket whose task gets it.

    Raises OSError, which another attempt may not meet.
    """
    try:
        for one in hash_file(plan, number, SYSTEM_FILES):
            yield one.bucket if not isinstance(one, HashedFile) else number % plan.buckets, one
    except TidelogError as error:
        # Every bucket lacks entries of this file. A lost result may be made again for one of them.
        yield from ((bucket, Failed(error)) for bucket in range(plan.buckets))


def merge_task(plan: SpreadPlan, values: Iterable[Any]) -> Iterator[tuple[int, object]]:
    """Yield values for ``rewrite_task``, each with its group, by all values of one bucket.

    Among them are the ``NumberedEvents`` of files, for the driver. If one of the values has
    ``Failed``, every group gets that.
    """
    hashed: list[HashedFile] = []
    failed: list[Failed] = []

    def parts() -> Iterator[Any]:
        for value in values:
            if isinstance(value, HashedFile):
                hashed.append(value)
            elif isinstance(value, Failed):
                failed.append(value)
            else:
                yield value

    try:
        yield from merge_bucket(plan, parts())
    except TidelogError as error:
        failed.append(Failed(error))
    for one in failed[:1]:
        yield from ((group, one) for group in range(len(plan.groups)))
    for other in hashed:
        group = plan.group_of(other.number)
        yield group, other.superseded
        events = FileEvents(other.events, other.records, other.size_bytes)
        yield group, NumberedEvents(other.number, events)


def rewrite_task(
    plan: SpreadPlan, group: int, values: Iterable[Any], transactions: CleanedTransactions
) -> RewrittenGroup | Failed:
    """Rewrite a group by all values for it, of which none has ``Failed``. Raises OSError."""
    rng = random.SystemRandom()
    try:
        sets = _sets(values)
        return rewrite_group(
            plan, group, sets, transactions, fs=SYSTEM_FILES, clock=SYSTEM_CLOCK, rng=rng
        )
    except TidelogError as error:
        return Failed(error)


def _sets(values: Iterable[Any]) -> Iterator[OffsetSet]:
    """Yield the sets of superseded offsets; raise the error of what has failed.

    Without its sets a group would keep a value whose tombstone a later cleaning removes.
    """
    for value in values:
        if isinstance(value, Failed):
            raise value.error
        if not isinstance(value, NumberedEvents):
            yield value
