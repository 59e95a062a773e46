"""The data directories of one process: which are online, which failed, which get no new logs.

Kafka: ``LogManager.createAndValidateLogDirs``, ``lockLogDirs``, ``loadDirectoryIds`` and
``LogDirFailureChannel``.
"""

from __future__ import annotations

import logging
import os
import shlex
from contextlib import contextmanager
from itertools import combinations
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from tidelog.codec.uuid_text import format_uuid
from tidelog.config.broker_config import ALL_DIRS
from tidelog.datadir.metadata_files import META_PROPERTIES_FILE
from tidelog.datadir.partition_directories import PartitionLinks
from tidelog.errors import (
    DirectoryLocked,
    InvalidArgument,
    InvalidReplicaAssignment,
    KafkaStorageError,
    LogDirNotFound,
    UnknownTopicOrPartition,
)
from tidelog.log.directory_guard import PASSING, is_interrupt, lacks_resources
from tidelog.manager.directories.log_dir import LogDir, is_inside

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from random import Random
    from uuid import UUID

    from tidelog.env.clock import Clock
    from tidelog.env.files import FileSystem
    from tidelog.log.log import Log
    from tidelog.segment.filenames import TopicPartition

_log = logging.getLogger(__name__)


class OfflineReason(NamedTuple):
    """Why a directory is offline, and since when, in ms."""

    error: OSError | KafkaStorageError
    since_ms: int


class LogDirs:
    """The configured directories, in order; those that failed are offline and do not come back.

    ``_lock`` guards which are online and which are cordoned.

    Args:
        paths: absolute paths.
        fs: the disk.
        clock: for when a directory failed.
        rng: for new ids.
        has_all_logs: see ``LogDir``.

    Raises:
        DirectoryLocked: another process writes to one of them. None stays locked then.
        InvalidArgument: two are the same directory, have the same id, or belong to different
            clusters or nodes; or one is a partition's directory, or lies in another.
        KafkaStorageError: none of them is usable; or file descriptors or memory ran out.
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        fs: FileSystem,
        clock: Clock,
        rng: Random,
        has_all_logs: bool = True,
    ) -> None:
        self.configured = tuple(paths)
        self.links = PartitionLinks(fs, paths, is_writer=True)
        self.on_offline: Callable[[], None] | None = None
        """Called when ``take_failed`` has something; on any thread, with any lock held."""
        self._fs = fs
        self._clock = clock
        self._rng = rng
        self._has_all_logs = has_all_logs
        self._lock = Lock()
        self._cordoned: frozenset[str] = frozenset()
        self._failures: dict[str, OfflineReason] = {}
        self._online: dict[str, LogDir] = {}
        self._failed: list[LogDir] = []
        _check_apart(paths)
        try:
            # New ones last: they get the cluster of the others, wherever they are named.
            for path in sorted(paths, key=self._is_new):
                self._open(path)
            self._online = {path: self._online[path] for path in paths if path in self._online}
            self.check_any()
            # Not before: an error that names them all says the same.
            for path, one in self._failures.items():
                _log.error("log-dir-offline directory=%s reason=%s", path, one.error)
            self._check_identities()
        except BaseException:
            self.release_all()
            raise

    def __iter__(self) -> Iterator[LogDir]:
        """Yield those online, in the order of configuration."""
        with self._lock:
            return iter(list(self._online.values()))

    def __len__(self) -> int:
        return len(self._online)

    def listed(self) -> Iterator[tuple[str, list[str]]]:
        """Yield those online with the names in them; one that cannot be listed goes offline.

        After an error of ``PASSING`` it is only left out.
        """
        for log_dir in self:
            try:
                names = self._fs.list(log_dir.path)
            except OSError as error:
                self.note_error(log_dir.path, error)
                continue
            yield log_dir.path, names

    def get(self, path: str) -> LogDir | None:
        """Return a directory if it is online."""
        return self._online.get(path)

    def online(self, path: str) -> LogDir:
        """Return a directory that is in use.

        Raises LogDirNotFound if it is not configured, KafkaStorageError with the reason if it is
        offline.
        """
        found = self.get(path) if self.is_online(path) else None
        if found is None:
            raise self.offline_error(path)
        return found

    def open_to_new(self, path: str) -> LogDir:
        """Return a directory that gets new logs.

        Raises InvalidReplicaAssignment for a cordoned one, and as ``online``.
        """
        found = self.online(path)
        if self.is_cordoned(path):
            raise InvalidReplicaAssignment(f"{path} is cordoned: it gets no new logs")
        return found

    def with_id(self, directory_id: UUID | None) -> LogDir | None:
        """Return the directory of this id if it is online."""
        return next((one for one in self if one.directory_id == directory_id), None)

    def of(self, log: Log) -> LogDir:
        """Return the directory that holds a log; raise KafkaStorageError if that has failed."""
        path = log.data_dir
        found = self.get(path)
        if found is None:
            raise self.offline_error(path)
        return found

    def not_here(
        self, key: TopicPartition, home_id: UUID, todo: str
    ) -> KafkaStorageError | UnknownTopicOrPartition:
        """Return the error for a partition whose directory is not in use; ``todo`` helps then."""
        if self.failures:
            return KafkaStorageError(f"{key} lies in a directory that is offline")
        return UnknownTopicOrPartition(
            f"{key} lies in the data directory with id {format_uuid(home_id)}, which is not open"
            f" here: {todo}"
        )

    def check_any(self) -> None:
        """Raise KafkaStorageError with the reasons if no directory is left."""
        if not self._online:
            errors = {path: one.error for path, one in self.failures.items()}
            reasons = [f"{path} is offline: {error}" for path, error in errors.items()]
            cause = next(iter(errors.values()), None)
            raise KafkaStorageError("; ".join(reasons)) from cause

    def offline_error(self, path: str) -> KafkaStorageError:
        """Return the error for the use of a directory that is offline."""
        reason = self.failures.get(path)
        return KafkaStorageError(f"{path} is offline: {reason and reason.error}")

    @property
    def failures(self) -> dict[str, OfflineReason]:
        """Why each offline directory is out of use, by its path."""
        with self._lock:
            return dict(self._failures)

    def check_online(self, what: str) -> None:
        """Raise KafkaStorageError if any directory is offline: ``what`` may lie there."""
        if self.failures:
            raise KafkaStorageError(
                f"{what} may lie in a directory that is offline: {', '.join(self.failures)}"
            )

    def is_online(self, path: str) -> bool:
        """Whether a configured directory is in use; raise LogDirNotFound for another path."""
        if path not in self.configured:
            known = ", ".join(self.configured)
            raise LogDirNotFound(f"{path} is not one of the data directories: {known}")
        return path in self._online

    def check_outside(self, path: str) -> None:
        """Raise InvalidArgument for a path in a configured directory, in use or not."""
        real = self._fs.real_path(path)
        for one in self.configured:
            if is_inside(real, self._fs.real_path(one)):
                raise InvalidArgument(f"{path} is in a data directory: name a place outside of it")

    def is_cordoned(self, path: str) -> bool:
        """Whether the directory gets no new partitions."""
        return path in self._cordoned or ALL_DIRS in self._cordoned

    def cordon(self, paths: Collection[str]) -> None:
        """Give no new partitions to exactly these directories (``*``: all)."""
        self._cordoned = frozenset(paths)

    def take_offline(self, path: str, error: OSError | KafkaStorageError) -> None:
        """Put a directory out of use; nothing if it is offline already.

        Its logs are closed later, see ``take_failed``: the caller may hold locks. An OSError that
        has no number is not the disk's: a program's handler of a signal may raise TimeoutError.
        """
        if isinstance(error, OSError) and error.errno is None:
            return
        with self._lock:
            failed = self._online.pop(path, None)
            if failed is not None:
                self._failures[path] = OfflineReason(error, self._clock.now_ms())
                self._failed.append(failed)
        if failed is not None:
            _log.error("log-dir-offline directory=%s reason=%s", path, error)
            if isinstance(error, OSError):
                failed.note_failure()
            if self.on_offline is not None:
                self.on_offline()

    def note_error(self, path: str, error: OSError) -> None:
        """Put a directory out of use for an error of its disk, unless it is one of ``PASSING``."""
        if error.errno not in PASSING:
            self.take_offline(path, error)

    def not_read(self, what: str, path: str, error: OSError | KafkaStorageError) -> None:
        """Put a directory out of use of which ``what`` cannot be read.

        Raises KafkaStorageError if file descriptors or memory ran out: that is not its fault.
        """
        if lacks_resources(error):
            raise KafkaStorageError(f"reading the {what} of {path}: {error}") from error
        self.take_offline(path, error)

    @contextmanager
    def failing(self, path: str, doing: str) -> Iterator[None]:
        """Raise an OSError of the body as KafkaStorageError; ``path`` goes offline unless full."""
        try:
            yield
        except OSError as error:
            if is_interrupt(error):
                raise
            self.note_error(path, error)
            raise KafkaStorageError(f"{doing} in {path} failed: {error}") from error

    def despite_failures(self, write: Callable[[], None]) -> None:
        """Write something; if a directory goes offline, write it again, to the others.

        Raises KafkaStorageError for another reason, or if no directory is left.
        """
        while True:
            online = len(self)
            try:
                write()
            except KafkaStorageError:
                if len(self) in {0, online}:
                    raise
            else:
                return

    def take_failed(self) -> list[LogDir]:
        """Return the directories that failed since the last call."""
        with self._lock:
            failed, self._failed = self._failed, []
            return failed

    def release_all(self) -> None:
        """Release every lock without marking anything clean: opening or starting failed."""
        for one in [*self, *self.take_failed()]:
            one.release()

    def _open(self, path: str) -> None:
        try:
            if not self._fs.exists(path):
                _log.info("Log directory %s not found, creating it.", path)
            like = next((one.meta for one in self._online.values()), None)
            self._online[path] = LogDir(
                path, fs=self._fs, rng=self._rng, like=like, has_all_logs=self._has_all_logs
            )
        except (DirectoryLocked, InvalidArgument):
            raise
        except (OSError, KafkaStorageError) as error:
            if lacks_resources(error):
                raise KafkaStorageError(f"opening {path}: {error}") from error
            self._failures[path] = OfflineReason(error, self._clock.now_ms())

    def _is_new(self, path: str) -> bool:
        try:
            return not self._fs.exists(os.path.join(path, META_PROPERTIES_FILE))
        except OSError:
            return False  # opening it takes it offline

    def _check_identities(self) -> None:
        """Raise InvalidArgument unless the directories belong together."""
        ids = [one.directory_id for one in self._online.values()]
        if len(set(ids)) < len(ids):
            raise InvalidArgument(
                f"two of {', '.join(self._online)} have the same directory.id: one is a copy of the"
                " other; name one of them"
            )
        owners = {
            path: (one.meta.cluster_id, one.meta.node_id) for path, one in self._online.items()
        }
        if len(set(owners.values())) > 1:
            named = "; ".join(
                f"{path} has cluster.id {cluster}, node.id {node}"
                for path, (cluster, node) in owners.items()
            )
            raise InvalidArgument(
                f"directories of different clusters or nodes: {named}. If they were created apart,"
                f" `tidelog join {shlex.join(owners)}` lets them belong together"
            )


def _check_apart(paths: Iterable[str]) -> None:
    """Raise InvalidArgument for two that are one, or one that lies in another; nothing is made.

    Kafka does not start on a directory that has another in it. Another spelling that a link makes
    is found by the lock.
    """
    for first, second in combinations(map(os.path.normpath, paths), 2):
        if first == second:
            raise InvalidArgument(f"Duplicate log directory found: {first}")
        if is_inside(first, second) or is_inside(second, first):
            inner, outer = sorted((first, second), key=len, reverse=True)
            raise InvalidArgument(f"{inner} is in {outer}: a data directory has no other in it")
