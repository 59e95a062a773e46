"""The data directory as a whole: its lock, its identity, its mark of a clean shutdown.

Owns ``.lock``, ``meta.properties`` and ``.kafka_cleanshutdown``. Must not know the logs inside.
Kafka: the parts of ``LogManager`` and ``MetaPropertiesEnsemble`` that do the same.
"""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING, Final

from tidelog.codec.metadata_files import (
    CLEAN_SHUTDOWN_FILE,
    META_PROPERTIES_FILE,
    RESERVED_DIRECTORY_IDS,
    CleanShutdown,
    MetaProperties,
    format_uuid,
    read_clean_shutdown,
    read_meta_properties,
    write_clean_shutdown,
    write_meta_properties,
)
from tidelog.staging.staged_file import is_staged_name

if TYPE_CHECKING:
    from random import Random
    from uuid import UUID

    from tidelog.env.files import FileLock, FileSystem

LOCK_FILE: Final = ".lock"


class LogDir:
    """One locked data directory, held for writing by this process.

    The mark of a clean shutdown is taken away before the first change, and comes back only if it
    was there (or the directory was new) and the caller says that all it touched is closed.
    """

    def __init__(self, path: str, *, fs: FileSystem, rng: Random) -> None:
        self.path = path
        self._fs = fs
        made = not fs.exists(path)
        fs.make_directory(path)
        if made:
            fs.sync_directory(os.path.dirname(path))
        self._lock: FileLock | None = fs.lock(os.path.join(path, LOCK_FILE))
        try:
            # Staged files may come before the first commit makes the directory one of logs.
            is_new = all(name == LOCK_FILE or is_staged_name(name) for name in fs.list(path))
            shutdown = read_clean_shutdown(fs, self._file(CLEAN_SHUTDOWN_FILE))
            self.was_clean = is_new or shutdown is not None
            self._broker_epoch = -1 if shutdown is None else shutdown.broker_epoch
            self._is_marked = shutdown is not None
            self.directory_id = self._identify(rng)
        except BaseException:
            self._lock.release()
            raise

    def begin_change(self) -> None:
        """Take the mark of a clean shutdown away, durably; call before any change to a log."""
        if self._is_marked:
            self._fs.delete(self._file(CLEAN_SHUTDOWN_FILE))
            self._fs.sync_directory(self.path)
            self._is_marked = False

    def close(self, *, clean: bool) -> None:
        """Release the lock; ``clean`` says that every log touched is flushed and closed."""
        if self._lock is None:
            return
        try:
            if clean and self.was_clean and not self._is_marked:
                mark = CleanShutdown(broker_epoch=self._broker_epoch)
                write_clean_shutdown(self._fs, self._file(CLEAN_SHUTDOWN_FILE), mark)
                self._is_marked = True
        finally:
            # Java deletes the file while it holds the lock; so nobody locks a file without a name.
            lock, self._lock = self._lock, None
            self._fs.delete(self._file(LOCK_FILE))
            lock.release()

    def _file(self, name: str) -> str:
        return os.path.join(self.path, name)

    def _identify(self, rng: Random) -> UUID:
        """Return the ``directory.id``; give the directory one where it has none."""
        path = self._file(META_PROPERTIES_FILE)
        known = read_meta_properties(self._fs, path)
        if known is not None and known.directory_id is not None:
            return known.directory_id
        directory_id = random_id(rng)
        if known is None:
            known = MetaProperties(cluster_id=format_uuid(random_id(rng)), node_id=1)
        write_meta_properties(self._fs, path, known.with_directory_id(directory_id))
        return directory_id


def random_id(rng: Random) -> UUID:
    """Return a random (version 4) id that is not one of the reserved ones."""
    made = uuid.UUID(int=rng.getrandbits(128), version=4)
    return random_id(rng) if made in RESERVED_DIRECTORY_IDS else made
