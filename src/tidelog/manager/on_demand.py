"""Retention and compaction when somebody asks for them, instead of in background.

Kafka has neither: its log manager and its cleaner decide when.
"""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING, Final, TypeAlias

from tidelog.cleaner.cleaner_checkpoints import CleanerCheckpoints
from tidelog.cleaner.compaction import Compaction, examine_log
from tidelog.cleaner.failed_cleanings_file import read_failures, write_failures
from tidelog.config.log_config import DELETION_SETTINGS
from tidelog.errors import InvalidArgument, KafkaStorageError, UnknownTopicOrPartition
from tidelog.manager.directories.log_dirs import parent_of
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tidelog.cleaner.compaction import CompactionFacts
    from tidelog.cleaner.log_cleaner import Machine
    from tidelog.config.broker_config import BrokerConfig
    from tidelog.datadir.catalogue import Topic
    from tidelog.env.scheduler import Scheduler
    from tidelog.log.log import Log
    from tidelog.log.retention import DeletedSegment
    from tidelog.manager.cleaning import Cleaning
    from tidelog.manager.partition import Partition

_log = logging.getLogger(__name__)

Chosen: TypeAlias = "str | tuple[str, int]"
"""A topic, which stands for all its partitions, or one partition."""


class OnDemand:
    """Retains and compacts the logs of a manager, some or all.

    Args:
        machine: disk, clock and random numbers.
        config: returns the broker's settings.
        cleaning: the cleaner that works in background, if there is one.
        topics: returns all topics by name.
        partition_of: returns a partition; on first use it loads its log.
        check_open: raises KafkaStorageError once the manager is closed.
    """

    def __init__(
        self,
        machine: Machine,
        config: Callable[[], BrokerConfig],
        *,
        cleaning: Cleaning,
        topics: Callable[[], dict[str, Topic]],
        partition_of: Callable[[str, int], Partition],
        check_open: Callable[[], None],
    ) -> None:
        self._machine: Final = machine
        self._config: Final = config
        self._cleaning: Final = cleaning
        self._topics: Final = topics
        self._partition_of: Final = partition_of
        self._check_open: Final = check_open
        self._checkpoints: Final = CleanerCheckpoints(machine.fs)

    def retain(self, chosen: Sequence[Chosen]) -> dict[tuple[str, int], list[DeletedSegment]]:
        """Delete the segments that have expired by now; see ``LogManager.retain``."""
        now_ms = self._machine.clock.now_ms()
        deleted: dict[tuple[str, int], list[DeletedSegment]] = {}
        for key, partition in self._partitions(chosen, leaves_unknown=False):
            with self._cleaning.exclusive(key):
                deleted[key] = partition.log.retain(now_ms)
        return deleted

    def compact(
        self, chosen: Sequence[Chosen], scheduler: Scheduler | None, *, leaves_unknown: bool
    ) -> dict[tuple[str, int], CompactionFacts]:
        """Clean each log once; see ``LogManager.compact``."""
        now_ms = self._machine.clock.now_ms()
        found: dict[tuple[str, int], CompactionFacts] = {}
        read = self._checkpoints.read
        if self._cleaning.cleaner is None:
            read = cache(read)  # nobody else changes the lines of other logs meanwhile
        for key, partition in self._partitions(chosen, leaves_unknown=leaves_unknown):
            with self._cleaning.exclusive(key) as check_done:
                log = partition.log
                compaction = Compaction(
                    self._config(),
                    clock=self._machine.clock,
                    scheduler=scheduler or self._machine.scheduler,
                    rng=self._machine.rng,
                    check_done=check_done,
                )
                line = read(parent_of(log)).get(key)
                found[key] = self._compact(key, log, compaction, now_ms, line)
        return found

    def _compact(
        self,
        key: TopicPartition,
        log: Log,
        compaction: Compaction,
        now_ms: int,
        line: int | None,
    ) -> CompactionFacts:
        """Clean one log from ``line`` on; note how far, and that its cleaning has not failed."""
        fs, path = self._machine.fs, parent_of(log)
        failures = read_failures(fs, path)
        facts = examine_log(key, log, line, failures.get(key), now_ms)
        cleaned = compaction.clean(log, facts, now_ms)
        if cleaned.stats is None:
            return cleaned
        if not self._cleaning.note_cleaned(key, log, cleaned.end_offset):
            self._checkpoints.change(path, lambda lines: lines.update({key: cleaned.end_offset}))
            if failures.pop(key, None) is not None:
                write_failures(fs, path, failures)
        return cleaned

    def _partitions(
        self, chosen: Sequence[Chosen], *, leaves_unknown: bool
    ) -> list[tuple[TopicPartition, Partition]]:
        """Return the partitions chosen, all if none is; refuse those of an unknown policy.

        The log of one may be replaced, by a move or by being reopened, until it is in exclusive
        use.
        """
        self._check_open()
        if not chosen:
            return list(self._all_partitions())
        found = [(key, self._partition_of(*key)) for key in self._keys(chosen)]
        unknown = sorted({key.topic for key, one in found if not one.log.config.is_policy_known})
        if unknown and not leaves_unknown:
            raise InvalidArgument(
                f"cleanup.policy of {', '.join(unknown)} is unknown: set one of"
                f" {', '.join(DELETION_SETTINGS)} for the topic"
            )
        return found

    def _all_partitions(self) -> Iterator[tuple[TopicPartition, Partition]]:
        """Yield all partitions but those that cannot be loaded, as in an offline directory."""
        for key in self._keys(sorted(self._topics())):
            try:
                yield key, self._partition_of(*key)
            except (UnknownTopicOrPartition, KafkaStorageError) as error:
                _log.warning("log-left-out topic=%s partition=%d reason=%s", *key, error)

    def _keys(self, chosen: Iterable[Chosen]) -> Iterator[TopicPartition]:
        topics = self._topics()
        for one in chosen:
            if isinstance(one, tuple):
                yield TopicPartition(*one)
            elif one in topics:
                numbers = sorted(topics[one].partitions)
                yield from (TopicPartition(one, number) for number in numbers)
            else:
                raise UnknownTopicOrPartition(f"there is no topic {one}")


class OnDemandCalls:
    """The part of a log manager that retains and compacts on demand."""

    _on_demand: OnDemand

    def retain(self, *chosen: Chosen) -> dict[tuple[str, int], list[DeletedSegment]]:
        """Delete the segments that have expired by now; return those deleted of each log.

        ``chosen`` are names of topics, or (topic, partition); none stands for all, of which those
        that cannot be loaded are left out. Raises UnknownTopicOrPartition, InvalidArgument if a
        named topic's cleanup policy is unknown, KafkaStorageError, and CleaningAborted for one
        whose cleaning is paused.
        """
        return self._on_demand.retain(chosen)

    def compact(
        self, *chosen: Chosen, scheduler: Scheduler | None = None, leaves_unknown: bool = False
    ) -> dict[tuple[str, int], CompactionFacts]:
        """Clean logs now, ignoring ``min.cleanable.dirty.ratio``; return what was done to each.

        Those that are not compacted are left alone. ``chosen`` and errors as ``retain``, and as
        ``Cleaner.clean``.

        Args:
            chosen: topics and partitions.
            scheduler: runs the threads that write; None: the machine's.
            leaves_unknown: leave a log whose policy is unknown alone, too, even if it is chosen.
        """
        return self._on_demand.compact(chosen, scheduler, leaves_unknown=leaves_unknown)
