"""Keeps the archive of one open log as the settings say: copies, deletes, and says how far it is.

Kafka: ``RemoteLogManager``, with its copy and expiration tasks of a partition.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.archive.claim_file import KnownArchive
from tidelog.archive.copier import Copier
from tidelog.log.archived import ArchivedOffsets
from tidelog.log.retention.retention_rules import SegmentFacts, expired
from tidelog.manager.archiving import OpenLog
from tidelog.manager.metrics.metric import in_percent

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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


def archived_facts(entry: Entry) -> SegmentFacts:
    """Return what retention asks about an archived segment; it is never asked when it begins."""
    largest = partial(int, entry.max_timestamp)
    return SegmentFacts(*entry[1:3], entry.size_bytes, False, largest, largest)


class LogArchiver:
    """Keeps the archive of one log; used by one thread at a time."""

    def __init__(
        self, machine: Machine, store: Objects, log: Log, topic: Topic, number: int
    ) -> None:
        self.log: Final = log
        self._machine = machine
        self._store = store
        self._copier: Final = Copier(
            machine.fs, store, OpenLog(log, topic, number), machine.rng, follows_start=True
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
        log, copier = self.log, self._copier
        config = log.config
        try:
            copied = copier.copy(before_part) if config.is_archived else self._follow()
            last = self._last_expired(now_ms)
            removed: Sequence[Entry] = ()
            if last is not None:
                # First there: else a reader would take a start that is only known here for a gap.
                removed = copier.delete_below(last.end_offset, last.reason)
            self._note()
            if last is not None:
                log.maybe_increment_log_start_offset(last.end_offset)
            return ArchivePass(tuple(copied), tuple(removed), self._sweep(now_ms))
        except BaseException:
            if log.archived is not None:
                log.note_archived(log.archived._replace(equal_end=0))
            raise

    def _last_expired(self, now_ms: int) -> DeletedSegment | None:
        """Return the last archived segment that has expired by the limits of the whole log."""
        log, state = self.log, self._copier.state
        archived_bytes = sum(entry.size_bytes for entry in state.entries)
        size_bytes = self._only_local_bytes() + archived_bytes
        facts = map(archived_facts, state.entries)
        due = expired(facts, log.config, now_ms, size_bytes=size_bytes, end=state.end)
        return due[-1] if due else None

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
        copier.remember(None)
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

    def _sweep(self, now_ms: int) -> int:
        if now_ms - self._swept_ms < SWEEP_MS:
            return 0
        self._swept_ms = now_ms
        return self._copier.sweep()
