"""Partition directories renamed to ``-delete``, which are removed after a delay.

Kafka: ``LogManager.logsToBeDeleted`` and ``deleteLogs``.
"""

from __future__ import annotations

import logging
import os
from collections import deque
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.env.clock import NS_PER_MS
from tidelog.env.task_gate import TaskGate
from tidelog.errors import KafkaStorageError
from tidelog.log.directory_guard import may_pass
from tidelog.manager.manager_part import ManagerPart

if TYPE_CHECKING:
    from tidelog.env.files import FileSystem
    from tidelog.env.scheduler import Handle
    from tidelog.log.log import Log
    from tidelog.manager.manager_part import Shared

_log = logging.getLogger(__name__)

_AFTER_ERROR_MS: Final = 60_000


class _LogToDelete(NamedTuple):
    directory: str
    log: Log | None
    since_ms: int
    """By a clock that never goes back: what was added first is due first."""


class DeletionQueue(ManagerPart):
    """The directories to be deleted, in the order in which they were added. ``_lock`` guards it.

    What a full disk or a lack of descriptors keeps from being deleted is tried again.
    """

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self._lock = Lock()
        self._queue: deque[_LogToDelete] = deque()
        self._handle: Handle | None = None
        self._gate = TaskGate()

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def delay_ms(self) -> int:
        """How long a directory waits, in ms, as of now."""
        return self._topics.delete_delay_ms

    def add(self, directory: str, log: Log | None = None) -> None:
        """Delete a directory, and the log that is open there, after the delay."""
        with self._lock:
            self._queue.append(_LogToDelete(directory, log, self._now_ms()))

    def _now_ms(self) -> int:
        return self._machine.clock.monotonic_ns() // NS_PER_MS

    def drop(self, data_directory: str) -> None:
        """Forget what lies in a data directory that failed."""
        with self._lock:
            kept = [w for w in self._queue if os.path.dirname(w.directory) != data_directory]
            dropped = [w for w in self._queue if w not in kept]
            self._queue = deque(kept)
        for waiting in dropped:
            if waiting.log is not None:
                waiting.log.close_handlers()

    def start(self, delay_ms: int) -> None:
        """Run the task ``kafka-delete-logs`` after ``delay_ms``, then as needed."""
        self._handle = self._machine.scheduler.schedule(
            "kafka-delete-logs", self._gate.guarded(self._run), delay_ms=max(delay_ms, 0)
        )

    def stop(self) -> None:
        """Stop the task, after the directory that it is deleting; the next start finds the rest."""
        if self._handle is not None:
            self._handle.cancel()
        self._gate.close()
        with self._lock:
            logs = [waiting.log for waiting in self._queue if waiting.log is not None]
        for log in logs:
            log.close_handlers()

    def delete_all(self) -> None:
        """Delete everything in the queue now, whatever the delay."""
        self._delete_each(None)

    def delete_due(self) -> int:
        """Delete what has waited long enough; return the ms until the next is due."""
        delay_ms = self.delay_ms
        is_complete = self._delete_each(delay_ms)
        with self._lock:
            if not is_complete:
                return max(delay_ms, _AFTER_ERROR_MS)
            if not self._queue:
                return max(delay_ms, 1)
            return max(self._queue[0].since_ms + delay_ms - self._now_ms(), 1)

    def _delete_each(self, delay_ms: int | None) -> bool:
        """Try once to delete each directory that is due; return False if some have to wait."""
        is_complete = True
        for _ in range(len(self._queue)):  # what is added meanwhile, as after an error, is later
            if delay_ms is not None and self._gate.is_closed:
                break
            if (waiting := self._take(delay_ms)) is None:
                break
            is_complete &= self._delete(waiting)
        return is_complete

    def _take(self, delay_ms: int | None) -> _LogToDelete | None:
        """Return the next entry if it is due; None as a delay means that all are."""
        with self._lock:
            if not self._queue:
                return None
            first = self._queue[0]
            if delay_ms is not None and first.since_ms + delay_ms > self._now_ms():
                return None
            return self._queue.popleft()

    def _run(self) -> None:
        next_ms = _AFTER_ERROR_MS
        try:
            next_ms = self.delete_due()
        finally:
            if not self._gate.is_closed:
                self.start(next_ms)

    def _delete(self, waiting: _LogToDelete) -> bool:
        """Delete a directory; return False if it waits again, for space or for a descriptor."""
        try:
            if waiting.log is not None:
                self._delete_log(waiting.log)
            remove_directory(self._machine.fs, waiting.directory)
            _log.info("log-deleted directory=%s", waiting.directory)
        except (KafkaStorageError, OSError) as error:
            _log.error("log-delete-failed directory=%s reason=%s", waiting.directory, error)
            if may_pass(error):
                if waiting.log is not None:
                    waiting.log.close_handlers()
                self.add(waiting.directory)
                return False
            if isinstance(error, OSError):
                self._log_dirs.note_error(os.path.dirname(waiting.directory), error)
        return True

    def _delete_log(self, log: Log) -> None:
        """Delete an open log; of one whose directory is a link, the files stay."""
        if self._machine.fs.is_link(log.directory):
            log.close_handlers()
        else:
            log.delete()


def remove_directory(fs: FileSystem, path: str, *, last: str = "") -> None:
    """Delete a partition directory with all that is in it; nothing if it is gone.

    A symbolic link, here or inside, is deleted as a link: nothing behind it is touched. ``last``:
    the name of the file that is deleted after all others.
    """
    with suppress(FileNotFoundError):
        if fs.is_link(path):
            fs.delete(path)
            return
        for name in sorted(fs.list(path), key=lambda name: name == last):
            entry = os.path.join(path, name)
            if not fs.is_link(entry) and fs.stat(entry).is_directory:
                remove_directory(fs, entry)
            else:
                fs.delete(entry)
        fs.delete_directory(path)
