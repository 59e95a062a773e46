"""Logs that were deleted: their directories are named ``-delete``, and go after a delay.

Owns the queue and the removal. Must not know topics. Kafka: ``LogManager.logsToBeDeleted`` and
``deleteLogs``.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from tidelog.errors import KafkaStorageError
from tidelog.log.directory_guard import NO_SPACE

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.env.clock import Clock
    from tidelog.env.files import FileSystem
    from tidelog.env.scheduler import Handle, Scheduler
    from tidelog.log.log import Log

_log = logging.getLogger(__name__)


class _Doomed(NamedTuple):
    directory: str
    log: Log | None
    since_ms: int


class DoomedLogs:
    """The queue of directories to be deleted. ``_lock`` guards it.

    ``delay_ms`` is asked at each pass, so that a change of the setting holds at once.
    """

    def __init__(
        self,
        *,
        fs: FileSystem,
        clock: Clock,
        scheduler: Scheduler,
        delay_ms: Callable[[], int],
        on_failure: Callable[[str, OSError], None],
    ) -> None:
        self._fs = fs
        self._clock = clock
        self._scheduler = scheduler
        self._delay_ms = delay_ms
        self._on_failure = on_failure
        self._lock = Lock()
        self._queue: deque[_Doomed] = deque()
        self._handle: Handle | None = None
        self._is_stopped = False

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def directories(self) -> list[str]:
        """The directories that wait, the next one first."""
        with self._lock:
            return [doomed.directory for doomed in self._queue]

    def add(self, directory: str, log: Log | None = None) -> None:
        """Let a directory, and the log that is open there, go after the delay."""
        with self._lock:
            self._queue.append(_Doomed(directory, log, self._clock.now_ms()))

    def drop(self, data_directory: str) -> None:
        """Forget what lies in a directory that failed."""
        with self._lock:
            kept = [d for d in self._queue if os.path.dirname(d.directory) != data_directory]
            dropped = [d for d in self._queue if d not in kept]
            self._queue = deque(kept)
        for doomed in dropped:
            if doomed.log is not None:
                doomed.log.close_handlers()

    def start(self, delay_ms: int) -> None:
        """Let the task ``kafka-delete-logs`` run first after ``delay_ms``, then as needed."""
        self._handle = self._scheduler.schedule(
            "kafka-delete-logs", self._run, delay_ms=max(delay_ms, 0)
        )

    def stop(self) -> None:
        """Run no more; what waits is found by the next start."""
        self._is_stopped = True
        if self._handle is not None:
            self._handle.cancel()
        with self._lock:
            logs = [doomed.log for doomed in self._queue if doomed.log is not None]
        for log in logs:
            log.close_handlers()

    def delete_due(self) -> int:
        """Delete what has waited long enough; return the ms until the next one has."""
        delay_ms = self._delay_ms()
        while True:
            with self._lock:
                if not self._queue:
                    return max(delay_ms, 1)
                wait_ms = self._queue[0].since_ms + delay_ms - self._clock.now_ms()
                if wait_ms > 0:
                    return wait_ms
                doomed = self._queue.popleft()
            self._delete(doomed)

    def _run(self) -> None:
        next_ms = self.delete_due()
        if not self._is_stopped:
            self.start(next_ms)

    def _delete(self, doomed: _Doomed) -> None:
        try:
            if doomed.log is not None:
                self._delete_log(doomed.log)
            remove_directory(self._fs, doomed.directory)
            _log.info("log-deleted directory=%s", doomed.directory)
        except KafkaStorageError as error:
            _log.error("log-delete-failed directory=%s reason=%s", doomed.directory, error)
        except OSError as error:
            _log.error("log-delete-failed directory=%s reason=%s", doomed.directory, error)
            if error.errno not in NO_SPACE:
                self._on_failure(os.path.dirname(doomed.directory), error)

    def _delete_log(self, log: Log) -> None:
        """Delete an open log; of one whose directory is a link, the files stay."""
        if self._fs.is_link(log.directory):
            log.close_handlers()
        else:
            log.delete()


def remove_directory(fs: FileSystem, path: str) -> None:
    """Delete a partition directory with all that is in it; nothing if it is gone.

    A symbolic link, here or inside, is deleted as a link: nothing behind it is touched.
    """
    with suppress(FileNotFoundError):
        if fs.is_link(path):
            fs.delete(path)
            return
        for name in fs.list(path):
            entry = os.path.join(path, name)
            if not fs.is_link(entry) and fs.stat(entry).is_directory:
                remove_directory(fs, entry)
            else:
                fs.delete(entry)
        fs.delete_directory(path)
