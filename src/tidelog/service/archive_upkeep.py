"""Keeps the archives of all logs whose topics have ``remote.storage.enable=true``.

One pass is one call. Kafka: ``RemoteLogManager``.
"""

from __future__ import annotations

import logging
import re
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.archive.claim_file import claim_file, claims_among, read_claim
from tidelog.archive.deleted_topic import end_archive, sweep_archive
from tidelog.errors import (
    ArchiveOvertaken,
    CleaningAborted,
    KafkaStorageError,
    StoreUnavailable,
    TidelogError,
)
from tidelog.manager.archiving import NewNames, check_place, why_not_archived
from tidelog.manager.log_archiver import SWEEP_MS, LogArchiver
from tidelog.manager.manager_part import ManagerPart
from tidelog.manager.metrics.counters import BROKER_TOPIC_METRICS
from tidelog.manager.metrics.metric import Metric, metrics_of, tags_of
from tidelog.service.move_pace import CopyThrottle
from tidelog.store.store_counts import STORE_COUNTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from uuid import UUID

    from tidelog.log.log import Log
    from tidelog.manager.log_archiver import ArchivePass
    from tidelog.manager.manager_part import Shared
    from tidelog.segment.filenames import TopicPartition

_log = logging.getLogger(__name__)

_VARYING: Final = re.compile(r"\w*\d[\w.-]*")
"""What differs each time in an error of a store: how long it was asked, and names of objects."""
_COUNTS: Final = (
    "RemoteCopyRequestsPerSec",
    "RemoteCopyBytesPerSec",
    "RemoteCopyErrorsPerSec",
    "RemoteDeleteRequestsPerSec",
)


class _Claim(NamedTuple):
    """The file of a log that has an archive; ``part``: topic id and partition."""

    data_dir: str
    part: tuple[UUID, int]

    def __str__(self) -> str:
        return f"{self.part[0]}-{self.part[1]}"


class Archiving(ManagerPart):
    """Copies and deletes for all logs of a manager; a pass runs on one thread at a time.

    ``should_stop`` is asked between parts of segments. ``_lock`` guards the counts.
    """

    def __init__(self, shared: Shared, should_stop: Callable[[], bool]) -> None:
        """Raise InvalidArgument if the settings name no archive's URI."""
        super().__init__(shared)
        config, uri = shared.config, shared.config().tidelog_archive_uri
        self._should_stop: Final = should_stop
        self._store: Final = shared.stores.opened(uri)
        check_place(uri, shared.log_dirs)
        self._archivers: dict[TopicPartition, LogArchiver] = {}
        self._names = NewNames(self._store, {})
        self._named: set[UUID] = set()
        """The topics whose names no other in the archive has."""
        self._reasons: dict[TopicPartition | _Claim, str] = {}
        """Why the last pass over a log, or over a claim, failed."""
        self._swept_ms: dict[tuple[_Claim, bool], int | None] = {}
        """When an archive that is continued no longer was swept last; None: nothing is left of it.

        The flag says whether its topic is deleted.
        """
        self._throttle: Final = CopyThrottle(
            shared.machine.clock, lambda: config().remote_log_manager_copy_max_bytes_per_second
        )
        self._lock = Lock()
        self._counts: dict[tuple[str, str], int] = {}

    def run(self) -> None:
        """Bring all archives up to date; what fails in one keeps the others from nothing."""
        logs = self._registry.logs()
        wanted = {key: log for key, log in logs.items() if log.config.remote_storage_enable}
        for key in self._archivers.keys() - wanted.keys():
            del self._archivers[key]
        ids = {(log.topic_id, key.partition): key for key, log in logs.items()}
        found = {claim: ids.get(claim.part) for claim in self._claims()}
        settled = {claim: of for claim, of in found.items() if of not in wanted}
        # First: a reader who finds the archive of a deleted topic, and that of a new one of its
        # name, has an error.
        for claim, of in settled.items():
            self._try(claim, partial(self._settle, claim, of))
        new = {
            key.topic: log.topic_id
            for key, log in wanted.items()
            if log.topic_id is not None and log.topic_id not in self._named
        }
        self._names = NewNames(self._store, new)
        tasks = [partial(self._try, key, partial(self._archive, key)) for key in sorted(wanted)]
        threads = self._config().remote_log_manager_copier_thread_pool_size
        self._machine.scheduler.run_all("tidelog-archive", tasks, threads)
        for what in self._reasons.keys() - wanted.keys() - settled.keys():
            del self._reasons[what]
        for swept in [one for one in self._swept_ms if one[0] not in settled]:  # may be left again
            del self._swept_ms[swept]

    def metrics(self) -> Iterator[Metric]:
        """Yield how far the archives are, and what was done since the start."""
        gauges: dict[tuple[str, str], int] = {}
        waiting: list[int] = []
        for key, one in sorted(self._archivers.copy().items()):
            for name, value in one.sizes().items():
                gauges[name, key.topic] = gauges.get((name, key.topic), 0) + value
            since = one.waiting_since
            waiting += [] if since is None else [since]
            where = "kafka.log.remote", "RemoteLogManager"
            yield from metrics_of(*where, tags_of(key), one.shares())
        with self._lock:
            counts = dict(self._counts)
        for values, kind in ((gauges, "gauge"), (counts, "counter")):
            for (name, topic), value in sorted(values.items()):
                yield Metric(*BROKER_TOPIC_METRICS, name, (("topic", topic),), value, kind)
        use = STORE_COUNTS.now()
        for name, values_by_kind in (
            ("StoreRequestsCount", use.requests),
            ("StoreBytesCount", use.size_bytes),
        ):
            for kind_of_request, value in values_by_kind.items():
                tags = (("kind", kind_of_request),)
                yield Metric("tidelog", "Archive", name, tags, value, "counter")
        age_ms = max(self._machine.clock.now_ms() - min(waiting), 0) if waiting else 0
        sizes = {"OldestWaitingAgeMs": age_ms, "FailedLogsCount": len(self._reasons)}
        yield from metrics_of("tidelog", "Archive", (), sizes)

    def _try(self, what: TopicPartition | _Claim, task: Callable[[], None]) -> None:
        """Run a task; log why it fails, each reason once, and when it works again."""
        if self._should_stop():
            return
        try:
            task()
        except CleaningAborted:  # it is moved, deleted or closed: the next pass continues
            return
        except (TidelogError, OSError) as error:
            reason = str(error)
            if _VARYING.sub("#", self._reasons.get(what, "")) != _VARYING.sub("#", reason):
                passes = isinstance(error, StoreUnavailable | ArchiveOvertaken)
                level = logging.WARNING if passes else logging.ERROR
                _log.log(level, "archive-failed log=%s reason=%s", what, reason)
            self._reasons[what] = reason
            if not isinstance(what, _Claim):
                self._count(what.topic, "RemoteCopyErrorsPerSec", 1)
        else:
            if self._reasons.pop(what, None) is not None:
                _log.info("archive-works-again log=%s", what)

    @contextmanager
    def _exclusive(self, key: TopicPartition) -> Iterator[Callable[[], None]]:
        """As ``Cleaning.exclusive``; CleaningAborted at once for a partition that is moved.

        That may take hours, and a pass over many of them would wait for each.
        """
        if self._registry.future(key) is not None:
            raise CleaningAborted(f"{key} is being moved")
        with self._cleaning.exclusive(key) as check:
            yield check

    def _archive(self, key: TopicPartition) -> None:
        with self._exclusive(key) as check:
            log = self._registry.served(key).log
            if not log.config.remote_storage_enable:  # altered, or made again, during this pass
                return
            reason = why_not_archived(key.topic, log.config)
            if reason is not None:
                raise KafkaStorageError(f"{key}: {reason}")
            if log.topic_id is not None and log.topic_id not in self._named:
                self._names.check(key.topic)
                self._named.add(log.topic_id)
                check()  # the store may have taken long
            now_ms, before_part = self._machine.clock.now_ms(), partial(self._pace, check)
            self._report(key, self._archiver(key, log).run(now_ms, before_part))

    def _pace(self, check: Callable[[], None], size_bytes: int) -> None:
        """Wait until a part may be copied; ``check`` raises if the log is needed meanwhile."""
        check()
        while wait_ms := self._throttle.wait_ms():
            self._machine.sleep_ms(wait_ms)
            check()
        self._throttle.count(size_bytes)

    def _archiver(self, key: TopicPartition, log: Log) -> LogArchiver:
        known = self._archivers.get(key)
        if known is None or known.log is not log:
            known = self._archivers[key] = self._new_archiver(key, log)
        return known

    def _new_archiver(self, key: TopicPartition, log: Log) -> LogArchiver:
        topic = self._topics.get(key.topic)
        return LogArchiver(self._machine, self._store, log, topic, key.partition)

    def _report(self, key: TopicPartition, done: ArchivePass) -> None:
        for entry in done.copied:
            _log.info(
                "segment-archived topic=%s partition=%d base_offset=%d end_offset=%d bytes=%d",
                *(*key, entry.base_offset, entry.end_offset, entry.size_bytes),
            )
        for entry in done.removed:
            _log.info(
                "archived-segment-expired topic=%s partition=%d base_offset=%d end_offset=%d",
                *(*key, entry.base_offset, entry.end_offset),
            )
        self._count(key.topic, "RemoteCopyRequestsPerSec", len(done.copied))
        copied_bytes = sum(entry.size_bytes for entry in done.copied)
        self._count(key.topic, "RemoteCopyBytesPerSec", copied_bytes)
        self._count(key.topic, "RemoteDeleteRequestsPerSec", len(done.removed))

    def _count(self, topic: str, name: str, count: int) -> None:
        with self._lock:
            for each in _COUNTS:
                self._counts.setdefault((each, topic), 0)
            self._counts[name, topic] += count

    # What is archived no longer

    def _claims(self) -> Iterator[_Claim]:
        """Yield the claims of all logs; what they say is read by ``_settle``."""
        for path, names in self._log_dirs.listed():
            for part in claims_among(names):
                yield _Claim(path, part)

    def _settle(self, claim: _Claim, key: TopicPartition | None) -> None:
        """End what a claim is about, if its topic is deleted or archived no longer."""
        known = read_claim(self._machine.fs, claim_file(claim.data_dir, *claim.part))
        archive = known.archive or known.left
        if archive is None or archive.uri != self._store.name:
            return
        if key is None:
            end = partial(end_archive, self._machine, self._store, *claim)
            if known.is_deleted and self._sweep_if_due((claim, True), end):
                _log.info("archive-ended log=%s", claim)
        elif known.archive is not None:
            self._disable(key, claim.data_dir)
        else:
            self._sweep_if_due((claim, False), partial(self._sweep, key, claim))

    def _sweep_if_due(self, what: tuple[_Claim, bool], sweep: Callable[[], bool]) -> bool:
        """Sweep an archive, once an hour; return whether nothing is left of it since this time.

        A sweep reads all versions of the archive. Sweeping deleted topics in every pass would send
        more requests to the store than copying does.
        """
        now_ms, swept_ms = self._machine.clock.now_ms(), self._swept_ms.get(what, 0)
        if swept_ms is None or abs(now_ms - swept_ms) < SWEEP_MS:
            return False
        is_done = sweep()
        self._swept_ms[what] = None if is_done else now_ms
        return is_done

    def _sweep(self, key: TopicPartition, claim: _Claim) -> bool:
        """Delete what was removed a day ago from an archive that its log has left.

        Returns whether nothing is left of it.
        """
        with self._exclusive(key):
            if self._registry.served(key).log.data_dir != claim.data_dir:
                return False
            return sweep_archive(self._machine, self._store, *claim)

    def _disable(self, key: TopicPartition, data_dir: str) -> None:
        with self._exclusive(key):
            log = self._registry.served(key).log
            if log.data_dir != data_dir or log.config.remote_storage_enable:
                return
            self._report(key, self._new_archiver(key, log).disable())
            _log.info("archive-disabled topic=%s partition=%d", *key)
