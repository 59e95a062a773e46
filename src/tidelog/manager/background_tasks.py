"""The periodic work of a log manager. One pass is one call, so a test needs no thread.

Owns names, delays and periods, and what a pass does with a log that fails. Must not know how logs
delete or flush. Kafka: ``LogManager.cleanupLogs``, ``flushDirtyLogs``, the checkpoint tasks, and
``ReplicaManager.checkpointHighWatermarks``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from tidelog.errors import KafkaStorageError
from tidelog.log.directory_guard import NO_SPACE
from tidelog.manager.directories.disk_reserve import retain_by_percent
from tidelog.manager.lifecycle import move_requests
from tidelog.manager.lifecycle.disposal import sweep_staged

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tidelog.datadir.offset_checkpoints import DirectoryCheckpoints
    from tidelog.env.scheduler import Handle
    from tidelog.log.log import Log
    from tidelog.manager.parts import Parts

_log = logging.getLogger(__name__)
_NS_PER_MS = 1_000_000
_RESERVE_MS = 1000
_REQUESTS_MS = 1000


class ManagerTasks:
    """The background tasks; ``start`` schedules them, each can be run by hand."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._handles: list[Handle] = []

    def start(self) -> None:
        """Schedule all tasks with Kafka's names, delays and periods."""
        config = self._parts.config
        delay_ms = config.log_initial_task_delay_ms
        retention_ms = config.log_retention_check_interval_ms
        flush_ms = config.log_flush_scheduler_interval_ms
        _log.info("Starting log cleanup with a period of %d ms.", retention_ms)
        _log.info("Starting log flusher with a default period of %d ms.", flush_ms)
        recovery_ms = config.log_flush_offset_checkpoint_interval_ms
        start_ms = config.log_flush_start_offset_checkpoint_interval_ms
        watermark_ms = config.replica_high_watermark_checkpoint_interval_ms
        for name, task, first_ms, period_ms in (
            ("kafka-log-retention", self.cleanup_logs, delay_ms, retention_ms),
            ("kafka-log-flusher", self.flush_dirty_logs, delay_ms, flush_ms),
            (
                "kafka-recovery-point-checkpoint",
                self.checkpoint_recovery_points,
                delay_ms,
                recovery_ms,
            ),
            ("kafka-log-start-offset-checkpoint", self.checkpoint_log_starts, delay_ms, start_ms),
            ("tidelog-disk-reserve", self._parts.reserve.look, 0, _RESERVE_MS),
            ("tidelog-move-requests", self.answer_move_requests, 0, _REQUESTS_MS),
            ("highwatermark-checkpoint", self.checkpoint_high_watermarks, 0, watermark_ms),
        ):
            handle = self._parts.machine.scheduler.schedule(
                name, task, delay_ms=first_ms, period_ms=period_ms
            )
            self._handles.append(handle)

    def stop(self) -> None:
        """Let no pass begin any more."""
        handles, self._handles = self._handles, []
        for handle in handles:
            handle.cancel()

    def cleanup_logs(self) -> int:
        """Delete the segments that have expired by now, and return how many.

        Compacted logs are left to the cleaner, if there is one.
        """
        clock = self._parts.machine.clock
        now_ms, began_ns = clock.now_ms(), clock.monotonic_ns()
        _log.debug("Beginning log cleanup...")
        cleaner = self._parts.cleaner
        if cleaner is not None:
            chosen = cleaner.manager.pause_not_compacted()
        else:
            found = {key: part.log for key, part in self._parts.logs.partitions().items()}
            chosen = [(key, log) for key, log in found.items() if not log.config.is_compacted]
        try:
            total = 0
            futures = {(key[0], key[1]): log for key, log in self._parts.logs.futures().items()}
            for key, log in chosen:
                _log.debug("Garbage collecting '%s'", log.directory)
                total += _delete_old(log, now_ms)
                if (future := futures.get(key)) is not None:
                    _log.debug("Garbage collecting future log '%s'", future.directory)
                    total += _delete_old(future, now_ms)
        finally:
            if cleaner is not None:
                cleaner.manager.resume(key for key, _ in chosen)
        total += self._retain_by_percent(now_ms)
        self.sweep_staged()
        seconds = (clock.monotonic_ns() - began_ns) // _NS_PER_MS / 1000
        _log.debug("Log cleanup completed. %d files deleted in %s seconds", total, seconds)
        return total

    def _retain_by_percent(self, now_ms: int) -> int:
        """Keep each directory's logs within their share of the disk, if there is one."""
        percent = self._parts.config.tidelog_retention_disk_percent
        deleted = 0
        for home in self._parts.dirs if percent else ():
            try:
                free_bytes = self._parts.machine.fs.free_bytes(home.path)
            except OSError as error:
                self._parts.dirs.take_offline(home.path, error)
                continue
            logs = self._parts.logs.in_directory(home.path).values()
            deleted += retain_by_percent(home, logs, free_bytes, percent, now_ms)
        return deleted

    def answer_move_requests(self) -> None:
        """Begin the moves that other processes ask for."""
        move_requests.answer(self._parts)

    def sweep_staged(self) -> None:
        """Remove the staged files of writers that are gone."""
        retention_ms = self._parts.config.tidelog_staged_retention_ms
        machine = self._parts.machine
        now_ms = machine.clock.now_ms()
        for home in self._parts.dirs:
            try:
                sweep_staged(machine.fs, home.path, now_ms=now_ms, retention_ms=retention_ms)
            except OSError as error:
                self._parts.dirs.take_offline(home.path, error)

    def flush_dirty_logs(self) -> None:
        """Flush the logs whose last flush is ``flush.ms`` ago."""
        _log.debug("Checking for dirty logs to flush...")
        now_ms = self._parts.machine.clock.now_ms()
        for log in self._parts.logs.all_logs():
            if now_ms - log.last_flush_ms >= log.config.flush_ms:
                try:
                    log.flush()
                except KafkaStorageError as error:
                    _log.error("flush-failed directory=%s reason=%s", log.directory, error)

    def checkpoint_recovery_points(self) -> None:
        """Write down up to where each log is flushed."""
        self._write(lambda checkpoints, logs: checkpoints.write_recovery_points(logs))

    def checkpoint_log_starts(self) -> None:
        """Write down where logs start that start within a segment."""
        self._write(lambda checkpoints, logs: checkpoints.write_log_starts(logs))

    def checkpoint_high_watermarks(self) -> None:
        """Write down up to where readers see; readers of other processes go by this."""
        self._write(lambda checkpoints, logs: checkpoints.write_high_watermarks(logs))

    def _write(
        self, write: Callable[[DirectoryCheckpoints, Mapping[tuple[str, int], Log]], None]
    ) -> None:
        """Rewrite a file of each directory; one that fails goes offline, and the others go on."""
        for home in self._parts.dirs:
            try:
                write(home.checkpoints, self._parts.logs.in_directory(home.path))
            except OSError as error:
                _log.error("checkpoint-failed directory=%s reason=%s", home.path, error)
                if error.errno not in NO_SPACE:
                    self._parts.dirs.take_offline(home.path, error)


def _delete_old(log: Log, now_ms: int) -> int:
    try:
        return log.delete_old_segments(now_ms)
    except KafkaStorageError as error:
        # One bad disk must not stop the rest.
        _log.error("retention-failed directory=%s reason=%s", log.directory, error)
        return 0
