"""A running service's metrics in a file of each data directory, for other processes to read.

The file is ``tidelog.metrics.prom``, in the format that a node exporter's text-file collector
reads.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from tidelog.codec.checkpoint_file import TEMPORARY_SUFFIX, read_small_file
from tidelog.env.task_gate import TaskGate
from tidelog.errors import CorruptFile
from tidelog.manager.metrics.metric import as_prometheus, parse_prometheus

if TYPE_CHECKING:
    from tidelog.env.files import FileSystem
    from tidelog.env.scheduler import Handle
    from tidelog.manager.log_manager import LogManager

METRICS_FILE: Final = "tidelog.metrics.prom"
_INTERVAL: Final = "tidelog_log_manager_metrics_interval_ms"
_SLACK_MS: Final = 5000

_log = logging.getLogger(__name__)


class MetricsFiles:
    """Writes the metrics of a log manager into each of its directories, again and again."""

    def __init__(self, manager: LogManager) -> None:
        self._manager = manager
        self._handle: Handle | None = None
        self._gate = TaskGate()
        self._told: dict[str, str] = {}
        """Why a directory's file could not be written the last time."""

    def start(self) -> None:
        """Write now, and every ``tidelog.metrics.interval.ms``."""
        self.write()
        period_ms = self._manager.config.tidelog_metrics_interval_ms
        self._handle = self._manager.machine.scheduler.schedule(
            "tidelog-metrics", self.write, delay_ms=period_ms, period_ms=period_ms
        )

    def write(self) -> None:
        """Replace the files, if not stopped; a disk that does not take them stays in use."""
        self._gate.run(self._write)

    def _write(self) -> None:
        text = as_prometheus(self._manager.metrics()).encode()
        fs = self._manager.machine.fs
        for path in self._manager.live_dirs:
            if self._gate.is_closed:
                return
            temporary = os.path.join(path, METRICS_FILE + TEMPORARY_SUFFIX)
            try:
                fs.write(temporary, text)
                fs.rename(temporary, os.path.join(path, METRICS_FILE))
                self._told.pop(path, None)
            except OSError as error:
                if self._told.get(path) != str(error):
                    self._told[path] = str(error)
                    _log.warning("metrics-not-written directory=%s reason=%s", path, error)
                with suppress(OSError):
                    fs.delete(temporary)

    def stop(self) -> None:
        """Write no more, wait for what is being written, and remove the files, now out of date."""
        if self._handle is not None:
            self._handle.cancel()
        self._gate.close()
        fs = self._manager.machine.fs
        for path in self._manager.live_dirs:
            with suppress(OSError):
                fs.delete(os.path.join(path, METRICS_FILE))


def read_metrics_file(fs: FileSystem, data_directory: str, now_ms: int) -> str | None:
    """Return what a running service last wrote; None if none does, judging by its age."""
    path = os.path.join(data_directory, METRICS_FILE)
    try:
        text = read_small_file(fs, path).decode()
        age_ms = now_ms - fs.stat(path).mtime_ms
        found = {name: value for name, _, value in parse_prometheus(text)}
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise CorruptFile(f"{path} cannot be read: {error}") from error
    return text if age_ms <= _SLACK_MS + 3 * found.get(_INTERVAL, 0) else None
