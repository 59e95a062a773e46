"""The data directories of one process: which are online, which failed, which get no new logs.

Owns their opening (each made, checked, locked, identified) and their failing. Must not know logs.
Kafka: ``LogManager.createAndValidateLogDirs``, ``lockLogDirs``, ``loadDirectoryIds`` and
``LogDirFailureChannel``.
"""

from __future__ import annotations

import errno
import logging
import os
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING

from tidelog.config.broker_config import ALL_DIRS
from tidelog.datadir.offset_checkpoints import DirectoryCheckpoints
from tidelog.errors import DirectoryLocked, InvalidArgument, KafkaStorageError, LogDirNotFound
from tidelog.manager.directories.log_dir import LogDir

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from random import Random
    from uuid import UUID

    from tidelog.env.files import FileSystem

_log = logging.getLogger(__name__)


class LiveDir:
    """One locked data directory with its checkpoints."""

    def __init__(self, log_dir: LogDir, checkpoints: DirectoryCheckpoints) -> None:
        self.log_dir = log_dir
        self.checkpoints = checkpoints
        self.has_loaded = False
        """Whether every log in it was loaded, or there was none."""

    def __repr__(self) -> str:
        return f"LiveDir({self.path!r})"

    @property
    def path(self) -> str:
        """The directory."""
        return self.log_dir.path

    @property
    def directory_id(self) -> UUID:
        """What catalogues call it."""
        return self.log_dir.directory_id


class LiveDirs:
    """The configured directories, in order; those that failed leave and do not come back.

    ``_lock`` guards which are online and which are cordoned.

    Args:
        paths: absolute paths.
        fs: the disk.
        rng: for new ids.
        offline: directories that are known to have failed.

    Raises:
        DirectoryLocked: another process writes to one of them. None stays locked then.
        InvalidArgument: two are the same directory, have the same id, or belong to different
            clusters or nodes; or one is that of a partition.
        KafkaStorageError: none of them can be used.
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        fs: FileSystem,
        rng: Random,
        offline: Collection[str] = (),
    ) -> None:
        self.configured = tuple(paths)
        self._fs = fs
        self._lock = Lock()
        self._cordoned: frozenset[str] = frozenset()
        self._failures: dict[str, OSError | KafkaStorageError] = {}
        self._online: dict[str, LiveDir] = {}
        self._failed: list[LiveDir] = []
        self.on_offline: Callable[[], None] | None = None
        """Told that ``take_failed`` has something; on any thread, with any lock held."""
        self._seen: set[str] = set()
        try:
            for path in paths:
                if path in offline:
                    self._fail(path, OSError(errno.EIO, "failed before", path))
                else:
                    self._open(path, rng)
            self.check_any()
            self._check_identities()
        except BaseException:
            for opened in self._online.values():
                opened.log_dir.close(clean=False)
            raise

    def __iter__(self) -> Iterator[LiveDir]:
        """Yield those online, in the order of configuration."""
        with self._lock:
            return iter(list(self._online.values()))

    def __len__(self) -> int:
        return len(self._online)

    def get(self, path: str) -> LiveDir | None:
        """Return a directory if it is online."""
        return self._online.get(path)

    def with_id(self, directory_id: UUID | None) -> LiveDir | None:
        """Return the directory of this id if it is online."""
        return next((one for one in self if one.directory_id == directory_id), None)

    def check_any(self) -> None:
        """Raise KafkaStorageError if no directory is left."""
        if not self._online:
            raise KafkaStorageError(f"none of {', '.join(self.configured)} can be used")

    @property
    def failures(self) -> dict[str, OSError | KafkaStorageError]:
        """Why each directory that is offline is so."""
        with self._lock:
            return dict(self._failures)

    def is_online(self, path: str) -> bool:
        """Say whether a configured directory is in use; raise LogDirNotFound for another path."""
        if path not in self.configured:
            raise LogDirNotFound(f"{path} is no data directory; there is {self.configured}")
        return path in self._online

    def is_cordoned(self, path: str) -> bool:
        """Say whether the directory gets no new partitions."""
        return path in self._cordoned or ALL_DIRS in self._cordoned

    def cordon(self, paths: Collection[str]) -> None:
        """Let exactly these directories (``*``: all) get no new partitions."""
        self._cordoned = frozenset(paths)

    def take_offline(self, path: str, error: OSError | KafkaStorageError) -> LiveDir | None:
        """Put a directory out of use; return it, None if it was already.

        Whoever owns the logs takes them away later, see ``take_failed``: the caller may hold locks.
        """
        with self._lock:
            failed = self._online.pop(path, None)
            if failed is not None:
                self._failures[path] = error
                self._failed.append(failed)
        if failed is not None:
            _log.error("log-dir-offline directory=%s reason=%s", path, error)
            if self.on_offline is not None:
                self.on_offline()
        return failed

    def take_failed(self) -> list[LiveDir]:
        """Return the directories that failed since this was last asked."""
        with self._lock:
            failed, self._failed = self._failed, []
            return failed

    def _open(self, path: str, rng: Random) -> None:
        try:
            self._check_unseen(path)
            if not self._fs.exists(path):
                _log.info("Log directory %s not found, creating it.", path)
            like = next((one.log_dir.meta for one in self._online.values()), None)
            log_dir = LogDir(path, fs=self._fs, rng=rng, like=like)
        except (DirectoryLocked, InvalidArgument):
            raise
        except (OSError, KafkaStorageError) as error:
            self._fail(path, error)
            return
        try:
            checkpoints = DirectoryCheckpoints(self._fs, path, is_tolerant=True)
        except (OSError, KafkaStorageError) as error:
            log_dir.close(clean=False)
            self._fail(path, error)
            return
        self._online[path] = LiveDir(log_dir, checkpoints)

    def _check_unseen(self, path: str) -> None:
        # Another spelling that a link makes is found by the lock.
        real = os.path.normpath(path)
        if real in self._seen:
            raise InvalidArgument(f"Duplicate log directory found: {path}")
        self._seen.add(real)

    def _fail(self, path: str, error: OSError | KafkaStorageError) -> None:
        self._failures[path] = error
        _log.error("log-dir-offline directory=%s reason=%s", path, error)

    def _check_identities(self) -> None:
        """Raise InvalidArgument unless the directories belong together."""
        ids = [one.directory_id for one in self._online.values()]
        if len(set(ids)) < len(ids):
            raise InvalidArgument(f"two of {', '.join(self._online)} have the same directory.id")
        owners = {
            path: (one.log_dir.meta.cluster_id, one.log_dir.meta.node_id)
            for path, one in self._online.items()
        }
        if len(set(owners.values())) > 1:
            raise InvalidArgument(f"directories of different clusters or nodes: {owners}")


def release(live_dir: LiveDir) -> None:
    """Let go of a directory that failed, without writing to it."""
    with suppress(OSError, KafkaStorageError):
        live_dir.log_dir.close(clean=False)
