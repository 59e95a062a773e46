"""Leaving data directories in order: logs closed, offsets checkpointed, marked clean, unlocked.

Kafka: ``LogManager.shutdown``.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from tidelog.errors import KafkaStorageError
from tidelog.manager.lifecycle.log_closer import close_log
from tidelog.manager.manager_part import ManagerPart

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from tidelog.log.log import Log
    from tidelog.manager.directories.log_dir import LogDir
    from tidelog.manager.manager_part import Shared

    Failure = OSError | KafkaStorageError

_log = logging.getLogger(__name__)


class DirectoryCloser(ManagerPart):
    """Closes all directories. A directory where anything fails is not marked clean; others are.

    Every lock is held until all logs are closed and ``tidy_up`` has returned: what is left of
    deleted topics, say, may lie in several directories.

    Args:
        shared: has the directories, and threads for them and for the logs of each.
        logs_in: returns the open logs of a directory.
        checkpoint: writes the offsets of the logs of a directory.
        tidy_up: called with the directories that closed without an error, before they are marked.
        threads: how many close the logs of one directory.
    """

    def __init__(
        self,
        shared: Shared,
        *,
        logs_in: Callable[[str], Mapping[tuple[str, int], Log]],
        checkpoint: Callable[[LogDir], None],
        tidy_up: Callable[[Collection[LogDir]], None],
        threads: int,
    ) -> None:
        super().__init__(shared)
        self._logs_in = logs_in
        self._checkpoint = checkpoint
        self._tidy_up = tidy_up
        self._threads = threads

    def close(self) -> list[Failure]:
        """Close everything and release every lock; return the errors."""
        live = list(self._log_dirs)
        errors: list[Failure] = []
        closed: list[LogDir] = []
        try:
            closed = self._for_each(live, self._close_logs, errors)
            try:
                self._tidy_up(closed)
            except (OSError, KafkaStorageError) as error:
                errors.append(error)
                for changed in [one for one in closed if one.is_changing]:
                    _log_unmarked(changed, error)
                    closed.remove(changed)
            self._for_each(closed, self._mark, errors)
        finally:
            for one in live:
                one.release()
            errors += self._close_failed(live)
        return errors

    def _for_each(
        self, log_dirs: Collection[LogDir], act: Callable[[LogDir], None], errors: list[Failure]
    ) -> list[LogDir]:
        """Do something with each directory, at the same time; return those without an error."""

        def is_done_with(log_dir: LogDir) -> bool:
            try:
                act(log_dir)
            except (OSError, KafkaStorageError) as error:
                _log_unmarked(log_dir, error)
                errors.append(_not_closed(log_dir, error))
                return False
            return True

        jobs = [partial(is_done_with, one) for one in log_dirs]
        done = self._machine.scheduler.run_all("log-closing", jobs, len(jobs))
        return [one for one, is_done in zip(log_dirs, done, strict=True) if is_done]

    def _close_logs(self, log_dir: LogDir) -> None:
        logs = self._logs_in(log_dir.path).values()
        # Marked as clean, the directory would hide what keeps such a log from taking appends.
        log_dir.doubted.update(log.directory for log in logs if log.contradiction is not None)
        jobs = [partial(close_log, log) for log in logs]
        name = f"log-closing-{log_dir.path}"
        failed = self._machine.scheduler.run_all(name, jobs, self._threads)
        first = next((error for error in failed if error is not None), None)
        if first is not None:
            raise first
        self._checkpoint(log_dir)

    def _mark(self, log_dir: LogDir) -> None:
        log_dir.close(clean=self._log_dirs.get(log_dir.path) is log_dir)

    def _close_failed(self, live: Collection[LogDir]) -> list[Failure]:
        """Close what lies in directories that failed and were not closed before."""
        errors: list[Failure] = []
        for failed in self._log_dirs.take_failed():
            logs = self._logs_in(failed.path)
            if logs and failed not in live:
                errors.append(self._log_dirs.offline_error(failed.path))
            for log in logs.values():
                log.close_handlers()
            failed.release()
        return errors


def _not_closed(log_dir: LogDir, error: Failure) -> KafkaStorageError:
    """Return the error of a directory that was not closed as it should be, with its path."""
    if isinstance(error, KafkaStorageError):
        return error
    failure = KafkaStorageError(
        f"closing {log_dir.path} failed: {error}; it is not marked as clean, so the next start"
        " checks its logs"
    )
    failure.__cause__ = error
    return failure


def _log_unmarked(log_dir: LogDir, error: Failure) -> None:
    _log.warning("directory-not-marked-clean directory=%s reason=%s", log_dir.path, error)
