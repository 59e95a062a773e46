"""Retention, compaction and cuts of damaged logs when somebody asks, instead of in background.

Kafka has none of them: its log manager and its cleaner decide when.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, TypeAlias

from tidelog.archive.claim_file import (
    archives_named,
    claim_file,
    raise_known_start,
    read_claim,
)
from tidelog.cleaner.failed_cleanings_file import read_failures, write_failures
from tidelog.codec.shown_rows import PartitionNumber, TopicName
from tidelog.config.deletion_settings import DELETION_SETTINGS
from tidelog.datadir.effective_config import NO_SETTINGS
from tidelog.datadir.offset_checkpoints import DirectoryCheckpoints
from tidelog.env.forks import OfOneProcess
from tidelog.errors import (
    CleaningAborted,
    InvalidArgument,
    KafkaStorageError,
    UnknownTopicOrPartition,
)
from tidelog.log.retention.retention_outlook import late_segment, outlook_of, start_segment
from tidelog.log.retention.shrunk_log import ShrunkLog
from tidelog.manager.manager_part import ManagerPart
from tidelog.segment.filenames import TopicPartition, given_partition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from tidelog.cleaner.compaction import Compaction, CompactionProgress, Spread
    from tidelog.cleaner.compaction_facts import CompactionFacts
    from tidelog.codec.checkpoint_file import OffsetCheckpoint
    from tidelog.config.log_config import LogConfig
    from tidelog.env.scheduler import Scheduler
    from tidelog.errors import KafkaError
    from tidelog.log.log import Log
    from tidelog.log.retention.retention_outlook import LateSegment, SegmentOutlook
    from tidelog.log.retention.retention_rules import DeletedSegment
    from tidelog.manager.manager_part import Shared
    from tidelog.manager.partition import Partition

_log = logging.getLogger(__name__)

Chosen: TypeAlias = "str | tuple[str, int]"
"""A topic, which stands for all its partitions, or one partition."""


class Terms(NamedTuple):
    """What one operation assumes in place of the clock and of topics' settings.

    ``now_ms`` is the time of day, None: that of the clock. ``overrides`` are topic settings that
    take precedence over a topic's own. ``server_properties`` are those of the broker that wrote the
    directory. ``limits_unknown``: a log whose cleanup policy is unknown is retained by its limits.
    """

    now_ms: int | None = None
    overrides: Mapping[str, str] = NO_SETTINGS
    server_properties: Mapping[str, str] | None = None
    limits_unknown: bool = False


USUAL_TERMS: Final = Terms()


@dataclass(frozen=True, slots=True)
class RolledLog:
    """One partition."""

    topic: TopicName
    partition: PartitionNumber
    closed_base_offset: Annotated[
        int | None,
        "First offset of the segment that was closed; null: the active one had no records.",
    ]
    active_base_offset: Annotated[int, "First offset of the active segment afterwards."]
    size_bytes: Annotated[int, "Size of the `.log` file that was closed, in bytes; 0: none."]


class OnDemand(OfOneProcess, ManagerPart):
    """Retains and compacts the logs of a manager, some or all.

    Args:
        machine: disk, clock and random numbers.
        config: returns the broker's settings.
        cleaning: the cleaner that works in background, if there is one.
        topics: the topics and their settings.
        partition_of: returns a partition; on first use it loads its log.
        check_open: raises KafkaStorageError once the manager is closed.
        keeps_archives: returns whether a task in background looks at the archives of the logs.
    """

    def __init__(
        self,
        shared: Shared,
        *,
        partition_of: Callable[[str, int], Partition],
        check_open: Callable[[], None],
        keeps_archives: Callable[[], bool],
    ) -> None:
        super().__init__(shared)
        self._partition_of: Final = partition_of
        self._check_open: Final = check_open
        self._keeps_archives: Final = keeps_archives
        self._checkpoints: Final = shared.cleaning.manager.checkpoints
        self.on_progress: Callable[[CompactionProgress], None] = _ignore
        """Called repeatedly during each cleaning on demand, on the cleaning thread."""

    def retain(self, *chosen: Chosen) -> dict[tuple[str, int], list[DeletedSegment]]:
        """Delete the segments that have expired by now; return those deleted of each log.

        ``chosen`` are names of topics, or (topic, partition); none stands for all, of which those
        that cannot be loaded, or are deleted meanwhile, are left out. Of a log that continues in an
        archive, that is asked which segments it has: these go by the local limits, and by those of
        the whole log there. Raises UnknownTopicOrPartition, InvalidArgument if a named topic's
        cleanup policy is unknown, KafkaStorageError, CleaningAborted for one whose cleaning is
        paused, and StoreUnavailable, StoreError, ArchiveDiverged or ArchiveOvertaken by an archive.
        """
        now_ms = self._machine.clock.now_ms()
        deleted: dict[tuple[str, int], list[DeletedSegment]] = {}
        for key, partition in self._partitions(chosen, leaves_unknown=False):
            with _unless_deleted(key, chosen), self._cleaning.exclusive(key):
                log = partition.log
                deleted[key] = self._retain(key, log, log.config, now_ms)
        return deleted

    def _retain(
        self, key: TopicPartition, log: Log, config: LogConfig, now_ms: int
    ) -> list[DeletedSegment]:
        """Delete what has expired of one log, on the disk and in the archive that it continues."""
        uri = self._archive_of(key, log) if config.is_archived else None
        if uri is None or self._keeps_archives():
            return log.retain(now_ms, config)
        from tidelog.manager.log_archiver import LogArchiver  # noqa: PLC0415 - few need a store

        topic = self._topics.get(key.topic)
        store = self.shared.stores.opened(uri)
        archiver = LogArchiver(self._machine, store, log, topic, key.partition)
        try:
            return archiver.retain(now_ms, config) + log.retain(now_ms, config)
        finally:
            # Nobody looks again: another process may take the archive over, and change it.
            archiver.forget_equal()

    def _archive_of(self, key: TopicPartition, log: Log) -> str | None:
        """Return the URI of the archive in which a log continues; None: it is on the disk alone."""
        if log.archived is None or log.topic_id is None:
            return None
        path = claim_file(log.data_dir, log.topic_id, key.partition)
        with log.watch("reading the claim of its archive"):
            known = read_claim(self._machine.fs, path).archive
        return None if known is None else known.uri

    def _archives_made(self, key: TopicPartition, log: Log) -> list[str]:
        """Return the URIs of the archives that a log was put into."""
        if log.topic_id is None:
            return []
        path = claim_file(log.data_dir, log.topic_id, key.partition)
        with log.watch("reading the claim of its archive"):
            return archives_named(self._machine.fs, path)

    def why_kept(self, key: TopicPartition, terms: Terms = USUAL_TERMS) -> str | None:
        """Return why retention deletes nothing of a log that is to be archived; None: it does."""
        log = self._partition_of(*key).log
        if not self._config_of(key, log, terms).is_archived:
            return None
        if log.archived is None:
            if made := self._archives_made(key, log):
                return (
                    f"the archive that tidelog archive has made of {key} does not count before"
                    f" tidelog run -o tidelog.archive.uri={made[0]} has taken it over: nothing is"
                    " deleted until then (remote.storage.enable=true)"
                )
            return (
                f"nothing of {key} is archived yet, and remote.storage.enable=true: nothing of it"
                " is deleted before tidelog run -o tidelog.archive.uri=URI has copied it"
            )
        if self._keeps_archives() and not log.archived.equal_end:
            return (
                f"the service could not look at the archive of {key}, or has not yet: nothing is"
                " deleted until it has (archive-failed in its log says why)"
            )
        return None

    def config_with(self, topic: str, terms: Terms) -> LogConfig:
        """Return the settings of a topic on the terms of one operation."""
        config = self._topics.config_with(topic, terms.overrides, terms.server_properties)
        is_unknown = terms.limits_unknown and not config.is_policy_known
        return config.deleting() if is_unknown else config

    def retain_log(self, key: TopicPartition, terms: Terms = USUAL_TERMS) -> ShrunkLog:
        """Delete the segments of one log that have expired; return what is left, and until when.

        Errors as ``retain``.
        """
        partition = self._partition_of(*key)
        with self._cleaning.exclusive(key):
            log = partition.log
            config = self._config_of(key, log, terms)
            now_ms = self._now_ms(terms)
            deleted = self._retain(key, log, config, now_ms)
            late = late_segment(log.retention_facts(), config, now_ms)
            return _shrunk(key, log, deleted, outlook_of(log, config), late)

    def roll(self, *chosen: Chosen) -> dict[tuple[str, int], int]:
        """Close the active segments that have records; return where the next ones begin.

        ``chosen`` as for ``retain``. Raises UnknownTopicOrPartition, DamagedLog for a log that
        takes no appends, KafkaStorageError.
        """
        rolled: dict[tuple[str, int], int] = {}
        for key, _ in self._partitions(chosen, leaves_unknown=True):
            with _unless_deleted(key, chosen):
                done = self.roll_log(key)
                if done.closed_base_offset is not None:
                    rolled[done.topic, done.partition] = done.active_base_offset
        return rolled

    def roll_log(self, key: TopicPartition) -> RolledLog:
        """Close the active segment of one log, if it has records. Errors as ``roll``."""
        self._check_open()
        log = self._partition_of(*key).log
        rolled = log.maybe_roll()
        if rolled is None:
            return RolledLog(*key, None, log.log_end_offset, 0)
        closed, active = rolled
        return RolledLog(*key, closed.base_offset, active.base_offset, closed.size_bytes)

    def delete_records(
        self, key: TopicPartition, before: int, terms: Terms = USUAL_TERMS
    ) -> ShrunkLog:
        """Raise the start of one log to ``before`` (-1: the high watermark); free whole segments.

        While the log is being cleaned or moved its space is freed later. A crash may bring back
        what stays in a file, until ``keep_deleted``. Raises PolicyViolation for a log that is only
        compacted, OffsetOutOfRange above the high watermark.
        """
        partition = self._partition_of(*key)
        config = self._config_of(key, partition.log, terms)
        # A move that ends here and now would put a copy in the log's place that starts before.
        with partition.listeners, partition.lock:
            log = partition.log
            shrunk = partial(_shrunk, key, started_at=log.log_start_offset)
            log.delete_records(before, config)
            if log.archived is not None:  # readers beside it look here
                raise_known_start(self._machine.fs, log, key.partition)
        try:
            # Nobody waits for a cleaning or a move: the next pass of retention frees the space.
            with self._cleaning.exclusive_if_free(key) as is_free:
                if not is_free:
                    return shrunk(log, ())
                log = partition.log  # not reopened here: who may do that may wait for this to end
                deleted = log.delete_segments_below_start()
                start = start_segment(log.retention_facts(), log.log_start_offset)
                return replace(shrunk(log, deleted), start_segment=start)
        except KafkaStorageError as error:
            if log.is_offline:
                raise
            # The records are deleted. The space is freed as above: a full disk may lack the room.
            _log.warning("deletion-put-off directory=%s reason=%s", log.directory, error)
            return shrunk(log, ())

    def keep_deleted(self, keys: Iterable[TopicPartition]) -> None:
        """Let no crash bring back what ``delete_records`` deleted: checkpoint where logs start.

        A partition that is gone is left out. Raises KafkaStorageError.
        """
        known = self._registry.logs()
        for log_dir in {self._log_dirs.of(known[key]) for key in keys if key in known}:
            self._checkpointing.write(log_dir, DirectoryCheckpoints.write_log_starts)

    def _config_of(self, key: TopicPartition, log: Log, terms: Terms) -> LogConfig:
        """Return the settings of a log on these terms."""
        if terms._replace(now_ms=None) == USUAL_TERMS:
            return log.config
        return self.config_with(key.topic, terms)

    def _now_ms(self, terms: Terms) -> int:
        return self._machine.clock.now_ms() if terms.now_ms is None else terms.now_ms

    def compact(
        self,
        *chosen: Chosen,
        scheduler: Scheduler | None = None,
        leaves_unknown: bool = False,
        terms: Terms = USUAL_TERMS,
        spread: Spread | None = None,
    ) -> dict[tuple[str, int], CompactionFacts]:
        """Clean logs now, ignoring ``min.cleanable.dirty.ratio``; return what was done to each.

        Those that are not compacted are left alone. ``chosen`` and errors as ``retain``, and as
        ``Cleaner.clean``.

        Args:
            chosen: topics and partitions.
            scheduler: runs the threads that write; None: the machine's.
            leaves_unknown: leave a log whose policy is unknown alone, too, even if it is chosen.
            terms: what it assumes in place of the clock and of topics' settings.
            spread: many processes that clean what is large.
        """
        from tidelog.cleaner.compaction import Compaction  # noqa: PLC0415 - loads NumPy

        now_ms = self._now_ms(terms)
        terms = terms._replace(now_ms=now_ms)
        found: dict[tuple[str, int], CompactionFacts] = {}
        is_alone = self._cleaning.cleaner is None
        read = self._read_once() if is_alone else self._checkpoints.read
        for key, partition in self._partitions(chosen, leaves_unknown=leaves_unknown):
            with _unless_deleted(key, chosen), self._cleaning.exclusive(key) as check_done:
                log = partition.log
                compaction = Compaction(
                    self._config(),
                    clock=self._machine.clock,
                    scheduler=scheduler or self._machine.scheduler,
                    rng=self._machine.rng,
                    check_done=check_done,
                    on_progress=self.on_progress,
                    spread=spread,
                )
                line = read(log.data_dir).get(key)
                found[key] = self._compact(key, log, compaction, line, terms)
        return found

    def _read_once(self) -> Callable[[str], OffsetCheckpoint]:
        """Return what reads each file once, and again after a truncation.

        Without a cleaner nobody else changes the lines of other logs meanwhile.
        """
        read = cache(lambda path, _lowerings: self._checkpoints.read(path))
        return lambda path: read(path, self._checkpoints.lowerings)

    def _compact(
        self,
        key: TopicPartition,
        log: Log,
        compaction: Compaction,
        line: int | None,
        terms: Terms,
    ) -> CompactionFacts:
        """Clean one log from ``line`` on; note how far, and that its cleaning has not failed."""
        from tidelog.cleaner.compaction import examine_log  # noqa: PLC0415 - loads NumPy

        now_ms, config = self._now_ms(terms), self._config_of(key, log, terms)
        fs, path = self._machine.fs, log.data_dir
        failures = read_failures(fs, path)
        with log.watch("examining what there is to clean"):
            facts = examine_log(key, log, line, failures.get(key), now_ms, config=config)

        def check_planned() -> None:
            if self._checkpoints.read(path).get(key) != line:
                raise CleaningAborted(
                    f"the cleaner's checkpoint of {key} changed while it was being cleaned"
                )

        def note(end: int) -> None:
            self._cleaning.manager.note_swapped(key, log, end)

        cleaned = compaction.clean(
            *(log, facts, now_ms, config), check_planned=check_planned, on_swapped=note
        )
        if cleaned.stats is None:
            return cleaned
        self._cleaning.manager.note_cleaned(key, log, cleaned.end_offset)
        if self._cleaning.cleaner is None and failures.pop(key, None) is not None:
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
        for key in self._keys(()):
            try:
                yield key, self._partition_of(*key)
            except (UnknownTopicOrPartition, KafkaStorageError) as error:
                _tell_of_left_out(key, error)

    def _keys(self, chosen: Sequence[Chosen]) -> Iterator[TopicPartition]:
        topics = self._topics.all()
        for one in chosen or sorted(topics):
            if isinstance(one, tuple) and len(one) == 2:
                yield given_partition(*one)
            elif not isinstance(one, str):
                raise InvalidArgument(f"{one!r} is neither a topic's name nor (topic, partition)")
            elif one in topics:
                numbers = sorted(topics[one].partitions)
                yield from (TopicPartition(one, number) for number in numbers)
            else:
                raise UnknownTopicOrPartition(f"there is no topic {one}")


def _tell_of_left_out(key: TopicPartition, error: KafkaError) -> None:
    _log.warning("log-left-out topic=%s partition=%d reason=%s", *key, error)


@contextmanager
def _unless_deleted(key: TopicPartition, chosen: Sequence[Chosen]) -> Iterator[None]:
    """Leave a log out whose topic is deleted meanwhile, where it is one of all logs."""
    try:
        yield
    except UnknownTopicOrPartition as error:
        if chosen:
            raise
        _tell_of_left_out(key, error)


def _shrunk(
    key: TopicPartition,
    log: Log,
    deleted: Iterable[DeletedSegment],
    kept: Iterable[SegmentOutlook] = (),
    late: LateSegment | None = None,
    *,
    started_at: int | None = None,
) -> ShrunkLog:
    offsets = log.log_start_offset, log.log_end_offset
    shrunk = ShrunkLog(*key, *offsets, log.size_bytes, tuple(deleted), tuple(kept), late)
    return replace(shrunk, log_start_offset_before=started_at)


def _ignore(_: CompactionProgress) -> None:
    """Ignore the progress of a cleaning."""
