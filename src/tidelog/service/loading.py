"""Loading all logs at start, on a pool of threads per data directory.

Kafka: ``LogManager.loadLogs`` and ``loadLog``.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.datadir.catalogue import METADATA_TOPIC
from tidelog.datadir.partition_directories import is_directory, survey
from tidelog.env.clock import NS_PER_MS
from tidelog.env.files import WRONG_KIND
from tidelog.errors import KafkaStorageError, StartAborted, TidelogError
from tidelog.log.directory_guard import PASSING, lacks_resources
from tidelog.log.loading.load_watch import LoadWatcher
from tidelog.manager.lifecycle.directory_closer import DirectoryCloser
from tidelog.manager.lifecycle.load_progress import LoadProgress
from tidelog.manager.manager_part import ManagerPart
from tidelog.segment.filenames import (
    TopicPartition,
    is_delete_directory,
    is_future_directory,
    is_log_file,
    is_stray_directory,
    is_suffixed_directory,
    log_directory_name,
    parse_topic_partition,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tidelog.log.loading.load_watch import RecoveryProgress
    from tidelog.log.log import Log
    from tidelog.manager.directories.log_dir import LogDir
    from tidelog.manager.lifecycle.log_opener import LogOpener
    from tidelog.manager.manager_part import Shared

_log = logging.getLogger(__name__)


_PARALLEL_LOG_BYTES: Final = 16 << 20
"""Bytes to check in an average log from which a second thread pays. Of logs of 3 MB two threads
load fewer a second than one: measured with ``benchmarks/start_up.py``."""


class FoundLog(NamedTuple):
    """A log as it was found: the partition, where, and opened."""

    key: TopicPartition
    log_dir: LogDir
    log: Log


@dataclass
class LoadedLogs:
    """What was found in all directories, by kind."""

    current: list[FoundLog] = field(default_factory=list)
    future: list[FoundLog] = field(default_factory=list)
    to_delete: list[str] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)


class _Watcher(LoadWatcher):
    """Reports to the progress how many segments one thread has still to check.

    ``check`` is called between segments and between the pieces of a segment. What it raises ends
    the recovery of the log, which is left as after a crash.
    """

    def __init__(
        self, progress: LoadProgress, directory: str, thread: int, check: Callable[[], None]
    ) -> None:
        self._progress = progress
        self._directory = directory
        self._thread = thread
        self._check = check

    def progressed(self, progress: RecoveryProgress) -> None:
        """Take note of how much is checked, and check whether to continue."""
        self._progress.checked(self._directory, self._thread, progress.done_bytes)
        self._check()

    def recovering(self, directory: str, segments_left: int) -> None:
        """Take note of how many are left of the log that this thread is at."""
        del directory
        self._check()
        self._progress.segments_left(self._directory, self._thread, segments_left)


class LogLoading(ManagerPart):
    """Loads the logs of all directories, each directory on up to ``threads`` threads of its own.

    Kernels check bytes beside each other; what goes around them is Python, which does not. So one
    thread loads a directory of small logs, or of logs that need no check.
    """

    def __init__(
        self,
        shared: Shared,
        opener: LogOpener,
        *,
        threads: int,
        should_stop: Callable[[], bool],
    ) -> None:
        super().__init__(shared)
        self._opener = opener
        self._homes = {
            TopicPartition(topic.name, number): home
            for topic in shared.topics.all().values()
            for number, home in topic.partitions.items()
        }
        self._listed = {log_directory_name(*key) for key in self._homes}
        self._threads = threads
        self._should_stop = should_stop
        self._lock = Lock()
        self._loaded = LoadedLogs()
        self._unclean: list[str] = []
        self.progress = LoadProgress()

    def run(self) -> LoadedLogs:
        """Load everything.

        A directory whose disk fails is taken offline. A log that cannot be loaded for another
        reason, such as a full disk, is noted in the registry as failed. The others are loaded
        all the same.

        Raises:
            KafkaStorageError: file descriptors or memory ran out; that says nothing about a disk.
            StartAborted: ``should_stop`` returned True. What was loaded is closed then as at the
                end of a process, so that the next start need not recover it again.
        """
        began = self._machine.clock.monotonic_ns()
        live = list(self._log_dirs)
        _log.info("Loading logs from log dirs %s", [one.path for one in live])
        jobs = [partial(self._load_directory, one) for one in live]
        try:
            self._machine.scheduler.run_all("log-loading", jobs, len(jobs))
        except StartAborted:
            self._close_in_order()
            raise
        except BaseException:
            self.close_all()
            raise
        spent_ms = (self._machine.clock.monotonic_ns() - began) // NS_PER_MS
        count = len(self._loaded.current) + len(self._loaded.future)
        unclean = f" (unclean log dirs = {sorted(self._unclean)})" if self._unclean else ""
        _log.info("Loaded %d logs in %dms%s", count, spent_ms, unclean)
        return self._loaded

    def _load_directory(self, one: LogDir) -> None:
        try:
            is_clean = one.was_clean
            one.begin_change()
            names = list(self._partition_directories(one.path))
            self._check()
            sizes = {} if is_clean else {name: self._size(one.path, name) for name in names}
        except OSError as error:
            if lacks_resources(error):
                raise KafkaStorageError(f"loading {one.path}: {error}") from error
            _log.error("Error while loading log dir %s: %s", one.path, error)
            self._log_dirs.take_offline(one.path, error)
            return
        self._log_recovery(one.path, len(names), is_clean=is_clean)
        self.progress.add(one.path, len(names), sum(sizes.values()))
        free = list(range(self._threads))
        for thread in free:
            self.progress.segments_left(one.path, thread, 0)
        # Where there are fewer logs than threads, several check one log.
        each = max(self._threads // max(len(names), 1), 1)
        jobs = [
            partial(self._load_one, one, name, sizes.get(name, 0), free, each) for name in names
        ]
        is_worth_it = sum(sizes.values()) >= len(names) * _PARALLEL_LOG_BYTES
        threads = self._threads if is_worth_it else 1
        self._machine.scheduler.run_all(f"log-recovery-{one.path}", jobs, threads)
        one.note_all_loaded()

    def _log_recovery(self, path: str, count: int, *, is_clean: bool) -> None:
        if not count:
            _log.info("No logs found to be loaded in %s", path)
        elif is_clean:
            text = "Skipping recovery of %d logs from %s since clean shutdown file was found"
            _log.info(text, count, path)
        else:
            text = "Recovering %d logs from %s since no clean shutdown file was found"
            _log.info(text, count, path)
            self._unclean.append(path)

    def _load_one(
        self, one: LogDir, name: str, size_bytes: int, free: list[int], threads: int
    ) -> None:
        thread, log = free.pop(), None
        began = self._machine.clock.monotonic_ns()
        try:
            self._check()
            if self._log_dirs.get(one.path) is one:
                watcher = _Watcher(self.progress, one.path, thread, self._check)
                log = self._load(one, name, watcher, threads)
            self.progress.checked(one.path, thread, 0)
            done = self.progress.done(one.path, size_bytes)
            if log is not None:
                spent_ms = (self._machine.clock.monotonic_ns() - began) // NS_PER_MS
                _log.info(
                    "Completed load of %s with %d segments, local-log-start-offset %d and"
                    " log-end-offset %d in %dms (%d/%d completed in %s)",
                    *(log, len(log.segments), log.local_log_start_offset, log.log_end_offset),
                    *(spent_ms, *done, one.path),
                )
        finally:
            self.progress.segments_left(one.path, thread, 0)
            free.append(thread)

    def _load(self, one: LogDir, name: str, watcher: LoadWatcher, threads: int) -> Log | None:
        path = os.path.join(one.path, name)
        if is_delete_directory(name) or is_stray_directory(name):
            with self._lock:
                chosen = is_delete_directory(name)
                (self._loaded.to_delete if chosen else self._loaded.strays).append(path)
            return None
        _log.debug("Loading log %s", path)
        key = parse_topic_partition(name)
        # Where the catalogue names its directory a copy is the log, if there is no other.
        is_log = not is_future_directory(name) or self._homes.get(key) == one.directory_id
        if (reason := self._log_dirs.links.why_foreign(path)) is not None:
            _log.error("log-not-loaded directory=%s reason=%s", path, reason)
            if is_log:
                self._registry.fail(key, KafkaStorageError(f"{path} is left alone: {reason}"))
            return None
        try:
            log = self._opener.load(one, key, path, watcher, threads=threads)
        except TidelogError as error:
            cause = error.__cause__
            if isinstance(error, StartAborted) or lacks_resources(error):
                one.doubted.add(path)  # its files may be half recovered, and nobody closes them
                raise
            if isinstance(cause, OSError) and cause.errno not in PASSING:
                _log.error("Error while loading log dir %s: %s", one.path, error)
                self._log_dirs.take_offline(one.path, cause)
            else:
                _log.error("log-not-loaded directory=%s reason=%s", path, error)
                one.doubted.add(path)
                if is_log:
                    self._registry.fail(key, error)
            return None
        except BaseException:
            one.doubted.add(path)  # its files may be half recovered, and nobody closes them
            raise
        with self._lock:
            is_future = is_future_directory(name)
            found = self._loaded.future if is_future else self._loaded.current
            found.append(FoundLog(key, one, log))
        return log

    def _partition_directories(self, path: str) -> Iterator[str]:
        """Yield the names of the directories of logs, those that wait for deletion included.

        Left out are those that are not adopted, which a warning has named, and Kafka's own log.
        """
        surveyed = survey(self._machine.fs, path, listed=self._listed, links=self._log_dirs.links)
        live = {log_directory_name(*key) for key in surveyed.live if key.topic != METADATA_TOPIC}
        live |= self._listed & surveyed.foreign.keys()  # loading them reports why they are not used
        for name in sorted(self._machine.fs.list(path)):
            if name in live or (
                is_suffixed_directory(name)
                and is_directory(self._machine.fs, os.path.join(path, name))
            ):
                yield name

    def _size(self, path: str, name: str) -> int:
        self._check()
        directory = os.path.join(path, name)
        files = filter(is_log_file, self._machine.fs.list(directory))
        return sum(self._file_size(os.path.join(directory, file)) for file in files)

    def _file_size(self, path: str) -> int:
        try:
            return self._machine.fs.stat(path).size_bytes
        except OSError as error:
            if error.errno not in WRONG_KIND:
                raise
            return 0  # a link to nothing: loading the log reports it

    def _check(self) -> None:
        if self._should_stop():
            raise StartAborted("asked to stop while logs were loaded")

    def _close_in_order(self) -> None:
        """Flush and close what was loaded, write how far that is, and unlock the directories."""
        found = [*self._loaded.current, *self._loaded.future]

        def logs_in(path: str) -> dict[tuple[str, int], Log]:
            return {one.key: one.log for one in found if one.log_dir.path == path}

        def checkpoint(log_dir: LogDir) -> None:
            # Not the high watermarks: nobody has raised those of the logs since they were loaded.
            logs = logs_in(log_dir.path)
            _log.info("log-loading-stopped directory=%s logs=%d", log_dir.path, len(logs))
            log_dir.checkpoints.write_recovery_points(logs)

        closer = DirectoryCloser(
            self.shared,
            logs_in=logs_in,
            checkpoint=checkpoint,
            tidy_up=lambda _: None,
            threads=self._threads,
        )
        closer.close()

    def close_all(self) -> None:
        """Close what was opened: the start has failed."""
        for found in (*self._loaded.current, *self._loaded.future):
            found.log.close_handlers()
