"""Closing one log in order at the end of a process, as a job for a pool of threads."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tidelog.errors import KafkaStorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.log.log import Log

_log = logging.getLogger(__name__)


def log_closer(log: Log) -> Callable[[], KafkaStorageError | None]:
    """Return a job that flushes and closes a log, and returns the error if that failed."""

    def close() -> KafkaStorageError | None:
        try:
            log.flush(force=True)
            log.close()
        except KafkaStorageError as error:
            _log.warning("log-not-closed directory=%s reason=%s", log.directory, error)
            log.close_handlers()
            return error
        return None

    return close
