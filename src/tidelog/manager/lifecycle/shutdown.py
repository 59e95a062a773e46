"""The end of a log manager: logs flushed and closed, checkpoints, marks, locks.

Owns the order. Must not know tasks. Kafka: ``LogManager.shutdown``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tidelog.errors import KafkaStorageError
from tidelog.manager.directories.live_dirs import release

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidelog.log.log import Log
    from tidelog.manager.directories.live_dirs import LiveDir
    from tidelog.manager.parts import Parts

_log = logging.getLogger(__name__)


def close_directories(parts: Parts, threads: int, broker_epoch: int) -> None:
    """Close all logs, each directory on ``threads`` threads, and leave the directories in order.

    A directory where anything fails keeps no mark of a clean shutdown; the others do.
    """
    live = list(parts.dirs)
    jobs = [_job(parts, home, threads, broker_epoch) for home in live]
    parts.machine.scheduler.run_all("log-closing", jobs, len(jobs))


def _job(parts: Parts, home: LiveDir, threads: int, broker_epoch: int) -> Callable[[], None]:
    return lambda: _close_directory(parts, home, threads, broker_epoch)


def _close_directory(parts: Parts, home: LiveDir, threads: int, broker_epoch: int) -> None:
    logs = parts.logs.in_directory(home.path)
    jobs = [_closer(log) for log in logs.values()]
    try:
        closed = parts.machine.scheduler.run_all(f"log-closing-{home.path}", jobs, threads)
        if all(closed):
            home.checkpoints.write(logs)
            home.log_dir.broker_epoch = broker_epoch
            home.log_dir.close(clean=True, all_loaded=home.has_loaded)
    except (OSError, KafkaStorageError) as error:
        _log.warning("directory-not-marked-clean directory=%s reason=%s", home.path, error)
    finally:
        release(home)


def _closer(log: Log) -> Callable[[], bool]:
    def close() -> bool:
        try:
            log.flush(force=True)
            log.close()
        except KafkaStorageError as error:
            _log.warning("log-not-closed directory=%s reason=%s", log.directory, error)
            log.close_handlers()
            return False
        return True

    return close
