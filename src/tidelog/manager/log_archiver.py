"""Keeps the archive of one open log as the settings say: copies, deletes, and says how far it is.

Kafka: ``RemoteLogManager``, with its copy and expiration tasks of a partition.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.archive.claim_file import KnownArchive
from tidelog.archive.copier import ClosedSegment, Copier
from tidelog.config.deletion_settings import DELETION_SETTINGS
from tidelog.config.log_config import LogConfig
from tidelog.datadir.birth import birth_values
from tidelog.errors import CorruptMessage
from tidelog.log.archived import ArchivedOffsets
from tidelog.log.retention.retention_rules import SegmentFacts, expired
from tidelog.manager.metrics.metric import in_percent
from tidelog.records.batch import NO_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tidelog.archive.deltas import Entry
    from tidelog.datadir.catalogue import Topic
    from tidelog.env.machine import Machine
    from tidelog.log.log import Log
    from tidelog.log.retention.retention_rules import DeletedSegment
    from tidelog.store.objects import Objects

SWEEP_MS: Final = 3_600_000
"""How often the objects of a log are looked through for what nothing needs."""


class ArchivePass(NamedTuple):
    """What one look at a log has done to its archive."""

    copied: tuple[Entry, ...] = ()
    removed: tuple[Entry, ...] = ()
    swept: int = 0


def archived_facts(
    entry: Entry, copied_ms: Callable[[Entry], int] = lambda _: NO_TIMESTAMP
) -> SegmentFacts:
    """Return what retention asks about an archived segment; it is never asked when it begins.

    ``copied_ms`` is asked where no record has a timestamp; on a disk the file's time counts then.
    """
    is_timed = entry.max_timestamp >= 0
    largest = partial(int, entry.max_timestamp) if is_timed else partial(copied_ms, entry)
    return SegmentFacts(*entry[1:3], entry.size_bytes, False, largest, largest)


class LogArchiver:
    """Keeps the archive of one log; used by one thread at a time."""

    def __init__(
        self, machine: Machine, store: Objects, log: Log, topic: Topic, number: int
    ) -> None:
        self.log: Final = log
        self._store = store
        self._copier: Final = Copier(
            machine.fs,
            store,
            OpenLog(log, topic, number),
            machine.rng,
            follows_start=True,
            claims_first=True,
        )
        self._swept_ms = self._archived_bytes = self._archived_segments = 0

    def sizes(self) -> dict[str, int]:
        """Return how much is archived as of the last look, and waits now, by Kafka's names."""
        end = self._copier.state.end
        waiting = [one.size_bytes for one in self.log.segments.all[:-1] if one.base_offset >= end]
        return {
            "RemoteCopyLagBytes": sum(waiting),
            "RemoteCopyLagSegments": len(waiting),
            "RemoteLogSizeBytes": self._archived_bytes,
            "RemoteLogMetadataCount": self._archived_segments,
        }

    def shares(self) -> dict[str, int]:
        """Return the whole log and its disk in percent of their limits, by Kafka's names.

        0 without a limit. What the archive has is as of the last look. Kafka:
        ``RLMExpirationTask.calculateSizeInPercent``.
        """
        log, whole = self.log, self._only_local_bytes() + self._archived_bytes
        local_limit = log.config.local_limits().retention_bytes
        return {
            "RetentionSizeInPercent": in_percent(whole, log.config.retention_bytes),
            "LocalRetentionSizeInPercent": in_percent(log.size_bytes, local_limit),
        }

    @property
    def waiting_since(self) -> int | None:
        """First timestamp of the oldest closed segment that is not archived; None: all are."""
        for one in self.log.segments.all[:-1]:
            if one.base_offset >= self._copier.state.end:
                return one.first_batch_timestamp()
        return None

    def run(self, now_ms: int, before_part: Callable[[int], None]) -> ArchivePass:
        """Copy what is closed, and delete from the archive what has expired.

        The caller has the log in exclusive use. After any error nothing of the log counts as
        archived, so that nothing is deleted here, until a pass succeeds. Raises as ``Copier.copy``.
        """
        config = self.log.config
        with self._nothing_counts_after_errors():
            copied = self._copier.copy(before_part) if config.is_archived else self._follow()
            _, removed = self._expire(now_ms, config)
            return ArchivePass(tuple(copied), removed, self._sweep(now_ms))

    def retain(self, now_ms: int, config: LogConfig) -> list[DeletedSegment]:
        """Delete from the archive what has expired by these limits; return what only it had.

        Nothing is copied. The log knows afterwards which of its segments are archived. Otherwise as
        ``run``.
        """
        with self._nothing_counts_after_errors():
            self._follow()
            first = self.log.local_log_start_offset
            due, _ = self._expire(now_ms, config)
            return [one for one in due if one.base_offset < first]

    @contextmanager
    def _nothing_counts_after_errors(self) -> Iterator[None]:
        """Let nothing of the log count as archived once the body of the ``with`` has failed."""
        try:
            yield
        except BaseException:
            self.forget_equal()
            raise

    def forget_equal(self) -> None:
        """Let nothing of the log count as archived until the next look, so that all of it stays."""
        if self.log.archived is not None:
            self.log.note_archived(self.log.archived._replace(equal_end=0))

    def _expire(
        self, now_ms: int, config: LogConfig
    ) -> tuple[list[DeletedSegment], tuple[Entry, ...]]:
        """Delete from the archive what has expired; return that, and which of it was removed."""
        due = self._expired(now_ms, config)
        removed: Sequence[Entry] = ()
        if due:
            # First there: else a reader would take a start that is only known here for a gap.
            removed = self._copier.delete_below(due[-1].end_offset, due[-1].reason)
        self._note()
        if due:
            self.log.maybe_increment_log_start_offset(due[-1].end_offset)
        return due, tuple(removed)

    def _expired(self, now_ms: int, config: LogConfig) -> list[DeletedSegment]:
        """Return the archived segments that have expired by the limits of the whole log."""
        state = self._copier.state
        archived_bytes = sum(entry.size_bytes for entry in state.entries)
        size_bytes = self._only_local_bytes() + archived_bytes
        facts = (archived_facts(entry, self._copier.copied_ms) for entry in state.entries)
        return expired(facts, config, now_ms, size_bytes=size_bytes, end=state.end)

    def _only_local_bytes(self) -> int:
        """Return the size of the segments that are not archived, the active one included."""
        end = self._copier.state.end
        return sum(one.size_bytes for one in self.log.segments if one.base_offset >= end)

    def disable(self) -> ArchivePass:
        """Delete what only the archive has, and let the log be on the disk alone."""
        copier = self._copier
        copier.look()
        removed = copier.delete_below(self.log.local_log_start_offset, "disabled")
        # Last: with it the log begins in the archive, and this is done again.
        copier.leave()
        self.log.note_archived(None)
        return ArchivePass(removed=tuple(removed))

    def _follow(self) -> list[Entry]:
        """Let the archive begin where the log does; copy nothing."""
        self._copier.look()
        self._copier.delete_below(self.log.log_start_offset, "log start")
        return []

    def _note(self) -> None:
        """Let the log know what is archived, which the file beside it says before."""
        state = self._copier.state
        # Durable first: a start that finds it knows that the log begins in the archive, also where
        # retention has deleted here what is there.
        self._copier.remember(KnownArchive(self._store.name, state.start, state.end))
        self._archived_bytes = sum(entry.size_bytes for entry in state.entries)
        self._archived_segments = len(state.entries)
        archived = ArchivedOffsets(state.start, state.end, self._copier.equal_end())
        self.log.note_archived(archived)
        # An older copy of the directory may have been put back: what was deleted stays deleted.
        self.log.maybe_increment_log_start_offset(min(state.start, self.log.deletable_end))

    def _sweep(self, now_ms: int) -> int:
        # Also after a clock that was set back: nothing would be deleted until it gets there.
        if abs(now_ms - self._swept_ms) < SWEEP_MS:
            return 0
        self._swept_ms = now_ms
        return self._copier.sweep(now_ms)


class OpenLog:
    """A log as ``ArchivedLog``."""

    def __init__(self, log: Log, topic: Topic, partition: int) -> None:
        self._log = log
        self.topic: Final = topic.name
        self.partition: Final = partition
        self.topic_id: Final = topic.topic_id
        self.config: Final = _settings_of(topic)
        self._flushed: Sequence[ClosedSegment] = ()

    @property
    def directory(self) -> str:
        """The path of its directory."""
        return self._log.directory

    @property
    def data_dir(self) -> str:
        """The data directory that holds it."""
        return self._log.data_dir

    @property
    def log_start_offset(self) -> int:
        """The first offset of the log."""
        return self._log.log_start_offset

    @property
    def local_start_offset(self) -> int:
        """The first offset of the first segment on the disk."""
        return self._log.segments.base_offsets[0]

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._log.log_end_offset

    @property
    def is_tiered(self) -> bool:
        """Whether local retention deletes here what the archive has."""
        return self._log.config.remote_storage_enable

    def closed_segments(self) -> Sequence[ClosedSegment]:
        """Return those below the last stable offset, and flush them.

        A crash may lose what is not on the disk yet, and other records then get its offsets; or
        let the last closed segment grow, which the archive has as it is.
        """
        bases = self._log.segments.base_offsets
        stable = self._log.last_stable_offset
        closed = [ClosedSegment(*one) for one in pairwise(bases) if one[1] <= stable]
        if closed:
            is_known = closed == self._flushed  # still, other records may have the same offsets
            # What the archive has may leave the disk, and with it what else they are made of.
            with suppress(CorruptMessage):  # the copy ends at the damage, and names it
                self._log.make_snapshots(one.end_offset for one in closed)
            flush = self._log.flush_up_to if is_known else self._log.flush_closed
            flush(closed[-1].end_offset)
            self._flushed = closed
        return closed


def _settings_of(topic: Topic) -> dict[str, str]:
    """Return the settings to archive with the records: a topic's own, and what decides deletion.

    A restored topic gets Kafka's defaults for all others, never those of the restoring process.
    """
    usual = birth_values(LogConfig.of_kafka())
    born = {
        name: one.value
        for name, one in topic.inherited.items()
        if name in DELETION_SETTINGS or one.value != usual.get(name)
    }
    return {**born, **topic.config}
