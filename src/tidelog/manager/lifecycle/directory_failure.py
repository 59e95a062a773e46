"""What becomes of the logs of a directory whose disk failed, while the others go on.

Owns the order of letting go. Must not know how the failure was met. Kafka:
``LogManager.handleLogDirFailure``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tidelog.errors import KafkaStorageError
from tidelog.manager.directories.live_dirs import release
from tidelog.segment.filenames import TopicPartition

if TYPE_CHECKING:
    from tidelog.log.log import Log
    from tidelog.manager.directories.live_dirs import LiveDir
    from tidelog.manager.parts import Parts

_log = logging.getLogger(__name__)


def handle_failures(parts: Parts) -> None:
    """Take the logs of directories that failed out of service; say so if no directory is left."""
    for failed in parts.dirs.take_failed():
        _let_go(parts, failed)
        parts.bell.ring()
    if not len(parts.dirs) and parts.on_halt is not None:
        parts.on_halt()


def _let_go(parts: Parts, failed: LiveDir) -> None:
    """Close what is open in a directory without writing, and give its lock up."""
    reason = parts.dirs.failures.get(failed.path)
    error = KafkaStorageError(f"{failed.path} is offline: {reason}")
    gone = parts.logs.in_directory(failed.path)
    for key, log in gone.items():
        _end(parts, TopicPartition(*key), log, error)
        log.close_handlers()
    parts.doomed.drop(failed.path)
    release(failed)
    _log.warning("log-dir-failed directory=%s logs=%d", failed.path, len(gone))


def _end(parts: Parts, key: TopicPartition, log: Log, error: KafkaStorageError) -> None:
    partition = parts.logs.partition(key)
    if partition is not None and partition.log is log:
        parts.logs.remove(key)
        partition.end(error)
    else:
        parts.logs.remove_future(key)
