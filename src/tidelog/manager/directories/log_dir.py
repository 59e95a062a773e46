"""One data directory as a whole: its lock, its identity, its clean-shutdown file, its checkpoints.

Kafka: the parts of ``LogManager`` and ``MetaPropertiesEnsemble`` that keep ``.lock``,
``meta.properties`` and ``.kafka_cleanshutdown``.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tidelog.codec.uuid_text import format_uuid
from tidelog.datadir.least_epoch import LeastEpochFile
from tidelog.datadir.lock_file import LOCK_FILE
from tidelog.datadir.metadata_files import (
    CLEAN_SHUTDOWN_FILE,
    META_PROPERTIES_FILE,
    CleanShutdown,
    MetaProperties,
    read_clean_shutdown,
    read_meta_properties,
    write_clean_shutdown,
    write_meta_properties,
)
from tidelog.datadir.offset_checkpoints import DirectoryCheckpoints
from tidelog.datadir.partition_directories import (
    check_data_directory,
    is_directory,
    random_id,
)
from tidelog.env.paths import is_uri
from tidelog.env.renamed_files import delete_if_there
from tidelog.errors import CorruptFile, InvalidArgument, KafkaStorageError
from tidelog.segment.filenames import log_directory_name
from tidelog.store.store_uri import FILES, local_path, parse_store_uri

FAILED_DISK_FILE: Final = "tidelog.disk-failed"

if TYPE_CHECKING:
    from random import Random
    from uuid import UUID

    from tidelog.env.files import FileLock, FileSystem
    from tidelog.readonly.read_only_directory import ReadOnlyDirectory


class LogDir:
    """One locked data directory, held for writing by this process, with its offset checkpoints.

    The clean-shutdown file is removed before the first change. It comes back only if it was there
    (or there were no logs) and ``close`` is called with everything touched flushed and closed.

    Args:
        path: absolute path of the directory, made if missing.
        fs: the disk.
        rng: for a new ``directory.id``.
        like: names the cluster and node of a new directory; None: a cluster of its own.
        has_all_logs: whether every log in it will be loaded. Only then may a damaged checkpoint
            count as empty: a writer that loads a few logs would write zeros for all the others.

    Raises:
        DirectoryLocked: another process holds the directory.
        InvalidArgument: the path is that of one partition.
        KafkaStorageError: ``meta.properties``, a checkpoint or the least epoch cannot be read.
    """

    def __init__(
        self,
        path: str,
        *,
        fs: FileSystem,
        rng: Random,
        like: MetaProperties | None = None,
        has_all_logs: bool = True,
    ) -> None:
        self.path = path
        self.has_loaded_all = False
        """Whether every log in it has been loaded, or there was none."""
        self.doubted: set[str] = set()
        """The directories of logs that could not be loaded or closed, or may be half recovered.

        As long as there is one, the data directory is not clean.
        """
        self.was_clean = False
        self.had_failed = False
        """Whether its disk has failed in an earlier process, and not all logs were loaded since."""
        self.is_changing = False
        self._is_marked = True
        self._has_durable_names = False
        self._fs = fs
        self._rng = rng
        self._least: Final = LeastEpochFile(fs, path)
        make_directories(fs, path)
        check_data_directory(fs, path)
        was_left_locked = fs.exists(self._file(LOCK_FILE))
        lock = fs.lock(self._file(LOCK_FILE))
        self._lock: FileLock | None = lock
        try:
            shutdown = read_clean_shutdown(fs, self._file(CLEAN_SHUTDOWN_FILE))
            self.was_clean = shutdown is not None or not any(
                is_directory(fs, self._file(name)) for name in fs.list(path)
            )
            self.broker_epoch = -1 if shutdown is None else shutdown.broker_epoch
            self._is_marked = shutdown is not None
            self.had_failed = fs.exists(self._file(FAILED_DISK_FILE))
            self._least.read(was_left_locked=was_left_locked and not self.was_clean)
            self.meta = self._identify(rng, like)
            self.checkpoints = DirectoryCheckpoints(fs, path, is_tolerant=has_all_logs)
        except BaseException:
            with suppress(OSError):
                self._unlock(lock)
            raise

    def __repr__(self) -> str:
        return f"LogDir({self.path!r})"

    def begin_change(self) -> None:
        """Remove the clean-shutdown file, durably; call this before any change to a log."""
        if self.is_changing and self._has_durable_names:
            return
        if not self.is_changing:
            self._least.begin(self._rng, was_clean=self.was_clean)
        if self._is_marked:
            with suppress(FileNotFoundError):  # an interrupt came right after it was deleted
                self._fs.delete(self._file(CLEAN_SHUTDOWN_FILE))
            self._is_marked = False
        # Without a mark too: a process that was killed may have left entries that are not durable.
        self._fs.sync_directory(self.path)
        self.is_changing = self._has_durable_names = True

    @property
    def least_epoch(self) -> int:
        """The leader epoch that appends to its logs have at least, once it is being changed."""
        return self._least.epoch

    def doubt_names(self) -> None:
        """Let the next ``begin_change`` sync the directory: new entries may not be durable."""
        self._has_durable_names = False

    @property
    def directory_id(self) -> UUID:
        """The ``directory.id``, which distinguishes this directory from all others."""
        assert self.meta.directory_id is not None
        return self.meta.directory_id

    def join(self, other: MetaProperties) -> bool:
        """Take the cluster and node of another directory, durably; False if they are its own."""
        meta = replace(self.meta, cluster_id=other.cluster_id, node_id=other.node_id)
        if meta == self.meta:
            # A process that was killed may have written it, and not made its name durable.
            self._fs.sync_directory(self.path)
            return False
        write_meta_properties(self._fs, self._file(META_PROPERTIES_FILE), meta)
        self.meta = meta
        return True

    def close(self, *, clean: bool) -> None:
        """Release the lock.

        ``clean``: every log touched is flushed and closed. The directory is then marked clean if it
        was so before, or if every log in it has been loaded; else it is noted that no record that
        readers saw is lost.
        """
        lock = self._lock
        if lock is None:
            return
        try:
            self.checkpoints.close()
            is_clean = clean and not self.doubted and (self.was_clean or self.has_loaded_all)
            if is_clean and not self._is_marked:
                self._least.keep()
                mark = CleanShutdown(broker_epoch=self.broker_epoch)
                write_clean_shutdown(self._fs, self._file(CLEAN_SHUTDOWN_FILE), mark)
            elif clean and self.is_changing and not self._is_marked:
                self._least.close()
        finally:
            self._unlock(lock)

    def _unlock(self, lock: FileLock) -> None:
        try:
            # While it is held, as Java does; so nobody locks a file without a name. That of another
            # program stays until another least epoch is written.
            if self.is_changing or not self._least.is_outlived:
                with suppress(FileNotFoundError):
                    self._fs.delete(self._file(LOCK_FILE))
        finally:
            # First: after the release the file may be another's, which a second call would delete.
            self._lock = None
            lock.release()

    def note_failure(self) -> None:
        """Let a later process know that a sync may have failed, as far as the disk takes that.

        It need not be durable: after a power cut no bytes are left that only seem to be written.
        """
        with suppress(OSError, KafkaStorageError):
            self._fs.write(self._file(FAILED_DISK_FILE), b"")

    def note_all_loaded(self) -> None:
        """Note that all logs in it were loaded."""
        self.has_loaded_all = True
        if self.had_failed and not self.doubted:
            delete_if_there(self._fs, self._file(FAILED_DISK_FILE))
            self.had_failed = False

    def release(self) -> None:
        """Release the lock of a directory that failed, without a clean-shutdown file."""
        with suppress(OSError, KafkaStorageError):
            self.close(clean=False)

    def _file(self, name: str) -> str:
        return os.path.join(self.path, name)

    def path_of(self, topic: str, partition: int) -> str:
        """Return where the log of a partition lies in it."""
        return os.path.join(self.path, log_directory_name(topic, partition))

    def _identify(self, rng: Random, like: MetaProperties | None) -> MetaProperties:
        """Return the directory's identity; assign an id, and a cluster, where it has none."""
        path = self._file(META_PROPERTIES_FILE)
        known = read_meta_properties(self._fs, path)
        if known is not None and known.directory_id is not None:
            return known
        if known is not None and known.is_nameless:
            raise CorruptFile(f"{path} names neither a cluster nor a node: it is damaged")
        if known is None:
            known = new_identity(rng, like)
        named = known.with_directory_id(random_id(rng))
        write_meta_properties(self._fs, path, named)
        return named


def new_identity(rng: Random, like: MetaProperties | None) -> MetaProperties:
    """Return the identity of a new directory: the cluster and node of another, where it has them.

    Its own id is still to be assigned.
    """
    cluster_id = None if like is None else like.cluster_id
    node_id = None if like is None else like.node_id
    return MetaProperties(
        cluster_id=cluster_id or format_uuid(random_id(rng)),
        node_id=1 if node_id is None else node_id,
    )


def check_outside(source: ReadOnlyDirectory, fs: FileSystem, target: str) -> None:
    """Raise InvalidArgument unless the directories of a source lie apart from a path on ``fs``.

    Nor may one of these be the directory of one partition.
    """
    for path in source.paths:
        check_data_directory(source.fs, path)
        check_apart(path, fs, target)


def check_apart(source: str, fs: FileSystem, target: str) -> None:
    """Raise InvalidArgument if a path lies in a source, a directory or an archive, or around it."""
    place = source
    if is_uri(source):
        uri = parse_store_uri(source)
        if uri.kind != FILES:
            return
        place = local_path(uri)
    there, here = fs.real_path(place), fs.real_path(target)
    if is_inside(here, there):
        raise InvalidArgument(f"{target} is in the source, {source}: name a place outside of it")
    if is_inside(there, here):
        # What is made there would take the source for one of its own directories.
        raise InvalidArgument(f"{target} contains the source, {source}: name a place beside it")


def is_inside(path: str, directory: str) -> bool:
    """Whether a path is a directory, or anywhere in it; both without links."""
    return os.path.join(path, "").startswith(os.path.join(directory, ""))


def make_directories(fs: FileSystem, path: str) -> None:
    """Make a directory and those above it, each durably; nothing if it exists.

    Raises InvalidArgument if one of those above is a file.
    """
    missing = []
    while not fs.exists(path):
        missing.append(path)
        path = os.path.dirname(path)
    if missing and not fs.stat(path).is_directory:
        raise InvalidArgument(f"{path} is a file, not a directory")
    for made in reversed(missing):
        fs.make_directory(made)
        # Else all that is synced below it later could vanish with its name in a power cut.
        fs.sync_directory(os.path.dirname(made))
