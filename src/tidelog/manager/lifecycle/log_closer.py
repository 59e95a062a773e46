"""Closing one log in order at the end of a process."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tidelog.errors import KafkaStorageError

if TYPE_CHECKING:
    from tidelog.log.log import Log

_log = logging.getLogger(__name__)


def close_log(log: Log) -> KafkaStorageError | None:
    """Flush and close a log; return the error if that failed."""
    try:
        log.flush(force=True)
        log.close()
    except KafkaStorageError as error:
        _log.warning("log-not-closed directory=%s reason=%s", log.directory, error)
        log.close_handlers()
        return error
    return None
